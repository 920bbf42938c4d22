"""Losses of class labels on the CPU: elements by their places in flattened rows, and the kernels of logsumexp.

The loss of a row is its logsumexp less the label's element, and its gradient is that of the logsumexp, less one at the
label: large rows take both from logsumexp's statement. The short forms here are for small arrays, where calls are what
takes time (benchmarks/ops.py, cross_entropy).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._typing import Array, DType, Shape
from . import rowwise, sizes
from .table import override

ndarray = np.ndarray
_FULL, _INT64 = (np.dtype("float32"), np.dtype("float64")), np.dtype("int64")
_NONE, _MEAN, _SUM = 0, 1, 2  # reductions


def _is_within(x: Any, bound: float) -> bool:
    """Return whether an array is small and no element is further from 0 than a bound, nor a NaN."""
    if not 0 < x.size <= sizes.SMALL:
        return False
    return bool(x.item(x.argmax()) <= bound and x.item(x.argmin()) >= -bound)


@functools.lru_cache(64)
def _starts(count: int, classes: int) -> Array:
    """Return where each row starts in the flattened rows."""
    return np.arange(0, count * classes, classes)


def _are_classes(x_shape: tuple[int, ...], target: Any, ignored: int) -> bool:
    """Return whether each row has a label, which is a class and not the one to be ignored."""
    if len(x_shape) != 2 or type(target) is not ndarray or target.ndim != 1 or not target.size:
        return False
    classes = x_shape[1]
    # To search takes NumPy a fifth of the time that to reduce does.
    return not 0 <= ignored < classes and target.item(target.argmax()) < classes and target.item(target.argmin()) >= 0


def _places(x_shape: tuple[int, ...], target: Any, ignored: int) -> Any:
    """Return the places of the labels in flattened rows; None where a row is ignored or a label is no class."""
    return target + _starts(*x_shape) if _are_classes(x_shape, target, ignored) else None


def _reduced(losses: Array, reduction: int, dtype: DType) -> Array:
    """Return losses, their mean or their sum; for a small number of losses in Python, without a NumPy call."""
    if reduction == _NONE:
        return losses
    total = sum(losses.tolist()) if losses.size <= sizes.ONE_ROW else np.add.reduce(losses)
    return np.array(total / (1 if reduction == _SUM else losses.size), dtype)


@override.around("nll_loss")
def _nll_loss(definition: Callable[..., Any]) -> Callable[..., Any]:
    def nll_loss(x: Array, target: Array, ignored: int, reduction: int) -> Array:
        at = _places(x.shape, target, ignored) if type(x) is ndarray and x.dtype in _FULL else None
        if at is None:
            return definition(x, target, ignored, reduction)
        return _reduced(np.negative(x.take(at)), reduction, x.dtype)

    return nll_loss


@override.around("nll_back")
def _nll_back(definition: Callable[..., Any]) -> Callable[..., Any]:
    def nll_back(x: Array, target: Array, shape: Shape, ignored: int, reduction: int) -> Array:
        at = _places(shape, target, ignored) if type(x) is ndarray else None
        if at is None:
            return definition(x, target, shape, ignored, reduction)
        flat = np.zeros(shape, x.dtype)
        flat.ravel()[at] = -x if x.ndim else -x.item() / (target.size if reduction == _MEAN else 1)
        return flat

    return nll_back


@override.around("cross_entropy")
def _cross_entropy(definition: Callable[..., Any]) -> Callable[..., Any]:
    def cross_entropy(x: Array, target: Array, ignored: int, reduction: int, wide: bool) -> Any:
        if type(x) is not ndarray or x.dtype not in _FULL or not x.size:
            return definition(x, target, ignored, reduction, wide)
        rows, classes = x.shape
        if rows == 1 and classes <= sizes.ONE_ROW and 0 <= (label := target.item()) < classes and label != ignored:
            return _of_one(x, label, reduction)
        if target.dtype is not _INT64 or not _are_classes(x.shape, target, ignored):
            return definition(x, target, ignored, reduction, wide)
        if _is_within(x, 16.0) and x.flags.c_contiguous:
            losses, logs = _passes("class_loss", x.dtype, True, True)(x, target[:, None], None, None, None)
        else:
            losses, logs = rowwise.kernels["class_loss"](x, target[:, None], 1, ignored, False, True)
        return _reduced(losses.reshape(-1), reduction, x.dtype), logs, target.size

    return cross_entropy


@functools.lru_cache(8)
def _passes(name: Any, dtype: Any, *fixed: bool) -> Any:
    """Return the passes over small arrays without a look at what they are."""
    kernel: Any = rowwise.kernels[name]
    forms = kernel.forms
    return forms.passes(dtype, (1,), 2, (True,) * (1 + bool(forms.statement.several)), (), fixed)


def _of_one(x: Any, label: int, reduction: int) -> Any:
    """Return the cross entropy of one short row, in Python: an op of NumPy takes as long as ten scalars."""
    (values,) = x.tolist()
    top = max(values)
    total = math.log(sum([math.exp(v - top) for v in values])) + top
    loss = total - values[label]
    return np.array([loss] if reduction == _NONE else loss, x.dtype), np.array([[total]], x.dtype), 1


@override.around("cross_entropy", "x")
def _cross_entropy_x(definition: Callable[..., Any]) -> Callable[..., Any]:
    def cross_entropy_x(
        g: Any, x: Any, target: Any, logs: Any, count: Any, ignored: int, reduction: int, wide: bool
    ) -> Any:
        rows = x.shape[0]
        if type(g) is not ndarray or type(x) is not ndarray or g.dtype is not x.dtype or count != rows or logs is None:
            return definition(g, x, target, logs, count, ignored, reduction, wide)
        if reduction == _MEAN and rows > 1:
            g = np.array(g.item() / rows, x.dtype)
        if x.size < sizes.ROWS:
            run = _passes(("class_loss", "g"), x.dtype, True)
            return run(g[:, None] if g.ndim else g, x, target[:, None], logs, None, None, None)
        share = g[:, None] if g.ndim else np.full((rows, 1), g, x.dtype)
        return rowwise.kernels["class_loss", "g"](share, x, target[:, None], logs, 1, ignored, False, True)

    return cross_entropy_x
