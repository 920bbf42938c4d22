"""Memory layouts of results: what torch lays out densely is dense here, so that `view` works on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint
from tests.oracle import needs_torch, torch

OPERANDS: dict[str, Callable[[Any], Any]] = {
    "permuted": lambda T: T.rand(20, 8, 4).permute(2, 0, 1),
    "transposed": lambda T: T.rand(20, 8, 4).transpose(0, 1),
    "small": lambda T: T.rand(3, 2, 4).permute(2, 1, 0),
    "matrix": lambda T: T.rand(6, 9).T,
    "expanded": lambda T: T.rand(5, 1, 7).expand(5, 4, 7),
    "every other": lambda T: T.rand(8, 10, 6)[:, ::2],
    "images": lambda T: T.rand(2, 3, 8, 8).to(memory_format=T.channels_last),
    "heads": lambda T: T.rand(2, 5, 3, 4).transpose(1, 2),
}
OPS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: lambda T, x, name=name: getattr(x, name)(dim=1)
        for name in ("sum", "mean", "prod", "amax", "amin", "var", "std", "logsumexp", "argmax", "any", "count_nonzero")
    },
    **{
        f"{name}, kept": lambda T, x, name=name: getattr(x, name)(dim=-1, keepdim=True)
        for name in ("sum", "mean", "prod", "amax", "amin", "var", "norm", "all")
    },
    "max": lambda T, x: x.max(1)[0],
    "min": lambda T, x: x.min(0)[0],
    "integers": lambda T, x: x.long().sum(0),
    "halves": lambda T, x: x.half().sum(0),
    "softmax": lambda T, x: x.softmax(1),
    "stack": lambda T, x: T.stack([x, x], 1) if x.ndim < 4 else x,
    "cat": lambda T, x: T.cat([x, x], 1),
    "roll": lambda T, x: x.roll(1, 0),
    "tril": lambda T, x: x.tril(),
    "triu": lambda T, x: x.triu(1),
    "masked_fill": lambda T, x: x.masked_fill(x > 0.5, 0.0),
}


@needs_torch
@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("op", OPS)
def test_dense_where_torchs_is(op: str, operand: str) -> None:
    ours, theirs = (OPS[op](T, OPERANDS[operand](T)) for T in (adjoint, torch))
    assert ours.shape == theirs.shape
    if theirs.is_contiguous():
        assert ours.is_contiguous() and ours.view(-1).shape == (theirs.numel(),)
    elif theirs.ndim == 4 and theirs.is_contiguous(memory_format=torch.channels_last):
        assert ours.is_contiguous(memory_format=adjoint.channels_last)
