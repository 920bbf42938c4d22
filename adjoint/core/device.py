"""Where a tensor's memory is, and which array module computes there."""

from __future__ import annotations

import functools
import operator
import threading
from typing import Any

import numpy as np

from ..devices.cpu.provider import gpus
from ..errors import NoGPUError

# The names torch knows; only the first two are places where memory can be had here.
_TYPES = ("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
          "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone")  # fmt: skip


class device:
    """A place for tensors: ``device("cpu")``, ``device("cuda", 0)``.

    As a context it is where factories make tensors.

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

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type, self.index))

    def __enter__(self) -> device:
        _choose((*_local.chosen, self))
        return self

    def __exit__(self, *error: object) -> None:
        _choose(_local.chosen[:-1])

    def __call__(self, function: Any) -> Any:
        """Decorate a function: its factories make tensors here."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapper


def _kind(value: Any) -> str:
    return str(value.__class__.__name__)


def _index(type: Any, index: Any) -> int:
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
    if name not in _TYPES:
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
_module_of: dict[Any, Any] = {np.ndarray: np}


class _Chosen(threading.local):
    """The default device of a thread, and the devices whose contexts it is in, innermost last."""

    default: device = CPU
    chosen: tuple[device, ...] = ()


_local = _Chosen()
_unusual = False  # whether any thread ever chose a device: until then nobody needs to ask


def _choose(devices: tuple[device, ...]) -> None:
    global _unusual
    _unusual = True
    _local.chosen = devices


def current() -> device:
    """Return the device on which factories make tensors."""
    if not _unusual:
        return CPU
    return _local.chosen[-1] if _local.chosen else _local.default


def set_current(value: Any) -> None:
    """Set the device on which factories of this thread make tensors, outside of device contexts."""
    global _unusual
    _unusual = True
    _local.default = CPU if value is None else as_device(value)


def as_device(value: Any) -> device:
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
    if hasattr(array, "level"):  # a payload, which is where its memory is
        return getattr(array, "place", None) or of(array.memory())
    inner = getattr(array, "device", None)
    if isinstance(inner, device):
        return inner
    return device("cuda", int(inner.id)) if inner is not None else CPU


def array_module(place: device) -> Any:
    """Return the module (NumPy or CuPy) that makes arrays on `place`."""
    if place.type == "cpu":
        return np
    if place.type == "cuda":
        return _cupy()
    if place.type == "meta":
        return _meta().arrays
    raise NotImplementedError(f"tensors cannot be made on device '{place}': adjoint computes on cpu and cuda")


def _meta() -> Any:
    from ..payloads import meta  # only programs that ask for tensors without values need it

    return meta


def module_of(array: Any) -> Any:
    """Return the module (NumPy or CuPy) whose arrays `array` is one of."""
    found = _module_of.get(type(array))
    if found is None:
        if hasattr(array, "level"):  # a payload: what is made for it must lie where its memory does
            return _cupy() if of(array).type == "cuda" else np
        name = type(array).__module__.partition(".")[0]
        found = _cupy() if name == "cupy" else np
    return found


held: set[type] = {np.ndarray}  # the classes of arrays that tensors hold as they are
# An entry for each program that is being captured: arrays are known by who lives, so none of a GPU is used again then.
captures: list[None] = []


def adopt(value: Any) -> Any:
    """Return an array as tensors hold it: CuPy's as one of our own class."""
    gpu = gpus.get(type(value))
    return value if gpu is None else gpu.arrays.adopt(value)


def ones_like(array: Any) -> Any:
    """Return ones in the shape and dtype of an array, where that one is."""
    gpu = gpus.get(type(array))
    return np.ones(array.shape, array.dtype) if gpu is None else gpu.elementwise.ones_like(array)


def _cupy() -> Any:
    try:
        # Only programs that ask for a GPU pay for this import.
        import cupy  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise NoGPUError(
            "Torch not compiled with CUDA enabled: adjoint runs on a GPU through CuPy, which is not installed here; "
            "pip install adjoint[cuda]"
        ) from error
    if cupy.ndarray not in _module_of:
        from ..devices import cuda as gpu
        from ..devices.cuda import (  # imports CuPy, so not before a GPU is asked for  # noqa: F401
            arrays,
            attached,
            copies,
            elementwise,
            epilogues,
            gathering,
            memory,
            products,
            reductions,
            rows,
            scans,
            selection,
            table,
        )

        gpus[arrays.Array] = gpus[cupy.ndarray] = gpu
        _module_of[cupy.ndarray] = _module_of[arrays.Array] = cupy
        held.add(arrays.Array)
        products.install()
        memory.watch()
    return cupy


def place_array(array: Any, place: device) -> Any:
    """Return `array` on `place`, copied only when it lies elsewhere."""
    here = of(array)
    if place.type == here.type and (place.index is None or place.index == here.index or place.type == "cpu"):
        return array
    if place.type == "meta":
        return _meta().Meta.like(array)
    if here.type == "meta":
        return array.concrete("to()")
    if place.type == "cpu":
        return array.get() if hasattr(array, "get") else np.asarray(array)
    cupy = array_module(place)
    if hasattr(array, "moved"):  # a batch, drawn on the host
        return array.moved(place)
    with cupy.cuda.Device(place.index or 0):
        return cupy.asarray(array)
