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

from . import few, rowwise, sizes
from .table import override

ndarray = np.ndarray
_FULL = (np.dtype("float32"), np.dtype("float64"))
_NONE, _MEAN, _SUM = 0, 1, 2  # reductions
_ONE_ROW = 16  # classes of a sample that is computed in Python, and losses that are added up there


@functools.lru_cache(64)
def _starts(count: int, classes: int) -> Any:
    """Return where each row starts in the flattened rows."""
    return np.arange(0, count * classes, classes)


def _places(x_shape: tuple[int, ...], target: Any, ignored: int) -> Any:
    """Return the places of the labels in flattened rows; None where a row is ignored or a label is no class."""
    if len(x_shape) != 2 or type(target) is not ndarray or target.ndim != 1 or not target.size:
        return None
    classes = x_shape[1]
    if 0 <= ignored < classes:
        return None
    # To search takes NumPy a fifth of the time that to reduce does.
    if target.item(target.argmax()) >= classes or target.item(target.argmin()) < 0:
        return None
    return target + _starts(x_shape[0], classes)


def _reduced(losses: Any, reduction: int, dtype: Any) -> Any:
    """Return losses, their mean or their sum; of a few Python's, which needs no setting up."""
    if reduction == _NONE:
        return losses
    total = sum(losses.tolist()) if losses.size <= _ONE_ROW else np.add.reduce(losses)
    return np.array(total / (1 if reduction == _SUM else losses.size), dtype)


@override.around("nll_loss")
def _nll_loss(definition: Callable[..., Any]) -> Callable[..., Any]:
    def nll_loss(x: Any, target: Any, ignored: int, reduction: int) -> Any:
        at = _places(x.shape, target, ignored) if type(x) is ndarray and x.dtype in _FULL else None
        if at is None:
            return definition(x, target, ignored, reduction)
        return _reduced(np.negative(x.take(at)), reduction, x.dtype)

    return nll_loss


@override.around("nll_back")
def _nll_back(definition: Callable[..., Any]) -> Callable[..., Any]:
    def nll_back(x: Any, target: Any, shape: Any, ignored: int, reduction: int) -> Any:
        at = _places(shape, target, ignored) if type(x) is ndarray else None
        if at is None:
            return definition(x, target, shape, ignored, reduction)
        flat = np.zeros(shape, x.dtype)
        flat.ravel()[at] = -x if x.ndim else -x.item() / (target.size if reduction == _MEAN else 1)
        return flat

    return nll_back


@override.around("cross_entropy")
def _cross_entropy(definition: Callable[..., Any]) -> Callable[..., Any]:
    def cross_entropy(x: Any, target: Any, ignored: int, reduction: int, wide: bool) -> Any:
        if type(x) is not ndarray or x.dtype not in _FULL or not x.size:
            return definition(x, target, ignored, reduction, wide)
        if len(x) == 1 and x.shape[1] <= _ONE_ROW and 0 <= (label := target.item()) < x.shape[1] and label != ignored:
            return _of_one(x, label, reduction)
        at = _places(x.shape, target, ignored)
        if at is None:
            return definition(x, target, ignored, reduction, wide)
        if few.within(x, 16.0):  # whose exponentials need no level
            logs = np.log(np.vecdot(np.exp(x), few.ones(x.shape[1], x.dtype)))
        else:
            logs = rowwise.kernels["logsumexp"](x, (1,), False)
        return _reduced(logs - x.take(at), reduction, x.dtype), logs, None, at

    return cross_entropy


def _of_one(x: Any, label: int, reduction: int) -> Any:
    """Return the cross entropy of one short row, in Python: an op of NumPy takes as long as ten scalars."""
    (values,) = x.tolist()
    top = max(values)
    total = math.log(sum([math.exp(v - top) for v in values])) + top
    loss = total - values[label]
    at = slice(label, label + 1)
    return np.array([loss] if reduction == _NONE else loss, x.dtype), np.array([total], x.dtype), None, at


@override.around("cross_entropy", "x")
def _cross_entropy_x(definition: Callable[..., Any]) -> Callable[..., Any]:
    def cross_entropy_x(
        g: Any, x: Any, target: Any, logs: Any, count: Any, at: Any, ignored: int, reduction: int, wide: bool
    ) -> Any:
        if at is None or type(g) is not ndarray or type(x) is not ndarray:
            return definition(g, x, target, logs, count, at, ignored, reduction, wide)
        share = g
        if reduction == _MEAN and len(x) > 1:
            share = np.array(g.item() / len(x), x.dtype)
        if x.size < sizes.ROWS_SMALL:
            out = np.exp(np.subtract(x, logs[:, None], order="C"))
            out *= share if share.ndim == 0 else share[:, None]
        else:
            shares = np.full(len(x), share, x.dtype) if share.ndim == 0 else share
            out = rowwise.kernels["logsumexp", "g"](shares, np.ascontiguousarray(x), logs, (1,), False)
        out.reshape(-1)[at] -= share
        return out

    return cross_entropy_x
