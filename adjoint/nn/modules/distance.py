"""Distances between vectors."""

from __future__ import annotations

from ..._typing import Tensor
from .. import functional as F
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of the difference of vectors: ``(sum_d |x1[d] - x2[d] + eps|**p) ** (1 / p)``.

    Parameters
    ----------
    p : float, default 2.0
        Power of the norm.
    eps : float, default 1e-06
        Added to each difference, so that the gradient at distance 0 is finite.
    keepdim : bool, default False
        Whether the last dimension stays, with size 1.

    Shape
    -----
    Input: two of (N, D) or (D,). Output: (N,), or with `keepdim` (N, 1).

    Examples
    --------
    >>> adjoint.nn.PairwiseDistance(eps=0.0)(adjoint.zeros(1, 2), adjoint.tensor([[3.0, 4.0]]))
    tensor([5.])
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances of `x1` and `x2`."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension.

    Parameters
    ----------
    dim : int, default 1
        Dimension of the vectors.
    eps : float, default 1e-08
        Least value of a norm, prevents a division by zero.

    Shape
    -----
    Input: two of any shape, broadcast. Output: that shape without `dim`.

    Examples
    --------
    >>> adjoint.nn.CosineSimilarity(dim=0)(adjoint.tensor([1.0, 0.0]), adjoint.tensor([1.0, 1.0]))
    tensor(0.7071)
    """

    __constants__ = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines between `x1` and `x2`."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
