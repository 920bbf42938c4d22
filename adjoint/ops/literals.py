"""Python values as arrays: the dtype that torch infers, the shape of nested sequences, what is refused."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._typing import Array, DType, Value
from ..core import device as devices
from ..core import dtypes
from ..core.dtypes import default, promote_types
from ..core.observation import note_read
from ..core.payload import Payload
from ..core.tensor import TensorBase
from ..core.tensor import depth_outside as depth_outside

_NUMBERS = frozenset((bool, int, float, complex))


def array_from(data: Any, dtype: dtypes.dtype | None, copy: bool) -> Any:
    """Return `data` as an array of `dtype`, or of the dtype torch would infer."""
    kind = type(data)
    if kind in _NUMBERS:
        return number_as(data, of_python(kind) if dtype is None else dtype, lenient=True)
    if isinstance(data, TensorBase):
        data = data.array
    if isinstance(data, Payload):
        return data
    if isinstance(data, np.ndarray) or hasattr(data, "__cuda_array_interface__"):
        return _from_array(data, dtype, copy)
    if isinstance(data, np.generic):
        return np.array(data, (dtypes.of(data.dtype) if dtype is None else dtype).np)
    if isinstance(data, list | tuple):
        return _from_sequence(data, dtype)
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    if isinstance(data, bool | int | float | complex):  # subclasses of numbers, such as an IntEnum
        return number_as(data, dtypes.of_number(data) if dtype is None else dtype, lenient=True)
    if hasattr(data, "__array__"):
        return _from_array(np.asarray(data), dtype, copy)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "keys"):
        return _from_sequence(list(data), dtype)
    raise _unknown(data, dtype)


def of_python(kind: type) -> dtypes.dtype:
    """Return the dtype that numbers of a Python type become."""
    if kind is float:
        return default()
    if kind is int:
        return dtypes.int64
    return dtypes.bool_ if kind is bool else default().to_complex()


def _unknown(data: object, dtype: dtypes.dtype | None) -> Exception:
    kind = type(data).__name__
    if dtype is None:
        return RuntimeError(f"Could not infer dtype of {kind}; expected numbers, sequences of them, or an array")
    return TypeError(f"must be real number, not {kind}")


def _from_array(array: Any, dtype: dtypes.dtype | None, copy: bool) -> Any:
    check_array(array)
    wanted = dtypes.of(array.dtype).np if dtype is None else dtype.np
    if array.dtype.kind == "c" and wanted.kind != "c":
        array = array.real
    if array.dtype == wanted:
        return array.copy(order="K") if copy else array
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(wanted)


def check_array(array: Any) -> None:
    """Raise where torch refuses to look at a NumPy array."""
    dtypes.of(array.dtype)
    if array.flags.c_contiguous and array.dtype.isnative:
        return
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if any(s % array.itemsize for s in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the "
            "memory."
        )
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported."
        )


# --- One number -------------------------------------------------------------------------------------


def number_as(value: Any, dtype: dtypes.dtype, *, lenient: bool = False) -> Array:
    """Return a number as a 0-d array, refusing what does not fit; `lenient` lets floats overflow to inf."""
    category = dtype.category
    if category == 1:
        return np.array(_integer_in(value, dtype), dtype.np)
    if category == 0:
        return np.array(bool(value))
    if category == 2:
        if isinstance(value, complex):
            if lenient:
                raise TypeError("must be real number, not complex")
            if value.imag:
                raise _overflow(dtype)
            value = value.real
        try:
            value = float(value)
        except OverflowError:
            raise _overflow(dtype) from None
        if not lenient and math.isfinite(value) and abs(value) > _LARGEST.get(dtype, math.inf):
            raise _overflow(dtype)
        if abs(value) <= 65504 or dtype is dtypes.float64:
            return np.array(value, dtype.np)
    with np.errstate(over="ignore"):
        return np.array(value, dtype.np)


def check_fits(value: object, dtype: dtypes.dtype) -> None:
    """Raise RuntimeError for a Python scalar that would be another number in the dtype of what it is written into."""
    if type(value) is int and (dtype.category != 1 or -128 < value < 127):
        return
    if isinstance(value, int | float) and not isinstance(value, bool | np.generic):
        try:
            number_as(value, dtype)
        except ValueError:
            raise _overflow(dtype) from None


_LARGEST = {
    d: float(dtypes.finfo(d).max) for d in (dtypes.float16, dtypes.bfloat16, dtypes.float32)
}  # fmt: skip


def _overflow(dtype: dtypes.dtype) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


def _integer_in(value: Any, dtype: dtypes.dtype) -> int:
    if isinstance(value, complex):
        if value.imag:
            raise TypeError("must be real number, not complex")
        value = value.real
    if isinstance(value, float) and not math.isfinite(value):
        raise _overflow(dtype)
    number = int(value)
    info = np.iinfo(dtype.np)
    if info.min <= number <= info.max:
        return number
    if number < 0 and not dtype.is_signed and -number <= info.max:
        return number & int(info.max)
    if dtype is dtypes.int64:
        raise ValueError("Overflow when unpacking long long: the integer does not fit into 64 bits")
    raise _overflow(dtype)


# --- Nested sequences -------------------------------------------------------------------------------


def _leaf_kinds(data: Sequence[Any], kinds: set[type]) -> None:
    """Add the types of all innermost elements to `kinds`."""
    here = set(map(type, data))
    inner = here - _NUMBERS
    kinds |= here - {list, tuple}
    if inner & {list, tuple}:
        for item in data:
            if type(item) is list or type(item) is tuple:
                _leaf_kinds(item, kinds)


def _from_sequence(data: Sequence[Any], dtype: dtypes.dtype | None) -> Value:
    kinds: set[type] = set()
    _leaf_kinds(data, kinds)
    if kinds <= _NUMBERS:
        found = dtype or _of_kinds(kinds)
        return _filled_from(data, found)
    return _from_mixed(data, dtype)


def _of_kinds(kinds: set[type]) -> dtypes.dtype:
    for kind in (complex, float, int, bool):
        if kind in kinds:
            return of_python(kind)
    return default()


def _filled_from(data: object, dtype: dtypes.dtype) -> Value:
    """Return nested lists of Python numbers as an array."""
    try:
        found = np.array(data)
    except (ValueError, OverflowError) as error:
        raise _ragged(data) or error from None
    if found.dtype == object:  # integers beyond 64 bits
        if dtype.category == 1:
            raise ValueError("Overflow when unpacking long long: an integer does not fit into 64 bits")
        found = found.astype(np.complex128 if dtype.category == 3 else np.float64)
    if found.dtype == dtype.np:
        return found
    if dtype.category == 2 and found.dtype.kind == "f":
        return narrowed(found, dtype.np)
    if found.dtype.kind == "c" and dtype.category < 3:
        raise TypeError("must be real number, not complex")
    if dtype.category == 1 and found.size:
        _check_integers(found, dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        return found.astype(dtype.np)


def narrowed(array: Array, dtype: DType) -> Array:
    """Return floats as narrower ones, too large ones as inf."""
    # Setting NumPy's error state costs more than a small conversion. adjoint's filter hides the warning;
    # if the program has turned warnings into errors, the conversion is done again.
    try:
        return array.astype(dtype)
    except RuntimeWarning:
        with np.errstate(over="ignore"):
            return array.astype(dtype)


def _check_integers(found: Any, dtype: dtypes.dtype) -> None:
    for extreme in (found.min(), found.max()):
        _integer_in(extreme.item(), dtype)


def _ragged(data: object) -> Exception | None:
    """Return torch's error for sequences that have no common shape."""
    shape, first = [], data
    while isinstance(first, list | tuple):
        shape.append(len(first))
        if not first:
            break
        first = first[0]

    def check(item: Any, depth: int) -> Exception | None:
        if depth == len(shape):
            if isinstance(item, list | tuple):
                return TypeError(f"'{type(item).__name__}' object cannot be interpreted as a number")
            return None
        if not isinstance(item, list | tuple):
            return TypeError(f"not a sequence: {item!r:.40} stands where others are sequences")
        if len(item) != shape[depth]:
            return ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(item)})")
        return next((e for e in (check(i, depth + 1) for i in item) if e is not None), None)

    return check(data, 0)


