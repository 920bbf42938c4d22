"""The GPU through CuPy, which is imported only where it is installed: devices, memory, seeds, streams and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .._typing import DeviceLike, Tensor
from ..core import device as places
from ..devices.contract import loaded
from ..devices.cuda.device import CUDA, STATS, found
from ..devices.cuda.device import cuda as gpu
from ..errors import NoGPUError
from ..ops import random as host

__all__ = [
    "DeferredCudaCallError", "Event", "OutOfMemoryError", "Stream", "current_device", "current_stream",
    "default_stream", "device", "device_count", "device_of", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "initial_seed", "ipc_collect",
    "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "stream", "synchronize",
]  # fmt: skip


class OutOfMemoryError(RuntimeError):
    """A GPU has no memory left.

    Examples
    --------
    Free what the pool holds, and run again on smaller batches:

    >>> def loss_of(model, x):
    ...     try:
    ...         return model(x)
    ...     except adjoint.cuda.OutOfMemoryError:
    ...         adjoint.cuda.empty_cache()
    ...         return adjoint.cat([model(part) for part in x.chunk(2)])
    >>> loss_of(adjoint.nn.Identity(), adjoint.ones(4)).shape
    adjoint.Size([4])
    """


class DeferredCudaCallError(Exception):
    """A call that waited for the GPU to be initialised failed; here calls never wait."""


module: Callable[[], Any] = found  # CuPy where it is installed and finds a GPU, else None


def required() -> Any:
    """Return CuPy, or explain why there is no GPU to use."""
    cupy = module()
    if cupy is None:
        raise NoGPUError(
            "Torch not compiled with CUDA enabled: no GPU was found through CuPy; pip install cupy-cuda13x "
            "(CUDA 12: cupy-cuda12x) on a machine that has one"
        )
    return cupy


def index_of(device: DeviceLike) -> int:
    """Return the number of a GPU named in any way; None means the one in use."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    place = places.device(device)
    if place.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {place}")
    return current_device() if place.index is None else place.index


def is_available() -> bool:
    """Return whether tensors can be put on a GPU.

    Returns
    -------
    bool
        True if CuPy is installed and finds a GPU.

    Examples
    --------
    >>> device = adjoint.device("cuda" if adjoint.cuda.is_available() else "cpu")
    >>> adjoint.ones(2, device=device).sum().item()
    2.0
    """
    return module() is not None


def device_count() -> int:
    """Return the number of GPUs.

    Returns
    -------
    int
        0 where there is no GPU, or no CuPy.

    Examples
    --------
    >>> (adjoint.cuda.device_count() > 0) == adjoint.cuda.is_available()
    True
    """
    return gpu.count()


def current_device() -> int:
    """Return the index of the current GPU, on which ``device="cuda"`` makes tensors.

    Returns
    -------
    int
        Counted from 0.

    Raises
    ------
    NoGPUError
        If there is no GPU; a RuntimeError and an AssertionError.

    Examples
    --------
    >>> if adjoint.cuda.is_available():
    ...     assert 0 <= adjoint.cuda.current_device() < adjoint.cuda.device_count()
    """
    return int(required().cuda.runtime.getDevice())


def set_device(device: DeviceLike) -> None:
    """Make another GPU the current one, on which ``device="cuda"`` makes tensors from now on.

    Parameters
    ----------
    device : int, str or device
        The GPU: ``1``, ``"cuda:1"`` or ``adjoint.device("cuda", 1)``.

    Raises
    ------
    NoGPUError
        If there is no GPU.
    ValueError
        If `device` is not a GPU.

    Examples
    --------
    >>> if adjoint.cuda.is_available():
    ...     adjoint.cuda.set_device(0)
    """
    required().cuda.Device(index_of(device)).use()


class device:
    """A context in which another GPU is the current one.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; None, or a negative index, changes nothing. Without a GPU the context does nothing.

    Examples
    --------
    >>> with adjoint.cuda.device(0):
    ...     x = adjoint.ones(2, device="cuda" if adjoint.cuda.is_available() else "cpu")
    """

    def __init__(self, device: DeviceLike) -> None:
        self.idx = index_of(device) if module() is not None else -1
        self._context: Any = None

    def __enter__(self) -> None:
        if self.idx >= 0:
            self._context = required().cuda.Device(self.idx)
            self._context.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._context is not None:
            self._context.__exit__(*error)


