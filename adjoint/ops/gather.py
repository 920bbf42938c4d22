"""Reading by tensors of indices and by masks: gather, take_along_dim, take, masked_select."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Array, Out, Shape, Tensor, Value
from ..core import modes
from ..core.device import module_of
from ..core.dtypes import of
from ..core.failures import title_of
from ..core.folding import fold
from ..core.payload import Payload, is_batch
from ..core.recorders import Primitive, nary
from .arguments import dim_in, either, require_tensor
from .bounds import check_bounds, check_flat, check_index
from .create import apart, into
from .index import index_batch, index_p, unindex_p
from .piecewise import where_p
from .shape import broadcast_tensors, cast_p, expand_p, reshape, reshape_p

# The functions that adjoint exports; the others are for other packages.
__all__ = ["gather", "masked_select", "take", "take_along_dim"]
_ALL = slice(None)

# --- gather -----------------------------------------------------------------------------------------
# An index tensor has the rank of what it indexes, and names a position along `axis` for each of its elements;
# along the other dimensions an element stays where it is.


def positions(x: Array, i: Array, axis: int) -> tuple[Array, tuple[Array, ...], Shape]:
    """Return an array, what indexes it where an index tensor points along `axis`, and the shape of what that picks."""
    check_bounds(i, x.shape[axis] if x.ndim else 1, axis)
    if i.ndim != x.ndim or not x.ndim:  # one of them has no dimensions, or the index no elements
        return x.reshape(-1), (i.reshape(-1),), (i.size,)
    lines = [(1,) * d + (n,) + (1,) * (i.ndim - d - 1) for d, n in enumerate(i.shape)]
    xp = module_of(i)
    return x, tuple([i if d == axis else xp.arange(i.shape[d]).reshape(line) for d, line in enumerate(lines)]), i.shape


def _gather(x: Array, i: Array, axis: int) -> Array:
    x, at, _ = positions(x, i, axis)
    picked: Array = x[at]
    return picked.reshape(i.shape)


def _ungather(x: Array, i: Array, shape: Shape, axis: int) -> Array:
    xp = module_of(x)
    out: Array = xp.zeros(shape, x.dtype)
    whole, at, picked = positions(out, i, axis)
    xp.add.at(whole, at, xp.broadcast_to(x, i.shape).reshape(picked))
    return out


def _gather_batch(x: Value, i: Value, axis: int) -> Value:
    if 0 in i.shape:
        return cast_p(i, x.dtype)
    if x.ndim == 1 or i.ndim == 1:  # 0-d elements
        rank = max(x.ndim, i.ndim, 2)
        out = gather_p(grown(x, rank), grown(i, rank), 1)
        return reshape_p(out, i.shape)
    return gather_p(x, i, axis + 1)


def grown(x: Value, rank: int) -> Value:
    """Return a value with dimensions of size 1 at its end, up to `rank`."""
    return x if x.ndim >= rank else reshape_p(x, (*x.shape, *(1,) * (rank - x.ndim)))


def ungathered(g: Array, i: Array, x_shape: Shape, axis: int) -> Value:
    """Return zeros of a shape to which a gradient is added along an axis."""
    return ungather_p(g, i, x_shape, axis)


def gathering(name: str) -> Primitive:
    """Return a primitive that gathers, under the name that torch gives its node."""
    return nary(
        _gather,
        inputs=2,
        x=ungathered,
        name=name,
        jvp=lambda tangents, inputs, out, params: gather_p(tangents[0], inputs[1], *params),
        batch=_gather_batch,
        saved={"i": "index", "axis": "dim"},
    )


gather_p = gathering("gather")
# Zeros of a shape to which `x` is added along an axis: what the gradient of `gather` is.
ungather_p: Primitive = nary(
    _ungather,
    inputs=2,
    x=lambda g, i, axis: gather_p(g, i, axis),
    jvp=lambda tangents, inputs, out, params: ungather_p(tangents[0], inputs[1], *params),
    batch=lambda x, i, shape, axis: (
        ungather_p(x, i, (x.shape[0], *shape), axis + 1)
        if shape
        else reshape_p(
            ungather_p(reshape_p(x, (x.shape[0], -1)), reshape_p(i, (x.shape[0], -1)), (x.shape[0], 1), 1),
            (-1,),
        )
    ),
    node_name="ScatterAddBackward0",
)


def check_positions(input: Tensor, index: Tensor, axis: int, op: str) -> None:
    """Raise unless an index has the rank of a tensor, and no more elements along the dimensions other than `axis`."""
    have, want = input.array.shape, index.array.shape
    if max(len(have), 1) != max(len(want), 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {'input' if op == 'gather' else 'self'} tensor"
        )
    for d, n in enumerate(want):
        if d != axis and have and n > have[d]:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(want)} to be no larger than self "
                f"{list(have)} apart from dimension {axis}"
            )


def gather(
    input: Tensor, dim: int | None = None, index: Any = None, *, sparse_grad: bool = False, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Pick elements along a dimension by index.

    In two dimensions with ``dim=1``: ``result[i, j] = input[i, index[i, j]]``; with ``dim=0``:
    ``result[i, j] = input[index[i, j], j]``.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int
        The dimension; negative ones count from the end.
    index : Tensor
        Integers from 0 to the size of `dim`, that not included. It has as many dimensions as `input` and is not larger
        along those other than `dim`; it does not broadcast.
    sparse_grad : bool, default False
        Ignored: the gradient is dense.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `index`. Where an element is picked more than once, its gradients add up.

    Raises
    ------
    RuntimeError
        If `index` is out of range or does not fit.

    Examples
    --------
    >>> scores = adjoint.tensor([[0.1, 0.9], [0.7, 0.3]])
    >>> scores.gather(1, adjoint.tensor([[1], [0]]))
    tensor([[0.9000],
            [0.7000]])
    """
    dim = dim if axis is None else either(dim, axis)
    check_index(index, "gather")
    if out is not None:
        apart(out, input, index)
        if out.array.dtype != input.array.dtype:
            raise RuntimeError(
                f"Expected out tensor to have dtype {of(input.array.dtype).name}, but got "
                f"{of(out.array.dtype).name} instead"
            )
    axis = dim_in(dim, input.array.ndim)
    if index.array.size:
        check_positions(input, index, axis, "gather")
    return into(out, gather_p(input, index, axis))


