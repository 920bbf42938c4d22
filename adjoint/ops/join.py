"""Joining tensors into one, and splitting one into several."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .._typing import Array, Inputs, Ints, Kernel, Out, Shape, Tensor, Value
from ..core import modes
from ..core.device import module_of
from ..core.failures import title_of
from ..core.folding import fold
from ..core.layout import dense, dense_or_image
from ..core.observation import note_read
from ..core.recorders import Primitive, parametric, variadic
from ..core.tensor import TensorBase
from .arguments import count_of, dim_in, either, index_of, is_int, require_all_tensors
from .compare import zeros_p
from .create import apart, into
from .dimensions import atleast_1d, atleast_2d, atleast_3d, permute_p
from .index import slice_p
from .shape import expand_p, reshape, reshape_p

_ALL = slice(None)

# --- Joining ----------------------------------------------------------------------------------------


def _concatenate(xs: Sequence[Array], axis: int) -> Array:
    return dense_or_image(module_of(xs[0]).concatenate(xs, axis))


def _cat_xs(g: Array, xs_shape: Sequence[Shape], axis: int, needs: Sequence[bool]) -> list[Value | None]:
    parts: list[Value | None] = []
    at, lead = 0, (_ALL,) * axis
    for shape, needed in zip(xs_shape, needs):
        end = at + shape[axis]
        parts.append(slice_p(g, (*lead, slice(at, end), ...)) if needed else None)
        at = end
    return parts


def _join_jvp(primitive: Any) -> Kernel:
    def jvp(tangents: Any, inputs: Any, out: Value, params: Any) -> Any:
        return primitive()(
            tuple(zeros_p(x) if t is None else t for t, x in zip(tangents, inputs, strict=True)), *params
        )

    return jvp


cat_p: Primitive = variadic(
    _concatenate,
    xs=_cat_xs,
    name="cat",
    promotes=True,
    jvp=_join_jvp(lambda: cat_p),
    batch=lambda *args: cat_p(args[:-1], args[-1] + 1),
)


_cat_two = cat_p.of_arity(2).call  # type: ignore[attr-defined]


def _stack(xs: Any, axis: Any) -> Array:
    new = (*(_ALL,) * axis, None)
    out = _concatenate([x[new] for x in xs], axis)
    return out if out.ndim > 4 else dense(out)  # a stack of images keeps their order


def _stack_xs(g: Value, axis: int, needs: Any = None) -> list[Tensor | None]:
    lead = (_ALL,) * axis
    return [slice_p(g, (*lead, i, ...)) if needed else None for i, needed in enumerate(needs)]


stack_p: Primitive = variadic(
    _stack,
    xs=_stack_xs,
    promotes=True,
    jvp=_join_jvp(lambda: stack_p),
    batch=lambda *args: stack_p(args[:-1], args[-1] + 1),
)


def _sequence(tensors: Any, op: str) -> tuple[Any, ...]:
    if not isinstance(tensors, tuple | list) and (
        isinstance(tensors, TensorBase) or not hasattr(type(tensors), "__torch_function__")
    ):
        found = type(tensors).__name__
        raise TypeError(f"{op}(): argument 'tensors' (position 1) must be tuple of Tensors, not {found}")
    xs: tuple[Any, ...] = tuple(tensors)
    for x in xs:
        if not isinstance(x, TensorBase):
            at = next(i for i, other in enumerate(xs) if other is x)
            raise TypeError(f"expected Tensor as element {at} in argument 0, but got {type(x).__name__}")
    return xs


def _some(tensors: Inputs, op: str) -> tuple[Any, ...]:
    xs = _sequence(tensors, op)
    if not xs:
        raise RuntimeError(f"{op} expects a non-empty TensorList")
    return xs


def cat(tensors: Sequence[Tensor] | Tensor, dim: int = 0, *, out: Out = None, axis: int | None = None) -> Tensor:
    """Join tensors along an existing dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        Shapes that are equal but along `dim`. Dtypes are promoted; an empty vector is skipped.
    dim : int, default 0
        The dimension along which they follow each other.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A copy. Its gradient is split among the tensors.

    Raises
    ------
    RuntimeError
        If the shapes do not fit.

    Examples
    --------
    >>> adjoint.cat([adjoint.zeros(2), adjoint.ones(1)])
    tensor([0., 0., 1.])
    >>> adjoint.cat([adjoint.zeros(2, 3), adjoint.zeros(2, 1)], dim=1).shape
    adjoint.Size([2, 4])
    """
    usual = out is None and axis is None and not modes.unusual
    if usual and type(tensors) is list and len(tensors) == 2:  # the most frequent form, in programs of small ops too
        x, y = tensors
        if isinstance(x, TensorBase) and isinstance(y, TensorBase):
            try:
                return _cat_two(x, y, dim_in(dim, x.array.ndim))  # type: ignore[no-any-return]
            except Exception:  # the checks below say it better
                usual = False
    xs = _sequence(tensors, "cat")
    if not xs:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    if usual:
        try:
            return cat_p(xs, dim_in(dim, xs[0].array.ndim))
        except Exception:  # as above
            pass
    apart(out, *xs)
    return into(out, _checked_cat(xs, dim if axis is None else either(dim, axis, 0)))


def _checked_cat(xs: tuple[Any, ...], dim: int) -> Tensor:
    # An empty vector joins with anything, as it did before tensors of no elements had shapes.
    shaped = [x for x in xs if x.array.shape != (0,)] or list(xs)
    first = shaped[0].array.shape
    rank = len(first)
    for i, x in enumerate(xs):
        if x.array.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    d = dim_in(dim, rank)
    for i, x in enumerate(xs):
        shape = x.array.shape
        if shape == (0,):
            continue
        if len(shape) != rank:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {rank} and {len(shape)}")
        if shape != first:
            _check_sizes(shape, first, d, i)
    if len(shaped) < len(xs) and rank > 1:
        empty = (*first[:d], 0, *first[d + 1 :])
        xs = tuple(reshape_p(x, empty) if x.array.shape == (0,) else x for x in xs)
    return cat_p(xs, d)


def _check_sizes(shape: tuple[int, ...], first: tuple[int, ...], dim: int, number: int) -> None:
    for d, (n, m) in enumerate(zip(shape, first, strict=True)):
        if d != dim and n != m:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. Expected size {m} but got size {n} "
                f"for tensor number {number} in the list."
            )


def concat(tensors: Sequence[Tensor], dim: int = 0, *, out: Out = None, axis: int | None = None) -> Tensor:
    """Join tensors along an existing dimension: another name of `cat`.

    Parameters
    ----------
    tensors : sequence of Tensor
        Shapes that are equal but along `dim`.
    dim : int, default 0
        The dimension along which they follow each other.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A copy.

    Examples
    --------
    >>> adjoint.concat([adjoint.zeros(2), adjoint.ones(1)])
    tensor([0., 0., 1.])
    """
    return cat(tensors, dim, out=out, axis=axis)


def concatenate(tensors: Sequence[Tensor], dim: int = 0, *, out: Out = None, axis: int | None = None) -> Tensor:
    """Join tensors along an existing dimension: `cat` by another name.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of equal sizes but for `dim`.
    dim : int, default 0
        Dimension to join along.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        The sizes of `dim` are added.

    Examples
    --------
    >>> adjoint.concatenate([adjoint.tensor([1, 2]), adjoint.tensor([3])])
    tensor([1, 2, 3])
    """
    return cat(tensors, dim, out=out, axis=axis)


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Out = None, axis: int | None = None) -> Tensor:
    """Join tensors along a new dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        At least one; all of the same shape.
    dim : int, default 0
        The index of the new dimension, whose size is the number of tensors.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A copy with one dimension more.

    Raises
    ------
    RuntimeError
        If the shapes differ; `cat` needs only the other dimensions to be equal.

    Examples
    --------
    >>> x, y = adjoint.tensor([1, 2]), adjoint.tensor([3, 4])
    >>> adjoint.stack([x, y])
    tensor([[1, 2],
            [3, 4]])
    >>> adjoint.stack([x, y], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    xs = _some(tensors, "stack")
    shape = xs[0].array.shape
    for i, x in enumerate(xs):
        if x.array.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(x.array.shape)} at entry {i}"
            )
    return into(out, stack_p(xs, dim_in(dim if axis is None else either(dim, axis, 0), len(shape) + 1)))