class device_of(device):
    """A context in which the GPU of a tensor is the current one; for a CPU tensor it changes nothing."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else 0)
        if not obj.is_cuda:
            self.idx = -1


def synchronize(device: DeviceLike = None) -> None:
    """Wait until a GPU has finished all submitted work.

    Time GPU code between two calls of this: other calls return before the GPU is done.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one.

    Raises
    ------
    NoGPUError
        If there is no GPU.
    IndexError
        If a kernel met an index out of bounds since the last check.

    Examples
    --------
    >>> if adjoint.cuda.is_available():
    ...     adjoint.cuda.synchronize()
    """
    required()
    _loaded().synchronize(index_of(device))


def _loaded() -> CUDA:
    assert loaded(gpu.name) is gpu
    return gpu


def init() -> None:
    """Do nothing: CuPy initialises the GPU when it is first used."""


def is_initialized() -> bool:
    """Return whether the GPU has been initialised."""
    return found.cache_info().currsize > 0 and is_available()


def ipc_collect() -> None:
    """Do nothing: memory is not shared between processes."""


def _properties(device: DeviceLike) -> dict[str, Any]:
    found: dict[str, Any] = required().cuda.runtime.getDeviceProperties(index_of(device))
    return found


def get_device_name(device: DeviceLike = None) -> str:
    """Return the name of a GPU.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one.

    Returns
    -------
    str
        As the driver reports it, ``"NVIDIA H200"`` for example.

    Raises
    ------
    NoGPUError
        If there is no GPU.

    Examples
    --------
    >>> if adjoint.cuda.is_available():
    ...     assert isinstance(adjoint.cuda.get_device_name(0), str)
    """
    return str(_properties(device)["name"].decode())


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Return the compute capability of a GPU.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one.

    Returns
    -------
    tuple of int
        Major and minor version: ``(9, 0)`` for an H200.

    Raises
    ------
    NoGPUError
        If there is no GPU.

    Examples
    --------
    >>> if adjoint.cuda.is_available():
    ...     major, minor = adjoint.cuda.get_device_capability()
    """
    found = _properties(device)
    return int(found["major"]), int(found["minor"])


class _Properties:
    """What `get_device_properties` returns."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.name = found["name"].decode()
        self.major, self.minor = int(found["major"]), int(found["minor"])
        self.total_memory = int(found["totalGlobalMem"])
        self.multi_processor_count = int(found["multiProcessorCount"])
        self.warp_size = int(found["warpSize"])

    def __repr__(self) -> str:
        size = self.total_memory // 2**20
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={size}MB, multi_processor_count={self.multi_processor_count})"
        )


def get_device_properties(device: DeviceLike = None) -> _Properties:
    """Return name, memory and other properties of a GPU.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one.

    Returns
    -------
    object
        With the attributes `name`, `major` and `minor` (the compute capability), `total_memory` in bytes,
        `multi_processor_count` and `warp_size`.

    Raises
    ------
    NoGPUError
        If there is no GPU.

    Examples
    --------
    >>> if adjoint.cuda.is_available():
    ...     assert adjoint.cuda.get_device_properties(0).total_memory > 0
    """
    return _Properties(_properties(device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the current GPU computes with bfloat16.

    Parameters
    ----------
    including_emulation : bool, default True
        Count GPUs that convert to float32 and back. False requires native bfloat16 arithmetic: compute
        capability 8.0 or later.

    Returns
    -------
    bool
        False without a GPU.

    Examples
    --------
    >>> dtype = adjoint.bfloat16 if adjoint.cuda.is_bf16_supported() else adjoint.float32
    """
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes of GPU memory that tensors use now.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one.

    Returns
    -------
    int
        0 without a GPU.

    Examples
    --------
    >>> before = adjoint.cuda.memory_allocated()
    >>> x = adjoint.ones(1000)  # on the CPU
    >>> adjoint.cuda.memory_allocated() - before
    0
    """
    return memory_stats(device)["allocated_bytes.all.current"]


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes of GPU memory that the pool holds, in use or free.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one.

    Returns
    -------
    int
        0 without a GPU.

    Examples
    --------
    >>> adjoint.cuda.memory_reserved() >= adjoint.cuda.memory_allocated()
    True
    """
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the most bytes of GPU memory that tensors used since `reset_peak_memory_stats` or the start.

    Increases below 1 MiB, or below a thousandth of the peak, may be missed. Freed small arrays that wait for reuse may
    count.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one.

    Returns
    -------
    int
        0 without a GPU.

    Examples
    --------
    >>> adjoint.cuda.reset_peak_memory_stats()
    >>> adjoint.cuda.max_memory_allocated() >= adjoint.cuda.memory_allocated()
    True
    """
    return memory_stats(device)["allocated_bytes.all.peak"]


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the most bytes of GPU memory that the pool held since `reset_peak_memory_stats` or the start.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one.

    Returns
    -------
    int
        0 without a GPU.

    Examples
    --------
    >>> adjoint.cuda.max_memory_reserved() >= adjoint.cuda.memory_reserved()
    True
    """
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Restart `max_memory_allocated` and `max_memory_reserved` from what is in use now.

    Parameters
    ----------
    device : int, str, device or None
        The GPU; by default the current one. Without a GPU the call does nothing.

    Examples
    --------
    >>> adjoint.cuda.reset_peak_memory_stats()
    """
    if is_available():
        _loaded().reset_peak(index_of(device))


reset_max_memory_allocated = reset_peak_memory_stats


def empty_cache() -> None:
    """Return the pool's free memory to the GPU, for other programs to use.

    Memory of live tensors is not affected. Without a GPU the call does nothing.

    Examples
    --------
    >>> adjoint.cuda.empty_cache()
    >>> adjoint.cuda.memory_reserved() >= adjoint.cuda.memory_allocated()
    True
    """
    if is_available():
        _loaded().empty_cache()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and the total bytes of a GPU."""
    cupy = module()
    if cupy is None:
        return 0, 0
    with cupy.cuda.Device(index_of(device)):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """Return the memory statistics under torch's names."""
    if not is_available():
        return dict.fromkeys(STATS, 0)
    return _loaded().memory_stats(index_of(device))


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return the memory statistics as text."""
    return "\n".join(f"{name:<32}{value:>16}" for name, value in memory_stats(device).items())


def manual_seed(seed: int) -> None:
    """Do nothing: `adjoint.manual_seed` seeds the generator for the CPU and for GPUs.

    Parameters
    ----------
    seed : int
        Ignored.

    Examples
    --------
    >>> adjoint.cuda.manual_seed(0)  # not enough
    >>> adjoint.manual_seed(0).initial_seed()  # this is
    0
    """


def manual_seed_all(seed: int) -> None:
    """Do nothing: `adjoint.manual_seed` seeds the generator for the CPU and for all GPUs.

    Parameters
    ----------
    seed : int
        Ignored.

    Examples
    --------
    >>> adjoint.cuda.manual_seed_all(0)  # not enough
    >>> adjoint.manual_seed(0).initial_seed()  # this is
    0
    """


def seed() -> None:
    """Do nothing: `adjoint.seed` seeds the generator that GPUs use, too."""


def seed_all() -> None:
    """Do nothing: `adjoint.seed` seeds the generator that GPUs use, too."""


def initial_seed() -> int:
    """Return the seed of the generator that GPUs use."""
    return host.initial_seed()


def get_rng_state(device: DeviceLike = "cuda") -> Tensor:
    """Return the state of the generator that GPUs use."""
    return host.get_rng_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the state of the generator that GPUs use, once."""
    return [host.get_rng_state()]


