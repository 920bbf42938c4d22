"""Random numbers inside a batch: the same for all of its elements, different ones, or none at all.

Every function goes through the active batches from the innermost outwards, as torch does. Each batch refuses,
samples once for all of its elements, or adds an axis to the samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._typing import Array, Kernel, Out, Shape, Tensor
from ..core.device import module_of
from ..core.layout import empty_strided, strides_of
from ..core.nodes import wrap
from ..core.payload import Level, Payload, inside
from ..core.tensor import TensorBase

_ERROR_MODE = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)
_SAME_OF_A_BATCH = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch: "
    "the parameters differ from element to element of the batch, so the numbers cannot be the same; use "
    "randomness='different'."
)
_UNBATCHED = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. "
    "If this is necessary for your usage, please file an issue with functorch. Fill a tensor that has the batch, such "
    "as x.new_empty(...) of a batched x."
)


def batches() -> list[Level]:
    """Return the batches that the program is in, outermost first."""
    return [level for level in inside.levels if level.size is not None]


def refuse_out(out: Out) -> None:
    """Raise if random numbers are to go into a tensor that was given, inside a batch."""
    if out is not None and inside.levels and batches():
        raise RuntimeError(
            "vmap: We do not support calling out variants of random operations inside of vmap. Please use non-out "
            "variants as a workaround"
        )


def batch_stream(stream: Any) -> Any:
    """Return the stream to sample from inside the active batches, or refuse."""
    levels = batches()
    if any(level.randomness == "error" for level in levels):
        raise RuntimeError(_ERROR_MODE)
    different = [level for level in levels if level.randomness == "different"]
    return BatchStream(stream, different) if different else stream


class BatchStream:
    """A stream that returns different numbers for every element of some batches."""

    def __init__(self, stream: Any, levels: list[Level]) -> None:
        self.stream, self.levels = stream, levels
        self.sizes = tuple(level.size or 0 for level in levels)

    def __getattr__(self, kind: str) -> Kernel:
        draw = getattr(self.stream, kind)
        return lambda shape, *params: hidden(draw((*self.sizes, *shape), *params), self.levels)

    def bernoulli(self, p: Array | float, shape: Shape, dtype: Any) -> Any:
        """Return samples of zeros and ones."""
        return hidden(self.stream.bernoulli(p, (*self.sizes, *shape), dtype), self.levels)

    def permutation(self, n: int, dtype: Any = np.int64) -> Any:
        """Return a permutation for each element; those of the outermost batch come first."""
        drawn = np.empty((*self.sizes, n), dtype)
        for place in itertools.product(*map(range, self.sizes[::-1])):
            drawn[place[::-1]] = self.stream.permutation(n, dtype)
        return hidden(drawn, self.levels)


def hidden(value: object, levels: list[Level]) -> Any:
    """Return an array whose first axes are those of batches, as one element sees it."""
    for level in levels:
        value = level.kind(value, level.number)  # type: ignore[misc,call-arg]
    return value


@contextmanager
def outside() -> Iterator[None]:
    """Sample as if in no batch: all of them have been handled already."""
    was, inside.levels = inside.levels, ()
    try:
        yield
    finally:
        inside.levels = was


# --- With parameters that are tensors ---------------------------------------------------------------


def levels_of(tensor: Tensor) -> list[int]:
    """Return the levels at which a tensor is a batch, outermost first: those of the first axes of its memory."""
    found, value = [], tensor.array
    while isinstance(value, Payload) and value.level:
        if not value.spreads:
            found.append(value.level)
        value = value.below()
        value = value.array if isinstance(value, TensorBase) else value
    return found[::-1]


def sampled(draw: Callable[..., Any], *tensors: Any) -> Any:
    """Return the result of calling `draw` on the arrays of tensors: an array, or a tensor inside batches.

    Batches that need different numbers for each element have an axis in front of the arguments.
    """
    if not inside.levels or not batches():
        return draw(*(_memory(t) for t in tensors))
    different = checked(*tensors)
    rank = max(len(t.array.shape) for t in tensors)
    arrays = [opened(t, different, rank) for t in tensors]
    with outside():
        return wrap(hidden(draw(*arrays), different))


def checked(*parameters: Any) -> list[Level]:
    """Return the batches that need different numbers for each element, or refuse to sample with these parameters."""
    different: list[Level] = []
    for level in reversed(batches()):
        if level.randomness == "error":
            raise RuntimeError(_ERROR_MODE)
        if level.randomness == "different":
            different.insert(0, level)
        elif any(level.number in levels_of(t) for t in parameters):
            raise RuntimeError(_SAME_OF_A_BATCH)
    return different


def opened(tensor: Tensor, levels: list[Level], rank: int | None = None) -> Any:
    """Return the memory of a tensor with one axis in front for each of some batches, and no other batch's.

    A number of dimensions behind them may be given by `rank`: axes of size 1 are put in between.
    """
    numbers, own = [level.number for level in levels], levels_of(tensor)
    array = _memory(tensor)[tuple(slice(None) if number in numbers else 0 for number in own)]
    shape = tuple(tensor.array.shape)
    missing = 0 if rank is None else rank - len(shape)
    present = sum(number in own for number in numbers)
    array = array.reshape((*array.shape[:present], *(1,) * missing, *shape)) if missing else array
    for place, number in enumerate(numbers):
        if number not in own:
            array = array[(slice(None),) * place + (None,)]
    sizes = tuple(level.size or 0 for level in levels)
    wanted = (*sizes, *array.shape[len(sizes) :])
    return array if array.shape == wanted else np.broadcast_to(array, wanted)


def _memory(tensor: Tensor) -> Any:
    array = tensor.array
    return array.memory() if isinstance(array, Payload) and array.level else array


def sampled_like(draw: Callable[[Any], Any], tensor: Tensor) -> Any:
    """Return the result of calling `draw` on the memory of a tensor, of which only shape and strides matter."""
    different = checked()
    memory = opened(tensor, different)
    with outside():
        return hidden(draw(memory), different)


def refill(draw: Callable[..., Any], written: Any, *parameters: Any) -> Any:
    """Return the batch that an in-place random op leaves in a tensor; None if the tensor is no batch.

    `draw` takes an array to fill, which has the memory layout of the tensor, and the arrays of the parameters.
    """
    own, rest = levels_of(written), [levels_of(p) for p in parameters]
    axes: list[Level] = []
    fresh = False
    for level in reversed(batches()):
        batched, number = level.number in own and not fresh, level.number
        if level.randomness == "error":
            raise RuntimeError(_ERROR_MODE)
        if any(number in levels for levels in rest):
            if level.randomness == "same":
                raise RuntimeError(_SAME_OF_A_BATCH)
            if not batched:
                raise RuntimeError(
                    "vmap: inplace bernoulli(self, *extra_args) is not possible because there exists a Tensor `other` "
                    "in extra_args that has more elements than `self`. This happened due to `other` being vmapped over "
                    "but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of "
                    "inplace bernoulli."
                )
        if level.randomness == "different":
            if not batched:
                raise RuntimeError(_UNBATCHED)
            axes.insert(0, level)
        fresh = fresh or (batched and level.randomness == "same")
    if not own:
        return None
    every = [level for level in batches() if level.number in own]
    whole = _lying_like(opened(written, every))
    shape = (*(level.size or 0 for level in axes), *written.array.shape)
    target = module_of(whole).empty(shape, whole.dtype) if fresh else whole
    with outside():
        draw(target, *(opened(p, axes) for p in parameters))
    if fresh:
        whole[...] = target[tuple(slice(None) if level in axes else None for level in every)]
    return hidden(whole, every)


def _lying_like(array: Array) -> Any:
    """Return an uninitialized array with another's strides, or a dense one if several of its elements share memory."""
    steps = strides_of(array)
    if any(step == 0 and n > 1 for step, n in zip(steps, array.shape, strict=True)):
        return module_of(array).empty(array.shape, array.dtype)
    return empty_strided(module_of(array), array.shape, steps, array.dtype)
