"""Counts of elements in bins, and hashes of tensors."""

from __future__ import annotations

import math
from builtins import range as range_of
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import return_types
from .._typing import Array, Dims, Number, Out, Shape, Tensor
from ..core.device import module_of
from ..core.dtypes import of
from ..core.observation import literal, note_read
from ..core.tensor import TensorBase
from .arguments import dim_in, either, index_of, require_tensor
from .create import finish, into
from .looping import looped
from .reduce import title_of
from .shape import reshape_p

__all__ = ["bincount", "hash_tensor", "histc", "histogram", "histogramdd"]


@looped
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0, *, out: Tensor | None = None) -> Tensor:
    """Count the elements in bins of equal width between `min` and `max`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    bins : int, default 100
        Number of bins.
    min : number, default 0
        Lower limit; if it equals `max`, the limits are the least and largest element.
    max : number, default 0
        Upper limit; elements beyond the limits are not counted.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        (bins,), of the dtype of `input`.

    Examples
    --------
    >>> adjoint.histc(adjoint.tensor([1.0, 2.0, 1.0, 3.0]), bins=3, min=1, max=4)
    tensor([2., 1., 1.])
    """
    note_read("histc", input, min, max)
    a = input.array
    if a.dtype.kind in "biuc":
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{title_of(a.dtype)}'")
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    xp = module_of(a)
    low, high = float(min), float(max)
    if low == high and a.size:
        low, high = float(a.min()), float(a.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("max must be larger than min")
    values = a.reshape(-1).astype(np.float64)
    values = values[(values >= low) & (values <= high)]
    places = xp.minimum(((values - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return into(out, finish(literal(xp.bincount(places, minlength=bins).astype(a.dtype))))


@looped
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Count how often each non-negative integer occurs.

    Parameters
    ----------
    input : Tensor
        Non-negative integers, of shape (N,).
    weights : Tensor, optional
        Of shape (N,): ``out[i]`` is the sum of the weights where `input` is i, instead of their number.
    minlength : int, default 0
        Smallest length of the result.

    Returns
    -------
    Tensor
        Of shape (max(input.max() + 1, minlength),), of int64. With `weights` of float64, or float32 if that is
        their dtype.

    Raises
    ------
    RuntimeError
        If `input` is not one-dimensional, holds a negative number, or `weights` has another shape.
    NotImplementedError
        If `input` is not of integers.

    Examples
    --------
    >>> adjoint.bincount(adjoint.tensor([0, 2, 2]), minlength=4)
    tensor([1, 0, 2, 0])
    >>> adjoint.bincount(adjoint.tensor([0, 2, 2]), weights=adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.5000, 0.0000, 3.0000])
    """
    note_read("bincount", input, weights)
    a = input.array
    if a.dtype.kind not in "iu":
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{title_of(a.dtype)}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if a.ndim != 1 or (a.size and int(a.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return finish(literal(module_of(a).bincount(a, minlength=minlength).astype(np.int64)))
    w = weights.array
    if w.shape != a.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kept = w.dtype if w.dtype == np.float32 else np.dtype(np.float64)
    return finish(literal(module_of(a).bincount(a, weights=w.astype(np.float64), minlength=minlength).astype(kept)))


@looped
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Out = None,
) -> Any:
    """Count the elements in bins, equal ones or between given edges.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    bins : int or Tensor, default 100
        Number of bins, or their edges, ascending.
    range : tuple of float, optional
        Limits of the bins; by default the least and largest element.
    weight : Tensor, optional
        How much each element counts.
    density : bool, default False
        Whether to divide by the total and the widths, so that the integral is 1.
    out : tuple of Tensor, optional
        Tensors to write both results to.

    Returns
    -------
    namedtuple of Tensor
        (hist, bin_edges).

    Examples
    --------
    >>> adjoint.histogram(adjoint.tensor([1.0, 2.0, 1.0]), bins=2, range=(0.0, 4.0)).hist
    tensor([2., 1.])
    """
    edges = [bins] if isinstance(bins, TensorBase) else [index_of(bins, "bins", "histogram")]
    flat = reshape_p(input, (-1, 1))
    hist, found = _histogram("histogram", flat, edges, range, weight, density)
    result = (hist, found[0].clone())
    return return_types.histogram(result if out is None else tuple(map(into, out, result)))


@looped
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Out = None,
) -> Any:
    """Count points of several coordinates in boxes."""
    require_tensor(input, "input", "histogramdd")
    if input.array.ndim < 2:
        raise RuntimeError(
            "torch.histogramdd: input tensor should have at least 2 dimensions, one of points, one of coordinates"
        )
    n = input.array.shape[-1]
    flat = reshape_p(input, (-1, n))
    if isinstance(bins, bool):
        raise TypeError("histogramdd() received an invalid combination of arguments - got (Tensor, bool)")
    edges = [int(bins)] * n if isinstance(bins, int) else list(bins)
    if len(edges) != n:
        raise RuntimeError(
            f"torch.histogramdd: The size of bins must be equal to the innermost dimension of the input, {n}"
        )
    return return_types.histogramdd(_histogram("histogramdd", flat, edges, range, weight, density))


def _histogram(
    name: str, points: Tensor, bins: Sequence[Any], range: Any, weight: Any, density: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    note_read(name, points, *bins, weight)
    a = points.array
    if of(a.dtype).category != 2:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{title_of(a.dtype)}'")
    if weight is not None and weight.array.size != len(a):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but it has {weight.array.size} elements for {len(a)} points"
        )
    limits = None if range is None else [tuple(map(float, range[2 * i : 2 * i + 2])) for i, _ in enumerate(bins)]
    edges = []
    for i, b in enumerate(bins):
        if isinstance(b, TensorBase):
            edges.append(b.array)
            continue
        if b <= 0:
            raise RuntimeError(f"torch.{name}(): bins must be > 0")
        low, high = limits[i] if limits else (float(a[:, i].min()), float(a[:, i].max())) if a.size else (0.0, 1.0)
        if low > high:
            raise RuntimeError(f"torch.{name}(): min should not exceed max")
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(module_of(a).linspace(low, high, b + 1, dtype=a.dtype))
    w = None if weight is None else weight.array.reshape(-1)
    hist = _boxed(a, edges, w)
    if density:
        volume = 1.0
        for axis, e in enumerate(edges):
            shape = [-1 if i == axis else 1 for i in range_of(len(edges))]
            volume = volume * (e[1:] - e[:-1]).reshape(shape)
        hist = hist / hist.sum() / volume
    return finish(literal(hist.astype(a.dtype))), tuple(finish(literal(e)) for e in edges)


def _boxed(points: Any, edges: list[Any], weights: Any) -> Any:
    """Return how many points, or how much of their weights, are in each box, including its last edge."""
    xp = module_of(points)
    inside = xp.ones(points.shape[0], bool)
    box = xp.zeros(points.shape[0], np.int64)
    for i, e in enumerate(edges):
        v = points[:, i]
        inside &= (v >= e[0]) & (v <= e[-1])
        place = xp.searchsorted(e, v, side="right") - 1
        box = box * (len(e) - 1) + xp.where(v == e[-1], len(e) - 2, place)
    shape = tuple(len(e) - 1 for e in edges)
    chosen = None if weights is None else weights[inside]
    return xp.bincount(box[inside], chosen, minlength=math.prod(shape)).reshape(shape).astype(np.float64)


@looped
def hash_tensor(
    input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0, out: Tensor | None = None, axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return a number that changes with any element: all of them, as 64 bits each, combined by exclusive or.

    Examples
    --------
    >>> adjoint.hash_tensor(adjoint.tensor([1, 2, 7])).item()
    4
    """
    dim, keepdim = either(dim, axis, ()), keepdim or keepdims
    note_read("hash_tensor", input)
    if mode != 0:
        raise RuntimeError(f"hash_tensor: Unknown mode: {mode}; only 0, exclusive or, is there")
    a = input.array
    dims = [dim] if isinstance(dim, int) else list(dim)
    axes = tuple(dim_in(d, a.ndim) for d in dims)
    for axis in axes:
        if a.ndim and a.shape[axis] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {axis} to have non-zero size.")
    if not axes and not a.size:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument."
        )
    axes = axes if axes and a.ndim else tuple(range_of(a.ndim))
    return into(out, finish(literal(_hashed(a, axes, keepdim))))


def _hashed(a: Array, axes: Shape, keepdim: bool) -> Array:
    """Return all elements along axes, as 64 bits each, combined by exclusive or: half of them with the other half."""
    xp, rank = module_of(a), a.ndim
    bits = a.astype(np.float64 if of(a.dtype).category == 2 else np.int64).view(np.uint64)
    rest = tuple([i for i in range_of(rank) if i not in axes])
    x = xp.transpose(bits, (*rest, *axes)).reshape(*[a.shape[i] for i in rest], -1)
    while (n := x.shape[-1]) > 1:
        half = n // 2
        x = xp.concatenate((x[..., :half] ^ x[..., half : 2 * half], x[..., 2 * half :]), -1)
    return x.reshape([1 if i in axes else m for i, m in enumerate(a.shape) if keepdim or i not in axes])
