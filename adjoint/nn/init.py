"""Initialisation of parameters: functions that fill a tensor in place, with torch's values for the same seed."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

from .._typing import Tensor
from ..autograd.grad_mode import no_grad
from ..ops.create_like import empty_like
from ..ops.decomposition import qr as _qr
from ..ops.random import randperm
from ..ops.ranges import eye as _identity

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
    "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse",
    "sparse_", "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform",
    "xavier_uniform_", "zeros_",
]  # fmt: skip

# --- Gains and fans ---------------------------------------------------------------------------------

_LINEAR = {
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid",
}  # fmt: skip


def calculate_gain(nonlinearity: Any, param: Any = None) -> float:
    """Return the factor by which weights before a nonlinearity are scaled, to preserve the variance.

    1 for linear layers and sigmoid, 5 / 3 for tanh, sqrt(2) for relu, ``sqrt(2 / (1 + param**2))`` for leaky relu, 3 /
    4 for selu.

    Parameters
    ----------
    nonlinearity : str
        ``"linear"``, ``"conv1d"`` and other convolutions, ``"sigmoid"``, ``"tanh"``, ``"relu"``, ``"leaky_relu"`` or
        ``"selu"``.
    param : float, optional
        The slope of a leaky relu. Defaults to 0.01.

    Returns
    -------
    float
        The gain.

    Raises
    ------
    ValueError
        If `nonlinearity` is unknown, or `param` no number.

    Examples
    --------
    >>> adjoint.nn.init.calculate_gain("tanh")
    1.6666666666666667
    >>> adjoint.nn.init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if not isinstance(nonlinearity, str):
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, int | float):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


