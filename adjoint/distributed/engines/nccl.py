"""NCCL, through CuPy: collectives of arrays on GPUs, on a separate stream.

Ranks meet through MPI; from then on the GPUs talk to each other. What NCCL has no call for (gather, scatter,
all-to-all) is a group of sends and receives, which NCCL carries out as one. What only copies carries bytes, so that
any dtype will do; what reduces needs one that NCCL can add up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import ReduceOp

__all__ = ["NcclEngine"]

_WORDS = {
    ReduceOp.SUM: "NCCL_SUM", ReduceOp.AVG: "NCCL_SUM", ReduceOp.PRODUCT: "NCCL_PROD", ReduceOp.MIN: "NCCL_MIN",
    ReduceOp.MAX: "NCCL_MAX",
}  # fmt: skip
_NOTHING = contextlib.nullcontext()
# For booleans a sum is "any", a product "all".
_OF_BOOLS = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}
_DTYPES = {
    "int8": "NCCL_INT8", "uint8": "NCCL_UINT8", "bool": "NCCL_UINT8", "int32": "NCCL_INT32", "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64", "uint64": "NCCL_UINT64", "float16": "NCCL_FLOAT16", "bfloat16": "NCCL_BFLOAT16",
    "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64",
}  # fmt: skip


class NcclEngine:
    """Collectives on dense arrays of one GPU; each returns a function that returns whether it has ended.

    The `order` method of that function makes the program's stream wait, without blocking the program.
    """

    name = "nccl"

    def __init__(self, comm: Any, device: int) -> None:
        import cupy
        from cupy.cuda import nccl

        self.cupy, self.nccl = cupy, nccl
        self.size, self.rank = comm.Get_size(), comm.Get_rank()
        self.device, self._single = device, cupy.cuda.runtime.getDeviceCount() == 1
        self._unused: list[Any] = []  # events that are free to be reused
        self._open: list[_Ended] | None = None
        self._kinds: dict[Any, tuple[int, int, int]] = {}
        with self._here():
            self.talk = nccl.NcclCommunicator(self.size, _told(comm, cupy, nccl), self.rank)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self._before = self._event()

    def _here(self) -> Any:
        """Return the context in which the engine's GPU is the current one."""
        return _NOTHING if self._single else self.cupy.cuda.Device(self.device)

    # --- Collectives --------------------------------------------------------------------------------

    def all_reduce(self, x: Any, op: ReduceOp) -> Callable[[], bool]:
        """Reduce into `x` on every rank."""
        at, count, dtype, how = self._reduced(x, op)
        return self._start(count, lambda s: self.talk.allReduce(at, at, count, dtype, how, s))

    def reduce(self, x: Any, op: ReduceOp, root: int) -> Callable[[], bool]:
        """Reduce into the root's `x`."""
        at, count, dtype, how = self._reduced(x, op)
        return self._start(count, lambda s: self.talk.reduce(at, at, count, dtype, how, root, s))

    def reduce_scatter(self, out: Any, x: Any, op: ReduceOp) -> Callable[[], bool]:
        """Fill `out` with this rank's part of what all `x` reduce to."""
        into, count, dtype, how = self._reduced(out, op)
        given = x.data.ptr
        return self._start(count, lambda s: self.talk.reduceScatter(given, into, count, dtype, how, s))

    def broadcast(self, x: Any, root: int) -> Callable[[], bool]:
        """Fill `x` from the root's."""
        at = x.data.ptr
        return self._start(x.nbytes, lambda s: self.talk.broadcast(at, at, x.nbytes, self._byte, root, s))

    def all_gather(self, out: Any, x: Any) -> Callable[[], bool]:
        """Fill `out` with every rank's `x`, one after the other."""
        return self._start(x.nbytes, lambda s: self.talk.allGather(x.data.ptr, out.data.ptr, x.nbytes, self._byte, s))

    def gather(self, out: Any, x: Any, root: int) -> Callable[[], bool]:
        """Fill the root's `out` with every rank's `x`."""
        received = [x.size] * self.size if self.rank == root else [0] * self.size
        sent = [x.size if rank == root else 0 for rank in range(self.size)]
        return self._exchange(out, received, x, sent, same=True)

    def scatter(self, out: Any, x: Any, root: int) -> Callable[[], bool]:
        """Fill `out` with this rank's part of the root's `x`."""
        received = [out.size if rank == root else 0 for rank in range(self.size)]
        sent = [out.size] * self.size if self.rank == root else [0] * self.size
        return self._exchange(out, received, x, sent)

    def all_to_all(self, out: Any, x: Any, received: list[int], given: list[int]) -> Callable[[], bool]:
        """Give every rank its part of `x`, and fill `out` with what they give; counts are of elements."""
        return self._exchange(out, received, x, given)

    def send(self, x: Any, to: int, tag: int) -> Callable[[], bool]:
        """Send `x`; NCCL knows no tags, messages arrive in the order in which they were sent."""
        return self._start(x.nbytes, lambda s: self.talk.send(x.data.ptr, x.nbytes, self._byte, to, s))

    def recv(self, x: Any, source: int | None, tag: int) -> Any:
        """Receive into `x`."""
        if source is None:
            raise RuntimeError("recv of a tensor on a GPU must name the rank that sends: NCCL requires it")
        ended = self._start(x.nbytes, lambda s: self.talk.recv(x.data.ptr, x.nbytes, self._byte, source, s))
        ended.source = source
        return ended

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Carry out the sends and receives of a block as one: they may wait for each other."""
        self._open = []
        try:
            with self._group():
                yield
        finally:  # NCCL starts them only now: what says that they have ended comes after
            begun, self._open = self._open, None
            with self._here():
                last = self._recorded()
            for ended in begun:
                ended.event, ended.shared = last, True

    @contextlib.contextmanager
    def _group(self) -> Iterator[None]:
        self.nccl.groupStart()
        try:
            yield
        finally:
            self.nccl.groupEnd()

    def close(self) -> None:
        """End the communicator."""
        with self._here():
            self.stream.synchronize()
            self.talk.destroy()

    # --- How ----------------------------------------------------------------------------------------

    @property
    def _byte(self) -> int:
        return int(self.nccl.NCCL_UINT8)

    def _reduced(self, x: Any, op: ReduceOp) -> tuple[int, int, int, int]:
        """Return NCCL's arguments for an array: its address, count, datatype and reduction."""
        found = self._kinds.get((x.dtype, op))
        if found is None:
            found = self._kinds[x.dtype, op] = self._kind(x.dtype, op)
        each, kind, how = found
        return x.data.ptr, x.size * each, kind, how

    def _kind(self, dtype: Any, op: ReduceOp) -> tuple[int, int, int]:
        """Return NCCL's values per element, datatype and reduction."""
        if op not in _WORDS:
            raise ValueError(
                f"Cannot use ReduceOp.{op.name} with NCCL; move the tensor to the CPU, where MPI supports it"
            )
        name, each = dtype.name, 1
        if dtype.kind == "c":
            if op not in (ReduceOp.SUM, ReduceOp.AVG):
                raise RuntimeError(f"all_reduce does not support {op.name} on complex tensors")
            name, each = ("float32" if name == "complex64" else "float64"), 2
        if name == "bool":
            if op is ReduceOp.AVG:
                raise TypeError("Cannot use ReduceOp.AVG with Boolean inputs")
            op = _OF_BOOLS.get(op, op)
        if name not in _DTYPES:
            raise TypeError(
                f"Input tensor data type is not supported for NCCL process group: {name}; convert it, or move it to "
                "the CPU"
            )
        return each, int(getattr(self.nccl, _DTYPES[name])), int(getattr(self.nccl, _WORDS[op]))

    def _start(self, count: int, call: Callable[[int], Any]) -> _Ended:
        """Begin after what the program has put on its stream so far; the program's stream goes on meanwhile."""
        with self._here():
            self._before.record(self.cupy.cuda.get_current_stream())
            self.stream.wait_event(self._before)
            if count:
                call(self.stream.ptr)
            ended = _Ended(self._recorded(), self)
        if self._open is not None:
            self._open.append(ended)
        return ended

    def _event(self) -> Any:
        return self.cupy.cuda.Event(disable_timing=True)

    def _recorded(self) -> Any:
        """Return an event that passes when what is on the stream now has ended."""
        event = self._unused.pop() if self._unused else self._event()
        event.record(self.stream)
        return event

    def _exchange(self, out: Any, received: list[int], x: Any, sent: list[int], same: bool = False) -> Any:
        """Send each rank its part of `x` (all of it where `same`) and receive into the parts of `out`."""

        def call(stream: int) -> None:
            with self._group():
                for rank, (at, size) in enumerate(_bytes(x, sent)):
                    if size:
                        self.talk.send(x.data.ptr if same else at, size, self._byte, rank, stream)
                for rank, (at, size) in enumerate(_bytes(out, received)):
                    if size:
                        self.talk.recv(at, size, self._byte, rank, stream)

        return self._start(1, call)


