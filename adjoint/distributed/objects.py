"""Messages from one process to another, and collectives of objects."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import describe
from ..ops.create import finish
from ..serialization import load, save
from .collectives import Memory, all_gather_into_tensor, broadcast, gather, root_of, scatter
from .groups import is_member, resolved
from .works import Work

__all__ = [
    "P2POp", "all_gather_object", "batch_isend_irecv", "broadcast_object_list", "gather_object", "irecv", "isend",
    "recv", "recv_object_list", "scatter_object_list", "send", "send_object_list",
]  # fmt: skip


def isend(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Work:
    """Begin to send a tensor to rank `dst`; it must not change before ``wait()`` has returned."""
    pg = resolved(group)
    to = root_of(pg, dst, group_dst, "dst")
    memory = Memory(tensor, "tensor", pg, writes=False)
    start = lambda: pg.engine_for(memory.array).send(memory.array, to, tag)
    return pg.begin(f"send to rank {pg.ranks[to]}", describe(memory.array), start, None, memory, pg.ranks[to])


def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Work:
    """Begin to receive a tensor from rank `src`, or from any rank; it is there when ``wait()`` has returned."""
    pg = resolved(group)
    anybody = src is None and group_src is None
    source = None if anybody else root_of(pg, src, group_src, "src")
    memory = Memory(tensor, "tensor", pg)
    start = lambda: pg.engine_for(memory.array).recv(memory.array, source, tag)
    peer = -1 if source is None else pg.ranks[source]
    name = "recv from any rank" if source is None else f"recv from rank {peer}"
    return pg.begin(name, describe(memory.array), start, lambda: memory.settle("recv"), memory, peer)


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to rank `dst`."""
    _check_other(group, dst, group_dst, "dst", "destination")
    isend(tensor, dst, group, tag, group_dst).wait()


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor from rank `src`, or from any rank; return the sender's rank."""
    if src is not None or group_src is not None:
        _check_other(group, src, group_src, "src", "source")
    work = irecv(tensor, src, group, tag, group_src)
    work.wait()
    return work.source_rank()


def _check_other(group: Any, rank: int | None, group_rank: int | None, name: str, side: str) -> None:
    """Raise where a process would wait for itself."""
    pg = resolved(group)
    if root_of(pg, rank, group_rank, name) == pg.rank():
        raise ValueError(
            f"Invalid {side} rank: {side} rank should not be the same as the rank of the current process. "
            "isend and irecv, or batch_isend_irecv, may name it"
        )


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
    with pg.together([entry.tensor.array for entry in p2p_op_list]):
        return [
            entry.op(entry.tensor, entry.peer, entry.group, entry.tag, **{side(entry): entry.group_peer})
            for entry in p2p_op_list
        ]


def _encoded(obj: Any, allow_pickle: bool) -> Any:
    """Return an object as bytes in a tensor."""
    stream = io.BytesIO()
    if allow_pickle:
        save(obj, stream, pickle_module=importlib.import_module("pickle"))
    else:
        try:
            save(obj, stream, format="adjoint")
        except (TypeError, ValueError) as error:
            error.add_note(
                "Processes exchange plain data: numbers, strings, containers, tensors. allow_pickle=True sends any "
                "object, and runs what the others send."
            )
            raise
    return finish(np.frombuffer(stream.getvalue(), np.uint8).copy())


def _decoded(tensor: Any, length: int, allow_pickle: bool) -> Any:
    stream = io.BytesIO(tensor.array[:length].tobytes())
    if allow_pickle:
        return load(stream, pickle_module=importlib.import_module("pickle"), weights_only=False)
    return load(stream)


def _padded(tensor: Any, length: int) -> Any:
    array = np.zeros(length, np.uint8)
    array[: tensor.array.size] = tensor.array
    return finish(array)


