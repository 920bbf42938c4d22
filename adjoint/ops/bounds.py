"""Checks of indices: their dtype, their bounds, and the errors about them, for all ops that take an index."""

from __future__ import annotations

import operator
from typing import Any

from .._typing import Array, Shape, Tensor
from ..core.dtypes import of
from .arguments import require_tensor

__all__: list[str] = []


def check_index(index: Tensor, op: str) -> None:
    """Raise unless `index` is a tensor of integers."""
    require_tensor(index, "index", op)
    name = of(index.array.dtype).name
    if name not in ("int64", "int32") and index.array.size:
        raise RuntimeError(f"{op}(): Expected dtype int32/int64 for index, got {name}; convert it with .long()")


def check_vector(index: Tensor, op: str) -> Tensor:
    """Return an index that names slices, or raise unless it is a vector of integers."""
    require_tensor(index, "index", op)
    if op.startswith("index_fill"):
        if of(index.array.dtype).name not in ("int64", "int32") and index.array.size:
            raise IndexError(f"{op}(): Expected dtype int64 for index, got {of(index.array.dtype).name}")
        if index.array.ndim > 1:
            raise RuntimeError(f"{op}(): Index has to be a vector/scalar, but got dim: {index.array.ndim}")
    elif index.array.ndim > 1:
        words = "Index should have dimension 1 or 0" if "copy" in op else "Index is supposed to be a vector"
        raise IndexError(f"{op}(): {words}, but got dim: {index.array.ndim}")
    check_index(index, op)
    return index


def outlier(i: Array, low: int, high: int) -> int | None:
    """Return an index that is less than `low` or not less than `high`; None if there is none."""
    if not i.size:
        return None
    least, most = i.take(i.argmin()).item(), i.take(i.argmax()).item()  # for small arrays, faster than min and max
    return least if least < low else most if most >= high else None


def check_bounds(i: Array, size: int, dim: int) -> None:
    """Raise if an index along a dimension of some size is out of bounds."""
    if (wrong := outlier(i, 0, size)) is not None:
        raise RuntimeError(f"index {wrong} is out of bounds for dimension {dim} with size {size}")


def check_rows(i: Array, size: int) -> None:
    """Raise if an index is out of range."""
    if (wrong := outlier(i, 0, size)) is not None:
        raise IndexError(f"index out of range in self: {wrong} for a dimension of size {size}")


def check_flat(i: Array, size: int) -> None:
    """Raise if an index that may be negative is not one of all elements of a tensor."""
    if (wrong := outlier(i, -size, size)) is not None:
        raise IndexError(f"out of range: tried to access index {wrong} on a tensor of {size} elements.")


def bounds_error(index: int, dim: int, size: int) -> Exception:
    """Return the error for a Python integer that is out of bounds."""
    if not -(2**63) <= index < 2**63:
        return ValueError(f"Overflow when unpacking long long: index {index} for dimension {dim} with size {size}")
    return IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")


def as_bounds_error(error: IndexError) -> IndexError:
    """Return NumPy's error about an index with torch's wording."""
    return IndexError(str(error).replace("for axis", "for dimension"))


def too_many(rank: int, index: tuple[Any, ...], scalar: bool) -> IndexError:
    """Return the error for an index of more dimensions than a tensor has; `scalar`: its first item is no tensor."""
    if rank == 0 and len(index) == 1 and scalar:
        return IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
            "C++ to convert a 0-dim tensor to a number"
        )
    return IndexError(f"too many indices for tensor of dimension {rank}")


def as_slice(item: slice) -> slice:
    """Return a slice of plain ints, with torch's refusal of steps that go backwards."""
    start, stop, step = item.start, item.stop, item.step
    if type(start) in PLAIN and type(stop) in PLAIN and step is None:
        return item
    start, stop, step = (None if v is None else _integer(v) for v in (start, stop, step))
    if step is not None and step <= 0:
        if step == 0:
            raise ValueError("slice step cannot be zero")
        raise ValueError("step must be greater than zero: a view cannot go backwards; use flip() to reverse")
    return slice(start, stop, step)


PLAIN = (int, type(None))  # what the ends of a slice are most often


def _integer(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None


def check_slices(input: Tensor, axis: int, count: int, have: Shape, op: str, exact: bool = False) -> None:
    """Raise unless a source of shape `have` has one slice along `axis` for each of so many indices.

    Unless it must be `exact`, a source or an input without dimensions stands for one slice.
    """
    shape = tuple(input.array.shape)
    want = (*shape[:axis], count, *shape[axis + 1 :]) if shape else ()
    if axis and axis >= len(have):
        raise RuntimeError(f"{op}(): Indexing dim {axis} is out of bounds of the source tensor with dim {len(have)}")
    if (have[axis] if have else 1) != count:
        error = IndexError if op.startswith("index_copy") else RuntimeError
        raise error(
            f"{op}(): Number of indices ({count}) should be equal to source.size(dim): "
            f"({have[axis] if have else 1}), for dim: {axis}"
        )
    if have != want and (exact or (have and shape)):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(shape)} source.shape = {list(have)}"
        )


def check_size(part: Tensor, src: Tensor, op: str) -> None:
    """Raise unless what is written into a part of a tensor has its shape."""
    require_tensor(src, "src", op)
    if part.array.shape != src.array.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.array.shape)}, "
            f"slice size = {list(part.array.shape)}"
        )
