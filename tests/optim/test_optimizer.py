"""What every optimizer shares: groups, state dicts, hooks, versions, and updates that are recorded."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.devices.cpu import provider
from adjoint.optim import optimizer as rooms
from tests.oracle import needs_torch, torch

NAMES = ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD",
         "Adafactor", "LBFGS", "Muon"]  # fmt: skip
ELEMENTWISE = NAMES[:-3]
OPTIONS: dict[str, dict[str, Any]] = {"SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True},
                                      "RMSprop": {"centered": True, "momentum": 0.1}}  # fmt: skip


def params(module: Any, dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (2, 2)]
    return [
        module.tensor(rng.normal(size=s).tolist(), dtype=getattr(module, dtype), requires_grad=True) for s in shapes
    ]


def run(optimizer: Any, ps: list[Any], steps: int = 3) -> None:
    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum(((p - 0.5) ** 2).sum() for p in ps)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def values(ps: list[Any]) -> list[Any]:
    return [np.array(p.detach().tolist()) for p in ps]


def made(module: Any, name: str, ps: list[Any]) -> Any:
    return getattr(module.optim, name)(ps, **OPTIONS.get(name, {}))


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_layout_and_words_are_torchs(name: str) -> None:
    runs = []
    for module in (adjoint, torch):
        ps = params(module)
        o = made(module, name, ps)
        run(o, ps)
        runs.append((ps, o))
    (ours, o), (theirs, other) = runs
    for a, b in zip(values(ours), values(theirs)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert repr(o) == repr(other)
    mine, torchs = o.state_dict(), other.state_dict()
    assert mine["param_groups"] == torchs["param_groups"]
    assert list(mine["param_groups"][0]) == list(torchs["param_groups"][0])
    assert list(mine["state"]) == list(torchs["state"])
    for number, state in torchs["state"].items():
        assert set(mine["state"][number]) == set(state)
        for key, value in state.items():
            ours_value = mine["state"][number][key]
            if hasattr(value, "dtype"):
                assert (str(ours_value.dtype).split(".")[1], tuple(ours_value.shape)) == (
                    str(value.dtype).split(".")[1], tuple(value.shape)
                ), key  # fmt: skip


def from_torch(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: from_torch(v) for k, v in value.items()}
    if isinstance(value, list):
        return [from_torch(v) for v in value]
    return adjoint.from_numpy(value.numpy().copy()) if hasattr(value, "numpy") else value


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_a_state_dict_of_torch_goes_on(name: str) -> None:
    theirs = params(torch, "float64")
    other = made(torch, name, theirs)
    run(other, theirs)
    ours = [adjoint.tensor(p.tolist(), dtype=adjoint.float64, requires_grad=True) for p in theirs]
    o = made(adjoint, name, ours)
    o.load_state_dict(from_torch(other.state_dict()))
    run(o, ours)
    run(other, theirs)
    for a, b in zip(values(ours), values(theirs)):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=2e-4 if name == "Muon" else 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_round_trips(name: str) -> None:
    ps = params(adjoint)
    o = made(adjoint, name, ps)
    run(o, ps)
    # A state dict shares its tensors with the optimizer, as torch's does.
    saved, start = copy.deepcopy(o.state_dict()), [p.detach().clone().requires_grad_() for p in ps]
    run(o, ps)
    resumed = made(adjoint, name, start)
    resumed.load_state_dict(saved)
    run(resumed, start)
    for a, b in zip(values(ps), values(start)):
        np.testing.assert_array_equal(a, b)
    for again in (copy.deepcopy(o), pickle.loads(pickle.dumps(o))):
        assert repr(again) == repr(o)
        assert len(again.state) == len(o.state)
        run(again, again.param_groups[0]["params"], 1)


@needs_torch
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_complex_parameters_are_pairs_of_numbers(name: str) -> None:
    start = np.random.default_rng(0).normal(size=(3, 2, 2))
    results = []
    for module in (adjoint, torch):
        p = module.view_as_complex(module.tensor(start)).clone().requires_grad_()
        o = made(module, name, [p])
        for _ in range(10):
            o.zero_grad()
            ((p - (0.5 + 0.2j)).abs() ** 2).sum().backward()
            o.step()
        results.append(np.array(p.detach().tolist()))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-9)


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam", "RMSprop", "Adadelta", "Adagrad"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_follows_single(name: str, dtype: str) -> None:
    half, single = params(adjoint, dtype), params(adjoint)
    for ps in (half, single):
        run(made(adjoint, name, ps), ps, 5)
    for a, b in zip(values(half), values(single)):
        np.testing.assert_allclose(a, b, atol=0.05)


def test_strided_parameters_and_gradients() -> None:
    rng = np.random.default_rng(1)
    start, grad = rng.normal(size=(40, 300)), rng.normal(size=(300, 40))
    plain = adjoint.tensor(start, requires_grad=True)
    turned = adjoint.tensor(start.T.copy()).T.requires_grad_()
    assert not turned.is_contiguous()
    for p in (plain, turned):
        p.grad = adjoint.tensor(grad).T
        o = adjoint.optim.Adam([p])
        o.step()
        o.step()
    np.testing.assert_allclose(plain.detach().numpy(), turned.detach().numpy(), rtol=1e-14)


# --- Recorded updates -------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if n != "SGD"])
def test_gradients_through_a_step(name: str) -> None:
    """The gradient of what a step gives, with respect to parameter and gradient."""
    results = []
    for module in (adjoint, torch):
        p = module.tensor([1.0, -2.0, 0.5], dtype=module.float64, requires_grad=True)
        g = module.tensor([0.3, -0.7, 0.2], dtype=module.float64, requires_grad=True)
        q = p.clone()
        o = getattr(module.optim, name)([q], lr=0.1, differentiable=True, **OPTIONS.get(name, {}))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
            q.grad = g
            o.step()
        results.append([x.tolist() for x in module.autograd.grad((q**2).sum(), [p, g])])
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)  # torch rounds a step's numbers to single precision


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if n != "Rprop"])
def test_gradients_through_two_steps(name: str) -> None:
    """Where torch refuses or detaches (its buffers are written in place), the true gradient."""

    def two_steps(p: Any, g: Any) -> Any:
        q = p.clone()
        o = getattr(adjoint.optim, name)([q], lr=0.1, differentiable=True, **OPTIONS.get(name, {}))
        for _ in range(2):
            q.grad = g * g + 0.1
            o.step()
        return q

    rng = np.random.default_rng(0)
    draws = [adjoint.tensor(rng.normal(size=3), requires_grad=True) for _ in range(2)]
    assert adjoint.autograd.gradcheck(two_steps, draws)


def test_gradient_of_a_learning_rate() -> None:
    lr = adjoint.tensor(0.1, dtype=adjoint.float64, requires_grad=True)
    p = adjoint.tensor([1.0, 2.0], dtype=adjoint.float64, requires_grad=True)
    q = p.clone()
    o = adjoint.optim.SGD([q], lr=lr, differentiable=True)
    q.grad = adjoint.tensor([3.0, 5.0], dtype=adjoint.float64)
    o.step()
    (slope,) = adjoint.autograd.grad(q.sum(), lr)
    assert float(slope) == -8.0


# --- Writes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_step_counts_as_a_write(name: str) -> None:
    ps = params(adjoint)
    o = made(adjoint, name, ps)
    before, identity = [p._version for p in ps], [id(p) for p in ps]
    loss = sum((p**3).sum() for p in ps)
    for p in ps:
        p.grad = adjoint.ones_like(p)

    def closure() -> Any:
        return adjoint.tensor(1.0)

    o.step(closure)
    assert all(p._version > b for p, b in zip(ps, before))
    assert [id(p) for g in o.param_groups for p in g["params"]] == identity
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_view_of_a_parameter_sees_the_step() -> None:
    p = adjoint.ones(3, requires_grad=True)
    view = p.detach()
    o = adjoint.optim.SGD([p], lr=1.0)
    p.grad = adjoint.ones(3)
    o.step()
    assert view.tolist() == [0, 0, 0]


# --- Hooks -------------------------------------------------------------------------------------------


def test_hooks() -> None:
    p = adjoint.ones(2, requires_grad=True)
    o = adjoint.optim.SGD([p], lr=1.0)
    seen: list[str] = []
    handles = [
        o.register_step_pre_hook(lambda o, a, k: seen.append("pre")),
        o.register_step_post_hook(lambda o, a, k: seen.append("post")),
        rooms.register_optimizer_step_pre_hook(lambda o, a, k: seen.append("all pre")),
        rooms.register_optimizer_step_post_hook(lambda o, a, k: seen.append("all post")),
    ]
    o.step()
    assert seen == ["all pre", "pre", "post", "all post"]
    for handle in handles:
        handle.remove()
    o.step()
    assert len(seen) == 4


def test_hooks_of_a_class_of_ones_own() -> None:
    class Mine(adjoint.optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            return "stepped"

    o = Mine([adjoint.ones(1, requires_grad=True)], {"lr": 1.0})
    seen: list[int] = []
    o.register_step_post_hook(lambda *a: seen.append(1))
    assert o.step() == "stepped" and seen == [1]


def test_state_dict_hooks() -> None:
    p = adjoint.ones(2, requires_grad=True)
    o = adjoint.optim.SGD([p], lr=1.0)
    order: list[str] = []
    o.register_state_dict_pre_hook(lambda o: order.append("pre"))
    o.register_state_dict_post_hook(lambda o, d: {**d, "extra": 1})
    o.register_load_state_dict_pre_hook(lambda o, d: order.append("second"))
    o.register_load_state_dict_pre_hook(lambda o, d: order.append("first"), prepend=True)
    o.register_load_state_dict_post_hook(lambda o: order.append("loaded"))
    saved = o.state_dict()
    assert saved["extra"] == 1
    o.load_state_dict(saved)
    assert order == ["pre", "first", "second", "loaded"]


# --- Groups and gradients ----------------------------------------------------------------------------


def test_names() -> None:
    layer = [("weight", adjoint.ones(2, requires_grad=True)), ("bias", adjoint.ones(1, requires_grad=True))]
    o = adjoint.optim.SGD(layer, lr=0.1)
    assert o.param_groups[0]["param_names"] == ["weight", "bias"]
    assert o.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_a_group_that_comes_later() -> None:
    p, q = (adjoint.ones(2, requires_grad=True) for _ in range(2))
    o = adjoint.optim.Adam([p], lr=0.1)
    o.add_param_group({"params": q, "lr": 0.5})
    (p.sum() + q.sum()).backward()
    o.step()
    assert p.tolist() == pytest.approx([0.9, 0.9]) and q.tolist() == pytest.approx([0.5, 0.5])


def test_zero_grad() -> None:
    p = adjoint.ones(2, requires_grad=True)
    o = adjoint.optim.SGD([p], lr=0.1)
    p.sum().backward()
    held = p.grad
    o.zero_grad(set_to_none=False)
    assert p.grad is held and held.tolist() == [0, 0]
    o.zero_grad()
    assert p.grad is None


def test_a_closure_records() -> None:
    p = adjoint.ones(2, requires_grad=True)
    o = adjoint.optim.SGD([p], lr=0.1)

    def closure() -> Any:
        loss = (p**2).sum()
        loss.backward()
        return loss

    with adjoint.no_grad():
        assert float(o.step(closure)) == 2.0
    assert p.tolist() == pytest.approx([0.8, 0.8])


def test_many_small_parameters_and_a_late_one() -> None:
    """Parameters that fall behind take their own corrections, packed or not."""
    ps = [adjoint.ones(3, requires_grad=True) for _ in range(4)]
    alone = adjoint.ones(3, requires_grad=True)
    o, single = adjoint.optim.Adam(ps), adjoint.optim.Adam([alone])
    for step in range(6):
        for i, p in enumerate(ps):
            p.grad = None if i == 3 and step < 2 else adjoint.full((3,), 0.1 * (step + 1))
        o.step()
        if step >= 2:
            alone.grad = ps[3].grad
            single.step()
    assert ps[3].tolist() == alone.tolist()
    assert [float(o.state[p]["step"]) for p in ps] == [6, 6, 6, 4]


@pytest.mark.parametrize(("name", "dtype"), [("SGD", "float32"), ("Adam", "float32"), ("Adam", "float64"),
                                             ("NAdam", "float32"), ("ASGD", "float32")])  # fmt: skip
def test_compiled_updates_are_the_same(name: str, dtype: str) -> None:
    """What Numba makes of an update agrees with NumPy to rounding, in every element of every block."""
    pytest.importorskip("numba", reason="compiled updates need Numba")
    rng = np.random.default_rng(0)
    start, grads = rng.normal(size=(300, 250)), rng.normal(size=(3, 300, 250))
    results = []
    for fast in (True, False):
        before = provider.allow(fast)
        try:
            p = adjoint.tensor(start, dtype=getattr(adjoint, dtype), requires_grad=True)
            options = {"momentum": 0.9, "nesterov": True} if name == "SGD" else {}
            o = getattr(adjoint.optim, name)([p], **options)
            for g in grads:
                p.grad = adjoint.tensor(g, dtype=p.dtype)
                o.step()
            results.append(p.detach().numpy())
        finally:
            provider.allow(before)
    np.testing.assert_allclose(*results, rtol=2e-6 if dtype == "float32" else 1e-13, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_large_parameters_are_updated_as_their_parts_are(dtype: str) -> None:
    """Whole, packed with others, converted: blocks of them are what small parameters are."""
    random = np.random.default_rng(0)
    shapes = [(300, 500), (7, 11), *[(90, 91)] * 20, (200_000,)]
    values, grads = ([random.normal(size=s).astype(dtype) for s in shapes] for _ in range(2))

    def steps(pieces: int) -> list[np.ndarray]:
        cut = [np.array_split(v.reshape(-1), pieces) for v in values]
        parameters = [[adjoint.nn.Parameter(adjoint.from_numpy(part.copy())) for part in parts] for parts in cut]
        for ps, g in zip(parameters, grads, strict=True):
            for p, part in zip(ps, np.array_split(g.reshape(-1), pieces), strict=True):
                p.grad = adjoint.from_numpy(part.copy())
        flat = [p for ps in parameters for p in ps]
        for optimizer in (adjoint.optim.Adam(flat, weight_decay=0.1), adjoint.optim.AdamW(flat, lr=0.1)):
            optimizer.step()
            optimizer.step()
        return [np.concatenate([p.detach().numpy() for p in ps]) for ps in parameters]

    before = provider.allow(False)
    try:
        for whole, parts in zip(steps(1), steps(40), strict=True):
            np.testing.assert_allclose(whole, parts, 1e-6)
    finally:
        provider.allow(before)


def test_loading_goes_by_names_where_there_are_any() -> None:
    def named(order: list[str]) -> tuple[Any, dict[str, Any]]:
        shapes = {"weight": (2, 3), "bias": (2,)}
        ps = {n: adjoint.ones(*shapes[n], requires_grad=True) for n in order}
        return adjoint.optim.Adam(ps.items()), ps

    o, ps = named(["weight", "bias"])
    (ps["weight"].sum() + 3 * ps["bias"].sum()).backward()
    o.step()
    other, others = named(["bias", "weight"])
    other.load_state_dict(o.state_dict())
    assert other.param_groups[0]["param_names"] == ["bias", "weight"]
    for name in ps:
        assert other.state[others[name]]["exp_avg"].tolist() == o.state[ps[name]]["exp_avg"].tolist()


def test_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    a, b = adjoint.ones(2, 3, requires_grad=True), adjoint.ones(2, requires_grad=True)
    o = adjoint.optim.Adam([a, b])
    (a.sum() + b.sum()).backward()
    o.step()
    turned = adjoint.optim.Adam([b, a])
    with pytest.raises(ValueError, match=r"'exp_avg' has shape .* matched by their order"):
        turned.load_state_dict(o.state_dict())
    assert not turned.state


def test_a_write_is_noticed_in_memory_that_came_later() -> None:
    ps = [adjoint.ones(3, requires_grad=True) for _ in range(2)]
    o = adjoint.optim.SGD(ps, lr=0.1)
    for p in ps:
        p.grad = adjoint.ones(3)
    o.step()
    for p in ps:
        p.data = adjoint.full((3,), 2.0)
    loss = sum((p**3).sum() for p in ps)
    o.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    loss = (ps[1] ** 3).sum()
    o.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


FUNCTIONS = {
    "adam": (3, {"amsgrad": True, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "maximize": False}),
    "sgd": (0, {"momentum": 0.9, "dampening": 0.5, "nesterov": False, "weight_decay": 0.1, "maximize": True}),
    "rmsprop": (3, {"alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0.5, "centered": True}),
}


@needs_torch
@pytest.mark.parametrize("name", FUNCTIONS)
def test_steps_as_functions_equal_torchs(name: str) -> None:
    count, options = FUNCTIONS[name]
    found = []
    for module in (torch, adjoint):
        function = getattr(importlib.import_module(f"{module.__name__}.optim.{name}"), name)
        rng = np.random.default_rng(0)
        ps = [module.tensor(rng.standard_normal((3, 2)))]
        kept: list[list[Any]] = [[module.zeros_like(ps[0])] for _ in range(count)] or [[None]]
        steps = [[module.zeros(())]] if count else []
        for _ in range(4):
            function(ps, [module.tensor(rng.standard_normal((3, 2)))], *kept, *steps, lr=0.01, **options)
        found.append(([np.asarray(t) for row in (ps, *kept, *steps) for t in row], inspect.signature(function)))
    (theirs, signature), (ours, own) = found
    assert list(own.parameters) == list(signature.parameters)
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_parameters_without_elements_can_be_stepped(name: str) -> None:
    layer = adjoint.nn.Linear(3, 4, device="meta")
    optimizer = getattr(adjoint.optim, name)(layer.parameters(), lr=0.1, **OPTIONS.get(name, {}))
    layer(adjoint.ones(2, 3, device="meta")).sum().backward()
    optimizer.step()
    kept = [v for v in optimizer.state[layer.weight].values() if v.ndim]
    assert layer.weight.is_meta and all(v.is_meta and v.shape == (4, 3) for v in kept)
