"""Batched: many values handled as one, along an axis that the program does not see."""

from __future__ import annotations

import re
import textwrap
import warnings
from typing import Any

import numpy as np

from ..core.device import of as device_of
from ..core.device import place_array
from ..core.nodes import wrap
from ..core.payload import Payload, arguments, inside, transforms
from ..core.primitive import Op
from ..core.tensor import TensorBase
from ..ops.shape import expand_p, reshape_p
from .speech import Speaking


class Batched(Speaking):
    """A value with a batch axis in front, hidden: `value` has it, `shape` does not.

    `value` is an array, or a tensor or payload of a lower level, whose own recording goes on. An axis of size 1
    stands for any size: what is the same for the whole batch is computed once.
    """

    __slots__ = ("value",)

    spreads = False

    def __init__(self, value: Any, level: int) -> None:
        self.value, self.level = value, level

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one element of the batch."""
        return self.value.shape[1:]  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of dimensions of one element of the batch."""
        return len(self.value.shape) - 1

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self.value.array.dtype if isinstance(self.value, TensorBase) else self.value.dtype

    @property
    def flags(self) -> Any:
        """Memory flags of the value behind."""
        return (self.value.array if isinstance(self.value, TensorBase) else self.value).flags

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of one element of the batch, in bytes."""
        value = self.value.array if isinstance(self.value, TensorBase) else self.value
        return tuple(value.strides[1:])

    @property
    def data(self) -> Any:
        """The address of the elements, which only a whole batch has."""
        raise RuntimeError(_NO_ADDRESS)

    def item(self) -> Any:
        """Raise: there is one number per element of the batch."""
        return self.concrete("item()")

    def tolist(self) -> Any:
        """Raise: there is one list per element of the batch."""
        return self.concrete("tolist()")

    def ravel(self, order: str = "C") -> Any:
        """Raise: one element of the batch has no memory of its own."""
        raise NotImplementedError("Cannot access storage of BatchedTensorImpl: it is a whole batch's")

    def copy(self, order: str = "K") -> Batched:
        """Return itself, inside vmap: payloads do not change."""
        return self if any(level.number == self.level for level in inside.levels) else self.outside("clone")

    def moved(self, place: Any) -> Batched:
        """Return the batch on another device."""
        value = self.value
        elsewhere = value.to(place) if isinstance(value, TensorBase) else place_array(value, place)  # type: ignore[attr-defined]
        return Batched(elsewhere, self.level)

    def outside(self, operation: str) -> Any:
        """Raise: the batch dimension was hidden for the time of vmap only."""
        raise RuntimeError(
            "Either your tensor may have escaped from inside a function being vmapped and this is a user error (see "
            "https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch error in "
            f"`{operation}`: return the tensor from the function instead of storing it elsewhere."
        )

    @property
    def by_value(self) -> bool:
        """True: the memory is a whole batch's."""
        return True

    def detached(self) -> Batched:
        """Return the batch of what is left of its values."""
        value = self.value
        if isinstance(value, TensorBase):
            return Batched(value.detach(), self.level)  # type: ignore[attr-defined]
        return Batched(value.detached(), self.level) if isinstance(value, Payload) else self

    @classmethod
    def apply(cls, op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run `op` once on the whole batch, by its batching rule."""
        rule = op.batch
        try:
            if rule == "elementwise":
                out = op.call(*_aligned(values, level), *params)
            elif rule == "same" and len(values) == 1:
                out = op.call(values[0].value, *params)
            else:
                size, place = size_of(values, level), _place(values, level)
                if rule == "same":
                    out = op.call(*(_in_front(v, level, size, place) for v in values), *params)
                elif callable(rule):
                    if hasattr(rule, "broadcasts"):
                        size = 1
                    out = rule(*[_in_front(v, level, size, place) for v in values], *params)
                else:
                    out = _by_loop(op, level, values, params, size)
        except IndexError as error:
            raise _of_one_element(error) from error.__cause__
        if isinstance(out, tuple):
            return tuple(cls(o, level) for o in out)
        return cls(out, level)

    @classmethod
    def lifted(cls, value: Any, level: int) -> Batched:
        """Return a value of a lower level as one that is the same for the whole batch."""
        return cls(reshape_p(value, (1, *value.shape)), level)

    def below(self) -> Any:
        """Return the whole batch."""
        return self.value

    def above(self, value: Any) -> Batched:
        """Return another whole batch as one of its elements."""
        return Batched(value, self.level)

    def concrete(self, what: str) -> Any:
        """Raise: inside vmap there is one value per element of the batch."""
        if what == "repr()":
            return self.memory()
        if what != "numpy()" and self._is_shared():
            from ..ops.index import select_p

            one = select_p(self.value, 0, 0)
            one = one.array if isinstance(one, TensorBase) else one
            return one.concrete(what) if isinstance(one, Payload) else one  # type: ignore[attr-defined]
        if what in _NUMBERS and transforms()[-1:] and transforms()[-1].number != self.level:
            raise RuntimeError(
                "vmap: It looks like you're either (1) calling .item() on a Tensor or (2) attempting to use a Tensor "
                "in some data-dependent control flow: inside vmap a tensor stands for a whole batch of values. Keep "
                "it a tensor, and use adjoint.where(condition, a, b) instead of a branch."
            )
        if what == "bool()":
            raise RuntimeError(
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. Inside "
                "vmap a tensor stands for a whole batch of values, which need not agree: use adjoint.where(condition, "
                "a, b) instead of a branch."
            )
        if what in _DYNAMIC:
            raise RuntimeError(
                "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
                f"{what}: its result has another shape for every element of the batch. Use adjoint.where, or compute "
                "it outside vmap."
            )
        if what in ("numpy()", "tolist()"):
            raise RuntimeError(_NO_ADDRESS)
        if what in ("pickle", "save"):
            self.ravel()
        if what == "equal()":
            raise RuntimeError(
                "Batching rule not implemented for aten::equal. We could not generate a fallback: the result has one "
                "bool per element of the batch; use (x == y).all()."
            )
        if what == "allclose()":
            raise RuntimeError(
                "vmap over adjoint.allclose isn't supported yet: the result has one bool per element of the batch; use "
                "adjoint.isclose(x, y).all()."
            )
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
            "Tensor, please try to rewrite what you're doing with other operations: it stands for a whole batch of "
            "values. Use the tensor itself, or call .item() outside vmap."
        )

    def _is_shared(self) -> bool:
        """Return whether the value is one for the whole batch: a transform inside has lifted what was not batched."""
        return self.value.shape[0] == 1 and any(
            level.number == self.level and level.size != 1 for level in inside.levels
        )

    def __repr__(self) -> str:
        value, dim = self.value if isinstance(self.value, TensorBase) else wrap(self.value), 0
        for whole, along, _, held in arguments.get(self.level, {}).values():
            if held is self:  # an argument, as the caller has given it
                value, dim = whole, along
        numbers = [level.number for level in inside.levels]
        depth = numbers.index(self.level) + 1 if self.level in numbers else 1
        return f"BatchedTensor(lvl={depth}, bdim={dim}, value=\n{textwrap.indent(repr(value), '    ')}\n)"


_NO_ADDRESS = (
    "Cannot access data pointer of Tensor that doesn't have storage: inside vmap a tensor stands for one element of a "
    "batch. Read its values outside vmap."
)


_NUMBERS = ("bool()", "item()", "int()", "float()", "complex()", "index()")
_DYNAMIC = ("unique()", "unique_consecutive()", "nonzero()", "indexing with a mask", "repeat_interleave()")


def _of_one_element(error: IndexError) -> IndexError:
    """Return an error about an index with the dimensions counted as the program does, without that of the batch."""
    text = re.sub(
        r"out of bounds for (?:axis|dimension) (\d+)",
        lambda m: f"out of bounds for dimension {int(m[1]) - 1}",
        str(error),
    )
    text = re.sub(
        r"too many indices for array: array is (\d+)-dimensional, but \d+ were indexed",
        lambda m: f"too many indices for tensor of dimension {int(m[1]) - 1}",
        text,
    )
    return IndexError(text)


def _mine(value: Any, level: int) -> bool:
    return isinstance(value, Batched) and value.level == level


def size_of(values: tuple[Any, ...], level: int) -> int:
    """Return the size of the batch that the values of a level make."""
    size = 1
    for v in values:
        if isinstance(v, Batched) and v.level == level and v.value.shape[0] != 1:
            size = v.value.shape[0]
    return size


def _aligned(values: tuple[Any, ...], level: int) -> list[Any]:
    """Return the values with batch axes lined up: size-1 axes after them up to the highest rank."""
    if len(values) == 1:
        return [values[0].value]
    rank = max([v.ndim for v in values if hasattr(v, "ndim")])
    aligned: list[Any] = []
    for v in values:
        if not (isinstance(v, Batched) and v.level == level):
            aligned.append(v)
            continue
        inner = v.value
        shape = inner.shape
        if len(shape) <= rank:
            inner = reshape_p(inner, (shape[0], *(1,) * (rank + 1 - len(shape)), *shape[1:]))
        aligned.append(inner)
    return aligned


def _place(values: tuple[Any, ...], level: int) -> Any:
    """Return the device of a batch, None of the CPU."""
    mine = next(v for v in values if _mine(v, level))
    found = device_of(mine)
    return None if found.type in ("cpu", "meta") else found


def _in_front(value: Any, level: int, size: int, place: Any = None) -> Any:
    """Return a value with the batch axis in front, repeated along it (without a copy) if it had none."""
    if _mine(value, level):
        inner = value.value
        return inner if size == 1 or inner.shape[0] == size else expand_p(inner, (size, *inner.shape[1:]))
    if value is None:  # an operand that was left out
        return None
    if not hasattr(value, "shape"):
        value = np.asarray(value)
    shape = tuple(value.shape)
    if shape == () and place is not None and type(value) is np.ndarray:
        value = place_array(value, place)  # a scalar goes with anything; repeated, it must be on the same device
    whole = reshape_p(value, (1, *shape))
    return whole if size == 1 else expand_p(whole, (size, *shape))


def _by_loop(op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...], size: int) -> Any:
    """Run `op` element by element: slow, but never wrong."""
    from ..ops.join import stack_p

    warnings.warn(
        f"There is a performance drop because we have not yet implemented the batching rule for {op.name}: vmap runs "
        "it in a loop over the batch, which is slow but right",
        stacklevel=2,
    )
    results = [op.call(*(_entry(v, level, i) for v in values), *params) for i in range(size)]
    if op.outputs:
        return tuple(stack_p(parts, 0) for parts in zip(*results, strict=True))
    return stack_p(tuple(results), 0)


def _entry(value: Any, level: int, i: int) -> Any:
    """Return one element of a batch, or a value that is the same for all of it."""
    from ..ops.index import select_p

    if not _mine(value, level):
        return value
    return select_p(value.value, 0, i if value.value.shape[0] != 1 else 0)
