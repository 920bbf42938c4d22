"""Operators of networks: matmul, convolutions, pooling, normalization, reductions, attention, recurrence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.nodes import wrap
from ...nn import functional as F
from ...ops import namespace as T
from ...ops.dimensions import permute_p
from ...ops.shape import cast_p
from ..reading import ModelError
from .table import Context, constant, ints, operator

__all__: list[str] = []


# --- Products and reductions -------------------------------------------------------------------------


@operator("MatMul")
def _matmul(context: Context, x: Any, y: Any) -> Any:
    return T.matmul(x, y)


@operator("MatMulInteger")
def _matmul_integer(context: Context, x: Any, y: Any, a: Any = None, b: Any = None) -> Any:
    left, right = (cast_p(v, np.int32) for v in (x, y))
    left = left if a is None else left - cast_p(T.unsqueeze(a, -1) if a.array.ndim else a, np.int32)
    right = right if b is None else right - cast_p(b, np.int32)
    return T.matmul(left, right)


@operator("Gemm")
def _gemm(
    context: Context, x: Any, y: Any, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, **_: Any,
) -> Any:  # fmt: skip
    x = T.t(x) if transA else x
    if transB and alpha == 1 and (c is None or (beta == 1 and c.array.ndim == 1)):
        return F.linear(x, y, c)
    out = T.matmul(x, T.t(y) if transB else y)
    out = out if alpha == 1 else out * alpha
    return out if c is None else out + (c if beta == 1 else c * beta)


@operator("Einsum")
def _einsum(context: Context, *xs: Any, equation: str) -> Any:
    return T.einsum(equation, *xs)


@operator("Det")
def _det(context: Context, x: Any) -> Any:
    return T.det(x)


def _reduction(name: str, function: Callable[..., Any]) -> None:
    @operator(name)
    def run(context: Context, x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        rank = x.array.ndim
        given = [] if axes is None else [a % max(rank, 1) for a in ints(axes)]
        if not given and noop_with_empty_axes:
            return function(x, (), bool(keepdims)) if name not in _LINEAR else x
        return function(x, tuple(given) or tuple(range(rank)), bool(keepdims))


def _prod(x: Any, axes: Any, keep: bool) -> Any:
    for axis in sorted(axes, reverse=True):
        x = T.prod(x, axis, keep, dtype=x.dtype)
    return x


def _largest(pick: Any) -> Callable[..., Any]:
    def run(x: Any, axes: Any, keep: bool) -> Any:
        if x.array.size == 0:
            info = None if x.array.dtype.kind in "fb" else np.iinfo(x.array.dtype)
            bounds = {"f": (-np.inf, np.inf), "b": (False, True)}.get(x.array.dtype.kind)
            least, most = bounds if info is None else (info.min, info.max)  # type: ignore[misc]
            start = least if pick is T.amax else most
            reduce = np.max if pick is T.amax else np.min
            return wrap(np.asarray(reduce(x.array, axis=axes, keepdims=keep, initial=start)))
        return pick(x, axes, keep) if axes else x

    return run


_LINEAR = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
for _name, _function in {
    "ReduceSum": lambda x, axes, keep: T.sum(x, axes, keep, dtype=x.dtype) if axes else x,
    "ReduceMean": lambda x, axes, keep: T.mean(x, axes, keep) if axes else x, "ReduceProd": _prod,
    "ReduceMax": _largest(T.amax), "ReduceMin": _largest(T.amin),
    "ReduceL1": lambda x, axes, keep: T.sum(T.abs(x), axes, keep, dtype=x.dtype) if axes else T.abs(x),
    "ReduceL2": lambda x, axes, keep: T.sqrt(T.sum(x * x, axes, keep)) if axes else T.abs(x),
    "ReduceSumSquare": lambda x, axes, keep: T.sum(x * x, axes, keep, dtype=x.dtype) if axes else x * x,
    "ReduceLogSum": lambda x, axes, keep: T.log(T.sum(x, axes, keep) if axes else x),
    "ReduceLogSumExp": lambda x, axes, keep: T.logsumexp(x, axes, keep) if axes else x,
}.items():  # fmt: skip
    _reduction(_name, _function)


@operator("ArgMax", "ArgMin")
def _arg(context: Context, x: Any, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
    function = T.argmax if context.node.op == "ArgMax" else T.argmin
    if not select_last_index:
        return function(x, axis, bool(keepdims))
    return x.array.shape[axis] - 1 - function(T.flip(x, (axis,)), axis, bool(keepdims))


@operator("CumSum")
def _cumsum(context: Context, x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    along = int(axis.array.reshape(-1)[0])
    y = T.flip(x, (along,)) if reverse else x
    out = cast_p(T.cumsum(y, along), x.array.dtype)
    out = out - y if exclusive else out
    return T.flip(out, (along,)) if reverse else out


@operator("CumProd")
def _cumprod(context: Context, x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
    along = int(axis.array.reshape(-1)[0])
    y = T.flip(x, (along,)) if reverse else x
    if exclusive:
        y = T.cat((T.ones_like(T.narrow(y, along, 0, 1)), T.narrow(y, along, 0, y.array.shape[along] - 1)), along)
    out = cast_p(T.cumprod(y, along), x.array.dtype)
    return T.flip(out, (along,)) if reverse else out


# --- Windows -----------------------------------------------------------------------------------------


def _padding(
    x: Any, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: str
) -> list[tuple[int, int]]:  # fmt: skip
    rank = len(kernel)
    if auto_pad in ("NOTSET", "", "VALID"):
        given = [0] * 2 * rank if not pads or auto_pad == "VALID" else list(pads)
        return list(zip(given[:rank], given[rank:], strict=True))
    found = []
    for n, k, s, d in zip(x.array.shape[-rank:], kernel, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        found.append((total // 2, total - total // 2) if auto_pad == "SAME_UPPER" else (total - total // 2, total // 2))
    return found


def _padded(x: Any, pairs: list[tuple[int, int]], value: float = 0.0) -> Any:
    return F.pad(x, [w for pair in pairs[::-1] for w in pair], value=value) if any(map(any, pairs)) else x


def _by_rank(kind: str, rank: int) -> Any:
    if rank not in (1, 2, 3):
        raise ModelError(f"{kind} of {rank} dimensions is not run here")
    return getattr(F, f"{kind}{rank}d")


@operator("Conv")
def _conv(
    context: Context, x: Any, w: Any, b: Any = None, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    rank = w.array.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pairs = _padding(x, w.array.shape[2:], strides, dilations, pads, auto_pad)
    conv = _by_rank("conv", rank)
    if all(p == q >= 0 for p, q in pairs):
        return conv(x, w, b, tuple(strides), tuple(p for p, _ in pairs), tuple(dilations), group)
    return conv(_padded(x, pairs), w, b, tuple(strides), 0, tuple(dilations), group)


@operator("ConvTranspose")
def _conv_transpose(
    context: Context, x: Any, w: Any, b: Any = None, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    rank = w.array.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = list(output_padding or [0] * rank)
    pairs = list(zip((pads or [0] * 2 * rank)[:rank], (pads or [0] * 2 * rank)[rank:], strict=True))
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, k, s, d, e in zip(x.array.shape[2:], w.array.shape[2:], strides, dilations, extra, strict=True)
    ]
    if output_shape or auto_pad.startswith("SAME"):
        wanted = output_shape or [n * s for n, s in zip(x.array.shape[2:], strides, strict=True)]
        total = [max(f - n, 0) for f, n in zip(full, wanted, strict=True)]
        extra = [e + max(n - f, 0) for e, f, n in zip(extra, full, wanted, strict=True)]
        pairs = [(t - t // 2, t // 2) if auto_pad == "SAME_LOWER" else (t // 2, t - t // 2) for t in total]
    out = _by_rank("conv_transpose", rank)(x, w, None, tuple(strides), 0, 0, group, tuple(dilations))
    out = _padded(out, [(-p, e - q) for (p, q), e in zip(pairs, extra, strict=True)])
    return out if b is None else out + T.reshape(b, (-1, *(1,) * rank))


def _ceiled(x: Any, kernel: Any, strides: Any, dilations: Any, pairs: Any) -> list[tuple[int, int]]:
    """Return the padding with which the last window, begun in the input or the padding before it, is whole."""
    found = []
    for n, k, s, d, (p, q) in zip(x.array.shape[2:], kernel, strides, dilations, pairs, strict=True):
        reach = n + p + q - (k - 1) * d - 1
        count = -(-reach // s) + 1
        count -= (count - 1) * s >= n + p
        found.append((p, q + max((count - 1) * s - reach, 0)))
    return found


@operator("MaxPool")
def _max_pool(
    context: Context, x: Any, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    pads: Any = None, storage_order: int = 0, strides: Any = None,
) -> Any:  # fmt: skip
    rank = len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pairs = _padding(x, kernel_shape, strides, dilations, pads, auto_pad)
    if ceil_mode:
        pairs = _ceiled(x, kernel_shape, strides, dilations, pairs)
    places = len(context.node.outputs) > 1 and bool(context.node.outputs[1])
    if places and (storage_order or any(p != q for p, q in pairs)):
        raise ModelError("MaxPool with indices in columns, or uneven padding, is not run here")
    pool = _by_rank("max_pool", rank)
    if all(0 <= p == q <= k // 2 for (p, q), k in zip(pairs, kernel_shape, strict=True)):
        padding = tuple(p for p, _ in pairs)
        found = pool(x, tuple(kernel_shape), tuple(strides), padding, tuple(dilations), False, places)
    else:
        low = -np.inf if x.array.dtype.kind == "f" else float(np.iinfo(x.array.dtype).min)
        found = pool(_padded(x, pairs, low), tuple(kernel_shape), tuple(strides), 0, tuple(dilations), False, places)
    if not places:
        return found
    offset = np.arange(math.prod(x.array.shape[:2])).reshape(*x.array.shape[:2], *(1,) * rank)
    return found[0], found[1] + constant(offset * math.prod(x.array.shape[2:]), np.int64)


@operator("AveragePool")
def _average_pool(
    context: Context, x: Any, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    return _averaged(x, kernel_shape, auto_pad, ceil_mode, count_include_pad, dilations, pads, strides)


def _averaged(
    x: Any, kernel: Any, auto_pad: str, ceil: int, include: int, dilations: Any, pads: Any, strides: Any
) -> Any:  # fmt: skip
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pairs = _padding(x, kernel, strides, dilations, pads, auto_pad)
    whole = _ceiled(x, kernel, strides, dilations, pairs) if ceil else pairs
    if all(p == q == 0 for p, q in whole) and all(d == 1 for d in dilations):
        return _by_rank("avg_pool", rank)(x, tuple(kernel), tuple(strides))
    # the sum of each window by a convolution with ones, over the number of elements that count
    shape = x.array.shape
    flat = T.reshape(x, (-1, 1, *shape[2:]))
    ones = constant(np.ones((1, 1, *kernel)), x.array.dtype)
    conv = _by_rank("conv", rank)
    total = conv(_padded(flat, whole), ones, None, tuple(strides), 0, tuple(dilations))
    counted = constant(np.ones((1, 1, *shape[2:])), x.array.dtype)
    counted = _padded(_padded(counted, pairs, 1.0 if include else 0.0), [
        (a - c, b - d) for (a, b), (c, d) in zip(whole, pairs, strict=True)
    ])  # fmt: skip
    counts = conv(counted, ones, None, tuple(strides), 0, tuple(dilations))
    out = total / counts
    return T.reshape(out, (*shape[:2], *out.array.shape[2:]))


@operator("LpPool")
def _lp_pool(
    context: Context, x: Any, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    p: int = 2, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    mean = _averaged(T.abs(x) ** p, kernel_shape, auto_pad, ceil_mode, 1, dilations, pads, strides)
    return (mean * math.prod(kernel_shape)) ** (1 / p)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(context: Context, x: Any, p: int = 2) -> Any:
    axes = tuple(range(2, x.array.ndim))
    if context.node.op == "GlobalLpPool":
        return T.sum(T.abs(x) ** p, axes, True) ** (1 / p)
    return T.mean(x, axes, True) if context.node.op == "GlobalAveragePool" else T.amax(x, axes, True)


@operator("Resize", "Upsample")
def _resize(
    context: Context, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel", nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0, antialias: int = 0,
    axes: Any = None, keep_aspect_ratio_policy: str = "stretch", **older: Any,
) -> Any:  # fmt: skip
    if context.node.op == "Upsample" or (context.opset < 11 and scales is None):
        scales = constant(older["scales"], np.float32) if "scales" in older else roi
        coordinate_transformation_mode, nearest_mode = "asymmetric", "floor"
    if antialias or coordinate_transformation_mode == "tf_crop_and_resize":
        raise ModelError(f"Resize with antialias, or {coordinate_transformation_mode}, is not run here")
    rank = x.array.ndim
    which = list(range(rank)) if axes is None else [a % rank for a in axes]
    wanted: dict[int, tuple[int, float]] = {}
    if scales is not None and scales.array.size:
        for a, s in zip(which, scales.array.tolist(), strict=True):
            wanted[a] = (math.floor(x.array.shape[a] * s), s)
    else:
        given = ints(sizes)
        if keep_aspect_ratio_policy != "stretch":
            pick = min if keep_aspect_ratio_policy == "not_larger" else max
            ratio = pick(n / x.array.shape[a] for a, n in zip(which, given, strict=True))
            given = [int(ratio * x.array.shape[a] + 0.5) for a in which]
            wanted = {a: (n, ratio) for a, n in zip(which, given, strict=True)}
        else:
            wanted = {a: (n, n / x.array.shape[a]) for a, n in zip(which, given, strict=True)}
    context.allow([wanted.get(a, (n, 1))[0] for a, n in enumerate(x.array.shape)], x.array.dtype.itemsize)
    for axis, (size, scale) in wanted.items():
        length = x.array.shape[axis]
        if size == length and scale == 1:
            continue
        at = _source(np.arange(size), size, length, scale, coordinate_transformation_mode)
        matrix = _weights(at, length, mode, nearest_mode, cubic_coeff_a, exclude_outside)
        order = [k for k in range(rank) if k != axis] + [axis]
        turned = T.matmul(permute_p(x, tuple(order)), constant(matrix.T, x.array.dtype))
        x = permute_p(turned, tuple(np.argsort(order).tolist()))
    return x


def _source(place: Any, size: int, length: int, scale: float, mode: str) -> Any:
    if mode == "asymmetric":
        return place / scale
    if mode == "align_corners":
        return place * (length - 1) / (length * scale - 1) if size > 1 else place * 0.0
    if mode == "pytorch_half_pixel" and size == 1:
        return place * 0.0
    if mode == "half_pixel_symmetric":
        adjust = size / (scale * length)
        return length / 2 * (1 - adjust) + (place + 0.5) / scale - 0.5
    return (place + 0.5) / scale - 0.5


def _weights(at: Any, length: int, mode: str, nearest: str, a: float, exclude: int) -> Any:
    """Return a row of weights for each place of the result."""
    matrix = np.zeros((len(at), length))
    rows = np.arange(len(at))
    if mode == "nearest":
        ways: dict[str, Callable[..., Any]] = {
            "floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda v: np.ceil(v - 0.5),
            "round_prefer_ceil": lambda v: np.floor(v + 0.5),
        }  # fmt: skip
        matrix[rows, np.clip(ways[nearest](at), 0, length - 1).astype(int)] = 1
        return matrix
    low = np.floor(at).astype(int)
    t = at - low
    if mode == "linear":
        taps = [(0, 1 - t), (1, t)]
    else:

        def inner(v: Any) -> Any:
            return ((a + 2) * v - (a + 3)) * v * v + 1

        def outer(v: Any) -> Any:
            return ((a * v - 5 * a) * v + 8 * a) * v - 4 * a

        taps = [(-1, outer(t + 1)), (0, inner(t)), (1, inner(1 - t)), (2, outer(2 - t))]
    for step, weight in taps:
        place = low + step
        if exclude:
            weight = np.where((place < 0) | (place >= length), 0, weight)
        np.add.at(matrix, (rows, np.clip(place, 0, length - 1)), weight)
    return matrix / matrix.sum(1, keepdims=True) if exclude else matrix


@operator("GridSample")
def _grid_sample(
    context: Context, x: Any, grid: Any, align_corners: int = 0, mode: str = "bilinear", padding_mode: str = "zeros"
) -> Any:  # fmt: skip
    kind = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, kind, padding_mode, bool(align_corners))


@operator("Col2Im")
def _col2im(
    context: Context, x: Any, image: Any, block: Any, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Any:
    sizes, kernel = ints(image), ints(block)
    if len(sizes) != 2 or (pads and (pads[0] != pads[2] or pads[1] != pads[3])):
        raise ModelError("Col2Im of other than two dimensions, or uneven padding, is not run here")
    return F.fold(
        x,
        tuple(sizes),
        tuple(kernel),
        tuple(dilations or (1, 1)),
        tuple((pads or (0, 0))[:2]),
        tuple(strides or (1, 1)),
    )


# --- Normalization -----------------------------------------------------------------------------------


@operator("BatchNormalization")
def _batch_norm(
    context: Context, x: Any, scale: Any, shift: Any, mean: Any, var: Any, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0, **_: Any,
) -> Any:  # fmt: skip
    if training_mode or context.module.training:
        axes = (0, *range(2, x.array.ndim))
        new_mean, new_var = T.mean(x, axes), T.var(x, axes, correction=0)
        out = F.batch_norm(x, None, None, scale, shift, True, 0.0, epsilon)
        running = [
            old.detach() * momentum + new.detach() * (1 - momentum) for old, new in ((mean, new_mean), (var, new_var))
        ]
        if not training_mode:
            for old, new in zip((mean, var), running, strict=True):
                old.copy_(new)
        return out, *running
    return F.batch_norm(x, mean, var, scale, shift, False, 0.0, epsilon)


@operator("InstanceNormalization")
def _instance_norm(context: Context, x: Any, scale: Any, shift: Any, epsilon: float = 1e-5) -> Any:
    return F.instance_norm(x, None, None, scale, shift, True, 0.1, epsilon)


@operator("GroupNormalization")
def _group_norm(
    context: Context, x: Any, scale: Any, shift: Any, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:  # fmt: skip
    if context.opset < 21:  # one scale for each group
        each = x.array.shape[1] // num_groups
        scale, shift = (T.repeat_interleave(v, each) for v in (scale, shift))
    return F.group_norm(x, num_groups, scale, shift, epsilon)


@operator("LayerNormalization", "RMSNormalization")
def _layer_norm(
    context: Context, x: Any, scale: Any, shift: Any = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:  # fmt: skip
    rank = x.array.ndim
    axes = tuple(range(axis % rank, rank))
    if context.node.op == "RMSNormalization":
        return x * T.rsqrt(T.mean(x * x, axes, True) + epsilon) * scale
    if scale.array.shape == x.array.shape[axis % rank :] and len(context.node.outputs) == 1:
        return F.layer_norm(x, scale.array.shape, scale, shift, epsilon)
    mean = T.mean(x, axes, True)
    gap = x - mean
    rate = T.rsqrt(T.mean(gap * gap, axes, True) + epsilon)
    out = gap * rate * scale
    return (out if shift is None else out + shift), mean, rate


@operator("LpNormalization")
def _lp_normalization(context: Context, x: Any, axis: int = -1, p: int = 2) -> Any:
    size = T.sum(T.abs(x), axis, True) if p == 1 else T.sqrt(T.sum(x * x, axis, True))
    return T.where(size == 0, constant(0, x.array.dtype), x / T.where(size == 0, T.ones_like(size), size))


@operator("MeanVarianceNormalization")
def _mean_variance(context: Context, x: Any, axes: Any = (0, 2, 3)) -> Any:
    gap = x - T.mean(x, tuple(axes), True)
    return gap / (T.sqrt(T.mean(gap * gap, tuple(axes), True)) + 1e-9)


@operator("LRN")
def _lrn(context: Context, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    before = (size - 1) // 2
    square = F.pad(x * x, [0, 0] * (x.array.ndim - 2) + [before, size - 1 - before])
    total = sum(T.narrow(square, 1, k, x.array.shape[1]) for k in range(size))
    return x / (bias + alpha / size * total) ** beta


# --- Losses, attention and recurrence ----------------------------------------------------------------


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(
    context: Context, x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:  # fmt: skip
    target = cast_p(target, np.int64)
    log = T.log_softmax(x, 1) if context.node.op == "SoftmaxCrossEntropyLoss" else x
    return F.nll_loss(log, target, weight, ignore_index=ignore_index, reduction=reduction), log


@operator("Attention")
def _attention(
    context: Context, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None, past_value: Any = None,
    lengths: Any = None, is_causal: int = 0, kv_num_heads: int = 0, q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0, softmax_precision: int = 0,
) -> Any:  # fmt: skip
    if lengths is not None or (len(context.node.outputs) > 3 and context.node.outputs[3]):
        raise ModelError("Attention that returns its scores, or with lengths of padded keys, is not run here")
    flat = q.array.ndim == 3
    if flat:
        q, k, v = (_heads(x, n) for x, n in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)))
    if past_key is not None:
        k, v = T.cat((past_key, k), 2), T.cat((past_value, v), 2)
    groups = q.array.shape[1] // k.array.shape[1]
    key, value = (T.repeat_interleave(x, groups, 1) if groups > 1 else x for x in (k, v))
    rate = 1 / math.sqrt(q.array.shape[-1]) if scale is None else scale
    scores = T.matmul(q, T.transpose(key, -1, -2)) * rate
    if softcap:
        scores = T.tanh(scores / softcap) * softcap
    if is_causal:
        rows, columns = scores.array.shape[-2:]
        allowed = np.tri(rows, columns, 0 if past_key is None else past_key.array.shape[2], dtype=bool)
        scores = T.where(constant(allowed), scores, constant(-np.inf, scores.array.dtype))
    if mask is not None:
        missing = scores.array.shape[-1] - mask.array.shape[-1]
        if mask.array.dtype.kind == "b":
            mask = F.pad(mask, [0, missing], value=False) if missing else mask
            scores = T.where(mask, scores, constant(-np.inf, scores.array.dtype))
        else:
            scores = scores + (F.pad(mask, [0, missing], value=-np.inf) if missing else mask)
    weights = T.softmax(scores, -1)
    if mask is not None or is_causal:  # where nothing may be looked at, zeros
        weights = T.where(T.all(scores == -np.inf, -1, True), constant(0, scores.array.dtype), weights)
    out = T.matmul(weights, value)
    if flat:
        n, h, t, d = out.array.shape
        out = T.reshape(permute_p(out, (0, 2, 1, 3)), (n, t, h * d))
    return out, k, v


def _heads(x: Any, count: int) -> Any:
    n, t, d = x.array.shape
    return permute_p(T.reshape(x, (n, t, count, d // count)), (0, 2, 1, 3))


_ACTIVATIONS: dict[str, Callable[..., Any]] = {"Sigmoid": T.sigmoid, "Tanh": T.tanh, "Relu": F.relu}


@operator("LSTM", "GRU", "RNN")
def _recurrent(
    context: Context, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, c: Any = None,
    peephole: Any = None, hidden_size: int = 0, direction: str = "forward", activations: Any = None,
    linear_before_reset: int = 0, layout: int = 0, clip: float | None = None, input_forget: int = 0, **_: Any,
) -> Any:  # fmt: skip
    if lengths is not None or peephole is not None or clip is not None or input_forget:
        raise ModelError(f"{context.node.op} with lengths, peepholes, clipping or coupled gates is not run here")
    kind, ways = context.node.op, 2 if direction == "bidirectional" else 1
    names = (
        activations or {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}[kind] * ways
    )
    x = T.transpose(x, 0, 1) if layout else x
    steps, batch, _ = x.array.shape
    size = r.array.shape[-1]
    zeros = constant(np.zeros((ways, batch, size)), x.array.dtype)
    first_h, first_c = ((zeros if v is None else T.transpose(v, 0, 1) if layout else v) for v in (h, c))
    outs, last_h, last_c = [], [], []
    for way in range(ways):
        functions = [_ACTIVATIONS[n] for n in names[way * len(names) // ways : (way + 1) * len(names) // ways]]
        backward = direction == "reverse" or way == 1
        bias = T.zeros(2, w.array.shape[1], dtype=x.dtype) if b is None else T.reshape(b[way], (2, -1))
        given = T.matmul(x, T.t(w[way])) + bias[0]
        state, cell, found = first_h[way], first_c[way], []
        for step in range(steps)[:: -1 if backward else 1]:
            state, cell = _STEP[kind](given[step], state, cell, r[way], bias[1], functions, linear_before_reset)
            found.append(state)
        outs.append(T.stack(found[:: -1 if backward else 1]))
        last_h.append(state)
        last_c.append(cell)
    out, hidden, cells = T.stack(outs, 1), T.stack(last_h), T.stack(last_c)
    if layout:
        out, hidden, cells = permute_p(out, (2, 0, 1, 3)), T.transpose(hidden, 0, 1), T.transpose(cells, 0, 1)
    return (out, hidden, cells) if kind == "LSTM" else (out, hidden)


def _lstm_step(x: Any, h: Any, c: Any, r: Any, b: Any, f: Any, _: int) -> Any:
    i, o, g, n = T.chunk(x + T.matmul(h, T.t(r)) + b, 4, -1)
    cell = f[0](g) * c + f[0](i) * f[1](n)
    return f[0](o) * f[2](cell), cell


def _gru_step(x: Any, h: Any, c: Any, r: Any, b: Any, f: Any, linear: int) -> Any:
    zx, rx, nx = T.chunk(x, 3, -1)
    zr, rr, nr = T.chunk(r, 3, 0)
    zb, rb, nb = T.chunk(b, 3, -1)
    update = f[0](zx + T.matmul(h, T.t(zr)) + zb)
    reset = f[0](rx + T.matmul(h, T.t(rr)) + rb)
    inner = reset * (T.matmul(h, T.t(nr)) + nb) if linear else T.matmul(reset * h, T.t(nr)) + nb
    return (1 - update) * f[1](nx + inner) + update * h, c


def _rnn_step(x: Any, h: Any, c: Any, r: Any, b: Any, f: Any, _: int) -> Any:
    return f[0](x + T.matmul(h, T.t(r)) + b), c


_STEP = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}


@operator("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(context: Context, size: Any, output_datatype: int = 1, periodic: int = 1) -> Any:
    from ..reading import dtype_of

    count = int(size.array)
    context.allow((count,))
    angle = 2 * np.pi * np.arange(count) / max(count if periodic else count - 1, 1)
    kinds = {
        "HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)
    }  # fmt: skip
    a, b, c = kinds[context.node.op]
    return constant(a - b * np.cos(angle) + c * np.cos(2 * angle), dtype_of(output_datatype))
