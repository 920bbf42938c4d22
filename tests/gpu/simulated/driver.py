"""The CUDA driver's calls that part addresses from memory, by those of the system that do the same on the host.

Whoever looks at an address behind which there is no memory ends the process, as on a GPU.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

__all__ = ["install", "mapped"]

_FIXED, _NOTHING = 0x10, 0
_GRAIN = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_there: set[int] = set()


def mapped() -> int:
    """Return behind how many addresses there is memory."""
    return len(_there)


def _mapped(at: int, size: int, flags: int, file: int = -1) -> int:
    found = _libc.mmap(at or None, size, _NOTHING, flags, file, 0)
    assert found not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    return int(found)


class _Library:
    """The functions of libcuda that are asked for, with their arguments."""

    def cuMemGetAllocationGranularity(self, grain: Any, described: Any, option: Any) -> int:
        assert (described._obj.type, described._obj.place) == (1, 1)
        grain._obj.value = _GRAIN
        return 0

    def cuMemAddressReserve(self, at: Any, size: Any, alignment: Any, hint: Any, flags: Any) -> int:
        assert size.value % _GRAIN == 0
        at._obj.value = _mapped(0, size.value, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return 0

    def cuMemCreate(self, handle: Any, size: Any, described: Any, flags: Any) -> int:
        handle._obj.value = file = os.memfd_create("gpu")
        os.ftruncate(file, size.value)
        return 0

    def cuMemMap(self, at: Any, size: Any, offset: Any, handle: Any, flags: Any) -> int:
        assert at.value not in _there
        _mapped(at.value, size.value, mmap.MAP_SHARED | _FIXED, handle.value)
        _there.add(at.value)
        return 0

    def cuMemSetAccess(self, at: Any, size: Any, access: Any, count: Any) -> int:
        assert (access._obj.place, access._obj.id, access._obj.flags, count.value) == (1, 0, 3, 1)
        return int(_libc.mprotect(at.value, size.value, mmap.PROT_READ | mmap.PROT_WRITE))

    def cuMemUnmap(self, at: Any, size: Any) -> int:
        _there.remove(at.value)
        _mapped(at.value, size.value, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED)
        return 0

    def cuMemRelease(self, handle: Any) -> int:
        os.close(handle.value)
        return 0

    def cuMemAddressFree(self, at: Any, size: Any) -> int:
        assert at.value not in _there
        return int(_libc.munmap(at.value, size.value))


def install() -> None:
    """Let sharded parameters find this driver."""
    from adjoint.distributed.fsdp import pages

    driver = pages._Driver(_Library())
    pages._DevicePages.spared = 0  # what is away is away at once
    pages._driver = lambda: driver  # type: ignore[assignment]
