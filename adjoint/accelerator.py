"""The GPU, if there is one, whatever its kind: ``torch.accelerator``; and the module of a device."""

from __future__ import annotations

import sys
import time
from typing import Any

from . import cuda
from .core import device as devices

__all__ = [
    "Event", "Stream", "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "get_device_module", "is_available", "set_device_idx",
    "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Return whether there is a GPU."""
    return cuda.is_available()


def device_count() -> int:
    """Return how many GPUs there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> devices.device | None:
    """Return the kind of GPU, None where there is none."""
    return devices.device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """Return the index of the GPU in use."""
    return cuda.current_device()


def set_device_index(device: Any, /) -> None:
    """Choose the GPU to use."""
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:
    """A context in which another GPU is used; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            self.before = cuda.current_device()
            cuda.set_device(self.index)

    def __exit__(self, *error: object) -> None:
        if self.index is not None:
            cuda.set_device(self.before)


def synchronize(device: Any = None, /) -> None:
    """Wait until the GPU, where there is one, has finished."""
    if cuda.is_available():
        cuda.synchronize()


def empty_cache() -> None:
    """Give memory that the GPU's pool holds back."""
    if cuda.is_available():
        cuda.empty_cache()


def current_stream(device: Any = None, /) -> Any:
    """Return the queue that work goes to."""
    return cuda.current_stream()


def set_stream(stream: Any) -> None:
    """Let work go to another queue."""
    if getattr(stream, "inner", None) is not None:
        stream.inner.use()


def get_device_module(device: Any = None) -> Any:
    """Return the module of a kind of device: ``adjoint.cuda`` or ``adjoint.cpu``."""
    kind = devices.as_device(device).type if device is not None else ("cuda" if cuda.is_available() else "cpu")
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'adjoint.{kind}'.")
    return getattr(sys.modules["adjoint"], kind)


class Stream:
    """A queue of work on a device; the host's is always empty."""

    def __new__(cls, device: Any = None, *, priority: int = 0) -> Any:
        """Make the device's own kind of queue."""
        return cuda.Stream() if _is_gpu(device) else super().__new__(cls)

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device, self.device_index, self.stream_id = devices.CPU, 0, 0

    def synchronize(self) -> None:
        """Do nothing: the host computes when it is told to."""

    def query(self) -> bool:
        """Return True: the queue is empty."""
        return True

    def wait_event(self, event: Any) -> None:
        """Do nothing: what was recorded is done."""

    wait_stream = wait_event

    def record_event(self, event: Any = None) -> Any:
        """Put a mark at the end of the queue."""
        event = Event(self.device, enable_timing=True) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


class Event:
    """A mark in a queue of work, with a time."""

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, **options: bool) -> Any:
        """Make the device's own kind of mark."""
        return cuda.Event(enable_timing=enable_timing) if _is_gpu(device) else super().__new__(cls)

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **options: bool) -> None:
        self.device, self._time = devices.CPU, 0.0

    def record(self, stream: Any = None) -> None:
        """Note the time."""
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        """Do nothing: the mark is reached."""

    def query(self) -> bool:
        """Return True: the mark is reached."""
        return True

    def wait(self, stream: Any = None) -> None:
        """Do nothing: the mark is reached."""

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this mark to another."""
        return (end_event._time - self._time) * 1000


def _is_gpu(device: Any) -> bool:
    return cuda.is_available() if device is None else devices.as_device(device).type == "cuda"
