"""Where a tensor's memory is, and which array module computes there.

Devices themselves are in `adjoint/devices`; its `contract` describes what one provides. This module has their names,
the current device, and functions that move arrays between devices.
"""

from __future__ import annotations

import functools
import operator
import threading
from types import ModuleType
from typing import Any

import numpy as np

from .._typing import Array, DeviceLike, DType, Kernel, Module, Shape
from ..devices import contract
from ..devices.contract import by_class, held, through_host
from ..devices.cpu import device as _cpu
from ..devices.cuda import device as _cuda  # noqa: F401 - registers itself

__all__ = [
    "CPU", "address_of", "adopt", "array_module", "as_device", "as_strided", "captures", "current", "device", "held",
    "linalg_of", "module_of", "of", "ones_like", "place_array", "random", "sampled", "set_current", "through_host",
]  # fmt: skip

# The names torch knows; tensors can be made on those for which a device is registered, and on "meta".
_TYPES = ("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
          "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone")  # fmt: skip


class device:
    """A place for tensors: ``device("cpu")``, ``device("cuda", 0)``.

    As a context it is where factories make tensors.

    Parameters
    ----------
    type : str, int or device
        ``"cpu"``, ``"cuda"`` or ``"meta"``, also with an index as in ``"cuda:1"``; or the index of a GPU.
    index : int, optional
        Which of several GPUs; the current one by default.

    Raises
    ------
    RuntimeError
        If there is no such type of device, or the index is negative or given twice.

    Examples
    --------
    >>> adjoint.device("cuda:1")
    device(type='cuda', index=1)
    >>> with adjoint.device("cpu"):
    ...     adjoint.zeros(2).device
    device(type='cpu')
    """

    __module__ = "adjoint"

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | int | device, index: int | None = None) -> None:
        if index is not None:
            index = _index(type, index)
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
        elif isinstance(type, int) and not isinstance(type, bool):
            if type >= 2**63:
                raise ValueError(f"Overflow when unpacking long long: there is no device {type}")
            self.type, self.index = "cuda", type
        elif isinstance(type, str):
            self.type, self.index = _parsed(type, index)
        else:
            raise TypeError(
                "device() received an invalid combination of arguments: expected a string, an index or an "
                f"adjoint.device, not {_kind(type)}"
            )
        if self.index is not None and self.index < 0:
            raise RuntimeError(f"Device index must not be negative, got {self.index}")

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[object, ...]:
        return (device, (self.type, self.index))

    def __enter__(self) -> device:
        _choose((*_local.chosen, self))
        return self

    def __exit__(self, *error: object) -> None:
        _choose(_local.chosen[:-1])

    def __call__(self, function: Kernel) -> Kernel:
        """Decorate a function: its factories make tensors here."""

        @functools.wraps(function)
        def wrapper(*args: object, **kwargs: object) -> object:
            with self:
                return function(*args, **kwargs)

        return wrapper


def _kind(value: object) -> str:
    return str(value.__class__.__name__)


def _index(type: object, index: Any) -> int:
    """Return the index that was given beside a type, which then is a name."""
    if not isinstance(type, str):
        raise TypeError(f"device(): argument 'type' (position 1) must be str, not {_kind(type)}")
    try:
        number = operator.index(index)
    except (TypeError, ValueError, RuntimeError):
        number = None
    if number is None or isinstance(index, bool) or getattr(getattr(index, "dtype", None), "name", "") == "bool":
        raise TypeError(f"device(): argument 'index' (position 2) must be int, not {_kind(index)}")
    if number >= 2**63:
        raise ValueError(f"Overflow when unpacking long long: there is no device {number}")
    return number


def _parsed(text: str, index: int | None) -> tuple[str, int | None]:
    name, colon, number = text.partition(":")
    if name not in _TYPES and name not in contract.by_name:
        raise RuntimeError(f"Expected one of {', '.join(_TYPES)} device type at start of device string: {text}")
    if not colon:
        return name, index
    if index is not None:
        raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {text}")
    if not (number.isascii() and number.isdigit()) or (number[0] == "0" and len(number) > 1):
        raise RuntimeError(f"Invalid device string: '{text}'")
    if int(number) >= 2**31:
        raise RuntimeError(f"Could not parse device index '{number}' in device string '{text}'")
    return name, int(number)


CPU = device("cpu")


class _Chosen(threading.local):
    """The default device of a thread, and the devices whose contexts it is in, innermost last."""

    default: device = CPU
    chosen: tuple[device, ...] = ()


_local = _Chosen()
_unusual = False  # whether any thread ever chose a device: until then no check is needed


