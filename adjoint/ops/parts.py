"""Parts of a tensor that have names: `select`, `narrow`, `diagonal`, `unfold`, `as_strided`; writing into them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._typing import Array, Ints, Operand, Out, Shape, Tensor, Value
from ..core import layout, modes
from ..core.device import module_of, place_array
from ..core.device import of as device_of
from ..core.folding import fold
from ..core.observation import literal
from ..core.payload import Payload, is_batch
from ..core.recorders import Primitive, nary, parametric
from ..core.tensor import TensorBase
from ..core.views import note_reach, refresh
from ..core.writable import overlaps_itself
from .arguments import count_of, dim_in, either, index_of, missing, shape_from
from .bounds import as_slice, check_size
from .compare import zeros_p
from .create import into
from .dimensions import become, unsqueeze_p
from .index import index_p, select_p, slice_p, unindex_p
from .index_put import set_slice_p
from .precision import autocasting
from .shape import expand_p, reshape, reshape_p

# The functions that adjoint exports; the others are methods only, or for other modules.
__all__ = [
    "as_strided", "as_strided_", "diag", "diag_embed", "diagflat", "diagonal", "narrow", "narrow_copy",
    "select", "select_scatter", "slice_scatter", "trace",
]  # fmt: skip
_ALL = slice(None)
_ZERO = np.int8(0)  # what a rule writes where nothing of the gradient is left

# --- One place, or a run of places, along a dimension -----------------------------------------------


def select(input: Tensor, dim: int | None = None, index: Any = None, axis: int | None = None) -> Tensor:
    """Return the slice at one place along a dimension: ``input[index]`` for ``dim=0``.

    Parameters
    ----------
    input : Tensor
        At least one dimension.
    dim : int
        The dimension to remove.
    index : int
        The place along it; negative ones count from the end.

    Returns
    -------
    Tensor
        A view of `input` with one dimension less.

    Raises
    ------
    IndexError
        If `index` is out of range.

    Examples
    --------
    >>> adjoint.arange(6).reshape(2, 3).select(1, 2)
    tensor([2, 5])
    """
    dim = dim if axis is None else either(dim, axis)
    rank = input.array.ndim
    if rank == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis, at = dim_in(dim, rank), index if type(index) is int else index_of(index, "index", "select")
    size = input.array.shape[axis]
    if not -size <= at < size:
        raise IndexError(
            f"select(): index {at} out of range for tensor of size {list(input.array.shape)} at dimension {axis}"
        )
    return select_p(input, axis, at)


def narrow(
    input: Tensor, dim: int | None = None, start: Operand | None = None, length: int | None = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `length` places along a dimension: ``input[start : start + length]`` for ``dim=0``.

    Parameters
    ----------
    input : Tensor
        At least one dimension.
    dim : int
        The dimension to narrow.
    start : int or Tensor
        The first place; negative ones count from the end.
    length : int
        How many places; they do not reach beyond the end.

    Returns
    -------
    Tensor
        A view of `input`.

    Raises
    ------
    IndexError, RuntimeError
        If the places are out of range.

    Examples
    --------
    >>> adjoint.arange(5).narrow(0, 1, 3)
    tensor([1, 2, 3])
    """
    dim = dim if axis is None else either(dim, axis)
    rank = input.array.ndim
    if rank == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis = dim_in(dim, rank)
    size = input.array.shape[axis]
    if isinstance(start, TensorBase) and (start.array.ndim or start.array.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    first = index_of(start, "start", "narrow")
    if length is None:
        raise missing("narrow", "length")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= first <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {first})")
    first = first + size if first < 0 else first
    if first + length > size:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
    return slice_p(input, (*(_ALL,) * axis, slice(first, first + length), ...))


