"""Dimensions as views: added, removed, in another order; and in place, where the tensor itself gets another shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._typing import Axes, Dims, Ints, Tensor, Value
from ..core import modes
from ..core.nodes import Hidden
from ..core.payload import Payload
from ..core.recorders import Primitive, parametric
from ..core.tensor import TensorBase, ledger_of, note_geometry, note_write, retain_later, storage_of
from ..core.views import edge_of, expect_shape, leave_base, watch_base
from ..core.writable import check_changeable, is_leaf_node
from .arguments import dim_in, dims_in, either, missing, require_all_tensors, require_tensor
from .shape import alias_p, conj, reshape, sizes_from, view

__all__ = [
    "adjoint", "atleast_1d", "atleast_2d", "atleast_3d", "moveaxis", "movedim", "permute", "squeeze", "swapaxes",
    "swapdims", "t", "transpose", "unsqueeze",
]  # fmt: skip


def _squeeze(x: Value, axes: Axes) -> Value:
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


def squeeze(input: Tensor, dim: Dims = None, axis: Dims = None) -> Tensor:
    """Drop dimensions of size 1.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int or tuple of ints, optional
        Only these are dropped, where their size is 1; others are left alone. All dimensions of size 1 by default.

    Returns
    -------
    Tensor
        A view of `input`.

    Examples
    --------
    >>> x = adjoint.zeros(1, 2, 1)
    >>> x.squeeze().shape
    adjoint.Size([2])
    >>> x.squeeze(0).shape
    adjoint.Size([2, 1])
    >>> x.squeeze(1).shape
    adjoint.Size([1, 2, 1])
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


def _unsqueeze(x: Value, axis: int) -> Value:
    return x[(slice(None),) * axis + (None,)]


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
    """Insert a dimension of size 1.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int
        The index of the new dimension, from ``-input.dim() - 1`` to ``input.dim()``.

    Returns
    -------
    Tensor
        A view of `input` with one dimension more.

    Examples
    --------
    >>> adjoint.zeros(2, 3).unsqueeze(1).shape
    adjoint.Size([2, 1, 3])
    >>> adjoint.zeros(2, 3).unsqueeze(-1).shape
    adjoint.Size([2, 3, 1])
    """
    dim = dim if axis is None else either(dim, axis)
    try:
        rank = input.array.ndim
    except AttributeError:
        require_tensor(input, "input", "unsqueeze")
        raise
    return unsqueeze_p(input, dim_in(dim, rank + 1))


def atleast_1d(*tensors: Any) -> Any:
    """Return each tensor with at least one dimension.

    Parameters
    ----------
    *tensors : Tensor
        Tensors, or one sequence of them.

    Returns
    -------
    Tensor or tuple of Tensor
        The tensor, or a tuple of several.

    Examples
    --------
    >>> adjoint.atleast_1d(adjoint.tensor(1.0))
    tensor([1.])
    """
    return _each(tensors, lambda t: reshape(t, 1) if t.array.ndim == 0 else t)


def atleast_2d(*tensors: Any) -> Any:
    """Return each tensor with at least two dimensions, new ones in front.

    Parameters
    ----------
    *tensors : Tensor
        Any number of tensors, or one sequence of them.

    Returns
    -------
    Tensor or tuple of Tensor
        Views: a number has shape ``(1, 1)``, a vector ``(1, n)``; others are returned as they are.

    Examples
    --------
    >>> adjoint.atleast_2d(adjoint.tensor([1, 2]))
    tensor([[1, 2]])
    >>> adjoint.atleast_2d(adjoint.tensor(1), adjoint.zeros(3, 4))[1].shape
    adjoint.Size([3, 4])
    """

    def grown(t: Tensor) -> Tensor:
        rank = t.array.ndim
        return reshape(t, 1, 1) if rank == 0 else unsqueeze_p(t, 0) if rank == 1 else t

    return _each(tensors, grown)


