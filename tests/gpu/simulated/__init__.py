"""A simulated GPU: `install()` puts modules named `cupy` and `cupyx` in place, made of NumPy and g++.

Arrays lie in the host's memory but obey CuPy's rules; kernels in CUDA C are compiled by g++ and run thread by thread.
What CuPy 14.2 offers is written in `names.txt`, so that a function which CuPy lacks is lacking here too.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from typing import Any

import numpy as np

from . import arrays, functions, kernels, runtime

__all__ = ["install", "why_not"]


def why_not() -> str:
    """Return why kernels cannot be simulated here, or nothing."""
    return "" if kernels.compiler() else "kernels on the simulated GPU are compiled by g++, which is not installed here"


def _module(name: str, table: Any = (), **names: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    vars(module).update(table)
    vars(module).update(names)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
    return module


def install() -> Any:
    """Make `import cupy` give the simulated one, and return it."""
    if "cupy" in sys.modules:
        if not hasattr(sys.modules["cupy"], "simulated"):
            raise RuntimeError("CuPy itself is imported already")
        return sys.modules["cupy"]
    tables = functions.tables()
    table = tables["cupy"]
    arrays.add_operators(table)
    arrays.ndarray.__module__ = "cupy"
    cupy = _module(
        "cupy", table, ndarray=arrays.ndarray, ufunc=arrays.ufunc, RawKernel=kernels.RawKernel,
        RawModule=kernels.RawModule, pi=np.pi, e=np.e, inf=np.inf, nan=np.nan, newaxis=None, simulated=True,
        get_default_memory_pool=lambda: runtime._pool, is_available=lambda: True, __version__="14.2.0",
    )  # fmt: skip
    _module("cupy.linalg", tables["cupy.linalg"], LinAlgError=np.linalg.LinAlgError)
    _module("cupy.fft", tables["cupy.fft"])
    _module("cupy.lib")
    _module("cupy.lib.stride_tricks", as_strided=functions.as_strided)
    _module("cupy.exceptions", AxisError=np.exceptions.AxisError, ComplexWarning=np.exceptions.ComplexWarning)
    names = {
        n: getattr(runtime, n)
        for n in "Device Event ExternalStream Graph Memory MemoryPointer MemoryPool Stream UnownedMemory alloc "
        "alloc_pinned_memory "
        "get_allocator get_current_stream get_elapsed_time set_allocator using_allocator".split()
    }
    _module("cupy.cuda", **names, Function=kernels.Function, is_available=lambda: True, get_device_id=lambda: 0)
    _runtime()
    _module("cupy.cuda.memory", **names, OutOfMemoryError=runtime.OutOfMemoryError)
    _module("cupy.cuda.stream", **names)
    _module("cupy.cuda.device", Device=runtime.Device, get_device_id=lambda: 0)
    _module(
        "cupy.cuda.compiler",
        CompileException=kernels.CompileException,
        compile_using_nvrtc=kernels.compile_using_nvrtc,
    )
    _module("cupy.cuda.function", Function=kernels.Function, Module=kernels.Module)
    _module("cupyx", tables["cupyx"], errstate=functions.errstate)
    for name in ("scatter_add", "scatter_max", "scatter_min"):
        setattr(sys.modules["cupyx"], name, getattr(arrays.ndarray, name))
    _module("cupyx.scipy")
    _module("cupyx.scipy.special", tables["cupyx.scipy.special"])
    return cupy


def _runtime() -> None:
    shared: dict[str, Any] = {
        "CUDARuntimeError": runtime.CUDARuntimeError, "getDeviceCount": lambda: 1, "getDevice": lambda: 0,
        "setDevice": lambda i: None, "deviceSynchronize": runtime.Stream.null.synchronize,
        "memGetInfo": lambda: runtime.Device().mem_info, "getDeviceProperties": runtime.properties,
        "runtimeGetVersion": lambda: 13020, "driverGetVersion": lambda: 13020,
        "deviceGetAttribute": lambda *_: 132, "is_hip": False, "memcpyAsync": runtime.memcpy_async,
        "memsetAsync": runtime.memset_async, "memcpyHostToDevice": 1, "memcpyDeviceToHost": 2,
        "memcpyDeviceToDevice": 3,
    }  # fmt: skip
    _module("cupy.cuda.runtime", **shared)
    _module("cupy.cuda.driver", CUDADriverError=runtime.CUDADriverError)
    _module("cupy_backends")
    _module("cupy_backends.cuda")
    _module("cupy_backends.cuda.api")
    _module("cupy_backends.cuda.api.runtime", **shared)
    _module("cupy_backends.cuda.api.driver", CUDADriverError=runtime.CUDADriverError)
