"""The dtype objects, their NumPy counterparts, and the rules that choose a result's dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

# One rank per category: a 0-d tensor or a Python number raises a result's dtype only from a lower
# category to a higher one, never inside a category.
_BOOL, _INT, _FLOAT, _COMPLEX = range(4)


class dtype:  # noqa: N801 - torch's name
    """A data type, with torch's name and a NumPy dtype behind it.

    Examples
    --------
    >>> adjoint.float32
    adjoint.float32
    >>> adjoint.float32.itemsize, adjoint.float32.is_floating_point
    (4, True)
    """

    __slots__ = ("category", "is_complex", "is_floating_point", "itemsize", "name", "np")

    def __init__(self, name: str, np_dtype: Any, category: int) -> None:
        self.name = name
        self.np = np.dtype(np_dtype)
        self.category = category
        self.is_floating_point = category == _FLOAT
        self.is_complex = category == _COMPLEX
        self.itemsize = self.np.itemsize

    @property
    def is_signed(self) -> bool:
        """Whether the type holds negative values."""
        return self.category >= _FLOAT or self.name.startswith("int")

    def to_complex(self) -> dtype:
        """Return the complex type whose parts have at least this precision."""
        return _TO_COMPLEX.get(self, complex64)

    def to_real(self) -> dtype:
        """Return the real type of this type's parts."""
        return _TO_REAL.get(self, self)

    def __repr__(self) -> str:
        return f"adjoint.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self.name,))

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self


bool_ = dtype("bool", np.bool_, _BOOL)
uint8 = dtype("uint8", np.uint8, _INT)
int8 = dtype("int8", np.int8, _INT)
int16 = dtype("int16", np.int16, _INT)
int32 = dtype("int32", np.int32, _INT)
int64 = dtype("int64", np.int64, _INT)
uint16 = dtype("uint16", np.uint16, _INT)
uint32 = dtype("uint32", np.uint32, _INT)
uint64 = dtype("uint64", np.uint64, _INT)
float16 = dtype("float16", np.float16, _FLOAT)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, _FLOAT)
float32 = dtype("float32", np.float32, _FLOAT)
float64 = dtype("float64", np.float64, _FLOAT)
complex64 = dtype("complex64", np.complex64, _COMPLEX)
complex128 = dtype("complex128", np.complex128, _COMPLEX)

ALL = (bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64,
       float16, bfloat16, float32, float64, complex64, complex128)  # fmt: skip
_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.np: d for d in ALL}
_TO_COMPLEX = {float32: complex64, float64: complex128, complex64: complex64, complex128: complex128}
_TO_REAL = {complex64: float32, complex128: float64}
_PYTHON_TYPES: dict[Any, dtype] = {bool: bool_, int: int64, float: float32, complex: complex64}


def _by_name(name: str) -> dtype:
    return _BY_NAME[name]


def of(np_dtype: Any) -> dtype:
    """Return the dtype object of a NumPy dtype."""
    try:
        return _BY_NUMPY[np_dtype]
    except (KeyError, TypeError):
        pass
    np_dtype = np.dtype(np_dtype)
    try:
        return _BY_NUMPY[np_dtype.newbyteorder("=")]
    except KeyError:
        raise TypeError(
            f"can't convert np.ndarray of type {np_dtype}. The supported types are: "
            + ", ".join(d.name for d in ALL)
        ) from None


def as_dtype(value: Any) -> dtype:
    """Return the dtype that a user's ``dtype=`` argument names."""
    if type(value) is dtype:
        return value
    if value is float:
        return default()
    if value is complex:
        return default().to_complex()
    if value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    raise TypeError(
        f"dtype must be an adjoint.dtype, not {type(value).__name__}; write adjoint.float32, for instance"
    )


class _Default:
    """The default floating dtype, held in one place that can be assigned."""

    dtype = float32
    complex = complex64


def default() -> dtype:
    """Return the dtype that Python floats become."""
    return _Default.dtype


def set_default(value: Any) -> None:
    """Set the dtype that Python floats become."""
    chosen = as_dtype(value)
    if not chosen.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, not {chosen}")
    _Default.dtype = chosen
    _Default.complex = chosen.to_complex()


