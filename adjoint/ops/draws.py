"""Random numbers inside a batch: the same for all of its elements, different ones, or none at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core.nodes import wrap
from ..core.payload import inside, payload_of, top_payload
from ..core.tensor import TensorBase


def batch_stream(stream: Any) -> Any:
    """Return the stream to draw from inside the batches that the program is in, or refuse."""
    batches = [level for level in inside.levels if level.size]
    if any(level.randomness == "error" for level in batches):
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )
    different = [level for level in batches if level.randomness == "different"]
    return BatchStream(stream, different) if different else stream


class BatchStream:
    """A stream that draws other numbers for every element of some batches."""

    def __init__(self, stream: Any, levels: list[Any]) -> None:
        self.stream, self.levels = stream, levels
        self.sizes = tuple(level.size for level in levels)

    def __getattr__(self, kind: str) -> Any:
        draw = getattr(self.stream, kind)
        return lambda shape, *params: self._hidden(draw((*self.sizes, *shape), *params))

    def bernoulli(self, p: Any, shape: Any, dtype: Any) -> Any:
        """Draw zeros and ones."""
        return self._hidden(self.stream.bernoulli(p, (*self.sizes, *shape), dtype))

    def permutation(self, n: int, dtype: Any = np.int64) -> Any:
        """Draw a permutation for each element."""
        drawn = [self.stream.permutation(n, dtype) for _ in range(math.prod(self.sizes))]
        return self._hidden(np.stack(drawn).reshape(*self.sizes, n))

    def _hidden(self, value: Any) -> Any:
        for level in self.levels:
            value = level.kind(value, level.number)
        return value


def drawn_below(draw: Callable[..., Tensor], *tensors: Any) -> Tensor:
    """Draw with parameters that are tensors inside a transform: on what they hold, one level down."""
    top = top_payload(tensors)
    assert top is not None
    level = next((at for at in inside.levels if at.number == top.level), None)
    if not top.spreads and level is not None and level.randomness != "different":
        batch_stream(None)
        raise RuntimeError("vmap: Vmap does not currently support same randomness with a batched tensor input.")
    below = []
    for t in tensors:
        payload = payload_of(t)
        own = payload if payload is not None and payload.level == top.level else type(top).lifted(t, top.level)
        value = own.below()
        below.append(value if isinstance(value, TensorBase) else wrap(value))
    was = inside.levels
    inside.levels = tuple(at for at in was if at is not level)
    try:
        sample = draw(*below)
    finally:
        inside.levels = was
    return sample if top.spreads else wrap(type(top)(sample, top.level))  # type: ignore[call-arg]
