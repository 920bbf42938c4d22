"""NCCL on the simulated GPU: what CuPy offers of it, carried out by MPI between processes.

Sends and receives are carried out at the end of a group, or at once where there is none, as NCCL does: two ranks that
both send first wait for each other for ever there, and raise here.
"""

from __future__ import annotations

import contextlib
import ctypes
import secrets
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["carried", "install"]

_DTYPES = {
    "NCCL_INT8": np.int8, "NCCL_UINT8": np.uint8, "NCCL_INT32": np.int32, "NCCL_UINT32": np.uint32,
    "NCCL_INT64": np.int64, "NCCL_UINT64": np.uint64, "NCCL_FLOAT16": np.float16, "NCCL_FLOAT32": np.float32,
    "NCCL_FLOAT64": np.float64, "NCCL_BFLOAT16": ml_dtypes.bfloat16,
}  # fmt: skip
_CODES = dict(enumerate(_DTYPES.values()))
_OPS: dict[str, Any] = {"NCCL_SUM": np.add, "NCCL_PROD": np.multiply, "NCCL_MAX": np.maximum, "NCCL_MIN": np.minimum}
_UFUNCS = dict(enumerate(_OPS.values()))
_PATIENCE = 10.0  # seconds after which sends that nobody receives are an error


class NcclError(RuntimeError):
    """What NCCL raises."""


def _at(pointer: int, count: int, code: int) -> Any:
    dtype = np.dtype(_CODES[code])
    return np.frombuffer((ctypes.c_byte * (count * dtype.itemsize)).from_address(pointer), dtype)


class _Group:
    """The sends and receives of a group that is open."""

    depth = calls = 0
    waiting: list[Callable[[], Any]] = []


def carried() -> int:
    """Return how many calls of this process NCCL has carried out."""
    return _Group.calls


def groupStart() -> None:
    """Open a group."""
    _Group.depth += 1


def groupEnd() -> None:
    """Carry out what the group asked for, all at once."""
    _Group.depth -= 1
    if _Group.depth == 0:
        calls, _Group.waiting = _Group.waiting, []
        _finish([call() for call in calls])


def _finish(requests: list[Any]) -> None:
    end = time.monotonic() + _PATIENCE
    while not all(request.Test() for request in requests):
        if time.monotonic() > end:
            raise NcclError("sends and receives wait for each other: put them into one group")
        time.sleep(1e-4)


class NcclCommunicator:
    """A communicator whose collectives end before they return."""

    def __init__(self, size: int, name: bytes, rank: int) -> None:
        assert isinstance(name, bytes) and len(name) == 128
        self.comm, self.size, self.rank = _communicator(size, name, rank), size, rank

    def allReduce(self, a: int, b: int, n: int, t: int, op: int, stream: int) -> None:
        _at(b, n, t)[...] = self._reduced(a, n, t, op)

    def reduce(self, a: int, b: int, n: int, t: int, op: int, root: int, stream: int) -> None:
        whole = self._reduced(a, n, t, op)
        if self.rank == root:
            _at(b, n, t)[...] = whole

    def reduceScatter(self, a: int, b: int, n: int, t: int, op: int, stream: int) -> None:
        _at(b, n, t)[...] = self._reduced(a, n * self.size, t, op).reshape(self.size, n)[self.rank]

    def broadcast(self, a: int, b: int, n: int, t: int, root: int, stream: int) -> None:
        self.comm.Bcast(_at(b, n, t).view(np.uint8), root)

    def allGather(self, a: int, b: int, n: int, t: int, stream: int) -> None:
        self.comm.Allgather(_at(a, n, t).view(np.uint8), _at(b, n * self.size, t).view(np.uint8))

    def send(self, a: int, n: int, t: int, peer: int, stream: int) -> None:
        self._begin(lambda: self.comm.Issend(_at(a, n, t).view(np.uint8), peer))

    def recv(self, a: int, n: int, t: int, peer: int, stream: int) -> None:
        self._begin(lambda: self.comm.Irecv(_at(a, n, t).view(np.uint8), peer))

    def destroy(self) -> None:
        self.comm.Free()

    def _reduced(self, a: int, n: int, t: int, op: int) -> Any:
        _Group.calls += 1
        every = np.empty((self.size, n), _CODES[t])
        self.comm.Allgather(_at(a, n, t).copy().view(np.uint8), every.view(np.uint8))
        return _UFUNCS[op].reduce(every, axis=0, dtype=every.dtype)

    def _begin(self, call: Callable[[], Any]) -> None:
        _Group.calls += 1
        if _Group.depth:
            _Group.waiting.append(call)
        else:
            _finish([call()])


def _communicator(size: int, name: bytes, rank: int) -> Any:
    """Return a communicator of the ranks that have come with this name: they find each other through files."""
    from mpi4py import MPI

    folder = Path(tempfile.gettempdir()) / f"nccl-{name[:16].hex()}"
    folder.mkdir(exist_ok=True)
    mine = folder / str(rank)
    mine.with_suffix(".tmp").write_text(str(MPI.COMM_WORLD.rank))
    mine.with_suffix(".tmp").rename(mine)
    files = [folder / str(other) for other in range(size)]
    while not all(file.exists() for file in files):
        time.sleep(1e-3)
    members = MPI.COMM_WORLD.Get_group().Incl([int(file.read_text()) for file in files])
    comm = MPI.COMM_WORLD.Create_group(members, name[0])
    comm.Barrier()
    mine.unlink()
    with contextlib.suppress(OSError):  # the last one out
        folder.rmdir()
    return comm


def install() -> None:
    """Make `cupy.cuda.nccl` give the simulated one; `cupy` is simulated already."""
    nccl = types.ModuleType("cupy.cuda.nccl")
    codes = {name: code for names in (_DTYPES, _OPS) for code, name in enumerate(names)}
    vars(nccl).update(
        codes, NcclCommunicator=NcclCommunicator, NcclError=NcclError, groupStart=groupStart, groupEnd=groupEnd,
        get_unique_id=lambda: secrets.token_bytes(128), available=True,
    )  # fmt: skip
    sys.modules["cupy.cuda.nccl"] = nccl
    sys.modules["cupy.cuda"].nccl = nccl  # type: ignore[attr-defined]
