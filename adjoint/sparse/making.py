"""Sparse tensors from places and values, from dense tensors, and products under their older names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import layout as layouts
from ..core.dtypes import ALL, int64
from ..core.nodes import wrap
from ..core.tensor import TensorBase
from . import rules
from .compression import BY_ROWS, COMPRESSED, places
from .tensor import SparseTensor, words

__all__ = [
    "dsmm", "hspmm", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor",
    "sparse_csc_tensor", "sparse_csr_tensor", "sparse_mask", "spmm", "to_sparse", "to_sparse_bsc", "to_sparse_bsr",
    "to_sparse_csc", "to_sparse_csr",
]  # fmt: skip


def _values_of(values: Any, dtype: Any, device: Any) -> Any:
    if isinstance(values, TensorBase):
        return values.to(dtype=dtype or values.dtype, device=device or values.device)  # type: ignore[attr-defined]
    return words.tensor(values, dtype=dtype, device=device)


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Make a sparse tensor in COO format from the indices of its elements and their values.

    Parameters
    ----------
    indices : Tensor or list
        Indices, ``(sparse dimensions, nnz)``: one column for each value. With a size in its place, and nothing else,
        the result is empty.
    values : Tensor or list
        The values, ``(nnz, *dense dimensions)``, or one number for all.
    size : tuple of int, optional
        Shape of the result; by default the smallest that holds the indices.
    dtype : dtype, optional
        Type of the values; by default theirs.
    device : device or str, optional
        Where the result is; by default where `values` are.
    pin_memory : bool, default False
        Accepted for torch's sake.
    requires_grad : bool, default False
        Whether to record what is computed from the result.
    check_invariants : bool, optional
        Accepted for torch's sake: indices are always checked.
    is_coalesced : bool, optional
        A promise that indices are sorted and none occurs twice. Otherwise values of equal indices are added up.

    Returns
    -------
    Tensor
        A sparse tensor.

    Raises
    ------
    RuntimeError
        If an index is outside of `size`, or there are not as many columns as values.

    Examples
    --------
    >>> s = adjoint.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> s
    tensor(indices=tensor([[0, 1],
                           [2, 0]]),
           values=tensor([3., 4.]),
           size=(2, 3), nnz=2, layout=adjoint.sparse_coo)
    >>> s.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:  # a size alone
        empty = words.zeros(0, dtype=dtype, device=device)
        at = wrap(np.zeros((len(indices), 0), np.int64))
        return SparseTensor.made(at, empty.requires_grad_(requires_grad), tuple(indices))
    at = words.as_tensor(indices).to(int64)
    held = _values_of(values, dtype, device)
    if held.array.ndim == 0:
        held = held.expand(at.shape[1])
    if at.array.ndim != 2 or at.shape[1] != held.shape[0]:
        raise RuntimeError(
            f"number of values {held.shape[0]} must match the number of places: indices are {list(at.shape)}, one "
            "column for each value"
        )
    if size is None:
        least = [int(m) + 1 for m in at.array.max(1)] if at.shape[1] else [0] * at.shape[0]
        size = (*least, *held.shape[1:])
    _check_places(at, tuple(size))
    if requires_grad:
        held = held.detach().requires_grad_()
    return SparseTensor.made(at, held, tuple(int(n) for n in size), bool(is_coalesced))


def _check_places(at: Any, size: tuple[int, ...]) -> None:
    for dim, row in enumerate(at.array):
        if row.size and (row.min() < 0 or row.max() >= size[dim]):
            bad = int(row.min()) if row.min() < 0 else int(row.max())
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found index {bad}"
            )


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """Make a sparse matrix from row pointers, column indices and values."""
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, device=device, requires_grad=requires_grad,
        layout=layouts.sparse_csr,
    )  # fmt: skip


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """Make a sparse matrix from column pointers, row indices and values."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, **options | {"layout": layouts.sparse_csc})


