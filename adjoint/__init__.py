"""PyTorch's define-by-run autograd, rebuilt in pure Python on NumPy."""

from __future__ import annotations

import functools as _functools
import importlib as _importlib
import math as _math
import typing as _typing
import warnings as _warnings
from typing import Any as _Any

# `name as name` tells type checkers that a name is meant for users.
# isort: off
from . import (
    _paths as _paths,  # how `adjoint.jit` and its like are found
    autograd as autograd,
    backends as backends,
    cuda as cuda,
    fft as fft,
    linalg as linalg,
    overrides as overrides,
    random as random,
    return_types as return_types,
    signal as signal,
    special as special,
    testing as testing,
    utils as utils,
)
from . import errors as _errors
from ._version import __version__
from .autograd import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from .autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from .core import dtypes as _dtypes
from .core import primitive as _primitive  # first: everything else stands on it
from .core.device import device as device
from .core.dtypes import (
    bfloat16 as bfloat16,
    complex64 as complex64,
    complex128 as complex128,
    dtype as dtype,
    finfo as finfo,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    iinfo as iinfo,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    promote_types as promote_types,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from .core.layout import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    jagged as jagged,
    layout as layout,
    memory_format as memory_format,
    preserve_format as preserve_format,
    sparse_bsc as sparse_bsc,
    sparse_bsr as sparse_bsr,
    sparse_coo as sparse_coo,
    sparse_csc as sparse_csc,
    sparse_csr as sparse_csr,
    strided as strided,
)
from .core.modes import is_grad_enabled as is_grad_enabled
from .core.size import Size as Size
from .cuda import OutOfMemoryError as OutOfMemoryError
from .ops import signatures as _signatures
from .ops.namespace import *  # noqa: F403
from .printing import set_printoptions as set_printoptions
from .settings import *  # noqa: F403
from .tensor import Tensor as Tensor
# isort: on

if _typing.TYPE_CHECKING:  # `bool_ as bool` would count as private
    bool: dtype
else:
    from .core.dtypes import bool_ as bool
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

_signatures.enforce_methods(Tensor)

# NumPy warns where torch computes inf or nan in silence. Only what adjoint's own frames compute is meant:
# the program's NumPy code warns as ever.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"adjoint\.")

# Packages and names that are loaded on first use, so that the import stays quick.
_ROOMS_LATER: frozenset[str] = frozenset({
    "_C", "accelerator", "amp", "compat", "compiler", "cpu", "distributed", "distributions", "explanation", "export",
    "func", "functional", "futures", "fx", "hub", "jit", "library", "masked", "multiprocessing", "nested", "nn",
    "onnx", "optim", "profiler", "quasirandom", "serialization", "sparse", "stand_in", "storage", "tree", "types",
    "version", "viz",
})  # fmt: skip
# The name, and the module that has it.
_NAMES_LATER: dict[str, str] = {
    "autocast": "amp", "compile": "compiler", "explain": "explanation", "load": "serialization",
    "memory_budget": "autograd.budget", "save": "serialization", "vmap": "func",
}  # fmt: skip

_NAMES_LATER |= dict.fromkeys(("Event", "Stream", "get_device_module"), "accelerator")
_NAMES_LATER |= dict.fromkeys(
    (
        "_assert", "_assert_async", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
        "_check_tensor_all", "_check_type", "_check_value", "_check_with",
    ),
    "compat.checks",
)  # fmt: skip
_NAMES_LATER |= dict.fromkeys(
    (
        "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
        "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage",
    ),
    "compat.storage",
)  # fmt: skip
_NAMES_LATER |= dict.fromkeys((f"{kind.title}Tensor" for kind in _dtypes.ALL), "compat.typed")
_NAMES_LATER |= dict.fromkeys(
    (
        "dsmm", "hspmm", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor",
        "sparse_csc_tensor", "sparse_csr_tensor", "spmm",
    ),
    "sparse",
)  # fmt: skip
_NAMES_LATER |= dict.fromkeys(
    ("_log_softmax_backward_data", "_native_batch_norm_legit", "_softmax_backward_data"), "ops.native"
)
_NAMES_LATER["_segment_reduce"] = "ops.places"
_NAMES_LATER |= {"DisableTorchFunctionSubclass": "overrides", "Future": "futures"}
_NAMES_LATER |= dict.fromkeys(
    ("chalf", "complex32", "qint32", "qint8", "quint2x4", "quint4x2", "quint8"), "core.dtypes"
)  # fmt: skip
_NAMES_LATER |= dict.fromkeys(
    ("is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_anomaly_enabled"), "autograd.anomaly_mode"
)
_NAMES_LATER |= dict.fromkeys(
    (
        "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "get_autocast_cpu_dtype",
        "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled",
        "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
        "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
    ),
    "amp",
)  # fmt: skip

if _typing.TYPE_CHECKING:  # the same, for type checkers and editors
    # Names of modules that a star import, or a file of the same name, hides from them.
    from . import amp as amp
    from . import compiler as compiler
    from . import distributed as distributed
    from . import distributions as distributions
    from . import explanation as explanation
    from . import fft as fft
    from . import func as func
    from . import futures as futures
    from . import fx as fx
    from . import library as library
    from . import linalg as linalg
    from . import masked as masked
    from . import multiprocessing as multiprocessing
    from . import nn as nn
    from . import optim as optim
    from . import profiler as profiler
    from . import quasirandom as quasirandom
    from . import random as random
    from . import serialization as serialization
    from . import signal as signal
    from . import sparse as sparse
    from . import special as special
    from . import tree as tree
    from . import viz as viz
    from .amp import autocast as autocast
    from .autograd.budget import memory_budget as memory_budget
    from .compat import _C as _C
    from .compat import cpu as cpu
    from .compat import functional as functional
    from .compat import hub as hub
    from .compat import jit as jit
    from .compat import stand_in as stand_in
    from .compat import types as types
    from .compat import version as version
    from .compiler import compile as compile
    from .explanation import explain as explain
    from .func import vmap as vmap
    from .ops.create import tensor as tensor
    from .serialization import load as load
    from .serialization import save as save


def __getattr__(name: str) -> _Any:
    if name in _ROOMS_LATER:
        return _importlib.import_module(f"adjoint.{name}")
    if name in _NAMES_LATER:
        value = getattr(_importlib.import_module(f"adjoint.{_NAMES_LATER[name]}"), name)
        globals()[name] = value
        _signatures.enforce(globals(), __name__, only=name)
        return globals()[name]
    if name.startswith("_foreach_"):  # ops on lists of tensors
        return getattr(_importlib.import_module("adjoint.ops.lists"), name)
    raise AttributeError(f"module 'adjoint' has no attribute '{name}'{_suggestion(name)}")


@_functools.cache  # hasattr() of the same name again and again
def _suggestion(name: str) -> str:
    return _errors.meant(name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS_LATER, *_NAMES_LATER})