def atleast_3d(*tensors: Any) -> Any:
    """Return each tensor with at least three dimensions: a vector becomes the middle one.

    Parameters
    ----------
    *tensors : Tensor
        Tensors, or one sequence of them.

    Returns
    -------
    Tensor or tuple of Tensor
        The tensor, or a tuple of several.

    Examples
    --------
    >>> adjoint.atleast_3d(adjoint.tensor([1.0, 2.0])).shape
    adjoint.Size([1, 2, 1])
    """

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


def permute(input: Tensor, *args: Ints, dims: Ints | None = None) -> Tensor:
    """Put the dimensions in another order.

    Dimension i of the result is dimension ``dims[i]`` of `input`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dims : int... or sequence of ints
        Every dimension once; negative ones count from the end.

    Returns
    -------
    Tensor
        A view of `input` with other strides.

    Raises
    ------
    RuntimeError
        If a dimension is missing or occurs twice.

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
    wanted = sizes_from(args, dims)
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


def _swap(x: Value, axis0: int, axis1: int) -> Value:
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

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim0, dim1 : int
        The dimensions; negative ones count from the end.

    Returns
    -------
    Tensor
        A view of `input`.

    Examples
    --------
    >>> adjoint.tensor([[1, 2, 3], [4, 5, 6]]).transpose(0, 1)
    tensor([[1, 4],
            [2, 5],
            [3, 6]])
    """
    try:
        rank = input.array.ndim
    except AttributeError:
        require_tensor(input, "input", "transpose")
        raise
    return transpose_p(input, dim_in(dim0, rank), dim_in(dim1, rank))


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Exchange two dimensions: NumPy's name for `transpose`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    axis0, axis1 : int
        The dimensions; negative ones count from the end.

    Returns
    -------
    Tensor
        A view of `input`.

    Examples
    --------
    >>> adjoint.zeros(2, 3, 4).swapaxes(0, 2).shape
    adjoint.Size([4, 3, 2])
    """
    return transpose(input, axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions: `transpose` by another name.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim0 : int
        One of them.
    dim1 : int
        The other.

    Returns
    -------
    Tensor
        A view of `input`.

    Examples
    --------
    >>> adjoint.swapdims(adjoint.zeros(2, 3), 0, 1).shape
    adjoint.Size([3, 2])
    """
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
    """Transpose a matrix; a vector or a number stays as it is.

    Parameters
    ----------
    input : Tensor
        At most two dimensions.

    Returns
    -------
    Tensor
        A view of `input`, of shape ``(m, n)`` for a matrix of shape ``(n, m)``.

    Raises
    ------
    RuntimeError
        If there are more than two dimensions; ``x.mT`` transposes a batch of matrices.

    Examples
    --------
    >>> adjoint.tensor([[1, 2, 3], [4, 5, 6]]).t()
    tensor([[1, 4],
            [2, 5],
            [3, 6]])
    """
    _check_matrix(input)
    return t_p(input)


def _check_matrix(input: Tensor, name: str = "t") -> None:
    if input.array.ndim > 2:
        raise RuntimeError(
            f"{name}() expects a tensor with <= 2 dimensions, but self is {input.array.ndim}D; use .mT or transpose"
        )


def numpy_transpose(input: Tensor) -> Tensor:
    """Reverse the order of the dimensions, as the property ``.T``.

    Parameters
    ----------
    input : Tensor
        Any shape, mostly a matrix; for batches of matrices use ``.mT``.

    Returns
    -------
    Tensor
        A view; a matrix is transposed.

    Examples
    --------
    >>> adjoint.tensor([[1, 2], [3, 4]]).T
    tensor([[1, 3],
            [2, 4]])
    """
    return permute_p(input, tuple(range(input.array.ndim - 1, -1, -1)))


