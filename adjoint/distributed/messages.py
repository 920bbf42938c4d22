"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import describe
from .collectives import root_of
from .groups import ProcessGroup, resolved
from .memories import Memory
from .works import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def isend(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Work:
    """Begin to send a tensor to rank `dst`; it must not change before ``wait()`` has returned."""
    pg = resolved(group)
    to = _other(pg, dst, group_dst, "dst")
    memory = Memory(tensor, "tensor", pg, writes=False)
    start = lambda: pg.engine_for(memory.array).send(memory.array, to, tag)
    return pg.begin(f"send to rank {pg.ranks[to]}", describe(memory.array), start, None, memory, pg.ranks[to])


def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Work:
    """Begin to receive a tensor from rank `src`, or from anybody; it is there when ``wait()`` has returned."""
    pg = resolved(group)
    anybody = src is None and group_src is None
    source = None if anybody else _other(pg, src, group_src, "src")
    memory = Memory(tensor, "tensor", pg)
    start = lambda: pg.engine_for(memory.array).recv(memory.array, source, tag)
    peer = -1 if source is None else pg.ranks[source]
    name = "recv from any rank" if source is None else f"recv from rank {peer}"
    return pg.begin(name, describe(memory.array), start, lambda: memory.settle("recv"), memory, peer)


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to rank `dst`."""
    isend(tensor, dst, group, tag, group_dst).wait()


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor from rank `src`, or from anybody; return the sender's rank."""
    work = irecv(tensor, src, group, tag, group_src)
    work.wait()
    return work.source_rank()


def _other(pg: ProcessGroup, rank: int | None, group_rank: int | None, name: str) -> int:
    found = root_of(pg, rank, group_rank, name)
    if found == pg.rank():
        raise ValueError(f"Invalid {name} rank: a process does not send to or receive from itself")
    return found


class P2POp:
    """A send or receive of `batch_isend_irecv`: `op` is `isend` or `irecv`."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise RuntimeError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several sends and receives together; return their handles."""
    if not p2p_op_list or not all(isinstance(entry, P2POp) for entry in p2p_op_list):
        raise ValueError("p2p_op_list must be a list of P2POp, and not empty")
    pg = resolved(p2p_op_list[0].group)
    side = lambda entry: "group_dst" if entry.op is isend else "group_src"
    with pg.together():
        return [
            entry.op(entry.tensor, entry.peer, entry.group, entry.tag, **{side(entry): entry.group_peer})
            for entry in p2p_op_list
        ]
