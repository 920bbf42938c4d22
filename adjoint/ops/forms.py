"""Other forms of a tensor: sparse ones, which `adjoint.sparse` makes, and quantized ones, which do not exist here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .._typing import DTypeArg, Ints, Tensor, Value
from ..core.dtypes import float32
from . import convert

__all__: list[str] = []


def _sparse() -> Any:
    from .. import sparse  # sparse tensors are made of tensors, which import this module

    return sparse


def to_sparse(input: Value, *args: Any, **kwargs: Any) -> Any:
    """Return a tensor as a sparse one, of its elements that are not zero."""
    return _sparse().to_sparse(input, *args, **kwargs)


def to_sparse_csr(input: Any, dense_dim: int | None = None) -> Any:
    """Return a matrix as a sparse one in compressed rows."""
    return _sparse().to_sparse_csr(input, dense_dim)


def to_sparse_csc(input: Any, dense_dim: int | None = None) -> Any:
    """Return a matrix as a sparse one in compressed columns."""
    return _sparse().to_sparse_csc(input, dense_dim)


def to_sparse_bsr(input: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """Return a matrix as a sparse one in compressed rows of blocks."""
    return _sparse().to_sparse_bsr(input, blocksize, dense_dim)


def to_sparse_bsc(input: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """Return a matrix as a sparse one in compressed columns of blocks."""
    return _sparse().to_sparse_bsc(input, blocksize, dense_dim)


def sparse_mask(input: Any, mask: Any) -> Any:
    """Return the elements at the places of a sparse tensor."""
    return _sparse().sparse_mask(input, mask)


def to_dense(input: Value, dtype: DTypeArg = None, *, masked_grad: Any = None) -> Tensor:
    """Return a tensor, which is dense already, converted to `dtype`."""
    return convert.converted(input, dtype, None, False, None)


def dense_dim(input: Tensor) -> int:
    """Return the number of dimensions: all are dense."""
    return int(input.array.ndim)


def sparse_dim(input: Value) -> int:
    """Return 0: no dimension is sparse."""
    return 0


def _of_sparse(name: str, kind: str = "coordinate") -> Callable[[Any], Any]:
    def refuse(input: Value) -> NoReturn:
        """Raise: only a sparse tensor has that."""
        raise RuntimeError(f"{name} expected sparse {kind} tensor layout but got Strided")

    refuse.__name__ = name
    return refuse


is_coalesced, coalesce = _of_sparse("is_coalesced"), _of_sparse("coalesce")
indices, values = _of_sparse("indices"), _of_sparse("values")
ccol_indices = _of_sparse("ccol_indices", "column compressed")
row_indices = _of_sparse("row_indices", "column compressed")
crow_indices, col_indices = _of_sparse("crow_indices", "row compressed"), _of_sparse("col_indices", "row compressed")


def dequantize(input: Value) -> Tensor:
    """Return the tensor as float32: it is not quantized."""
    return convert.converted(input, float32, None, False, None)


def _of_quantized(name: str) -> Callable[..., NoReturn]:
    def refuse(input: Value, *args: Ints) -> NoReturn:
        """Raise: there are no quantized tensors."""
        raise NotImplementedError(f"{name} is for quantized tensors, which adjoint does not have")

    refuse.__name__ = name
    return refuse


int_repr, q_scale, q_zero_point = _of_quantized("int_repr"), _of_quantized("q_scale"), _of_quantized("q_zero_point")
qscheme, q_per_channel_axis = _of_quantized("qscheme"), _of_quantized("q_per_channel_axis")
q_per_channel_scales = _of_quantized("q_per_channel_scales")
q_per_channel_zero_points = _of_quantized("q_per_channel_zero_points")
