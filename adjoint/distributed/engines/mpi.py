"""MPI, through mpi4py: every call is a non-blocking one, so that the waiting rank can check for timeouts."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from . import ReduceOp, check_reduction

__all__ = ["Letters", "MpiEngine", "mpi", "release_shared_memory"]


@functools.cache
def mpi() -> Any:
    """Return ``mpi4py.MPI``."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the latter where mpi4py is there, and no MPI
        raise ImportError(
            "adjoint.distributed needs mpi4py and an MPI library, and did not find both; pip install mpi4py mpich "
            "(Windows: mpi4py impi-rt)"
        ) from error
    return MPI


def release_shared_memory(comm: Any) -> None:
    """Take away the names of the shared memory that all ranks have mapped by now: a killed job leaves no files.

    MPICH removes them in the end, which a job that is killed or aborted does not reach. Every rank calls this.
    """
    comm.Barrier()
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for name in {line.rstrip().partition("/")[2] for line in maps if "/dev/shm/mpich_shm_" in line}:
            with contextlib.suppress(OSError):  # another rank has, or an earlier call
                os.unlink(f"/{name}")


# What MPI cannot add up itself: these are reduced by functions of NumPy, pair by pair.
_SMALL_FLOATS = {
    np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e4m3fnuz), np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e5m2fnuz),
}  # fmt: skip
_UFUNCS: dict[ReduceOp, Any] = {
    ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}  # fmt: skip
_WORDS = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}  # fmt: skip
# For booleans a sum is "any", a product "all".
_OF_BOOLS = {"SUM": "BOR", "MAX": "BOR", "PROD": "BAND", "MIN": "BAND"}


@functools.cache
def _pairwise(op: ReduceOp, dtype: np.dtype[Any]) -> Any:
    """Return the MPI op that reduces a dtype which MPI does not know."""
    ufunc = _UFUNCS[op]

    def reduce(given: Any, held: Any, datatype: Any) -> None:
        into: Any = np.frombuffer(held, dtype)
        ufunc(np.frombuffer(given, dtype), into, out=into)

    return mpi().Op.Create(reduce, commute=True)


@functools.cache
def _op_of(op: ReduceOp, dtype: np.dtype[Any]) -> Any:
    check_reduction(op, dtype)
    if dtype in _SMALL_FLOATS:
        return _pairwise(op, dtype)
    word = _WORDS[op]
    if dtype == np.bool_:
        word = _OF_BOOLS.get(word, word)
    return getattr(mpi(), word)