# Within the integers the wider signed type wins, except that uint8 with a signed type of its width
# needs the next one; the floats form a chain but for float16 and bfloat16, which meet in float32.
_SIGNED = (int8, int16, int32, int64)
_UNSIGNED = (uint8, uint16, uint32, uint64)


def _promote_integers(a: dtype, b: dtype) -> dtype:
    if (a in _SIGNED) == (b in _SIGNED):
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a in _SIGNED else (b, a)
    if unsigned is uint8:
        return signed if signed.itemsize > 1 else int16
    raise RuntimeError(
        f"Promotion for {unsigned.name} and {signed.name} is not supported: convert one operand first"
    )


def _promote_floats(a: dtype, b: dtype) -> dtype:
    if a.itemsize == b.itemsize:
        return float32
    return a if a.itemsize > b.itemsize else b


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        if high.category == _COMPLEX and low is float64:
            return complex128
        return high
    if a.category == _INT:
        return _promote_integers(a, b)
    if a.category == _FLOAT:
        return _promote_floats(a, b)
    return complex128


_TABLE: dict[tuple[dtype, dtype], dtype] = {}


def promote_types(a: dtype, b: dtype) -> dtype:
    """Return the smallest dtype that both arguments convert to.

    Examples
    --------
    >>> adjoint.promote_types(adjoint.int32, adjoint.float16)
    adjoint.float16
    """
    found = _TABLE.get((a, b))
    if found is None:
        found = _TABLE[(a, b)] = _promote(a, b)
    return found


def of_number(value: Any) -> dtype:
    """Return the dtype that a Python number takes part in promotion with."""
    if isinstance(value, bool | np.bool_):
        return bool_
    if isinstance(value, int | np.integer):
        return int64
    if isinstance(value, float | np.floating):
        return _Default.dtype
    if isinstance(value, complex | np.complexfloating):
        return _Default.complex
    raise TypeError(f"expected a number, not {type(value).__name__}")


def result_of(operands: list[tuple[dtype, int]]) -> dtype:
    """Return the result dtype of operands given as (dtype, kind).

    ``kind`` is 2 for a tensor with dimensions, 1 for a 0-d tensor, 0 for a Python number. Lower kinds
    count only when their category is higher than that of the kinds above.
    """
    chosen: dtype | None = None
    for kind in (2, 1, 0):
        level: dtype | None = None
        for candidate, its_kind in operands:
            if its_kind == kind:
                level = candidate if level is None else promote_types(level, candidate)
        if level is None:
            continue
        if chosen is None:
            chosen = level
        elif level.category > chosen.category:
            chosen = promote_types(chosen, level)
    assert chosen is not None
    return chosen


def floating(np_dtype: Any) -> Any:
    """Return the NumPy dtype in which an op that makes floats computes on `np_dtype`."""
    return np_dtype if of(np_dtype).category >= _FLOAT else _Default.dtype.np


class finfo:  # noqa: N801 - torch's name
    """Limits of a floating-point dtype.

    Examples
    --------
    >>> adjoint.finfo(adjoint.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: dtype | None = None) -> None:  # noqa: A002 - torch's name
        chosen = default() if type is None else type
        if chosen.category < _FLOAT:
            raise TypeError(
                f"adjoint.finfo() requires a floating point input type. Use adjoint.iinfo to handle '{chosen}'"
            )
        info = ml_dtypes.finfo(chosen.to_real().np)
        self.dtype = chosen.to_real().name
        self.bits = int(info.bits)
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = float(info.resolution)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:  # noqa: N801 - torch's name
    """Limits of an integer dtype.

    Examples
    --------
    >>> adjoint.iinfo(adjoint.int8).max
    127
    """

    def __init__(self, type: dtype) -> None:  # noqa: A002 - torch's name
        if type.category != _INT:
            raise TypeError(
                f"adjoint.iinfo() requires an integer input type. Use adjoint.finfo to handle '{type}'"
            )
        info = np.iinfo(type.np)
        self.dtype = type.name
        self.bits = int(info.bits)
        self.max = int(info.max)
        self.min = int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)