def _choose(devices: tuple[device, ...]) -> None:
    global _unusual
    _unusual = True
    _local.chosen = devices


def current() -> device:
    """Return the device on which factories make tensors."""
    if not _unusual:
        return CPU
    return _local.chosen[-1] if _local.chosen else _local.default


def set_current(value: DeviceLike) -> None:
    """Set the device on which factories of this thread make tensors, outside of device contexts."""
    global _unusual
    _unusual = True
    _local.default = CPU if value is None else as_device(value)


def as_device(value: DeviceLike) -> device:
    """Return the device that a user's ``device=`` argument names."""
    if value is None:
        return current()
    if type(value) is device:
        return value
    if isinstance(value, str | int) and not isinstance(value, bool):
        return device(value)
    raise TypeError(f"argument 'device' must be adjoint.device, a string or an index, not {_kind(value)}")


def of(array: Any) -> device:
    """Return the device that holds `array`."""
    if isinstance(array, np.ndarray | np.generic):
        return CPU
    found = by_class.get(type(array))
    if found is not None:
        return device(found.name, found.index_of(array))
    if hasattr(array, "level"):  # a payload, which is where its memory is
        return getattr(array, "place", None) or of(array.memory())
    inner = getattr(array, "device", None)
    return inner if isinstance(inner, device) else CPU


def array_module(place: device) -> Any:
    """Return the module (NumPy, CuPy, ...) that makes arrays on `place`."""
    if place.type == "cpu":
        return np
    if place.type == "meta":
        return _meta().arrays
    return _loaded(place).module


def _loaded(place: device) -> contract.Device:
    if place.type not in contract.by_name:
        raise NotImplementedError(
            f"tensors cannot be made on device '{place}': adjoint computes on {' and '.join(contract.by_name)}"
        )
    return contract.loaded(place.type)


def _meta() -> ModuleType:
    from ..payloads import meta  # imported late: only programs with tensors on the meta device need it

    return meta


def _device_of(array: Array) -> contract.Device:
    found = by_class.get(type(array))
    if found is None and hasattr(array, "level"):  # a payload: what is made for it must be where its memory is
        found = contract.by_name.get(of(array).type)
    return _cpu.cpu if found is None else found


def module_of(array: Any) -> Module:
    """Return the module (NumPy, CuPy, ...) whose arrays `array` is one of."""
    module: Module = _device_of(array).module
    return module


def linalg_of(array: Any) -> ModuleType:
    """Return the functions of linear algebra for an array; they raise where a matrix has no solution."""
    return _device_of(array).linalg


# An entry for each program that is being captured. It knows arrays by their identity, so a GPU's are not reused then.
captures: list[None] = []


def adopt(value: Array) -> Array:
    """Return an array as tensors hold it: CuPy's as one of our own class."""
    found = by_class.get(type(value))
    return value if found is None else found.adopt(value)


def ones_like(array: Any) -> Array:
    """Return ones in the shape and dtype of an array, where that one is."""
    found = by_class.get(type(array))
    return _device_of(array).module.ones(array.shape, array.dtype) if found is None else found.ones_like(array)


def address_of(array: Array) -> int:
    """Return the address of an array's first element, where it is; values without memory raise."""
    found = by_class.get(type(array))
    return int(array.data.ptr) if found is None else found.address_of(array)


def as_strided(array: Array, shape: Shape, strides: Shape, offset: int) -> Array:
    """Return a view, strides and offset in bytes, of the memory that an array looks at."""
    return by_class[type(array)].as_strided(array, shape, strides, offset)


def place_array(array: Any, place: device) -> Any:
    """Return `array`, or a payload, on `place`, copied only when it is elsewhere."""
    here = of(array)
    if place.type == here.type and (place.index is None or place.index == here.index or place.type == "cpu"):
        return array
    if place.type == "meta":
        return _meta().Meta.like(array)
    if here.type == "meta":
        return array.concrete("to()")
    there, found = _loaded(place), by_class.get(type(array))
    if hasattr(array, "moved") and not there.is_host:  # a batch, sampled on the CPU
        return array.moved(place)
    if found is not None and found is not there:
        array = found.to_host(array)
    return np.asarray(array) if there.is_host else there.from_host(array, place.index)


def sampled(place: device, kind: str, shape: Shape, dtype: DType) -> bool:
    """Return whether a device makes these random numbers itself, by a seed."""
    return place is not CPU and place.type in contract.by_name and _loaded(place).samples(kind, shape, dtype)


def random(place: device, kind: str, shape: Shape, dtype: DType, seed: int, *params: float) -> Array:
    """Return random numbers that a device makes by a seed."""
    return _loaded(place).random(kind, shape, dtype, seed, place.index, *params)
