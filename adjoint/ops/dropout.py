"""Dropout: zeros at random places, with the same random numbers as torch for the same seed."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .._typing import Array, DType, Tensor
from ..core import device as devices
from ..core import modes
from ..core.failures import not_implemented, title_of
from ..core.nodes import wrap
from ..core.observation import opaque
from ..core.payload import Payload
from .arguments import beside
from .create_like import order_like
from .elementwise import add_p, mul_p
from .literals import depth_outside
from .random import default_generator, laid_by, stream_of

_SELU_LEAST = 1.7580993408473766  # what selu tends to far below zero, negated: alpha times its scale


def _check(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        kind = ValueError if p == p else RuntimeError
        raise kind(f"dropout probability has to be between 0 and 1, but got {p}")


def kept(input: Tensor, keep: float, shape: tuple[int, ...] | None = None) -> Any:
    """Return ones with probability `keep` and zeros otherwise, at the shape of `input` or another."""
    array: Any = input.array
    base: Any = array.memory() if isinstance(array, Payload) else array
    own = shape is None
    shape = tuple(array.shape) if shape is None else shape
    if isinstance(array, Payload) and devices.of(array).type == "meta":  # without elements, numbers need not be drawn
        return devices.array_module(devices.of(array)).empty(shape, base.dtype)
    place = devices.of(base)
    if place is devices.CPU or isinstance(array, Payload):
        noise = devices.place_array(stream_of(None).bernoulli(keep, shape, base.dtype), place)
        return laid_by(noise, order_like(input, None)) if own else noise
    return opaque("random.keep", _kept_there, default_generator.stream, keep, shape, base.dtype, place)


def _kept_there(stream: Any, keep: float, shape: tuple[int, ...], dtype: DType, place: Any) -> Any:
    """Sample on another device, by a seed from the CPU's generator; compiled programs sample on the device too."""
    if devices.sampled(place, "bernoulli", shape, dtype):
        return devices.random(place, "bernoulli", shape, dtype, int(stream.random((1,), np.int64)[0]), keep)
    return devices.place_array(stream.bernoulli(keep, shape, dtype), place)


def _feature_shape(input: Tensor) -> tuple[int, ...]:
    shape = tuple(input.array.shape)
    if len(shape) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*shape[:2], *(1,) * (len(shape) - 2))


def drop(input: Tensor, p: float, training: bool, inplace: bool, features: bool = False) -> Tensor:
    """Zero elements, or whole features, with probability `p`, and scale the others up."""
    _check(p)
    if p == 0 or not training or math.prod(input.array.shape) == 0:
        return input
    if input.array.dtype.kind in "biuc":
        raise _refused(input.array)
    if p == 1:
        noise: Any = beside(np.zeros((), input.array.dtype), input).array
    else:
        noise = kept(input, 1 - p, _feature_shape(input) if features else None)
        noise = opaque("scaled_noise", _scaled, noise, 1 - p)
    return input.mul_(wrap(noise)) if inplace else mul_p(input, wrap(noise))


def _refused(x: Array) -> Exception:
    if x.dtype.kind == "c":
        return not_implemented("bernoulli_scalar_cpu_", x)
    return RuntimeError(
        f"result type Float can't be cast to the desired output type {title_of(x.dtype)}: dropout scales "
        "elements; convert with .float() first"
    )


def _scaled(noise: Any, keep: float) -> Any:
    return np.divide(noise, noise.dtype.type(keep), out=None if modes.unusual else noise)


def _affine(noise: Array, p: float) -> tuple[Any, Any]:
    """Return the scale and shift that map dropped elements to the infimum of SELU and preserve mean and variance."""
    real = noise.dtype.type
    scale = 1.0 / math.sqrt((_SELU_LEAST**2 * p + 1) * (1 - p))
    shift = (noise - real(1)) * real(_SELU_LEAST * scale) + real(_SELU_LEAST * scale * p)
    return noise * real(scale), shift


