"""Shapes and memory: views where torch's are views, and copies that preserve every element.

A viewing primitive's kernel returns an array that looks at its input's memory; the recorder sees that and
makes the result a view. Where an element is read more than once (`expand`, `unfold`) the gradient adds up.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._typing import Array, DType, DTypeArg, Ints, MemoryFormat, Out, Shape, Tensor, Value
from ..core import dtypes, layout, modes, primitive
from ..core.device import module_of
from ..core.dtypes import dtype
from ..core.failures import title_of
from ..core.folding import shaping
from ..core.nodes import Node
from ..core.payload import Payload, is_batch, refuse_format
from ..core.recorders import Primitive, parametric, unary
from ..core.tensor import TensorBase
from .arguments import dim_in, either, missing, require_all_tensors, require_tensor, shape_from

# The functions that adjoint exports; the others are methods only, or for other modules.
__all__ = [
    "broadcast_shapes", "broadcast_tensors", "broadcast_to", "clone", "conj", "conj_physical", "flatten", "ravel",
    "reshape", "resolve_conj", "resolve_neg", "unflatten",
]  # fmt: skip

# --- What the engine itself needs -------------------------------------------------------------------


@functools.lru_cache(512)
def _axes_between(have: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes along which one shape is repeated to make another."""
    lead = len(have) - len(shape)
    return tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and have[lead + i] != 1)


def _sum_to(x: Array, shape: Shape) -> Array:
    axes = _axes_between(tuple(x.shape), tuple(shape))
    return x.sum(axis=axes, keepdims=True).reshape(shape) if axes else x.reshape(shape)


sum_to_p: Primitive = parametric(
    _sum_to,
    x=lambda g, x_shape: expand_p(g, x_shape),
    jvp="linear",
    batch=lambda x, shape: reshape_p(
        sum_to_p(x, (x.shape[0], *(1,) * (len(x.shape) - 1 - len(shape)), *shape)), (x.shape[0], *shape)
    ),
    node_name="SumBackward1",
)


def _cast(x: Array, dtype: Any) -> Any:
    dtype = getattr(dtype, "np", dtype)  # inside a transform a rule may see tensors, whose dtype is adjoint's
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if 0 in x.strides and not x.flags.c_contiguous:
        x = layout.laid_out(x, None)
    return x.astype(dtype)


cast_p: Primitive = parametric(
    _cast,
    x=lambda g, x_dtype: cast_p(g, x_dtype),
    jvp="linear",
    batch="same",
    node_name="ToCopyBackward0",
)


def cast(input: Value, dtype: DTypeArg | DType) -> Tensor:
    """Return `input` as a NumPy dtype; integers and booleans have no gradient, and so no history."""
    out = cast_p(input, dtype)
    if out.node is not None and dtypes.of(dtype).category < 2:
        out.node = None
    return out


