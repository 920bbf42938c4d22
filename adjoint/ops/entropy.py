"""Losses of class labels: negative log likelihood and cross entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Params, Shape, Tangents, Tensor, Value
from ..core import modes
from ..core.device import module_of
from ..core.dtypes import of
from ..core.failures import not_implemented
from ..core.folding import fold, part
from ..core.nodes import Freed, Node, Packed
from ..core.observation import lifting
from ..core.payload import Payload
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from .arguments import count_of, dtype_of, index_of
from .contraction import linear
from .elementwise import mul_p
from .gather import gather_p
from .loss import MEAN, NONE, SUM, reduction_of
from .piecewise import where_p
from .precision import autocasting
from .reduce import _sum, is_half, sum_p, title_of
from .rows import Row, exp_below, is_class_p, rowwise
from .shape import cast_p, expand_p, reshape_p
from .softmax import log_softmax_p

_single, _int64 = np.dtype("float32"), np.dtype("int64")


def _checked(target: Any, classes: int, ignored: object) -> tuple[Array, int]:
    """Return which samples are skipped, and how many; raise for a label that is no class."""
    xp = module_of(target)
    skip = target == ignored
    skipped = int(xp.count_nonzero(skip))  # which takes a quarter of the time of any() and sum()
    bad = (target < 0) | (target >= classes)
    if int(xp.count_nonzero(bad)):
        wrong = bad & ~skip
        if wrong.any():
            raise IndexError(f"Target {int(target[wrong].flat[0])} is out of bounds: there are {classes} classes")
    return skip, skipped


def _picked(x: Any, target: Any, ignored: object) -> tuple[Array, int]:
    """Return the negated element of each sample's class, and how many samples are skipped.

    Classes are along axis 1, or 0 of a single sample.
    """
    xp = module_of(x)
    axis = 1 if x.ndim > 1 else 0
    skip, skipped = _checked(target, x.shape[axis], ignored)
    if skipped:
        target = xp.where(skip, 0, target)
    if x.ndim == 2:
        out = -x[xp.arange(x.shape[0]), target]
    else:
        out = -xp.take_along_axis(x, xp.expand_dims(target, axis), axis).squeeze(axis)
    if skipped:
        out = xp.where(skip, x.dtype.type(0), out).astype(x.dtype, copy=False)  # CuPy makes float32 of bfloat16
    return out, skipped


def _nll(x: Any, target: Any, ignored: object, reduction: int) -> Any:
    if isinstance(target, Payload):  # by primitives that can be traced, without a look at the labels
        losses = where_p(target == ignored, 0, -_flat(Row((1,)).at(x, _column(target))))
        return _reduced(losses, target, ignored, reduction)
    out, skipped = _picked(x, target, ignored)
    if reduction == NONE:
        return out
    total = _sum(out, None, False)
    return total if reduction == SUM else total / x.dtype.type(out.size - skipped)


def _nll_back(x: Any, target: Any, shape: Shape, ignored: object, reduction: int) -> Value:
    """Return zeros of `shape` with ``-x`` (per sample, or one for all) at each sample's class."""
    if isinstance(target, Payload):
        if len(shape) != 2:
            raise TypeError("labels of a matrix only")
        if reduction == MEAN:
            x = x / _counted(target, ignored, x.dtype)
        target = _column(target)
        share = where_p(target == ignored, 0, -(reshape_p(x, (shape[0], 1)) if x.ndim else x))
        return where_p(is_class_p(target, shape[1]), share, 0)
    xp = module_of(x)
    out = xp.zeros(shape, x.dtype)
    axis = 1 if len(shape) > 1 else 0
    skip = target == ignored
    skipped = int(xp.count_nonzero(skip))
    if reduction == MEAN:
        x = x / x.dtype.type(target.size - skipped) if target.size else x
    if skipped:
        x, target = xp.where(skip, x.dtype.type(0), x), xp.where(skip, 0, target)
    rank = target.ndim
    places = [xp.arange(n).reshape((-1,) + (1,) * (rank - d - 1)) for d, n in enumerate(target.shape)]
    places.insert(axis, target)
    out[tuple(places)] = -x
    return out


