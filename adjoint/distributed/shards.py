"""Sharded parameters: each process holds a part."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import device as devices
from ..nn.parameter import Parameter
from ..ops.create import finish

__all__ = ["ShardedParameter"]


class ShardedParameter(Parameter):
    """One rank's part of a parameter: a run of its elements, counted in row-major order, as a vector.

    Attributes
    ----------
    full_shape
        The shape of the whole parameter.
    start
        The number of this part's first element.
    group
        The processes that hold the parts.
    """

    full_shape: tuple[int, ...]
    start: int
    group: Any

    def full_tensor(self) -> Any:
        """Return the whole parameter, on every rank; every rank must call this."""
        return gathered(self, self)


def gathered(part: Any, place: ShardedParameter) -> Any:
    """Return the full tensor of which every rank has one part, sharded like `place`: a parameter, or its state."""
    group = place.group
    arrays = devices.module_of(part.array)
    whole = devices.adopt(arrays.zeros(int(np.prod(place.full_shape)), part.array.dtype))
    counts = np.zeros(group.size(), np.int64)
    mine = np.array([part.array.size], np.int64)
    start = lambda: group._engine.all_gather(counts, mine)
    group.begin("sizes of parts", "", start, None, mine).wait()
    sent = arrays.ascontiguousarray(part.array)
    # Each rank sends its part to every rank: the result has the parts one after the other, in the order of the ranks.
    given = arrays.tile(sent.reshape(-1), group.size())
    start = lambda: group.engine_for(given).all_to_all(whole, given, counts.tolist(), [sent.size] * group.size())
    group.begin("parts of a parameter", "", start, None, given).wait()
    return finish(whole.reshape(place.full_shape))
