"""Mixed precision under its older name: see `adjoint.amp`."""

from __future__ import annotations

from typing import Any

_NAMES = {
    "autocast": "CudaAutocast", "GradScaler": "CudaGradScaler", "custom_fwd": "cuda_custom_fwd",
    "custom_bwd": "cuda_custom_bwd",
}  # fmt: skip

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]  # noqa: F822  (found by `__getattr__`)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'adjoint.cuda.amp' has no attribute '{name}'")
    # Autocast stands on the GPU's room, not the other way round; this name is only the older door to it.
    from ..amp import older

    return getattr(older, _NAMES[name])
