"""PyTorch's define-by-run autograd, rebuilt in pure Python on NumPy."""

from __future__ import annotations

import importlib as _importlib
import math as _math
import warnings as _warnings
from typing import Any as _Any

from . import (
    _C,
    autograd,
    backends,
    cuda,
    fft,
    linalg,
    overrides,
    random,
    return_types,
    signal,
    special,
    testing,
    types,
    utils,
    version,
)
from ._version import __version__
from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
from .autograd.grad_mode import is_inference_mode_enabled
from .core import primitive as _primitive  # first: everything else stands on it
from .core.device import device
from .core.dtypes import (
    bfloat16,
    complex64,
    complex128,
    dtype,
    finfo,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.dtypes import bool_ as bool
from .core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from .core.modes import is_grad_enabled
from .core.size import Size
from .cuda import OutOfMemoryError
from .ops.namespace import *  # noqa: F403
from .printing import set_printoptions
from .settings import *  # noqa: F403
from .tensor import Tensor
from .typed import host as _typed_constructors

float = float32
double = float64
half = float16
long = int64
int = int32
short = int16
cfloat = complex64
cdouble = complex128

inf = _math.inf
nan = _math.nan
pi = _math.pi
e = _math.e
newaxis = None

globals().update(_typed_constructors)

# NumPy warns where torch computes inf or nan in silence. Only what adjoint's own frames compute is meant:
# the program's NumPy code warns as ever.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"adjoint\.")

# Rooms and names that are loaded when a program first says them, so that the import stays quick.
_ROOMS_LATER: frozenset[str] = frozenset({
    "amp", "compiler", "cpu", "distributed", "distributions", "explanation", "func", "functional", "futures", "hub",
    "jit", "library", "multiprocessing", "nn", "optim", "profiler", "quasirandom", "serialization", "stand_in", "tree",
    "viz",
})  # fmt: skip
# The name, and the module that has it.
_NAMES_LATER: dict[str, str] = {
    "autocast": "amp", "compile": "compiler", "explain": "explanation", "load": "serialization",
    "memory_budget": "autograd.budget", "save": "serialization", "vmap": "func",
}  # fmt: skip

_NAMES_LATER |= dict.fromkeys(("is_anomaly_check_nan_enabled", "is_anomaly_enabled"), "autograd.anomaly_mode")
_NAMES_LATER |= dict.fromkeys(
    (
        "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "get_autocast_cpu_dtype",
        "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled",
        "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
        "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
    ),
    "amp",
)  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _ROOMS_LATER:
        return _importlib.import_module(f"adjoint.{name}")
    if name in _NAMES_LATER:
        value = globals()[name] = getattr(_importlib.import_module(f"adjoint.{_NAMES_LATER[name]}"), name)
        return value
    raise AttributeError(f"module 'adjoint' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS_LATER, *_NAMES_LATER})
