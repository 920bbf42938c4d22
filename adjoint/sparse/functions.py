"""The functions of ``torch.sparse``, and sparse gradients of embeddings."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from ..core.nodes import wrap
from . import rules
from .making import sparse_coo_tensor, sparse_mask
from .tensor import SparseTensor, words

__all__ = [
    "addmm", "check_sparse_tensor_invariants", "keep_rows", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags",
    "sum",
]  # fmt: skip


_ROWS, _HELD = "_rows_looked_up", "_rows_of_gradient"  # since the last pass; those that `.grad` has


def keep_rows(weight: Any, indices: Any) -> None:
    """Note which rows are looked up, so that the gradient of `weight` has these rows alone."""
    if _ROWS not in weight.__dict__:
        weight.__dict__[_ROWS] = []
        weight.register_post_accumulate_grad_hook(_make_sparse)
    weight.__dict__[_ROWS].append(np.unique(indices))


def _make_sparse(weight: Any) -> None:
    """Make a gradient sparse with only the rows that were looked up; with others, from a dense use, it stays dense."""
    g, noted = weight._grad, weight.__dict__[_ROWS]
    if g is None or not noted:
        weight.__dict__.pop(_HELD, None)
        if g is not None and g.is_sparse:
            weight._grad = g.to_dense()
        return
    array = np.asarray((g.to_dense() if g.is_sparse else g).array)
    rows, filled = np.unique(np.concatenate(noted)), np.flatnonzero(array.any(axis=1))
    noted.clear()
    rows = np.union1d(rows, np.intersect1d(weight.__dict__.pop(_HELD, filled[:0]), filled))
    if np.isin(filled, rows).all():
        weight.__dict__[_HELD] = rows
        weight._grad = SparseTensor.made(wrap(rows[None].astype(np.int64)), wrap(array[rows]), array.shape, True)


def mm(sparse: Any, dense: Any, reduce: str = "sum") -> Any:
    """Multiply a sparse matrix by another matrix; gradients flow to the elements of the first, and to the second.

    Parameters
    ----------
    sparse : Tensor
        Sparse matrix, ``(n, m)``.
    dense : Tensor
        Dense or sparse matrix, ``(m, p)``.
    reduce : {"sum"}, default "sum"
        How products are combined; torch's other reductions are not supported.

    Returns
    -------
    Tensor
        ``(n, p)``, dense, or sparse if both operands are.

    Examples
    --------
    >>> s = adjoint.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0])
    >>> adjoint.sparse.mm(s, adjoint.eye(2))
    tensor([[0., 2.],
            [3., 0.]])
    """
    if reduce != "sum":
        raise NotImplementedError(f"sparse.mm(reduce={reduce!r}) is not offered; rows are summed")
    return rules.matmul(sparse, dense)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """Return ``beta * mat + alpha * (mat1 @ mat2)`` for a sparse `mat1`."""
    return rules.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0, out: Any = None) -> Any:
    """Return ``beta * input + alpha * (mat1 @ mat2)`` at the places of the sparse `input`."""
    row, column = input._at.unbind(0)
    return input._with(beta * input._held + alpha * (mat1[row] * mat2.t()[column]).sum(-1))


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """Return the sum of all elements, or a sparse tensor of sums along dimensions."""
    return rules.total(input, dim, dtype=dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Return the softmax along a dimension over the elements that are there; the others stay nothing."""
    return _over_elements(words.softmax, input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Return the logarithm of `softmax`."""
    return _over_elements(words.log_softmax, input, dim, dtype)


def _over_elements(function: Any, input: Any, dim: int, dtype: Any) -> SparseTensor:
    whole = input.coalesce()
    held = whole._held if dtype is None else whole._held.to(dtype)
    least = words.full(tuple(whole.shape), -math.inf, dtype=held.dtype, device=held.device)
    dense = least.index_put(tuple(whole._at.unbind(0)), held)
    # Rows without elements have no softmax; they are never read, but their NaN must not reach a gradient.
    nothing = (dense == -math.inf).all(dim, keepdim=True)
    return sparse_mask(function(words.where(nothing, 0.0, dense), dim), whole)


def spdiags(diagonals: Any, offsets: Any, shape: tuple[int, int], layout: Any = None) -> SparseTensor:
    """Make a sparse matrix from its diagonals, one row each."""
    rows, columns, kept = [], [], []
    lines, shifts = words.atleast_2d(diagonals), np.atleast_1d(np.asarray(words.as_tensor(offsets).array))
    for number, shift in enumerate(int(s) for s in shifts):
        column = np.arange(lines.shape[1])
        row = column - shift
        inside = (row >= 0) & (row < shape[0]) & (column < shape[1])
        rows.append(row[inside])
        columns.append(column[inside])
        kept.append(lines[number][wrap(column[inside])])
    at = np.stack([np.concatenate(rows), np.concatenate(columns)])
    made = sparse_coo_tensor(wrap(at), words.cat(kept), shape)
    return made if layout is None else made.to_sparse(layout=layout)


class check_sparse_tensor_invariants(contextlib.ContextDecorator):
    """A context that changes nothing: places are checked whenever a sparse tensor is made."""

    def __init__(self, enable: bool = True) -> None:
        """Do nothing."""

    @staticmethod
    def is_enabled() -> bool:
        """Return True."""
        return True

    @staticmethod
    def enable() -> None:
        """Do nothing."""

    @staticmethod
    def disable() -> None:
        """Do nothing."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *error: object) -> None:
        """Do nothing."""
