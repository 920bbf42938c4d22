"""The GPU, through CuPy: is there one, how much memory it uses, waiting for it."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from .._paths import lead_to as _lead_to
from ..core import dtypes as _dtypes
from .devices import (
    DeferredCudaCallError as DeferredCudaCallError,
)
from .devices import (
    Event as Event,
)
from .devices import (
    OutOfMemoryError as OutOfMemoryError,
)
from .devices import (
    Stream as Stream,
)
from .devices import (
    current_device as current_device,
)
from .devices import (
    current_stream as current_stream,
)
from .devices import (
    default_stream as default_stream,
)
from .devices import (
    device as device,
)
from .devices import (
    device_count as device_count,
)
from .devices import (
    device_of as device_of,
)
from .devices import (
    empty_cache as empty_cache,
)
from .devices import (
    get_device_capability as get_device_capability,
)
from .devices import (
    get_device_name as get_device_name,
)
from .devices import (
    get_device_properties as get_device_properties,
)
from .devices import (
    get_rng_state as get_rng_state,
)
from .devices import (
    get_rng_state_all as get_rng_state_all,
)
from .devices import (
    init as init,
)
from .devices import (
    initial_seed as initial_seed,
)
from .devices import (
    ipc_collect as ipc_collect,
)
from .devices import (
    is_available as is_available,
)
from .devices import (
    is_bf16_supported as is_bf16_supported,
)
from .devices import (
    is_initialized as is_initialized,
)
from .devices import (
    manual_seed as manual_seed,
)
from .devices import (
    manual_seed_all as manual_seed_all,
)
from .devices import (
    max_memory_allocated as max_memory_allocated,
)
from .devices import (
    max_memory_reserved as max_memory_reserved,
)
from .devices import (
    mem_get_info as mem_get_info,
)
from .devices import (
    memory_allocated as memory_allocated,
)
from .devices import (
    memory_reserved as memory_reserved,
)
from .devices import (
    memory_stats as memory_stats,
)
from .devices import (
    memory_summary as memory_summary,
)
from .devices import (
    reset_max_memory_allocated as reset_max_memory_allocated,
)
from .devices import (
    reset_peak_memory_stats as reset_peak_memory_stats,
)
from .devices import (
    seed as seed,
)
from .devices import (
    seed_all as seed_all,
)
from .devices import (
    set_device as set_device,
)
from .devices import (
    set_rng_state as set_rng_state,
)
from .devices import (
    set_rng_state_all as set_rng_state_all,
)
from .devices import (
    stream as stream,
)
from .devices import (
    synchronize as synchronize,
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
