"""NCCL, through CuPy: collectives of arrays on GPUs, on a stream of their own.

Ranks meet through MPI; from then on the GPUs talk to each other. What NCCL has no call for (gather, scatter,
all-to-all) is a group of sends and receives, which NCCL carries out as one.
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
_DTYPES = {
    "int8": "NCCL_INT8", "uint8": "NCCL_UINT8", "bool": "NCCL_UINT8", "int32": "NCCL_INT32", "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64", "uint64": "NCCL_UINT64", "float16": "NCCL_FLOAT16", "bfloat16": "NCCL_BFLOAT16",
    "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64",
}  # fmt: skip


class NcclEngine:
    """Collectives on dense arrays of this process's GPU; each returns the function that tells whether it has ended."""

    name = "nccl"

    def __init__(self, comm: Any) -> None:
        import cupy
        from cupy.cuda import nccl

        self.cupy, self.nccl = cupy, nccl
        self.size, self.rank = comm.Get_size(), comm.Get_rank()
        self.talk = nccl.NcclCommunicator(self.size, _told(comm, nccl), self.rank)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._open: list[_Ended] | None = None

    # --- Collectives --------------------------------------------------------------------------------

    def all_reduce(self, x: Any, op: ReduceOp) -> Callable[[], bool]:
        """Reduce into `x` on every rank."""
        at, count, dtype = self._memory(x)
        return self._start(lambda s: self.talk.allReduce(at, at, count, dtype, self._op(op), s))

    def reduce(self, x: Any, op: ReduceOp, root: int) -> Callable[[], bool]:
        """Reduce into the root's `x`."""
        at, count, dtype = self._memory(x)
        return self._start(lambda s: self.talk.reduce(at, at, count, dtype, self._op(op), root, s))

    def broadcast(self, x: Any, root: int) -> Callable[[], bool]:
        """Fill `x` from the root's."""
        at, count, dtype = self._memory(x)
        return self._start(lambda s: self.talk.broadcast(at, at, count, dtype, root, s))

    def all_gather(self, out: Any, x: Any) -> Callable[[], bool]:
        """Fill `out` with every rank's `x`, one after the other."""
        at, count, dtype = self._memory(x)
        return self._start(lambda s: self.talk.allGather(at, self._memory(out)[0], count, dtype, s))

    def reduce_scatter(self, out: Any, x: Any, op: ReduceOp) -> Callable[[], bool]:
        """Fill `out` with this rank's part of what all `x` reduce to."""
        into, count, dtype = self._memory(out)
        return self._start(lambda s: self.talk.reduceScatter(self._memory(x)[0], into, count, dtype, self._op(op), s))

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
        at, count, dtype = self._memory(x)
        return self._start(lambda s: self.talk.send(at, count, dtype, to, s))

    def recv(self, x: Any, source: int | None, tag: int) -> Any:
        """Receive into `x`."""
        if source is None:
            raise RuntimeError("recv of a tensor on a GPU must name the rank that sends: NCCL asks for it")
        at, count, dtype = self._memory(x)
        test = self._start(lambda s: self.talk.recv(at, count, dtype, source, s))
        return _From(test, source)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Carry out the sends and receives of a block as one: they may wait for each other."""
        self._open = []
        try:
            with self._group():
                yield
        finally:  # NCCL starts them only now: what says that they have ended comes after
            event, begun, self._open = self.stream.record(), self._open, None
            for ended in begun:
                ended.event = event

    @contextlib.contextmanager
    def _group(self) -> Iterator[None]:
        self.nccl.groupStart()
        try:
            yield
        finally:
            self.nccl.groupEnd()

    def close(self) -> None:
        """End the communicator."""
        self.stream.synchronize()
        self.talk.destroy()

    # --- How ----------------------------------------------------------------------------------------

    def _op(self, op: ReduceOp) -> int:
        if op not in _WORDS:
            raise RuntimeError(f"NCCL does not reduce by {op}; move the tensor to the host")
        return int(getattr(self.nccl, _WORDS[op]))

    def _memory(self, x: Any) -> tuple[int, int, int]:
        """Return where an array lies, how many numbers it is, and of which kind: complex ones are two each."""
        name, count = x.dtype.name, x.size
        if x.dtype.kind == "c":
            name, count = ("float32" if name == "complex64" else "float64"), 2 * count
        if name not in _DTYPES or not hasattr(self.nccl, _DTYPES[name]):
            raise RuntimeError(f"NCCL does not carry {name}; move the tensor to the host, or convert it")
        return x.data.ptr, count, int(getattr(self.nccl, _DTYPES[name]))

    def _start(self, call: Callable[[int], Any]) -> Callable[[], bool]:
        """Begin after what the program has put on its stream so far, and let its stream go on after the end."""
        current = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(current.record())
        call(self.stream.ptr)
        ended = _Ended(self.stream.record(), self.cupy.cuda.get_current_stream)
        if self._open is not None:
            self._open.append(ended)
        return ended

    def _exchange(self, out: Any, received: list[int], x: Any, sent: list[int], same: bool = False) -> Any:
        """Send each rank its part of `x` (all of it where `same`) and receive into the parts of `out`."""

        def call(stream: int) -> None:
            with self._group():
                at = 0
                for rank, count in enumerate(sent):
                    if count:
                        self._part(self.talk.send, x, 0 if same else at, count, rank, stream)
                    at += count
                at = 0
                for rank, count in enumerate(received):
                    if count:
                        self._part(self.talk.recv, out, at, count, rank, stream)
                    at += count

        return self._start(call)

    def _part(self, call: Any, x: Any, start: int, count: int, rank: int, stream: int) -> None:
        at, whole, dtype = self._memory(x)
        per = whole // x.size if x.size else 1
        call(at + start * x.dtype.itemsize, count * per, dtype, rank, stream)


def _told(comm: Any, nccl: Any) -> Any:
    """Return the name under which NCCL's ranks meet: rank 0 chooses it, MPI tells the others."""
    name = np.zeros(128, np.int8)
    if comm.Get_rank() == 0:
        name[:] = nccl.get_unique_id()
    comm.Bcast(name, 0)
    return tuple(name.tolist())


class _Ended:
    """Tells whether an event on the engine's stream has passed; then the program's stream waits for it too."""

    def __init__(self, event: Any, current: Callable[[], Any]) -> None:
        self.event, self.current = event, current

    def __call__(self) -> bool:
        if not self.event.done:
            return False
        self.current().wait_event(self.event)
        return True


class _From:
    """A receive, and who sends."""

    def __init__(self, test: Callable[[], bool], source: int) -> None:
        self.test, self.source = test, source

    def __call__(self) -> bool:
        return self.test()
