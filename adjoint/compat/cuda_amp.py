"""``cuda.amp``: mixed precision under its older name; see `adjoint.amp`."""

from __future__ import annotations

from .device_amp import CudaAutocast as autocast
from .device_amp import CudaGradScaler as GradScaler
from .device_amp import cuda_custom_bwd as custom_bwd
from .device_amp import cuda_custom_fwd as custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
