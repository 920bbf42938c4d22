"""Reductions that leave out what a mask says."""

from __future__ import annotations

import pytest

import adjoint
from adjoint import masked

X = adjoint.tensor([[1.0, 5.0, 2.0], [7.0, 4.0, 3.0]])
MASK = adjoint.tensor([[True, False, True], [False, False, False]])


def test_what_is_masked_out_does_not_count() -> None:
    assert masked.sum(X, 1, mask=MASK).tolist() == [3.0, 0.0]
    assert masked.amax(X, 1, mask=MASK).tolist() == [2.0, -adjoint.inf]
    assert masked.mean(X, 1, mask=MASK)[0] == 1.5 and masked.mean(X, 1, mask=MASK)[1].isnan()
    assert masked.var(X, 1, mask=MASK)[0] == 0.5
    assert masked.softmax(X, 1, mask=MASK)[0, 1] == 0.0


def test_its_gradient_is_zero() -> None:
    x = X.clone().requires_grad_()
    masked.logsumexp(x, mask=MASK).backward()
    assert x.grad is not None
    assert (x.grad != 0).tolist() == MASK.tolist()


def test_a_mask_spreads_to_the_input_but_not_beyond() -> None:
    assert masked.prod(X, 1, mask=MASK[0]).tolist() == [2.0, 21.0]
    with pytest.raises(IndexError, match="mask dimensionality higher than of the input"):
        masked.sum(X[0], mask=MASK)
