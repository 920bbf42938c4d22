"""Shapes and memory: views where torch's are views, and the copies that keep every element.

A viewing primitive's kernel returns an array that looks at its input's memory; the recorder sees that and
makes the result a view. Where an element is read more than once (`expand`, `unfold`) the gradient adds up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import dtypes, layout, modes, primitive
from ..core.device import as_strided, module_of
from ..core.dtypes import dtype
from ..core.failures import title_of
from ..core.inplace import check_changeable, is_leaf_node
from ..core.nodes import Hidden, Node, shaping
from ..core.payload import Payload, is_batch, refuse_format
from ..core.recorders import Primitive, parametric, unary
from ..core.tensor import TensorBase, ledger_of, note_geometry, note_write, retain_later, storage_of
from ..core.views import edge_of, expect_shape, leave_base, watch_base
from ..devices.cpu import provider, reductions
from ..devices.cpu.copying import copied, uniform
from .arguments import dim_in, dims_in, either, missing, require_all_tensors, require_tensor, shape_from

# What is a function of adjoint too; the rest are methods only, or for other rooms.
__all__ = [
    "adjoint", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors",
    "broadcast_to", "clone", "conj", "conj_physical", "flatten", "moveaxis", "movedim", "permute",
    "ravel", "reshape", "resolve_conj", "resolve_neg", "squeeze", "swapaxes", "swapdims", "t",
    "transpose", "unflatten", "unsqueeze",
]  # fmt: skip
ndarray = np.ndarray
_ALL = slice(None)
_add: Any = np.add.reduce
_MANY = 1 << 12  # elements from which on there may be a faster sum than NumPy's

# --- What the engine itself needs -------------------------------------------------------------------


@functools.lru_cache(512)
def _axes_between(have: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes along which one shape is repeated to make another."""
    lead = len(have) - len(shape)
    return tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and have[lead + i] != 1)


def _sum_to(x: Any, shape: Any) -> Any:
    axes = _axes_between(tuple(x.shape), tuple(shape))
    if not axes:
        return x.reshape(shape)
    if type(x) is ndarray:
        if x.size <= _MANY and x.ndim - len(shape) == len(axes):
            return _add(x, axes)
        total = reductions.sums_of_many(x, axes) if x.size > _MANY and x.dtype.char in "fd" else None
    else:
        gpu = provider.gpu(x)
        total = None if gpu is None else gpu.reductions.reduced(x, axes, True)
    if total is None:
        total = _add(x, axes, None, None, True) if type(x) is ndarray else x.sum(axis=axes, keepdims=True)
    return total.reshape(shape)


sum_to_p: Primitive = parametric(
    _sum_to,
    x=lambda g, x_shape: expand_p(g, x_shape),
    jvp="linear",
    batch=lambda x, shape: reshape_p(
        sum_to_p(x, (x.shape[0], *(1,) * (len(x.shape) - 1 - len(shape)), *shape)), (x.shape[0], *shape)
    ),
    node_name="SumBackward1",
)


def _cast(x: Any, dtype: Any) -> Any:
    dtype = getattr(dtype, "np", dtype)  # inside a transform a rule may see tensors, whose dtype is adjoint's
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if 0 in x.strides and not x.flags.c_contiguous:
        if uniform(x) and x.size:
            return copied(np.broadcast_to(x[(0,) * x.ndim].astype(dtype), x.shape))
        x = layout.laid_out(x, None)
    return x.astype(dtype)


cast_p: Primitive = parametric(
    _cast,
    x=lambda g, x_dtype: cast_p(g, x_dtype),
    jvp="linear",
    batch="same",
    node_name="ToCopyBackward0",
)


def cast(input: Any, dtype: Any) -> Any:
    """Return `input` as a NumPy dtype; whole numbers and truths have no gradient, and so no history."""
    out = cast_p(input, dtype)
    if out.node is not None and dtypes.of(dtype).category < 2:
        out.node = None
    return out


