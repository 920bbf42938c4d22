"""The names that programs know from ``cuda.amp`` and ``cpu.amp``: the device is part of the name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..amp.autocast_mode import autocast, custom_bwd, custom_fwd
from ..amp.grad_scaler import GradScaler
from ..core import dtypes


def _warn(name: str, place: str) -> None:
    warnings.warn(
        f"`adjoint.{place}.amp.{name}(args...)` is deprecated. Please use `adjoint.amp.{name}('{place}', args...)` "
        "instead.",
        FutureWarning,
        stacklevel=3,
    )


class CudaAutocast(autocast):
    """``autocast("cuda", ...)``."""

    def __init__(self, enabled: bool = True, dtype: dtypes.dtype = dtypes.float16, cache_enabled: bool = True) -> None:
        _warn("autocast", "cuda")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class CpuAutocast(autocast):
    """``autocast("cpu", ...)``."""

    def __init__(self, enabled: bool = True, dtype: dtypes.dtype = dtypes.bfloat16, cache_enabled: bool = True) -> None:
        _warn("autocast", "cpu")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class CudaGradScaler(GradScaler):
    """``GradScaler("cuda", ...)``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler", "cuda")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


class CpuGradScaler(GradScaler):
    """``GradScaler("cpu", ...)``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler", "cpu")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def cuda_custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None) -> Callable[..., Any]:
    """``custom_fwd(device_type="cuda")``."""
    if fwd is None:
        return functools.partial(cuda_custom_fwd, cast_inputs=cast_inputs)
    return custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def cuda_custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """``custom_bwd(device_type="cuda")``."""
    return custom_bwd(bwd, device_type="cuda")
