"""The few names of torch's C++ module that programs reach for."""

from __future__ import annotations

from .core import modes
from .core.device import device
from .core.dtypes import dtype
from .core.overrides import EverythingOff, SubclassesOff, disabled_torch_function
from .core.payload import inside
from .core.size import Size
from .core.tensor import TensorBase
from .ops.random import Generator

DisableTorchFunctionSubclass, DisableTorchFunction = SubclassesOff, EverythingOff
_TensorBase = TensorBase
_disabled_torch_function_impl = disabled_torch_function


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nobody counts calls here."""


def _get_tracing_state() -> None:
    """Return None: nothing is being traced for a script."""


def _are_functorch_transforms_active() -> bool:
    """Return whether a transform of `adjoint.func` is running in this thread."""
    return bool(inside.levels)


def _is_torch_function_mode_enabled() -> bool:
    """Return whether this thread is inside of a function mode."""
    return bool(modes.local.function_modes)


def _len_torch_function_stack() -> int:
    """Return how many function modes this thread is inside of."""
    return len(modes.local.function_modes)


def _is_torch_function_enabled() -> bool:
    """Return whether subclasses are asked before ops run."""
    return not modes.local.subclasses_off


__all__: list[str] = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Generator",
    "Size",
    "TensorBase",
    "device",
    "dtype",
]