def _copy_strided(x: Any, strides: Any) -> Any:
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


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Copy `input`; gradients flow through the copy.

    The copy's dimensions lie in memory as those of `input` do, unless `memory_format` says otherwise.
    """
    if memory_format is None or memory_format is layout.preserve_format:
        return clone_p(input)
    order = layout.order_of(memory_format, input.array.ndim)
    if order is not None and is_batch(input):
        raise RuntimeError(
            "NYI: Tensor.clone(memory_format) inside vmap is only supported with memory_format "
            "adjoint.preserve_format or adjoint.contiguous_format: the format says how a whole batch lies"
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


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """Return `input` in row-major memory, or in that of a memory format: itself if it already is."""
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
    """Return the complex conjugate, computed now (torch only notes it); a real tensor is its own.

    Examples
    --------
    >>> adjoint.conj(adjoint.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return conj_p(input) if input.array.dtype.kind == "c" else input


def conj_physical(input: Tensor, *, out: Any = None) -> Tensor:
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


def alias(input: Any) -> Tensor:
    """Return another tensor that looks at the same memory and has the same history."""
    return alias_p(input)


def _reshape(x: Any, shape: Any) -> Any:
    return x.reshape(shape)


def _reshape_batch(x: Any, shape: Any) -> Any:
    return reshape_p(x, (x.shape[0], *shape))


reshape_p: Primitive = parametric(
    _reshape,
    x=lambda g, x_shape: g.reshape(x_shape),
    view=True,
    jvp="linear",
    batch=_reshape_batch,
    node_name="ViewBackward0",
    saved={"x_shape": "self_sym_sizes"},
)
# What `reshape` records where it has to copy.
unsafe_view_p: Primitive = parametric(
    _reshape,
    x=lambda g, x_shape: g.reshape(x_shape),
    name="unsafe_view",
    jvp="linear",
    batch=_reshape_batch,
    saved={"x_shape": "self_sym_sizes"},
)


def _show_copy(node: Node) -> None:
    node.edges = (shaping(node, "CloneBackward0", node.edges[0], None, 0.5),)


unsafe_view_p.op.split = _show_copy


def _explain_reshape(error: Exception, x: Any, shape: Any) -> Exception | None:
    try:
        _resolved(shape_from((shape,)), x.size)
    except (RuntimeError, TypeError) as better:
        return better
    return None


reshape_p.op.explain = _explain_reshape


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


def _sizes(sizes: tuple[Any, ...], named: Any) -> tuple[int, ...]:
    if named is not None and not sizes:
        sizes = (named,)
    for n in sizes:
        if type(n) is not int:
            return shape_from(sizes)
    return sizes


def _lies_as(array: Any, shape: tuple[int, ...]) -> bool:
    """Return whether an array's memory can be read in another shape as it lies."""
    if type(array) is not ndarray or array.flags.c_contiguous:
        return True
    sizes, strides = array.shape, array.strides
    left = len(shape) - 1
    step, run, wanted = strides[-1], 1, 1
    for d in range(len(sizes) - 1, -1, -1):
        run *= sizes[d]
        # A run of dimensions that lie as one ends here unless the next outer one continues it.
        if d == 0 or (sizes[d - 1] != 1 and strides[d - 1] != run * step):
            while left >= 0 and (wanted < run or shape[left] == 1):
                wanted *= shape[left]
                left -= 1
            if wanted != run:
                return False
            if d:
                step, run, wanted = strides[d - 1], 1, 1
    return left == -1


def view(input: Tensor, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
    """Look at the same memory in another shape, or as another dtype.

    Examples
    --------
    >>> x = adjoint.zeros(2, 3)
    >>> x.view(-1)[0] = 1
    >>> x
    tensor([[1., 0., 0.],
            [0., 0., 0.]])
    """
    array = input.array
    if shape and type(shape[0]) is int and not modes.unusual and array.flags.c_contiguous and min(shape) >= -1:
        return reshape_p(input, shape)
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], _dtype_type)):
        from .kinds import view_dtype

        return view_dtype(input, shape[0] if dtype is None else dtype)
    if not shape and size is None:
        raise TypeError("view() received an invalid combination of arguments - got (), but expected a shape or a dtype")
    wanted = _resolved(_sizes(shape, size), array.size)
    if not _lies_as(array, wanted):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead: a tensor of shape "
            f"{list(array.shape)} and stride {tuple(s // array.itemsize for s in array.strides)} cannot be "
            f"seen as {list(wanted)} without a copy."
        )
    return reshape_p(input, wanted)


