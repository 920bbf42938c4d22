"""Memory, streams, events and graphs of the simulated GPU: everything runs at once, in order."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_FRESH = 0xFF  # what new memory holds, NaN as a float: nobody may rely on it
_TOTAL = 80 << 30


class CUDARuntimeError(RuntimeError):
    """The runtime refused."""


class CUDADriverError(RuntimeError):
    """The driver refused."""


class OutOfMemoryError(MemoryError):
    """The GPU has no memory left."""


# --- Memory -----------------------------------------------------------------------------------------


class Memory:
    """A piece of memory, placed as a GPU would place it."""

    device_id = 0

    def __init__(self, size: int) -> None:
        self.size = size
        room = np.empty(size + 512, np.uint8)
        start = -room.ctypes.data % 512
        self.bytes = room[start : start + size]
        self.bytes[: 1 << 20] = _FRESH
        self.ptr = self.bytes.ctypes.data if size else 0  # as CuPy has it: nothing lies nowhere
        if size:
            _memories[self.ptr] = self
        _pool.used += -(-size // 512) * 512
        _pool.most = max(_pool.most, _pool.used)

    def __del__(self) -> None:
        _pool.used -= -(-self.size // 512) * 512

    @property
    def device(self) -> Device:
        return Device(0)


_memories: Any = weakref.WeakValueDictionary()


def memory_at(address: int) -> Any:
    """Return the place in the GPU's memory that an address is of."""
    for memory in list(_memories.values()):
        if memory.ptr <= address < memory.ptr + max(memory.size, 1):
            return MemoryPointer(memory, address - memory.ptr)
    raise CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")


class UnownedMemory(Memory):
    """Memory that somebody else gives back."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        if not ptr and device_id < 0:
            raise RuntimeError("UnownedMemory requires explicit device ID for a null pointer.")
        self.ptr, self.size, self.owner = ptr, size, owner
        self.bytes = np.frombuffer((ctypes.c_char * size).from_address(ptr), np.uint8)

    def __del__(self) -> None:
        pass


class MemoryPointer:
    """A place in a piece of memory."""

    device_id = 0

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    @property
    def device(self) -> Device:
        return Device(0)

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    def _bytes(self, size: int) -> Any:
        start = self.ptr - self.mem.ptr
        return self.mem.bytes[start : start + size]

    def copy_from_device(self, source: MemoryPointer, size: int) -> None:
        write([self], lambda: np.copyto(self._bytes(size), source._bytes(size)))

    copy_from_device_async = copy_from = copy_from_async = lambda self, s, n, stream=None: self.copy_from_device(s, n)

    def memset(self, value: int, size: int) -> None:
        write([self], lambda: self._bytes(size).fill(value))

    memset_async = lambda self, value, size, stream=None: self.memset(value, size)


class MemoryPool:
    """Where memory comes from."""

    def __init__(self, allocator: Any = None) -> None:
        self.used = self.most = 0
        self.blocks: list[Memory] = []

    def malloc(self, size: int) -> MemoryPointer:
        made = Memory(size)
        if self is not _pool:  # whose own memory is its own until it goes
            self.blocks.append(made)
        return MemoryPointer(made, 0)

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return self.most

    def free_bytes(self) -> int:
        return self.most - self.used

    def free_all_blocks(self, stream: Any = None) -> None:
        self.most = self.used

    def n_free_blocks(self) -> int:
        return 0

    def get_limit(self) -> int:
        return 0

    def set_limit(self, size: Any = None, fraction: Any = None) -> None:
        pass


_pool = MemoryPool()


class _State(threading.local):
    def __init__(self) -> None:
        self.allocators: list[Any] = [_pool.malloc]
        self.streams: list[Stream] = []
        self.capture: Capture | None = None
        self.raising = False  # where a matrix has no answer


def alloc(size: int) -> MemoryPointer:
    """Return new memory from the allocator in use."""
    return state.allocators[-1](size)  # type: ignore[no-any-return]


@contextlib.contextmanager
def using_allocator(allocator: Any = None) -> Iterator[None]:
    """Take memory from another pool inside."""
    state.allocators.append(allocator or _pool.malloc)
    try:
        yield
    finally:
        state.allocators.pop()


def get_allocator() -> Any:
    """Return what memory is taken from."""
    return state.allocators[-1]


def set_allocator(allocator: Any = None) -> None:
    """Take memory from another pool from now on."""
    state.allocators[0] = allocator or _pool.malloc


def alloc_pinned_memory(size: int) -> Any:
    """Return memory of the host, with an address."""
    made = (ctypes.c_char * size)()
    return _Pinned(made)


class _Pinned(np.ndarray):
    ptr: int

    def __new__(cls, room: Any) -> Any:
        made = np.frombuffer(room, np.uint8).view(cls)
        made.ptr = ctypes.addressof(room)
        made.room = room  # type: ignore[attr-defined]
        return made


def memcpy_async(target: int, source: int, size: int, kind: int, stream: int) -> None:
    """Copy memory."""
    if kind == 2:
        transfer()
    write([], lambda: ctypes.memmove(target, source, size), kind == 3)


def memset_async(target: int, value: int, size: int, stream: int) -> None:
    """Fill memory."""
    write([], lambda: ctypes.memset(target, value, size), True)


# --- What a graph records ---------------------------------------------------------------------------


class Capture:
    """What was done since a capture began; whatever it overwrote is put back when it ends."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], Any]] = []
        self.before: dict[int, tuple[Any, Any]] = {}

    def keep(self, target: Any) -> None:
        memory = target.mem if isinstance(target, MemoryPointer) else target.data.mem
        if id(memory) not in self.before:
            self.before[id(memory)] = (memory, memory.bytes.copy())

    def undo(self) -> None:
        for memory, content in self.before.values():
            memory.bytes[:] = content


