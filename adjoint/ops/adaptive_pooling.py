"""Pooling to a result of a given size, whatever the size of the input."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .._typing import Ints, Shape, Tensor
from .arguments import require_tensor
from .pooling import adaptive, maximizing, mixing, pools, refuse, where_largest_p

__all__ = [
    "adaptive_avg_pool1d", "adaptive_max_pool1d",
]  # fmt: skip


_AVERAGES = pools(mixing, "adaptive_avg_pool", "AdaptiveAvgPool")
_MAXIMA = pools(maximizing, "adaptive_max_pool", "AdaptiveMaxPool")


def _adaptive_sizes(op: str, rank: int, input: Tensor, output_size: Any) -> Shape:
    require_tensor(input, "input", op)
    shape = input.array.shape
    if not isinstance(output_size, int) and output_size is not None and rank > 1:
        if len(shape) <= len(output_size):
            raise ValueError(f"Input dimension should be at least {len(output_size) + 1}, got {len(shape)}")
    if isinstance(output_size, int):
        wanted: tuple[Any, ...] = (output_size,) * rank
    else:
        wanted = (None,) * rank if output_size is None else tuple(output_size)
    for m in wanted:
        if isinstance(m, float | complex | str):
            raise TypeError(f"{op}(): argument 'output_size' must be tuple of ints, but found {type(m).__name__}")
    if len(wanted) != rank:
        if rank == 1:
            raise RuntimeError(f"{op}() argument 'output_size' should contain one int (got {len(wanted)})")
        word = "(): internal error: output_size.size()" if "max" in op else ": output_size"
        raise RuntimeError(f"{op}{word} must be {rank}, got {list(wanted)}")
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(f"{op}: Expected {rank + 1}D or {rank + 2}D tensor, but got a tensor of size {list(shape)}")
    size = tuple(n if m is None and rank > 1 else operator.index(m) for n, m in zip(shape[-rank:], wanted, strict=True))
    if min(size) < 0:
        raise RuntimeError(
            f"elements of output_size must be greater than or equal to 0 (Trying to create tensor with negative "
            f"dimension): {op} got {list(size)}"
        )
    for d in range(len(shape) - rank - (len(shape) == rank + 1), len(shape)):
        if d > 0 and shape[d] == 0:
            raise RuntimeError(
                f"{op}: Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(shape)} with dimension {d} being empty"
            )
    return size


def _adaptive_average(rank: int, input: Tensor, output_size: Any) -> Tensor:
    op = f"adaptive_avg_pool{rank}d"
    size = _adaptive_sizes(op, rank, input, output_size)
    shape = input.array.shape[-rank:]
    one = set(size) == {1}  # the mean, which complex numbers have too
    refuse(op, input.array, "biu" if one else "biuc")
    if one and (rank > 1 or input.array.dtype.kind == "c"):
        return input.mean(tuple(range(-rank, 0)), keepdim=True)
    plans = tuple(adaptive(n, m, True) for n, m in zip(shape, size, strict=True))
    return _AVERAGES[rank](input, plans)


def adaptive_avg_pool1d(input: Tensor, output_size: Ints | Sequence[int | None]) -> Tensor:
    """Average over windows that divide the last dimension into a given number of parts.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    output_size : int or tuple of int or None
        Number of windows.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``. Window i of n covers the indices from ``floor(i * L / n)`` to ``ceil((i + 1) * L /
        n)``.

    Examples
    --------
    >>> adjoint.nn.functional.adaptive_avg_pool1d(adjoint.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    tensor([[2., 7.]])
    """
    return _adaptive_average(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Ints | Sequence[int | None]) -> Tensor:
    """Average over windows that divide the last two dimensions into a given number of parts.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    output_size : int or tuple of int or None
        Size of the result, one number for both dimensions or two. None leaves a dimension's size as it is.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``. Window i of n covers the indices from ``floor(i * H / n)`` to
        ``ceil((i + 1) * H / n)``, so windows overlap where n does not divide H.

    Examples
    --------
    >>> x = adjoint.arange(6.0).reshape(1, 2, 3)
    >>> adjoint.nn.functional.adaptive_avg_pool2d(x, 1)
    tensor([[[2.5000]]])
    >>> adjoint.nn.functional.adaptive_avg_pool2d(x, (None, 2))
    tensor([[[0.5000, 1.5000],
             [3.5000, 4.5000]]])
    """
    return _adaptive_average(2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Ints | Sequence[int | None]) -> Tensor:
    """Average over windows that divide the last three dimensions into a given number of parts.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    output_size : int or tuple of int or None
        Size of the result, one number for all three dimensions or three. None leaves a size as it is.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``. Window i of n covers the indices from ``floor(i * D / n)`` to ``ceil((i + 1) * D /
        n)``.

    Examples
    --------
    >>> x = adjoint.arange(16.0).reshape(1, 4, 2, 2)
    >>> adjoint.nn.functional.adaptive_avg_pool3d(x, (2, 1, 1)).flatten()
    tensor([ 3.5000, 11.5000])
    """
    return _adaptive_average(3, input, output_size)


def _adaptive_maximum(rank: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    size = _adaptive_sizes(f"adaptive_max_pool{rank}d", rank, input, output_size)
    refuse(f"adaptive_max_pool{rank}d", input.array, "biuc")
    plans = tuple(adaptive(n, m, False) for n, m in zip(input.array.shape[-rank:], size, strict=True))
    out = _MAXIMA[rank](input, plans)
    return (out, where_largest_p(input, plans)) if return_indices else out


def adaptive_max_pool1d(input: Tensor, output_size: Ints | Sequence[int | None], return_indices: bool = False) -> Any:
    """Take the maxima of windows that divide the last dimension into a given number of parts.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    output_size : int or tuple of int
        Number of windows.
    return_indices : bool, default False
        Whether to return positions too.

    Returns
    -------
    Tensor or tuple of Tensor
        ``(N, C, *output_size)``; with `return_indices` also the position of each maximum in the flattened input of its
        channel, int64. Window i of n covers the indices from ``floor(i * L / n)`` to ``ceil((i + 1) * L / n)``.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 3.0, 9.0, 5.0]])
    >>> adjoint.nn.functional.adaptive_max_pool1d(x, 2)
    tensor([[3., 9.]])
    """
    return _adaptive_maximum(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Ints | Sequence[int | None], return_indices: bool = False) -> Any:
    """Take the maxima of windows that divide the last two dimensions into a given number of parts.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    output_size : int or tuple of int or None
        Size of the result, one number for all dimensions or 2. None leaves a size as it is.
    return_indices : bool, default False
        Whether to return positions too.

    Returns
    -------
    Tensor or tuple of Tensor
        ``(N, C, *output_size)``; with `return_indices` also the position of each maximum in the flattened input of its
        channel, int64. Window i of n covers the indices from ``floor(i * H / n)`` to ``ceil((i + 1) * H / n)``.

    Examples
    --------
    >>> x = adjoint.arange(16.0).reshape(1, 4, 4)
    >>> adjoint.nn.functional.adaptive_max_pool2d(x, 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _adaptive_maximum(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Ints | Sequence[int | None], return_indices: bool = False) -> Any:
    """Take the maxima of windows that divide the last three dimensions into a given number of parts.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    output_size : int or tuple of int or None
        Size of the result, one number for all dimensions or 3. None leaves a size as it is.
    return_indices : bool, default False
        Whether to return positions too.

    Returns
    -------
    Tensor or tuple of Tensor
        ``(N, C, *output_size)``; with `return_indices` also the position of each maximum in the flattened input of its
        channel, int64. Window i of n covers the indices from ``floor(i * D / n)`` to ``ceil((i + 1) * D / n)``.

    Examples
    --------
    >>> x = adjoint.arange(8.0).reshape(1, 2, 2, 2)
    >>> adjoint.nn.functional.adaptive_max_pool3d(x, 1)
    tensor([[[[7.]]]])
    """
    return _adaptive_maximum(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Take the maxima of windows that divide the last dimension, and where they are.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    output_size : int or tuple of int
        Number of windows.
    return_indices : bool, default False
        Ignored: positions are always returned.

    Returns
    -------
    tuple of Tensor
        ``(N, C, *output_size)`` and the position of each maximum in the flattened input of its channel, int64. Window
        i of n covers the indices from ``floor(i * L / n)`` to ``ceil((i + 1) * L / n)``.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 3.0, 9.0, 5.0]])
    >>> adjoint.nn.functional.adaptive_max_pool1d_with_indices(x, 2)
    (tensor([[3., 9.]]), tensor([[1, 2]]))
    """
    found: tuple[Tensor, Tensor] = _adaptive_maximum(1, input, output_size, True)
    return found


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Take the maxima of windows that divide the last two dimensions, and where they are.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    output_size : int or tuple of int or None
        Size of the result, one number for all dimensions or 2. None leaves a size as it is.
    return_indices : bool, default False
        Ignored: positions are always returned.

    Returns
    -------
    tuple of Tensor
        ``(N, C, *output_size)`` and the position of each maximum in the flattened input of its channel, int64. Window
        i of n covers the indices from ``floor(i * H / n)`` to ``ceil((i + 1) * H / n)``.

    Examples
    --------
    >>> x = adjoint.arange(16.0).reshape(1, 4, 4)
    >>> adjoint.nn.functional.adaptive_max_pool2d_with_indices(x, 2)
    (tensor([[[ 5.,  7.],
             [13., 15.]]]), tensor([[[ 5,  7],
             [13, 15]]]))
    """
    found: tuple[Tensor, Tensor] = _adaptive_maximum(2, input, output_size, True)
    return found


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Take the maxima of windows that divide the last three dimensions, and where they are.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    output_size : int or tuple of int or None
        Size of the result, one number for all dimensions or 3. None leaves a size as it is.
    return_indices : bool, default False
        Ignored: positions are always returned.

    Returns
    -------
    tuple of Tensor
        ``(N, C, *output_size)`` and the position of each maximum in the flattened input of its channel, int64. Window
        i of n covers the indices from ``floor(i * D / n)`` to ``ceil((i + 1) * D / n)``.

    Examples
    --------
    >>> x = adjoint.arange(8.0).reshape(1, 2, 2, 2)
    >>> adjoint.nn.functional.adaptive_max_pool3d_with_indices(x, 1)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    found: tuple[Tensor, Tensor] = _adaptive_maximum(3, input, output_size, True)
    return found
