"""Copies that repeat, move or leave out elements: flip, roll, tile, triangles, padding; `as_strided`."""

from __future__ import annotations

from itertools import combinations as _combinations
from itertools import combinations_with_replacement as _with_replacement
from typing import Any, TypeAlias

import numpy as np

from .._typing import Array, Axes, DeviceLike, DType, Ints, LayoutArg, Number, Out, Shape, Tensor, Value
from ..core import device as devices
from ..core import dtypes
from ..core.device import module_of
from ..core.dtypes import as_dtype
from ..core.failures import title_of
from ..core.inplace import inplace
from ..core.layout import check_layout, dense, dense_or_image
from ..core.nodes import wrap
from ..core.observation import literal
from ..core.recorders import Primitive, parametric
from ..core.tensor import TensorBase
from .arguments import beside, count_of, dim_in, dims_in, either, is_int, missing, shape_from
from .convert import concrete
from .create import finish, into
from .index import index_p
from .literals import check_fits
from .looping import looped_for
from .shape import expand_p, reshape, reshape_p

# The functions that adjoint exports; the others are methods only, or for other modules.
__all__ = [
    "combinations", "constant_pad_nd", "flip", "fliplr", "flipud", "repeat_interleave", "roll", "rot90", "tile",
    "tril", "tril_indices", "triu", "triu_indices",
]  # fmt: skip

Widths: TypeAlias = tuple[tuple[int, int], ...]

# --- Repeating --------------------------------------------------------------------------------------


def _repeat(x: Value, repeats: Ints) -> Array:
    return module_of(x).tile(x, repeats)


def _repeat_x(g: Value, x_shape: Shape, repeats: Any) -> Value:
    lead = len(repeats) - len(x_shape)
    shape = (*repeats[:lead], *(n for pair in zip(repeats[lead:], x_shape, strict=True) for n in pair))
    axes = (*range(lead), *range(lead, len(shape), 2))
    return g.reshape(shape).sum(axes) if axes else g.reshape(x_shape)


repeat_p: Primitive = parametric(
    _repeat,
    x=_repeat_x,
    jvp="linear",
    batch=lambda x, repeats: repeat_p(
        reshape_p(x, (x.shape[0], *(1,) * (len(repeats) - x.ndim + 1), *x.shape[1:])), (1, *repeats)
    ),
)