def _copy_strided(x: Value, strides: Shape) -> Any:
    """Return a copy whose memory is laid out by `strides`, as that of a base which views look at."""
    xp = module_of(x)
    reach = sum(abs(s) * (n - 1) for s, n in zip(strides, x.shape, strict=True)) + x.itemsize
    if x.size == 0 or any(s <= 0 for s, n in zip(strides, x.shape, strict=True) if n > 1) or reach > 8 * x.nbytes + 64:
        return xp.array(x, order="C")
    memory = xp.empty(reach // x.itemsize, x.dtype)
    copy = xp.lib.stride_tricks.as_strided(memory, x.shape, strides)
    copy[...] = x
    return copy


copy_strided_p: Primitive = parametric(
    _copy_strided,
    x=lambda g: g,
    jvp="linear",
    batch=lambda x, strides: clone_p(x),
    node_name="CloneBackward0",
)

primitive.sum_to = sum_to_p
primitive.cast = cast_p

# --- Copies -----------------------------------------------------------------------------------------

clone_p: Primitive = unary(
    lambda x: layout.laid_out(x, None), x=lambda g: g, name="clone", holomorphic=False, jvp="linear", batch="same"
)

ordered_p: Primitive = parametric(
    layout.laid_out,
    x=lambda g: g,
    name="clone_ordered",
    node_name="CloneBackward0",
    jvp="linear",
    batch=lambda x, order: ordered_p(x, (0, *(dim + 1 for dim in order))),
)


def clone(input: Tensor, *, memory_format: MemoryFormat = None) -> Tensor:
    """Return a copy of `input` with memory of its own.

    The copy is part of the graph: its gradient flows back to `input` unchanged. For a copy without history, use
    ``input.detach().clone()``.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    memory_format : memory_format, optional
        The memory layout of the copy. By default (``preserve_format``) that of `input`, if no element is there twice.

    Returns
    -------
    Tensor
        Of the same shape, dtype and device.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x.clone()
    >>> y[0] = 5.0
    >>> x
    tensor([1., 2.], requires_grad=True)
    >>> y.sum().backward()
    >>> x.grad
    tensor([0., 1.])
    """
    if memory_format is None or memory_format is layout.preserve_format:
        return clone_p(input)
    order = layout.order_of(memory_format, input.array.ndim)
    if order is not None and is_batch(input):
        raise RuntimeError(
            "NYI: Tensor.clone(memory_format) inside vmap is only supported with memory_format "
            "adjoint.preserve_format or adjoint.contiguous_format: the format is a property of the whole batch"
        )
    return contiguous_p(input) if order is None else ordered_p(input, order)


contiguous_p: Primitive = unary(
    lambda x: x.copy(order="C"),
    x=lambda g: g,
    name="contiguous",
    node_name="CloneBackward0",
    holomorphic=False,
    jvp="linear",
    batch="same",
)


def contiguous(input: Tensor, memory_format: MemoryFormat = None) -> Tensor:
    """Return `input` in row-major memory, or in that of a memory format: itself if it already is.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    memory_format : memory_format, optional
        The memory layout, ``contiguous_format`` (row-major) by default; ``channels_last`` and ``channels_last_3d`` need
        4 and 5 dimensions.

    Returns
    -------
    Tensor
        `input` itself, or a copy of the same shape that gradients flow through.

    Examples
    --------
    >>> x = adjoint.arange(6).reshape(2, 3).t()
    >>> x.is_contiguous(), x.stride()
    (False, (1, 3))
    >>> x.contiguous().stride()
    (2, 1)
    """
    if memory_format is None or memory_format is layout.contiguous_format:
        return input if input.array.flags.c_contiguous else contiguous_p(input)
    if memory_format is layout.preserve_format:
        if input.array.flags.c_contiguous:
            return input
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    refuse_format(input)
    return input if layout.is_contiguous(input.array, memory_format) else clone(input, memory_format=memory_format)


conj_p: Primitive = unary(
    np.conjugate, x=lambda g: g.conj(), name="conj", holomorphic=False, jvp="linear", batch="same"
)


def conj(input: Tensor) -> Tensor:
    """Return the complex conjugate of each element.

    It is computed at once, where PyTorch marks a view that computes it later. A real tensor is its own conjugate.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.

    Returns
    -------
    Tensor
        A new tensor of the same shape and dtype; `input` itself if it is real.

    Examples
    --------
    >>> adjoint.conj(adjoint.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return conj_p(input) if input.array.dtype.kind == "c" else input


def conj_physical(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the complex conjugate."""
    from .create import into

    return into(out, conj(input))


def resolve_conj(input: Tensor) -> Tensor:
    """Return `input`: conjugation is never pending here."""
    require_tensor(input, "input", "resolve_conj")
    return input


def resolve_neg(input: Tensor) -> Tensor:
    """Return `input`: negation is never pending here."""
    require_tensor(input, "input", "resolve_neg")
    return input


# --- The same memory in another shape ---------------------------------------------------------------

alias_p: Primitive = parametric(
    lambda x: x[...], x=lambda g: g, view="always", name="alias", jvp="linear", batch="same"
)


def alias(input: Value | TensorBase) -> Tensor:
    """Return another tensor that looks at the same memory and has the same history."""
    return alias_p(input)


def _reshape(x: Value, shape: Shape) -> Value:
    return x.reshape(shape)


def _reshape_batch(x: Value, shape: Shape) -> Value:
    return reshape_p(x, (x.shape[0], *shape))


def _explain_reshape(error: Exception, x: Any, shape: Shape) -> Exception | None:
    try:
        _resolved(shape_from((shape,)), x.size)
    except (RuntimeError, TypeError) as better:
        return better
    return None


def _show_copy(node: Node) -> None:
    node.edges = (shaping(node, "CloneBackward0", node.edges[0], None, 0.5),)


reshape_p: Primitive = parametric(
    _reshape,
    x=lambda g, x_shape: g.reshape(x_shape),
    view=True,
    jvp="linear",
    batch=_reshape_batch,
    node_name="ViewBackward0",
    saved={"x_shape": "self_sym_sizes"},
    explain=_explain_reshape,
)
# What `reshape` records where it has to copy.
unsafe_view_p: Primitive = parametric(
    _reshape,
    x=lambda g, x_shape: g.reshape(x_shape),
    name="unsafe_view",
    jvp="linear",
    batch=_reshape_batch,
    saved={"x_shape": "self_sym_sizes"},
    split=_show_copy,
)


def _resolved(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the shape with its -1, if any, replaced by the size that is left for it."""
    known = 1
    unknown = -1
    for i, n in enumerate(shape):
        if n == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {list(shape)}")
        else:
            known *= n
    if unknown < 0:
        if known == count:
            return shape
    elif known == 0:
        if count == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
                "dimension size -1 can be any value and is ambiguous"
            )
    elif count % known == 0:
        return (*shape[:unknown], count // known, *shape[unknown + 1 :])
    if any(n >= 2**63 for n in shape):
        raise TypeError(f"argument 'size' failed to unpack the object {shape}: Overflow when unpacking long long")
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")


def sizes_from(sizes: tuple[Any, ...], named: Any) -> tuple[int, ...]:
    """Return sizes that a function was given, as one sequence, as integers or by name."""
    if named is not None and not sizes:
        sizes = (named,)
    for n in sizes:
        if type(n) is not int:
            return shape_from(sizes)
    return sizes


def _lies_as(array: Array, shape: tuple[int, ...]) -> bool:
    """Return whether an array's memory can be read in another shape without a copy."""
    if isinstance(array, Payload) or array.flags.c_contiguous:
        return True
    sizes, strides = array.shape, array.strides
    left = len(shape) - 1
    step, run, wanted = strides[-1], 1, 1
    for d in range(len(sizes) - 1, -1, -1):
        run *= sizes[d]
        # A run of contiguous dimensions ends here unless the next outer one continues it.
        if d == 0 or (sizes[d - 1] != 1 and strides[d - 1] != run * step):
            while left >= 0 and (wanted < run or shape[left] == 1):
                wanted *= shape[left]
                left -= 1
            if wanted != run:
                return False
            if d:
                step, run, wanted = strides[d - 1], 1, 1
    return left == -1


def view(input: Tensor, *shape: Any, dtype: DTypeArg | DType | None = None, size: Ints | None = None) -> Tensor:
    """Return a view of the same memory in another shape, or as another dtype.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    *shape : int or sequence of ints
        The new sizes, with as many elements in all. One of them may be -1: it follows from the others. A single dtype
        stands for `dtype`.
    dtype : dtype, optional
        Reads the bytes as another dtype. The last dimension grows or shrinks by the ratio of the element sizes.
    size : sequence of ints, optional
        Another way to pass `shape`.

    Returns
    -------
    Tensor
        A view: writes to it change `input`, and the other way round.

    Raises
    ------
    RuntimeError
        If the number of elements differs, or the strides of `input` do not allow the shape without a copy; `reshape`
        copies then.

    Examples
    --------
    >>> x = adjoint.zeros(2, 3)
    >>> x.view(-1)[0] = 1
    >>> x
    tensor([[1., 0., 0.],
            [0., 0., 0.]])
    >>> adjoint.tensor([1.0, -2.0]).view(adjoint.int32)
    tensor([ 1065353216, -1073741824], dtype=adjoint.int32)
    """
    array = input.array
    if shape and type(shape[0]) is int and not modes.unusual and array.flags.c_contiguous and min(shape) >= -1:
        return reshape_p(input, shape)
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], _dtype_type)):
        from .kinds import view_dtype

        return view_dtype(input, shape[0] if dtype is None else dtype)
    if not shape and size is None:
        raise TypeError("view() received an invalid combination of arguments - got (), but expected a shape or a dtype")
    wanted = _resolved(sizes_from(shape, size), array.size)
    if not _lies_as(array, wanted):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead: a tensor of shape "
            f"{list(array.shape)} and stride {tuple(s // array.itemsize for s in array.strides)} cannot be "
            f"seen as {list(wanted)} without a copy."
        )
    return reshape_p(input, wanted)


