"""The cross entropy of rows of labels: kernels of its statement, and one that adds up the losses of rows that count.

No kernel returns a value to the CPU, so all may be captured in a CUDA graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import bounds
from .launching import Kernels, dense, empty, is_float
from .table import override

_F32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)
_NONE, _MEAN = 0, 1  # reductions

_LOSSES = Kernels(
    "typedef wide_of<T>::type W;\n"
    + bounds.NOTE
    + r"""
// One block: the sum of losses, over how many there are, and that number. A label that is no class is noted.
extern "C" __global__ void reduce(const W* losses, const i64* labels, L* loss, W* count, i64 rows, i64 n, i64 ignored,
        i64 mean, NOTED) {
    W sum = 0, there = 0;
    for (i64 i = threadIdx.x; i < rows; i += blockDim.x) {
        sum += losses[i];
        if (labels[i] != ignored) { there += 1; CHECK(labels[i], n) }
    }
    sum = block_sum(sum);
    there = block_sum(there);
    if (threadIdx.x == 0) { loss[0] = (L)(mean ? sum / there : sum); count[0] = there; }
}
// The gradient of a mean, for each row that counts.
extern "C" __global__ void divide(const L* g, const W* count, W* share) { share[0] = (W)g[0] / count[0]; }
""",
    "T",
    "L",
)


def _op(x: Any) -> Any:
    """Return the op of the loss of each row, whose kernels are printed from its statement."""
    from ...core.nodes import registry  # of ops, which are declared on top of this

    return registry["class_loss"].form_for((x,))


def _column(target: Any) -> Any:
    return dense(target if target.dtype is _INT64 else target.astype(np.int64)).reshape(-1, 1)


@override("cross_entropy")
def _forward(x: Any, target: Any, ignored: int, reduction: int, wide: bool) -> Any:
    if not is_float(x) or not x.size or target.dtype.char not in "lqB":
        return NotImplemented
    labels = _column(target)
    losses, logs = _op(x).whole(x, labels, 1, ignored, False, False)
    loss, count = empty((), _F32 if wide and x.dtype.itemsize == 2 else x.dtype), empty((), losses.dtype)
    args = losses, labels, loss, count, len(x), x.shape[1], ignored, int(reduction == _MEAN)
    noted = bounds.noted("cross_entropy", x.shape[1])
    _LOSSES.launch("reduce", (x.dtype.char, loss.dtype.char), 1, 1024, (*args, *noted))
    if reduction == _NONE:
        loss = losses.reshape(-1).astype(x.dtype, copy=False)
    return loss, logs, count


@override("cross_entropy", gradient="x")
def _backward(g: Any, x: Any, target: Any, logs: Any, count: Any, ignored: int, reduction: int, wide: bool) -> Any:
    if logs is None:
        return NotImplemented
    share = g
    if reduction == _MEAN:
        share = empty((1,), count.dtype)
        _LOSSES.launch("divide", (x.dtype.char, g.dtype.char), 1, 1, (dense(g), count, share))
    return _op(x).rules[0](share.reshape(-1, 1), x, _column(target), logs, 1, ignored, False, False)
