"""Batched: many values handled as one, along an axis that the program does not see."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.primitive import Op
from ..core.tensor import TensorBase
from ..ops.shape import expand_p, reshape_p
from .speech import Speaking


class Batched(Speaking):
    """A value with a batch axis in front, hidden: `value` has it, `shape` does not.

    `value` is an array, or a tensor or payload of a lower level, whose own recording goes on.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any, level: int) -> None:
        self.value, self.level = value, level

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one element of the batch."""
        return tuple(self.value.shape[1:])

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self.value.array.dtype if isinstance(self.value, TensorBase) else self.value.dtype

    @property
    def flags(self) -> Any:
        """Memory flags of the value behind."""
        return (self.value.array if isinstance(self.value, TensorBase) else self.value).flags

    @classmethod
    def apply(cls, op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run `op` once on the whole batch, by its batching rule."""
        size = next(v.value.shape[0] for v in values if isinstance(v, Batched) and v.level == level)
        rule = op.batch
        if rule == "elementwise":
            out = op.call(*_aligned(values, level), *params)
        elif rule == "same":
            out = op.call(*(v.value if _mine(v, level) else v for v in values), *params)
        elif callable(rule):
            out = rule(*(_in_front(v, level, size) for v in values), *params)
        else:
            out = _by_loop(op, level, values, params, size)
        if isinstance(out, tuple):
            return tuple(cls(o, level) for o in out)
        return cls(out, level)

    def concrete(self, what: str) -> Any:
        """Raise: inside vmap there is one value per element of the batch."""
        raise RuntimeError(
            f"vmap: It looks like you're calling {what} on a Tensor inside vmap, where it stands for a whole batch of "
            "values. Branches on data need adjoint.where; numbers must stay tensors."
        )

    def __repr__(self) -> str:
        return f"BatchedTensor(lvl={self.level}, bdim=0, value={self.value!r})"


def _mine(value: Any, level: int) -> bool:
    return isinstance(value, Batched) and value.level == level


def _aligned(values: tuple[Any, ...], level: int) -> list[Any]:
    """Return the values with batch axes lined up: size-1 axes after them up to the highest rank."""
    rank = max(v.ndim for v in values if hasattr(v, "ndim"))
    aligned = []
    for v in values:
        if not _mine(v, level):
            aligned.append(v)
            continue
        missing = rank - v.ndim
        inner = v.value
        if missing:
            inner = reshape_p(inner, (inner.shape[0], *(1,) * missing, *v.shape))
        aligned.append(inner)
    return aligned


def _in_front(value: Any, level: int, size: int) -> Any:
    """Return a value with the batch axis in front, repeated along it (without a copy) if it had none."""
    if _mine(value, level):
        return value.value
    if value is None:  # an operand that was left out
        return None
    if not hasattr(value, "shape"):
        value = np.asarray(value)
    shape = tuple(value.shape)
    return expand_p(reshape_p(value, (1, *shape)), (size, *shape))


def _by_loop(op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...], size: int) -> Any:
    """Run `op` element by element: slow, but never wrong."""
    from ..ops.index import select_p
    from ..ops.join import stack_p

    warnings.warn(
        f"vmap: there is no batching rule for {op.name}; running it in a loop over the batch, which is slow",
        stacklevel=2,
    )
    results = [
        op.call(*(select_p(v.value, 0, i) if _mine(v, level) else v for v in values), *params) for i in range(size)
    ]
    if op.outputs:
        return tuple(stack_p(parts, 0) for parts in zip(*results, strict=True))
    return stack_p(tuple(results), 0)
