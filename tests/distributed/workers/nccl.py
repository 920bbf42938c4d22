"""The NCCL engine against a stand-in for CuPy whose communicator talks through MPI.

What is checked is what the engine asks of NCCL: addresses, counts, dtypes, roots, groups of sends and receives. The
real one needs a GPU (tests marked gpu).
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
from typing import Any

import numpy as np
from mpi4py import MPI

import adjoint.distributed as dist
from adjoint.distributed.engines import ReduceOp

CODES = {0: np.int8, 1: np.uint8, 2: np.int32, 4: np.int64, 7: np.float32, 8: np.float64}
REDUCE = {0: MPI.SUM, 1: MPI.PROD, 2: MPI.MAX, 3: MPI.MIN}


class Array(np.ndarray):
    """An array that says where it lies as CuPy's do."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)


def array(values: Any, dtype: Any = np.float32) -> Any:
    return np.ascontiguousarray(np.asarray(values, dtype)).view(Array)


def at(pointer: int, count: int, code: int) -> Any:
    dtype = np.dtype(CODES[code])
    memory = (ctypes.c_byte * (count * dtype.itemsize)).from_address(pointer)
    return np.frombuffer(memory, dtype)


class Communicator:
    def __init__(self, size: int, name: Any, rank: int) -> None:
        assert len(name) == 128 and name[0] == 7
        self.comm = MPI.COMM_WORLD.Dup()

    def allReduce(self, a: int, b: int, n: int, t: int, op: int, stream: int) -> None:
        self.comm.Allreduce(at(a, n, t).copy(), at(b, n, t), REDUCE[op])

    def reduce(self, a: int, b: int, n: int, t: int, op: int, root: int, stream: int) -> None:
        self.comm.Reduce(at(a, n, t).copy(), at(b, n, t), REDUCE[op], root)

    def broadcast(self, a: int, b: int, n: int, t: int, root: int, stream: int) -> None:
        self.comm.Bcast(at(b, n, t), root)

    def allGather(self, a: int, b: int, n: int, t: int, stream: int) -> None:
        self.comm.Allgather(at(a, n, t), at(b, n * self.comm.size, t))

    def reduceScatter(self, a: int, b: int, n: int, t: int, op: int, stream: int) -> None:
        self.comm.Reduce_scatter_block(at(a, n * self.comm.size, t), at(b, n, t), REDUCE[op])

    def send(self, a: int, n: int, t: int, peer: int, stream: int) -> None:
        pending.append(self.comm.Isend(at(a, n, t), peer))

    def recv(self, a: int, n: int, t: int, peer: int, stream: int) -> None:
        pending.append(self.comm.Irecv(at(a, n, t), peer))

    def destroy(self) -> None:
        self.comm.Free()


pending: list[Any] = []


def end_group() -> None:
    MPI.Request.Waitall(pending)
    pending.clear()


class Stream:
    ptr = 0

    def __init__(self, non_blocking: bool = False) -> None: ...
    def wait_event(self, event: Any) -> None: ...
    def synchronize(self) -> None: ...


class Event:
    def __init__(self, disable_timing: bool = False) -> None: ...
    def record(self, stream: Any) -> None:
        self.done = not pending  # as of a stream on which nothing runs


def stand_in() -> None:
    words = {
        "NCCL_INT8": 0, "NCCL_UINT8": 1, "NCCL_INT32": 2, "NCCL_INT64": 4, "NCCL_FLOAT32": 7, "NCCL_FLOAT64": 8,
        "NCCL_SUM": 0, "NCCL_PROD": 1, "NCCL_MAX": 2, "NCCL_MIN": 3,
    }  # fmt: skip
    nccl = types.ModuleType("cupy.cuda.nccl")
    nccl.__dict__.update(
        words,
        NcclCommunicator=Communicator,
        get_unique_id=lambda: (7,) * 128,
        groupStart=lambda: None,
        groupEnd=end_group,
    )
    cuda = types.ModuleType("cupy.cuda")
    cuda.__dict__.update(
        nccl=nccl, Stream=Stream, Event=Event, get_current_stream=Stream, Device=lambda number: contextlib.nullcontext()
    )
    cupy = types.ModuleType("cupy")
    cupy.cuda = cuda  # type: ignore[attr-defined]
    sys.modules.update({"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.nccl": nccl})


def main() -> None:
    stand_in()
    from adjoint.distributed.engines.nccl import NcclEngine

    assert dist.is_nccl_available()
    engine = NcclEngine(MPI.COMM_WORLD, 0)
    rank, size = engine.rank, engine.size
    ranks = np.arange(size)
    x = array([rank, 1])
    assert engine.all_reduce(x, ReduceOp.SUM)() and x.tolist() == [ranks.sum(), size]
    x = array([rank], np.int64)
    engine.reduce(x, ReduceOp.MAX, 1)
    assert rank != 1 or x.tolist() == [size - 1]
    x = array([rank + 5])
    engine.broadcast(x, size - 1)
    assert x.tolist() == [size + 4]
    out = array(np.zeros(2 * size))
    engine.all_gather(out, array([rank, -rank]))
    assert out.reshape(size, 2)[:, 0].tolist() == ranks.tolist()
    out = array([0.0])
    engine.reduce_scatter(out, array(ranks * (rank + 1)), ReduceOp.SUM)
    assert out.tolist() == [rank * (ranks + 1).sum()]
    out = array(np.zeros(size)) if rank == 1 else None
    engine.gather(out, array([rank * 2]), 1)
    assert out is None or out.tolist() == (2 * ranks).tolist()
    out = array([0.0, 0.0])
    engine.scatter(out, array(np.arange(2 * size)) if rank == 0 else None, 0)
    assert out.tolist() == [2 * rank, 2 * rank + 1]
    counts = [r + 1 for r in range(size)]
    out = array(np.zeros(sum(counts)))
    engine.all_to_all(out, array(np.full((rank + 1) * size, rank)), counts, [rank + 1] * size)
    assert out.tolist() == [r for r in range(size) for _ in range(r + 1)]
    z = array([1 + 2j * rank], np.complex64)  # two numbers each
    engine.all_reduce(z, ReduceOp.SUM)
    assert z.tolist() == [size + 2j * ranks.sum()]
    x = array([0.0])
    with engine.together():
        engine.send(array([rank]), (rank + 1) % size, 0)
        receipt = engine.recv(x, (rank - 1) % size, 0)
    assert receipt() and receipt.source == (rank - 1) % size and x.tolist() == [(rank - 1) % size]
    for wrong in (lambda: engine.all_reduce(array([1], np.int16), ReduceOp.SUM), lambda: engine.recv(x, None, 0),
                  lambda: engine.all_reduce(array([1], np.int64), ReduceOp.BOR),
                  lambda: engine.all_reduce(array([1], np.complex64), ReduceOp.PRODUCT)):  # fmt: skip
        try:
            wrong()
        except (RuntimeError, TypeError, ValueError):
            continue
        raise AssertionError("what NCCL cannot do was asked of it")
    engine.close()


if __name__ == "__main__":
    main()
