"""Attention: weighted means of values, the weights from products of queries and keys."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Params, Tangents, Tensor, Value
from ..core import modes
from ..core.device import of as device_of
from ..core.device import place_array
from ..core.dtypes import of
from ..core.folding import fold
from ..core.observation import observer
from ..core.payload import top_payload
from ..core.recorders import Primitive, nary, parametric
from ..core.tensor import TensorBase
from ..core.views import has_history
from .arguments import constant_beside
from .arrange import constant_pad_nd
from .contraction import linear, matmul
from .dimensions import transpose_p
from .dropout import dropout
from .elementwise import add_p, mul_p
from .join import cat
from .literals import depth_outside
from .piecewise import where_p
from .precision import autocasting
from .random import stream_of
from .reduce import all_p
from .shape import cast_p, expand_p, reshape_p
from .softmax import softmax_p


class _Choice(threading.local):
    """What a program allows in this thread: kernels that compute attention in blocks, or only its steps."""

    blocks = True


choice = _Choice()

# --- Without a mask, in blocks ----------------------------------------------------------------------


def _scores(q: Value, k: Value, scale: float, causal: bool, mask: Value | None = None) -> Any:
    scores: Any = (q * scale) @ k.swapaxes(-1, -2)
    if causal:
        place = device_of(scores.array if isinstance(scores, TensorBase) else scores)
        scores = where_p(place_array(np.tri(*scores.shape[-2:], dtype=np.bool_), place), scores, -math.inf)
    if mask is None:
        return scores
    is_bool = (mask.array if isinstance(mask, TensorBase) else mask).dtype.kind == "b"
    return where_p(mask, scores, -math.inf) if is_bool else scores + mask


def _attend(q: Array, k: Array, v: Array, scale: float, causal: bool) -> tuple[Array, None, Array]:
    weights: Any = _weights_of(q, k, scale, causal)
    # Beside a Python scalar NumPy computes bfloat16 in float32.
    return (weights @ v).astype(v.dtype, copy=False), None, weights.astype(v.dtype, copy=False)


def _weights_of(q: Value, k: Value, scale: float, causal: bool, mask: Value | None = None) -> Tensor:
    scores = _scores(q, k, scale, causal, mask)
    weights = softmax_p(scores, scores.ndim - 1)
    if mask is None:
        return weights
    return where_p(all_p(scores == -math.inf, (scores.ndim - 1,), True), 0, weights)


def _slopes(weights: Value, change: Any) -> Any:
    """Return the change of scores that a change of weights comes from: the Jacobian is symmetric."""
    product = weights * change
    return product - weights * product.sum(-1, keepdims=True)


def _attend_backward(
    g: Any, q: Value, k: Any, v: Value, out: Value, logs: Any, weights: Value, scale: Any, causal: Any,
    needs: tuple[bool, ...],
) -> tuple[Any, Any, Value]:  # fmt: skip
    # Found again where they are not saved; and by ops where these are differentiated.
    if weights is None or isinstance(q, TensorBase):
        weights = _weights_of(q, k, scale, causal)
    change = _slopes(weights, g @ v.swapaxes(-1, -2))
    return change @ k * scale, change.swapaxes(-1, -2) @ q * scale, weights.swapaxes(-1, -2) @ g


def _attend_jvp(tangents: Tangents, inputs: Inputs, out: Any, params: Params) -> Value | None:
    (tq, tk, tv), (q, k, v), (scale, causal) = tangents, inputs, params
    weights = _weights_of(q, k, scale, causal)
    total = None if tv is None else weights @ tv
    for left, right in ((tq, k), (q, tk)):
        if left is not None and right is not None:
            part = _slopes(weights, (left * scale) @ right.swapaxes(-1, -2)) @ v
            total = part if total is None else total + part
    return total


attend_p: Primitive = nary(
    _attend,
    inputs=3,
    joint=_attend_backward,
    jvp=_attend_jvp,
    batch=lambda q, k, v, scale, causal: attend_p(q, k, v, scale, causal),
    hidden=("logs", "weights"),  # logarithms of the sums of exponentials, from which weights are found again; or those
    name="attend",
    node_name="ScaledDotProductFlashAttentionForCpuBackward0",
    saved={"q": "query", "k": "key", "v": "value", "causal": "is_causal"},
)


# --- With a mask or dropped weights, and the logarithms of sums as a result --------------------------


def _dropout_mask(q: Array, source: int, keep: float, seed: int) -> Array:
    """Return the dropout mask of the attention weights of `q` for a seed: ones and zeros."""
    found: Array = np.random.Generator(np.random.Philox(seed)).random((*q.shape[:-1], source)) < keep
    return place_array(found.astype(q.dtype), device_of(q))  # type: ignore[no-any-return]


def _dropout_mask_batch(q: Value, source: int, keep: float, seed: int) -> Value:
    """Return the same mask for each element of a batch: they have one seed."""
    one = dropout_mask_p(q[0], source, keep, seed)
    return expand_p(reshape_p(one, (1, *one.shape)), (q.shape[0], *one.shape))


dropout_mask_p = parametric(_dropout_mask, name="attention_dropout_mask", batch=_dropout_mask_batch)


def _kept_of(q: Value, k: Value, keep: float, seed: int) -> Any:
    """Return by what weights were multiplied when some were dropped, or None."""
    return None if keep == 1 else dropout_mask_p(q, k.shape[-2], keep, seed) / keep


def _times(x: Value, kept: Any) -> Any:
    return x if kept is None else x * kept


def _masked_flash(
    q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool, keep: float, seed: int
) -> tuple[Array, Array]:
    scores = _scores(q, k, scale, causal, mask)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - where_p(top == -math.inf, 0, top))
    total = weights.sum(-1, keepdims=True)
    nothing = total == 0  # a query that may look at nothing takes nothing
    total = where_p(nothing, 1, total)
    logs: Any = where_p(nothing, math.inf, top + np.log(total))
    out = _times(weights / total, _kept_of(q, k, keep, seed)) @ v
    return out.astype(q.dtype, copy=False), logs[..., 0].astype(q.dtype, copy=False)


def _flash(q: Array, k: Array, v: Array, scale: float, causal: bool) -> tuple[Array, Array]:
    return _masked_flash(q, k, v, None, scale, causal, 1.0, 0)


def _flash_backward(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, logs: Array, scale: float, causal: bool,
    keep: float, seed: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    weights = np.exp(_scores(q, k, scale, causal, mask) - logs[..., None])
    kept = _kept_of(q, k, keep, seed)
    change = weights * (_times(g @ v.swapaxes(-1, -2), kept) - (g * out).sum(-1, keepdims=True)) * scale
    found = change @ k, change.swapaxes(-1, -2) @ q, _times(weights, kept).swapaxes(-1, -2) @ g
    gq, gk, gv = (x.astype(q.dtype, copy=False) for x in found)
    return gq, gk, gv


# Weights are found again from the logarithms. Where the gradients are differentiated, formulas compute them instead.
flash_backward_p: Any = nary(_flash_backward, inputs=7, batch="same", outputs=True, name="flash_backward")


def _is_recorded(*values: Value | None) -> bool:
    """Return whether what is computed of these values may be differentiated."""
    lifted = any(isinstance(v, TensorBase) for v in values)
    return (lifted and modes.is_grad_enabled()) or top_payload(values) is not None


def _flash_gradients(
    g: Any, of_logs: Any, q: Value, k: Value, v: Value, mask: Value | None, scale: float, causal: bool, keep: float,
    seed: int,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Return the gradients of queries, keys, values and scores, by formulas."""
    weights, kept = _weights_of(q, k, scale, causal, mask), _kept_of(q, k, keep, seed)
    change: Any = None
    gv = None
    if g is not None:
        change = _slopes(weights, _times(g @ v.swapaxes(-1, -2), kept))
        gv = _times(weights, kept).swapaxes(-1, -2) @ g
    if of_logs is not None:
        part = weights * of_logs.reshape((*of_logs.shape, 1))
        change = part if change is None else change + part
    return change @ k * scale, change.swapaxes(-1, -2) @ q * scale, gv, change


