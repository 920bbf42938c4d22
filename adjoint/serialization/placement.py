"""On which device the tensors of a file are made: where they were, or where ``map_location`` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import device as devices
from ..ops.memory import UntypedStorage
from .failures import FileFormatError

__all__ = ["Placement", "placement"]

Placement = Callable[[Any, str], Any]  # bytes on the host, and where they were -> bytes where they shall be


def placement(map_location: Any) -> Placement:
    """Return what moves bytes to where `map_location` says: None, a device, a dict of devices, or a function."""
    if map_location is None:
        return _where_it_was
    if isinstance(map_location, str | devices.device):
        place = devices.as_device(map_location)
        return lambda memory, location: devices.place_array(memory, place)
    if isinstance(map_location, dict):
        return lambda memory, location: _where_it_was(memory, str(map_location.get(location, location)))
    if callable(map_location):
        return lambda memory, location: _asked(map_location, memory, location)
    raise TypeError(f"map_location must be a device, a string, a dict or a function, not {type(map_location).__name__}")


def _asked(function: Any, memory: Any, location: str) -> Any:
    storage: UntypedStorage = object.__new__(UntypedStorage)
    storage._bytes = memory
    answer = function(storage, location)
    if answer is None:
        return _where_it_was(memory, location)
    if isinstance(answer, str | devices.device):
        return devices.place_array(memory, devices.as_device(answer))
    return devices.place_array(memory, answer.device)


def _where_it_was(memory: Any, location: str) -> Any:
    name = location.partition(":")[0]
    if name == "cpu":
        return memory
    if name != "cuda":
        raise FileFormatError(
            f"don't know how to restore data location of storage (tagged with {location!r}); "
            "pass map_location='cpu' to load"
        )
    try:
        return devices.place_array(memory, devices.device(location))
    except RuntimeError as error:
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but adjoint.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, use load with map_location='cpu' to map your storages to the CPU."
        ) from error