def sparse_bsr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """Make a sparse matrix of blocks from row pointers, column indices and blocks."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, **options | {"layout": layouts.sparse_bsr})


def sparse_bsc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any
) -> SparseTensor:
    """Make a sparse matrix of blocks from column pointers, row indices and blocks."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, **options | {"layout": layouts.sparse_bsc})


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """Make a sparse matrix in a compressed form: by rows or columns, of elements or of blocks.

    Examples
    --------
    >>> adjoint.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], layout=adjoint.sparse_csc).to_dense()
    tensor([[0., 4.],
            [3., 0.]])
    """
    if layout not in COMPRESSED:
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout}")
    starts = np.asarray(words.as_tensor(compressed_indices).array)
    others = np.asarray(words.as_tensor(plain_indices).array)
    held = _values_of(values, dtype, device)
    if requires_grad:
        held = held.detach().requires_grad_()
    if layout in (layouts.sparse_bsr, layouts.sparse_bsc) and held.dim() < 3:
        raise RuntimeError(
            "values must have dimensionality > sum of batch and block dimensionalities (=0 + 2) but got "
            f"{held.dim()}: give blocks, of shape (number of blocks, rows, columns)"
        )
    at, held, block = places(starts, others, held, layout)
    high, wide = block or (1, 1)
    ends = (len(starts) - 1, int(others.max()) + 1 if others.size else 0)
    least = ends if layout in BY_ROWS else ends[::-1]
    shape = (least[0] * high, least[1] * wide) if size is None else tuple(size)
    _check_places(at, shape)
    return SparseTensor.made(at, held, shape, True, layout, block)


def to_sparse(input: Any, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
              dense_dim: int | None = None) -> SparseTensor:  # fmt: skip
    """Return a dense tensor as a sparse one, of its elements that are not zero."""
    if isinstance(sparse_dim, layouts.layout):
        sparse_dim, layout = None, sparse_dim
    count = input.array.ndim - (dense_dim or 0) if sparse_dim is None else sparse_dim
    found = np.asarray(input.array) != 0
    if found.ndim > count:
        found = found.reshape(*found.shape[:count], -1).any(-1)
    at = wrap(np.stack(np.nonzero(found)).astype(np.int64)) if count else wrap(np.zeros((0, 1), np.int64))
    made = SparseTensor.made(at, input[tuple(at.unbind(0))], tuple(input.shape), True)
    return made if layout in (None, layouts.sparse_coo) else made.to_sparse(layout=layout, blocksize=blocksize)


def to_sparse_csr(input: Any, dense_dim: int | None = None) -> SparseTensor:
    """Return a dense matrix as a sparse one in compressed rows."""
    return to_sparse(input).to_sparse_csr()


def to_sparse_csc(input: Any, dense_dim: int | None = None) -> SparseTensor:
    """Return a dense matrix as a sparse one in compressed columns."""
    return to_sparse(input).to_sparse_csc()


def to_sparse_bsr(input: Any, blocksize: Any, dense_dim: int | None = None) -> SparseTensor:
    """Return a dense matrix as a sparse one in compressed rows of blocks."""
    return to_sparse(input).to_sparse_bsr(blocksize)


def to_sparse_bsc(input: Any, blocksize: Any, dense_dim: int | None = None) -> SparseTensor:
    """Return a dense matrix as a sparse one in compressed columns of blocks."""
    return to_sparse(input).to_sparse_bsc(blocksize)


def sparse_mask(input: Any, mask: SparseTensor) -> SparseTensor:
    """Return the elements of a dense tensor at the places of a sparse one."""
    return mask._with(input[tuple(mask._at.unbind(0))])


def spmm(mat1: Any, mat2: Any) -> Any:
    """Multiply matrices of which one is sparse."""
    return rules.matmul(mat1, mat2)


hspmm = dsmm = spmm


class _typed(type):
    """The class of ``sparse.FloatTensor`` and its like: they make sparse tensors and recognise them."""

    dtype: Any

    def __call__(cls, *args: Any) -> Any:
        """Make a sparse tensor, from places, values and a size, or from a size alone."""
        if len(args) > 1 and isinstance(args[0], TensorBase):
            return sparse_coo_tensor(*args, dtype=cls.dtype)
        return sparse_coo_tensor(args[0] if isinstance(args[0], tuple | list) else args, dtype=cls.dtype)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, SparseTensor) and value.dtype is cls.dtype


_DOC = """Makes sparse {dtype} tensors and recognizes them: the older form of `sparse_coo_tensor`.

Parameters
----------
*args
    Indices, values and a size, as `sparse_coo_tensor` takes them; or a size alone.

Examples
--------
>>> s = adjoint.sparse_coo_tensor([[0, 1]], adjoint.ones(2), dtype=adjoint.{dtype})
>>> isinstance(s, adjoint.sparse.{name})
True
"""
typed = {
    name: _typed(name, (), {"dtype": d, "__doc__": _DOC.format(dtype=d.name, name=name)})
    for d, name in ((d, f"{d.title}Tensor") for d in ALL)
}
