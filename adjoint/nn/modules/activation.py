"""Activations as layers."""

from __future__ import annotations

import warnings
from typing import Any

from ..._typing import Tensor
from ...ops.create import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .attention import MultiheadAttention as MultiheadAttention  # where PyTorch has it
from .functions import Functional
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


# --- Without options --------------------------------------------------------------------------------


class Tanh(Functional):
    """Hyperbolic tangent of each element: ``tanh(x) = (exp(x) - exp(-x)) / (exp(x) + exp(-x))``.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Tanh()(adjoint.tensor([-2.0, 0.0, 2.0]))
    tensor([-0.9640,  0.0000,  0.9640])
    """

    _function = "tanh"


class Sigmoid(Functional):
    """Logistic function of each element: ``1 / (1 + exp(-x))``.

    Shape
    -----
    Input: any. Output: the same, with values between 0 and 1.

    Examples
    --------
    >>> adjoint.nn.Sigmoid()(adjoint.tensor([-2.0, 0.0, 2.0]))
    tensor([0.1192, 0.5000, 0.8808])
    """

    _function = "sigmoid"


class LogSigmoid(Functional):
    """Logarithm of the logistic function, without overflow: ``log(1 / (1 + exp(-x)))``.

    Shape
    -----
    Input: any. Output: the same, with values below 0.

    Examples
    --------
    >>> adjoint.nn.LogSigmoid()(adjoint.tensor([-1000.0, 0.0]))
    tensor([-1.0000e+03, -6.9315e-01])
    """

    _function = "logsigmoid"


class Softsign(Functional):
    """``x / (1 + |x|)`` of each element.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Softsign()(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.6667,  0.3333,  0.8000])
    """

    _function = "softsign"


class Tanhshrink(Functional):
    """``x - tanh(x)`` of each element.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Tanhshrink()(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-1.0360,  0.0379,  3.0007])
    """

    _function = "tanhshrink"


