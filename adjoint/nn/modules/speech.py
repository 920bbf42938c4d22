"""What modules read and say: the arguments of `to`, names of types, where an error arose."""

from __future__ import annotations

from typing import Any

from ...core import device as devices
from ...core import dtypes
from ...core.tensor import TensorBase


def typename(value: Any) -> str:
    """Return what an error calls a value: its type, with the module it is from."""
    if isinstance(value, TensorBase):
        return str(value.type())  # type: ignore[attr-defined]
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None, tensor: Any = None, other: Any = None,
) -> tuple[Any, Any, bool, Any]:  # fmt: skip
    """Return device, dtype, non_blocking and memory_format from the arguments of `Module.to`."""
    for arg in (*args, tensor, other):
        if isinstance(arg, dtypes.dtype):
            dtype = arg
        elif isinstance(arg, bool):
            non_blocking = arg
        elif isinstance(arg, TensorBase):
            device, dtype = arg.device, arg.dtype  # type: ignore[attr-defined]
        elif arg is not None:
            device = arg
    return None if device is None else devices.as_device(device), dtype, non_blocking, memory_format


def say_where(error: Exception, module: Any) -> None:
    """Note on an exception which module raised it; each module it passes through knows more of the path."""
    source, note = getattr(error, "_module_note", (module, None))
    if note is None and any(n.startswith("in module ") for n in getattr(error, "__notes__", ())):
        return
    try:
        path = next((name for name, found in module.named_modules() if found is source), None)
        if path is None:
            return
        whole = type(module).__name__ + (f".{path}: {type(source).__name__}" if path else "")
        said = f"in module {whole}" + (f"({source.extra_repr()})" if source.extra_repr() else "")
        if note is None:
            error.add_note(said)
        else:
            error.__notes__[error.__notes__.index(note)] = said
        error._module_note = (source, said)  # type: ignore[attr-defined]
    except Exception:  # a module too broken to be described must not hide the error
        return