def set_rng_state(new_state: Tensor, device: DeviceLike = "cuda") -> None:
    """Set the state of the generator that GPUs use."""
    host.set_rng_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the state of the generator that GPUs use."""
    for state in new_states:
        host.set_rng_state(state)


class Stream:
    """A queue of work on a GPU."""

    def __init__(self, device: DeviceLike = None, priority: int = 0, *, inner: Any = None) -> None:
        self.inner = required().cuda.Stream(non_blocking=True) if inner is None else inner

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        self.inner.synchronize()
        _loaded().report()

    def query(self) -> bool:
        """Return whether the queue is empty."""
        return bool(self.inner.done)

    def wait_event(self, event: Event) -> None:
        """Let later work wait for an event."""
        self.inner.wait_event(event.inner)

    def wait_stream(self, stream: Stream) -> None:
        """Make later work wait for the work now in another stream."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Put a mark at the end of the queue."""
        event = Event() if event is None else event
        event.record(self)
        return event

    @property
    def cuda_stream(self) -> int:
        """The address of the queue."""
        return int(self.inner.ptr)


class Event:
    """A mark in a queue, with a time."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.inner = required().cuda.Event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark at the end of a queue."""
        self.inner.record(None if stream is None else stream.inner)

    def synchronize(self) -> None:
        """Wait until the mark is reached."""
        self.inner.synchronize()
        _loaded().report()

    def query(self) -> bool:
        """Return whether the mark is reached."""
        return bool(self.inner.done)

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of a queue wait for the mark."""
        (current_stream() if stream is None else stream).wait_event(self)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this mark to another."""
        return float(required().cuda.get_elapsed_time(self.inner, end_event.inner))


def current_stream(device: DeviceLike = None) -> Stream:
    """Return the current stream."""
    return Stream(inner=required().cuda.get_current_stream())


def default_stream(device: DeviceLike = None) -> Stream:
    """Return the default stream."""
    return Stream(inner=required().cuda.Stream.null)


class stream:
    """A context in which another stream is the current one; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None and module() is not None:
            self.stream.inner.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.stream is not None and module() is not None:
            self.stream.inner.__exit__(*error)
