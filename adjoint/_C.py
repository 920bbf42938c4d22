"""The few names of torch's C++ module that programs reach for."""

from __future__ import annotations

import enum
from typing import Any

from .core import modes
from .core.device import device
from .core.dtypes import dtype
from .core.overrides import EverythingOff, SubclassesOff, disabled_torch_function
from .core.payload import transforming
from .core.size import Size
from .core.tensor import TensorBase
from .errors import LinAlgError
from .ops.random import Generator

DisableTorchFunctionSubclass, DisableTorchFunction = SubclassesOff, EverythingOff
_TensorBase, _LinAlgError = TensorBase, LinAlgError
_disabled_torch_function_impl = disabled_torch_function


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nobody counts calls here."""


def _get_tracing_state() -> None:
    """Return None: nothing is being traced for a script."""


def _are_functorch_transforms_active() -> bool:
    """Return whether a transform of `adjoint.func` is running in this thread."""
    return transforming()


def _is_torch_function_mode_enabled() -> bool:
    """Return whether this thread is inside of a function mode."""
    return bool(modes.local.function_modes)


def _len_torch_function_stack() -> int:
    """Return how many function modes this thread is inside of."""
    return len(modes.local.function_modes)


def _get_function_stack_at(level: int) -> Any:
    """Return the function mode at a depth, the outermost first."""
    return modes.local.function_modes[level]


class _TorchFunctionState(enum.Enum):
    """Who hears of functions: everybody, modes alone, nobody."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    """Return who hears of functions in this thread."""
    off = modes.local.subclasses_off
    return _TorchFunctionState.SUBCLASSES_DISABLED if off else _TorchFunctionState.ENABLED


def _set_torch_function_state(state: _TorchFunctionState) -> None:
    """Say who hears of functions in this thread."""
    modes.local.subclasses_off = state is not _TorchFunctionState.ENABLED
    if state is _TorchFunctionState.ALL_DISABLED:
        modes.local.function_modes = ()


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