def hstack(tensors: Sequence[Tensor], *, out: Out = None) -> Tensor:
    """Join tensors side by side: vectors along their dimension, others along the second.

    Parameters
    ----------
    tensors : sequence of Tensor
        Shapes that are equal but along the joined dimension.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A copy.

    Examples
    --------
    >>> adjoint.hstack([adjoint.tensor([1, 2]), adjoint.tensor([3])])
    tensor([1, 2, 3])
    >>> adjoint.hstack([adjoint.zeros(2, 1), adjoint.ones(2, 2)])
    tensor([[0., 1., 1.],
            [0., 1., 1.]])
    """
    xs = atleast_1d(_some(tensors, "hstack"))
    return cat(xs, 0 if xs[0].array.ndim == 1 else 1, out=out)


def vstack(tensors: Sequence[Tensor], *, out: Out = None) -> Tensor:
    """Join tensors below each other, along the first dimension; vectors are rows.

    Parameters
    ----------
    tensors : sequence of Tensor
        Shapes that are equal but along the first dimension.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A copy of at least two dimensions.

    Examples
    --------
    >>> adjoint.vstack([adjoint.tensor([1, 2]), adjoint.tensor([[3, 4], [5, 6]])])
    tensor([[1, 2],
            [3, 4],
            [5, 6]])
    """
    return cat(atleast_2d(_some(tensors, "vstack")), 0, out=out)


