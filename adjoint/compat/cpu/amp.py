"""``cpu.amp``: mixed precision under its older name; see `adjoint.amp`."""

from __future__ import annotations

from ..device_amp import CpuAutocast as autocast
from ..device_amp import CpuGradScaler as GradScaler

__all__ = ["GradScaler", "autocast"]