def _bytes(x: Any, counts: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the address and number of bytes of each part of an array; `counts` are of elements."""
    at, width = (0, 0) if x is None else (x.data.ptr, x.dtype.itemsize)
    for count in counts:
        yield at, count * width
        at += count * width


def _told(comm: Any, cupy: Any, nccl: Any) -> Any:
    """Return the unique id of NCCL's communicator: rank 0 makes it, MPI broadcasts it."""
    name = np.zeros(128, np.uint8)
    if comm.Get_rank() == 0:
        name[:] = [byte & 255 for byte in nccl.get_unique_id()]
    comm.Bcast(name, 0)
    # Before CuPy 14 it was a tuple of numbers, some of them negative.
    return name.tobytes() if int(cupy.__version__.partition(".")[0]) >= 14 else tuple(name.view(np.int8).tolist())


class _Ended:
    """Returns whether an event on the engine's stream has completed."""

    source, shared, ordered = -1, False, False

    def __init__(self, event: Any, engine: NcclEngine) -> None:
        self.event, self.engine = event, engine

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process much is gone already
            if not self.ordered:  # nothing has waited: the next user of its memory must
                self.order()
            if not self.shared:
                self.engine._unused.append(self.event)

    def __call__(self) -> bool:
        if not self.event.done:
            return False
        self.order()
        return True

    def order(self) -> None:
        """Let the program's stream wait for the event; the program itself goes on."""
        self.ordered = True
        with self.engine._here():
            self.engine.cupy.cuda.get_current_stream().wait_event(self.event)