def row_stack(tensors: Sequence[Tensor], *, out: Out = None) -> Tensor:
    """Join tensors below each other, vectors as rows: `vstack` by another name.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of equal sizes but for the first dimension.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        At least two dimensions.

    Examples
    --------
    >>> adjoint.row_stack([adjoint.tensor([1, 2]), adjoint.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return vstack(tensors, out=out)


def dstack(tensors: Sequence[Tensor], *, out: Out = None) -> Tensor:
    """Join tensors along the third dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of equal sizes but for the third dimension; they get missing dimensions as of `atleast_3d`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        At least three dimensions.

    Examples
    --------
    >>> adjoint.dstack([adjoint.tensor([1, 2]), adjoint.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return cat(atleast_3d(_some(tensors, "dstack")), 2, out=out)


def column_stack(tensors: Sequence[Tensor], *, out: Out = None) -> Tensor:
    """Join tensors side by side, vectors as columns.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of equal sizes but for the second dimension.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        At least two dimensions.

    Examples
    --------
    >>> adjoint.column_stack([adjoint.tensor([1, 2]), adjoint.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    xs = _some(tensors, "column_stack")
    return cat([reshape(x, -1, 1) if x.array.ndim <= 1 else x for x in xs], 1, out=out)


def _assemble(xs: Inputs, shape: Shape, indexes: Any) -> Array:
    out = module_of(xs[0]).zeros(shape, xs[0].dtype)
    for x, index in zip(xs, indexes, strict=True):
        out[index] = x
    return out


# Zeros of a shape with tensors at given places that do not overlap.
assemble_p: Primitive = variadic(
    _assemble,
    xs=lambda g, indexes: [slice_p(g, index) for index in indexes],
    promotes=True,
    jvp=_join_jvp(lambda: assemble_p),
    batch=lambda *args: assemble_p(
        args[:-2], (args[0].shape[0], *args[-2]), tuple((_ALL, *index) for index in args[-1])
    ),
    node_name="BlockDiagBackward0",
)


def block_diag(*tensors: Tensor) -> Tensor:
    """Put matrices along the diagonal of a matrix of zeros.

    Parameters
    ----------
    *tensors : Tensor
        At most two dimensions each; a vector is one row, a number a matrix of one element.

    Returns
    -------
    Tensor
        A matrix with as many rows and columns as all of them together.

    Examples
    --------
    >>> adjoint.block_diag(adjoint.ones(1, 2), adjoint.tensor(3.0))
    tensor([[1., 1., 0.],
            [0., 0., 3.]])
    """
    xs = _sequence(
        tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], TensorBase) else tensors, "block_diag"
    )
    for i, x in enumerate(xs):
        if x.array.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.array.ndim} "
                "dimensions"
            )
    if not xs:
        from .create import empty

        return empty(1, 0)
    blocks = atleast_2d(xs)
    rows = columns = 0
    indexes = []
    for x in blocks:
        n, m = x.array.shape
        indexes.append((slice(rows, rows + n), slice(columns, columns + m), ...))
        rows, columns = rows + n, columns + m
    return fold(assemble_p(blocks, (rows, columns), tuple(indexes)), "BlockDiagBackward0", *xs)


# --- Splitting --------------------------------------------------------------------------------------


def _pieces(x: Value, indexes: Any) -> tuple[Value, ...]:
    return tuple([x[i] for i in indexes])


def _pieces_x(g: Sequence[Value | None], x_shape: Shape, indexes: Any) -> Value:
    present = [i for i, piece in enumerate(g) if piece is not None]
    pieces, places = [g[i] for i in present], tuple([indexes[i] for i in present])
    return assemble_p(pieces, x_shape, places)


def _pieces_batch(primitive: Any) -> Kernel:
    return lambda x, indexes: primitive()(x, tuple((_ALL, *index) for index in indexes))


split_p: Primitive = parametric(
    _pieces,
    x=_pieces_x,
    view=True,
    outputs=True,
    name="split",
    jvp="linear",
    batch=_pieces_batch(lambda: split_p),
)
split_with_sizes_p: Primitive = parametric(
    _pieces, x=_pieces_x, view=True, outputs=True, name="split_with_sizes", jvp="linear",
    batch=_pieces_batch(lambda: split_p),
)  # fmt: skip
unbind_p: Primitive = parametric(
    _pieces,
    x=_pieces_x,
    view=True,
    outputs=True,
    name="unbind",
    jvp="linear",
    batch=_pieces_batch(lambda: split_p),
)


def _cuts(axis: int, sizes: Any) -> tuple[Any, ...]:
    """Return the index of each of consecutive pieces along an axis."""
    lead = (_ALL,) * axis
    at = 0
    indexes = []
    for n in sizes:
        indexes.append((*lead, slice(at, at + n), ...))
        at += n
    return tuple(indexes)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Split a tensor along a dimension into views.

    Parameters
    ----------
    tensor : Tensor
        At least one dimension.
    split_size_or_sections : int or sequence of ints
        The size of each piece, of which the last may be smaller; or the sizes of all, which add up to that of `dim`.
    dim : int, default 0
        The dimension to split.

    Returns
    -------
    tuple of Tensor
        Views of `tensor`.

    Raises
    ------
    RuntimeError
        If the sizes do not add up to the size of `dim`.

    Examples
    --------
    >>> adjoint.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> adjoint.split(adjoint.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    if not hasattr(split_size_or_sections, "__index__") or isinstance(split_size_or_sections, bool):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    if isinstance(split_size_or_sections, TensorBase) and split_size_or_sections.array.ndim == 0:
        split_size_or_sections = int(split_size_or_sections)  # type: ignore[call-overload]
    size = count_of(split_size_or_sections, "split_size")
    if tensor.array.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    axis = dim_in(dim, tensor.array.ndim)
    length = tensor.array.shape[axis]
    if size == 0:
        if length:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}")
        return split_p(tensor, _cuts(axis, (0,)))
    return split_p(tensor, _known_cuts(axis, length, size))


def _even_cuts(axis: int, length: int, size: int) -> tuple[Any, ...]:
    """Return the index of each of consecutive pieces of one size, the last perhaps smaller."""
    count = max(-(-length // size), 1)
    return _cuts(axis, [size] * (count - 1) + [length - size * (count - 1)])


_known_cuts = functools.lru_cache(256)(_even_cuts)


def _split_method(input: Tensor, split_size: Any, dim: int = 0) -> Any:
    """Split a tensor along a dimension into views.

    Parameters
    ----------
    input : Tensor
        At least one dimension.
    split_size : int or sequence of ints
        The size of each piece, of which the last may be smaller; or the sizes of all, which add up to that of `dim`.
    dim : int, default 0
        The dimension to split.

    Returns
    -------
    tuple of Tensor
        Views of `input`.

    Examples
    --------
    >>> adjoint.arange(5).split([1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    return split(input, split_size, dim)


def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0, *, axis: int | None = None) -> Any:
    """Split along `dim` into views of the given sizes.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    split_sizes : tuple of int
        They add up to the size of `dim`.
    dim : int, default 0
        Dimension to split.

    Returns
    -------
    tuple of Tensor
        Views of `input`.

    Examples
    --------
    >>> adjoint.split_with_sizes(adjoint.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))
    """
    dim = dim if axis is None else either(dim, axis, 0)
    if input.array.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    axis = dim_in(dim, input.array.ndim)
    if isinstance(split_sizes, TensorBase):
        raise TypeError("split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, not Tensor")
    sizes = [int(n) for n in split_sizes]
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got {sizes}")
    length = input.array.shape[axis]
    if sum(sizes) != length:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {length} (input tensor's size at "
            f"dimension {axis}), but got split_sizes={sizes}"
        )
    return split_with_sizes_p(input, _cuts(axis, sizes))


def unsafe_split(input: Tensor, split_size: int, dim: int = 0, *, axis: int | None = None) -> tuple[Tensor, ...]:
    """Split as `split` does; the pieces may be written to."""
    dim = dim if axis is None else either(dim, axis, 0)
    return tuple(slice_p(input, index) for index in _cuts_of(split(input.detach(), split_size, dim), input, dim))


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0, *, axis: int | None = None) -> tuple[Tensor, ...]:
    """Split as `chunk` does; the pieces may be written to."""
    dim = dim if axis is None else either(dim, axis, 0)
    return tuple(slice_p(input, index) for index in _cuts_of(chunk(input.detach(), chunks, dim), input, dim))


def _cuts_of(pieces: tuple[Tensor, ...], input: Tensor, dim: int) -> tuple[Any, ...]:
    axis = dim_in(dim, input.array.ndim)
    return _cuts(axis, [p.array.shape[axis] for p in pieces])


def chunk(input: Tensor, chunks: int, dim: int = 0, *, axis: int | None = None) -> Any:
    """Split a tensor along a dimension into a number of views of equal size.

    The size is that of `dim` over `chunks`, rounded up; the last view may be smaller, and there may be fewer than
    `chunks`. `tensor_split` always returns as many as wanted.

    Parameters
    ----------
    input : Tensor
        At least one dimension.
    chunks : int
        How many pieces at most.
    dim : int, default 0
        The dimension to split.

    Returns
    -------
    tuple of Tensor
        Views of `input`.

    Examples
    --------
    >>> adjoint.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> len(adjoint.arange(6).chunk(4))
    3
    """
    dim = dim if axis is None else either(dim, axis, 0)
    if input.array.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if count_of(chunks, "chunks") <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = dim_in(dim, input.array.ndim)
    length = input.array.shape[axis]
    size = -(-length // chunks)
    if size == 0:
        return split_with_sizes(input, [0] * chunks, axis)
    return split_p(input, _known_cuts(axis, length, size))


def tensor_split(
    input: Tensor, indices_or_sections: Ints | None = None, dim: int = 0, *, sections: int | None = None,
    indices: Value | None = None, axis: int | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Split a tensor along a dimension into a number of views, or at given indices.

    Parameters
    ----------
    input : Tensor
        At least one dimension.
    indices_or_sections : int or sequence of ints or Tensor
        The number of pieces, whose sizes differ by at most one, the larger ones first; or the indices at which a new
        piece begins.
    dim : int, default 0
        The dimension to split.
    sections, indices : optional
        The two forms of `indices_or_sections` by a name of their own.

    Returns
    -------
    tuple of Tensor
        Views of `input`.

    Examples
    --------
    >>> adjoint.arange(5).tensor_split(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> adjoint.arange(5).tensor_split((1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    dim = dim if axis is None else either(dim, axis, 0)
    if input.array.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    axis = dim_in(dim, input.array.ndim)
    length = input.array.shape[axis]
    given = _given(indices_or_sections, sections, indices)
    if isinstance(given, TensorBase):
        if given.array.dtype.name != "int64":
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{title_of(given.array.dtype)}"
            )
        note_read("tensor_split", given)
        given = given.array.tolist()
    lead = (_ALL,) * axis
    if isinstance(given, tuple | list):
        ends = [index_of(i, "indices", "tensor_split") for i in given]
        items = [slice(a, b) for a, b in zip([0, *ends], [*ends, length], strict=True)]
    else:
        count = count_of(index_of(given, "sections", "tensor_split"), "sections")
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        small, larger = divmod(length, count)
        starts = [0]
        for i in range(count):
            starts.append(starts[-1] + small + (i < larger))
        items = [slice(a, b) for a, b in pairwise(starts)]
    return tuple(slice_p(input, (*lead, item, ...)) for item in items)


def _given(*forms: Any) -> Any:
    """Return the one of several arguments that is given: PyTorch has another name for each form."""
    given = [form for form in forms if form is not None]
    if len(given) != 1:
        raise TypeError(f"expected either sections or indices to split at, but got {len(given)} of them")
    return given[0]


def _split_along(input: Tensor, given: Any, axis: int, op: str, least: int) -> tuple[Tensor, ...]:
    shape = input.array.shape
    if len(shape) < least:
        raise RuntimeError(
            f"torch.{op} requires a tensor with at least {least} dimension, but "
            f"got a tensor with {len(shape)} dimensions!"
        )
    if not is_int(given) and not (isinstance(given, tuple | list) and all(map(is_int, given))):
        shown = "Tensor" if isinstance(given, TensorBase) else type(given).__name__
        raise TypeError(f"{op}() received an invalid combination of arguments - got (Tensor, {shown})")
    if (
        hasattr(given, "__index__")
        and not isinstance(given, TensorBase)
        and (int(given) <= 0 or shape[axis] % int(given))
    ):
        raise RuntimeError(
            f"torch.{op} attempted to split along dimension {axis}, but the size of the dimension "
            f"{shape[axis]} is not divisible by the split_size {given}!"
        )
    return tensor_split(input, given, axis)


def hsplit(
    input: Tensor, indices_or_sections: Ints | None = None, *, sections: int | None = None,
    indices: Value | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Split into views side by side: along dimension 1, or 0 of a vector.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    indices_or_sections : int or tuple of int, optional
        Number of equal parts, or the indices at which to split.
    sections : int, optional
        The number of parts, by name.
    indices : tuple of int, optional
        The indices, by name.

    Returns
    -------
    tuple of Tensor
        Views of `input`.

    Examples
    --------
    >>> adjoint.hsplit(adjoint.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return _split_along(
        input, _given(indices_or_sections, sections, indices), 0 if input.array.ndim == 1 else 1, "hsplit", 1
    )


def vsplit(
    input: Tensor, indices_or_sections: Ints | None = None, *, sections: int | None = None,
    indices: Value | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Split into views below each other: along dimension 0.

    Parameters
    ----------
    input : Tensor
        At least two dimensions.
    indices_or_sections : int or tuple of int, optional
        Number of equal parts, or the indices at which to split.
    sections : int, optional
        The number of parts, by name.
    indices : tuple of int, optional
        The indices, by name.

    Returns
    -------
    tuple of Tensor
        Views of `input`.

    Examples
    --------
    >>> adjoint.vsplit(adjoint.arange(4).reshape(2, 2), 2)
    (tensor([[0, 1]]), tensor([[2, 3]]))
    """
    return _split_along(input, _given(indices_or_sections, sections, indices), 0, "vsplit", 2)


def dsplit(
    input: Tensor, indices_or_sections: Ints | None = None, *, sections: int | None = None,
    indices: Value | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Split into views along dimension 2.

    Parameters
    ----------
    input : Tensor
        At least three dimensions.
    indices_or_sections : int or tuple of int, optional
        Number of equal parts, or the indices at which to split.
    sections : int, optional
        The number of parts, by name.
    indices : tuple of int, optional
        The indices, by name.

    Returns
    -------
    tuple of Tensor
        Views of `input`.

    Examples
    --------
    >>> adjoint.dsplit(adjoint.arange(4).reshape(1, 1, 4), [1])
    (tensor([[[0]]]), tensor([[[1, 2, 3]]]))
    """
    return _split_along(input, _given(indices_or_sections, sections, indices), 2, "dsplit", 3)


def unbind(input: Tensor, dim: int = 0, *, axis: int | None = None) -> Any:
    """Return the slices along a dimension, as a tuple.

    Parameters
    ----------
    input : Tensor
        At least one dimension.
    dim : int, default 0
        The dimension to remove.

    Returns
    -------
    tuple of Tensor
        Views of `input`, one for each place along `dim`.

    Examples
    --------
    >>> adjoint.arange(4).reshape(2, 2).unbind()
    (tensor([0, 1]), tensor([2, 3]))
    >>> first, second = adjoint.arange(4).reshape(2, 2).unbind(dim=1)
    >>> second
    tensor([1, 3])
    """
    dim = dim if axis is None else either(dim, axis, 0)
    if input.array.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    axis = dim_in(dim, input.array.ndim)
    lead = (_ALL,) * axis
    return unbind_p(input, tuple((*lead, i, ...) for i in range(input.array.shape[axis])))


# --- Every combination ------------------------------------------------------------------------------


def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return the coordinates of all points of a grid: one tensor for each vector.

    Parameters
    ----------
    *tensors : Tensor
        Vectors (or numbers) of one dtype, of lengths n, m, ...; or one sequence of them.
    indexing : str, optional
        "ij", the default: the results have shape ``(n, m, ...)``, and vector i varies along dimension i. "xy": the
        first two dimensions are exchanged, ``(m, n, ...)``, as for pictures.

    Returns
    -------
    tuple of Tensor
        Views of the vectors, broadcast to the grid.

    Examples
    --------
    >>> rows, columns = adjoint.meshgrid(adjoint.tensor([1, 2]), adjoint.tensor([3, 4, 5]), indexing="ij")
    >>> rows
    tensor([[1, 1, 1],
            [2, 2, 2]])
    >>> columns
    tensor([[3, 4, 5],
            [3, 4, 5]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    require_all_tensors(tensors)
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in tensors:
        if x.array.ndim > 1:
            raise RuntimeError(
                f"Expected 0D or 1D tensor in the tensor list but got: a tensor of {x.array.ndim} dimensions"
            )
        if x.array.dtype != tensors[0].array.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(tensors) > 1
    order = [tensors[1], tensors[0], *tensors[2:]] if swap else list(tensors)
    shape = tuple(x.array.size for x in order)
    grids = []
    for i, x in enumerate(order):
        unit = (1,) * i + (shape[i],) + (1,) * (len(shape) - i - 1)
        grids.append(expand_p(reshape_p(x, unit), shape))
    if swap:
        axes = (1, 0, *range(2, len(shape)))
        grids = [permute_p(g, axes) for g in (grids[1], grids[0], *grids[2:])]
        # "xy" means that the first vector runs along the second dimension.
        grids = [permute_p(g, axes) for g in grids]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return all tuples of one element of each vector, one per row.

    Parameters
    ----------
    *tensors : Tensor
        Vectors.

    Returns
    -------
    Tensor
        (product of the sizes, number of vectors); a single vector is returned as it is.

    Examples
    --------
    >>> adjoint.cartesian_prod(adjoint.tensor([1, 2]), adjoint.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    require_all_tensors(tensors)
    for x in tensors:
        if x.array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.array.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(g, -1) for g in meshgrid(*tensors, indexing="ij")], 1)
