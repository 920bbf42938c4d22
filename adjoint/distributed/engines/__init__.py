"""Transports: MPI or TCP for arrays on the CPU, NCCL for arrays on GPUs; and reductions."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

__all__ = ["ReduceOp", "check_reduction", "reduce_op"]


class ReduceOp(enum.Enum):
    """The reductions of collectives.

    Examples
    --------
    >>> adjoint.distributed.ReduceOp.SUM
    <RedOpType.SUM: 0>
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # PyTorch has a class around its enumeration


class reduce_op:
    """The old name of `ReduceOp`."""

    SUM, PRODUCT, MIN, MAX = ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX


def check_reduction(op: ReduceOp, dtype: np.dtype[Any]) -> None:
    """Raise where elements of a dtype cannot be reduced by an op."""
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and dtype.kind not in "iub":
        raise RuntimeError(f"{op} does not reduce {dtype.name}: it works on bits of integers")
    if op in (ReduceOp.MIN, ReduceOp.MAX) and dtype.kind == "c":
        raise RuntimeError(f"{op} does not reduce {dtype.name}: complex numbers have no order")
