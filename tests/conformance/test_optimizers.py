"""Every optimizer of torch's `optim_db` walks the same path here, and refuses what torch refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is the oracle")
pytest.importorskip("expecttest", reason="torch's tables import it")

import torch

import adjoint

from . import optimizers

NAMES = [info.optim_cls.__name__ for info in optimizers.database()]


def needs_sparse(case: optimizers.Case) -> bool:
    return case.sparse or "dense params" in case.description


# Torch says once per process that it does not check sparse tensors it is given.
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_same_path_with_every_option(name: str) -> None:
    cases = [c for c in optimizers.cases() if c.name == name]
    if any(map(needs_sparse, cases)) and not hasattr(adjoint, "sparse_coo_tensor"):
        pytest.skip("no sparse tensors yet")
    found = {str(case): optimizers.difference(adjoint, torch, case) for case in cases}
    assert not {case: problem for case, problem in found.items() if problem}


@pytest.mark.parametrize("name", NAMES)
def test_refuses_what_torch_refuses(name: str) -> None:
    cases = [c for c in optimizers.error_cases() if c.name == name]
    if not hasattr(adjoint, "sparse_coo_tensor"):
        cases = [c for c in cases if not needs_sparse(c)]
    found = {str(case): optimizers.refusal(adjoint, case) for case in cases}
    assert not {case: problem for case, problem in found.items() if problem}
