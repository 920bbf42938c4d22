"""Sparse tensors in the layouts COO (coordinates), CSR, CSC, BSR and BSC (compressed rows, columns or blocks)."""

from __future__ import annotations

from .functions import (
    addmm,
    check_sparse_tensor_invariants,
    log_softmax,
    mm,
    sampled_addmm,
    softmax,
    spdiags,
    sum,
)
from .making import (
    dsmm,
    hspmm,
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    sparse_mask,
    spmm,
    to_sparse,
    to_sparse_bsc,
    to_sparse_bsr,
    to_sparse_csc,
    to_sparse_csr,
    typed,
)
from .tensor import SparseTensor

__all__ = [
    "SparseTensor", "addmm", "check_sparse_tensor_invariants", "dsmm", "hspmm", "log_softmax", "mm",
    "sampled_addmm", "softmax", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor",
    "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor", "sparse_mask", "spdiags", "spmm", "sum", "to_sparse",
    "to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr",
]  # fmt: skip

globals().update(typed)  # FloatTensor and its like, the older names