def _flash_joint(
    g: Any, q: Value, k: Value, v: Value, out: tuple[Value, ...], scale: float, causal: bool, needs: Sequence[bool]
) -> Any:
    g, of_logs = g
    if of_logs is None and not _is_recorded(g, q, k, v):
        return flash_backward_p(g, q, k, v, None, *out, scale, causal, 1.0, 0)
    return _flash_gradients(g, of_logs, q, k, v, None, scale, causal, 1.0, 0)[:3]


def _flash_jvp(tangents: Tangents, inputs: Inputs, out: tuple[Value, ...], params: Params) -> Any:
    (tq, tk, _), (q, k, _), (scale, causal) = tangents, inputs, params
    of_logs = None
    for left, right in ((tq, k), (q, tk)):
        if left is not None and right is not None:
            change = (left * scale) @ right.swapaxes(-1, -2)
            part = (_weights_of(q, k, scale, causal) * change).sum(-1)
            of_logs = part if of_logs is None else of_logs + part
    return _attend_jvp(tangents, inputs, out, params), of_logs


# The logarithms are a result of their own: a captured program passes them on to its backward pass.
flash_p: Any = nary(
    _flash,
    inputs=3,
    joint=_flash_joint,
    jvp=_flash_jvp,
    batch="same",
    outputs=True,
    node_name="ScaledDotProductFlashAttentionBackward0",
    saved={"q": "query", "k": "key", "v": "value", "causal": "is_causal"},
)


