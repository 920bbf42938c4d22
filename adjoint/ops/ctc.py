"""The loss of connectionist temporal classification: every alignment of labels to frames counts.

Labels get a blank before, between and after them. `alpha` holds the log-probability of all ways to have come to
a place of that sequence by a frame, `beta` that of all ways to go on from it; both are scans over frames, of
the whole batch at once. The scans are written in ops, so the gradient can be differentiated again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array, Tensor, Value
from ..core.device import of as device_of
from ..core.dtypes import of
from ..core.observation import note_read
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from .arguments import constant_beside, dtype_of, is_int, on_host
from .arrange import pad_p
from .gather import gather_p, ungather_p
from .index import select_p
from .join import stack_p
from .looping import looped_for
from .loss import MEAN, NONE, reduction_of
from .piecewise import where_p
from .reduce import title_of
from .shape import cast_p, reshape_p
from .special import logaddexp_p

ndarray = np.ndarray
# Stands for the logarithm of zero: unlike -inf it can be subtracted from itself.
_NEVER = -1e30


class Labels:
    """The labels of a batch with blanks around them: `places` (N, S), which may be skipped, and lengths."""

    __slots__ = ("frames", "last", "lengths", "places", "skips")

    def __init__(self, targets: Value, lengths: Value, frames: Any, blank: int, width: int) -> None:
        count = len(lengths)
        self.places = np.full((count, 2 * width + 1), blank, np.int64)
        self.places[:, 1::2] = targets
        self.skips = np.zeros(self.places.shape, bool)  # from two places before, over a blank
        if width:
            self.skips[:, 3::2] = targets[:, 1:] != targets[:, :-1]
        self.lengths, self.frames = np.asarray(lengths), np.asarray(frames)
        self.last = 2 * self.lengths


def _shifted(x: Array, by: int) -> Value:
    """Return `x` moved along its last axis, with "never" where nothing moves in."""
    n = x.shape[-1]
    if abs(by) >= n:
        return x * 0 + _NEVER
    return pad_p(x, (*((0, 0),) * (x.ndim - 1), (by, -by)), _NEVER)


def _scan(emissions: Value, labels: Labels, backward: bool) -> list[Any]:
    """Return, per frame, the log-probabilities of having come to (or of going on from) each place."""
    frames = emissions.shape[0]
    size = labels.places.shape[1]
    numbers = np.arange(size)
    open_ends = labels.last[:, None] - numbers
    ends = (open_ends == 0) | ((open_ends == 1) & (labels.last[:, None] > 0))
    starts = np.broadcast_to(numbers < 2, labels.places.shape) & (open_ends >= 0)
    inside = open_ends >= 0
    if backward:
        leaps = np.zeros_like(labels.skips)
        leaps[:, :-2] = labels.skips[:, 2:]
    else:
        leaps = labels.skips
    out: list[Any] = [None] * frames
    before: Any = None
    sign = -1 if backward else 1
    for t in reversed(range(frames)) if backward else range(frames):
        emission = select_p(emissions, 0, t)
        begins = ends if backward else starts
        first = where_p(begins, emission * 0 if backward else emission, _NEVER)
        if before is None:
            here = first
        else:
            came = before + select_p(emissions, 0, t + 1) if backward else before
            here = logaddexp_p(came, _shifted(came, sign))
            here = logaddexp_p(here, where_p(leaps, _shifted(came, 2 * sign), _NEVER))
            here = where_p(inside, here if backward else here + emission, _NEVER)
            if backward:  # shorter sequences begin later
                here = where_p((labels.frames == t + 1)[:, None], first, here)
            else:  # and stay where they ended
                here = where_p((labels.frames <= t)[:, None], before, here)
        if backward:
            here = where_p((labels.frames > t)[:, None], here, _NEVER)
        out[t] = before = here
    return out


def _emissions(x: Array, labels: Labels) -> Any:
    places = np.broadcast_to(labels.places, (x.shape[0], *labels.places.shape))
    picked = gather_p(x, places, 2)
    return where_p(picked < _NEVER, _NEVER, picked)


def _loss(last: Any, labels: Labels) -> Any:
    """Return the negative log-probability of all alignments, from the last alphas."""
    column = labels.last[:, None]
    end = gather_p(last, column, 1)
    other = where_p(column > 0, gather_p(last, np.maximum(column - 1, 0), 1), _NEVER)
    total = reshape_p(logaddexp_p(end, other), (column.shape[0],))
    total = where_p(total < 0.1 * _NEVER, -np.inf, total)
    empty = labels.frames == 0
    return where_p(empty, np.where(labels.lengths == 0, 0.0, np.inf), -total)


def _ctc(x: Array, labels: Any, zero_infinity: bool) -> Any:
    if not x.shape[0]:
        return np.where(labels.lengths == 0, 0.0, 0.0 if zero_infinity else np.inf).astype(x.dtype)
    out = _loss(_scan(_emissions(x, labels), labels, False)[-1], labels).astype(x.dtype)
    return np.where(np.isinf(out), x.dtype.type(0), out) if zero_infinity else out


def _ctc_x(g: Any, x: Any, labels: Any, zero_infinity: bool) -> Any:
    """Return the gradient as torch defines it: that of log-probabilities that stay normalized."""
    if not x.shape[0]:
        return x * 0
    if isinstance(x, TensorBase) and (place := device_of(x.array)).type != "cpu":  # differentiated again
        return _ctc_x(g.cpu(), x.cpu(), labels, zero_infinity).to(place)  # type: ignore[attr-defined]
    emissions = _emissions(x, labels)
    alphas, betas = _scan(emissions, labels, False), _scan(emissions, labels, True)
    loss = _loss(alphas[-1], labels)
    known = where_p(np.isinf(loss), 0, loss)
    through = stack_p(tuple(alphas), 0) + stack_p(tuple(betas), 0)
    share = np.exp(through + reshape_p(known, (1, -1, 1)))  # of each place, among all alignments
    places = np.broadcast_to(labels.places, tuple(share.shape))
    posterior = ungather_p(share, places, tuple(x.shape), 2)
    change = where_p(reshape_p(np.isinf(loss), (1, -1, 1)), 0 if zero_infinity else np.nan, np.exp(x) - posterior)
    frames = np.arange(x.shape[0])[:, None, None]
    change = where_p(frames < labels.frames[:, None], change, 0)
    return cast_p(change * reshape_p(g, (1, -1, 1)), dtype_of(x))


ctc_loss_p: Primitive = nary(_ctc, inputs=1, x=_ctc_x, name="ctc_loss")


def _numbers(lengths: object) -> Value:
    if isinstance(lengths, TensorBase):
        if of(lengths.array.dtype).category != 1:
            raise RuntimeError("input_lengths must be integral: the lengths of ctc_loss are whole numbers")
        return np.asarray(on_host(lengths), np.int64).reshape(-1)
    if not isinstance(lengths, list | tuple) or not all(map(is_int, lengths)):
        raise TypeError(
            "ctc_loss() received an invalid combination of arguments: lengths are a tensor or a tuple of ints, not "
            f"{type(lengths).__name__}"
        )
    return np.asarray(tuple(int(n) for n in lengths), np.int64)


@looped_for("targets", "input_lengths", "target_lengths")
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Average the negative log-probability that frames spell the labels, over all alignments of the two.

    A mean divides each loss by the number of its labels first.

    Parameters
    ----------
    log_probs : Tensor
        Log probabilities of the classes, (T, N, C), or (T, C) without a batch; T frames.
    targets : Tensor
        Labels, (N, S), or those of all samples in a row.
    input_lengths : Tensor or tuple of int
        Number of frames of each sample, at most T.
    target_lengths : Tensor or tuple of int
        Number of labels of each sample, at most S.
    blank : int, default 0
        Class that stands for no label.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.
    zero_infinity : bool, default False
        Whether labels that do not fit into the frames cost nothing; otherwise their loss is infinite.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per sample.

    Examples
    --------
    >>> frames = adjoint.full((2, 1, 2), 0.5).log()
    >>> adjoint.nn.functional.ctc_loss(frames, adjoint.tensor([[1]]), [2], [1]).exp()
    tensor(1.3333)
    """
    code = reduction_of(reduction)
    x = log_probs
    if of(x.array.dtype).category != 2:
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{title_of(x.array.dtype)}'")
    single = x.array.ndim == 2
    if single:
        x = x.unsqueeze(1)
    if x.array.ndim != 3:
        raise RuntimeError(f"log_probs of ctc_loss has {x.array.ndim} dimensions; it should be (T, N, C) or (T, C)")
    frames, count, classes = x.array.shape
    if count == 0:
        raise RuntimeError("batch size must be greater than 0")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if isinstance(input_lengths, TensorBase) is not isinstance(target_lengths, TensorBase):
        raise TypeError("ctc_loss() received an invalid combination of arguments: lengths are two tensors, or neither")
    note_read("ctc_loss", targets, input_lengths, target_lengths)
    labels = _parsed(targets, _numbers(input_lengths), _numbers(target_lengths), blank, frames, count)
    place = device_of(x.array)
    if ctc_loss_p.op.is_overridden(x.array, labels, zero_infinity):
        losses = ctc_loss_p(x, labels, zero_infinity)
    else:
        losses = ctc_loss_p(x.cpu(), labels, zero_infinity).to(place)  # the scans run on the CPU
    if code == MEAN:
        divisor = constant_beside(np.maximum(labels.lengths, 1).astype(x.array.dtype), losses)
        mean: Tensor = (losses / divisor).mean()
        return mean
    if code == NONE:
        return losses.squeeze(0) if single else losses
    return losses.sum()