def _nll_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    return nll_loss_p(tangents[0], inputs[1], *params)


def _nll_batch(x: Value, target: Value, ignored: object, reduction: Any) -> Value:
    """Fold the batch of a vmap into the samples; each element of the batch gets its own mean."""
    size, single = x.shape[0], x.ndim == 2
    if single:
        rows, labels, shape = x, reshape_p(target, (size,)), (size,)
    else:
        count = size * x.shape[1]
        rows, labels = reshape_p(x, (count, *x.shape[2:])), reshape_p(target, (count, *target.shape[2:]))
        shape = tuple(target.shape)
    losses = reshape_p(nll_loss_p(rows, labels, ignored, NONE), shape)
    if reduction == NONE:
        return losses
    axes = tuple(range(1, len(shape)))
    total = sum_p(losses, axes, False)
    if reduction == SUM:
        return total
    counted = cast_p(target != ignored, dtype_of(x))
    return total / sum_p(reshape_p(counted, shape), axes, False)


def _nll_back_batch(x: Value, target: Value, shape: Shape, ignored: object, reduction: Any) -> Value:
    size = x.shape[0]
    labels = tuple(target.shape)
    if reduction == MEAN:
        counted = cast_p(target != ignored, dtype_of(x))
        x = x / (sum_p(counted, tuple(range(1, len(labels))), False) if len(labels) > 1 else counted)
    if reduction != NONE:
        x = expand_p(reshape_p(x, (size, *(1,) * (len(labels) - 1))), labels)
    if len(shape) == 1:
        return nll_back_p(x, target, (size, *shape), ignored, NONE)
    flat = (size * shape[0], *shape[1:])
    rows = (size * labels[1], *labels[2:])
    out = nll_back_p(reshape_p(x, rows), reshape_p(target, rows), flat, ignored, NONE)
    return reshape_p(out, (size, *shape))


def _nll_primitive(node_name: str, name: str) -> Primitive:
    return nary(
        _nll,
        inputs=2,
        x=lambda g, target, x_shape, ignored, reduction: nll_back_p(g, target, x_shape, ignored, reduction),
        jvp=_nll_jvp,
        batch=_nll_batch,
        name=name,
        node_name=node_name,
        saved={"x": "self", "ignored": "ignore_index"},
    )


nll_loss_p = _nll_primitive("NllLossBackward0", "nll_loss")
nll_loss2d_p = _nll_primitive("NllLoss2DBackward0", "nll_loss2d")
nll_back_p: Primitive = nary(
    _nll_back,
    inputs=2,
    x=lambda g, target, ignored, reduction: nll_loss_p(g, target, ignored, reduction),
    jvp=lambda tangents, inputs, out, params: nll_back_p(tangents[0], inputs[1], *params),
    batch=_nll_back_batch,
    node_name="NllLossBackwardBackward0",
)


# The whole of it, where rows are of a matrix and all classes count alike: a node saves one number of a row.


def _class_loss(
    row: Row, x: Array, target: Array, ignored: float, is_bounded: bool, is_complete: bool
) -> tuple[Any, Any]:
    """Return the loss of each row, and its logsumexp.

    If `is_bounded`, exponentials do not overflow; if `is_complete`, no target is to be ignored.
    """
    own = row.at(x, target)
    if is_bounded:
        logs = np.log(row.sum(np.exp(x)))
        loss = logs - own
    else:
        top = row.max(x)
        below = np.log(row.sum(exp_below(x - top)))
        loss, logs = below - (own - top), below + top
    return loss if is_complete else where_p(target == ignored, 0, loss), logs


def _class_loss_x(row: Row, g: Array, x: Array, target: Array, logs: Array, ignored: float, is_complete: bool) -> Any:
    share = g if is_complete else where_p(target == ignored, 0, g)
    return share * row.less_one_at(exp_below(x - logs), target)


class_loss_p: Primitive = rowwise(
    "class_loss", _class_loss, x=_class_loss_x, over="axis", labels="target", numbers="ignored",
    static="is_bounded is_complete", hidden=("logs",), of_rows=True,
    batch=lambda x, target, axis, *options: class_loss_p(x, target, axis + 1, *options),
)  # fmt: skip


