"""Where a tensor's memory is, and which array module computes there."""

from __future__ import annotations

from typing import Any

import numpy as np


class device:  # noqa: N801 - torch's name
    """A place for tensors: ``device("cpu")``, ``device("cuda", 0)``.

    Examples
    --------
    >>> adjoint.device("cuda:1")
    device(type='cuda', index=1)
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | int | device = "cpu", index: int | None = None) -> None:  # noqa: A002
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if isinstance(type, int):
            self.type, self.index = "cuda", type
            return
        name, _, number = type.partition(":")
        if name not in ("cpu", "cuda", "meta"):
            raise RuntimeError(
                f"Expected one of cpu, cuda, meta device type at start of device string: {type}"
            )
        if number:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {type}"
                )
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        self.type, self.index = name, index

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
        _stack.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _stack.pop()


CPU = device("cpu")
_stack: list[device] = [CPU]
_module_of: dict[Any, Any] = {np.ndarray: np}


def current() -> device:
    """Return the device on which factories make tensors."""
    return _stack[-1]


def set_current(value: Any) -> None:
    """Set the device on which factories make tensors."""
    _stack[-1] = CPU if value is None else as_device(value)


def as_device(value: Any) -> device:
    """Return the device that a user's ``device=`` argument names."""
    if value is None:
        return _stack[-1]
    if type(value) is device:
        return value
    if isinstance(value, str | int):
        return device(value)
    raise TypeError(f"device must be a string, an index or an adjoint.device, not {type(value).__name__}")


def of(array: Any) -> device:
    """Return the device that holds `array`."""
    if isinstance(array, np.ndarray):
        return CPU
    inner = getattr(array, "device", None)
    if isinstance(inner, device):
        return inner
    return device("cuda", int(inner.id)) if inner is not None else CPU


def array_module(place: device) -> Any:
    """Return the module (NumPy or CuPy) that makes arrays on `place`."""
    if place.type == "cuda":
        return _cupy()
    return np


def module_of(array: Any) -> Any:
    """Return the module (NumPy or CuPy) whose arrays `array` is one of."""
    found = _module_of.get(type(array))
    if found is None:
        name = type(array).__module__.partition(".")[0]
        found = _cupy() if name == "cupy" else np
    return found


def _cupy() -> Any:
    try:
        import cupy  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise RuntimeError(
            "CUDA is not available: adjoint runs on a GPU through CuPy, which is not installed here; "
            "pip install adjoint[cuda]"
        ) from error
    _module_of[cupy.ndarray] = cupy
    return cupy


def place_array(array: Any, place: device) -> Any:
    """Return `array` on `place`, copied only when it lies elsewhere."""
    here = of(array)
    if place.type == here.type and (place.index is None or place.index == here.index):
        return array
    if place.type == "cpu":
        return array.get() if hasattr(array, "get") else np.asarray(array)
    cupy = _cupy()
    with cupy.cuda.Device(place.index or 0):
        return cupy.asarray(array)