# --- Plain fillings ---------------------------------------------------------------------------------


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values from a uniform distribution between `a` and `b`.

    Parameters
    ----------
    tensor : Tensor
        Filled in place; nothing is recorded.
    a, b : float, default 0.0 and 1.0
        The bounds.
    generator : Generator, optional
        Where the random numbers come from. Defaults to the one that `manual_seed` seeds.

    Returns
    -------
    Tensor
        `tensor` itself.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.nn.init.uniform_(adjoint.empty(3), -1.0, 1.0)
    tensor([-0.0075,  0.5364, -0.8230])
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values from a normal distribution.

    Parameters
    ----------
    tensor : Tensor
        Filled in place; nothing is recorded.
    mean : float, default 0.0
        The mean of the distribution.
    std : float, default 1.0
        Its standard deviation.
    generator : Generator, optional
        Where the random numbers come from. Defaults to the one that `manual_seed` seeds.

    Returns
    -------
    Tensor
        `tensor` itself.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.nn.init.normal_(adjoint.empty(3), std=0.1)
    tensor([ 0.1541, -0.0293, -0.2179])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with values from a normal distribution that is cut off at `a` and `b`.

    Parameters
    ----------
    tensor : Tensor
        Filled in place; nothing is recorded.
    mean : float, default 0.0
        The mean of the distribution before it is cut off.
    std : float, default 1.0
        Its standard deviation.
    a, b : float, default -2.0 and 2.0
        The bounds. They are values, not multiples of `std`.
    generator : Generator, optional
        Where the random numbers come from. Defaults to the one that `manual_seed` seeds.

    Returns
    -------
    Tensor
        `tensor` itself.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> x = adjoint.nn.init.trunc_normal_(adjoint.empty(1000), a=-1.0, b=1.0)
    >>> bool((x.abs() <= 1).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    for name, edge in (("from", a), ("to", b)):
        if edge != edge:
            raise RuntimeError(f"{name} is out of bounds for {str(tensor.dtype).rpartition('.')[2]}: it is NaN")
    low, high = (math.erf((edge - mean) / std / math.sqrt(2.0)) for edge in (a, b))
    inside = (high - low) / 2  # the fraction of the whole distribution
    with no_grad():
        if math.isnan(inside):
            return tensor.fill_(math.nan)
        if inside >= 0.3:
            _draw_until(tensor, lambda x: x.normal_(mean, std, generator=generator), lambda x: (x >= a) & (x <= b))
        else:
            _draw_thinned(tensor, mean, std, a, b, generator)
    return tensor


def _draw_until(tensor: Tensor, draw: Callable[[Tensor], Tensor], fits: Callable[[Tensor], Tensor]) -> None:
    """Fill a tensor by rejection sampling: elements are sampled again until all are accepted."""
    draw(tensor)
    if tensor.is_meta:
        return
    left = ~fits(tensor)
    while bool(left.any()):
        again = draw(empty_like(tensor))
        tensor.copy_(again.where(left, tensor))
        left &= ~fits(again)


def _draw_thinned(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    """Fill a tensor from a narrow part of a normal distribution by rejection sampling from a uniform one."""
    top, std = min(max(mean, a), b), abs(std)
    reach = 40 * std  # beyond that no candidate is accepted
    if abs(top - mean) > reach:  # far out the density falls faster
        reach *= reach / abs(top - mean)
    edges = max(a, top - reach), min(b, top + reach)

    def fits(x: Tensor) -> Tensor:
        density = ((top - x) * ((top - mean) + (x - mean)) / (2 * std * std)).exp()
        return empty_like(x).uniform_(generator=generator) <= density

    _draw_until(tensor, lambda x: x.uniform_(*edges, generator=generator), fits)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    Parameters
    ----------
    tensor : Tensor
        Filled in place; nothing is recorded.
    val : float
        The value.

    Returns
    -------
    Tensor
        `tensor` itself.

    Examples
    --------
    >>> layer = adjoint.nn.Linear(2, 3)
    >>> _ = adjoint.nn.init.constant_(layer.bias, 0.1)
    >>> layer.bias
    Parameter containing:
    tensor([0.1000, 0.1000, 0.1000], requires_grad=True)
    """
    if isinstance(val, complex) and not tensor.is_complex():
        raise RuntimeError(f"value cannot be converted to type float without overflow: {val}")
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Parameters
    ----------
    tensor : Tensor
        Filled in place; nothing is recorded.

    Returns
    -------
    Tensor
        `tensor` itself.

    Examples
    --------
    >>> adjoint.nn.init.ones_(adjoint.empty(3))
    tensor([1., 1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Parameters
    ----------
    tensor : Tensor
        Filled in place; nothing is recorded.

    Returns
    -------
    Tensor
        `tensor` itself.

    Examples
    --------
    >>> layer = adjoint.nn.Linear(2, 3)
    >>> _ = adjoint.nn.init.zeros_(layer.bias)
    >>> layer.bias.tolist()
    [0.0, 0.0, 0.0]
    """
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity: ones on the diagonal, zeros elsewhere.

    Parameters
    ----------
    tensor : Tensor
        A matrix, filled in place; nothing is recorded.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ValueError
        If `tensor` does not have two dimensions.

    Examples
    --------
    >>> adjoint.nn.init.eye_(adjoint.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(_identity(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Initialise a convolution's weight so that it is the identity on its input channels."""
    dims = tensor.ndimension()
    if dims not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.shape[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


# --- Initialisations that preserve variance ---------------------------------------------------------


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill from a uniform distribution that preserves variance (Glorot and Bengio, 2010).

    The bound is ``gain * sqrt(6 / (fan_in + fan_out))``, below zero and above. The fans are the numbers of inputs and
    outputs that a unit is connected with: the sizes of dimensions 1 and 0, times the size of a convolution's window.

    Parameters
    ----------
    tensor : Tensor
        A weight of two or more dimensions, filled in place; nothing is recorded.
    gain : float, default 1.0
        The factor of the bound; see `calculate_gain`.
    generator : Generator, optional
        Where the random numbers come from. Defaults to the one that `manual_seed` seeds.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ValueError
        If `tensor` has fewer than two dimensions.

    Examples
    --------
    >>> weight = adjoint.nn.init.xavier_uniform_(adjoint.empty(200, 100))
    >>> bool(weight.abs().max() <= (6 / (100 + 200)) ** 0.5)
    True
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill from a normal distribution that preserves variance (Glorot and Bengio, 2010).

    The standard deviation is ``gain * sqrt(2 / (fan_in + fan_out))``. The fans are the numbers of inputs and outputs
    that a unit is connected with: the sizes of dimensions 1 and 0, times the size of a convolution's window.

    Parameters
    ----------
    tensor : Tensor
        A weight of two or more dimensions, filled in place; nothing is recorded.
    gain : float, default 1.0
        The factor of the standard deviation; see `calculate_gain`.
    generator : Generator, optional
        Where the random numbers come from. Defaults to the one that `manual_seed` seeds.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ValueError
        If `tensor` has fewer than two dimensions.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> weight = adjoint.nn.init.xavier_normal_(adjoint.empty(200, 200))
    >>> round(weight.std().item(), 3), (2 / 400) ** 0.5
    (0.071, 0.07071067811865475)
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: Any = "fan_in", nonlinearity: Any = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill from a uniform distribution, preserving variance through rectifiers (He et al., 2015).

    The bound is ``gain * sqrt(3 / fan)``, below zero and above.

    Parameters
    ----------
    tensor : Tensor
        A weight of two or more dimensions, filled in place; nothing is recorded.
    a : float, default 0
        The slope of the leaky relu that follows.
    mode : {"fan_in", "fan_out"}, default "fan_in"
        Keep the variance of outputs, by the number of inputs of a unit, or that of gradients, by the number of outputs.
    nonlinearity : str, default "leaky_relu"
        What follows: the gain is ``calculate_gain(nonlinearity, a)``.
    generator : Generator, optional
        Where the random numbers come from. Defaults to the one that `manual_seed` seeds.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ValueError
        If `tensor` has fewer than two dimensions, or `mode` or `nonlinearity` is unknown.

    Examples
    --------
    >>> weight = adjoint.nn.init.kaiming_uniform_(adjoint.empty(200, 100), nonlinearity="relu")
    >>> bool(weight.abs().max() <= (2 * 3 / 100) ** 0.5)
    True
    """
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: Any = "fan_in", nonlinearity: Any = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill from a normal distribution, preserving variance through rectifiers (He et al., 2015).

    The standard deviation is ``gain / sqrt(fan)``.

    Parameters
    ----------
    tensor : Tensor
        A weight of two or more dimensions, filled in place; nothing is recorded.
    a : float, default 0
        The slope of the leaky relu that follows.
    mode : {"fan_in", "fan_out"}, default "fan_in"
        Keep the variance of outputs, by the number of inputs of a unit, or that of gradients, by the number of outputs.
    nonlinearity : str, default "leaky_relu"
        What follows: the gain is ``calculate_gain(nonlinearity, a)``.
    generator : Generator, optional
        Where the random numbers come from. Defaults to the one that `manual_seed` seeds.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ValueError
        If `tensor` has fewer than two dimensions, or `mode` or `nonlinearity` is unknown.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> weight = adjoint.nn.init.kaiming_normal_(adjoint.empty(64, 32, 3, 3), mode="fan_out", nonlinearity="relu")
    >>> round(weight.std().item(), 3), (2 / (64 * 3 * 3)) ** 0.5
    (0.059, 0.05892556509887896)
    """
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Make the rows of a matrix orthonormal, or the columns where there are fewer (Saxe et al., 2013).

    Dimensions after the first count as one.

    Parameters
    ----------
    tensor : Tensor
        A weight of two or more dimensions, filled in place; nothing is recorded.
    gain : float, default 1
        The factor of the result.
    generator : Generator, optional
        Where the random numbers come from. Defaults to the one that `manual_seed` seeds.

    Returns
    -------
    Tensor
        `tensor` itself.

    Raises
    ------
    ValueError
        If `tensor` has fewer than two dimensions.

    Examples
    --------
    >>> weight = adjoint.nn.init.orthogonal_(adjoint.empty(2, 5))
    >>> adjoint.allclose(weight @ weight.T, adjoint.eye(2), atol=1e-6)
    True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    with no_grad():
        flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = _qr(flat.t() if rows < columns else flat)
        q = q * r.diag(0).sign()
        if rows < columns:
            q = q.t()
        tensor.view_as(q).copy_(q).mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill from a normal distribution, with a fraction of zeros in each column (Martens, 2010)."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows)[:zeros], column] = 0
    return tensor


# --- Names of old -----------------------------------------------------------------------------------


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    old = function.__name__.rstrip("_")

    @functools.wraps(function)
    def alias(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{function.__name__}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    alias.__name__ = alias.__qualname__ = old
    return alias


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
