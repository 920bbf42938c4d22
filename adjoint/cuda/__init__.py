"""The GPU, through CuPy: is there one, how much memory it uses, waiting for it."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from .._paths import lead_to as _lead_to
from ..core import dtypes as _dtypes
from .devices import (
    DeferredCudaCallError,
    Event,
    OutOfMemoryError,
    Stream,
    current_device,
    current_stream,
    default_stream,
    device,
    device_count,
    device_of,
    empty_cache,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_rng_state,
    get_rng_state_all,
    init,
    initial_seed,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_initialized,
    manual_seed,
    manual_seed_all,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
    seed,
    seed_all,
    set_device,
    set_rng_state,
    set_rng_state_all,
    stream,
    synchronize,
)

_lead_to(__name__, {"devices": "memory random streams"})

_TYPED = frozenset(f"{kind.title}Tensor" for kind in _dtypes.ALL)
_GRAPHS = ("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables")


def __getattr__(name: str) -> _Any:
    if name in _GRAPHS or name == "graphs":
        found = _importlib.import_module("adjoint.cuda.graphs")
        return found if name == "graphs" else getattr(found, name)
    if name == "amp":
        return _importlib.import_module("adjoint.cuda.amp")
    if name in _TYPED:
        return _importlib.import_module("adjoint.compat.typed").gpu[name]
    raise AttributeError(f"module 'adjoint.cuda' has no attribute '{name}'")