def _column(target: Any) -> Any:
    column = reshape_p(target, (target.shape[0], 1))
    return column if dtype_of(column) == _int64 else cast_p(column, _int64)


def _flat(losses: Value) -> Value:
    return reshape_p(losses, (losses.shape[0],))


def _reduced(losses: Value, target: Any, ignored: object, reduction: int) -> Value:
    """Return losses that are 0 where they do not count, their sum, or their mean over those that count."""
    if reduction == NONE:
        return losses
    total = sum_p(losses, (0,), False)
    return total if reduction == SUM else total / _counted(target, ignored, dtype_of(losses))


def _counted(target: Any, ignored: object, dtype: Any) -> Value:
    return sum_p(cast_p(target != ignored, dtype), (0,), False)


def _cross_entropy(x: Any, target: Any, ignored: float, reduction: int, wide: bool) -> tuple[Any, ...]:
    """Return the loss, the logsumexp of each row, and how many rows count.

    With `wide` the loss of rows in half precision is in single, as autocast requires.
    """
    if isinstance(target, Payload):
        losses = _flat(class_loss_p(x, _column(target), 1, ignored, False, False))
        return _reduced(losses, target, ignored, reduction), None, None
    _, skipped = _checked(target, x.shape[1], ignored)
    rows = cast_p(x, _single) if is_half(x.dtype) else x
    losses, logs = class_loss_p.op.form_for((rows,)).whole(rows, _column(target), 1, ignored, False, not skipped)
    count = target.size - skipped
    if reduction == NONE:
        loss = losses.reshape(-1)
    else:
        loss = _sum(losses, None, False)
        loss = loss / loss.dtype.type(count) if reduction == MEAN else loss
    return loss if wide or loss.dtype == x.dtype else cast_p(loss, x.dtype), logs, count


def _cross_entropy_x(
    g: Value, x: Value, target: Value, logs: Value | None, count: Any, ignored: float, reduction: int, wide: bool
) -> Any:
    if is_half(dtype_of(x)):  # in whose precision a share of the loss would be rounded before it is multiplied
        x, g, dtype = cast_p(x, _single), cast_p(g, _single), dtype_of(x)
        return cast_p(_cross_entropy_x(g, x, target, logs, count, ignored, reduction, wide), dtype)
    rows = x.shape[0]
    if isinstance(g, TensorBase) and type(count) is not int:  # an array of a device's kernel, which no op has made
        count = None
    if reduction == MEAN:
        g = g / (_counted(target, ignored, dtype_of(x)) if count is None else count)
    share = reshape_p(g, (rows if reduction == NONE else 1, 1))
    rule: Any = class_loss_p.op.form_for((x,)).rules[0]
    return rule(share, x, _column(target), logs, 1, ignored, False, type(count) is int and count == rows)


def _cross_entropy_jvp(tangents: Tangents, inputs: Inputs, out: Any, params: Params) -> Value:
    t, (x, target), (ignored, reduction, wide) = tangents[0], inputs, params
    ones = cast_p(target == target, dtype_of(t))
    slopes = sum_p(t * _cross_entropy_x(ones, x, target, None, None, ignored, NONE, wide), (1,), False)
    return _reduced(slopes, target, ignored, reduction)


def _unfold_cross_entropy(node: Node) -> None:
    """Show the log-softmax that torch takes the likelihood of."""
    saved = node.saved
    if type(saved) is Packed or (type(saved) is not Freed and saved[0][-1]):  # whose loss is wide
        return
    inner = part(node, log_softmax_p.op, node.edges[:1])
    node.op, node.edges, node.__class__ = nll_loss_p.op, (inner, None), nll_loss_p.op.node
    if type(saved) is Freed:
        inner.saved = saved
    else:
        (x, target, *_, ignored, reduction, _), *_ = saved
        node.saved = (target, x.shape, ignored, reduction), None
        inner.saved = ((log_softmax_p(x, 1), 1),)


