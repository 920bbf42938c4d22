"""Reductions and normalizations that leave out what a mask says: ``torch.masked``.

A mask is true where an element counts, and is broadcast to the input. What is left out is replaced by a value that
changes nothing, so that every function is one of adjoint's own, with its gradients.
"""

from __future__ import annotations

import math
from typing import Any

from .core import dtypes
from .ops.arguments import dims_in, require_tensor
from .ops.measure import vector_norm
from .tensor import Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

Dims = int | tuple[int, ...] | list[int] | None


def _spread(input: Tensor, mask: Tensor) -> Tensor:
    """Return the mask as booleans of the input's shape."""
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return mask.broadcast_to(tuple(input.shape)).bool()


def _filled(input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """Return the input with `value` where the mask leaves out; an infinite one is the bound of an integer dtype."""
    require_tensor(input, "input", "masked")
    if mask is None:
        return input
    if math.isinf(value) and not (input.is_floating_point() or input.is_complex()):
        bounds = dtypes.iinfo(input.dtype)
        value = bounds.max if value > 0 else bounds.min
    return input.where(_spread(input, mask), input.new_full((), value))


def _axes(input: Tensor, dim: Dims) -> tuple[int, ...]:
    return dims_in(None if dim == () else dim, input.ndim)


def _summed_dtype(input: Tensor, dtype: Any) -> Any:
    require_tensor(input, "input", "masked")
    whole = not (input.is_floating_point() or input.is_complex())
    return dtype or (dtypes.int64 if whole else input.dtype)


# --- Reductions -----------------------------------------------------------------------------------------


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Add up what the mask lets through.

    Examples
    --------
    >>> adjoint.masked.sum(adjoint.tensor([1.0, 2.0, 4.0]), mask=adjoint.tensor([True, False, True]))
    tensor(5.)
    """
    dtype = _summed_dtype(input, dtype)
    return _filled(input, mask, 0).sum(_axes(input, dim), bool(keepdim), dtype=dtype)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Multiply what the mask lets through."""
    out = _filled(input, mask, 1).to(_summed_dtype(input, dtype))
    for axis in sorted(_axes(input, dim), reverse=True):
        out = out.prod(axis, bool(keepdim))
    return out


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Find the largest element that the mask lets through."""
    return _filled(input, mask, -math.inf).amax(_axes(input, dim), bool(keepdim)).to(dtype or input.dtype)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Find the smallest element that the mask lets through."""
    return _filled(input, mask, math.inf).amin(_axes(input, dim), bool(keepdim)).to(dtype or input.dtype)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """Return the index of the largest element that the mask lets through."""
    return _filled(input, mask, -math.inf).argmax(dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Tensor:
    """Return the index of the smallest element that the mask lets through."""
    return _filled(input, mask, math.inf).argmin(dim, bool(keepdim)).to(dtype or input.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Take the logarithm of the sum of exponentials that the mask lets through."""
    return _filled(input, mask, -math.inf).logsumexp(_axes(input, dim), keepdim).to(dtype or input.dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Measure the vector of what the mask lets through."""
    if not isinstance(ord, int | float):
        raise TypeError(f"linalg_vector_norm(): argument 'ord' must be Number, not {type(ord).__name__}")
    filled = _filled(input, mask, math.inf if ord == -math.inf else 0)
    return vector_norm(filled, ord, _axes(input, dim), bool(keepdim), dtype=dtype or input.dtype)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    return sum(input.new_ones(tuple(input.shape), dtype=dtypes.int64), dim, keepdim=keepdim, mask=mask)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Average what the mask lets through; NaN where that is nothing."""
    kind = dtype or input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        source = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {kind}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / _count(input, dim, bool(keepdim), mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Find the median of what the mask lets through along `dim`; NaN where that is nothing."""
    require_tensor(input, "input", "masked")
    floating = input.is_floating_point()
    values = input if floating else input.to(dtypes.float32)
    out = _filled(values, mask, math.nan).nanmedian(dim, keepdim).values
    if floating:
        return out
    if bool(out.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return out.to(dtype or input.dtype)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the variance of what the mask lets through."""
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    less = float(correction) if correction is not None else 0.0 if unbiased is False else 1.0
    kind = dtype or input.dtype
    computed = kind if kind.is_floating_point or kind.is_complex else dtypes.float32
    kind = dtype or computed
    center = sum(input, dim, keepdim=True, dtype=kind, mask=mask) / _count(input, dim, True, mask)
    away = input - center
    total = sum(away * away.conj(), dim, keepdim=keepdim, dtype=computed, mask=mask)
    count = _count(input, dim, bool(keepdim), mask)
    if less:
        count = (count.to(computed.to_real()) - less).clamp(min=0)
    return (total / count).to(kind)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the standard deviation of what the mask lets through."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


# --- Scans and normalizations -----------------------------------------------------------------------------


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Add up along `dim` what the mask lets through, keeping every partial sum."""
    return _filled(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Multiply along `dim` what the mask lets through, keeping every partial product."""
    return _filled(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax along `dim` of what the mask lets through."""
    return _filled(input, mask, -math.inf).softmax(dim, dtype=dtype or input.dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the logarithm of the softmax along `dim` of what the mask lets through."""
    return _filled(input, mask, -math.inf).log_softmax(dim, dtype=dtype or input.dtype)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmin along `dim` of what the mask lets through."""
    return (-_filled(input, mask, math.inf)).softmax(dim, dtype=dtype or input.dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Divide what the mask lets through by its norm along `dim`."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / size.maximum(size.new_full((), eps))


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Take the logarithm of a sum of two exponentials, each only where its mask lets it through."""
    mine, others = _filled(input, input_mask, -math.inf), _filled(other, other_mask, -math.inf)
    return mine.logaddexp(others).to(dtype or input.dtype)
