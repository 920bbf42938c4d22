"""Normalization: a tensor brought to mean 0 and variance 1 along some axes, then scaled and shifted.

Layer, batch, group and instance norm are one computation over different axes, so they share a kernel and a
rule. A node keeps the input, the scale, and one mean and one inverse deviation per normalized group; the
kernels walk over rows in blocks that stay in the processor's cache.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import modes
from ..core.dtypes import finfo, of
from ..core.failures import not_implemented
from ..core.folding import Unfolded, fold, reveal
from ..core.nodes import Node, Special, wrap
from ..core.observation import observer
from ..core.payload import Payload, payload_of
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase, note_write
from ..core.views import edge_of, has_history
from ..devices.cpu import norms, provider
from ..devices.cpu.constants import constants_of
from ..devices.cpu.softmax import LARGE
from .arguments import dtype_of, either
from .compare import zeros_p
from .create import into
from .elementwise import add_p, div_p, mul_p, sub_p
from .measure import vector_norm
from .piecewise import clamp_min
from .precision import autocasting
from .reduce import _sum, both_on_gpu, count_of, is_half, mean_p, shifted, title_of
from .shape import cast_p, expand_as, reshape_p, sum_to_p

ndarray = np.ndarray
f32 = np.dtype("float32")
_BLOCK = 65536  # elements of a block of rows
_FEW = 4096  # elements up to which calls cost more than passes
_LEVEL = {c: (64 * float(np.finfo(c).eps)) ** 2 for c in "fd"}  # variances by squared means: numbers are equal, nearly
_add: Any = np.add.reduce


class Moments:
    """Where a kernel leaves the means and inverse deviations that it found, for the rule to use again."""

    __slots__ = ("mean", "rstd", "var")

    def __init__(self) -> None:
        self.mean: Any = None
        self.var: Any = None
        self.rstd: Any = None


# --- Kernels ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _plan(
    x_shape: tuple[int, ...], axes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[bool, int, bool, tuple[int, ...]]:
    """Return how to go about it: is it by rows, how many elements together, is the scale one row, moments' shape.

    By rows means that the last axes are normalized; the scale, of `shape`, may be the same for all of them.
    """
    rank, k = len(x_shape), len(axes)
    rows = k > 0 and axes == tuple(range(rank - k, rank)) and math.prod(x_shape) > 0
    same = rows and shape[-k:] == x_shape[rank - k :] and math.prod(shape[:-k]) == 1
    return rows, count_of(x_shape, axes), same, tuple(1 if i in axes else n for i, n in enumerate(x_shape))


def _norm(x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: Any, centered: Any, moments: Any) -> Any:
    if type(x) is not ndarray or not centered or x.dtype.char not in _LEVEL:
        return _normalized(x, weight, bias, axes, shape, eps, centered, moments)
    found = Moments() if moments is None else moments
    out = _normalized(x, weight, bias, axes, shape, eps, True, found)
    if not x.size or _differ(found.mean, found.var, _LEVEL[x.dtype.char]):
        return out
    # Numbers as good as equal (or one that is not finite): what their mean lost by rounding would be all there is.
    first = x[tuple(slice(0, 1) if i in axes else slice(None) for i in range(x.ndim))]
    out = _normalized(x - first, weight, bias, axes, shape, eps, True, found)
    found.mean = found.mean + first
    return out


def _differ(mean: Any, var: Any, level: float) -> bool:
    """Return whether variances are above a share of the squared means; the extremes answer for most, by a search."""
    top, bottom = mean.item(mean.argmax()), mean.item(mean.argmin())
    if var.item(var.argmin()) > level * max(top * top, bottom * bottom):
        return True
    return bool((var > mean * mean * level).all())


def _normalized(x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: Any, centered: Any, moments: Any) -> Any:
    if type(x) is ndarray:
        large = _norm_large(x, weight, bias, axes, shape, eps, centered, moments) if x.size >= LARGE else None
        if large is not None:
            return large
        if _plan(x.shape, axes, shape)[0]:
            rows = _norm_few if x.size < _FEW and axes == (x.ndim - 1,) and moments is not None else _norm_rows
            return rows(x, weight, bias, axes, shape, eps, centered, moments)
    elif x.size and (gpu := provider.gpu(x)) is not None:
        found = _norm_on_gpu(gpu, x, weight, bias, axes, shape, eps, centered, moments)
        if found is not None:
            return found
    n = max(count_of(x.shape, axes), 1)
    mean = _total(x, axes) / n if centered else None
    out = x - mean if centered else x.copy()
    var = _dot(out, out, axes) / n
    rstd = 1 / np.sqrt(var + x.dtype.type(eps))
    out *= rstd if weight is None or weight.shape != rstd.shape else rstd * weight
    if weight is not None and weight.shape != rstd.shape:
        out *= weight
    if bias is not None:
        out += bias
    if moments is not None:
        moments.mean, moments.var, moments.rstd = mean, var, rstd
    return out


def _norm_on_gpu(
    gpu: Any, x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: Any, centered: Any, moments: Any
) -> Any:
    """Normalize by planes or by rows on a GPU; None if it is neither."""
    by_rows, width, same, kept = _plan(x.shape, axes, shape)
    k = norms.plane(x.shape, axes, shape) if centered else 0
    var = None
    if k and (found := gpu.norms.planes(x, weight, bias, axes, k, eps)) is not None:
        out, mean, var, rstd = found
    elif by_rows and not k and (same or (weight is None and bias is None)):
        found = gpu.norms.rows(x, weight, bias, width, eps, centered)
        if found is None:
            return None
        out, mean, rstd = found
    else:
        return None
    if moments is not None:
        moments.mean, moments.var, moments.rstd = (None if a is None else a.reshape(kept) for a in (mean, var, rstd))
    return out


def _norm_large(x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: Any, centered: Any, moments: Any) -> Any:
    """Normalize a large array by rows or by planes; None if it is neither."""
    by_rows, width, same, kept = _plan(x.shape, axes, shape)
    rstd: Any = None
    if by_rows and (same or (weight is None and bias is None)):
        out, mean, var, rstd = norms.rows(x, weight, bias, width, eps, centered)
    elif centered and (k := norms.plane(x.shape, axes, shape)):
        out, mean, var = norms.planes(x, weight, bias, axes, k, eps)
    else:
        return None
    if moments is not None:
        moments.mean, moments.var = None if mean is None else mean.reshape(kept), var.reshape(kept)
        if rstd is None:
            rstd = moments.var + x.dtype.type(eps)
            np.reciprocal(np.sqrt(rstd, out=rstd), out=rstd)
        moments.rstd = rstd.reshape(kept)
    return out


def _back_large(g: Any, x: Any, weight: Any, axes: Any, shape: Any, centered: bool, moments: Any, needs: Any) -> Any:
    by_rows, width, same, _ = _plan(x.shape, axes, shape)
    if by_rows and (same or (weight is None and not (needs[1] or needs[2]))):
        gx, gw, gb = norms.rows_back(g, x, weight, moments.mean, moments.rstd, width, needs)
        return gx, None if gw is None else gw.reshape(shape), None if gb is None else gb.reshape(shape)
    k = norms.plane(x.shape, axes, shape) if centered else 0
    if not k:
        return None
    gx, gw, gb = norms.planes_back(g, x, weight, moments.mean, moments.rstd, axes, k, needs)
    return gx, None if gw is None else sum_to_p(gw, shape), None if gb is None else sum_to_p(gb, shape)


def _by_channel(a: Any, axes: tuple[int, ...]) -> bool:
    return type(a) is ndarray and a.ndim > 1 and axes == (0, *range(2, a.ndim)) and a.flags.c_contiguous and a.size > 0


def _total(a: Any, axes: tuple[int, ...]) -> Any:
    """Return the sum along `axes`, kept at size 1; products with ones add faster than NumPy's sums."""
    if not _by_channel(a, axes):
        return a.sum(axis=axes, keepdims=True)
    rows = a.reshape(a.shape[0], a.shape[1], -1)
    if rows.shape[2] == 1:
        total = np.add.reduce(rows[:, :, 0], 0)
    else:
        total = np.add.reduce(np.vecdot(rows, np.ones(rows.shape[2], a.dtype)), 0)
    return total.reshape(1, -1, *(1,) * (a.ndim - 2))