def narrow_copy(
    input: Tensor, dim: int | None = None, start: int | None = None, length: int | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Copy `length` places along `dim`, from `start` on."""
    dim = dim if axis is None else either(dim, axis)
    if dim is not None and dim >= input.array.ndim > 0:
        raise RuntimeError(
            f"Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false. dim is {dim}"
        )
    if isinstance(length, int) and length < 0:
        size = input.array.shape[dim] if dim is not None and input.array.ndim else 0
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return into(out, fold(narrow(input, dim, start, length).clone(), "NarrowCopyBackward0", input))


def select_scatter(
    input: Tensor, src: Tensor, dim: int | None = None, index: Any = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with `src` at one index along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    src : Tensor
        Of the shape of ``input.select(dim, index)``.
    dim : int, optional
        Dimension.
    index : int, optional
        Index along it.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.select_scatter(adjoint.zeros(2, 2), adjoint.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    dim = dim if axis is None else either(dim, axis)
    part = select(input, dim, index)
    check_size(part, src, "select_scatter")
    written = set_slice_p(input, src, (*(_ALL,) * dim_in(dim, input.array.ndim), int(index), ...))
    return into(out, fold(written, "SelectScatterBackward0", input, src, dim=dim, index=index))


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1, *,
    out: Out = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with `src` in a slice along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    src : Tensor
        Of the shape of the slice.
    dim : int, default 0
        Dimension.
    start : int, optional
        First index of the slice.
    end : int, optional
        Index after its last.
    step : int, default 1
        Distance of its elements.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.slice_scatter(adjoint.zeros(4), adjoint.ones(2), 0, 1, 3)
    tensor([0., 1., 1., 0.])
    """
    dim = dim if axis is None else either(dim, axis, 0)
    item = as_slice(slice(start, end, step))
    index = (*(_ALL,) * dim_in(dim, input.array.ndim), item, ...)
    check_size(slice_p(input, index), src, "slice_scatter")
    return into(out, set_slice_p(input, src, index))


# --- Diagonals --------------------------------------------------------------------------------------


def _diagonal(x: Any, offset: int, axis1: int, axis2: int) -> Any:
    outside = offset >= x.shape[axis2] or -offset >= x.shape[axis1]  # where NumPy's starts outside of the memory, too
    view = x.diagonal(0, axis1, axis2)[..., :0] if outside else x.diagonal(offset, axis1, axis2)
    if not getattr(view.flags, "writeable", True):  # NumPy's is not
        view.flags.writeable = x.flags.writeable
    return view


def _undiagonal(x: Any, shape: Shape, offset: int, axis1: int, axis2: int) -> Array:
    out = module_of(x).zeros(shape, x.dtype)
    _diagonal(out, offset, axis1, axis2)[...] = x
    return out


diagonal_p: Primitive = parametric(
    _diagonal,
    x=lambda g, x_shape, offset, axis1, axis2: undiagonal_p(g, x_shape, offset, axis1, axis2),
    view="always",
    jvp="linear",
    batch=lambda x, offset, axis1, axis2: diagonal_p(x, offset, axis1 + 1, axis2 + 1),
    saved={"x_shape": "self_sym_sizes", "axis1": "dim1", "axis2": "dim2"},
)
# Zeros of a shape with `x` on a diagonal.
undiagonal_p: Primitive = parametric(
    _undiagonal,
    x=lambda g, offset, axis1, axis2: diagonal_p(g, offset, axis1, axis2),
    jvp="linear",
    batch=lambda x, shape, offset, axis1, axis2: undiagonal_p(x, (x.shape[0], *shape), offset, axis1 + 1, axis2 + 1),
    node_name="DiagEmbedBackward0",
)


def _set_diagonal(x: Value, y: Any, offset: int, axis1: int, axis2: int) -> Array:
    out = module_of(x).array(x, order="C")
    _diagonal(out, offset, axis1, axis2)[...] = y
    return out


def _set_diagonal_batch(x: Value, y: Value, offset: int, axis1: int, axis2: int) -> Value:
    y = reshape_p(y, (y.shape[0], *(1,) * (x.ndim - 1 - y.ndim), *y.shape[1:]))
    return set_diagonal_p(x, y, offset, axis1 + 1, axis2 + 1)


set_diagonal_p: Primitive = nary(
    _set_diagonal,
    inputs=2,
    x=lambda g, offset, axis1, axis2: set_diagonal_p(g, _ZERO, offset, axis1, axis2),
    y=lambda g, offset, axis1, axis2: diagonal_p(g, offset, axis1, axis2),
    jvp=lambda tangents, inputs, out, params: set_diagonal_p(
        zeros_p(inputs[0]) if tangents[0] is None else tangents[0],
        _ZERO if tangents[1] is None else tangents[1],
        *params,
    ),
    batch=_set_diagonal_batch,
    node_name="DiagonalScatterBackward0",
)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return the diagonal between two dimensions, as the last dimension.

    Parameters
    ----------
    input : Tensor
        At least two dimensions.
    offset : int, default 0
        Which diagonal: 0 is the main one, positive ones are above it, negative ones below.
    dim1, dim2 : int, default 0 and 1
        The dimensions of rows and columns.

    Returns
    -------
    Tensor
        A view of `input`: writes to it change the diagonal.

    Examples
    --------
    >>> x = adjoint.arange(6).reshape(2, 3)
    >>> x.diagonal(1)
    tensor([1, 5])
    >>> x.diagonal().zero_()
    tensor([0, 0])
    >>> x
    tensor([[0, 1, 2],
            [3, 0, 5]])
    """
    rank = input.array.ndim
    axis1, axis2 = dim_in(dim1, rank), dim_in(dim2, rank)
    if axis1 == axis2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if type(offset) is not int or abs(offset) >= 2**63:
        offset = count_of(index_of(offset, "offset", "diagonal"), "offset")
    return diagonal_p(input, offset, axis1, axis2)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return matrices of zeros with the last dimension of `input` on a diagonal.

    Parameters
    ----------
    input : Tensor
        Vectors of shape ``(..., n)``.
    offset : int, default 0
        Which diagonal: 0 is the main one, positive ones are above it, negative ones below.
    dim1, dim2 : int, default -2 and -1
        The dimensions of rows and columns in the result.

    Returns
    -------
    Tensor
        Square matrices with ``n + abs(offset)`` rows.

    Examples
    --------
    >>> adjoint.diag_embed(adjoint.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> adjoint.diag_embed(adjoint.tensor([1, 2]), offset=1).shape
    adjoint.Size([3, 3])
    """
    rank = input.array.ndim + 1
    axis1, axis2 = dim_in(dim1, rank), dim_in(dim2, rank)
    if axis1 == axis2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if rank == 1:
        raise RuntimeError("diag_embed: the input must have at least one dimension")
    sizes = iter(input.array.shape[:-1])
    side = input.array.shape[-1] + abs(offset)
    shape = tuple(side if i in (axis1, axis2) else next(sizes) for i in range(rank))
    return undiagonal_p(input, shape, offset, axis1, axis2)


def diag(input: Tensor, diagonal: int = 0, *, out: Out = None) -> Tensor:
    """Return the diagonal of a matrix, or a matrix with a vector on its diagonal.

    Parameters
    ----------
    input : Tensor
        One or two dimensions.
    diagonal : int, default 0
        Which diagonal: 0 is the main one, positive ones are above it, negative ones below.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of a matrix, a copy of its diagonal; of a vector, a square matrix that is zero elsewhere.

    Examples
    --------
    >>> adjoint.diag(adjoint.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    >>> adjoint.diag(adjoint.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    rank = input.array.ndim
    if rank == 1:
        return into(out, diag_embed(input, diagonal))
    if rank != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {rank}D")
    return into(out, diagonal_copy_p(input, diagonal, 0, 1))


diagonal_copy_p: Primitive = parametric(
    lambda x, offset, axis1, axis2: x.diagonal(offset, axis1, axis2).copy(),
    x=lambda g, x_shape, offset, axis1, axis2: undiagonal_p(g, x_shape, offset, axis1, axis2),
    jvp="linear",
    batch=lambda x, offset, axis1, axis2: diagonal_copy_p(x, offset, axis1 + 1, axis2 + 1),
    name="diagonal_copy",
    node_name="DiagonalBackward0_copy",
)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix with all elements on a diagonal, and zeros elsewhere.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    offset : int, default 0
        Which diagonal: 0 is the main one, positive ones are above it.

    Returns
    -------
    Tensor
        Square.

    Examples
    --------
    >>> adjoint.diagflat(adjoint.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(reshape(input, -1), offset)


@autocasting
def trace(input: Tensor) -> Tensor:
    """Return the sum of the diagonal of a matrix.

    Parameters
    ----------
    input : Tensor
        A matrix; it may be rectangular.

    Returns
    -------
    Tensor
        A number; int64 for integers.

    Examples
    --------
    >>> adjoint.tensor([[1.0, 2.0], [3.0, 4.0]]).trace()
    tensor(5.)
    """
    if input.array.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.array.ndim}")
    return fold(diagonal_p(input, 0, 0, 1).sum(), "TraceBackward0", input)


# --- Windows ----------------------------------------------------------------------------------------


def _unfold(x: Array, axis: int, size: Any, step: int) -> Any:
    if x.ndim == 0:
        return x.reshape(1)[:size]
    if not (0 <= size <= x.shape[axis] and step > 0):  # the view would look beyond its memory
        raise RuntimeError(f"windows of size {size}, {step} apart, of an axis that is {x.shape[axis]} long")
    count = (x.shape[axis] - size) // step + 1
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :], size)
    strides = (*x.strides[:axis], x.strides[axis] * step, *x.strides[axis + 1 :], x.strides[axis])
    return layout.strided_view(x, shape, strides)


def _refold(x: Value, shape: Shape, axis: int, size: Any, step: int) -> Value:
    out = module_of(x).zeros(shape, x.dtype)
    if not shape:
        return x.sum().reshape(shape) if size else out
    count = x.shape[axis]
    for k in range(size):
        out[(_ALL,) * axis + (slice(k, k + (count - 1) * step + 1, step),)] += x[..., k]
    return out


unfold_p: Primitive = parametric(
    _unfold,
    x=lambda g, x_shape, axis, size, step: refold_p(g, x_shape, axis, size, step),
    view=True,
    jvp="linear",
    batch=lambda x, axis, size, step: (
        unfold_p(x, axis + 1, size, step) if x.ndim > 1 else expand_p(unsqueeze_p(x, 1), (x.shape[0], size))
    ),
    saved={"x_shape": "self_sym_sizes", "axis": "dimension"},
)
# Windows back in their places, added up where they overlap.
refold_p: Primitive = parametric(
    _refold,
    x=lambda g, axis, size, step: unfold_p(g, axis, size, step),
    jvp="linear",
    batch=lambda x, shape, axis, size, step: (
        refold_p(x, (x.shape[0], *shape), axis + 1, size, step) if shape else x.sum(1)
    ),
    node_name="UnfoldBackwardBackward0",
)


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return windows along a dimension as a view; a new last dimension runs inside them.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dimension : int
        The dimension along which windows begin.
    size : int
        The size of each window.
    step : int
        The distance between the beginnings of two of them.

    Returns
    -------
    Tensor
        A view: `dimension` has size ``(n - size) // step + 1``, and a last dimension of size `size` is added. Where
        windows overlap, gradients add up.

    Raises
    ------
    RuntimeError
        If a window is longer than the dimension, or `step` is not positive.

    Examples
    --------
    >>> adjoint.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    rank = input.array.ndim
    axis = dim_in(dimension, rank)
    length = input.array.shape[axis] if rank else 1
    if type(size) is not int or type(step) is not int:
        size, step = index_of(size, "size", "unfold"), index_of(step, "step", "unfold")
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {axis} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return unfold_p(input, axis, size, step)


# --- Any geometry of the same memory ----------------------------------------------------------------


def _as_strided(x: Array, shape: Shape, strides: Any, shift: int, own: Any) -> Any:
    item = x.itemsize
    if any(n > 1 and s != o * item for n, s, o in zip(x.shape, x.strides, own, strict=True)):
        # The value has other strides than the one at declaration: a tangent, or a base after a write.
        return x.reshape(-1)[place_array(_elements(x.shape, own, shape, strides, shift), device_of(x))]
    strides = tuple(s * item for s in strides)
    return layout.offset_view(x, tuple(shape), strides, shift * item)


def _as_strided_x(g: Value, x_shape: Shape, shape: Shape, strides: Shape, shift: int, own: Any) -> Value:
    """Add up the gradient in memory, and read that as the input lay in it."""
    if not isinstance(g, TensorBase | Payload) and own == _contiguous_strides(x_shape) and g.size and shift >= 0:
        last = shift + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
        if last < math.prod(x_shape):  # a part of the input, as views are
            whole, item = module_of(g).zeros(x_shape, g.dtype), g.itemsize
            part = layout.offset_view(whole, tuple(shape), tuple(s * item for s in strides), shift * item)
            if not overlaps_itself(part):
                part[...] = g
                return whole
    source = _offsets(shape, strides) + shift
    target = _offsets(x_shape, own)
    low = min(0, source.min(initial=0))
    size = int(max(source.max(initial=0), target.max(initial=0)) - low + 1)
    memory = unindex_p((g.reshape(source.size), literal(source - low)), (size,), (0,))
    found = index_p((memory, literal(target - low)), (0,))
    times = np.bincount(target - low, minlength=size)[target - low]
    if times.max(initial=0) > 1:  # an element that the input shows several times is shared among them
        found = found / place_array(times, device_of(found.array if isinstance(found, TensorBase) else found))
    return found.reshape(x_shape)


def _offsets(shape: Shape, strides: Sequence[int]) -> Any:
    offsets = np.zeros(1, np.int64)
    for n, s in zip(shape, strides, strict=True):
        offsets = (offsets[:, None] + s * np.arange(n)).reshape(-1)
    return offsets


def _elements(lies: Any, own: Any, shape: Shape, strides: Shape, shift: int) -> Any:
    """Return which elements, counted in the order of their indices, of a tensor of strides `own` a view looks at."""
    have, wanted = _offsets(lies, own), _offsets(shape, strides) + shift
    order = np.argsort(have, kind="stable")
    at = np.minimum(np.searchsorted(have, wanted, sorter=order), max(have.size - 1, 0))
    if wanted.size and (not have.size or (have[order[at]] != wanted).any()):
        raise RuntimeError("as_strided looks at elements that the tensor does not have, which is no copy of its memory")
    return order[at].reshape(shape)


def _as_strided_batch(x: Value, shape: Shape, strides: Shape, shift: int, own: Any) -> Value:
    array = x.array if isinstance(x, TensorBase) else x
    if not isinstance(array, Payload) or is_batch(array):
        lies = tuple(s // array.itemsize for s in array.strides)
        if lies[1:] == own or math.prod(array.shape[1:]) <= 1:  # a view, so that a program may write through it
            return as_strided_p(x, (x.shape[0], *shape), (lies[0], *strides), shift, lies)
    elements = _elements(x.shape[1:], own, shape, strides, shift).reshape(-1)
    flat = reshape_p(x, (x.shape[0], math.prod(x.shape[1:])))
    return reshape_p(index_p((flat, elements), (-1, 0)), (x.shape[0], *shape))


# `strides` count elements; `shift` is the offset of the first one from that of `x`, whose strides are `own`.
as_strided_p: Primitive = parametric(
    _as_strided,
    x=_as_strided_x,
    view=True,
    jvp="linear",
    batch=_as_strided_batch,
    written="AsStridedBackward1",
)


def as_strided(input: Tensor, size: Ints, stride: Ints, storage_offset: int | None = None) -> Tensor:
    """Return a view of the memory of `input` by any sizes, strides and offset.

    Element ``(i, j, ...)`` is at place ``storage_offset + i * stride[0] + j * stride[1] + ...``. The gradient is exact
    also where elements overlap.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    size : sequence of ints
        The shape of the view.
    stride : sequence of ints
        For each dimension, the distance in elements between neighbours; not negative.
    storage_offset : int, optional
        The place of the first element in the memory, by default that of `input`.

    Returns
    -------
    Tensor
        A view. Clone it before writing to it if elements overlap.

    Raises
    ------
    RuntimeError
        If the view would reach beyond the memory.

    Examples
    --------
    >>> adjoint.arange(4).as_strided((3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    for name, given in (("size", size), ("stride", stride)):
        if not isinstance(given, tuple | list):
            raise TypeError(f"as_strided(): argument '{name}' must be tuple of ints, not {type(given).__name__}")
    if storage_offset is not None:
        storage_offset = count_of(index_of(storage_offset, "storage_offset", "as_strided"), "storage_offset")
    shape, strides = shape_from((size,)), shape_from((stride,))
    if len(shape) != len(strides):
        raise RuntimeError(
            f"mismatch in length of strides and shape: got {len(strides)} strides for {len(shape)} sizes"
        )
    if any(s < 0 for s in strides):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}"
        )
    if isinstance(input.array, Payload):
        refresh(input)  # after a write its memory has another layout
    array = input.array
    memory = array.memory() if isinstance(array, Payload) and array.level else None
    if is_batch(input):
        own, here = tuple(s // array.itemsize for s in array.strides), input.storage_offset()
        _check_within(tuple(array.shape), own, here, shape, strides, storage_offset)
    elif (
        memory is not None and not isinstance(memory, Payload) and memory.shape == array.shape
    ):  # of a dual value: its primal's
        own, here = tuple(s // memory.itemsize for s in memory.strides), input.storage_offset()
    elif isinstance(array, Payload):
        # Inside a transform only a base has memory, and that is contiguous.
        if input.lineage is not None:
            raise RuntimeError("as_strided of a view inside a transform is not defined; call it on the base")
        own, here = _contiguous_strides(input.array.shape), 0
    else:
        own, here = tuple(s // array.itemsize for s in array.strides), input.storage_offset()
    offset = here if storage_offset is None else int(storage_offset)
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if not isinstance(array, Payload) and 0 not in shape:
        need = (offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1) * array.itemsize
        have = input.untyped_storage().nbytes()
        if need > have:
            raise RuntimeError(
                f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and "
                f"itemsize {array.itemsize} requiring a storage size of {need} are out of bounds for "
                f"storage of size {have}"
            )
    if (
        input.lineage is not None
        and input.node is not None
        and modes.is_grad_enabled()
        and not isinstance(array, Payload)
    ):
        found = _of_base(input, shape, strides, offset)
        if found is not None:
            return found
    out = as_strided_p(input, shape, strides, offset - here, own)
    note_reach(out)
    return out


def _check_within(lies: Any, own: Any, here: int, shape: Shape, strides: Shape, offset: int | None) -> None:
    """Raise if a look at one element of a batch would reach beyond its memory, into that of others."""
    start = here if offset is None else int(offset)
    end = start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    last = here + sum((n - 1) * s for n, s in zip(lies, own, strict=True)) + 1
    if 0 not in shape and (start < here or end > last):
        raise RuntimeError(
            f"result = tensor.as_strided({list(shape)}, {list(strides)}, {start}) can access memory outside of "
            f"`tensor`. `result` can access some memory in range [{start}, {end}], but `tensor` can only access some "
            f"memory in range [{here}, {last}]. This is not supported inside of vmap, where a tensor stands for one "
            "element of a batch."
        )


def _of_base(input: Tensor, shape: Shape, strides: Any, offset: int) -> Tensor | None:
    """Return what is wanted of a view as a view of its base, where it reaches beyond the view: so do its gradients."""
    base, here = cast("Any", input.lineage).base, input.storage_offset()
    item = input.array.itemsize
    if base.array.dtype != input.array.dtype or 0 in shape:
        return None
    own = _offsets(tuple(input.array.shape), [s // item for s in input.array.strides])
    if np.isin(_offsets(shape, strides) + offset - here, own).all():
        return None
    own = tuple(s // item for s in base.array.strides)
    found = as_strided_p(base, shape, strides, offset - base.storage_offset(), own)
    cast("Any", found.lineage).kind = cast("Any", input.lineage).kind
    return found


def _contiguous_strides(shape: Shape) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def as_strided_(input: Tensor, size: Ints, stride: Ints, storage_offset: int | None = None) -> Tensor:
    """Look at the own memory by any sizes, strides and offset, in place."""
    return become(input, lambda: as_strided(input, size, stride, storage_offset), "as_strided_")
