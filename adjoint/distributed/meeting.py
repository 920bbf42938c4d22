"""Connecting the processes of a world that MPI did not start: a store has their addresses."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
from datetime import timedelta
from typing import Any

from .engines.alone import Alone
from .engines.sockets import SocketComm, SocketEngine, connected
from .rendezvous import rendezvous
from .store import PrefixStore, TCPStore
from .works import DistBackendError, DistNetworkError, DistStoreError

__all__ = ["meet", "meets_by_store"]

# Environment variables that MPI's launchers, and Slurm's for MPI, set in the processes that they start.
_STARTED_BY_MPI = ("PMI_RANK", "PMI_ID", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID")


def meets_by_store(backend: str, init_method: Any, world_size: int, rank: int, store: Any) -> bool:
    """Return whether processes are to find each other through a store; otherwise they do through MPI, or are alone."""
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if backend == "mpi" or _started_by_mpi():
        return False
    if store is not None or init_method is not None:
        return True
    return (world_size if world_size >= 0 else int(os.environ.get("WORLD_SIZE", 1))) != 1


def _started_by_mpi() -> bool:
    if multiprocessing.parent_process() is not None:  # the environment is the parent process's
        return False
    known = sys.modules.get("mpi4py.MPI")
    if known is not None and known.Is_initialized() and not known.Is_finalized():
        return bool(known.COMM_WORLD.Get_size() > 1)
    return any(name in os.environ for name in _STARTED_BY_MPI)


def meet(init_method: Any, world_size: int, rank: int, store: Any, timeout: timedelta) -> tuple[Any, Any]:
    """Return the communicator of all processes, and the store through which they met."""
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
        return _joined(store, rank, world_size, timeout), store
    end = time.monotonic() + timeout.total_seconds()
    while True:
        met = None
        try:
            met, number, size = next(rendezvous(init_method or "env://", rank, world_size, timeout=timeout))
            return _joined(met, number, size, timeout), met
        except (DistNetworkError, ConnectionError):
            # The store of a world that has just ended may still have been at this address.
            if time.monotonic() > end or not (met is None or isinstance(met, TCPStore)):
                raise
        if isinstance(met, TCPStore):
            met.close()


def _joined(store: Any, rank: int, world_size: int, timeout: timedelta) -> Any:
    """Return the communicator of a world whose store is known."""
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not in a world of {world_size} processes")
    if world_size == 1:
        return Alone()
    store.set_timeout(timeout)
    # A store may serve one world after the other: every process counts those that it was in.
    number = store.add(f"default_pg/worlds/{rank}", 1)
    words = PrefixStore(f"default_pg/{number}", store)
    try:
        mesh = connected(rank, world_size, words, timeout.total_seconds(), _address(store))
    except DistStoreError as error:
        raise DistBackendError(
            f"rank {rank} of {world_size} waited {timeout.total_seconds():g} s for the others to call "
            f"init_process_group: {error}"
        ) from None
    comm = SocketComm(mesh, list(range(world_size)), "")
    # The store is not needed after this, and the process that holds it may exit.
    if not SocketEngine(comm.Dup()).barrier().wait(timeout.total_seconds()):
        raise DistBackendError(f"rank {rank} of {world_size}: some ranks did not reach all the others in {timeout}")
    return comm


def _address(store: Any) -> str:
    """Return where the others can reach this process."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if isinstance(store, TCPStore):
        return store.local_address
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
