"""Memory for gathered parameters: the graph holds arrays in it while its pages are returned to the system."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import device as devices

__all__ = ["Pages", "pages_like"]


def pages_like(count: int, dtype: Any, array: Any) -> Any:
    """Return memory for `count` elements, where `array` is."""
    place = devices.of(array)
    if place.type == "cpu":
        return Pages(count, dtype)
    driver = _driver()
    if driver is None:
        return _Held(count, dtype, array)
    return _DevicePages(driver, count, dtype, place.index or 0)


class Pages:
    """CPU memory. After `release` the arrays read zeros until they are filled again.

    Where the system cannot take pages back, they stay.
    """

    def __init__(self, count: int, dtype: Any) -> None:
        size = max(1, count * dtype.itemsize)
        flags = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
        self._map = mmap.mmap(-1, size, flags=flags) if flags else mmap.mmap(-1, size)
        self.array: Any = np.frombuffer(self._map, dtype, count)

    def fetch(self) -> None:
        """Do nothing: the system gives pages when they are written."""

    def release(self) -> None:
        """Give the pages back."""
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


class _Held:
    """Memory of a GPU whose driver cannot take pages back: it stays."""

    def __init__(self, count: int, dtype: Any, array: Any) -> None:
        self.array = devices.adopt(devices.module_of(array).empty(count, dtype))

    def fetch(self) -> None:
        """Do nothing: the memory is there."""

    def release(self) -> None:
        """Keep the memory."""


# --- Pages of a GPU ---------------------------------------------------------------------------------

_MOST_PARTING = 2  # whose memory stays until the GPU is through with it; for more, the process waits
_SHARE = 64  # a part of the GPU's memory up to which more may stay: to map and unmap takes 0.2 ms


class _DevicePages:
    """Memory of a GPU behind addresses that stay: a driver's allocation is mapped there, and unmapped.

    `release` only notes what the program's stream has to do before; the allocation goes to the next fetch.
    """

    parting: list[tuple[Any, weakref.ref[_DevicePages]]] = []  # of all, the oldest first
    spared: int | None = None  # the bytes that those may have

    def __init__(self, driver: _Driver, count: int, dtype: Any, gpu: int) -> None:
        self._cupy = cupy = devices.array_module(devices.device("cuda", gpu))
        self._driver, self._gpu = driver, gpu
        self._size = driver.rounded(max(1, count * dtype.itemsize), gpu)
        self._at = driver.reserve(self._size)
        self._handle: int | None = None
        memory = cupy.cuda.UnownedMemory(self._at, self._size, self, gpu)
        self.array: Any = devices.adopt(cupy.ndarray((count,), dtype, cupy.cuda.MemoryPointer(memory, 0)))

    def fetch(self) -> None:
        """Put memory behind the addresses, unless it is there still."""
        _DevicePages.parting = [entry for entry in _DevicePages.parting if entry[1]() not in (None, self)]
        if self._handle is None:
            self._handle = self._driver.allocation(self._size, self._gpu)
            self._driver.map(self._at, self._size, self._handle, self._gpu)

    def release(self) -> None:
        """Give the memory back as soon as the GPU is through with it."""
        with self._cupy.cuda.Device(self._gpu):
            event = self._cupy.cuda.Event(disable_timing=True)
            event.record(self._cupy.cuda.get_current_stream())
            if _DevicePages.spared is None:
                _DevicePages.spared = self._cupy.cuda.runtime.memGetInfo()[1] // _SHARE
        parting = _DevicePages.parting
        parting.append((event, weakref.ref(self)))
        held = sum(pages._size for _, known in parting if (pages := known()) is not None)
        while len(parting) > _MOST_PARTING and held > _DevicePages.spared:
            ended, known = parting.pop(0)
            pages = known()
            if pages is not None:
                ended.synchronize()
                held -= pages._size
                pages._part()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process much is gone already
            if self._handle is not None:
                self._cupy.cuda.Device(self._gpu).synchronize()
                self._driver.unmap(self._at, self._size)
                self._driver.destroy(self._handle)
            self._driver.give_back(self._at, self._size)

    def _part(self) -> None:
        if self._handle is not None:
            self._driver.unmap(self._at, self._size)
            self._driver.free.setdefault((self._size, self._gpu), []).append(self._handle)
            self._handle = None


class _Property(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of one device."""

    _fields_ = [
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("place", ctypes.c_int), ("id", ctypes.c_int),
        ("metadata", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8),
    ]  # fmt: skip


class _Access(ctypes.Structure):
    """CUmemAccessDesc: one device reads and writes."""

    _fields_ = [("place", ctypes.c_int), ("id", ctypes.c_int), ("flags", ctypes.c_int)]


_Size, _Address = ctypes.c_size_t, ctypes.c_uint64


class _Driver:
    """The calls of the CUDA driver that part addresses from memory (CuPy has none for them)."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.free: dict[tuple[int, int], list[int]] = {}  # unused allocations

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f"CUDA error: {name} of the driver returned {code}")

    @staticmethod
    def _property(gpu: int) -> _Property:
        return _Property(type=1, handles=0, place=1, id=gpu)

    def rounded(self, size: int, gpu: int) -> int:
        """Return a size that can be mapped, and is not less."""
        grain = _Size()
        self._call(
            "cuMemGetAllocationGranularity", ctypes.byref(grain), ctypes.byref(self._property(gpu)), ctypes.c_int(0)
        )
        return -(-size // grain.value) * grain.value

    def reserve(self, size: int) -> int:
        """Return addresses without memory."""
        at = _Address()
        self._call("cuMemAddressReserve", ctypes.byref(at), _Size(size), _Size(0), _Address(0), _Address(0))
        return at.value

    def allocation(self, size: int, gpu: int) -> int:
        """Return memory without addresses."""
        unused = self.free.get((size, gpu))
        if unused:
            return unused.pop()
        handle = _Address()
        self._call("cuMemCreate", ctypes.byref(handle), _Size(size), ctypes.byref(self._property(gpu)), _Address(0))
        return handle.value

    def destroy(self, handle: int) -> None:
        """Give memory back."""
        self._call("cuMemRelease", _Address(handle))

    def give_back(self, at: int, size: int) -> None:
        """Give addresses back."""
        self._call("cuMemAddressFree", _Address(at), _Size(size))

    def map(self, at: int, size: int, handle: int, gpu: int) -> None:
        """Put memory behind addresses."""
        self._call("cuMemMap", _Address(at), _Size(size), _Size(0), _Address(handle), _Address(0))
        access = _Access(place=1, id=gpu, flags=3)
        self._call("cuMemSetAccess", _Address(at), _Size(size), ctypes.byref(access), _Size(1))

    def unmap(self, at: int, size: int) -> None:
        """Take memory from behind addresses."""
        self._call("cuMemUnmap", _Address(at), _Size(size))


_ATTRIBUTE = 102  # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED


@functools.cache
def _driver() -> _Driver | None:
    """Return the driver, if it can part addresses from memory."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    able = ctypes.c_int()
    asked: Callable[..., int] = library.cuDeviceGetAttribute
    if asked(ctypes.byref(able), ctypes.c_int(_ATTRIBUTE), ctypes.c_int(0)) or not able.value:
        return None
    return _Driver(library)
