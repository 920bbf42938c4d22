"""Losses and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...compiler.graph import Value
from ...scalar.onnx import printed
from ...scalar.symbol import shared, variable
from ..builder import Builder, Unsupported
from .table import form

__all__: list[str] = []

_NONE, _MEAN = 0, 1  # the codes of reductions


def _total(b: Builder, name: str, reduction: int) -> str:
    """Return the losses of elements as they are, their mean, or their sum."""
    return name if reduction == _NONE else b.node("ReduceMean" if reduction == _MEAN else "ReduceSum", name, keepdims=0)


@form("mse_loss")
def _mse_loss(b: Builder, x: Any, y: Any, reduction: int, option: Any) -> str:
    gap = b.node("Sub", b.of(x), b.of(y, x.dtype))
    return _total(b, b.node("Mul", gap, gap), reduction)


@form("smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
def _elementwise_loss(b: Builder, x: Any, y: Any, reduction: int, option: Any) -> str:
    """Print the formula of an element's loss."""
    assert b.line is not None
    element = b.line.op.kernel.elements[0]
    formula = shared([element(variable("x0"), variable("x1"), option)])[0]
    dtype = b.line.outputs[0].dtype
    return _total(b, printed(b, formula, {"x0": b.of(x, dtype), "x1": b.of(y, dtype)}, dtype), reduction)


@form("ctc_loss")
def _ctc_loss(b: Builder, *_: Any) -> str:
    raise Unsupported("a loss over alignments is for training; export the model that the loss is of")


@form("nll_loss", "nll_loss2d")
def _nll_loss(b: Builder, x: Any, target: Any, ignored: int, reduction: int) -> str:
    return _likelihood(b, b.of(x), len(x.shape), x.dtype, target, ignored, reduction)


@form("cross_entropy")
def _cross_entropy(b: Builder, x: Any, target: Any, ignored: int, reduction: int, wide: bool) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    return _likelihood(b, b.node("LogSoftmax", b.of(x, dtype), axis=1), len(x.shape), dtype, target, ignored, reduction)


def _likelihood(b: Builder, name: str, rank: int, dtype: Any, target: Any, ignored: int, reduction: int) -> str:
    """Return the negated element of each sample's class; classes are along axis 1, or 0 of a single sample."""
    axis = b.ints([1 if rank > 1 else 0])
    labels = b.of(target, np.int64)
    skip = b.node("Equal", labels, b.constant(ignored, np.int64))
    label = b.node("Where", skip, b.constant(0, np.int64), labels)
    picked = b.node("GatherElements", name, b.node("Unsqueeze", label, axis), axis=1 if rank > 1 else 0)
    losses = b.node("Where", skip, b.constant(0, dtype), b.node("Neg", b.node("Squeeze", picked, axis)))
    if reduction != _MEAN:
        return _total(b, losses, reduction)
    counted = b.node("ReduceSum", b.cast(b.node("Not", skip), dtype), keepdims=0)
    return b.node("Div", b.node("ReduceSum", losses, keepdims=0), counted)


@form("class_loss")
def _class_loss(b: Builder, x: Any, target: Any, axis: int, ignored: int, *_: Any) -> str:
    labels = b.of(target, np.int64)
    skip = b.node("Equal", labels, b.constant(ignored, np.int64))
    label = b.node("Where", skip, b.constant(0, np.int64), labels)
    picked = b.node("GatherElements", b.node("LogSoftmax", b.of(x), axis=axis), label, axis=axis)
    return b.node("Where", skip, b.constant(0, x.dtype), b.node("Neg", picked))


@form("is_class")
def _is_class(b: Builder, target: Any, classes: int) -> str:
    return b.node("Equal", b.of(target), b.constant(np.arange(classes), target.dtype))


# --- Attention --------------------------------------------------------------------------------------


def _scores(b: Builder, q: Value, k: Value, scale: Any, causal: bool, mask: Any) -> str:
    rank = len(k.shape)
    keys = b.transposed(b.of(k), [*range(rank - 2), rank - 1, rank - 2])
    scores = b.node("MatMul", b.node("Mul", b.of(q), b.of(scale, q.dtype)), keys)
    nothing = b.constant(-math.inf, q.dtype)
    if causal:
        ones = b.node("Expand", b.constant(1, np.float32), b.node("Shape", scores))
        scores = b.node("Where", b.cast(b.node("Trilu", ones, upper=0), bool), scores, nothing)
    if mask is None:
        return scores
    return b.node("Where", b.of(mask), scores, nothing) if mask.dtype == bool else b.node("Add", scores, b.of(mask))


@form("attend")
def _attend(b: Builder, q: Any, k: Any, v: Any, scale: Any, causal: bool) -> str:
    weights = b.node("Softmax", _scores(b, q, k, scale, causal, None), axis=-1)
    return b.node("MatMul", weights, b.of(v))


@form("flash")
def _flash(b: Builder, q: Any, k: Any, v: Any, scale: Any, causal: bool) -> list[str]:
    return _masked_flash(b, q, k, v, None, scale, causal, 1.0, 0)


@form("masked_flash")
def _masked_flash(
    b: Builder, q: Any, k: Any, v: Any, mask: Any, scale: Any, causal: bool, keep: float, seed: int
) -> list[str]:
    if keep != 1.0:
        raise Unsupported("it draws random numbers; export the model in eval mode")
    scores, last = _scores(b, q, k, scale, causal, mask), b.ints([-1])
    top = b.node("ReduceMax", scores, last)
    nothing = b.node("Equal", top, b.constant(-math.inf, q.dtype))  # a query that may look at nothing takes nothing
    powers = b.node("Exp", b.node("Sub", scores, b.node("Where", nothing, b.constant(0, q.dtype), top)))
    total = b.node("ReduceSum", powers, last)
    shares = b.node("Div", powers, b.node("Where", nothing, b.constant(1, q.dtype), total))
    logs = b.node("Where", nothing, b.constant(math.inf, q.dtype), b.node("Add", top, b.node("Log", total)))
    return [b.node("MatMul", shares, b.of(v)), b.node("Squeeze", logs, last)]
