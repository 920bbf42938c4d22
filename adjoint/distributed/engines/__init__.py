"""Who carries the bytes: MPI for arrays on the host, NCCL for arrays on GPUs; and how values become one."""

from __future__ import annotations

import enum

__all__ = ["ReduceOp", "reduce_op"]


class ReduceOp(enum.Enum):
    """The ways in which a collective brings values together.

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
