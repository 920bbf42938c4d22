"""CUDA as a device: CuPy's arrays, kernels in CUDA C printed from formulas, and libraries as overrides.

This file imports no CuPy: only programs that put a tensor on a GPU pay for that.
"""

from __future__ import annotations

import functools
import math
from contextlib import AbstractContextManager
from importlib.util import find_spec
from sys import getrefcount
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import Array, DType, Kernel, Shape
from ...errors import NoGPUError
from ..contract import Device, register
from . import sizes
from .table import override

if TYPE_CHECKING:
    from ...compiler.graph import Graph

__all__ = ["CUDA", "STATS", "cuda", "found"]

STATS = tuple(f"{what}_bytes.all.{when}" for what in ("allocated", "reserved") for when in ("current", "peak"))

_FLOATS = "fdeE"  # characters of the dtypes whose random numbers have kernels


@functools.cache
def found() -> ModuleType | None:
    """Return CuPy where it is installed and finds a GPU, else None."""
    if find_spec("cupy") is None:
        return None
    try:
        # Only machines that have it pay for this import, and only programs that use it.
        import cupy  # type: ignore[import-not-found, unused-ignore]

        return cupy if cupy.cuda.runtime.getDeviceCount() > 0 else None  # type: ignore[no-any-return, unused-ignore]
    except Exception:  # no driver, no device, a broken install: all mean the same here
        return None