def _masked_joint(
    g: Any, q: Value, k: Value, v: Value, mask: Value | None, out: tuple[Value, ...], scale: float, causal: bool,
    keep: float, seed: int, needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    g, of_logs = g
    if of_logs is None and not needs[3] and not _is_recorded(g, q, k, v, mask):
        return (*flash_backward_p(g, q, k, v, mask, *out, scale, causal, keep, seed), None)
    *found, change = _flash_gradients(g, of_logs, q, k, v, mask, scale, causal, keep, seed)
    return (*found, change if needs[3] else None)


def _masked_jvp(
    tangents: Tangents, inputs: Inputs, out: tuple[Value, ...], params: Params,
) -> tuple[Value | None, Value | None]:  # fmt: skip
    (tq, tk, tv, tm), (q, k, v, mask), (scale, causal, keep, seed) = tangents, inputs, params
    weights, kept = _weights_of(q, k, scale, causal, mask), _kept_of(q, k, keep, seed)
    change = tm
    for left, right in ((tq, k), (q, tk)):
        if left is not None and right is not None:
            part = (left * scale) @ right.swapaxes(-1, -2)
            change = part if change is None else change + part
    total = None if tv is None else _times(weights, kept) @ tv
    if change is None:
        return total, None
    part = _times(_slopes(weights, change), kept) @ v
    return (part if total is None else total + part), (weights * change).sum(-1)


def _masked_batch(q: Value, k: Value, v: Value, mask: Value, *params: object) -> Any:
    if mask is not None and mask.ndim < q.ndim:
        mask = reshape_p(mask, (mask.shape[0], *(1,) * (q.ndim - mask.ndim), *mask.shape[1:]))
    return masked_flash_p(q, k, v, mask, *params)


# With a mask, or weights that are dropped.
masked_flash_p: Any = nary(
    _masked_flash,
    inputs=4,
    joint=_masked_joint,
    jvp=_masked_jvp,
    batch=_masked_batch,
    outputs=True,
    node_name="ScaledDotProductEfficientAttentionBackward0",
    saved={"q": "query", "k": "key", "v": "value", "mask": "attn_bias", "causal": "is_causal"},
)


def _go_together(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> bool:
    """Return whether heads of queries, keys and values, of some shapes, match one another, and none is empty."""
    return q[:-2] == k[:-2] == v[:-2] and q[-1] == k[-1] > 0 and k[-2] == v[-2] > 0


def _in_blocks(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Any:
    """Return attention in one kernel, where there is one for arrays of this kind and they are large enough; or None."""
    q, k, v = query.array, key.array, value.array
    if type(q) is not type(k) or type(q) is not type(v) or not _go_together(q.shape, k.shape, v.shape):
        return None
    if flash_p.op.is_overridden(q, k, v, scale, causal):
        return flash_p(query, key, value, scale, causal)[0]
    if modes.fusing() and attend_p.op.is_overridden(q, k, v, scale, causal):
        return attend_p(query, key, value, scale, causal)
    return None


def _masked_in_blocks(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, scale: float, causal: bool, dropped: float
) -> Any:
    """Return attention with a mask, or weights dropped, in one kernel on a GPU where there is one; or None."""
    q, k, v = query.array, key.array, value.array
    if type(q) is not type(k) or type(q) is not type(v) or not _go_together(q.shape, k.shape, v.shape):
        return None
    if not masked_flash_p.op.is_overridden(q, k, v, mask, scale, causal, 1.0, 0):
        return None
    if mask is not None and not _fits(mask, q, k):
        return None
    seed = 0
    if dropped > 0:
        if not dropped < 1 or observer() is not None:  # a captured program samples in steps of its own
            return None
        seed = int(stream_of(None).random((1,), np.int64)[0])
    return masked_flash_p(query, key, value, mask, scale, causal, 1.0 - dropped, seed)[0]


def _fits(mask: Tensor, q: Value, k: Any) -> bool:
    """Return whether a kernel can read a mask, and it makes no gradient of its own necessary."""
    array, shape = mask.array, (*q.shape[:-1], k.shape[-2])
    if type(array) is not type(q) or (has_history(mask) and modes.is_grad_enabled()):
        return False
    if array.dtype not in (np.bool_, np.float32, q.dtype) or array.ndim > len(shape) or not array.ndim:
        return False
    return all(n in (1, m) for n, m in zip(reversed(array.shape), reversed(shape)))


def _grouped(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool) -> Tensor | None:
    """Return attention where a head of keys serves several of queries, in one kernel on a GPU; or None."""
    heads = key.array.shape[-3]
    if (
        not heads
        or value.array.shape[-3] != heads
        or not flash_p.op.is_overridden(query.array, key.array, value.array, scale, causal)
    ):
        return None
    groups = query.array.shape[-3] // heads
    k, v = (x.unsqueeze(-3).expand(*x.array.shape[:-2], groups, *x.array.shape[-2:]) for x in (key, value))
    found = _in_blocks(query.unflatten(-3, (heads, groups)), k, v, scale, causal)
    return None if found is None else found.flatten(-4, -3)


# --- In general -------------------------------------------------------------------------------------


def _check_operands(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, is_causal: bool) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, TensorBase):
            raise TypeError(f"scaled_dot_product_attention(): argument '{name}' must be Tensor, not {type(x).__name__}")
    dtypes = [x.array.dtype for x in (query, key, value)]
    if dtypes[0] != dtypes[1] or dtypes[0] != dtypes[2]:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{of(dtypes[0]).name} key.dtype: {of(dtypes[1]).name} and value.dtype: {of(dtypes[2]).name} instead."
        )
    ranks = [x.array.ndim for x in (query, key, value)]
    if min(ranks) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{ranks[0]}, key.dim: {ranks[1]} and value.dim: {ranks[2]} instead."
        )
    if attn_mask is not None:
        kind = attn_mask.array.dtype
        if kind != np.bool_ and of(kind).category != 2:
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{of(kind).name} and  query.dtype: {of(dtypes[0]).name} instead."
            )
        if is_causal:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )


