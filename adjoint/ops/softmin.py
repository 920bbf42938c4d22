"""The softmax family of torch.nn.functional, and Gumbel samples that can be differentiated."""

from __future__ import annotations

import warnings

from .._typing import DType, DTypeArg, Tensor
from ..core.layout import contiguous_format
from .create_like import empty_like, zeros_like
from .elementwise import add_p, div_p, neg_p
from .literals import depth_outside
from .random import exponential_
from .softmax import log_softmax as log_softmax_along
from .softmax import softmax as softmax_along


def _implied(name: str, rank: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=depth_outside() if stacklevel == 3 else stacklevel + 2,
    )
    return 0 if rank in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeArg | DType | None = None,
) -> Tensor:  # fmt: skip
    """Return exponentials along `dim`, divided by their sum: ``exp(x) / exp(x).sum(dim)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    dim : int
        Dimension along which the values sum to one. Left out, it is chosen by the number of dimensions, with a
        warning.
    dtype : dtype, optional
        Convert `input` to it first, for example to avoid overflow in half precision.

    Returns
    -------
    Tensor
        Of the shape of `input`. Values are between 0 and 1 and sum to 1 along `dim`. Large elements do not
        overflow.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating and `dtype` is not given.

    Examples
    --------
    >>> adjoint.nn.functional.softmax(adjoint.tensor([[1.0, 2.0, 3.0]]), dim=-1)
    tensor([[0.0900, 0.2447, 0.6652]])
    """
    return softmax_along(input, _implied("softmax", input.array.ndim, _stacklevel) if dim is None else dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeArg = None) -> Tensor:
    """Return the logarithm of the softmax along `dim`: ``x - logsumexp(x, dim)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    dim : int
        Dimension along which the exponentials of the result sum to one. Left out, it is chosen by the number of
        dimensions, with a warning.
    dtype : dtype, optional
        Convert `input` to it first, for example to avoid overflow in half precision.

    Returns
    -------
    Tensor
        Of the shape of `input`. Finite where the logarithm of a softmax that underflows would not be.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating and `dtype` is not given.

    Examples
    --------
    >>> adjoint.nn.functional.log_softmax(adjoint.tensor([[0.0, 1000.0]]), dim=-1)
    tensor([[-1000.,     0.]])
    """
    return log_softmax_along(
        input, _implied("log_softmax", input.array.ndim, _stacklevel) if dim is None else dim, dtype
    )


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeArg = None) -> Tensor:
    """Return the softmax of the negated elements along `dim`: the smallest element gets the most.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    dim : int
        Dimension along which the values sum to one. Left out, it is chosen by the number of dimensions, with a
        warning.
    dtype : dtype, optional
        Convert `input` to it first, for example to avoid overflow in half precision.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating and `dtype` is not given.

    Examples
    --------
    >>> adjoint.nn.functional.softmin(adjoint.tensor([[1.0, 2.0, 3.0]]), dim=-1)
    tensor([[0.6652, 0.2447, 0.0900]])
    """
    dim = _implied("softmin", input.array.ndim, _stacklevel) if dim is None else dim
    return softmax_along(neg_p(input), dim, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Sample from the distribution of `logits` along `dim`, softened by `tau` so that gradients flow.

    ``softmax((logits + gumbel) / tau)`` with Gumbel noise. With `hard`, the sample is a single 1 among zeros; its
    gradient is that of the soft one.

    Parameters
    ----------
    logits : Tensor
        Log probabilities, up to a constant, of any shape.
    tau : float, default 1
        Temperature: the lower, the closer to a single 1.
    hard : bool, default False
        Whether to return a single 1 among zeros.
    eps : float, default 1e-10
        Ignored, accepted for compatibility.
    dim : int, default -1
        Dimension of the classes.

    Returns
    -------
    Tensor
        Of the shape of `logits`; sums to 1 along `dim`.

    Examples
    --------
    >>> adjoint.nn.functional.gumbel_softmax(adjoint.zeros(2, 3), hard=True).sum(-1)
    tensor([1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=depth_outside())
    noise = exponential_(empty_like(logits, memory_format=contiguous_format)).log()
    soft = softmax_along(div_p(add_p(logits, neg_p(noise)), tau), dim)
    if not hard:
        return soft
    place = soft.detach().argmax(dim, keepdim=True)
    one = zeros_like(logits, memory_format=contiguous_format).scatter_(dim, place, 1.0)
    return add_p(one - soft.detach(), soft)
