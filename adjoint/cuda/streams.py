"""Streams and events: the queues of a GPU, and marks in them."""

from __future__ import annotations

from typing import Any

from .devices import module, required

__all__ = ["Event", "Stream", "current_stream", "default_stream", "stream"]


class Stream:
    """A queue of work on a GPU."""

    def __init__(self, device: Any = None, priority: int = 0, *, inner: Any = None) -> None:
        self.inner = required().cuda.Stream(non_blocking=True) if inner is None else inner

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        self.inner.synchronize()

    def query(self) -> bool:
        """Return whether the queue is empty."""
        return bool(self.inner.done)

    def wait_event(self, event: Event) -> None:
        """Let later work wait for an event."""
        self.inner.wait_event(event.inner)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for what another queue holds now."""
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

    def query(self) -> bool:
        """Return whether the mark is reached."""
        return bool(self.inner.done)

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of a queue wait for the mark."""
        (current_stream() if stream is None else stream).wait_event(self)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this mark to another."""
        return float(required().cuda.get_elapsed_time(self.inner, end_event.inner))


def current_stream(device: Any = None) -> Stream:
    """Return the queue that work goes to."""
    return Stream(inner=required().cuda.get_current_stream())


def default_stream(device: Any = None) -> Stream:
    """Return the queue that work goes to unless told otherwise."""
    return Stream(inner=required().cuda.Stream.null)


class stream:
    """A context in which work goes to another queue; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None and module() is not None:
            self.stream.inner.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.stream is not None and module() is not None:
            self.stream.inner.__exit__(*error)
