"""``torch.functional``: functions on several tensors, under the path at which some programs look for them."""

from __future__ import annotations

from ..ops import namespace

__all__ = [  # noqa: F822 - the loop below has them
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
    "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft", "svd_lowrank",
    "tensordot", "unique", "unique_consecutive", "unravel_index",
]  # fmt: skip

globals().update({name: getattr(namespace, name) for name in __all__})