def _parsed(targets: Tensor, inputs: Any, lengths: Any, blank: int, frames: int, count: int) -> Labels:
    if inputs.size != count:
        raise RuntimeError(f"input_lengths must be of size batch_size: got {inputs.size} for a batch of {count}")
    if lengths.size != count:
        raise RuntimeError(f"target_lengths must be of size batch_size: got {lengths.size} for a batch of {count}")
    given = on_host(targets)
    if of(given.dtype).category != 1:
        raise RuntimeError("Expected tensor for argument 'targets' to have one of the scalar types Long, Int")
    if inputs.min() < 0:
        raise RuntimeError(f"Expected input_lengths to have value at least 0, but got value {inputs.min()}")
    if inputs.max() > frames:
        raise RuntimeError(f"Expected input_lengths to have value at most {frames}, but got value {inputs.max()}")
    if lengths.min() < 0:
        raise RuntimeError(f"Expected target_lengths to have value at least 0, but got value {lengths.min()}")
    width = int(lengths.max(initial=0))
    padded = np.full((count, width), blank, np.int64)
    if given.ndim == 1 and not (count == 1 and given.size >= width):
        if given.size != lengths.sum():
            raise RuntimeError(
                f"Expected targets to have {lengths.sum()} labels in a row, the sum of target_lengths, "
                f"but got {given.size}"
            )
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            padded[i, :length] = given[start : start + length]
    else:
        rows = given.reshape(count, -1)
        if rows.shape[1] < width:
            raise RuntimeError(
                f"Expected tensor to have size at least {width} at dimension 1, but got size {list(given.shape)} for "
                "argument 'targets'"
            )
        for i, length in enumerate(lengths):
            padded[i, :length] = rows[i, :length]
    return Labels(padded, lengths, inputs, blank, width)