def _dot(a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """Return the sum of products along `axes`, kept at size 1, without storing the products."""
    if not _by_channel(a, axes) or not b.flags.c_contiguous:
        return (a * b).sum(axis=axes, keepdims=True)
    left, right = (x.reshape(x.shape[0], x.shape[1], -1) for x in (a, b))
    if left.shape[2] == 1:
        total = np.einsum("ij,ij->j", left[:, :, 0], right[:, :, 0])
    else:
        total = np.add.reduce(np.vecdot(left, right), 0)
    return total.reshape(1, -1, *(1,) * (a.ndim - 2))


def _norm_few(x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: Any, centered: bool, moments: Any) -> Any:
    """Normalize the last axis of a small array, in as few calls as can be."""
    width, number = x.shape[-1], constants_of(x)
    if centered:
        moments.mean = mean = _add(x, -1, None, None, True)
        mean /= number[width]
        out = x - mean
    else:
        out = x.copy()
    moments.var = var = np.vecdot(out, out)[..., None]
    var /= number[width]
    moments.rstd = rstd = np.sqrt(var + number[eps])
    np.reciprocal(rstd, out=rstd)
    out *= rstd
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return out


def _back_few(g: Any, x: Any, weight: Any, shape: Any, centered: bool, moments: Moments, needs: Any) -> Any:
    """Return the gradients of a small array and of a scale and shift along its last axis."""
    width, number = x.shape[-1], constants_of(x)
    standard = x - moments.mean if centered else x.copy()
    standard *= moments.rstd
    gw = _add((g * standard).reshape(-1, width)).reshape(shape) if needs[1] else None
    gb = _add(g.reshape(-1, width)).reshape(shape) if needs[2] else None
    if not needs[0]:
        return None, gw, gb
    part = g if weight is None else g * weight
    along = np.vecdot(part, standard)[..., None]
    along /= number[width]
    away = standard * along
    out = part - away
    if centered:
        level = _add(part, -1, None, None, True)
        level /= number[width]
        out -= level
    out *= moments.rstd
    return out, gw, gb


def _norm_rows(x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: Any, centered: bool, moments: Any) -> Any:
    _, width, row, kept = _plan(x.shape, axes, shape)
    rows = x.reshape(-1, width)
    count = rows.shape[0]
    out = np.empty(rows.shape, x.dtype)
    mean = np.empty((count, 1), x.dtype) if centered else None
    var = np.empty((count, 1), x.dtype)
    scale = weight.reshape(width) if row and weight is not None else None
    shift = bias.reshape(width) if row and bias is not None else None
    eps, ones = x.dtype.type(eps), np.ones(width, x.dtype)
    step = max(_BLOCK // width, 1)
    for i in range(0, count, step):
        o, block = out[i : i + step], rows[i : i + step]
        if mean is not None:
            m = np.vecdot(block, ones).reshape(-1, 1)
            m /= width
            mean[i : i + step] = m
            block = np.subtract(block, m, out=o)
        s = np.vecdot(block, block).reshape(-1, 1)
        s /= width
        var[i : i + step] = s
        s += eps
        np.multiply(block, 1 / np.sqrt(s), out=o)
        if scale is not None:
            o *= scale
        if shift is not None:
            o += shift
    out = out.reshape(x.shape)
    if not row:
        if weight is not None:
            out *= weight
        if bias is not None:
            out += bias
    if moments is not None:
        moments.mean = None if mean is None else mean.reshape(kept)
        moments.var = var.reshape(kept)
        moments.rstd = 1 / np.sqrt(moments.var + eps)
    return out


# --- The rule ---------------------------------------------------------------------------------------


def _standard(x: Any, axes: Any, eps: Any, centered: bool) -> tuple[Any, Any]:
    """Return the normalized input and the inverse deviation, in ops that can be differentiated."""
    away = x - mean_p(x, axes, True) if centered else x
    rstd = 1 / np.sqrt(mean_p(away * away, axes, True) + eps)
    return away * rstd, rstd


def _unscaled(g: Any, standard: Any, rstd: Any, axes: Any, centered: bool) -> Any:
    """Return what a change of the normalized input comes from: the Jacobian is symmetric."""
    along = standard * mean_p(g * standard, axes, True)
    return rstd * (g - mean_p(g, axes, True) - along) if centered else rstd * (g - along)


def _norm_back(
    g: Any, x: Any, weight: Any, axes: Any, shape: Any, eps: Any, centered: Any, moments: Any, needs: Any
) -> Any:
    if type(g) is ndarray and type(x) is ndarray and moments is not None and moments.rstd is not None and x.size:
        return _norm_back_arrays(g, x, weight, axes, shape, centered, moments, needs)
    if (
        type(g) is not ndarray
        and (gpu := both_on_gpu(g, x)) is not None
        and moments is not None
        and moments.rstd is not None
        and x.size
    ):
        found = _back_on_gpu(gpu, g, x, weight, axes, shape, centered, moments, needs)
        if found is not None:
            return found
    if is_half(dtype_of(x)):
        wide = [v if v is None else cast_p(v, f32) for v in (g, x, weight)]
        found = _norm_back(wide[0], wide[1], wide[2], axes, shape, eps, centered, None, needs)
        kinds = dtype_of(x), *(dtype_of(x if weight is None else weight),) * 2
        return tuple(v if v is None else cast_p(v, kind) for v, kind in zip(found, kinds, strict=True))
    standard, rstd = _standard(x, axes, eps, centered)
    gx = gw = gb = None
    if needs[0]:
        gx = _unscaled(g if weight is None else g * weight, standard, rstd, axes, centered)
    if needs[1]:
        gw = sum_to_p(g * standard, shape)
    if needs[2]:
        gb = sum_to_p(g, shape)
    return gx, gw, gb


def _back_on_gpu(
    gpu: Any, g: Any, x: Any, weight: Any, axes: Any, shape: Any, centered: bool, moments: Moments, needs: Any
) -> Any:
    by_rows, width, same, _ = _plan(x.shape, axes, shape)
    k = norms.plane(x.shape, axes, shape)
    if moments.var is not None and k:
        found = gpu.norms.planes_back(g, x, weight, moments.mean, moments.rstd, axes, k, needs)
    elif moments.var is None and by_rows and (same or (weight is None and not (needs[1] or needs[2]))):
        found = gpu.norms.rows_back(g, x, weight, moments.mean, moments.rstd, width, needs)
    elif centered and moments.var is not None and shape == moments.rstd.shape:
        return _back_of_groups(g, x, weight, axes, shape, moments, needs)
    else:
        return None
    return found and tuple(r if r is None or i == 0 else r.reshape(shape) for i, r in enumerate(found))


def _back_of_groups(g: Any, x: Any, weight: Any, axes: Any, shape: Any, moments: Moments, needs: Any) -> Any:
    """Return the gradients where the scale is the same for everything that is normalized together."""
    n = count_of(x.shape, axes)
    standard = (x - moments.mean) * moments.rstd
    total, along = _sum(g, axes, True), _sum(g * standard, axes, True)
    gx = None
    if needs[0]:
        gx = (g - total / n - standard * (along / n)) * (moments.rstd if weight is None else moments.rstd * weight)
    return gx, along.reshape(shape) if needs[1] else None, total.reshape(shape) if needs[2] else None


def _norm_back_arrays(
    g: Any, x: Any, weight: Any, axes: Any, shape: Any, centered: bool, moments: Moments, needs: Any
) -> Any:
    if x.size >= LARGE and g.dtype == x.dtype:
        large = _back_large(g, x, weight, axes, shape, centered, moments, needs)
        if large is not None:
            return large
    mean, rstd = moments.mean, moments.rstd
    rows, n, same, _ = _plan(x.shape, axes, shape)
    if rows:
        if x.size < _FEW and axes == (x.ndim - 1,) and (same or (weight is None and not (needs[1] or needs[2]))):
            return _back_few(g, x, weight, shape, centered, moments, needs)
        if (weight is None and not (needs[1] or needs[2])) or same:
            return _back_rows(g, x, weight, axes, shape, centered, moments, needs)
        standard = (x - mean if centered else x) * rstd
        gw = sum_to_p(g * standard, shape) if needs[1] else None
        gb = sum_to_p(g, shape) if needs[2] else None
        if not needs[0]:
            return None, gw, gb
        part = g if weight is None else g * weight
        return _back_rows(part, x, None, axes, shape, centered, moments, (True, False, False))[0], gw, gb
    # A batch norm: the scale is the same for everything that is normalized together.
    total: Any = _total(g, axes) if centered or needs[2] else None
    away = x - mean if centered else x
    along = _dot(g, away, axes) * rstd
    gx = None
    if needs[0]:
        gx = np.subtract(g, total / n) if centered else g.copy()
        gx -= away * (along * rstd / n)
        gx *= rstd if weight is None else rstd * weight
    gw = along.reshape(shape) if needs[1] else None
    return gx, gw, total.reshape(shape) if needs[2] else None


def _back_rows(g: Any, x: Any, weight: Any, axes: Any, shape: Any, centered: bool, moments: Moments, needs: Any) -> Any:
    width = _plan(x.shape, axes, shape)[1]
    rows, gs = x.reshape(-1, width), g.reshape(-1, width)
    mean, rstd = moments.mean, moments.rstd.reshape(-1, 1)
    mean = None if mean is None else mean.reshape(-1, 1)
    scale = None if weight is None else weight.reshape(width)
    out = np.empty(rows.shape, g.dtype) if needs[0] else None
    gw = np.zeros(width, g.dtype) if needs[1] else None
    gb = np.zeros(width, g.dtype) if needs[2] else None
    ones = np.ones(max(width, 1), g.dtype)
    step = max(_BLOCK // width, 1)
    for i in range(0, rows.shape[0], step):
        part, s = gs[i : i + step], rstd[i : i + step]
        away = rows[i : i + step] if mean is None else rows[i : i + step] - mean[i : i + step]
        if gb is not None:
            gb += np.add.reduce(part, 0)
        part = np.multiply(part, s, out=None if out is None else out[i : i + step])
        if gw is not None:
            gw += np.einsum("ij,ij->j", part, away)
        if out is not None:
            if scale is not None:
                part *= scale
            along = np.vecdot(part, away).reshape(-1, 1)
            along *= s * s
            along /= width
            level = np.vecdot(part, ones).reshape(-1, 1) / width if centered else None
            part -= np.multiply(away, along, out=away if centered else None)
            if level is not None:
                part -= level
    return (
        None if out is None else out.reshape(x.shape),
        None if gw is None else gw.reshape(shape),
        None if gb is None else gb.reshape(shape),
    )


def _norm_jvp(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
    (tx, tw, tb), (x, weight, _), (axes, _, eps, centered, _) = tangents, inputs, params
    standard, rstd = _standard(x, axes, eps, centered)
    total = tb
    if tw is not None:
        total = standard * tw if total is None else total + standard * tw
    if tx is not None:
        part = _unscaled(tx, standard, rstd, axes, centered)
        part = part if weight is None else part * weight
        total = part if total is None else total + part
    return total + zeros_p(standard) if tx is None and tw is None else total


def _norm_batch(x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: Any, centered: Any, moments: Any) -> Any:
    full = (x.shape[0], *(1,) * (x.ndim - 1 - len(shape)), *shape)
    weight = None if weight is None else reshape_p(weight, full)
    bias = None if bias is None else reshape_p(bias, full)
    return layer_norm_p(x, weight, bias, shifted(axes), full, eps, centered, None)


def _run_per_channel(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    shadow = node.extra.shadow
    gx, *rest = shadow.op.run(shadow, g, edges, saved)
    return (gx, *(None if r is None else r.reshape((-1,)) for r in rest))


_per_channel = Special("NativeBatchNormBackward0", _run_per_channel, Unfolded)


def _unfold_batch_norm(node: Node) -> None:
    """Show the parameters themselves, which are reshaped here before they are multiplied by."""
    x, *rest = node.edges
    if any(e is not None and e.op is reshape_p.op for e in rest):
        reveal(node, _per_channel, (x, *(e.edges[0] if e is not None and e.op is reshape_p.op else e for e in rest)))


def _norm_primitive(name: str, node_name: str, **options: Any) -> Primitive:
    return nary(
        _norm, inputs=3, joint=_norm_back, jvp=_norm_jvp, batch=_norm_batch, name=name, node_name=node_name,
        saved={"x": "input"}, **options,
    )  # fmt: skip


layer_norm_p = _norm_primitive("layer_norm", "NativeLayerNormBackward0")
batch_norm_p = _norm_primitive("batch_norm", "NativeBatchNormBackward0", unfold=_unfold_batch_norm)
group_norm_p = _norm_primitive("group_norm", "NativeGroupNormBackward0")
rms_norm_p = _norm_primitive("rms_norm", "FusedRmsNormBackward0")
_OF_ROWS = (layer_norm_p, rms_norm_p)


def _normed(
    primitive: Any, input: Tensor, weight: Any, bias: Any, axes: tuple[int, ...], shape: tuple[int, ...], eps: float,
    centered: bool = True, moments: Moments | None = None,
) -> Tensor:  # fmt: skip
    """Normalize `input`; halves are computed in float32."""
    d = input.array.dtype
    if d is f32 and weight is None is bias:
        plain: Tensor = primitive(input, None, None, axes, shape, eps, centered, moments or Moments())
        return plain
    if of(d).category != 2:
        raise NotImplementedError(
            f"\"{primitive.op.name}\" not implemented for '{title_of(d)}': normalization takes floating-point values"
        )
    work = f32 if is_half(d) else d
    if work is not d and primitive in _OF_ROWS and provider.gpu(input.array) is not None:  # whose sums are float
        if bias is not None and weight is not None and bias.array.dtype != weight.array.dtype:
            bias = cast_p(bias, weight.array.dtype)
        halves: Tensor = primitive(input, weight, bias, axes, shape, eps, centered, moments or Moments())
        return halves
    given = [x if x is None or x.array.dtype == work else cast_p(x, work) for x in (input, weight, bias)]
    out = primitive(*given, axes, shape, eps, centered, moments or Moments())
    return out if work is d else cast_p(out, d)


# --- Over the last dimensions -----------------------------------------------------------------------


def _check_last(
    input: Tensor, normalized_shape: Any, weight: Any, bias: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(map(int, normalized_shape))
    a = input.array
    start = a.ndim - len(shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.array.shape != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(value.array.shape)} and normalized_shape = {list(shape)}"
            )
    if start < 0 or a.shape[start:] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, "
            f"{', '.join(str(n) for n in shape)}], but got input of size{list(a.shape)}"
        )
    return shape, tuple(range(start, a.ndim))


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Bring the last dimensions, of `normalized_shape`, to mean 0 and variance 1; then scale and shift.

    Examples
    --------
    >>> adjoint.nn.functional.layer_norm(adjoint.tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    shape, axes = _check_last(input, normalized_shape, weight, bias)
    if weight is not None and weight.array.dtype != input.array.dtype and not is_half(input.array.dtype):
        raise RuntimeError(
            f"expected scalar type {title_of(input.array.dtype)} but found {title_of(weight.array.dtype)}: "
            "layer_norm takes its weight in the dtype of its input"
        )
    return _normed(layer_norm_p, input, weight, bias, axes, shape, eps)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Divide by the root of the mean square over the last dimensions, then scale."""
    if len(normalized_shape) > input.array.ndim:
        raise ValueError(
            f"Input tensor must have at least {len(normalized_shape)} dimensions, but got {input.array.ndim}"
        )
    shape, axes = _check_last(input, normalized_shape, weight, None)
    if eps is None:
        eps = finfo(of(f32 if is_half(input.array.dtype) else input.array.dtype)).eps
    if input.array.dtype.kind == "c":
        out = mul_p(input, (mean_p(mul_p(input, input), axes, True) + eps).rsqrt())
        return out if weight is None else mul_p(out, weight)
    return _normed(rms_norm_p, input, weight, None, axes, shape, eps, centered=False)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalize each of `num_groups` groups of channels (dimension 1) of each sample."""
    a = input.array
    if a.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {a.ndim}")
    count, channels = a.shape[:2]
    _check_more_than_one([count * channels // max(num_groups, 1), num_groups, *a.shape[2:]])
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(a.shape)} and num_groups={num_groups}"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.array.shape) != (channels,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(value.array.shape)} and input of shape {list(a.shape)}"
            )
    inner = channels // num_groups
    shape = (1, num_groups, inner, 1)
    grouped = reshape_p(input, (count, num_groups, inner, math.prod(a.shape[2:])))
    b = None if bias is None else reshape_p(bias, shape)
    w = None if weight is None else reshape_p(weight, shape)
    normed = reshape_p(_normed(group_norm_p, grouped, w, b, (2, 3), shape, eps), tuple(a.shape))
    return fold(normed, "NativeGroupNormBackward0", input, weight, bias, group=num_groups, eps=eps)


# --- Over the batch ---------------------------------------------------------------------------------


def _check_more_than_one(shape: Any) -> None:
    if shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size adjoint.Size({list(shape)})"
        )


def _update(running: Tensor, new: Any, momentum: float) -> None:
    """Move running statistics towards those of a batch."""
    if running.array.dtype.kind in "biu":
        raise RuntimeError(f"expected scalar type Float but found {title_of(running.array.dtype)}")
    if isinstance(running.array, Payload) or isinstance(new, Payload | TensorBase):
        new = new if isinstance(new, TensorBase) else wrap(new)
        top, own = payload_of(new), payload_of(running)
        if top is not None and not top.spreads and (own is None or own.level < top.level):
            raise RuntimeError(
                "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated "
                "in place, were not batched. Inside vmap use a norm without running statistics (GroupNorm, "
                "track_running_stats=False), or adjoint.func.replace_all_batch_norm_modules_(model)."
            )
        running.copy_(running.detach() * (1 - momentum) + new * momentum)
        return
    array = running.array
    array *= array.dtype.type(1 - momentum)
    array += new * momentum
    note_write(running, "batch_norm")


def _statistics(input: Tensor, axes: tuple[int, ...], moments: Moments) -> tuple[Any, Any]:
    """Return the mean and the variance of a batch (raw), as the kernel left them or found once more.

    Observed, they are tensors and found by primitives: what is computed from them is then seen too.
    """
    watched = observer() is not None
    if moments.rstd is not None and not watched:
        return moments.mean, moments.var
    x = input.detach()
    mean = mean_p(x, axes, True)
    away = sub_p(x, mean)
    var = mean_p(mul_p(away, away), axes, True)
    return (mean, var) if watched else (mean.array, var.array)


def _with_running(input: Tensor, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    """Normalize by statistics that are given."""
    d = input.array.dtype
    work = f32 if is_half(d) else d
    shape = (1, -1, *(1,) * (input.array.ndim - 2))
    mean, var, weight, bias = (
        x if x is None else reshape_p(x if x.array.dtype == work else cast_p(x, work), _full(shape, x))
        for x in (mean, var, weight, bias)
    )
    rstd = (var.detach() + eps).rsqrt()
    input = input if d == work else cast_p(input, work)
    if weight is not None and has_history(weight):
        out = mul_p(mul_p(sub_p(input, mean.detach()), rstd), weight)
        out = out if bias is None else add_p(out, bias)
    else:
        scale = rstd if weight is None else mul_p(rstd, weight)
        shift = -mean.detach() * scale
        out = add_p(mul_p(input, scale), shift if bias is None else add_p(shift, bias))
    return out if d == work else cast_p(out, d)


def _full(shape: tuple[int, ...], x: Tensor) -> tuple[int, ...]:
    return tuple(x.array.size if n == -1 else n for n in shape)


def _check_channels(channels: int, **values: Any) -> None:
    for name, value in values.items():
        if value is not None and tuple(value.array.shape) != (channels,):
            raise RuntimeError(f"{name} should contain {channels} elements not {math.prod(value.array.shape)}")


def _check_both(mean: Tensor | None, var: Tensor | None) -> None:
    if (mean is None) is not (var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalize each channel (dimension 1) over the batch, or, in evaluation, by the running statistics.

    In training, `running_mean` and `running_var` are written: they move towards the batch's by `momentum`.
    """
    if training:
        _check_more_than_one(input.array.shape)
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return batch_normed(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


def _check_constant(**statistics: Any) -> None:
    for name, x in statistics.items():
        if x is not None and edge_of(x) is not None:
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. This input "
                "cannot have requires_grad True."
            )


def batch_normed(
    input: Tensor, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float,
    eps: float,
) -> tuple[Tensor, Moments, tuple[int, ...]]:  # fmt: skip
    """Return the result of `batch_norm`, with the moments that were found and the axes they are over."""
    a = input.array
    _check_both(running_mean, running_var)
    if a.ndim < 2:
        if a.shape == (0,):  # torch normalizes nothing without asking for channels
            return mul_p(input, 1), Moments(), (0,)
        raise IndexError(f"Dimension out of range: batch_norm expects an input of at least 2 dimensions, got {a.ndim}")
    if a.dtype.kind in "biu":
        raise not_implemented("batch_norm", a)
    channels = a.shape[1]
    _check_channels(channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if modes.is_grad_enabled():
        _check_constant(running_mean=running_mean, running_var=running_var)
    axes = (0, *range(2, a.ndim))
    moments = Moments()
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
        found = _with_running(input, running_mean, running_var, weight, bias, eps)
        found = fold(found, "NativeBatchNormBackward0", input, weight, bias, training=False, eps=eps)
        return found, moments, axes
    shape = (1, channels, *(1,) * (a.ndim - 2))
    bias, weight = (None if x is None else reshape_p(x, shape) for x in (bias, weight))
    tracked = running_mean is not None and running_var is not None and math.prod(a.shape) > 0

    def track() -> None:
        mean, var = _statistics(input, axes, moments)
        n = count_of(a.shape, axes)
        _update(running_mean, mean.reshape((channels,)), momentum)
        _update(running_var, var.reshape((channels,)) * (n / max(n - 1, 1)), momentum)

    # The second run of a checkpoint may end where the op has saved its inputs, and still counts as a run.
    first = tracked and observer() is not None
    if first:
        track()
    out = _normed(batch_norm_p, input, weight, bias, axes, shape, eps, True, moments)
    if tracked and not first:
        track()
    return out, moments, axes


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalize each channel of each sample over its own elements."""
    _check_both(running_mean, running_var)
    a = input.array
    if use_input_stats:
        if math.prod(a.shape[2:]) == 1:
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size adjoint.Size({list(a.shape)})"
            )
    elif running_mean is None or running_var is None:
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    if a.ndim < 2:
        raise RuntimeError(f"instance_norm expects an input of at least 2 dimensions, got {a.ndim}")
    count, channels = a.shape[:2]
    _check_channels(channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not use_input_stats:
        return _with_running(input, running_mean, running_var, weight, bias, eps)
    axes, moments = tuple(range(2, a.ndim)), Moments()
    shape = (1, channels, *(1,) * (a.ndim - 2))
    bias, weight = (None if x is None else reshape_p(x, shape) for x in (bias, weight))
    out = _normed(batch_norm_p, input, weight, bias, axes, shape, eps, True, moments)
    if running_mean is not None and running_var is not None:
        mean, var = _statistics(input, axes, moments)
        n = count_of(a.shape, axes)
        _update(running_mean, mean.reshape((count, channels)).sum(0) / count, momentum)
        _update(running_var, var.reshape((count, channels)).sum(0) * (n / max(n - 1, 1) / count), momentum)
    return out


# --- By length --------------------------------------------------------------------------------------


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divide vectors along `dim` by their p-norm, or by `eps` where that is smaller.

    Examples
    --------
    >>> adjoint.nn.functional.normalize(adjoint.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    length = clamp_min(vector_norm(input, p, dim, keepdim=True), eps)
    return into(out, div_p(input, expand_as(length, input)))


@autocasting
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8, *, axis: int | None = None) -> Tensor:
    """Return the cosine of the angle between vectors along `dim`; lengths below `eps` count as `eps`.

    Examples
    --------
    >>> adjoint.cosine_similarity(adjoint.tensor([[1.0, 0.0]]), adjoint.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    from .shape import broadcast_tensors

    dim = dim if axis is None else either(dim, axis, 1)
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps}")
    if x1.array.shape != x2.array.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    if x1.array.dtype != x2.array.dtype:
        from .loss import same_dtype

        x1, x2 = same_dtype(x1, x2)
    if of(x1.array.dtype).category != 2:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {title_of(x1.array.dtype)}"
        )
    given = x1.array.dtype
    if is_half(given):  # the cube of a small length's inverse, on the way to gradients that fit, would not
        x1, x2 = x1.float(), x2.float()
    out = mul_p(div_p(x1, _length(x1, dim, eps)), div_p(x2, _length(x2, dim, eps))).sum(dim)
    return out if out.array.dtype == given else out.to(of(given))


def _length(x: Tensor, dim: int, eps: float) -> Tensor:
    """Return lengths of at least `eps`; as in torch, gradients pass by the bound."""
    length = vector_norm(x, 2, dim, keepdim=True)
    if not modes.unusual and type(length.array) is ndarray and length.array.size and length.array.min() >= eps:
        return length
    free = length.detach()
    return add_p(length, sub_p(clamp_min(free, eps), free))
