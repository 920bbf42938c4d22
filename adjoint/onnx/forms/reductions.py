"""Reductions, scans and normalizations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...compiler.graph import Value
from ...export.sizes import Varying
from ..builder import Builder
from .table import axes_of, form

__all__: list[str] = []


def reduced(b: Builder, op: str, name: str, axes: Any, keepdims: Any) -> str:
    """Return a reduction along axes; of none of them, the value itself."""
    if not axes:
        return name
    return b.node(op, name, b.ints(axes), keepdims=int(bool(keepdims)))


def _out_dtype(b: Builder) -> Any:
    assert b.line is not None
    return b.line.outputs[0].dtype


def _reduction(names: tuple[str, ...], op: str) -> None:
    @form(*names)
    def write(b: Builder, x: Any, axes: Any = None, keepdims: bool = False) -> str:
        return reduced(b, op, b.of(x, _out_dtype(b)), axes_of(axes, len(x.shape)), keepdims)


for _names, _onnx in (
    (("sum", "sum_all"), "ReduceSum"), (("mean", "mean_all"), "ReduceMean"), (("amax", "max_all"), "ReduceMax"),
    (("amin", "min_all"), "ReduceMin"), (("prod",), "ReduceProd"),
):  # fmt: skip
    _reduction(_names, _onnx)


@form("all", "any")
def _all(b: Builder, x: Any, axes: Any = None, keepdims: bool = False) -> str:
    assert b.line is not None
    truth = b.cast(b.of(x, bool), np.int32)
    op = "ReduceMin" if b.line.name == "all" else "ReduceMax"
    return b.cast(reduced(b, op, truth, axes_of(axes, len(x.shape)), keepdims), _out_dtype(b))


@form("count_nonzero")
def _count_nonzero(b: Builder, x: Any, axes: Any = None, keepdims: bool = False) -> str:
    return reduced(b, "ReduceSum", b.cast(b.of(x, bool), np.int64), axes_of(axes, len(x.shape)), keepdims)


@form("nansum")
def _nansum(b: Builder, x: Any, axes: Any = None, keepdims: bool = False) -> str:
    numbers = b.node("Where", b.node("IsNaN", b.of(x)), b.constant(0, x.dtype), b.of(x))
    return reduced(b, "ReduceSum", numbers, axes_of(axes, len(x.shape)), keepdims)


@form("sum_to")
def _sum_to(b: Builder, x: Any, shape: Any) -> str:
    lead = len(x.shape) - len(shape)
    axes = [*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and x.shape[i + lead] != 1)]
    name = reduced(b, "ReduceSum", b.of(x), axes, True)
    return b.reshaped(name, shape)


@form("argmax", "argmin")
def _arg(b: Builder, x: Any, axis: Any, keepdims: bool) -> str:
    assert b.line is not None
    op = "ArgMax" if b.line.name == "argmax" else "ArgMin"
    name = b.of(x)
    if axis is None:
        flat = b.node(op, b.node("Reshape", name, b.ints([-1])), axis=0, keepdims=0)
        return b.node("Reshape", flat, b.ints([1] * len(x.shape))) if keepdims else flat
    return b.node(op, name, axis=axis % max(len(x.shape), 1), keepdims=int(keepdims))


@form("max_dim", "min_dim")
def _max_dim(b: Builder, x: Any, axis: int, keepdims: bool) -> list[str]:
    assert b.line is not None
    most = b.line.name == "max_dim"
    axis %= max(len(x.shape), 1)
    values = reduced(b, "ReduceMax" if most else "ReduceMin", b.of(x), [axis], keepdims)
    return [values, b.node("ArgMax" if most else "ArgMin", b.of(x), axis=axis, keepdims=int(keepdims))]


def _count(b: Builder, x: Value, axes: Any, dtype: Any) -> str:
    """Return how many elements a reduction takes together."""
    sizes = [b.shape(x)[i] for i in axes]
    if not any(isinstance(s, Varying) for s in sizes):
        return b.constant(math.prod(sizes), dtype)
    return b.cast(b.node("ReduceProd", b.ints(sizes), b.ints([0]), keepdims=0), dtype)


@form("var", "std")
def _var(b: Builder, x: Any, axes: Any, correction: Any, keepdims: bool) -> str:
    assert b.line is not None
    found = axes_of(axes, len(x.shape))
    gap = b.node("Sub", b.of(x), reduced(b, "ReduceMean", b.of(x), found, True))
    total = reduced(b, "ReduceSum", b.node("Mul", gap, gap), found, keepdims)
    count = b.node("Sub", _count(b, x, found, x.dtype), b.constant(correction, x.dtype))
    out = b.node("Div", total, count)
    return b.node("Sqrt", out) if b.line.name == "std" else out


@form("logsumexp")
def _logsumexp(b: Builder, x: Any, axes: Any, keepdims: bool) -> str:
    found = axes_of(axes, len(x.shape))
    top = reduced(b, "ReduceMax", b.of(x), found, True)
    total = reduced(b, "ReduceSum", b.node("Exp", b.node("Sub", b.of(x), top)), found, True)
    out = b.node("Add", b.node("Log", total), top)
    return out if keepdims or not found else b.node("Squeeze", out, b.ints(found))


@form("vector_norm")
def _vector_norm(b: Builder, x: Any, p: float, axes: Any, keepdims: bool) -> str:
    found, name = axes_of(axes, len(x.shape)), b.of(x)
    if p in (1, 2):
        return reduced(b, f"ReduceL{int(p)}", name, found, keepdims)
    size = b.node("Abs", name)
    if math.isinf(p):
        return reduced(b, "ReduceMax" if p > 0 else "ReduceMin", size, found, keepdims)
    if p == 0:
        there = b.cast(b.cast(name, bool), x.dtype)
        return reduced(b, "ReduceSum", there, found, keepdims)
    total = reduced(b, "ReduceSum", b.node("Pow", size, b.constant(p, x.dtype)), found, keepdims)
    return b.node("Pow", total, b.constant(1 / p, x.dtype))


@form("cumsum")
def _cumsum(b: Builder, x: Any, axis: int, reverse: bool = False) -> str:
    dtype = _out_dtype(b)
    if not x.shape:
        return b.of(x, dtype)
    return b.node("CumSum", b.of(x, dtype), b.constant(axis % len(x.shape), np.int64), reverse=int(bool(reverse)))


@form("softmax", "log_softmax")
def _softmax(b: Builder, x: Any, axis: int) -> str:
    assert b.line is not None
    op = "Softmax" if b.line.name == "softmax" else "LogSoftmax"
    if not x.shape:
        return b.constant(1.0 if op == "Softmax" else 0.0, x.dtype)
    return b.node(op, b.of(x), axis=axis % len(x.shape))


def _normalized(b: Builder, x: Any, axes: Any, eps: float, centred: bool = True) -> str:
    name = b.of(x)
    if centred:
        name = b.node("Sub", name, reduced(b, "ReduceMean", name, axes, True))
    power = reduced(b, "ReduceMean", b.node("Mul", name, name), axes, True)
    return b.node("Div", name, b.node("Sqrt", b.node("Add", power, b.constant(eps, x.dtype))))


def _scaled(b: Builder, name: str, x: Any, weight: Any, bias: Any, shape: Any) -> str:
    for op, operand in (("Mul", weight), ("Add", bias)):
        if operand is not None:
            name = b.node(op, name, b.reshaped(b.of(operand, x.dtype), shape, b.shape(operand)))
    return name


@form("layer_norm")
def _layer_norm(b: Builder, x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: float) -> str:
    rank, found = len(x.shape), axes_of(axes, len(x.shape))
    if found != tuple(range(rank - len(found), rank)):
        return _scaled(b, _normalized(b, x, found, eps), x, weight, bias, shape)
    sizes = [b.shape(x)[i] for i in found]
    scale = b.constant(np.ones(sizes), x.dtype) if weight is None else b.of(weight, x.dtype)
    given = [b.of(x), scale, *([] if bias is None else [b.of(bias, x.dtype)])]
    return b.node("LayerNormalization", *given, axis=found[0] - rank, epsilon=float(eps))


@form("rms_norm")
def _rms_norm(b: Builder, x: Any, weight: Any, axes: Any, shape: Any, eps: float) -> str:
    name = _normalized(b, x, axes_of(axes, len(x.shape)), eps, centred=False)
    return _scaled(b, name, x, weight, None, shape)


@form("group_norm", "batch_norm")
def _group_norm(b: Builder, x: Any, weight: Any, bias: Any, axes: Any, shape: Any, eps: float) -> str:
    return _scaled(b, _normalized(b, x, axes_of(axes, len(x.shape)), eps), x, weight, bias, shape)


@form("batch_normalization")
def _batch_normalization(b: Builder, x: Any, scale: Any, shift: Any, mean: Any, var: Any, eps: float) -> str:
    given = [b.of(v) for v in (x, scale, shift, mean, var)]
    return b.node("BatchNormalization", *given, epsilon=float(eps))
