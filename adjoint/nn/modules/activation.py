"""Functions of one tensor as layers: activations, dropout; and attention."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..._typing import Tensor
from ...ops.create import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d",
    "FeatureAlphaDropout", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


def _inplace(module: Any, before: str = "") -> str:
    """Return the part of a module's text that says it works in place."""
    return f"{before}inplace=True" if module.inplace else ""


# --- Without parameters -----------------------------------------------------------------------------


class Tanh(Module):
    """Hyperbolic tangent of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.tanh(input)


class Sigmoid(Module):
    """Logistic function of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.sigmoid(input)


class LogSigmoid(Module):
    """Logarithm of the logistic function, without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + |x|)`` of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)`` of each element."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.tanhshrink(input)


class Softmax2d(Module):
    """Softmax over the channels at each place of an image."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax of `input` over its channels."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


# --- In place or not --------------------------------------------------------------------------------


class _InPlace(Module):
    """What activations without other options share: they may work in place."""

    _function: Callable[..., Tensor]
    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return self._function(input, self.inplace)

    def extra_repr(self) -> str:
        """Return whether it works in place."""
        return _inplace(self)


class ReLU(_InPlace):
    """Positive part of each element.

    Examples
    --------
    >>> adjoint.nn.ReLU()(adjoint.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = staticmethod(F.relu)


class SiLU(_InPlace):
    """``x * sigmoid(x)`` of each element, also known as swish."""

    _function = staticmethod(F.silu)


class Mish(_InPlace):
    """``x * tanh(softplus(x))`` of each element."""

    _function = staticmethod(F.mish)


class SELU(_InPlace):
    """Scaled exponential linear unit of each element."""

    _function = staticmethod(F.selu)


class Hardswish(_InPlace):
    """``x * relu6(x + 3) / 6`` of each element."""

    _function = staticmethod(F.hardswish)

    def extra_repr(self) -> str:
        """Return nothing, as PyTorch's does."""
        return ""


class Hardsigmoid(_InPlace):
    """``relu6(x + 3) / 6`` of each element."""

    _function = staticmethod(F.hardsigmoid)

    def extra_repr(self) -> str:
        """Return nothing, as PyTorch's does."""
        return ""


# --- With numbers -----------------------------------------------------------------------------------


class Threshold(Module):
    """Elements above `threshold`, `value` in the place of others."""

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"threshold={self.threshold}, value={self.value}" + _inplace(self, ", ")


class RReLU(Module):
    """Leaky rectifier whose slope is drawn anew for each element in training."""

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"lower={self.lower}, upper={self.upper}" + _inplace(self, ", ")


class Hardtanh(Module):
    """Each element, cut off at `min_val` and `max_val`."""

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, value in (("min", min_value), ("max", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}_value` is deprecated and rename to `{old}_val`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + _inplace(self, ", ")


class ReLU6(Hardtanh):
    """Each element, cut off at 0 and 6."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Return whether it works in place."""
        return _inplace(self)


class ELU(Module):
    """Exponential linear unit: ``alpha * (exp(x) - 1)`` below zero."""

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"alpha={self.alpha}" + _inplace(self, ", ")


class CELU(Module):
    """Exponential linear unit that is smooth at zero: ``alpha * (exp(x / alpha) - 1)`` below."""

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"alpha={self.alpha}" + _inplace(self, ", ")


class LeakyReLU(Module):
    """Rectifier with a slope below zero."""

    __constants__ = ["negative_slope", "inplace"]

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"negative_slope={self.negative_slope}" + _inplace(self, ", ")


class GLU(Module):
    """First half of a dimension times the logistic function of the other half."""

    __constants__ = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"dim={self.dim}"


class GELU(Module):
    """Each element times the share of a normal distribution below it."""

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """Each element, or zero where it is within `lambd` of zero."""

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"{self.lambd}"


class Softshrink(Module):
    """Each element moved by `lambd` towards zero, and no further."""

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return str(self.lambd)


class Softplus(Module):
    """Smooth rectifier: ``log(1 + exp(beta * x)) / beta``, the identity above `threshold`."""

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the numbers."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _Along(Module):
    """What softmax and its kin share: a dimension."""

    _function: Callable[..., Tensor]
    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return self._function(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class Softmin(_Along):
    """Softmax of the negated input along a dimension."""

    _function = staticmethod(F.softmin)


class Softmax(_Along):
    """Exponentials along a dimension, scaled to add up to one."""

    _function = staticmethod(F.softmax)


class LogSoftmax(_Along):
    """Logarithm of the softmax along a dimension."""

    _function = staticmethod(F.log_softmax)


# --- With parameters --------------------------------------------------------------------------------


class PReLU(Module):
    """Rectifier whose slope below zero is learned, one for all channels or one for each."""

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to the first value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return how many slopes there are."""
        return f"num_parameters={self.num_parameters}"


class _DropoutNd(Module):
    """What all dropouts share: a probability."""

    __constants__ = ["p", "inplace"]
    _function: str
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, in training with a part dropped."""
        return getattr(F, self._function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Set each element to zero with probability `p` in training, and scale the others up."""

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, in training with a part dropped."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Set whole channels of sequences to zero with probability `p` in training."""

    _function = "dropout1d"


class Dropout2d(_DropoutNd):
    """Set whole channels of images to zero with probability `p` in training."""

    _function = "dropout2d"


class Dropout3d(_DropoutNd):
    """Set whole channels of volumes to zero with probability `p` in training."""

    _function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of inputs that `SELU` normalises."""

    _function = "alpha_dropout"


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    _function = "feature_alpha_dropout"


class MultiheadAttention(Module):
    """Let each query look at all keys, in several heads at once (Vaswani et al., 2017).

    Examples
    --------
    >>> attention = adjoint.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = adjoint.ones(4, 5, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    (adjoint.Size([4, 5, 8]), adjoint.Size([4, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads (got embed_dim={embed_dim}, num_heads={num_heads})"
            )

        def parameter(*shape: int) -> Parameter:
            return Parameter(empty(shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim) if same else None)
        self.register_parameter("q_proj_weight", None if same else parameter(embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", None if same else parameter(embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", None if same else parameter(embed_dim, self.vdim))
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            self.bias_k, self.bias_v = parameter(1, 1, embed_dim), parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # models saved before there were other widths
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what the queries found, and (on demand) where they looked."""
        swapped = self.batch_first and query.dim() == 3
        if swapped:  # a value that is also the key, or the query, stays so
            turned = {id(t): t.transpose(1, 0) for t in (query, key, value)}
            query, key, value = turned[id(query)], turned[id(key)], turned[id(value)]
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(1, 0) if swapped else out), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Return one mask for both, and its kind: 0 attention, 1 padding, 2 both."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[0], query.shape[1]
        merged = attn_mask.view(batch, -1, length, length) if attn_mask.dim() == 3 else (
            attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        )  # fmt: skip
        if key_padding_mask is None:
            return merged, 2
        padding = key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged + padding, 2
