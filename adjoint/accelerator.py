"""The GPU, if there is one, whatever its kind: ``torch.accelerator``; and the module of a device."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from . import cuda
from ._typing import DeviceLike
from .core import device as devices
from .devices.contract import Device, by_name

__all__ = [
    "Event", "Stream", "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "get_device_module", "is_available", "set_device_idx",
    "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def _accelerator() -> Device | None:
    """Return the first available device that is not the CPU."""
    return next((d for d in by_name.values() if not d.is_host and d.is_available()), None)


def _frontend() -> Any:
    """Return the public module of the accelerator; CUDA's, which says what is missing, where there is none."""
    found = _accelerator()
    return import_module(found.frontend) if found is not None and found.frontend else cuda


def is_available() -> bool:
    """Return whether there is a GPU, or another device that is not the CPU."""
    return _accelerator() is not None


def device_count() -> int:
    """Return how many devices of the accelerator's kind there are."""
    found = _accelerator()
    return 0 if found is None else found.count()


def current_accelerator(check_available: bool = False) -> devices.device | None:
    """Return the kind of GPU, None where there is none."""
    found = _accelerator()
    return None if found is None else devices.device(found.name)


def current_device_index() -> int:
    """Return the index of the GPU in use."""
    return int(_frontend().current_device())


def set_device_index(device: DeviceLike, /) -> None:
    """Choose the GPU to use."""
    _frontend().set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:
    """A context in which another GPU is used; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            self.before = current_device_index()
            set_device_index(self.index)

    def __exit__(self, *error: object) -> None:
        if self.index is not None:
            set_device_index(self.before)


def synchronize(device: DeviceLike = None, /) -> None:
    """Wait until the accelerator, where there is one, has finished."""
    found = _accelerator()
    if found is not None and found.classes:  # else nothing was started
        found.synchronize()


def empty_cache() -> None:
    """Give memory that the accelerator's pool holds back."""
    found = _accelerator()
    if found is not None and found.classes:
        found.empty_cache()


def current_stream(device: DeviceLike = None, /) -> Any:
    """Return the queue that work goes to."""
    return _frontend().current_stream()


def set_stream(stream: Any) -> None:
    """Let work go to another queue."""
    if getattr(stream, "inner", None) is not None:
        stream.inner.use()


def get_device_module(device: DeviceLike = None) -> Any:
    """Return the module of a kind of device: ``adjoint.cuda`` or ``adjoint.cpu``."""
    place = current_accelerator() or devices.CPU if device is None else devices.as_device(device)
    kind, found = place.type, by_name.get(place.type)
    if found is None or not found.frontend:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'adjoint.{kind}'.")
    return import_module(found.frontend)


class Stream:
    """A queue of work on a device; the CPU's is always empty."""

    def __new__(cls, device: DeviceLike = None, *, priority: int = 0) -> Any:
        """Make the device's own kind of queue."""
        made = _public(device)
        return super().__new__(cls) if made is None else made.Stream()

    def __init__(self, device: DeviceLike = None, *, priority: int = 0) -> None:
        self.device, self.device_index, self.stream_id = devices.CPU, 0, 0

    def synchronize(self) -> None:
        """Do nothing: work on the CPU has finished when a call returns."""

    def query(self) -> bool:
        """Return True: the queue is empty."""
        return True

    def wait_event(self, event: Event | Stream) -> None:
        """Do nothing: what was recorded is done."""

    wait_stream = wait_event

    def record_event(self, event: Event | None = None) -> Event:
        """Put a mark at the end of the queue."""
        event = Event(self.device, enable_timing=True) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


class Event:
    """A mark in a queue of work, with a time."""

    def __new__(cls, device: DeviceLike = None, *, enable_timing: bool = False, **options: bool) -> Any:
        """Make the device's own kind of mark."""
        made = _public(device)
        return super().__new__(cls) if made is None else made.Event(enable_timing=enable_timing)

    def __init__(self, device: DeviceLike = None, *, enable_timing: bool = False, **options: bool) -> None:
        self.device, self._time = devices.CPU, 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Note the time."""
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        """Do nothing: the mark is reached."""

    def query(self) -> bool:
        """Return True: the mark is reached."""
        return True

    def wait(self, stream: Stream | None = None) -> None:
        """Do nothing: the mark is reached."""

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this mark to another."""
        return (end_event._time - self._time) * 1000


def _public(device: DeviceLike) -> Any:
    """Return the public module of a device, or of the accelerator; None of the CPU, and where there is none."""
    found = _accelerator() if device is None else by_name.get(devices.as_device(device).type)
    return None if found is None or found.is_host or not found.frontend else import_module(found.frontend)
