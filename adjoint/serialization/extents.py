"""Memory of tensors in a file: shared stretches are stored once and shared again; on which device they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core import device as devices
from ..core import dtypes, layout
from ..core.tensor import owner_of
from ..devices.contract import by_name
from ..ops.convert import concrete
from ..ops.memory import UntypedStorage, address_of, flat_bytes
from .sources import FileFormatError

__all__ = ["Extent", "Look", "Placement", "placement", "survey"]


Placement = Callable[[Any, str], Any]  # bytes on the CPU, and their saved location -> bytes at the new location


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
    answer = function(UntypedStorage.over(memory), location)
    if answer is None:
        return _where_it_was(memory, location)
    if isinstance(answer, str | devices.device):
        return devices.place_array(memory, devices.as_device(answer))
    return devices.place_array(memory, answer.device)


def _where_it_was(memory: Any, location: str) -> Any:
    name = location.partition(":")[0]
    if name == "cpu":
        return memory
    if name not in by_name:
        raise FileFormatError(
            f"don't know how to restore data location of storage (tagged with {location!r:.60}); "
            "pass map_location='cpu' to load"
        )
    try:
        return devices.place_array(memory, devices.device(location))
    except (RuntimeError, TypeError, ValueError) as error:
        raise FileFormatError(
            "Attempting to deserialize object on a CUDA device but adjoint.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, use load with map_location='cpu' to map your storages to the CPU."
        ) from error


_ALIGNMENT = 16  # of an extent's start: elements of every dtype are aligned relative to it


@dataclass(eq=False)
class Extent:
    """A stretch of memory that is stored once: the smallest that contains all tensors in it."""

    owner: Any
    low: int
    high: int
    arrays: list[Any]  # of the tensors that view it

    @cached_property
    def uniform(self) -> bool:
        """Whether all tensors view it in the same way; valid once all of them are known."""
        first = self.arrays[0]
        return all(
            x.shape == first.shape
            and x.strides == first.strides
            and x.dtype == first.dtype
            and address_of(x) == address_of(first)
            for x in self.arrays[1:]
        )

    @cached_property
    def mixed(self) -> bool:
        """Whether tensors of several dtypes view it."""
        return len({x.dtype for x in self.arrays}) > 1

    def data(self) -> Any:
        """Return the bytes, as an array."""
        memory = flat_bytes(self.owner)
        start = self.low - address_of(memory) if memory.size else 0
        return memory[start : start + self.high - self.low]


@dataclass(eq=False)
class Look:
    """A tensor as a view of an extent; offset and strides count elements."""

    array: Any  # on the CPU
    location: str
    extent: Extent
    requires_grad: bool

    @property
    def dtype(self) -> dtypes.dtype:
        """The tensor's dtype."""
        return dtypes.of(self.array.dtype)

    @property
    def offset(self) -> int:
        """The offset of the first element."""
        return (address_of(self.array) - self.extent.low) // int(self.array.itemsize) if self.array.size else 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps from one element to the next."""
        return tuple(layout.strides_of(self.array))

    @property
    def alone(self) -> bool:
        """Whether every tensor in the extent is the same view of it."""
        return self.extent.uniform


def survey(tensors: list[Any]) -> list[Look]:
    """Return each tensor as a view of an extent; tensors that share memory share an extent."""
    extents: dict[int, Extent] = {}
    looks = [_looked(tensor, extents) for tensor in tensors]
    for extent in extents.values():
        origin = address_of(owner_of(extent.owner))
        extent.low -= (extent.low - origin) % _ALIGNMENT
    return looks


def _looked(tensor: Any, extents: dict[int, Extent]) -> Look:
    array = tensor if isinstance(tensor, np.ndarray) else tensor.array
    place, known = devices.of(array), id(owner_of(array))
    if place.type not in ("cpu", "meta"):  # tensors of the same elements stay one, other views come apart
        known = hash((address_of(array), tuple(array.shape), tuple(array.strides)))
        array = extents[known].arrays[0] if known in extents else concrete(tensor, "save")
    elif not isinstance(array, np.ndarray):
        array = concrete(tensor, "save")
        known = id(owner_of(array))
    if not _simple(array):
        array = array.copy(order="C")
        known = id(array)
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (address_of(array),) * 2
    extent = extents.get(known)
    if extent is None:
        extent = extents[known] = Extent(owner_of(array), low, high, [])
    extent.low, extent.high = min(extent.low, low), max(extent.high, high)
    extent.arrays.append(array)
    return Look(array, str(place), extent, getattr(tensor, "requires_grad", False))


def _simple(array: Any) -> bool:
    """Return whether an array has native byte order, and an offset and non-negative strides in whole elements."""
    size = array.itemsize
    if (address_of(array) - address_of(owner_of(array))) % size or not array.dtype.isnative:
        return False
    return all(s >= 0 and s % size == 0 for s in array.strides)