@functools.cache
def _datatype(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return how MPI sees a dtype, and the NumPy dtype under which it is handed over."""
    if dtype == np.bool_:
        return mpi().UINT8_T, np.dtype(np.uint8)
    if dtype in _SMALL_FLOATS:
        return (mpi().UINT8_T, np.dtype(np.uint8)) if dtype.itemsize == 1 else (mpi().UINT16_T, np.dtype(np.uint16))
    return mpi().Datatype.fromcode(dtype.char), dtype


def _memory(array: Any) -> list[Any]:
    """Return an array as mpi4py takes it."""
    datatype, seen_as = _datatype(array.dtype)
    return [array if seen_as is array.dtype else array.reshape(-1).view(seen_as), datatype]


class MpiEngine:
    """Collectives on dense CPU arrays; each returns the ``Test`` function of its request.

    Ranks are those of the communicator.
    """

    name = "mpi"

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.size, self.rank = comm.Get_size(), comm.Get_rank()

    def all_reduce(self, x: Any, op: ReduceOp) -> Callable[[], bool]:
        """Reduce into `x` on every rank."""
        return self.comm.Iallreduce(mpi().IN_PLACE, _memory(x), _op_of(op, x.dtype)).Test

    def reduce(self, x: Any, op: ReduceOp, root: int) -> Callable[[], bool]:
        """Reduce into the root's `x`."""
        if self.rank == root:
            return self.comm.Ireduce(mpi().IN_PLACE, _memory(x), _op_of(op, x.dtype), root).Test
        return self.comm.Ireduce(_memory(x), None, _op_of(op, x.dtype), root).Test

    def broadcast(self, x: Any, root: int) -> Callable[[], bool]:
        """Fill `x` from the root's."""
        return self.comm.Ibcast(_memory(x), root).Test

    def all_gather(self, out: Any, x: Any) -> Callable[[], bool]:
        """Fill `out` with every rank's `x`, one after the other."""
        return self.comm.Iallgather(_memory(x), _memory(out)).Test

    def gather(self, out: Any, x: Any, root: int) -> Callable[[], bool]:
        """Fill the root's `out` with every rank's `x`."""
        return self.comm.Igather(_memory(x), None if out is None else _memory(out), root).Test

    def scatter(self, out: Any, x: Any, root: int) -> Callable[[], bool]:
        """Fill `out` with this rank's part of the root's `x`."""
        return self.comm.Iscatter(None if x is None else _memory(x), _memory(out), root).Test

    def reduce_scatter(self, out: Any, x: Any, op: ReduceOp) -> Callable[[], bool]:
        """Fill `out` with this rank's part of what all `x` reduce to."""
        return self.comm.Ireduce_scatter_block(_memory(x), _memory(out), _op_of(op, x.dtype)).Test

    def all_to_all(self, out: Any, x: Any, received: list[int], given: list[int]) -> Callable[[], bool]:
        """Give every rank its part of `x`, and fill `out` with what they give; counts are of elements."""
        return self.comm.Ialltoallv(self._split(x, given), self._split(out, received)).Test

    def _split(self, array: Any, counts: list[int]) -> list[Any]:
        memory, datatype = _memory(array)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
        return [memory, (counts, starts), datatype]

    def send(self, x: Any, to: int, tag: int) -> Callable[[], bool]:
        """Send `x`."""
        return self.comm.Isend(_memory(x), to, tag).Test

    def recv(self, x: Any, source: int | None, tag: int) -> Receipt:
        """Receive into `x`, from any rank where `source` is None."""
        MPI = mpi()
        return Receipt(self.comm.Irecv(_memory(x), MPI.ANY_SOURCE if source is None else source, tag), x)

    def barrier(self) -> Callable[[], bool]:
        """Wait for every rank."""
        return self.comm.Ibarrier().Test

    def together(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: non-blocking sends and receives do not wait for each other."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Free the communicator."""
        if self.comm != mpi().COMM_WORLD:
            self.comm.Free()


class Receipt:
    """A message on its way here: whose it was, and whether it filled the memory that was laid out for it."""

    def __init__(self, request: Any, x: Any) -> None:
        self.request, self.x = request, x
        self.status = mpi().Status()

    def __call__(self) -> bool:
        if not self.request.Test(self.status):
            return False
        arrived = self.status.Get_count(mpi().BYTE)
        if arrived != self.x.nbytes:
            raise RuntimeError(
                f"recv: rank {self.status.Get_source()} of the group sent {arrived} bytes, "
                f"and {self.x.nbytes} are expected ({self.x.dtype.name}{list(self.x.shape)}): the tensors of send and "
                "recv must have the same shape and dtype"
            )
        return True

    @property
    def source(self) -> int:
        """The rank that sent the message."""
        return int(self.status.Get_source())


_LONGEST = 4096  # bytes of a letter


class Letters:
    """Short messages between ranks outside of the collectives, on a separate communicator."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.threads = mpi().Query_thread() == mpi().THREAD_MULTIPLE
        self._sent: list[Any] = []

    def Get_rank(self) -> int:
        """Return this process's number."""
        return int(self.comm.Get_rank())

    def Get_size(self) -> int:
        """Return how many processes there are."""
        return int(self.comm.Get_size())

    def post(self, text: bytes, rank: int, tag: int) -> None:
        """Send a letter."""
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent.append(self.comm.Isend([bytearray(text), mpi().BYTE], rank, tag))

    def take(self, tag: int) -> tuple[int, bytes] | None:
        """Return a letter and its sender, if one is there."""
        MPI = mpi()
        status = MPI.Status()
        if not self.comm.Iprobe(MPI.ANY_SOURCE, tag, status):
            return None
        text = bytearray(min(status.Get_count(MPI.BYTE), _LONGEST))
        source = status.Get_source()
        self.comm.Recv([text, MPI.BYTE], source, tag)
        return source, bytes(text)

    def Free(self) -> None:
        """Free the communicator."""
        for request in self._sent:
            request.Test()
        self.comm.Free()