class Softmax2d(Module):
    """Softmax over the channels at each position of an image.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: the same.

    Examples
    --------
    >>> adjoint.nn.Softmax2d()(adjoint.zeros(2, 1, 2))
    tensor([[[0.5000, 0.5000]],
    <BLANKLINE>
            [[0.5000, 0.5000]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax of `input` over its channels."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


# --- In place or not --------------------------------------------------------------------------------


class _InPlace(Functional):
    """An activation whose only option is to work in place."""

    __constants__ = _options = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return getattr(F, self._function)(input, self.inplace)  # in nearly every network: no loop over options


class ReLU(_InPlace):
    """Rectified linear unit: ``max(0, x)`` of each element.

    Parameters
    ----------
    inplace : bool, default False
        Write the result into the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.ReLU()(adjoint.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    _function = "relu"


class SiLU(_InPlace):
    """Sigmoid linear unit, also known as swish: ``x * sigmoid(x)`` of each element.

    Parameters
    ----------
    inplace : bool, default False
        Write the result into the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.SiLU()(adjoint.tensor([-2.0, 0.0, 2.0]))
    tensor([-0.2384,  0.0000,  1.7616])
    """

    _function = "silu"


class Mish(_InPlace):
    """``x * tanh(softplus(x))`` of each element.

    Parameters
    ----------
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Mish()(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.2525,  0.3752,  3.9974])
    """

    _function = "mish"


class SELU(_InPlace):
    """Scaled exponential linear unit: ``scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))`` (Klambauer et al., 2017).

    With ``scale = 1.0507`` and ``alpha = 1.6733``, activations stay near mean 0 and variance 1 from layer to layer.

    Parameters
    ----------
    inplace : bool, default False
        Write the result into the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.SELU()(adjoint.tensor([-2.0, 0.0, 2.0]))
    tensor([-1.5202,  0.0000,  2.1014])
    """

    _function = "selu"


class Hardswish(_InPlace):
    """Piecewise form of `SiLU`: ``x * min(max(x + 3, 0), 6) / 6`` of each element.

    Parameters
    ----------
    inplace : bool, default False
        Write the result into the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Hardswish()(adjoint.tensor([-2.0, -1.0, 1.0, 4.0]))
    tensor([-0.3333, -0.3333,  0.6667,  4.0000])
    """

    _function = "hardswish"

    def extra_repr(self) -> str:
        """Return an empty text, as PyTorch's does."""
        return ""


class Hardsigmoid(_InPlace):
    """``relu6(x + 3) / 6`` of each element.

    Parameters
    ----------
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Hardsigmoid()(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([0.1667, 0.5833, 1.0000])
    """

    _function = "hardsigmoid"

    def extra_repr(self) -> str:
        """Return an empty text, as PyTorch's does."""
        return ""


# --- With options -----------------------------------------------------------------------------------


class Threshold(Functional):
    """Replace elements that are not above `threshold` by `value`.

    Parameters
    ----------
    threshold : float
        What elements are compared with.
    value : float
        What replaces them.
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Threshold(1.0, 0.0)(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([0., 0., 4.])
    """

    _function = "threshold"
    __constants__ = _options = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace


class RReLU(Functional):
    """Leaky rectifier whose slope is sampled for each element in training, and fixed in evaluation.

    Parameters
    ----------
    lower : float, default 0.125
        Least slope.
    upper : float, default 0.3333333333333333
        Largest slope; in evaluation the slope is the mean of both.
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.RReLU().eval()(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.4583,  0.5000,  4.0000])
    """

    __constants__ = _options = ["lower", "upper", "inplace"]

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(Functional):
    """Each element, limited to the interval from `min_val` to `max_val`.

    Parameters
    ----------
    min_val : float, default -1.0
        Lower limit.
    max_val : float, default 1.0
        Upper limit.
    inplace : bool, default False
        Write the result to the input.
    min_value : float, optional
        Deprecated: use `min_val`.
    max_value : float, optional
        Deprecated: use `max_val`.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Hardtanh()(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    _function = "hardtanh"
    __constants__ = _options = ["min_val", "max_val", "inplace"]

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


class ReLU6(Hardtanh):
    """Each element, limited to the interval from 0 to 6.

    Parameters
    ----------
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.ReLU6()(adjoint.tensor([-2.0, 0.5, 8.0]))
    tensor([0.0000, 0.5000, 6.0000])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Return whether it works in place."""
        return "inplace=True" if self.inplace else ""


class _ExponentialUnit(Functional):
    """An exponential with the limit minus `alpha` below zero, the identity above."""

    __constants__ = _options = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace


class ELU(_ExponentialUnit):
    """Exponential linear unit: ``x`` above zero, ``alpha * (exp(x) - 1)`` below (Clevert et al., 2015).

    Parameters
    ----------
    alpha : float, default 1.0
        Minus the limit of the function far below zero.
    inplace : bool, default False
        Write the result into the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.ELU()(adjoint.tensor([-100.0, -1.0, 2.0]))
    tensor([-1.0000, -0.6321,  2.0000])
    """

    _function = "elu"


class CELU(_ExponentialUnit):
    """Exponential linear unit that is smooth at zero: ``alpha * (exp(x / alpha) - 1)`` where x is negative.

    Parameters
    ----------
    alpha : float, default 1.0
        The limit for large negative elements is ``-alpha``.
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.CELU()(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.8647,  0.5000,  4.0000])
    """

    _function = "celu"


class LeakyReLU(Functional):
    """Rectifier with a slope below zero: ``x`` above zero, ``negative_slope * x`` below.

    Parameters
    ----------
    negative_slope : float, default 0.01
        The slope below zero.
    inplace : bool, default False
        Write the result into the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.LeakyReLU(0.1)(adjoint.tensor([-10.0, 2.0]))
    tensor([-1.,  2.])
    """

    _function = "leaky_relu"
    __constants__ = _options = ["negative_slope", "inplace"]

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace


class GLU(Functional):
    """First half of a dimension times the logistic function of the other half.

    Parameters
    ----------
    dim : int, default -1
        Dimension to split in two.

    Shape
    -----
    Input: any, with an even size of `dim`. Output: that size is halved.

    Examples
    --------
    >>> adjoint.nn.GLU()(adjoint.tensor([1.0, 2.0, 0.0, 100.0]))
    tensor([0.5000, 2.0000])
    """

    _function = "glu"
    __constants__ = _options = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class GELU(Module):
    """Gaussian error linear unit: ``x * Φ(x)``, where Φ is the standard normal distribution function.

    Parameters
    ----------
    approximate : {"none", "tanh"}, default "none"
        With ``"tanh"``: ``x * (1 + tanh(sqrt(2 / π) * (x + c * x**3))) / 2``, within 0.0005 of the exact function.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> x = adjoint.tensor([-1.0, 0.0, 3.0])
    >>> adjoint.nn.GELU()(x)
    tensor([-0.1587,  0.0000,  2.9960])
    >>> adjoint.nn.GELU("tanh")(x)
    tensor([-0.1588,  0.0000,  2.9964])
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"approximate={self.approximate!r}"