_dtype_type = dtype


def reshape(input: Tensor, *args: Any, shape: Ints | None = None) -> Tensor:
    """Return `input` in another shape: a view of its memory where that is possible, otherwise a copy.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    shape : int... or sequence of ints
        The new sizes, with as many elements in all. One of them may be -1: it follows from the others.

    Returns
    -------
    Tensor
        The elements in the same row-major order.

    Raises
    ------
    RuntimeError
        If the number of elements differs.

    Examples
    --------
    >>> adjoint.arange(4).reshape(2, -1)
    tensor([[0, 1],
            [2, 3]])
    """
    try:
        array = input.array
    except AttributeError:
        require_tensor(input, "input", "reshape")
        raise
    if args and type(args[0]) is int and not modes.unusual and array.flags.c_contiguous and min(args) >= -1:
        return reshape_p(input, args)
    if not args and shape is None:
        raise missing("reshape", "shape")
    wanted = _resolved(sizes_from(args, shape), array.size)
    return (reshape_p if _lies_as(array, wanted) else unsafe_view_p)(input, wanted)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """View `input` in the shape of `other`: ``input.view(other.shape)``.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    other : Tensor
        Only its shape counts; it has as many elements.

    Returns
    -------
    Tensor
        A view of `input`.

    Raises
    ------
    RuntimeError
        If the number of elements differs, or the strides of `input` do not allow the shape without a copy.

    Examples
    --------
    >>> adjoint.arange(4).view_as(adjoint.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    require_tensor(other, "other", "view_as")
    return view(input, other.array.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Reshape `input` to the shape of `other`: ``input.reshape(other.shape)``.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    other : Tensor
        Only its shape counts; it has as many elements.

    Returns
    -------
    Tensor
        A view of `input` where that is possible, otherwise a copy.

    Examples
    --------
    >>> adjoint.arange(4).reshape_as(adjoint.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    require_tensor(other, "other", "reshape_as")
    return reshape(input, other.array.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the dimensions from `start_dim` to `end_dim` into one.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype; a number becomes a vector of one element.
    start_dim : int, default 0
        The first dimension to merge.
    end_dim : int, default -1
        The last dimension to merge, included.

    Returns
    -------
    Tensor
        A view where that is possible, otherwise a copy; `input` itself if there is only one dimension to merge.

    Examples
    --------
    >>> adjoint.zeros(2, 3, 4).flatten(1).shape
    adjoint.Size([2, 12])
    >>> adjoint.zeros(2, 3, 4).flatten().shape
    adjoint.Size([24])
    """
    try:
        array = input.array
    except AttributeError:
        require_tensor(input, "input", "flatten")
        raise
    if isinstance(start_dim, TensorBase) or isinstance(end_dim, TensorBase):
        start_dim, end_dim = (dim_in(d, array.ndim) for d in (start_dim, end_dim))
    shape = array.shape
    rank = len(shape)
    if start_dim == 0 and end_dim == -1 and rank > 1 and array.flags.c_contiguous:
        return reshape_p(input, (array.size,))
    start, end = dim_in(start_dim, rank), dim_in(end_dim, rank)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if rank == 0:
        return reshape(input, 1)
    if start == end:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def ravel(input: Tensor) -> Tensor:
    """Return all elements in one dimension, in row-major order.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.

    Returns
    -------
    Tensor
        Of shape ``(input.numel(),)``: a view if `input` is contiguous, otherwise a copy.

    Examples
    --------
    >>> adjoint.tensor([[1, 2], [3, 4]]).ravel()
    tensor([1, 2, 3, 4])
    """
    return reshape_p(contiguous(input), (input.array.size,))