cross_entropy_p: Primitive = nary(
    _cross_entropy,
    inputs=2,
    x=_cross_entropy_x,
    jvp=_cross_entropy_jvp,
    batch=lambda x, target, ignored, reduction, wide: _nll_batch(log_softmax_p(x, 2), target, ignored, reduction),
    hidden=("logs", "count"),  # of each row its logsumexp; how many rows count
    node_name="NllLossBackward0",
    saved={"x": "self", "ignored": "ignore_index"},
    unfold=_unfold_cross_entropy,
)


def _check_classes(input: Tensor, target: Tensor, weight: Any) -> None:
    a, t = input.array, target.array
    if a.dtype.kind in "biuc":
        raise not_implemented("nll_loss_out_frame", a)
    if of(t.dtype).name not in ("int64", "uint8"):
        if a.ndim > 1 and t.ndim and a.shape[0] != t.shape[0]:
            raise ValueError(f"Expected input batch_size ({a.shape[0]}) to match target batch_size ({t.shape[0]}).")
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {title_of(t.dtype)}: expected scalar type Long but "
            f"found {title_of(t.dtype)}"
        )
    if a.ndim == 0:
        raise ValueError(f"Expected 1 or more dimensions (got {a.ndim})")
    classes = a.shape[1] if a.ndim > 1 else a.shape[0]
    if weight is not None and (weight.array.ndim != 1 or weight.array.shape[0] != classes):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.array.shape)}"
        )
    if a.ndim == 1:
        if t.ndim > 1 or (t.ndim == 1 and t.shape[0] != 1):
            raise ValueError("0D or 1D target tensor expected, multi-target not supported: "
                             f"Expected input batch_size (1) to match target batch_size ({t.shape[0]}).")  # fmt: skip
        return
    if t.ndim == 0 or a.shape[0] != t.shape[0]:
        if a.ndim == 2 and t.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        raise ValueError(
            f"Expected input batch_size ({a.shape[0]}) to match target batch_size ({t.shape[0] if t.ndim else 1})."
        )
    if a.ndim == 2 and t.ndim != 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if tuple(t.shape[1:]) != tuple(a.shape[2:]):
        raise RuntimeError(
            f"Expected target size {[a.shape[0], *a.shape[2:]]}, got {list(t.shape)}"
            if a.ndim != 4
            else f"size mismatch (got input: {list(a.shape)} , target: {list(t.shape)}"
        )


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return the negative log likelihood of classes: ``-weight[target] * input[target]``.

    The mean divides by the sum of the weights of the targets.

    Parameters
    ----------
    input : Tensor
        Log probabilities, of shape (C,), (N, C) or (N, C, ...), with C classes.
    target : Tensor
        Classes, integers from 0 to C - 1, of the shape of `input` without C.
    weight : Tensor, optional
        A weight for each class, of shape (C,). Ones by default.
    size_average : bool, optional
        Deprecated: use `reduction`.
    ignore_index : int, default -100
        Targets of this value add nothing to the loss.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all samples' losses, or return each.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the shape of `target`.

    Raises
    ------
    IndexError
        If a target is no class.
    ValueError
        If the numbers of samples differ.
    RuntimeError
        If the shapes or dtypes do not match in another way.

    Examples
    --------
    >>> log_probs = adjoint.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    >>> adjoint.nn.functional.nll_loss(log_probs, adjoint.tensor([1, 0]), reduction="none")
    tensor([0.2877, 0.6931])
    >>> adjoint.nn.functional.nll_loss(log_probs, adjoint.tensor([1, -100]))  # the second is ignored
    tensor(0.2877)
    """
    code = reduction_of(reduction, size_average, reduce)
    if type(ignore_index) is not int or abs(ignore_index) >= 2**63:
        ignore_index = count_of(index_of(ignore_index, "ignore_index", "nll_loss_nd"), "ignore_index")
    _check_classes(input, target, weight)
    if input.array.ndim == 1 and target.array.ndim == 1:
        out = _class_losses(input.unsqueeze(0), target, weight, ignore_index, code)
        return out
    return _class_losses(input, target, weight, ignore_index, code)


def _class_losses(input: Tensor, target: Tensor, weight: Any, ignored: int, code: int) -> Tensor:
    primitive = nll_loss_p if input.array.ndim < 3 else nll_loss2d_p
    if weight is None:
        return primitive(input, target, ignored, code)
    losses, scale = primitive(input, target, ignored, NONE), _label_weights(weight, target, ignored)
    losses = mul_p(losses, scale)
    total = losses if code == NONE else losses.sum() if code == SUM else losses.sum() / scale.sum()
    return fold(total, primitive.op.title, input, reduction=code, ignore_index=ignored % 2**64)


def _label_weights(weight: Tensor, target: Tensor, ignored: int) -> Tensor:
    """Return the weight of each label, zero where it is to be ignored."""
    skip = target == ignored
    picked = gather_p(weight, reshape_p(where_p(skip, 0, target), (-1,)), 0).reshape(tuple(target.array.shape))
    return where_p(skip, 0, picked)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Return the cross entropy of logits and classes: ``-weight[target] * log_softmax(input)[target]``.

    The mean divides by the sum of the weights of the targets; with probabilities, by the number of samples. The
    gradient for the logits of a sample is ``softmax(input)`` minus the target probabilities.

    Parameters
    ----------
    input : Tensor
        Logits, of shape (C,), (N, C) or (N, C, ...), with C classes.
    target : Tensor
        Classes, integers from 0 to C - 1, of the shape of `input` without C; or floats of the shape of `input`, the
        probabilities of all classes.
    weight : Tensor, optional
        A weight for each class, of shape (C,). Ones by default.
    size_average : bool, optional
        Deprecated: use `reduction`.
    ignore_index : int, default -100
        Targets of this value add nothing to the loss.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all samples' losses, or return each.
    label_smoothing : float, default 0.0
        Fraction of the target probability that is distributed evenly over all classes.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the shape of `target` without C.

    Raises
    ------
    IndexError
        If a target is no class.
    ValueError
        If the numbers of samples differ.
    RuntimeError
        If the shapes or dtypes do not match in another way.

    Examples
    --------
    >>> logits = adjoint.tensor([[2.0, 0.0], [0.0, 0.0]], requires_grad=True)
    >>> loss = adjoint.nn.functional.cross_entropy(logits, adjoint.tensor([0, 1]))
    >>> loss
    tensor(0.4100, grad_fn=<NllLossBackward0>)
    >>> loss.backward()
    >>> logits.grad
    tensor([[-0.0596,  0.0596],
            [ 0.2500, -0.2500]])
    >>> adjoint.nn.functional.cross_entropy(logits.detach(), adjoint.tensor([[0.5, 0.5], [1.0, 0.0]]), reduction="none")
    tensor([1.1269, 0.6931])
    """
    code = reduction_of(reduction, size_average, reduce)
    a, t = input.array, target.array
    if a.ndim == 0:
        kind = RuntimeError if t.ndim == 0 and of(t.dtype).category < 2 else IndexError
        raise kind("Dimension out of range: cross_entropy() needs a dimension of classes, and was given a 0-d tensor")
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    axis = 1 if a.ndim > 1 else 0
    if a.shape == t.shape and a.ndim > 1 and of(t.dtype).category != 2:
        raise RuntimeError(f"Expected floating point type for target with class probabilities, got {title_of(t.dtype)}")
    if a.shape == t.shape and of(t.dtype).category >= 2:
        return _of_probabilities(input, target, weight, ignore_index, code, label_smoothing, axis)
    _check_classes(input, target, weight)
    if weight is None and not label_smoothing and a.ndim == 2 and a.shape[1] and not isinstance(a, Payload):
        if modes.unusual and code != NONE and a.dtype.itemsize == 2 and _is_widened(input):
            return _in_single(input, target, ignore_index, code)
        return cross_entropy_p(input, target, ignore_index, code, False)
    logs = log_softmax_p(input, axis)
    if a.ndim == 1 and t.ndim == 1:
        logs, axis = logs.unsqueeze(0), 1
    if not label_smoothing:
        return _class_losses(logs, target, weight, ignore_index, code)
    return _smoothed(logs, target, weight, ignore_index, code, label_smoothing, axis)