class Graph:
    """What was captured; launched, it is done again in the same memory."""

    def __init__(self, steps: list[Callable[[], Any]]) -> None:
        self.steps = steps

    def launch(self, stream: Any = None) -> None:
        for step in self.steps:
            step()

    def upload(self, stream: Any = None) -> None:
        pass


def write(targets: list[Any], action: Callable[[], Any], later: bool = False) -> Any:
    """Do something that writes into memory, and remember it where a graph is captured; `later`: do only that then."""
    capture = state.capture
    if capture is not None:
        if later:
            capture.steps.append(action)
            return None
        for target in targets:
            capture.keep(target)
        capture.steps.append(action)
    return action()


def made(target: Any, action: Callable[[], Any]) -> None:
    """Remember, where a graph is captured, how to compute a new array again."""
    if state.capture is not None:
        state.capture.steps.append(lambda: np.copyto(target, action(), casting="unsafe"))


def transfer() -> None:
    """Refuse to copy to the host while a graph is captured."""
    if state.capture is not None:
        raise RuntimeError("the current stream is capturing, so D2H transfers are disallowed")


# --- Streams, events, devices -----------------------------------------------------------------------


class Event:
    """A mark in a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.time = 0.0
        self.ptr = id(self)
        self.done = True

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        pass


def get_elapsed_time(start: Event, end: Event) -> float:
    """Return the milliseconds between two events."""
    return 1e3 * (end.time - start.time)


_numbers = itertools.count(1 << 20, 16)


class Stream:
    """A queue in which everything is done at once."""

    null: Stream
    ptds: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = None
    ) -> None:
        self.ptr = 0 if null else next(_numbers)
        self.device_id = 0
        self.done = True

    def __enter__(self) -> Stream:
        state.streams.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        state.streams.pop()

    def use(self) -> Stream:
        state.streams[:] = [self]
        return self

    def synchronize(self) -> None:
        if state.capture is not None:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported: not permitted when stream is capturing")

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        pass

    def launch_host_func(self, function: Any, argument: Any) -> None:
        write([], lambda: function(argument))

    def begin_capture(self, mode: Any = None) -> None:
        if self.ptr == 0:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if state.capture is not None:
            raise CUDARuntimeError("cudaErrorIllegalState: the operation cannot be performed in the present state")
        state.capture = Capture()

    def end_capture(self) -> Graph:
        capture, state.capture = state.capture, None
        if capture is None:
            raise CUDARuntimeError("cudaErrorIllegalState: the operation cannot be performed in the present state")
        capture.undo()
        return Graph(capture.steps)

    def is_capturing(self) -> bool:
        return state.capture is not None

    @property
    def priority(self) -> int:
        return 0


class ExternalStream(Stream):
    """A stream that somebody else made."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        super().__init__()
        self.ptr = ptr


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)
state = _State()


def get_current_stream(device_id: int = -1) -> Stream:
    """Return the stream in use."""
    return state.streams[-1] if state.streams else Stream.null


class Device:
    """The one GPU that there is."""

    compute_capability = "90"
    pci_bus_id = "0000:00:00.0"

    def __init__(self, device: Any = None) -> None:
        self.id = 0 if device is None else int(device)
        if self.id != 0:
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def use(self) -> Device:
        return self

    def synchronize(self) -> None:
        Stream.null.synchronize()

    @property
    def mem_info(self) -> tuple[int, int]:
        return _TOTAL - _pool.used, _TOTAL

    @property
    def attributes(self) -> dict[str, int]:
        return {"MultiProcessorCount": 132, "MaxSharedMemoryPerBlockOptin": 227 << 10, "MaxThreadsPerBlock": 1024}

    @property
    def cublas_handle(self) -> int:
        from . import blas

        return blas.load()


def properties(device: int = 0) -> dict[str, Any]:
    """Return what `getDeviceProperties` does."""
    return {
        "name": b"Simulated GPU", "major": 9, "minor": 0, "totalGlobalMem": _TOTAL, "multiProcessorCount": 132,
        "warpSize": 32, "sharedMemPerBlock": 48 << 10, "sharedMemPerBlockOptin": 227 << 10,
        "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048, "regsPerBlock": 65536, "l2CacheSize": 50 << 20,
    }  # fmt: skip
