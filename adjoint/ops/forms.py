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
    """Return `input` as a sparse tensor of its elements that are not zero.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    *args, **kwargs : optional
        The number of sparse dimensions, by default all; or ``layout=`` and ``blocksize=`` for another sparse layout
        than coordinates (``sparse_coo``).

    Returns
    -------
    Tensor
        Sparse, of the same shape and dtype; gradients flow to the elements that it holds.

    Examples
    --------
    >>> sparse = adjoint.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    >>> sparse.indices()
    tensor([[0, 1],
            [1, 0]])
    >>> sparse.values()
    tensor([2., 3.])
    """
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
    """Return a tensor as a dense one; a dense tensor is returned as it is.

    Parameters
    ----------
    input : Tensor
        Dense or sparse, of any shape.
    dtype : dtype, optional
        That of `input` if not given.
    masked_grad : bool, optional
        Accepted and ignored.

    Returns
    -------
    Tensor
        Of the same shape.

    Examples
    --------
    >>> adjoint.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,)).to_dense()
    tensor([1., 0., 2.])
    >>> x = adjoint.ones(2)
    >>> x.to_dense() is x
    True
    """
    return convert.converted(input, dtype, None, False, None)


def dense_dim(input: Tensor) -> int:
    """Return the number of dimensions: all are dense."""
    return int(input.array.ndim)


def sparse_dim(input: Value) -> int:
    """Return 0: no dimension is sparse."""
    return 0


def _of_sparse(name: str, summary: str, result: str, kind: str = "coordinate") -> Callable[[Any], Any]:
    """Return a method that raises: sparse tensors have one of their own. The docstring says what that returns."""

    def refuse(input: Value) -> NoReturn:
        raise RuntimeError(f"{name} expected sparse {kind} tensor layout but got Strided")

    layout, form = _LAYOUTS[kind]
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"""{summary}

    Parameters
    ----------
    input : Tensor
        Sparse, of layout {layout}.

    Raises
    ------
    RuntimeError
        If `input` has another layout: a dense tensor has no indices.

    Examples
    --------
    >>> x = adjoint.tensor([[0.0, 2.0], [3.0, 0.0]]).{form}()
    >>> x.{name}()
    {result}
    """
    return refuse


_LAYOUTS = {
    "coordinate": ("``sparse_coo``", "to_sparse"),
    "row compressed": ("``sparse_csr`` or ``sparse_bsr``", "to_sparse_csr"),
    "column compressed": ("``sparse_csc`` or ``sparse_bsc``", "to_sparse_csc"),
}
is_coalesced = _of_sparse("is_coalesced", "Return whether a sparse tensor holds every index at most once.", "True")
coalesce = _of_sparse(
    "coalesce",
    "Return a sparse tensor with every index once, in order; values of the same index are added.",
    """tensor(indices=tensor([[0, 1],
                           [1, 0]]),
           values=tensor([2., 3.]),
           size=(2, 2), nnz=2, layout=adjoint.sparse_coo)""",
)
indices = _of_sparse(
    "indices",
    "Return the indices of a coalesced sparse tensor: one column for each value.",
    """tensor([[0, 1],
            [1, 0]])""",
)
values = _of_sparse("values", "Return the values of a coalesced sparse tensor.", "tensor([2., 3.])")
ccol_indices = _of_sparse(
    "ccol_indices",
    "Return where each column begins among the values; one number more than there are columns.",
    "tensor([0, 1, 2])",
    "column compressed",
)
row_indices = _of_sparse("row_indices", "Return the row of each value.", "tensor([1, 0])", "column compressed")
crow_indices = _of_sparse(
    "crow_indices",
    "Return where each row begins among the values; one number more than there are rows.",
    "tensor([0, 1, 2])",
    "row compressed",
)
col_indices = _of_sparse("col_indices", "Return the column of each value.", "tensor([1, 0])", "row compressed")


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
