"""GPU memory: how much CuPy's pool uses and holds."""

from __future__ import annotations

from typing import Any

from .devices import index_of, module

__all__ = [
    "empty_cache", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved",
    "memory_stats", "memory_summary", "reset_max_memory_allocated", "reset_peak_memory_stats",
]  # fmt: skip

# The pool does not remember its peak; what was seen when somebody asked is the best there is.
_peaks: dict[tuple[str, int], int] = {}


def _asked(what: str, device: Any) -> int:
    cupy = module()
    if cupy is None:
        return 0
    index = index_of(device)
    with cupy.cuda.Device(index):
        found = int(getattr(cupy.get_default_memory_pool(), what)())
    _peaks[what, index] = max(found, _peaks.get((what, index), 0))
    return found


def memory_allocated(device: Any = None) -> int:
    """Return the bytes of GPU memory that tensors use."""
    return _asked("used_bytes", device)


def memory_reserved(device: Any = None) -> int:
    """Return the bytes of GPU memory that the pool holds."""
    return _asked("total_bytes", device)


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that tensors were seen to use."""
    _asked("used_bytes", device)
    return max((v for (what, _), v in _peaks.items() if what == "used_bytes"), default=0)


def max_memory_reserved(device: Any = None) -> int:
    """Return the most bytes that the pool was seen to hold."""
    _asked("total_bytes", device)
    return max((v for (what, _), v in _peaks.items() if what == "total_bytes"), default=0)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forget what was seen so far."""
    _peaks.clear()


reset_max_memory_allocated = reset_peak_memory_stats


def empty_cache() -> None:
    """Give memory that the pool holds without using it back to the GPU."""
    cupy = module()
    if cupy is not None:
        cupy.get_default_memory_pool().free_all_blocks()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and the total bytes of a GPU."""
    cupy = module()
    if cupy is None:
        return 0, 0
    with cupy.cuda.Device(index_of(device)):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the numbers above under torch's names."""
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the numbers above as text."""
    return "\n".join(f"{name:<32}{value:>16}" for name, value in memory_stats(device).items())