class CUDA(Device):
    """GPUs of NVIDIA's, through CuPy."""

    name = "cuda"
    frontend = "adjoint.cuda"
    has_programs = True

    def __init__(self) -> None:
        self.override = override

    def load(self) -> None:
        """Import CuPy, and with `attached` every module that has kernels."""
        try:
            import cupy  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise NoGPUError(
                "Torch not compiled with CUDA enabled: adjoint runs on a GPU through CuPy, which is not installed "
                "here; pip install cupy-cuda13x (CUDA 12: cupy-cuda12x)"
            ) from error
        from ... import devices
        from ..cpu import provider
        from . import arrays, attached, elementwise, memory

        self.module, self.classes = cupy, (arrays.Array, cupy.ndarray)
        self._arrays, self._elementwise, self._memory, self._draws = arrays, elementwise, memory, attached.draws
        provider.gpus.update(dict.fromkeys(self.classes, devices.cuda))
        memory.watch()

    def is_available(self) -> bool:
        """Return whether there is a GPU."""
        return found() is not None

    def count(self) -> int:
        """Return the number of GPUs."""
        cupy = found()
        return 0 if cupy is None else int(cupy.cuda.runtime.getDeviceCount())

    def adopt(self, value: Array) -> Array:
        """Return a CuPy array as one of our own class."""
        return self._arrays.adopt(value)

    def index_of(self, array: Array) -> int:
        """Return the number of an array's GPU."""
        return int(array.device.id)  # type: ignore[attr-defined]

    def at(self, index: int | None) -> AbstractContextManager[object]:
        """Return a context in which a GPU is the current one."""
        return self.module.cuda.Device(index or 0)

    def from_host(self, array: Array, index: int | None = None) -> Array:
        """Return a copy of an array of NumPy's, or of another GPU's, on a GPU."""
        with self.at(index):
            return self.module.asarray(array)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a copy of an array as NumPy's; waits for what computes it."""
        return array.get()  # type: ignore[attr-defined]

    def address_of(self, array: Array) -> int:
        """Return the address of an array's first element."""
        return int(array.data.ptr)

    def as_strided(self, array: Any, shape: Shape, strides: Shape, offset: int) -> Array:
        """Return a view with any strides that knows whose memory it looks at, which CuPy's own does not."""
        owner = array if array.base is None else array.base
        flat = (owner if owner.flags.c_contiguous else owner.T).reshape(-1).view(np.uint8)
        memory = flat[array.data.ptr - owner.data.ptr + offset :]
        view: Any = memory[: memory.size // array.itemsize * array.itemsize].view(array.dtype)
        view._set_shape_and_strides(shape, strides, True, True)
        return view

    def ones_like(self, array: Array) -> Array:
        """Return ones in the shape and dtype of an array, by a kernel."""
        return self._elementwise.ones_like(array)

    def elementwise(self, op: object, saved: tuple[tuple[str, ...], ...], fit_all: Kernel) -> dict[str, Any]:
        """Return kernels printed from a primitive's formulas."""
        return self._elementwise.specialized(op, saved, fit_all)

    @property
    def multi_tensor(self) -> Any:
        """Kernels whose blocks find their arrays in a table."""
        from . import many  # imports CuPy

        return many

    @property
    def linalg(self) -> ModuleType:
        """CuPy's, which are made to raise."""
        from . import algebra  # imports CuPy

        return algebra

    @property
    def special(self) -> Any:
        """CuPy's, but for scaled Bessel functions, which are NaN there where the unscaled ones overflow."""
        from cupyx.scipy import special  # type: ignore[import-not-found, unused-ignore]

        return SimpleNamespace(**{n: f for n, f in vars(special).items() if n not in ("i0e", "i1e", "k0e", "k1e")})

    def program(self, graph: Graph, kernels: Any) -> object:
        """Return what replays a captured graph as kernels recorded into a CUDA graph."""
        from ...compiler.gpu.program import DeviceProgram  # the compiler targets devices, and stands below them

        return DeviceProgram(graph, kernels)

    def samples(self, kind: str, shape: Shape, dtype: DType) -> bool:
        """Return whether there is a kernel for these numbers, and they are many enough for it."""
        if kind not in ("uniform", "normal", "bernoulli") or dtype.char not in _FLOATS:
            return False
        return kind == "bernoulli" or math.prod(shape) >= sizes.RANDOM

    def random(self, kind: str, shape: Shape, dtype: DType, seed: int, index: int | None, *params: float) -> Array:
        """Return numbers made by Philox, a counter-based generator."""
        with self.at(index):
            if kind == "bernoulli":
                return self._draws.kept(shape, dtype, params[0], seed)
            return self._draws.drawn(kind, shape, dtype, seed, *params)

    def synchronize(self, index: int | None = None) -> None:
        """Wait for a GPU; raise if a kernel met an index out of bounds."""
        self.module.cuda.Device(index).synchronize()
        self.report()

    def report(self) -> None:
        """Raise if a kernel noted an index that is out of bounds."""
        from . import bounds  # imports CuPy

        bounds.report()

    def empty_cache(self) -> None:
        """Give the pool's free memory back."""
        self._memory.peak()  # what the pool held is forgotten otherwise
        self._arrays.forget()
        self.module.get_default_memory_pool().free_all_blocks()

    def memory_stats(self, index: int | None = None) -> dict[str, int]:
        """Return what tensors use and what the pool holds, in bytes; small arrays that wait for use count at most."""
        pool = self.module.get_default_memory_pool()
        with self.module.cuda.Device(index):
            used, reserved = self._memory.peak()
            self._arrays.forget()
            return dict(zip(STATS, (int(pool.used_bytes()), used, int(pool.total_bytes()), reserved), strict=True))

    def reset_peak(self, index: int | None = None) -> None:
        """Let the most bytes be those that are used now."""
        self._arrays.forget()
        with self.module.cuda.Device(index):
            self._memory.reset()

    def spare_references(self, array: Array) -> int:
        """Return 1 for an array that waits in a ring to be used again."""
        return int(id(array) in self._arrays.spare)

    def is_sole(self, array: Array) -> bool:
        """Return whether an array without gaps has its memory for itself, or is all of an array nothing else holds."""
        if not array._c_contiguous:  # type: ignore[attr-defined]
            return False
        base = array.base
        if base is None:
            return self._arrays.sharers(array) == 0
        alone = getrefcount(base) == 3 + (id(base) in self._arrays.spare) and self._arrays.sharers(array) <= 1
        return alone and array.nbytes == base.nbytes


cuda = register(CUDA())