def repeat(input: Tensor, *args: Ints, repeats: Ints | None = None) -> Tensor:
    """Repeat `input` along each dimension.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    repeats : int... or sequence of ints
        How often along each dimension; as many as `input` has, or more: new dimensions come in front.

    Returns
    -------
    Tensor
        A copy in which dimension i is ``repeats[i]`` times as long. `Tensor.expand` repeats without using memory.

    Examples
    --------
    >>> adjoint.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if not args and repeats is None:
        raise missing("repeat", "repeats")
    counts = shape_from(args if repeats is None else (repeats,))
    rank = input.array.ndim
    if len(counts) < rank:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: got "
            f"{len(counts)} for a tensor of {rank} dimensions"
        )
    if any(n >= 2**63 for n in counts):
        raise TypeError(f"repeat(): argument 'repeats' failed to unpack {counts}: Overflow when unpacking long long")
    if any(n < 0 for n in counts):
        raise RuntimeError(f"Trying to create tensor with negative dimension: repeats are {list(counts)}")
    return repeat_p(input, counts)


def tile(input: Tensor, *args: Ints, dims: Ints | None = None) -> Tensor:
    """Repeat `input` along each dimension; missing counts in front are 1.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dims : int... or sequence of ints
        How often along each dimension. Unlike `Tensor.repeat`, it may have fewer than `input` has.

    Returns
    -------
    Tensor
        A copy in which each dimension is as many times as long.

    Examples
    --------
    >>> adjoint.tensor([[1, 2], [3, 4]]).tile(2)
    tensor([[1, 2, 1, 2],
            [3, 4, 3, 4]])
    """
    if not args and dims is None:
        raise missing("tile", "dims")
    counts = shape_from(args if dims is None else (dims,))
    return repeat(input, (1,) * (input.array.ndim - len(counts)) + counts)


@looped_for("repeats")
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Repeat each element, one after the other.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    repeats : int or Tensor
        How often: one number, or a vector of integers with one for each place along `dim`. Without `repeats`, `input`
        is that vector, and the result says which place each repetition comes from.
    dim : int, optional
        The dimension to repeat along. By default `input` is flattened.
    output_size : int, optional
        The length of the result along `dim`; checked.

    Returns
    -------
    Tensor
        A copy with repeated elements.

    Examples
    --------
    >>> adjoint.tensor([1, 2]).repeat_interleave(2)
    tensor([1, 1, 2, 2])
    >>> x = adjoint.tensor([[1, 2], [3, 4]])
    >>> adjoint.repeat_interleave(x, adjoint.tensor([1, 2]), dim=0)
    tensor([[1, 2],
            [3, 4],
            [3, 4]])
    """
    dim = dim if axis is None else either(dim, axis)
    if repeats is None:
        counts = concrete(input, "repeat_interleave()")
        if counts.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        if (counts < 0).any():
            raise RuntimeError("repeats can not be negative")
        return beside(np.repeat(np.arange(len(counts)), counts), input)
    if dim is None:
        input, dim = reshape(input, -1), 0
    axis = dim_in(dim, input.array.ndim)
    if input.array.ndim == 0:
        input = reshape(input, 1)
    length = input.array.shape[axis]
    if not isinstance(repeats, TensorBase | list | tuple) and not is_int(repeats):
        raise TypeError(f"repeat_interleave(): argument 'repeats' must be Tensor or int, not {type(repeats).__name__}")
    counts = concrete(repeats, "repeat_interleave()") if isinstance(repeats, TensorBase) else np.asarray(repeats)
    if counts.dtype.kind not in "iu":
        raise RuntimeError("repeats has to be Long or Int tensor")
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.ndim == 1 and counts.size not in (1, length):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} "
            f"and input.size({axis}) = {length}"
        )
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    total = int(counts.sum()) * (length if counts.size == 1 else 1)
    if output_size is not None and output_size != total:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {total} but got {output_size}")
    if counts.size == 1:
        n = int(counts.reshape(-1)[0])
        shape = input.array.shape
        spread = expand_p(
            reshape_p(input, (*shape[: axis + 1], 1, *shape[axis + 1 :])),
            (*shape[: axis + 1], n, *shape[axis + 1 :]),
        )
        return reshape(spread.clone(), (*shape[:axis], length * n, *shape[axis + 1 :]))
    index = beside(np.repeat(np.arange(length), counts), input)
    from .slices import index_select

    return index_select(input, axis, index)


# --- Moving -----------------------------------------------------------------------------------------


def _flip(x: Value, axes: Axes) -> Array:
    # Negative strides are unknown to torch, so the reversed view is copied.
    return module_of(x).flip(x, axes).copy(order="C")


flip_p: Primitive = parametric(
    _flip,
    x=lambda g, axes: flip_p(g, axes),
    jvp="linear",
    batch=lambda x, axes: flip_p(x, tuple(a + 1 for a in axes)),
    saved={"axes": "dims"},
)


def flip(input: Tensor, *args: Ints, dims: Ints | None = None) -> Tensor:
    """Reverse the order of elements along dimensions.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dims : int... or sequence of ints
        The dimensions to reverse.

    Returns
    -------
    Tensor
        A copy of the same shape; a view as in NumPy would need negative strides.

    Examples
    --------
    >>> adjoint.tensor([[1, 2], [3, 4]]).flip(0)
    tensor([[3, 4],
            [1, 2]])
    >>> adjoint.tensor([[1, 2], [3, 4]]).flip(0, 1)
    tensor([[4, 3],
            [2, 1]])
    """
    if not args and dims is None:
        raise missing("flip", "dims")
    if args and dims is not None:
        raise TypeError(f"flip() takes 2 positional arguments but {len(args) + 2} were given")
    wanted = shape_from(args if dims is None else (dims,))
    if input.array.ndim == 0:
        for d in wanted:
            dim_in(d, 0)
        return input.clone()
    return flip_p(input, dims_in(wanted, input.array.ndim) if wanted else ())


