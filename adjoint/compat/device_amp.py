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


class _GradScaler(GradScaler):
    """A scaler whose class names the device."""

    _place: str

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler", self._place)
        super().__init__(self._place, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


class CudaGradScaler(_GradScaler):
    """``GradScaler("cuda", ...)`` under its older name; warns that it is deprecated.

    Parameters
    ----------
    init_scale : float, default 65536.0
        What losses are multiplied by at first.
    growth_factor : float, default 2.0
        What the scale is multiplied by after `growth_interval` steps without an overflow.
    backoff_factor : float, default 0.5
        What the scale is multiplied by after a step with an infinite or NaN gradient, which is skipped.
    growth_interval : int, default 2000
        After how many good steps the scale grows.
    enabled : bool, default True
        False: losses and steps are passed on as they are. Without a GPU the scaler warns and is disabled.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     scaler = adjoint.cuda.amp.GradScaler()
    >>> scaler.is_enabled() == adjoint.cuda.is_available()
    True
    """

    _place = "cuda"


class CpuGradScaler(_GradScaler):
    """``GradScaler("cpu", ...)``."""

    _place = "cpu"


def cuda_custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None) -> Callable[..., Any]:
    """``custom_fwd(device_type="cuda")``."""
    if fwd is None:
        return functools.partial(cuda_custom_fwd, cast_inputs=cast_inputs)
    return custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def cuda_custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """``custom_bwd(device_type="cuda")``."""
    return custom_bwd(bwd, device_type="cuda")