def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Out = None, axis: int | None = None
) -> Tensor:
    """Pick elements along `dim` by index, as `argsort` returns them.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    indices : Tensor
        int64, broadcast with `input` except along `dim`.
    dim : int, optional
        Dimension to pick along; the flattened input by default.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        ``out[i, j] = input[indices[i, j], j]`` for ``dim=0``.

    Examples
    --------
    >>> x = adjoint.tensor([[3, 1, 2]])
    >>> adjoint.take_along_dim(x, x.argsort(1), dim=1)
    tensor([[1, 2, 3]])
    """
    dim = dim if axis is None else either(dim, axis)
    check_index(indices, "take_along_dim")
    if dim is None:
        return into(out, gather_p(reshape(input, -1), _counted(reshape(indices, -1), input.array.size), 0))
    rank = input.array.ndim
    if rank != indices.array.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{rank} dimensions for input, and {indices.array.ndim} dimensions for indices"
        )
    axis = dim_in(dim, rank)
    have, want = list(input.array.shape), list(indices.array.shape)
    common = [max(n, m) if 1 in (n, m) and n and m else n for n, m in zip(have, want, strict=True)]
    wide = tuple(have[axis] if d == axis else n for d, n in enumerate(common))
    tall = tuple(want[axis] if d == axis else n for d, n in enumerate(common))
    return into(out, gather_p(expand_p(input, wide), expand_p(_counted(indices, have[axis]), tall), axis))


def _counted(indices: Tensor, size: int) -> Tensor:
    """Return indices counted from the front."""
    array = indices.array
    if isinstance(array, Payload) or (array.size and array.min() < 0):
        return where_p(indices < 0, indices + size, indices)
    return indices


# --- take: as if there were one dimension -----------------------------------------------------------


def _take(x: Array, i: Array) -> Array:
    check_flat(i, x.size)
    return x.reshape(-1).take(i)


take_p: Primitive = nary(
    _take,
    inputs=2,
    x=lambda g, i, x_shape: reshape_p(unindex_p((g, i), (math.prod(x_shape),), (0,)), x_shape),
    jvp=lambda tangents, inputs, out, params: take_p(tangents[0], inputs[1]),
    batch=lambda x, i: _take_batch(x, i),
    saved={"i": "index"},
)


def _take_batch(x: Value, i: Value) -> Value:
    size = x.shape[0]
    flat = reshape_p(x, (size, math.prod(x.shape[1:])))
    rows = np.arange(size).reshape(size, *(1,) * (i.ndim - 1))
    return index_p((flat, rows, i), (0, 1))


def take(input: Tensor, index: Tensor, *, out: Out = None) -> Tensor:
    """Pick elements as if `input` had one dimension; the result has the shape of `index`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    index : Tensor
        Positions in the flattened input, int64.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `index`.

    Examples
    --------
    >>> adjoint.take(adjoint.tensor([[1, 2], [3, 4]]), adjoint.tensor([0, -1]))
    tensor([1, 4])
    """
    check_index(index, "take")
    if index.array.dtype.name != "int64":
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {title_of(index.array.dtype)}")
    apart(out, input, index)
    return into(out, take_p(input, index))


# --- Masks ------------------------------------------------------------------------------------------


def _masked_select(x: Value, mask: Value) -> Value:
    return x[mask]


masked_select_p: Primitive = nary(
    _masked_select,
    inputs=2,
    x=lambda g, mask, x_shape: unindex_p((g, mask), x_shape, (0,)),
    jvp=lambda tangents, inputs, out, params: masked_select_p(tangents[0], inputs[1]),
    batch=lambda x, mask: index_batch((x, mask), (0,)),
)


def masked_select(input: Tensor, mask: Tensor, *, out: Out = None) -> Tensor:
    """Return the elements where a mask is true, in one dimension.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    mask : Tensor
        Booleans; it broadcasts with `input`.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A vector with a copy of the chosen elements, in row-major order. Its length depends on the values of `mask`.

    Examples
    --------
    >>> x = adjoint.tensor([[1, 2], [3, 4]])
    >>> adjoint.masked_select(x, x > 1)
    tensor([2, 3, 4])
    """
    check_mask(mask, "masked_select")
    apart(out, input, mask)
    if is_batch(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in adjoint.masked_select(self, mask). We cannot support this because "
            "for each batch this would return a differently shaped Tensor. Use adjoint.where."
        )
    whole = input
    if input.array.shape != mask.array.shape:
        whole, mask = broadcast_tensors(input, mask)
    if modes.unusual and not whole.array.shape:
        whole, mask = reshape_p(whole, (1,)), reshape_p(mask, (1,))
    return into(out, fold(masked_select_p(whole, mask), "MaskedSelectBackward0", input))


def check_mask(mask: Tensor, op: str) -> None:
    """Raise unless a mask is a tensor of booleans."""
    require_tensor(mask, "mask", op)
    if mask.array.dtype != bool:
        raise RuntimeError(
            f"{op}: expected BoolTensor for mask, got {of(mask.array.dtype).name}; compare or .bool() it ({op}_ only "
            "supports boolean masks)"
        )