def _is_widened(input: Tensor) -> bool:
    """Return whether autocast requires single precision of rows, which kernels compute in anyway."""
    return input.device.type in modes.local.autocast_on and lifting(False) is False


def _in_single(input: Tensor, target: Tensor, ignored: int, code: int) -> Tensor:
    """Return a loss in single precision of rows that are not converted: of a vocabulary's size, they are large."""
    policy, modes.local.autocast = modes.local.autocast, None
    try:
        return cross_entropy_p(input, target, ignored, code, True)
    finally:
        modes.local.autocast = policy


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: object = None,
) -> Tensor:  # fmt: skip
    """Return the cross entropy of ``linear(input, linear_weight, linear_bias)`` and `target`.

    Parameters
    ----------
    input : Tensor
        Features, (N, D) or (D,).
    linear_weight : Tensor
        Weight of the layer, (C, D).
    target : Tensor
        Classes, as of `cross_entropy`.
    linear_bias : Tensor, optional
        Bias of the layer, (C,).
    weight : Tensor, optional
        Factor of each class, (C,).
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.
    ignore_index : int, optional
        Targets of this value add nothing to the loss.
    label_smoothing : float, default 0.0
        Share of the target that is spread evenly over all classes, from 0 to 1.
    options : object, optional
        Accepted for compatibility: ways to save memory, which change nothing here.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per sample.

    Examples
    --------
    >>> x, weight = adjoint.eye(2), adjoint.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    >>> adjoint.nn.functional.linear_cross_entropy(x, weight, adjoint.tensor([0, 1]))
    tensor(0.5514)
    """
    shape = tuple(linear_weight.array.shape)
    if input.array.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.array.ndim}")
    if len(shape) < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {len(shape)}")
    if input.array.shape[-1] != shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.array.shape[-1]} and {shape[-1]}, respectively"
        )
    if ignore_index is not None and target.array.dtype.kind == "f":
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if len(shape) > 2 and input.array.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {shape} requires batched input, (N, {shape[-1]}), got "
            f"unbatched input with shape {tuple(input.array.shape)}"
        )
    if linear_bias is not None and tuple(linear_bias.array.shape) != shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {shape[:-1]}, got {tuple(linear_bias.array.shape)}")
    flat = linear_weight if len(shape) == 2 else reshape_p(linear_weight, (math.prod(shape[:-1]), shape[-1]))
    bias = linear_bias if linear_bias is None else reshape_p(linear_bias, (math.prod(shape[:-1]),))
    logits = linear(input, flat, bias)
    if len(shape) != 2:
        logits = reshape_p(logits, (*logits.array.shape[:-1], *shape[:-1]))
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _class_weights(weight: Value, rank: int, axis: int) -> Tensor:
    return reshape_p(weight, tuple(-1 if i == axis else 1 for i in range(rank)))