def _from_mixed(data: object, dtype: dtypes.dtype | None) -> Value:
    """Return nested sequences that hold tensors, arrays or NumPy scalars among numbers."""
    met: dtypes.dtype | None = None
    arrays = False

    def note(found: dtypes.dtype) -> None:
        nonlocal met
        met = found if met is None else promote_types(met, found)

    def plain(item: Any, first: bool) -> Any:
        nonlocal arrays
        kind = type(item)
        if kind in _NUMBERS:
            note(of_python(kind))
            return item
        if kind is list or kind is tuple:
            return [plain(i, first and n == 0) for n, i in enumerate(item)]
        if isinstance(item, TensorBase):
            note(dtypes.of(item.array.dtype))
            note_read("tolist()", item)
            array: Any = item.array
            if isinstance(array, Payload) and array.level:
                array = cast(Any, array)
                return array.item() if not array.ndim else array.tolist()
            return devices.place_array(array, devices.CPU).tolist()
        if isinstance(item, np.generic | np.ndarray):
            arrays = arrays or isinstance(item, np.ndarray)
            note(dtypes.of(item.dtype))
            return item.tolist()
        if isinstance(item, bool | int | float | complex):
            note(dtypes.of_number(item))
            return item
        if isinstance(item, str):
            raise ValueError("too many dimensions 'str'") if first else TypeError("new(): invalid data type 'str'")
        if hasattr(item, "__array__"):
            return plain(np.asarray(item), first)
        if hasattr(item, "__getitem__") and hasattr(item, "__len__") and not hasattr(item, "keys"):
            return [plain(i, first and n == 0) for n, i in enumerate(item)]
        raise _unknown(item, dtype)

    stripped = plain(data, True)
    if arrays:
        warnings.warn(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the "
            "list to a "
            "single numpy.ndarray with numpy.array() before converting to a tensor.",
            UserWarning,
            stacklevel=depth_outside(),
        )
    return _filled_from(stripped, dtype or met or default())


def scalar_of(value: Any, name: str, op: str) -> Any:
    """Return a number given as such or as a one-element tensor."""
    if isinstance(value, TensorBase):
        if value.array.ndim:
            raise TypeError(f"{op}(): argument '{name}' must be Number, not Tensor")
        note_read("item()", value)
        return value.array.item()
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, bool | int | float | complex):
        try:
            return operator.index(value)
        except TypeError:
            raise TypeError(f"{op}(): argument '{name}' must be Number, not {type(value).__name__}") from None
    return value


def real_of(value: object, name: str, op: str) -> Any:
    """Return a real number given as such or as a tensor without dimensions."""
    number = scalar_of(value, name, op)
    if isinstance(number, complex):
        raise RuntimeError(f"value cannot be converted to type float without overflow: {op}({name}={number})")
    return number