def unflatten(input: Tensor, dim: int | None = None, sizes: Ints | None = None, *, axis: int | None = None) -> Tensor:
    """Split one dimension into several.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int
        The dimension to split.
    sizes : sequence of ints
        The sizes of its parts; their product is the size of `dim`. One of them may be -1: it follows from the others.

    Returns
    -------
    Tensor
        A view of `input`.

    Raises
    ------
    RuntimeError
        If `sizes` do not multiply to the size of `dim`.

    Examples
    --------
    >>> adjoint.zeros(2, 12).unflatten(1, (3, -1)).shape
    adjoint.Size([2, 3, 4])
    """
    dim = dim if axis is None else either(dim, axis)
    shape = input.array.shape
    d = dim_in(dim, len(shape))
    if not isinstance(sizes, tuple | list):
        raise TypeError(f"unflatten(): argument 'sizes' must be tuple of ints, not {type(sizes).__name__}")
    wanted = shape_from((sizes,))
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = math.prod(n for n in wanted if n != -1)
    fits = known == shape[d] if -1 not in wanted else known and shape[d] % known == 0
    if not fits:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim {d} "
            f"({shape[d]}) in the input tensor"
        )
    return view(input, (*shape[:d], *_resolved(wanted, shape[d]), *shape[d + 1 :]))