class _Shrink(Functional):
    """A function that is zero within `lambd` of zero."""

    __constants__ = _options = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Return the bound."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """Each element, or zero where it is within `lambd` of zero.

    Parameters
    ----------
    lambd : float, default 0.5
        Half the width of the interval that becomes zero.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Hardshrink()(adjoint.tensor([-2.0, 0.3, 4.0]))
    tensor([-2.,  0.,  4.])
    """

    _function = "hardshrink"


class Softshrink(_Shrink):
    """Each element moved by `lambd` towards zero, and no further.

    Parameters
    ----------
    lambd : float, default 0.5
        How far elements are moved.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Softshrink()(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-1.5000,  0.0000,  3.5000])
    """

    _function = "softshrink"


class Softplus(Functional):
    """Smooth rectifier: ``log(1 + exp(beta * x)) / beta``.

    Parameters
    ----------
    beta : float, default 1.0
        The larger, the closer to a rectifier.
    threshold : float, default 20.0
        Where ``beta * x`` is above it, the result is ``x``.

    Shape
    -----
    Input: any. Output: the same, with positive values.

    Examples
    --------
    >>> adjoint.nn.Softplus()(adjoint.tensor([-2.0, 0.0, 30.0]))
    tensor([ 0.1269,  0.6931, 30.0000])
    """

    _function = "softplus"
    __constants__ = _options = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold


class _Along(Functional):
    """Base of softmax and related layers: a dimension."""

    __constants__ = _options = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return getattr(F, self._function)(input, self.dim, _stacklevel=5)


class Softmin(_Along):
    """Softmax of the negated input along a dimension.

    Parameters
    ----------
    dim : int, optional
        Dimension along which the results sum to 1.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.Softmin(dim=0)(adjoint.tensor([0.0, 0.0, 1.0]))
    tensor([0.4223, 0.4223, 0.1554])
    """

    _function = "softmin"


class Softmax(_Along):
    """Exponentials scaled to add up to one along a dimension: ``exp(x[i]) / sum_j exp(x[j])``.

    Parameters
    ----------
    dim : int, optional
        The dimension along which the results add up to one. Leaving it out is deprecated: it warns, and takes 0 for an
        input of 0, 1 or 3 dimensions, else 1.

    Shape
    -----
    Input: any. Output: the same, with values between 0 and 1.

    Examples
    --------
    >>> adjoint.nn.Softmax(dim=1)(adjoint.tensor([[1.0, 1.0], [0.0, 2.0]]))
    tensor([[0.5000, 0.5000],
            [0.1192, 0.8808]])
    """

    _function = "softmax"


class LogSoftmax(_Along):
    """Logarithm of the softmax along a dimension, without overflow: ``x[i] - log(sum_j exp(x[j]))``.

    Parameters
    ----------
    dim : int, optional
        The dimension along which the probabilities add up to one. Leaving it out is deprecated, as for `Softmax`.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> adjoint.nn.LogSoftmax(dim=1)(adjoint.tensor([[1.0, 1.0], [0.0, 2.0]]))
    tensor([[-0.6931, -0.6931],
            [-2.1269, -0.1269]])
    """

    _function = "log_softmax"


# --- With parameters --------------------------------------------------------------------------------


class PReLU(Module):
    """Rectifier whose slope below zero is learned: ``x`` above zero, ``weight * x`` below (He et al., 2015).

    Parameters
    ----------
    num_parameters : int, default 1
        1 for one slope, or the number of channels for one slope each.
    init : float, default 0.25
        The slope before training.
    device, dtype : optional
        Of the weight, as for `tensor`.

    Shape
    -----
    Input: any; with several slopes (N, C, ...). Output: the same.

    Examples
    --------
    >>> layer = adjoint.nn.PReLU()
    >>> layer(adjoint.tensor([-2.0, 3.0])).tolist()
    [-0.5, 3.0]
    >>> layer.weight
    Parameter containing:
    tensor([0.2500], requires_grad=True)
    """

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to its initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return the function of `input`."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return how many slopes there are."""
        return f"num_parameters={self.num_parameters}"
