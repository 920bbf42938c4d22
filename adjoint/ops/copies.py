"""Copies of tensors that leave the graph behind: `copy.copy`, `copy.deepcopy` and pickles."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .._typing import Array, DType, Shape, Tensor, Value
from ..core import device as devices
from ..core import dtypes, layout
from ..core.nodes import wrap
from ..core.tensor import TensorBase, owner_of
from . import create
from .convert import concrete
from .memory import address_of, same_memory

__all__: list[str] = []

# The attribute in which a leaf that currently does not require grad saves its node and the hooks on it.
RESTING = "_resting_node"


def as_kind(x: Tensor, kind: type) -> Any:
    """Return a fresh tensor as an instance of a subclass, without calling its constructor."""
    if type(x) is kind:
        return x
    try:
        x.__class__ = kind
        return x
    except TypeError:  # a subclass with slots of its own is laid out differently
        made: Any = object.__new__(kind)
        for slot in TensorBase.__slots__:
            if slot != "__weakref__":
                setattr(made, slot, getattr(x, slot))
        if x.node is not None and hasattr(x.node, "follow"):
            x.node.follow(made)
        return made


def _whole(array: Array) -> tuple[Any, int]:
    """Return the array that owns an array's memory, and the offset in bytes at which that begins in it."""
    owner = owner_of(array)
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        owner = array = array.copy(order="C")
    return owner, address_of(array) - address_of(owner)


def _look_into(owner: Any, dtype: DType, offset: int, shape: Shape, strides: Shape) -> Any:
    """Return an array that looks into the memory of another."""
    if owner.size == 0:
        return np.empty(shape, dtype)
    return layout.looking_into(owner.ravel(order="K"), dtype, offset, shape, strides)


def shallow_copy(x: Any) -> Any:
    """Return another tensor of the same memory and attributes: a leaf, whatever `x` is."""
    out = as_kind(wrap(x.array, None, same_memory(x)), type(x))
    if x.node is not None:
        create.require_grad(out)
    out.__dict__.update(_state_of(x) or {})
    return out


# --- Pickles ----------------------------------------------------------------------------------------


def reduce_tensor(x: Any) -> tuple[Any, ...]:
    """Return how to rebuild a tensor elsewhere: its memory, how it looks at that, and its attributes.

    The graph stays behind, as in torch: what an op made comes back as a leaf. Views that are pickled
    together go on sharing memory, because they name the same owner.
    """
    place = devices.of(x.array)
    array = concrete(x, "pickle")
    owner, offset = _whole(array)
    strides = array.strides if owner_of(array) is owner else owner.strides
    look = (dtypes.of(array.dtype), offset, tuple(array.shape), tuple(strides))
    return (rebuilt, (type(x), owner, look, str(place), x.node is not None, _state_of(x)))


def _state_of(x: Value) -> dict[str, Any] | None:
    return {name: value for name, value in x.__dict__.items() if name != RESTING} or None


def rebuilt(kind: Any, owner: Any, look: Any, place: str, requires_grad: bool, state: object) -> Any:
    """Return the tensor that `reduce_tensor` described."""
    dtype, offset, shape, strides = look
    array = _look_into(owner, dtype.np, offset, shape, strides)
    out = as_kind(create.finish(devices.place_array(array, devices.device(place))), kind)
    if requires_grad:
        create.require_grad(out)
    if state:
        out.__dict__.update(state)
    return out


# --- Deep copies ------------------------------------------------------------------------------------


def deep_copy(x: Tensor, memo: dict[int, Any]) -> Any:
    """Return a copy of a leaf, its gradient and its attributes; views copied together share memory again."""
    if id(x) in memo:
        return memo[id(x)]
    if not x.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            f"moment: this one was made by {x.grad_fn.op.title}. If you were attempting to deepcopy a module, an "
            "attribute of it holds the result of an op; detach() it."
        )
    out = as_kind(wrap(_copied_memory(x, memo)), type(x))
    memo[id(x)] = out
    if x.node is not None:
        create.require_grad(out)
    if x._grad is not None:
        out._grad = copy.deepcopy(x._grad, memo)
    if x.__dict__:
        out.__dict__.update(copy.deepcopy(_state_of(x) or {}, memo))
    return out


def _copied_memory(x: Tensor, memo: dict[int, Any]) -> Any:
    array = x.array
    if not isinstance(array, np.ndarray):
        return array.copy()
    owner, offset = _whole(array)
    if owner_of(array) is not owner:
        return owner
    copied = memo.get(id(owner))
    if copied is None:
        copied = memo[id(owner)] = owner.copy(order="K")
        memo.setdefault(id(memo), []).append(owner)  # so that its id stays taken while the memo lives
    return copied if array is owner else _look_into(copied, array.dtype, offset, array.shape, array.strides)