# --- Repeating without memory -----------------------------------------------------------------------


def _expand(x: Array, shape: Shape) -> Any:
    lead = len(shape) - x.ndim
    strides: Any = [0] * lead
    if x.shape == shape[lead:]:
        strides += x.strides
        shape_left: Any = ()
    else:
        shape_left = shape[lead:]
    for n, m, s in zip(x.shape, shape_left, x.strides):
        if n == m:
            strides.append(s)
        elif n == 1:
            strides.append(0)
        else:
            raise _expand_error(shape, x.shape)
    return layout.expanded_view(x, shape, strides)


def _expand_error(shape: Shape, existing: Any) -> RuntimeError:
    lead = len(shape) - len(existing)
    at = max(lead + i for i, n in enumerate(existing) if n not in (1, shape[lead + i]))
    return RuntimeError(
        f"The expanded size of the tensor ({shape[at]}) must match the existing size "
        f"({existing[at - lead]}) at non-singleton dimension {at}.  Target sizes: {list(shape)}.  Tensor "
        f"sizes: {list(existing)}"
    )


expand_p: Primitive = parametric(
    _expand,
    x=lambda g, x_shape: sum_to_p(g, x_shape),
    view="always",
    jvp="linear",
    batch=lambda x, shape: expand_p(_lead(x, len(shape)), (x.shape[0], *shape)),
    saved={"x_shape": "self_sym_sizes"},
)


def _lead(x: Value, rank: int) -> Value:
    """Return a batched value with size-1 axes after the batch axis, up to `rank` logical axes."""
    shape = x.shape
    missing = rank - len(shape) + 1
    return reshape_p(x, (shape[0], *(1,) * missing, *shape[1:])) if missing > 0 else x


