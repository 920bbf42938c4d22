"""Copies and pickles: what shares memory, what is kept, what is left behind."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import adjoint

from .oracle import needs_torch, same


class Labelled(adjoint.Tensor):
    """A subclass with an attribute."""

    label: str


class Slotted(adjoint.Tensor):
    """A subclass with a slot of its own."""

    __slots__ = ("mark",)


NAMES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn",
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_pickles_keep_values_dtype_and_strides(name: str, protocol: int) -> None:
    x = adjoint.arange(6).reshape(2, 3).to(getattr(adjoint, name))
    for view in (x, x.t(), x[:, ::2], x[1], x[0, 0], x[:0], x.expand(2, 2, 3)):
        y = pickle.loads(pickle.dumps(view, protocol))
        assert y.dtype is view.dtype and y.shape == view.shape and y.tolist() == view.tolist()
        if view.numel():
            assert y.stride() == view.stride()


def test_pickles_keep_requires_grad_and_attributes_but_no_graph_or_gradient() -> None:
    x = adjoint.ones(2, requires_grad=True)
    x.label = "weights"
    (x * 2).sum().backward()
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad and y.is_leaf and y.grad is None and y.label == "weights"
    made = pickle.loads(pickle.dumps(x * 2))
    assert made.requires_grad and made.is_leaf and made.tolist() == [2, 2]
    with adjoint.inference_mode():
        z = adjoint.ones(2)
    assert not pickle.loads(pickle.dumps(z)).is_inference()


def test_a_pickled_tensor_can_be_written_to() -> None:
    x = pickle.loads(pickle.dumps(adjoint.ones(2, 2)))
    x.add_(1)
    assert x.tolist() == [[2, 2], [2, 2]] and x._version == 1


def test_views_pickled_together_share_memory_again() -> None:
    a = adjoint.zeros(4)
    b, c = pickle.loads(pickle.dumps((a, a[:2])))
    c.add_(1)
    assert b.tolist() == [1, 1, 0, 0]


def test_copy_shares_memory() -> None:
    for x in (adjoint.ones(2, requires_grad=True), adjoint.ones(2, requires_grad=True) * 2, adjoint.ones(2, 3).t()):
        y = copy.copy(x)
        assert y.data_ptr() == x.data_ptr() and y.stride() == x.stride()
        assert y.requires_grad == x.requires_grad and y.is_leaf and y is not x


def test_deepcopy_copies_memory_gradient_and_attributes() -> None:
    x = adjoint.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.label = ["a"]
    y = copy.deepcopy(x)
    assert y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()
    assert y.grad.tolist() == [3, 3] and y.grad.data_ptr() != x.grad.data_ptr()
    assert y.label == ["a"] and y.label is not x.label
    y.grad.add_(1)
    (y * 2).sum().backward()
    assert x.grad.tolist() == [3, 3] and y.grad.tolist() == [6, 6]


def test_deepcopy_keeps_sharing_and_identity() -> None:
    a = adjoint.zeros(4)
    twice = copy.deepcopy([a, a[:2], a, a.detach()])
    assert twice[0] is twice[2]
    twice[1].add_(1)
    assert twice[0].tolist() == twice[3].tolist() == [1, 1, 0, 0] and a.tolist() == [0, 0, 0, 0]
    assert copy.deepcopy(adjoint.ones(2, 3).t()).stride() == (1, 3)
    assert copy.deepcopy(adjoint.ones(2, 4)[:, ::2]).stride() == (4, 2)


@needs_torch
@pytest.mark.parametrize(
    "program",
    [
        lambda T: copy.deepcopy(T.ones(2, requires_grad=True) * 2),
        lambda T: [copy.deepcopy(T.ones(2, requires_grad=True)), copy.deepcopy(T.ones(2)).requires_grad],
        lambda T: copy.copy(T.ones(2, requires_grad=True) * 2).is_leaf,
        lambda T: pickle.loads(pickle.dumps(T.ones(2, requires_grad=True) * 2)).requires_grad,
        lambda T: repr(copy.deepcopy(T.nn.Parameter(T.ones(2)))),
        lambda T: repr(pickle.loads(pickle.dumps(T.nn.Parameter(T.ones(2), requires_grad=False)))),
        lambda T: copy.deepcopy(T.ones(3, 4, 5).permute(2, 0, 1)).stride(),
    ],
)
def test_copies_equal_torch(program: Any) -> None:
    same(program)


def test_what_has_a_history_is_not_deepcopied() -> None:
    x = adjoint.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="graph leaves") as caught:
        copy.deepcopy({"h": x})
    assert "MulBackward0" in str(caught.value)
    assert copy.deepcopy(x.detach()).tolist() == [2, 2]


def test_deep_graphs_do_not_recurse() -> None:
    leaf = adjoint.ones(1, requires_grad=True)
    x = leaf
    for _ in range(100_000):
        x = x + 1
    assert pickle.loads(pickle.dumps(leaf)).tolist() == [1]
    assert pickle.loads(pickle.dumps(x)).tolist() == [100_001]
    assert copy.copy(x).is_leaf and copy.deepcopy(leaf).requires_grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x)
    assert repr(x) == "tensor([100001.], grad_fn=<AddBackward0>)"


def test_parameters() -> None:
    p = adjoint.nn.Parameter(adjoint.ones(2))
    (p * 2).sum().backward()
    p.label = "w"
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p)), copy.copy(p)):
        assert type(q) is adjoint.nn.Parameter and q.requires_grad and q.tolist() == [1, 1] and q.grad is None
    assert copy.copy(p).data_ptr() == p.data_ptr() != copy.deepcopy(p).data_ptr()
    tied = copy.deepcopy([p, p])
    assert tied[0] is tied[1]
    lazy = adjoint.nn.UninitializedParameter(dtype=adjoint.float64)
    for q in (copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        assert adjoint.nn.parameter.is_lazy(q) and q.dtype is adjoint.float64 and q.requires_grad


def test_subclasses_keep_their_class_and_state() -> None:
    x = adjoint.ones(2).as_subclass(Labelled)
    x.label = "mine"
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(y) is Labelled and y.label == "mine" and y.tolist() == [1, 1]
    s = adjoint.ones(2, requires_grad=True).detach().as_subclass(Slotted)
    s.mark = 3
    assert type(copy.deepcopy(s)) is Slotted and type(s + 1) is Slotted and s.mark == 3


def test_other_objects_survive() -> None:
    for value in (
        adjoint.float32, adjoint.Size([2]), adjoint.device("cpu"), adjoint.strided, adjoint.channels_last, adjoint.sin,
        adjoint.Tensor, adjoint.nn.Parameter, adjoint.FloatTensor,
    ):  # fmt: skip
        assert pickle.loads(pickle.dumps(value)) == value


def test_pickles_of_large_memory_can_go_out_of_band() -> None:
    x = adjoint.ones(1000)
    buffers: list[Any] = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1 and len(data) < 1000
    y = pickle.loads(data, buffers=buffers)
    assert np.shares_memory(y.numpy(), x.numpy())