def drop_alpha(input: Tensor, p: float, training: bool, inplace: bool, features: bool) -> Tensor:
    """Set dropped elements to the infimum of SELU, and preserve mean and variance."""
    _check(p)
    if p == 0 or not training or math.prod(input.array.shape) == 0:
        return input
    if input.array.dtype.kind in "biuc":
        raise _refused(input.array)
    if p == 1:
        zero = beside(np.zeros((), input.array.dtype), input)
        return input.mul_(zero) if inplace else mul_p(input, zero)
    noise, shift = opaque("alpha_noise", _affine, kept(input, 1 - p, _feature_shape(input) if features else None), p)
    if inplace:
        return input.mul_(wrap(noise)).add_(wrap(shift))
    return add_p(mul_p(input, wrap(noise)), wrap(shift))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to zero with probability `p`, and multiply the others by ``1 / (1 - p)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    p : float, default 0.5
        Probability of each element to be zero, independently.
    training : bool, default True
        If False, return `input`.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`. The scaling makes its expectation equal to `input`, so that evaluation needs no
        change.

    Raises
    ------
    ValueError
        If `p` is not between 0 and 1.
    RuntimeError
        If the dtype is bool or an integer.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.nn.functional.dropout(adjoint.ones(5), 0.5)
    tensor([0., 0., 2., 0., 0.])
    >>> adjoint.nn.functional.dropout(adjoint.ones(5), 0.5, training=False)
    tensor([1., 1., 1., 1., 1.])
    """
    return drop(input, p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Replace elements at random by the least value of `selu`, keeping mean and variance.

    What is dropped becomes ``-1.7581``, the limit of `selu`; an affine map of all elements then restores mean and
    variance.

    Parameters
    ----------
    input : Tensor
        Of any shape, with mean 0 and variance 1.
    p : float, default 0.5
        Probability of an element to be dropped.
    training : bool, default False
        Whether to drop anything; if not, the input is returned.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    ValueError
        If `p` is not between 0 and 1.

    Examples
    --------
    >>> x = adjoint.randn(100, 100)
    >>> y = adjoint.nn.functional.alpha_dropout(x, p=0.2, training=True)
    >>> bool((y.std() - 1).abs() < 0.1)
    True
    """
    return drop_alpha(input, p, training, inplace, False)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Replace whole channels at random by the least value of `selu`, keeping mean and variance.

    What is dropped becomes ``-1.7581``, the limit of `selu`; an affine map of all elements then restores mean and
    variance.

    Parameters
    ----------
    input : Tensor
        ``(N, C, ...)``, with mean 0 and variance 1.
    p : float, default 0.5
        Probability of a channel to be dropped.
    training : bool, default False
        Whether to drop anything; if not, the input is returned.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    ValueError
        If `p` is not between 0 and 1.

    Examples
    --------
    >>> x = adjoint.randn(100, 100)
    >>> y = adjoint.nn.functional.feature_alpha_dropout(x, p=0.2, training=True)
    >>> bool((y.std() - 1).abs() < 0.1)
    True
    """
    return drop_alpha(input, p, training, inplace, True)


def _warn_of_rank(name: str, rank: int, right: tuple[int, int]) -> None:
    if rank not in right:
        warnings.warn(
            f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an error in a future "
            f"release. To retain the behavior and silence this warning, please use feature_dropout instead. Note that "
            f"{name} exists to provide channel-wise dropout on inputs with {right[0] - 1} spatial dimensions.",
            stacklevel=depth_outside(),
        )


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Replace whole channels of sequences by zero with probability `p`, and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    p : float, default 0.5
        Probability of a channel to become zero.
    training : bool, default True
        Whether to drop anything; if not, the input is returned.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    ValueError
        If `p` is not between 0 and 1.

    Examples
    --------
    >>> x = adjoint.ones(1, 100, 2)
    >>> y = adjoint.nn.functional.dropout1d(x, p=0.5)
    >>> y.unique()
    tensor([0., 2.])
    >>> adjoint.equal(adjoint.nn.functional.dropout1d(x, training=False), x)
    True
    """
    _check(p)
    rank = input.array.ndim
    if rank not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, "
            "and an optional batch dimension."
        )
    if rank == 3:
        return drop(input, p, training, inplace, True)
    out = drop(input.unsqueeze(0), p, training, False, True).squeeze(0)
    return input.copy_(out) if inplace else out


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Replace whole channels of images by zero with probability `p`, and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    p : float, default 0.5
        Probability of a channel to become zero.
    training : bool, default True
        Whether to drop anything; if not, the input is returned.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    ValueError
        If `p` is not between 0 and 1.

    Examples
    --------
    >>> x = adjoint.ones(1, 100, 2, 2)
    >>> y = adjoint.nn.functional.dropout2d(x, p=0.5)
    >>> y.unique()
    tensor([0., 2.])
    >>> adjoint.equal(adjoint.nn.functional.dropout2d(x, training=False), x)
    True
    """
    _check(p)
    _warn_of_rank("dropout2d", input.array.ndim, (3, 4))
    if input.array.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. Use dropout1d to say so.",
            stacklevel=depth_outside(),
        )
    return drop(input, p, training, inplace, True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Replace whole channels of volumes by zero with probability `p`, and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    p : float, default 0.5
        Probability of a channel to become zero.
    training : bool, default True
        Whether to drop anything; if not, the input is returned.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    ValueError
        If `p` is not between 0 and 1.

    Examples
    --------
    >>> x = adjoint.ones(1, 100, 2, 2, 2)
    >>> y = adjoint.nn.functional.dropout3d(x, p=0.5)
    >>> y.unique()
    tensor([0., 2.])
    >>> adjoint.equal(adjoint.nn.functional.dropout3d(x, training=False), x)
    True
    """
    _check(p)
    rank = input.array.ndim
    _warn_of_rank("dropout3d", rank, (4, 5))
    if rank == 5:
        return drop(input, p, training, inplace, True)
    out = drop(input.unsqueeze(0), p, training, False, True).squeeze(0)
    return input.copy_(out) if inplace else out
