"""`explain`: one program per way of losing, zeroing, poisoning or blowing up a gradient, and what it must say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint


def leaf(*values: float) -> Any:
    return adjoint.tensor(values, requires_grad=True)


def line_of(function: Callable[..., Any], offset: int) -> str:
    return f"test_explain.py:{function.__code__.co_firstlineno + offset}"


def detached(x: Any) -> Any:
    y = x * 2
    return (y.detach() * 3).sum()


def by_data(x: Any) -> Any:
    return (x.data * 3).sum()


def unrecorded(x: Any) -> Any:
    with adjoint.no_grad():
        y = x * 2
    return (y + 1).sum()


def by_item(x: Any) -> Any:
    total = x.sum().item()
    return adjoint.tensor(total) * 2


def by_integers(x: Any) -> Any:
    return (x.long() * 2).sum().float()


def by_argmax(x: Any) -> Any:
    return x.argmax().float()


def by_numpy(x: Any) -> Any:
    array = np.sin(x.detach().numpy())
    return adjoint.from_numpy(array).sum()


def by_comparison(x: Any) -> Any:
    return (x > 0).float().sum()


class _Silent(adjoint.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return None


def by_function(x: Any) -> Any:
    return _Silent.apply(x).sum()


CUTS: dict[Callable[..., Any], tuple[int, str]] = {
    detached: (2, "detach()"),
    by_data: (1, ".data"),
    unrecorded: (2, "no_grad"),
    by_item: (1, "item()"),
    by_integers: (1, "integers"),
    by_argmax: (1, "integers"),
    by_numpy: (1, "numpy()"),
    by_comparison: (1, "booleans"),
    by_function: (1, "returned None"),
}


@pytest.mark.parametrize("function", CUTS, ids=lambda f: f.__name__)
def test_why_there_is_none(function: Callable[..., Any]) -> None:
    offset, word = CUTS[function]
    answer = adjoint.explain(function, leaf(1.0, 2.0))
    assert answer.status == "none"
    assert word in answer.text and line_of(function, offset) in answer.text, answer.text


@pytest.mark.parametrize("function", CUTS, ids=lambda f: f.__name__)
def test_a_watch_tells_the_same_afterwards(function: Callable[..., Any]) -> None:
    x = leaf(1.0, 2.0)
    with adjoint.explain.watch():
        loss = function(x)
    assert adjoint.explain(loss, x).text == adjoint.explain(function, x).text


def test_what_the_graph_alone_can_tell() -> None:
    from adjoint.explanation import watching

    watching.latest.clear()
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    assert "took it as a constant" in str(adjoint.explain((x.detach() * w).sum(), x))
    assert "no history" in str(adjoint.explain(x.detach().sum(), x))
    assert "No path" in str(adjoint.explain((w * 2).sum(), x))
    assert "does not require grad" in str(adjoint.explain((w * 2).sum(), adjoint.ones(2)))
    assert "integers" in str(adjoint.explain((w * 2).sum(), adjoint.arange(2)))


def test_unrelated_is_said_to_be() -> None:
    w = leaf(3.0)
    answer = adjoint.explain(lambda x: (w * 2).sum(), leaf(1.0))
    assert answer.status == "none" and "not computed from" in answer.text


ZEROS: dict[str, tuple[Callable[..., Any], str]] = {
    "relu": (lambda x: adjoint.relu(-x).sum(), "negative or zero"),
    "clamp": (lambda x: x.clamp(max=0.5).sum(), "outside the bounds"),
    "factor": (lambda x: (x * adjoint.zeros(2)).sum(), "other factor is zero"),
    "sign": (lambda x: x.sign().sum(), "zero everywhere"),
    "cancelled": (lambda x: (x - x).sum(), "cancels out"),
    "saturated": (lambda x: (x * 1000).sigmoid().sum(), "saturated"),
}


@pytest.mark.parametrize("name", ZEROS)
def test_why_it_is_zero(name: str) -> None:
    function, word = ZEROS[name]
    answer = adjoint.explain(function, leaf(1.0, 2.0))
    assert answer.status == "zero" and word in answer.text, answer.text
    if name != "cancelled":
        assert "test_explain.py:" in answer.text


NANS: dict[str, tuple[Callable[..., Any], str]] = {
    "log": (lambda x: ((x - 5).log() * x).sum(), "log at"),
    "sqrt": (lambda x: ((x - x).sqrt() * x).sum(), "SqrtBackward0"),
    "where": (lambda x: adjoint.where(x > 0, x, (x - 1).norm() * 0 + (x * 0).sqrt()).sum(), "infinite at zero"),
    "divided": (lambda x: ((x - x) / (x - x)).sum(), "div at"),
}


@pytest.mark.parametrize("name", NANS)
def test_why_it_is_nan(name: str) -> None:
    function, word = NANS[name]
    answer = adjoint.explain(function, leaf(1.0, 2.0))
    assert answer.status == "nan" and word in answer.text and "test_explain.py:" in answer.text, answer.text


def test_forward_nan_without_a_watch() -> None:
    from adjoint.explanation import watching

    x = leaf(1.0, 2.0)
    loss = ((x - 5).log() * x).sum()
    watching.latest.clear()
    assert "LogBackward0 at" in str(adjoint.explain(loss, x))


def test_huge_vanishing_infinite_fine() -> None:
    def chain(factor: float, times: int) -> Callable[[Any], Any]:
        def function(x: Any) -> Any:
            for _ in range(times):
                x = x * factor
            return x.sum()

        return function

    x = leaf(1.0, 2.0)
    huge, vanishing = adjoint.explain(chain(10.0, 8), x), adjoint.explain(chain(0.1, 12), x)
    assert huge.status == "huge" and "times 10" in huge.text
    assert vanishing.status == "vanishing" and "times 0.1" in vanishing.text
    assert adjoint.explain(lambda x: (x - x).sqrt().sum(), x).status in ("infinite", "nan")
    assert adjoint.explain(chain(2.0, 1), x).status == "fine"
    h = x * 2
    assert "retain_grad" in adjoint.explain(h.sum(), h).text


def test_a_freed_graph_is_named() -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    loss.backward()
    assert "freed" in str(adjoint.explain(loss, x))


def test_explaining_changes_nothing() -> None:
    x = leaf(1.0, 2.0)
    loss = (x * x).sum()
    adjoint.explain(loss, x)
    assert x.grad is None
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]


# What explain must not say: programs whose first answer was untrue, one for each cause.


def test_an_earlier_watch_says_nothing_of_a_later_loss() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0)
    adjoint.explain(lambda x: (x * 2).sum(), x)
    with adjoint.no_grad():
        loss = (x * 3).sum()
    answer = adjoint.explain(loss, x)
    assert answer.status == "none" and "not computed from" not in answer.text and "no_grad" in answer.text
    with adjoint.explain.watch():
        (w * 2).sum()
    assert adjoint.explain(loss, x).text == answer.text


def test_an_earlier_nan_is_not_the_reason_of_a_later_one() -> None:
    x = leaf(1.0, 2.0)
    adjoint.explain(lambda x: ((x - 5).log() * x).sum(), x)
    loss = ((x - x).sqrt() * x).sum()
    assert "log" not in adjoint.explain(loss, x).text


def test_what_a_watch_did_not_see_is_not_denied() -> None:
    x = leaf(1.0, 2.0)
    y = x.detach() * 2
    with adjoint.explain.watch():
        loss = (y * 3).sum()
    answer = adjoint.explain(loss, x).text
    assert "While it was watched" in answer and "it was computed from y (float32[2])" in answer, answer


def test_a_value_that_is_only_printed_is_no_cause() -> None:
    w = leaf(3.0)

    def logs(x: Any) -> Any:
        str(x.sum().item())
        return (w * 2).sum()

    assert "If the loss uses them" in adjoint.explain(logs, leaf(1.0)).text


def test_a_tensor_that_required_grad_too_late() -> None:
    x, w = adjoint.ones(2), leaf(3.0, 4.0)
    loss = (x * w).sum()
    assert "did not require grad yet" in adjoint.explain(loss, x.requires_grad_()).text


def test_a_neighbour_in_memory_is_not_the_tensor() -> None:
    buffer, w = adjoint.ones(4), leaf(3.0, 4.0)
    x, constant = buffer[:2].requires_grad_(), buffer[2:]
    assert "took it as a constant" not in adjoint.explain((constant * w).sum(), x).text


def scaled(factor: float, times: int, dtype: Any = None) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        x = x.to(dtype or x.dtype)
        for _ in range(times):
            x = x * factor
        return x.sum()

    return function


def test_underflow_is_not_a_zero_factor() -> None:
    answer = adjoint.explain(scaled(0.1, 60), leaf(1.0, 2.0))
    assert answer.status == "zero" and "underflow" in answer.text and "zero everywhere" not in answer.text, answer
    assert "float32 holds nothing below 1.4e-45" in answer.text
    half = adjoint.explain(scaled(0.01, 5, adjoint.float16), leaf(1.0, 2.0))
    assert "underflow" in half.text and "float16" in half.text
    assert (
        adjoint.explain(scaled(0.1, 60), adjoint.ones(2, dtype=adjoint.float64, requires_grad=True)).status
        == "vanishing"
    )


PARTLY: dict[str, tuple[Callable[..., Any], str, str]] = {
    "relu of mixed signs": (
        lambda x: (adjoint.relu(x - 1.5) * adjoint.tensor([1.0, 0.0])).sum(), "wherever a gradient", "every",
    ),
    "factor with one zero": (
        lambda x: (x * adjoint.tensor([0.0, 1.0]) * adjoint.tensor([1.0, 0.0])).sum(),
        "wherever a gradient",
        "everywhere",
    ),
    "softmax summed": (lambda x: adjoint.softmax(x * 0 + 1, 0).sum(), "cancel", "saturated"),
    "softmax saturated": (lambda x: adjoint.softmax(x * 1000, 0)[0], "saturated", "cancel it"),
    "zero matrix": (lambda x: (adjoint.zeros(3, 2) @ x).sum(), "", "factor"),
    "flat": (lambda x: x.floor().sum(), "derivative is zero everywhere", "underflow"),
    "sigmoid": (lambda x: (x * 1000).sigmoid().sum(), "0 or 1 exactly", "underflow"),
    "two paths": (lambda x: (adjoint.relu(-x) + x - x).sum(), "other paths cancels", "saturated"),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTLY)
def test_reasons_are_those_of_the_saved_values(name: str) -> None:
    function, said, unsaid = PARTLY[name]
    answer = adjoint.explain(function, leaf(1.0, 2.0))
    assert answer.status == "zero" and said in answer.text and unsaid not in answer.text, answer.text


def test_no_elements_is_said() -> None:
    assert "no elements" in adjoint.explain(lambda x: (x * 2).sum(), adjoint.zeros(0, requires_grad=True)).text


def test_many_small_steps_are_summed_by_line() -> None:
    answer = adjoint.explain(scaled(0.5, 40), leaf(1.0, 2.0))
    assert answer.status == "vanishing" and "times 0.5, 40 times" in answer.text, answer.text


def test_a_negative_base_is_not_called_infinite_at_zero() -> None:
    base = adjoint.tensor([-2.0])
    answer = adjoint.explain(lambda x: (base**x).sum(), leaf(2.0))
    assert answer.status == "nan" and "negative base" in answer.text, answer.text


def test_names_of_the_program_are_used() -> None:
    weight = leaf(1.0, 2.0)
    model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.ReLU(), adjoint.nn.Linear(3, 1))
    loss = model(adjoint.ones(1, 2)).sum()
    assert adjoint.explain(loss, weight).text.startswith("No path leads from the loss to weight (float32[2])")
    assert "model.2.bias (float32[1]) gets a gradient" in adjoint.explain(loss, model[2].bias).text


def test_a_result_is_not_called_an_input() -> None:
    y = leaf(1.0).exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="ExpBackward0 saved its result at"):
        y.sum().backward()
