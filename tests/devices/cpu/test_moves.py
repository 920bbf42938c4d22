"""Copies, order and indices of large arrays: what compiled loops do is what NumPy does, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as torch
from adjoint.devices.cpu import ordering, provider, sizes

F = torch.nn.functional
rng = np.random.default_rng(0)
X = rng.standard_normal((5, 97, 300)).astype(np.float32)


@pytest.fixture(params=["numpy", "fast"])
def chosen(request: Any, monkeypatch: Any) -> Iterator[str]:
    """Compute with one provider, small arrays as if they were large."""
    if request.param == "fast" and not provider.compiles():
        pytest.skip("Numba is not installed")
    monkeypatch.setattr(sizes, "COPY", 1)
    monkeypatch.setattr(sizes, "THREAD_COPY", 1 << 14)
    monkeypatch.setattr(provider, "ready", lambda: request.param == "fast")
    before = provider.allow(request.param == "fast")
    yield request.param
    provider.allow(before)


MOVED = {
    "clone": (lambda x: x.clone(), lambda x: x),
    "roll down": (lambda x: x.roll(-3, 1), lambda x: np.roll(x, -3, 1)),
    "roll along": (lambda x: x.roll(302, 2), lambda x: np.roll(x, 302, 2)),
    "flip down": (lambda x: x.flip(1), lambda x: x[:, ::-1]),
    "flip along": (lambda x: x.flip(2), lambda x: x[..., ::-1]),
    "tril": (lambda x: x.tril(-2), lambda x: np.tril(x, -2)),
    "triu": (lambda x: x.triu(5), lambda x: np.triu(x, 5)),
    "pad": (lambda x: F.pad(x, (0, 0, 2, 1)), lambda x: np.pad(x, ((0, 0), (2, 1), (0, 0)))),
    "pad, less": (lambda x: F.pad(x, (-1, -2)), lambda x: x[..., 1:-2]),
    "cat": (lambda x: torch.cat([x, x[:2]]), lambda x: np.concatenate([x, x[:2]])),
    "cat along": (lambda x: torch.cat([x, x], 2), lambda x: np.concatenate([x, x], 2)),
    "stack": (lambda x: torch.stack([x, x], 1), lambda x: np.stack([x, x], 1)),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_is_moved_is_the_same_and_its_gradient_goes_back(name: str, chosen: str) -> None:
    ours, numpy = MOVED[name]
    x = torch.tensor(X, requires_grad=True)
    out = ours(x)
    assert np.array_equal(out.detach().numpy(), numpy(X))
    g = torch.arange(out.numel(), dtype=torch.float32).reshape(out.shape)
    (grad,) = torch.autograd.grad((out * g).sum(), x)
    twin = torch.tensor(X.astype(np.float64), requires_grad=True)
    (wanted,) = torch.autograd.grad((ours(twin) * g.double()).sum(), twin)
    assert np.array_equal(grad.numpy(), wanted.numpy().astype(np.float32))
    ours(x).sum().backward()
    x.grad += 1  # it is nobody else's memory
    ours(twin).sum().backward()
    assert np.array_equal(x.grad.numpy(), twin.grad.numpy() + 1)


@pytest.mark.parametrize("index", [np.s_[:, 1:], np.s_[2], np.s_[..., 3], np.s_[1:3, :, :-4], np.s_[-1:], np.s_[4:2]])
def test_the_gradient_of_a_part_is_zero_elsewhere(index: Any, chosen: str) -> None:
    x = torch.tensor(X, requires_grad=True)
    part = x[index]
    g = rng.standard_normal(part.shape).astype(np.float32)
    part.backward(torch.tensor(g))
    wanted = np.zeros_like(X)
    wanted[index] = g
    assert np.array_equal(x.grad.numpy(), wanted)


@pytest.mark.parametrize("kind", ["float32", "float16", "int32", "int64", "float64"])
@pytest.mark.parametrize("descending", [False, True])
def test_equal_elements_keep_their_order(kind: str, descending: bool) -> None:
    x = rng.integers(-9, 9, (7, 300, 11)).astype(kind)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.1] = -np.nan
        x[rng.random(x.shape) < 0.1] = -0.0
        x[rng.random(x.shape) < 0.1] = np.inf
    keys = x.astype(np.float64)
    keys[keys == np.inf], keys[keys != keys] = 1e300, np.inf
    wanted = np.argsort(-keys if descending else keys, 1, kind="stable")
    values, order = torch.tensor(x).sort(1, descending=descending, stable=True)
    assert np.array_equal(order.numpy(), wanted)
    assert np.array_equal(values.numpy(), np.take_along_axis(x, wanted, 1), equal_nan=x.dtype.kind == "f")


def test_whole_numbers_too_far_apart_for_one_number_are_sorted() -> None:
    x = rng.integers(-(2**62), 2**62, 5000)
    assert np.array_equal(torch.tensor(x).argsort().numpy(), np.argsort(x, kind="stable"))
    assert ordering.order(x, 0, False) is None


@pytest.mark.parametrize("largest", [False, True])
def test_the_best_are_those_a_sort_puts_first(largest: bool, chosen: str) -> None:
    x = rng.integers(-50, 50, (130, 300)).astype(np.float32)
    x[::3][rng.random(x[::3].shape) < 0.1] = np.nan
    x[5], x[6] = 1, np.arange(300)
    values, places = torch.tensor(x).topk(6, largest=largest)
    wanted = torch.tensor(x).sort(descending=largest)[0].numpy()[:, :6]
    assert np.array_equal(values.numpy(), wanted, equal_nan=True)
    assert np.array_equal(np.take_along_axis(x, places.numpy(), 1), wanted, equal_nan=True)
    assert all(len(set(row)) == 6 for row in places.tolist())


@pytest.mark.parametrize("wrong", [-1, 300, 2**40])
def test_an_index_out_of_bounds_is_refused(wrong: int, chosen: str) -> None:
    x, places = torch.tensor(X[0]), rng.integers(0, 300, (97, 400))
    places[50, 300] = wrong
    index = torch.tensor(places)
    for program in (lambda: x.gather(1, index), lambda: x.scatter_add(1, index, torch.ones(97, 400))):
        with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds for dimension 1 with size 300"):
            program()
    with pytest.raises(IndexError, match=f"index out of range in self: {wrong}"):
        x.t().contiguous().index_select(0, index[50])


def test_zeros_that_a_step_leaves_of_a_gradient_can_be_written_to() -> None:
    x = torch.tensor(X, requires_grad=True)
    x.floor().sum().backward()
    x.grad += 1
    assert x.grad.sum() == X.size
