"""The CPU as a device, for device-independent programs."""

from __future__ import annotations

from . import amp
from .host import current_device, current_stream, device_count, is_available, set_device, stream, synchronize

__all__ = [
    "amp", "current_device", "current_stream", "device_count", "is_available", "set_device", "stream", "synchronize",
]  # fmt: skip
