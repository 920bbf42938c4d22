"""The few names of torch's C++ module that programs reach for."""

from __future__ import annotations

from .core.device import device
from .core.dtypes import dtype
from .core.overrides import SubclassesOff
from .core.overrides import disabled_torch_function as _disabled_torch_function_impl
from .core.size import Size
from .core.tensor import TensorBase
from .ops.random import Generator

DisableTorchFunctionSubclass = DisableTorchFunction = SubclassesOff
_TensorBase = TensorBase


def _log_api_usage_once(event: str) -> None:
    """Do nothing: nobody counts calls here."""


def _get_tracing_state() -> None:
    """Return None: nothing is being traced for a script."""


def _is_torch_function_enabled() -> bool:
    """Return whether subclasses are asked before ops run."""
    # Set by the context above.
    from .core import modes

    return not modes.local.subclasses_off


__all__: list[str] = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "Size", "TensorBase", "device", "dtype"]