def matrix_transpose(input: Tensor) -> Tensor:
    """Exchange the last two dimensions, as the property ``.mT``.

    Parameters
    ----------
    input : Tensor
        Matrices, ``(*, n, m)``.

    Returns
    -------
    Tensor
        A view, ``(*, m, n)``.

    Raises
    ------
    RuntimeError
        If the tensor has one dimension.

    Examples
    --------
    >>> adjoint.zeros(5, 2, 3).mT.shape
    adjoint.Size([5, 3, 2])
    """
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
    """Transpose and conjugate a matrix, as the property ``.H``.

    Parameters
    ----------
    input : Tensor
        A matrix, ``(n, m)``; for batches use ``.mH``.

    Returns
    -------
    Tensor
        A view, ``(m, n)``; conjugated, if complex.

    Raises
    ------
    RuntimeError
        If the tensor has another number of dimensions than two or none.

    Examples
    --------
    >>> adjoint.tensor([[1 + 2j, 3j]]).H
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    rank = input.array.ndim
    if rank == 0:
        return conj(input)
    if rank != 2:
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor.")
    return conj(transpose_p(input, 0, 1))


def movedim(input: Tensor, source: Ints, destination: Any) -> Tensor:
    """Move dimensions to other places; the order of the others does not change.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    source : int or tuple of ints
        The dimensions to move.
    destination : int or tuple of ints
        For each of them its index in the result.

    Returns
    -------
    Tensor
        A view of `input`.

    Examples
    --------
    >>> adjoint.zeros(2, 3, 4).movedim(0, -1).shape
    adjoint.Size([3, 4, 2])
    >>> adjoint.zeros(2, 3, 4).movedim((0, 1), (1, 2)).shape
    adjoint.Size([4, 2, 3])
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


def moveaxis(input: Tensor, source: Ints, destination: Any) -> Tensor:
    """Move dimensions to other positions: `movedim` by another name.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    source : int or tuple of int
        The dimensions.
    destination : int or tuple of int
        Their new positions.

    Returns
    -------
    Tensor
        A view of `input`; the other dimensions keep their order.

    Examples
    --------
    >>> adjoint.moveaxis(adjoint.zeros(2, 3, 4), 0, -1).shape
    adjoint.Size([3, 4, 2])
    """
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
    same = not isinstance(old, Payload) and old.shape == array.shape and old.strides == array.strides
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
    """Exchange two dimensions, in place: the tensor itself gets another shape.

    Parameters
    ----------
    input : Tensor
        Its memory stays as it is; its shape and strides change.
    dim0, dim1 : int
        The dimensions; negative ones count from the end.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> x = adjoint.zeros(2, 3)
    >>> _ = x.transpose_(0, 1)
    >>> x.shape
    adjoint.Size([3, 2])
    """
    return become(input, lambda: transpose(input, dim0, dim1), "transpose_")


def swapaxes_(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Exchange two dimensions, in place."""
    return become(input, lambda: transpose(input, axis0, axis1), "swapaxes_")


def swapdims_(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions, in place."""
    return become(input, lambda: transpose(input, dim0, dim1), "swapdims_")


def squeeze_(input: Tensor, dim: Any = ..., axis: Dims = None) -> Tensor:
    """Drop dimensions of size 1, in place: the tensor itself gets another shape.

    Parameters
    ----------
    input : Tensor
        Its memory stays as it is; its shape and strides change.
    dim : int or tuple of ints, optional
        Only these are dropped, where their size is 1. All dimensions of size 1 by default.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> x = adjoint.zeros(1, 3)
    >>> _ = x.squeeze_()
    >>> x.shape
    adjoint.Size([3])
    """
    if dim is None:
        raise TypeError("squeeze_() received an invalid combination of arguments - got (NoneType)")
    dim = None if dim is ... else dim
    dim = dim if axis is None else either(dim, axis)
    return become(input, lambda: squeeze(input, dim), "squeeze_")


def unsqueeze_(input: Tensor, dim: int | None = None, axis: int | None = None) -> Tensor:
    """Insert a dimension of size 1, in place: the tensor itself gets another shape.

    Parameters
    ----------
    input : Tensor
        Its memory stays as it is; its shape and strides change.
    dim : int
        The index of the new dimension, from ``-input.dim() - 1`` to ``input.dim()``.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> x = adjoint.zeros(3)
    >>> _ = x.unsqueeze_(0)
    >>> x.shape
    adjoint.Size([1, 3])
    """
    dim = dim if axis is None else either(dim, axis)
    return become(input, lambda: unsqueeze(input, dim), "unsqueeze_")
