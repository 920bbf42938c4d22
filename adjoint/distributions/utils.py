"""Helper functions of distributions: broadcast parameters, logits and probabilities, triangular matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from typing import Any

from .._typing import Tensor
from ..autograd import enable_grad
from ..core.dtypes import default, finfo
from ..core.tensor import TensorBase
from ..ops import namespace

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

ops: Any = namespace  # every function of adjoint, under the name that programs use

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return tensors and numbers as tensors of one shape, numbers in the dtype of the first tensor.

    Examples
    --------
    >>> adjoint.distributions.utils.broadcast_all(1.0, adjoint.zeros(2))
    (tensor([1., 1.]), tensor([0., 0.]))
    """
    if not all(isinstance(v, TensorBase | Number) and not isinstance(v, complex) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            f"__torch_function__; got {', '.join(type(v).__name__ for v in values)}"
        )
    options: dict[str, Any] = {"dtype": default()}
    for value in values:
        if isinstance(value, TensorBase):
            tensor: Any = value
            options = {"dtype": tensor.dtype, "device": tensor.device}
            break
    tensors = [v if isinstance(v, TensorBase) else ops.tensor(v, **options) for v in values]
    return tuple(ops.broadcast_tensors(*tensors))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return ops.normal(ops.zeros(shape, dtype=dtype, device=device), ops.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    return value.reshape(tuple(value.shape[: value.dim() - dim]) + (-1,)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the probabilities of log-odds, or of unnormalised log-probabilities along the last dimension."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities to [eps, 1 - eps], where eps is that of their dtype."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the log-odds of probabilities, or their logarithms when they are those of several outcomes."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A property that is computed at its first reading, with gradients, and then stored.

    Parameters
    ----------
    wrapped : callable
        The method that computes it.

    Examples
    --------
    >>> class Circle:
    ...     def __init__(self, radius):
    ...         self.radius = radius
    ...
    ...     @adjoint.distributions.utils.lazy_property
    ...     def area(self):
    ...         print("computed")
    ...         return adjoint.pi * self.radius**2
    >>> circle = Circle(adjoint.tensor(1.0))
    >>> circle.area
    computed
    tensor(3.1416)
    >>> circle.area
    tensor(3.1416)
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        """Compute the value and put it in the place of the property."""
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the lower triangles of matrices as vectors, row by row; `diag` is the last diagonal that counts."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = ops.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return vectors as the lower triangles of matrices: the inverse of `tril_matrix_to_vec`."""
    length = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    size = round(n)
    if abs(n - size) > 1e-6:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    mat = vec.new_zeros((*vec.shape[:-1], size, size))
    rows, columns = ops.tril_indices(size, size, diag)
    mat[..., rows, columns] = vec
    return mat
