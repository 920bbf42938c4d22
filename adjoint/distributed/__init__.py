"""Distributed training: collectives, data parallel and sharded training, on MPI, TCP and NCCL."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from . import distributed_c10d
from .collectives import *  # noqa: F403
from .device_mesh import DeviceMesh, init_device_mesh
from .engines import ReduceOp, reduce_op
from .groups import *  # noqa: F403
from .objects import *  # noqa: F403
from .rendezvous import register_rendezvous_handler, rendezvous
from .watch import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from .works import DistBackendError, DistError, DistNetworkError, DistStoreError, Work

# Loaded when a program first says them.
_ROOMS_LATER = frozenset({"algorithms", "checkpoint", "elastic", "fsdp", "nn", "optim", "run"})
_NAMES_LATER = {
    "GradBucket": "reducer",
    **dict.fromkeys(("FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"), "store"),
}


def __getattr__(name: str) -> _Any:
    if name in _ROOMS_LATER:
        return _importlib.import_module(f"adjoint.distributed.{name}")
    if name in _NAMES_LATER:
        return getattr(_importlib.import_module(f"adjoint.distributed.{_NAMES_LATER[name]}"), name)
    raise AttributeError(f"module 'adjoint.distributed' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS_LATER, *_NAMES_LATER})