def _weights(query: Tensor, key: Tensor, attn_mask: Any, is_causal: bool, scale: float | None) -> Tensor:
    """Return how much each query takes of each key's value."""
    length, width = query.array.shape[-2:]
    # As torch, the root of the scale goes to each side: products of halves stay in range.
    side = math.sqrt(1 / math.sqrt(width) if scale is None and width else 1.0 if scale is None else abs(scale))
    left = mul_p(query, -side if scale is not None and scale < 0 else side)
    scores = matmul(left, transpose_p(mul_p(key, side), key.array.ndim - 2, key.array.ndim - 1))
    if is_causal:
        there = constant_beside(np.tri(length, key.array.shape[-2], dtype=bool), query)
        scores = where_p(there, scores, -math.inf)
    elif attn_mask is not None and attn_mask.array.dtype == np.bool_:
        scores = where_p(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = add_p(scores, attn_mask)
    weights = softmax_p(scores, scores.array.ndim - 1) if scores.array.size else scores
    if attn_mask is None:
        return weights
    # A query that may look at nothing takes nothing.
    nothing = (scores.detach() == -math.inf).all(-1, keepdim=True)
    return where_p(nothing, 0, weights)


@autocasting
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Return attention: ``softmax(query @ key.mT * scale + mask) @ value``.

    Parameters
    ----------
    query : Tensor
        Of shape (..., L, E): L queries of width E.
    key : Tensor
        Of shape (..., S, E): S keys.
    value : Tensor
        Of shape (..., S, V): a value for each key.
    attn_mask : Tensor, optional
        Broadcast to (..., L, S). If bool, False excludes a key for a query; a float is added to the scores.
    dropout_p : float, default 0.0
        Probability to set an attention weight to zero. It applies always: pass 0 in evaluation.
    is_causal : bool, default False
        Query i sees keys 0 to i only.
    scale : float, optional
        Factor of the scores; by default ``1 / sqrt(E)``.
    enable_gqa : bool, default False
        Dimension -3 holds heads, and each head of `key` and `value` serves several heads of `query`.

    Returns
    -------
    Tensor
        Of shape (..., L, V): a mean of the values for each query, weighted by how well the keys match. Zero for a
        query that an `attn_mask` shows no key.

    Raises
    ------
    RuntimeError
        If the dtypes differ, there are fewer than two dimensions, the shapes do not fit, or `attn_mask` and
        `is_causal` are both given.

    Examples
    --------
    >>> q, v = adjoint.zeros(1, 2, 4), adjoint.tensor([[[1.0], [3.0]]])
    >>> adjoint.nn.functional.scaled_dot_product_attention(q, q, v)
    tensor([[[2.],
             [2.]]])
    >>> adjoint.nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    _check_operands(query, key, value, attn_mask, is_causal)
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    given = (query, key, value)
    low = query.array.dtype
    if low.itemsize == 2 and device_of(query.array).type == "cpu" and modes.local.autocast is None:
        # Products of 16 bits would be rounded before their exponentials are taken.
        query, key, value = (cast_p(x, np.float32) for x in (query, key, value))
        if attn_mask is not None and attn_mask.array.dtype == low:
            attn_mask = cast_p(attn_mask, np.float32)
        wide = scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        return cast_p(wide, low)
    plain = attn_mask is None and not dropout_p > 0 and choice.blocks
    factor = 1 / math.sqrt(query.array.shape[-1] or 1) if scale is None else scale
    found: Tensor | None = None
    if enable_gqa:
        heads = query.array.shape[-3]
        if heads % key.array.shape[-3] or heads % value.array.shape[-3]:
            raise RuntimeError(
                "Number of heads in key and value must divide the number of heads in query: got "
                f"{heads}, {key.array.shape[-3]} and {value.array.shape[-3]}"
            )
        found = _grouped(query, key, value, factor, is_causal) if plain else None
        if found is None:
            key = key.repeat_interleave(heads // key.array.shape[-3], -3)
            value = value.repeat_interleave(heads // value.array.shape[-3], -3)
    if found is None and plain:
        found = _in_blocks(query, key, value, factor, is_causal)
    elif found is None and choice.blocks:
        found = _masked_in_blocks(query, key, value, attn_mask, factor, is_causal, dropout_p)
    if found is not None:
        return found
    weights = _weights(query, key, attn_mask, is_causal, scale)
    if dropout_p > 0:
        weights = dropout(weights.contiguous(), dropout_p, True)  # as torch's are: random numbers follow memory order
    out = matmul(weights, value)
    if dropout_p > 0 or query.array.ndim != 4 or (attn_mask is not None and attn_mask.requires_grad):
        return out
    return fold(out, attend_p.op.title, *given, dropout_p=dropout_p, is_causal=is_causal, scale=scale)


# --- Many heads -------------------------------------------------------------------------------------


def _canonical_mask(
    mask: Any, name: str, other_type: Any, other_name: str, target: Any, check_other: bool = True
) -> Any:
    """Return a mask as numbers to add: -inf where a bool mask is True."""
    if mask is None:
        return None
    kind = of(mask.array.dtype)
    if kind.name != "bool" and kind.category != 2:
        raise RuntimeError(f"only bool and floating types of {name} are supported")
    if check_other and other_type is not None and kind is not other_type:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=depth_outside(),
        )
    if kind.category == 2:
        return mask
    return where_p(mask, constant_beside(np.array(-math.inf, target), mask), 0)


def _in_projection(
    query: Tensor, key: Tensor, value: Tensor, packed: Any, separate: tuple[Any, Any, Any] | None, bias: Any
) -> tuple[Tensor, ...]:
    width = query.array.shape[-1]
    weights: Any = separate
    if separate is None:
        weights = packed.chunk(3) if packed.array.shape[0] == 3 * width else packed.split(width)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if separate is None and query is key and key is value:
        return tuple(linear(query, packed, bias).chunk(3, -1))
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int) -> bool:
    """Return whether there is a batch, or raise an error about shapes that do not go together."""
    rank = query.array.ndim
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    if key.array.ndim != rank or value.array.ndim != rank:
        raise AssertionError(
            f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`, expected `key` and `value` to be "
            f"{rank}-D but found {key.array.ndim}-D and {value.array.ndim}-D tensors respectively"
        )
    if padding is not None and padding.array.ndim != rank - 1:
        raise AssertionError(
            f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`, expected `key_padding_mask` to be "
            f"`None` or {rank - 1}-D but found {padding.array.ndim}-D tensor instead"
        )
    if mask is not None:
        if mask.array.ndim not in (2, 3):
            raise AssertionError(
                f"expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.array.ndim}-D tensor instead"
            )
        if rank == 2 and mask.array.ndim == 3:
            expected = (heads, query.array.shape[0], key.array.shape[0])
            if tuple(mask.array.shape) != expected:
                raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(mask.array.shape)}")
    return bool(rank == 3)


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Project queries, keys and values, attend in `num_heads` parts, join and project: what nn.MultiheadAttention does.

    Sequences come first: (L, N, E), or (L, E) without a batch. Return the result and, if `need_weights`, the
    weights, averaged over heads or (N, heads, L, S).
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        own = (query is key, key is value)
        query = query.unsqueeze(1)
        key = query if own[0] else key.unsqueeze(1)
        value = key if own[1] else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, count, width = query.array.shape
    source = key.array.shape[0]
    kind = query.array.dtype
    mask_type = None if attn_mask is None else of(attn_mask.array.dtype)
    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask", mask_type, "attn_mask", kind)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", kind, False)
        if key_padding_mask is not None:
            is_causal = False
    head = _head_width(width, embed_dim_to_check, num_heads)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    _check_projected(key, value, in_proj_weight, separate)
    q, k, v = _in_projection(query, key, value, in_proj_weight, separate, in_proj_bias)
    attn_mask = _fitted_mask(attn_mask, length, source, count * num_heads)
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key and value")
        k, v = cat([k, bias_k.repeat(1, count, 1)]), cat([v, bias_v.repeat(1, count, 1)])
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    elif bias_k is not None or bias_v is not None:
        raise AssertionError("bias_k and bias_v must be given together")
    q = _by_heads(q, length, count, num_heads, head)
    k = _static_or(static_k, "static_k", k, count, num_heads, head)
    v = _static_or(static_v, "static_v", v, count, num_heads, head)
    if add_zero_attn:
        zero = constant_beside(np.zeros((count * num_heads, 1, head), kind), k)
        k, v = cat([k, zero], 1), cat([v, zero], 1)
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    source = k.array.shape[1]
    attn_mask = _with_padding(attn_mask, key_padding_mask, count, num_heads, source)
    if not training:
        dropout_p = 0.0
    weights = None
    if need_weights:
        if is_causal and attn_mask is None:
            raise AssertionError("FIXME: is_causal not implemented for need_weights")
        weights = _head_weights(q, k, attn_mask, dropout_p)
        out = matmul(weights, v)
    else:
        out = _attended(q, k, v, count, attn_mask, dropout_p, is_causal)
    out = linear(transpose_p(out, 0, 1).reshape(length * count, width), out_proj_weight, out_proj_bias)
    out = out.view(length, count, out.array.shape[1])
    shown = None
    if weights is not None:
        shown = weights.view(count, num_heads, length, source)
        shown = shown.mean(dim=1) if average_attn_weights else shown
        shown = shown if batched else shown.squeeze(0)
    return (out if batched else out.squeeze(1)), shown