def fliplr(input: Tensor) -> Tensor:
    """Reverse the order of columns: flip dimension 1.

    Parameters
    ----------
    input : Tensor
        At least two dimensions.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.fliplr(adjoint.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if input.array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip_p(input, (1,))


def flipud(input: Tensor) -> Tensor:
    """Reverse the order of rows: ``input.flip(0)``.

    Parameters
    ----------
    input : Tensor
        At least one dimension.

    Returns
    -------
    Tensor
        A copy of the same shape.

    Examples
    --------
    >>> adjoint.flipud(adjoint.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if input.array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip_p(input, (0,))


def _roll(x: Array, shifts: tuple[int, ...], axes: Axes) -> Array:
    return dense_or_image(module_of(x).roll(x, shifts, axes))


roll_p: Primitive = parametric(
    _roll,
    x=lambda g, shifts, axes: roll_p(g, tuple(-s for s in shifts), axes),
    jvp="linear",
    batch=lambda x, shifts, axes: roll_p(x, shifts, tuple(a + 1 for a in axes)),
)


def roll(input: Tensor, shifts: Ints, dims: Ints | None = None) -> Tensor:
    """Shift elements along dimensions; those pushed out at the end come in at the front.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    shifts : int or tuple of ints
        By how many places; negative ones shift to the front.
    dims : int or tuple of ints, optional
        The dimension of each shift. By default `input` is flattened, shifted and given its shape again.

    Returns
    -------
    Tensor
        A copy of the same shape.

    Examples
    --------
    >>> adjoint.tensor([1, 2, 3]).roll(1)
    tensor([3, 1, 2])
    >>> adjoint.roll(adjoint.tensor([[1, 2], [3, 4]]), 1, dims=0)
    tensor([[3, 4],
            [1, 2]])
    """
    if dims is not None and not (isinstance(dims, list | tuple) or is_int(dims)):
        raise TypeError(f"roll(): argument 'dims' must be tuple of ints, not {type(dims).__name__}")
    steps = (count_of(shifts, "shifts"),) if hasattr(shifts, "__index__") else tuple(int(s) for s in shifts)
    if not steps:
        raise RuntimeError("`shifts` required")
    places = () if dims is None else (dims,) if hasattr(dims, "__index__") else tuple(dims)
    if not places:
        if len(steps) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(places)}")
        if input.array.ndim <= 1:
            return roll_p(input, steps, (0,)) if input.array.ndim else input.clone()
        flat = roll_p(reshape(input, -1), steps, (0,))
        return reshape_p(flat, input.array.shape)
    if len(steps) != len(places):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(places)}")
    if input.array.ndim == 0:
        raise IndexError(f"Dimension specified as {places[0]} but tensor has no dimensions")
    return roll_p(input, steps, tuple(dim_in(d, input.array.ndim) for d in places))


rot90_p: Primitive = parametric(
    lambda x, k, axes: module_of(x).rot90(x, k, axes).copy(),
    x=lambda g, k, axes: rot90_p(g, -k, axes),
    name="rot90",
    jvp="linear",
    batch=lambda x, k, axes: rot90_p(x, k, tuple(a + 1 for a in axes)),
)