def expand(input: Tensor, *args: Ints, size: Ints | None = None, implicit: bool = False) -> Tensor:
    """Repeat dimensions of size 1 without using memory.

    The result has stride 0 along repeated dimensions: one element of memory stands for many. The gradient of `input` is
    the sum over the repetitions.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    size : int... or sequence of ints
        The wanted sizes. New dimensions come in front; -1 leaves a dimension as it is.
    implicit : bool, default False
        Ignored; PyTorch has it.

    Returns
    -------
    Tensor
        A view of `input`. Clone it before writing to it in place.

    Raises
    ------
    RuntimeError
        If a dimension whose size is not 1 would change, or there are fewer sizes than dimensions.

    Examples
    --------
    >>> adjoint.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    >>> adjoint.tensor([1, 2]).expand(3, -1).shape
    adjoint.Size([3, 2])
    """
    wanted = sizes_from(args, size)
    existing = input.array.shape
    lead = len(wanted) - len(existing)
    if lead < 0:
        raise RuntimeError(
            f"expand(torch.{title_of(input.dtype)}Tensor{{{list(existing)}}}, size={list(wanted)}): the "
            f"number of sizes provided ({len(wanted)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(existing)})"
        )
    if wanted and min(wanted) < 0:
        for i in range(lead):
            if wanted[i] == -1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({wanted[i]}) isn't allowed in a leading, non-existing "
                    f"dimension {i}"
                )
        wanted = (
            *wanted[:lead],
            *(n if m == -1 else m for n, m in zip(existing, wanted[lead:], strict=True)),
        )
        if min(wanted) < 0:
            raise RuntimeError(f"expand: sizes must be -1 or not negative, got {list(wanted)}")
    return expand_p(input, wanted)


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expand `input` to the shape of `other`: ``input.expand(other.shape)``.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    other : Tensor
        Only its shape counts; `input` broadcasts to it.

    Returns
    -------
    Tensor
        A view of `input`.

    Examples
    --------
    >>> adjoint.tensor([[1], [2]]).expand_as(adjoint.zeros(2, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    require_tensor(other, "other", "expand_as")
    return expand(input, other.array.shape)


def broadcast_to(input: Tensor, *args: Ints, size: Ints | None = None) -> Tensor:
    """Expand `input` to a shape that it broadcasts to.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    size : sequence of ints
        The wanted shape; -1 leaves a dimension as it is.

    Returns
    -------
    Tensor
        A view of `input`, as from `Tensor.expand`.

    Raises
    ------
    RuntimeError
        If `input` does not broadcast to the shape.

    Examples
    --------
    >>> adjoint.broadcast_to(adjoint.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    if not args and size is None:
        raise missing("broadcast_to", "size")
    if args and not isinstance(args[0], tuple | list):
        raise TypeError(f"broadcast_to(): argument 'size' (position 2) must be tuple of ints, not {args[0]!r}")
    return expand(input, sizes_from(args, size))


def broadcast_shapes(*shapes: Any) -> Any:
    """Return the shape that tensors of these shapes broadcast to.

    Shapes are aligned at the last dimension. Sizes that meet are equal, or one of them is 1.

    Parameters
    ----------
    *shapes : sequence of ints or int
        An int stands for a shape of one dimension.

    Returns
    -------
    Size
        The broadcast shape.

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> adjoint.broadcast_shapes((2, 1), (3,))
    adjoint.Size([2, 3])
    """
    from ..core.size import Size

    for s in shapes:
        if not isinstance(s, tuple | list | int):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {s}")
    full = [tuple(s) if isinstance(s, tuple | list) else (int(s),) for s in shapes]
    out: list[int] = []
    for at, shape in enumerate(full):
        if any(n < 0 for n in shape):
            raise RuntimeError(f"Trying to create tensor with negative dimension ({min(shape)}): {list(shape)}")
        out = [1] * (len(shape) - len(out)) + out
        for i in range(1, len(shape) + 1):
            if shape[-i] != 1 and out[-i] not in (1, shape[-i]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[-i]} at {-i}! Mismatching argument at index "
                    f"{at} had {shape}; but expected shape should be broadcastable to {out} (Shape mismatch: objects "
                    f"cannot be broadcast to a single shape: {', '.join(str(list(s)) for s in full)})"
                )
            if shape[-i] != 1:
                out[-i] = shape[-i]
    return Size(out)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Expand tensors to the shape that they broadcast to.

    Parameters
    ----------
    *tensors : Tensor
        Shapes that broadcast.

    Returns
    -------
    tuple of Tensor
        Views of the tensors, all of the same shape.

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> x, y = adjoint.broadcast_tensors(adjoint.tensor([1, 2]), adjoint.tensor([[3], [4]]))
    >>> x
    tensor([[1, 2],
            [1, 2]])
    >>> y
    tensor([[3, 3],
            [4, 4]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    require_all_tensors(tensors)
    shapes = [tuple(t.array.shape) for t in tensors]
    if len(shapes) == 2:
        from ..core.failures import broadcast_error

        error = broadcast_error(*shapes)
        if error is not None:
            raise error
    shape = tuple(broadcast_shapes(*shapes))
    return tuple(expand_p(t, shape) for t in tensors)
