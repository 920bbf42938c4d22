"""Size: a tensor's shape, a tuple that prints as torch's does."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex, overload


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple of integers.

    Slices and sums are sizes again.

    Parameters
    ----------
    sizes : iterable of int, default ()
        The size of each dimension.

    Examples
    --------
    >>> adjoint.zeros(2, 3).shape
    adjoint.Size([2, 3])
    >>> adjoint.Size([2, 3]).numel()
    6
    >>> rows, columns = adjoint.Size([2, 3])
    >>> adjoint.Size([2, 3]) == (2, 3)
    True
    """

    __module__ = "adjoint"

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        """Make a size of integers, or of what can stand for one."""
        return tuple.__new__(cls, _indexes(sizes))

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"adjoint.Size([{', '.join(map(str, self))}])"

    def __add__(self, other: object) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: object) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(other, self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))


def _indexes(sizes: Iterable[Any]) -> list[int]:
    found: list[int] = []
    for item in sizes:
        try:
            found.append(operator.index(item))
        except TypeError:
            raise TypeError(
                f"torch.Size() takes an iterable of 'int' (item {len(found)} is '{type(item).__name__}')"
            ) from None
    return found