def rot90(input: Tensor, k: int = 1, dims: Ints = (0, 1)) -> Tensor:
    """Rotate by 90 degrees in the plane of two dimensions, `k` times.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    k : int, default 1
        Number of turns, from the first dimension towards the second; negative for the other way.
    dims : int or tuple of int, default (0, 1)
        The two dimensions.

    Returns
    -------
    Tensor
        With both sizes exchanged for an odd `k`.

    Examples
    --------
    >>> adjoint.rot90(adjoint.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    rank = input.array.ndim
    if not isinstance(dims, tuple | list) or not all(map(is_int, dims)):
        raise TypeError(f"rot90(): argument 'dims' (position 3) must be tuple of ints, not {dims!r}")
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if rank < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {rank}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == rank:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    return rot90_p(input, count_of(k, "k") % 4, tuple(dim_in(d, rank) for d in dims))


# --- Triangles --------------------------------------------------------------------------------------


def _tril(x: Array, diagonal: int) -> Array:
    return dense(module_of(x).tril(x, diagonal))


def _triu(x: Array, diagonal: int) -> Array:
    return dense(module_of(x).triu(x, diagonal))


tril_p: Primitive = parametric(_tril, x=lambda g, diagonal: tril_p(g, diagonal), jvp="linear", batch="same")
triu_p: Primitive = parametric(_triu, x=lambda g, diagonal: triu_p(g, diagonal), jvp="linear", batch="same")
_tril_, _triu_ = inplace(tril_p), inplace(triu_p)


def _check_matrices(input: Tensor, op: str) -> None:
    if input.array.ndim < 2:
        raise RuntimeError(f"{op}: input tensor must have at least 2 dimensions")


def tril(input: Tensor, diagonal: int = 0, *, out: Out = None) -> Tensor:
    """Return the lower triangle of a matrix: elements above a diagonal become zero.

    Parameters
    ----------
    input : Tensor
        Matrices of shape ``(..., n, m)``.
    diagonal : int, default 0
        The last diagonal that stays: 0 is the main one, positive ones are above it.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A copy of the same shape.

    Examples
    --------
    >>> adjoint.ones(3, 3).tril()
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
    >>> adjoint.ones(2, 3).tril(diagonal=1)
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    _check_matrices(input, "tril")
    return into(out, tril_p(input, diagonal))


def triu(input: Tensor, diagonal: int = 0, *, out: Out = None) -> Tensor:
    """Return the upper triangle of a matrix: elements below a diagonal become zero.

    Parameters
    ----------
    input : Tensor
        Matrices of shape ``(..., n, m)``.
    diagonal : int, default 0
        The first diagonal that stays: 0 is the main one, positive ones are above it.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A copy of the same shape.

    Examples
    --------
    >>> adjoint.triu(adjoint.ones(3, 3), diagonal=1)
    tensor([[0., 1., 1.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """
    _check_matrices(input, "triu")
    return into(out, triu_p(input, diagonal))


def tril_(input: Tensor, diagonal: int = 0) -> Tensor:
    """Set the elements above a diagonal to zero, in place.

    Parameters
    ----------
    input : Tensor
        Matrices of shape ``(..., n, m)``, overwritten.
    diagonal : int, default 0
        The last diagonal that stays: 0 is the main one, positive ones are above it.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> x = adjoint.ones(2, 2)
    >>> x.tril_()
    tensor([[1., 0.],
            [1., 1.]])
    """
    _check_matrices(input, "tril_")
    return _tril_(input, diagonal)


def triu_(input: Tensor, diagonal: int = 0) -> Tensor:
    """Set the elements below a diagonal to zero, in place.

    Parameters
    ----------
    input : Tensor
        Matrices of shape ``(..., n, m)``, overwritten.
    diagonal : int, default 0
        The first diagonal that stays: 0 is the main one, positive ones are above it.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> x = adjoint.ones(2, 2)
    >>> x.triu_(diagonal=1)
    tensor([[0., 1.],
            [0., 0.]])
    """
    _check_matrices(input, "triu_")
    return _triu_(input, diagonal)


