"""Mixed precision under its older name: see `adjoint.amp`."""

from __future__ import annotations

from typing import Any

_NAMES = {"autocast": "CpuAutocast", "GradScaler": "CpuGradScaler"}

__all__ = ["GradScaler", "autocast"]  # noqa: F822  (found by `__getattr__`)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'adjoint.cpu.amp' has no attribute '{name}'")
    # Autocast stands on the rooms of the devices; this name is only the older door to it.
    from ...amp import older

    return getattr(older, _NAMES[name])
