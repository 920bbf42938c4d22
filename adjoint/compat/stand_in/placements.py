"""How torch places distributed tensors on a mesh: plain descriptions, which libraries make when they are imported.

adjoint has no distributed tensors (`distributed.fsdp` shards parameters as flat vectors); using one raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PLACEMENTS"]


class Placement:
    """A description of where the elements of a distributed tensor are."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether each rank has a part along a dimension, or along `dim`."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether each rank has all elements."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each rank has a term of a reduction."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank has a part along a dimension."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has all elements."""


@dataclass(frozen=True)
class Partial(Placement):
    """Each rank has a term of a reduction that is still to come."""

    reduce_op: str = "sum"


PLACEMENTS: dict[str, Any] = {"Placement": Placement, "Shard": Shard, "Replicate": Replicate, "Partial": Partial}