@autocasting
def _of_probabilities(
    input: Tensor, target: Tensor, weight: Any, ignore_index: int, code: int, smoothing: float, axis: int
) -> Tensor:
    shape = input.array.shape
    classes = shape[axis]
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if weight is not None and (weight.array.ndim != 1 or weight.array.size != classes):
        raise RuntimeError("weight tensor should be defined either for all or no classes")
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    product = mul_p(log_softmax_p(input, axis), target)
    if weight is not None:
        product = mul_p(product, _class_weights(weight, len(shape), axis))
    if code == NONE:
        return -sum_p(product, (axis,), False)
    total = -product.sum()
    return total if code == SUM else total / (math.prod(shape) // classes if classes else 1)


def _smoothed(
    logs: Tensor, target: Tensor, weight: Any, ignored: int, code: int, smoothing: float, axis: int
) -> Tensor:
    hard = _class_losses(logs, target, weight, ignored, code)
    classes = logs.array.shape[axis]
    even = logs if weight is None else mul_p(logs, _class_weights(weight, logs.array.ndim, axis))
    even = -sum_p(even, (axis,), False)
    skip = target == ignored
    even = where_p(skip, 0, even)
    if code == SUM:
        even = even.sum()
    elif code == MEAN:
        counted = (~skip).sum() if weight is None else _label_weights(weight, target, ignored).sum()
        even = even.sum() / counted
    smoothed: Tensor = (1 - smoothing) * hard + (smoothing / classes) * even
    return smoothed