def _head_width(width: int, expected: int, heads: int) -> int:
    if width != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {width}")
    if width % heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    return width // heads


def _check_projected(key: Tensor, value: Tensor, packed: Value | None, separate: tuple[Any, Any, Any] | None) -> None:
    """Raise where keys and values do not go together, or weights to project them with are missing."""
    of_key, of_value = tuple(key.array.shape), tuple(value.array.shape)
    if separate is None:
        if of_key != of_value:
            raise AssertionError(f"key shape {of_key} does not match value shape {of_value}")
        if packed is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        return
    if of_key[:2] != of_value[:2]:
        raise AssertionError(f"key's sequence and batch dims {of_key[:2]} do not match value's {of_value[:2]}")
    for weight, name in zip(separate, "qkv", strict=True):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")


def _with_padding(mask: Tensor | None, padding: Any, count: int, heads: int, source: int) -> Any:
    """Return a mask of (count * heads, L or 1, source) that leaves out padded keys as well."""
    if padding is None:
        return mask
    if tuple(padding.array.shape) != (count, source):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(count, source)}, but got {tuple(padding.array.shape)}"
        )
    padding = padding.view(count, 1, 1, source).expand(-1, heads, -1, -1).reshape(count * heads, 1, source)
    return padding if mask is None else add_p(mask, padding)