def _triangle(
    of: Any, row: int, col: int, offset: int, dtype: DType | None, device: DeviceLike, layout: LayoutArg
) -> Tensor:
    check_layout(layout)
    for word, count in (("row", row), ("col", col)):
        if count < 0:
            raise RuntimeError(f"{word} must be non-negative, got {count}")
    wanted = dtypes.int64 if dtype is None else as_dtype(dtype)
    if wanted not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(f"\"{of.__name__}\" not implemented for '{title_of(wanted)}'")
    array = np.stack(of(row, offset, col)).astype(wanted.np)
    return finish(literal(devices.place_array(array, devices.as_device(device))))


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: DeviceLike = None,
    layout: LayoutArg = None,
) -> Tensor:  # fmt: skip
    """Return the indices of the lower triangle of a matrix.

    Parameters
    ----------
    row, col : int
        The shape of the matrix.
    offset : int, default 0
        The last diagonal that belongs to it: 0 is the main one, positive ones are above it.
    dtype : dtype, optional
        int64 by default, or int32.
    device : device, optional
        Where the result is made, the current device by default.
    layout : layout, optional
        Only ``adjoint.strided``.

    Returns
    -------
    Tensor
        Of shape ``(2, k)``: the rows and the columns of the k elements, row by row.

    Examples
    --------
    >>> rows, columns = adjoint.tril_indices(2, 2)
    >>> adjoint.tensor([[1, 2], [3, 4]])[rows, columns]
    tensor([1, 3, 4])
    """
    return _triangle(np.tril_indices, row, col, offset, dtype, device, layout)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: DeviceLike = None,
    layout: LayoutArg = None,
) -> Tensor:  # fmt: skip
    """Return the indices of the upper triangle of a matrix.

    Parameters
    ----------
    row : int
        Number of rows.
    col : int
        Number of columns.
    offset : int, default 0
        Diagonal to begin at: 0 is the main one, positive ones are above it.
    dtype : dtype, optional
        Data type, int64 by default.
    device : device, optional
        Device of the result.
    layout : layout, optional
        Memory layout, strided.

    Returns
    -------
    Tensor
        (2, count): rows, and columns.

    Examples
    --------
    >>> adjoint.triu_indices(3, 3, 1)
    tensor([[0, 0, 1],
            [1, 2, 2]])
    """
    return _triangle(np.triu_indices, row, col, offset, dtype, device, layout)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all combinations of `r` elements of a vector, one per row.

    Parameters
    ----------
    input : Tensor
        Vector.
    r : int, default 2
        Number of elements.
    with_replacement : bool, default False
        Whether an element may occur more than once.

    Returns
    -------
    Tensor
        (number of combinations, r).

    Examples
    --------
    >>> adjoint.combinations(adjoint.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.array.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return wrap(literal(module_of(input.array).empty((0,), input.array.dtype)))
    choose = _with_replacement if with_replacement else _combinations
    rows = np.array(list(choose(range(input.array.size), r)), np.int64).reshape(-1, r)
    return index_p((input, wrap(literal(rows))), (0,))


# --- Padding ----------------------------------------------------------------------------------------


def _pad(x: Array, widths: Widths, value: Number) -> Array:
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    inner, outer = [], []
    for n, m, (before, _) in zip(x.shape, shape, widths, strict=True):
        inner.append(slice(max(before, 0), max(min(before + n, m), 0)))
        outer.append(slice(max(-before, 0), max(min(m - before, n), 0)))
    part: Array = x[tuple(outer)]
    if part.shape == shape:  # where nothing is added
        return part.copy()
    xp = module_of(x)
    out: Array = xp.zeros(shape, x.dtype) if value == 0 else xp.full(shape, value, x.dtype)
    out[tuple(inner)] = part
    return out


# `widths` has how much to add (or, negative, to take away) before and after each dimension.
pad_p: Primitive = parametric(
    _pad,
    x=lambda g, widths: pad_p(g, tuple((-before, -after) for before, after in widths), 0),
    jvp=lambda tangents, inputs, out, params: pad_p(tangents[0], params[0], 0),
    batch=lambda x, widths, value: pad_p(x, ((0, 0), *widths), value),
    name="pad",
    node_name="ConstantPadNdBackward0",
)


def constant_pad_nd(input: Tensor, pad: Any, value: Number = 0) -> Tensor:
    """Pad with a constant; `pad` has (before, after) of the last dimension first.

    Examples
    --------
    >>> adjoint.constant_pad_nd(adjoint.ones(2), (1, 2))
    tensor([0., 1., 1., 0., 0.])
    """
    pad = tuple(int(p) for p in pad)
    rank = input.array.ndim
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, but it is {len(pad)}")
    if len(pad) > 2 * rank:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {rank}"
        )
    widths = [(0, 0)] * (rank - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    for d, (n, (before, after)) in enumerate(zip(input.array.shape, widths, strict=True)):
        if n + before + after < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {before} and {after}, resulted in a negative "
                f"output size, which is invalid. Check dimension {d} of your input."
            )
    if isinstance(value, complex) and input.array.dtype.kind != "c":
        raise RuntimeError("value cannot be converted to type float without overflow: constant_pad_nd(value)")
    check_fits(value, dtypes.of(input.array.dtype))
    return pad_p(input, tuple(widths), value)
