"""One process and no MPI: the communicator of a single rank, and collectives without peers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from . import ReduceOp

__all__ = ["Alone", "AloneEngine"]


class Alone:
    """The interface of MPI's communicators, for one rank."""

    threads = False  # there are no peers to send messages

    def Get_rank(self) -> int:
        """Return 0."""
        return 0

    def Get_size(self) -> int:
        """Return 1."""
        return 1

    def Dup(self) -> Alone:
        """Return the same communicator: there are no other messages."""
        return self

    def Get_group(self) -> Alone:
        """Return the group of one."""
        return self

    def Incl(self, ranks: list[int]) -> Alone:
        """Return the group of one."""
        return self

    def Create_group(self, members: Any, tag: int) -> Alone:
        """Return the communicator of one."""
        return self

    def Bcast(self, memory: Any, root: int) -> None:
        """Leave the memory as it is."""

    def Abort(self, code: int) -> None:
        """End this process."""
        raise SystemExit(code)

    def Free(self) -> None:
        """Do nothing."""


def _ended() -> bool:
    return True


class AloneEngine:
    """Collectives of one rank on dense CPU arrays."""

    name = "alone"

    def __init__(self, comm: Any) -> None:
        self.comm, self.size, self.rank = comm, 1, 0
        self._letters: dict[int, list[Any]] = {}

    def all_reduce(self, x: Any, op: ReduceOp) -> Callable[[], bool]:
        """Leave `x` as it is."""
        return _ended

    def reduce(self, x: Any, op: ReduceOp, root: int) -> Callable[[], bool]:
        """Leave `x` as it is."""
        return _ended

    def broadcast(self, x: Any, root: int) -> Callable[[], bool]:
        """Leave `x` as it is."""
        return _ended

    def all_gather(self, out: Any, x: Any) -> Callable[[], bool]:
        """Copy `x` to `out`."""
        out.reshape(-1)[...] = x.reshape(-1)
        return _ended

    def gather(self, out: Any, x: Any, root: int) -> Callable[[], bool]:
        """Copy `x` to `out`."""
        return self.all_gather(out, x)

    def scatter(self, out: Any, x: Any, root: int) -> Callable[[], bool]:
        """Copy `x` to `out`."""
        return self.all_gather(out, x)

    def reduce_scatter(self, out: Any, x: Any, op: ReduceOp) -> Callable[[], bool]:
        """Copy `x` to `out`."""
        return self.all_gather(out, x)

    def all_to_all(self, out: Any, x: Any, received: list[int], given: list[int]) -> Callable[[], bool]:
        """Copy `x` to `out`."""
        return self.all_gather(out, x)

    def send(self, x: Any, to: int, tag: int) -> Callable[[], bool]:
        """Store a copy of `x` until it is received."""
        self._letters.setdefault(tag, []).append(x.copy())
        return _ended

    def recv(self, x: Any, source: int | None, tag: int) -> Receipt:
        """Receive into `x` what was sent first."""
        return Receipt(self._letters.setdefault(tag, []), x)

    def barrier(self) -> Callable[[], bool]:
        """Return at once: there are no peers."""
        return _ended

    def together(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: sends and receives do not wait for each other."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Do nothing."""


class Receipt:
    """A message of a process to itself."""

    source = 0

    def __init__(self, letters: list[Any], x: Any) -> None:
        self.letters, self.x = letters, x

    def __call__(self) -> bool:
        if not self.letters:
            return False
        self.x.reshape(-1)[...] = self.letters.pop(0).reshape(-1)
        return True