def _lengths(tensor: Any, group: Any) -> list[int]:
    """Return how many bytes every rank has."""
    out = finish(np.zeros(resolved(group).size(), np.int64))
    all_gather_into_tensor(out, finish(np.array([tensor.array.size], np.int64)), group)
    return [int(length) for length in out.array]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None, *, allow_pickle: bool = False) -> None:
    """Fill `object_list` with every rank's `obj`.

    Parameters
    ----------
    allow_pickle
        Whether to send objects of any kind, as pickles: the receiver runs what is in them.
    """
    if not is_member(group):
        return
    pg = resolved(group)
    mine = _encoded(obj, allow_pickle)
    lengths = _lengths(mine, pg)
    longest = max(lengths)
    out = finish(np.empty((pg.size(), longest), np.uint8))
    all_gather_into_tensor(out, _padded(mine, longest), pg)
    for rank, length in enumerate(lengths):
        object_list[rank] = _decoded(finish(out.array[rank]), length, allow_pickle)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
    *,
    allow_pickle: bool = False,
) -> None:
    """Fill the `object_gather_list` of rank `dst` (0, if none is named) with every rank's `obj`."""
    if not is_member(group):
        return
    pg = resolved(group)
    root = root_of(pg, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    if (object_gather_list is not None) != (pg.rank() == root):
        raise ValueError("Argument ``object_gather_list`` must be specified on the destination rank, and only there")
    mine = _encoded(obj, allow_pickle)
    lengths = _lengths(mine, pg)
    buffers = [finish(np.empty(max(lengths), np.uint8)) for _ in lengths] if object_gather_list is not None else None
    gather(_padded(mine, max(lengths)), buffers, group=pg, group_dst=root)
    if object_gather_list is not None and buffers is not None:
        for rank, length in enumerate(lengths):
            object_gather_list[rank] = _decoded(buffers[rank], length, allow_pickle)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    *,
    allow_pickle: bool = False,
) -> None:
    """Fill every rank's `object_list` with the objects of rank `src` (0, if none is named)."""
    if not is_member(group):
        return
    pg = resolved(group)
    root = root_of(pg, 0 if src is None and group_src is None else src, group_src, "src")
    here = pg.rank() == root
    mine = _encoded(list(object_list), allow_pickle) if here else finish(np.zeros(0, np.uint8))
    length = finish(np.array([mine.array.size], np.int64))
    broadcast(length, group=pg, group_src=root)
    sent = mine if here else finish(np.empty(int(length.array[0]), np.uint8))
    broadcast(sent, group=pg, group_src=root)
    if not here:
        _fill(object_list, _decoded(sent, sent.array.size, allow_pickle))


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
    *,
    allow_pickle: bool = False,
) -> None:
    """Put into ``scatter_object_output_list[0]`` the object at this rank's place in the list of rank `src`."""
    if not is_member(group):
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    pg = resolved(group)
    root = root_of(pg, 0 if src is None and group_src is None else src, group_src, "src")
    encoded: list[Any] = []
    if pg.rank() == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != pg.size():
            raise ValueError(f"scatter_object_input_list must have one object for each of {pg.size()} ranks")
        encoded = [_encoded(obj, allow_pickle) for obj in scatter_object_input_list]
    lengths = finish(np.array([part.array.size for part in encoded] or [0] * pg.size(), np.int64))
    broadcast(lengths, group=pg, group_src=root)
    longest = int(lengths.array.max())
    out = finish(np.empty(longest, np.uint8))
    scatter(out, [_padded(part, longest) for part in encoded] or None, group=pg, group_src=root)
    scatter_object_output_list[0] = _decoded(out, int(lengths.array[pg.rank()]), allow_pickle)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
    *,
    allow_pickle: bool = False,
) -> None:
    """Send objects to rank `dst`."""
    mine = _encoded(list(object_list), allow_pickle)
    send(finish(np.array([mine.array.size], np.int64)), dst, group, group_dst=group_dst)
    send(mine, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
    *,
    allow_pickle: bool = False,
) -> int:
    """Fill a list with objects from rank `src`, or from any rank; return the sender's rank."""
    length = finish(np.zeros(1, np.int64))
    sender = recv(length, src, group, group_src=group_src)
    sent = finish(np.empty(int(length.array[0]), np.uint8))
    recv(sent, sender, group)
    _fill(object_list, _decoded(sent, sent.array.size, allow_pickle))
    return sender


def _fill(object_list: list[Any], arrived: Any) -> None:
    if len(arrived) != len(object_list):
        raise ValueError(f"{len(arrived)} objects arrived, but the list has {len(object_list)} entries")
    object_list[:] = arrived
