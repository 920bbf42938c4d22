"""Tensors of the device "meta": shapes, dtypes and strides as torch has them, without elements."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest

import adjoint
from adjoint.core import modes

OPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda t, x, w: x + 1,
    lambda t, x, w: x.int() + 1.5,
    lambda t, x, w: x @ w.t(),
    lambda t, x, w: t.nn.functional.linear(x, w),
    lambda t, x, w: x.sum(0),
    lambda t, x, w: x.sum(),
    lambda t, x, w: x.t()[None],
    lambda t, x, w: x.t().reshape(6),
    lambda t, x, w: t.cat([x, x]),
    lambda t, x, w: t.stack([x, x], 1),
    lambda t, x, w: x.softmax(1),
    lambda t, x, w: x > 0,
    lambda t, x, w: t.where(x > 0, x, 0.0),
    lambda t, x, w: x.max(1)[1],
    lambda t, x, w: x.unsqueeze(1) * w,
    lambda t, x, w: x.t().exp(),
    lambda t, x, w: x[:, 1],
    lambda t, x, w: x[t.tensor([0, 1, 1])],
    lambda t, x, w: t.nn.functional.conv2d(t.empty(1, 3, 8, 8, device="meta"), t.empty(5, 3, 3, 3, device="meta")),
    lambda t, x, w: t.nn.functional.embedding(t.zeros(2, 4, dtype=t.long, device="meta"), w),
    lambda t, x, w: x + t.tensor(1.0),
    lambda t, x, w: x.clone().add_(1),
    lambda t, x, w: x.clone().uniform_(),
    lambda t, x, w: t.rand(3, 3, device="meta"),
    lambda t, x, w: t.arange(5, device="meta"),
    lambda t, x, w: t.zeros_like(x),
    lambda t, x, w: t.empty_like(x, device="cpu"),
    lambda t, x, w: t.ones(2).to("meta"),
    lambda t, x, w: x.new_zeros(3),
    lambda t, x, w: t.tensor([1, 2], device="meta"),
    lambda t, x, w: t.full((2,), 3, device="meta"),
    lambda t, x, w: t.nn.functional.layer_norm(x, (3,)),
    lambda t, x, w: t.nn.BatchNorm1d(3, device="meta")(x),
    lambda t, x, w: t.nn.functional.cross_entropy(x, t.zeros(2, dtype=t.long, device="meta")),
    lambda t, x, w: t.nn.functional.dropout(x, 0.5),
    lambda t, x, w: t.nn.functional.max_pool2d(t.empty(1, 3, 8, 8, device="meta"), 2),
    lambda t, x, w: t.nn.LSTM(3, 4, device="meta")(t.empty(5, 2, 3, device="meta"))[0],
    lambda t, x, w: t.einsum("ij,kj->ik", x, w),
    lambda t, x, w: x.split(1)[0],
    lambda t, x, w: x.sort()[0],
    lambda t, x, w: x[0].expand(5, 3),
    lambda t, x, w: x.repeat(2, 2),
    lambda t, x, w: x.masked_fill(x > 0, 1.0),
    lambda t, x, w: x.copy_(t.ones(2, 3)),
]


def answers(torch: Any, op: Callable[[Any, Any, Any], Any]) -> tuple[Any, ...]:
    x, w = torch.empty(2, 3, device="meta"), torch.ones(4, 3, device="meta", requires_grad=True)
    out = op(torch, x, w)
    kind = str(out.dtype).rpartition(".")[2]
    return tuple(out.shape), kind, out.device.type, out.stride(), out.is_meta, out.requires_grad


@pytest.mark.parametrize("number", range(len(OPS)))
def test_ops_as_in_torch(number: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is the second opinion on shapes")
    assert answers(adjoint, OPS[number]) == answers(torch, OPS[number])


def test_what_needs_elements_is_refused() -> None:
    x = adjoint.empty(2, 3, device="meta")
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))"
    with pytest.raises(RuntimeError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
        x[0, 0].item()
    with pytest.raises(RuntimeError, match="meta tensors"):
        bool(x[0, 0])
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()
    for wanted in (x.tolist, x.cpu, lambda: adjoint.ones(2, 3).copy_(x)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            wanted()
    with pytest.raises(NotImplementedError):
        x.nonzero()
    assert x.data_ptr() == 0


def test_gradients_have_shapes() -> None:
    w = adjoint.ones(4, 3, device="meta", requires_grad=True)
    adjoint.nn.functional.linear(adjoint.empty(5, 3, device="meta"), w).relu().sum().backward()
    assert w.grad.is_meta
    assert w.grad.shape == (4, 3)
    adjoint.optim.SGD([w], lr=0.1).step()
    assert w.requires_grad and w.is_leaf


def test_modules_are_made_and_filled_later() -> None:
    with adjoint.device("meta"):
        model = adjoint.nn.Sequential(
            adjoint.nn.Linear(3, 4), adjoint.nn.BatchNorm1d(4), adjoint.nn.TransformerEncoderLayer(4, 2)
        )
    assert all(t.is_meta for t in (*model.parameters(), *model.buffers()))
    assert all(p.is_meta for p in copy.deepcopy(model).parameters())
    with pytest.raises(NotImplementedError, match="to_empty"):
        model.to("cpu")
    model.to_empty(device="cpu")
    assert not any(t.is_meta for t in (*model.parameters(), *model.buffers()))

    layer = adjoint.nn.Linear(3, 2, device="meta")
    source = adjoint.nn.Linear(3, 2)
    layer.load_state_dict(source.state_dict(), assign=True)
    assert layer.weight.equal(source.weight)
    assert adjoint.nn.utils.skip_init(adjoint.nn.Linear, 3, 2).weight.device.type == "cpu"


def test_size_costs_nothing() -> None:
    layer = adjoint.nn.Linear(2_000_000, 1_000_000, device="meta")
    assert layer(adjoint.empty(8, 2_000_000, device="meta")).shape == (8, 1_000_000)
    assert (layer.weight * 2).t().shape == (2_000_000, 1_000_000)


def test_nothing_stays_unusual() -> None:
    before = modes.unusual
    x = adjoint.empty(3, device="meta")
    assert modes.unusual > before
    y = x * 2
    del x, y
    assert modes.unusual == before


def test_operators_of_a_program() -> None:
    @adjoint.library.custom_op("meta::twice", mutates_args=())
    def twice(x: adjoint.Tensor) -> adjoint.Tensor:
        return adjoint.from_numpy(x.numpy() * 2)

    with pytest.raises(RuntimeError, match="no fake impl registered"):
        twice(adjoint.empty(2, device="meta"))
    twice.register_fake(adjoint.empty_like)
    assert twice(adjoint.empty(2, device="meta")).is_meta


def test_refused_value_leaves_nothing_unusual_behind() -> None:
    before = modes.unusual
    with pytest.raises(RuntimeError):
        adjoint.empty(-1, device="meta")
    gc.collect()
    assert modes.unusual == before
