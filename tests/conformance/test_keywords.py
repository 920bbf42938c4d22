"""Arguments have torch's names, and torch's order."""

from __future__ import annotations

import pytest

# Odd names that torch's own documentation does not have, sparse layouts, and shapes that torch forgets to refuse.
KNOWN = {
    "Tensor.copy_", "Tensor.heaviside_", "Tensor.ormqr", "Tensor.tensor_split", "embedding_bag", "native_batch_norm",
    "nn.functional.elu_", "ormqr", "repeat_interleave", "result_type", "sparse_bsc_tensor", "sparse_bsr_tensor",
    "sparse_coo_tensor", "sparse_csc_tensor",
    "sparse_csr_tensor", "split_copy", "tensor_split",
}  # fmt: skip


def test_arguments_have_the_names_of_torch() -> None:
    pytest.importorskip("torch", reason="torch is the oracle")
    from .keywords import differences

    found = differences()
    worse = {name: lines for name, lines in found.items() if name not in KNOWN}
    assert not worse, "\n".join(f"{name}: {lines[0]}" for name, lines in worse.items())
