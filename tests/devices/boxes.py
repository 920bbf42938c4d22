"""A device made of boxes: NumPy's memory behind an array class of its own. docs/extending/device.md walks through it.

A `Box` is no `ndarray` and turns into none: it speaks NumPy's words by `__array_ufunc__` and `__array_function__`, and
refuses arrays of the CPU beside it: an op that reaches for NumPy's memory, or makes an array on another device, fails.
"""

# --8<-- [start:imports]
from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adjoint.devices.contract import Device, register

# --8<-- [end:imports]

__all__ = ["Box", "Boxes", "boxes"]


# --8<-- [start:array]
class Box:
    """An array: it holds NumPy's, which only `Boxes.to_host` gives away."""

    __slots__ = ("__weakref__", "base", "inner")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, inner: np.ndarray, base: Box | None = None) -> None:
        self.inner, self.base = inner, base

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("a Box does not become a NumPy array unless it is moved: use to_host")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not kwargs:
            return _called(operator.matmul, *inputs)
        return _called(getattr(ufunc, method), *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _called(function, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute or method of the array inside, results in boxes: `shape`, `sum`, `T`, ..."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.inner, name)
        if not callable(found):
            return _boxed(found, [self]) if isinstance(found, np.ndarray) else found
        if name in ("item", "tolist"):
            return found
        return lambda *args, **kwargs: _called(lambda box, *a, **k: getattr(box, name)(*a, **k), self, *args, **kwargs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.inner.shape

    @property
    def flags(self) -> Any:
        """The flags of the memory layout."""
        return self.inner.flags

    def __getitem__(self, key: Any) -> Any:
        return _called(operator.getitem, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.inner[_inside(key)] = _inside(value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return len(self.inner)

    def __repr__(self) -> str:
        return f"Box({self.inner!r})"


# --8<-- [end:array]


# --8<-- [start:conversion]
def _put_operators() -> None:
    """Give boxes Python's operators, those that write in place, and conversions of a single element."""
    two = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split()
    for name in two:
        plain, word = getattr(operator, name), name.rstrip("_")
        setattr(Box, f"__{word}__", lambda self, other, f=plain: _operated(f, self, other))
        setattr(Box, f"__r{word}__", lambda self, other, f=plain: _operated(f, other, self))
        setattr(Box, f"__i{word}__", _writing(getattr(operator, f"i{word}")))
    for name in "lt le eq ne gt ge".split():
        setattr(Box, f"__{name}__", lambda self, other, f=getattr(operator, name): _operated(f, self, other))
    for name in "neg pos invert abs".split():
        setattr(Box, f"__{name}__", lambda self, f=getattr(operator, name): _called(f, self))
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("complex", complex), ("index", operator.index)):
        setattr(Box, f"__{name}__", lambda self, kind=kind: kind(self.inner))


def _operated(function: Callable[..., Any], x: Any, y: Any) -> Any:
    """Return what an operator gives; Tensors and payloads have operators of their own, which Python tries next."""
    for v in (x, y):
        if not isinstance(v, Box | np.ndarray | np.generic | bool | int | float | complex):
            return NotImplemented
    return _called(function, x, y)


def _writing(function: Callable[..., Any]) -> Callable[[Box, Any], Box]:
    def write(self: Box, other: Any) -> Box:
        function(self.inner, _inside(other))
        return self

    return write


def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of NumPy's on what boxes hold, and put what it gives into boxes."""
    found: list[Box] = []
    return _boxed(function(*_inside(args, found), **_inside(kwargs, found)), found)


def _inside(value: Any, found: list[Box] | None = None) -> Any:
    """Return a value with the arrays inside of boxes instead of them, which are added to `found`."""
    if isinstance(value, Box):
        if found is not None:
            found.append(value)
        return value.inner
    if isinstance(value, np.ndarray):
        raise TypeError(f"an array {value.dtype}{list(value.shape)} of the CPU beside a Box: move it first")
    if type(value) in (tuple, list):
        return type(value)(_inside(v, found) for v in value)
    if type(value) is dict:
        return {k: _inside(v, found) for k, v in value.items()}
    return value


def _boxed(value: Any, sources: list[Box]) -> Any:
    """Return a result in boxes: one that was written to as itself, a view with the box whose memory it looks at."""
    if isinstance(value, np.generic):
        return Box(np.asarray(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # of linalg
        return type(value)(*[_boxed(v, sources) for v in value])
    if type(value) in (tuple, list):
        return type(value)(_boxed(v, sources) for v in value)
    if not isinstance(value, np.ndarray):
        return value
    for box in sources:
        if value is box.inner:
            return box
        if value.base is not None and value.size and np.may_share_memory(value, box.inner):
            return Box(value, box if box.base is None else box.base)
    return Box(value)


_put_operators()
# --8<-- [end:conversion]


# --8<-- [start:module]
class Words:
    """The array module: NumPy's functions, whose results are boxes."""

    ndarray = Box

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, type(np)):
            return Words(found)
        if isinstance(found, type | np.ufunc) or not callable(found):
            return found
        return lambda *args, **kwargs: _called(found, *args, **kwargs)

    def asarray(self, value: Any, dtype: Any = None, **kwargs: Any) -> Box:
        """Return an array of the CPU, or scalars, as a box: a copy. A box stays what it is."""
        if isinstance(value, Box):
            return value if dtype is None or value.dtype == dtype else value.astype(dtype)
        return Box(np.array(value, dtype))

    def array(self, value: Any, dtype: Any = None, **kwargs: Any) -> Box:
        """Return a copy."""
        return Box(np.array(value.inner if isinstance(value, Box) else value, dtype))


# --8<-- [end:module]


# --8<-- [start:device]
class Boxes(Device):
    """The device: a name, a class, a module, and copies; all else is what the contract says without them."""

    name = "privateuseone"
    classes = (Box,)
    module = Words(np)

    def from_host(self, array: Any, index: int | None = None) -> Box:
        """Return a copy in a box."""
        return self.module.asarray(array)

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy of what a box holds."""
        return array.inner.copy(order="K")

    def address_of(self, array: Any) -> int:
        """Return the address of the first element."""
        return int(array.inner.__array_interface__["data"][0])

    def as_strided(self, array: Any, shape: Any, strides: Any, offset: int) -> Box:
        """Return a view with any strides of the memory that an array looks at."""
        owner = array if array.base is None else array.base
        start = self.address_of(array) - self.address_of(owner) + offset
        memory = owner.inner.ravel(order="K").view(np.uint8)
        return Box(np.ndarray(shape, array.dtype, memory, start, strides), owner)


boxes = register(Boxes())
# --8<-- [end:device]