def _head_weights(q: Tensor, k: Tensor, mask: Value | None, dropout_p: float) -> Tensor:
    """Return the weights of every head, for a caller that wants to see them."""
    weights = matmul(mul_p(q, math.sqrt(1.0 / q.array.shape[-1])), transpose_p(k, 1, 2))
    if mask is not None:
        weights = add_p(weights, mask)
    weights = softmax_p(weights, 2)
    return dropout(weights.contiguous(), dropout_p) if dropout_p > 0 else weights


def _attended(q: Tensor, k: Tensor, v: Tensor, count: int, mask: Any, dropout_p: float, is_causal: bool) -> Tensor:
    """Attend in all heads at once, without keeping their weights."""
    (rows, length, head), source = q.array.shape, k.array.shape[1]
    heads = rows // count
    if mask is not None:
        shared = mask.array.shape[0] == 1 and mask.array.ndim == 3
        mask = mask.unsqueeze(0) if shared else mask.view(count, heads, -1, source)
    out = scaled_dot_product_attention(
        q.view(count, heads, length, head), k.view(count, heads, source, head), v.view(count, heads, source, head),
        mask, dropout_p, is_causal,
    )  # fmt: skip
    return out.reshape(rows, length, head)


def _fitted_mask(mask: Tensor | None, length: int, source: int, heads: int) -> Any:
    if mask is None:
        return None
    expected = (length, source) if mask.array.ndim == 2 else (heads, length, source)
    if tuple(mask.array.shape) != expected:
        raise RuntimeError(
            f"The shape of the {mask.array.ndim}D attn_mask is {tuple(mask.array.shape)}, but should be {expected}."
        )
    return mask.unsqueeze(0) if mask.array.ndim == 2 else mask


def _one_more(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else constant_pad_nd(mask, (0, 1), 0)


def _by_heads(x: Tensor, length: int, count: int, heads: int, width: int) -> Tensor:
    return transpose_p(x.reshape(length, count * heads, width), 0, 1)


def _static_or(x: Tensor | None, name: str, other: Tensor, count: int, heads: int, width: int) -> Tensor:
    """Return keys or values that are given as they are, or else those that were projected, by heads."""
    if x is None:
        return _by_heads(other, other.array.shape[0], count, heads, width)
    if x.array.shape[0] != count * heads or x.array.shape[2] != width:
        raise AssertionError(
            f"expecting {name} of {count * heads} heads of width {width}, but got {tuple(x.array.shape)}"
        )
    return x