_dtype_type = dtype


def reshape(input: Tensor, *args: Any, shape: Any = None) -> Tensor:
    """Give `input` another shape: a view of its memory where that is possible, otherwise a copy.

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
    wanted = _resolved(_sizes(args, shape), array.size)
    return (reshape_p if _lies_as(array, wanted) else unsafe_view_p)(input, wanted)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """View `input` in the shape of `other`."""
    require_tensor(other, "other", "view_as")
    return view(input, other.array.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Reshape `input` to the shape of `other`."""
    require_tensor(other, "other", "reshape_as")
    return reshape(input, other.array.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Make one dimension of those from `start_dim` to `end_dim`.

    Examples
    --------
    >>> adjoint.zeros(2, 3, 4).flatten(1).shape
    adjoint.Size([2, 12])
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
    """Return all elements in one dimension: a view if the memory is in order, otherwise a copy."""
    return reshape_p(contiguous(input), (input.array.size,))


def unflatten(input: Tensor, dim: int | None = None, sizes: Any = None, *, axis: int | None = None) -> Tensor:
    """Split one dimension into several; one of `sizes` may be -1."""
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


def _squeeze(x: Any, axes: Any) -> Any:
    return x.squeeze(axes)


_squeezes = [
    parametric(
        _squeeze,
        x=lambda g, x_shape: g.reshape(x_shape),
        view="always",
        jvp="linear",
        batch=lambda x, axes: squeeze_p(x, tuple(a + 1 for a in axes)),
        name="squeeze" if form == 1 else f"squeeze_{form}",
        node_name=f"SqueezeBackward{form}",
        written=f"SqueezeBackward{form + 3}",
        saved={"x_shape": "self_sym_sizes", "axes": "dim"},
    )
    for form in range(3)
]
squeeze_p: Primitive = _squeezes[1]


def squeeze(input: Tensor, dim: Any = None, axis: Any = None) -> Tensor:
    """Drop dimensions of size 1: all of them, or those of `dim` that are.

    Examples
    --------
    >>> adjoint.zeros(1, 2, 1).squeeze(0).shape
    adjoint.Size([2, 1])
    """
    dim = dim if axis is None else either(dim, axis)
    try:
        shape = input.array.shape
    except AttributeError:
        require_tensor(input, "input", "squeeze")
        raise
    if dim is None:
        dims: Sequence[int] = range(len(shape))
        form = 0
    elif isinstance(dim, tuple | list):
        dims, form = dims_in(dim, len(shape)) if dim else (), 2
    else:
        dims, form = dims_in(dim, len(shape)), 1
    return _squeezes[form](input, tuple([d for d in dims if shape[d] == 1]))


def _unsqueeze(x: Any, axis: Any) -> Any:
    return x[(_ALL,) * axis + (None,)]


unsqueeze_p: Primitive = parametric(
    _unsqueeze,
    x=lambda g, x_shape: g.reshape(x_shape),
    view="always",
    jvp="linear",
    batch=lambda x, axis: unsqueeze_p(x, axis + 1),
    saved={"axis": "dim"},
    written="UnsqueezeBackward1",
)


def unsqueeze(input: Tensor, dim: int | None = None, axis: int | None = None) -> Tensor:
    """Insert a dimension of size 1 at `dim`.

    Examples
    --------
    >>> adjoint.zeros(2, 3).unsqueeze(1).shape
    adjoint.Size([2, 1, 3])
    """
    dim = dim if axis is None else either(dim, axis)
    try:
        rank = input.array.ndim
    except AttributeError:
        require_tensor(input, "input", "unsqueeze")
        raise
    return unsqueeze_p(input, dim_in(dim, rank + 1))


def atleast_1d(*tensors: Any) -> Any:
    """Return each tensor with at least one dimension."""
    return _each(tensors, lambda t: reshape(t, 1) if t.array.ndim == 0 else t)


def atleast_2d(*tensors: Any) -> Any:
    """Return each tensor with at least two dimensions, new ones in front."""

    def grown(t: Tensor) -> Tensor:
        rank = t.array.ndim
        return reshape(t, 1, 1) if rank == 0 else unsqueeze_p(t, 0) if rank == 1 else t

    return _each(tensors, grown)


def atleast_3d(*tensors: Any) -> Any:
    """Return each tensor with at least three dimensions: a vector becomes the middle one."""

    def grown(t: Tensor) -> Tensor:
        rank = t.array.ndim
        if rank == 0:
            return reshape(t, 1, 1, 1)
        if rank == 1:
            return unsqueeze_p(unsqueeze_p(t, 0), 2)
        return unsqueeze_p(t, 2) if rank == 2 else t

    return _each(tensors, grown)


def _each(tensors: tuple[Any, ...], function: Any) -> Any:
    if len(tensors) == 1:
        if isinstance(tensors[0], TensorBase):
            return function(tensors[0])
        if not isinstance(tensors[0], tuple | list):
            raise TypeError(f"expected a Tensor, or a sequence of them, but got {type(tensors[0]).__name__}")
        tensors = tuple(tensors[0])
    require_all_tensors(tensors)
    return tuple(function(t) for t in tensors)


# --- Repeating without memory -----------------------------------------------------------------------


def _expand(x: Any, shape: Any) -> Any:
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
    if isinstance(x, np.generic):
        x = np.asarray(x)
    if type(x) is ndarray and x.flags.c_contiguous and x.dtype.kind in "fiubc":
        # Ten times faster than broadcast_to, and as writable as `x` is.
        return ndarray(shape, x.dtype, x, 0, strides)
    if not isinstance(x, ndarray):
        return as_strided(x, tuple(shape), tuple(strides), 0)
    return layout.strided_view(x, shape, strides)


def _expand_error(shape: Any, existing: Any) -> RuntimeError:
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


def _lead(x: Any, rank: int) -> Any:
    """Return a batched value with size-1 axes after the batch axis, up to `rank` logical axes."""
    shape = x.shape
    missing = rank - len(shape) + 1
    return reshape_p(x, (shape[0], *(1,) * missing, *shape[1:])) if missing > 0 else x


def expand(input: Tensor, *args: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Repeat dimensions of size 1 without using memory; -1 keeps a size as it is.

    Examples
    --------
    >>> adjoint.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    wanted = _sizes(args, size)
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
    """Expand `input` to the shape of `other`."""
    require_tensor(other, "other", "expand_as")
    return expand(input, other.array.shape)


def broadcast_to(input: Tensor, *args: Any, size: Any = None) -> Tensor:
    """Expand `input` to a shape that it broadcasts to."""
    if not args and size is None:
        raise missing("broadcast_to", "size")
    if args and not isinstance(args[0], tuple | list):
        raise TypeError(f"broadcast_to(): argument 'size' (position 2) must be tuple of ints, not {args[0]!r}")
    return expand(input, _sizes(args, size))


def broadcast_shapes(*shapes: Any) -> Any:
    """Return the shape that tensors of these shapes broadcast to.

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
    """Expand tensors to the shape that they broadcast to."""
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


# --- Another order of dimensions --------------------------------------------------------------------


def _permute(x: Any, axes: Any) -> Any:
    return x.transpose(axes)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    inverse = [0] * len(axes)
    for i, a in enumerate(axes):
        inverse[a] = i
    return tuple(inverse)


permute_p: Primitive = parametric(
    _permute,
    x=lambda g, axes: permute_p(g, _inverse(axes)),
    view="always",
    jvp="linear",
    batch=lambda x, axes: permute_p(x, (0, *(a + 1 for a in axes))),
    saved={"axes": "dims"},
)


def permute(input: Tensor, *args: Any, dims: Any = None) -> Tensor:
    """Put the dimensions in another order.

    Examples
    --------
    >>> adjoint.zeros(2, 3, 4).permute(2, 0, 1).shape
    adjoint.Size([4, 2, 3])
    """
    try:
        rank = input.array.ndim
    except AttributeError:
        require_tensor(input, "input", "permute")
        raise
    wanted = _sizes(args, dims)
    if not args and dims is None:
        raise missing("permute", "dims")
    if len(wanted) == rank and not modes.unusual and min(wanted, default=0) >= 0:
        try:
            return permute_p(input, wanted)
        except Exception:  # the checks below say it better
            pass
    if len(wanted) != rank:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(wanted)}"
        )
    axes = tuple(dim_in(d, rank) for d in wanted)
    if len(set(axes)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return permute_p(input, axes)


def _swap(x: Any, axis0: Any, axis1: Any) -> Any:
    return x.swapaxes(axis0, axis1) if x.ndim else x[...]


transpose_p: Primitive = parametric(
    _swap,
    x=lambda g, axis0, axis1: transpose_p(g, axis0, axis1),
    view="always",
    jvp="linear",
    batch=lambda x, axis0, axis1: transpose_p(x, axis0 + 1, axis1 + 1) if x.ndim > 1 else alias_p(x),
    name="transpose",
    saved={"axis0": "dim0", "axis1": "dim1"},
    written="TransposeBackward1",
)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions.

    Examples
    --------
    >>> adjoint.zeros(2, 3).transpose(0, 1).shape
    adjoint.Size([3, 2])
    """
    try:
        rank = input.array.ndim
    except AttributeError:
        require_tensor(input, "input", "transpose")
        raise
    return transpose_p(input, dim_in(dim0, rank), dim_in(dim1, rank))


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Exchange two dimensions."""
    return transpose(input, axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions."""
    return transpose(input, dim0, dim1)


t_p: Primitive = parametric(
    lambda x: x.T,
    x=lambda g: t_p(g),
    view="always",
    name="t",
    jvp="linear",
    batch=lambda x: transpose_p(x, 1, 2) if x.ndim > 2 else alias_p(x),
    written="TBackward1",
)


def t(input: Tensor) -> Tensor:
    """Transpose a matrix; a vector or a number stays as it is."""
    _check_matrix(input)
    return t_p(input)


def _check_matrix(input: Tensor, name: str = "t") -> None:
    if input.array.ndim > 2:
        raise RuntimeError(
            f"{name}() expects a tensor with <= 2 dimensions, but self is {input.array.ndim}D; use .mT or transpose"
        )


def numpy_transpose(input: Tensor) -> Tensor:
    """Reverse the order of the dimensions, as the property ``.T``."""
    return permute_p(input, tuple(range(input.array.ndim - 1, -1, -1)))


def matrix_transpose(input: Tensor) -> Tensor:
    """Exchange the last two dimensions, as the property ``.mT``."""
    rank = input.array.ndim
    if rank == 0:
        return view(input, ())
    if rank < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {rank}-D tensor.")
    return transpose_p(input, rank - 2, rank - 1)


def adjoint(input: Tensor) -> Tensor:
    """Exchange the last two dimensions and conjugate, as the property ``.mH``."""
    rank = input.array.ndim
    if rank == 0:
        return conj(view(input, ()))
    if rank < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {rank}-D tensor."
        )
    return conj(transpose_p(input, rank - 2, rank - 1))


def conjugate_transpose(input: Tensor) -> Tensor:
    """Transpose and conjugate a matrix, as the property ``.H``."""
    rank = input.array.ndim
    if rank == 0:
        return conj(input)
    if rank != 2:
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor.")
    return conj(transpose_p(input, 0, 1))


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dimensions to other places; the rest keep their order.

    Examples
    --------
    >>> adjoint.zeros(2, 3, 4).movedim(0, -1).shape
    adjoint.Size([3, 4, 2])
    """
    rank = input.array.ndim
    given = [(d,) if hasattr(d, "__index__") else d for d in (source, destination)]
    if not all(isinstance(d, tuple | list) for d in given) or isinstance(source, tuple | list) != isinstance(
        destination, tuple | list
    ):
        kinds = ", ".join(type(d).__name__ for d in (source, destination))
        raise TypeError(f"movedim() received an invalid combination of arguments - got (Tensor, {kinds})")
    sources, destinations = map(tuple, given)
    if len(sources) != len(destinations):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should contain the same "
            f"number of dims as destination ({list(destinations)} dims)"
        )
    start, end = [dim_in(d, rank) for d in sources], [dim_in(d, rank) for d in destinations]
    for name, dims, said in (("source", start, sources), ("destination", end, destinations)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(said)})")
    if rank == 0:
        return alias_p(input)
    placed = dict(zip(end, start, strict=True))
    rest = iter([d for d in range(rank) if d not in start])
    return permute_p(input, tuple(placed[i] if i in placed else next(rest) for i in range(rank)))


def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dimensions to other places; the rest keep their order."""
    return movedim(input, source, destination)


# --- In place: the tensor itself gets another shape -------------------------------------------------


def become(input: Tensor, look: Callable[[], Tensor], operation: str) -> Tensor:
    """Make `input` what a view of it, which `look` makes, is: its geometry and its history."""
    if modes.unusual and isinstance(input.array, Payload):
        edge_of(input)  # a view of what was written since becomes up to date
    recording = modes.is_grad_enabled() and input.node is not None
    check_changeable(input, recording, operation.removesuffix("_"))
    seen = look()
    old, array = input.array, seen.array
    same = old.shape == array.shape and old.strides == array.strides if type(old) is ndarray else False
    if not recording:
        expect_shape(input, array.shape)
    if input.lineage is None and not same:
        note_geometry(input)
        if isinstance(old, Payload) and old.by_value:
            input.lineage = seen.lineage = leave_base(input, seen)
            watch_base(input)
    input.array = array
    if is_leaf_node(input.node) and type(input.node) is not Hidden:
        input.node.follow(input)
    if input.lineage is not None:
        view: Any = seen.lineage  # `seen` is a view of it
        input.lineage = input.lineage.followed(view)
    storage_of(input)
    node = seen.node if recording else input.node
    if recording:
        node.op = node.op.in_place()
    if isinstance(array, Payload) and array.by_value:  # no view of it has another value
        ledger_of(storage_of(input)).version += 1
    else:
        note_write(input, operation)
    if recording:
        retain_later(input, old_too=True)  # the gradient of what it was, as in torch
        input.node = node
        if input.lineage is not None:
            watch_base(input)
    return input


def t_(input: Tensor) -> Tensor:
    """Transpose a matrix, in place."""

    def look() -> Tensor:
        _check_matrix(input, "t_")
        return t_p(input)

    return become(input, look, "t_")


def transpose_(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions, in place."""
    return become(input, lambda: transpose(input, dim0, dim1), "transpose_")


def swapaxes_(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Exchange two dimensions, in place."""
    return become(input, lambda: transpose(input, axis0, axis1), "swapaxes_")


def swapdims_(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions, in place."""
    return become(input, lambda: transpose(input, dim0, dim1), "swapdims_")


def squeeze_(input: Tensor, dim: Any = ..., axis: Any = None) -> Tensor:
    """Drop dimensions of size 1, in place."""
    if dim is None:
        raise TypeError("squeeze_() received an invalid combination of arguments - got (NoneType)")
    dim = None if dim is ... else dim
    dim = dim if axis is None else either(dim, axis)
    return become(input, lambda: squeeze(input, dim), "squeeze_")


def unsqueeze_(input: Tensor, dim: int | None = None, axis: int | None = None) -> Tensor:
    """Insert a dimension of size 1, in place."""
    dim = dim if axis is None else either(dim, axis)
    return become(input, lambda: unsqueeze(input, dim), "unsqueeze_")
