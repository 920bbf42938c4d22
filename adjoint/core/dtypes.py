"""The dtype objects, their NumPy counterparts, and the rules that choose a result's dtype."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .._typing import DType

# One rank per category: a 0-d tensor or a Python number raises a result's dtype only from a lower
# category to a higher one, never inside a category.
_BOOL, _INT, _FLOAT, _COMPLEX = range(4)


class dtype:
    """A data type, with torch's name and a NumPy dtype behind it.

    Examples
    --------
    >>> adjoint.float32
    adjoint.float32
    >>> adjoint.float32.itemsize, adjoint.float32.is_floating_point
    (4, True)
    """

    __module__ = "adjoint"

    __slots__ = ("category", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "np", "title")

    name: str
    title: str  # torch's name of the type in error messages and tensor types
    np: Any
    category: int
    is_complex: bool
    is_floating_point: bool
    is_signed: bool
    itemsize: int

    def __new__(cls) -> dtype:
        """Refuse: the dtypes are those below."""
        raise TypeError("cannot create 'adjoint.dtype' instances; write adjoint.float32, for instance")

    def to_complex(self) -> dtype:
        """Return the complex type whose parts have at least this precision."""
        found = _TO_COMPLEX.get(self)
        if found is None:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.title}: only floating types have one")
        return found

    def to_real(self) -> dtype:
        """Return the real type of this type's parts."""
        return _TO_REAL.get(self, self)

    def __repr__(self) -> str:
        return f"adjoint.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self.name,))

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> dtype:
        return self


def _make(name: str, title: str, np_dtype: Any, category: int) -> dtype:
    made: dtype = object.__new__(dtype)
    made.name, made.title, made.category = name, title, category
    made.np = np.dtype(np_dtype)
    made.itemsize = made.np.itemsize
    made.is_floating_point = category == _FLOAT
    made.is_complex = category == _COMPLEX
    made.is_signed = (category >= _FLOAT and name != "float8_e8m0fnu") or name.startswith("int")
    return made


bool_ = _make("bool", "Bool", np.bool_, _BOOL)
uint8 = _make("uint8", "Byte", np.uint8, _INT)
int8 = _make("int8", "Char", np.int8, _INT)
int16 = _make("int16", "Short", np.int16, _INT)
int32 = _make("int32", "Int", np.int32, _INT)
int64 = _make("int64", "Long", np.int64, _INT)
uint16 = _make("uint16", "UInt16", np.uint16, _INT)
uint32 = _make("uint32", "UInt32", np.uint32, _INT)
uint64 = _make("uint64", "UInt64", np.uint64, _INT)
float16 = _make("float16", "Half", np.float16, _FLOAT)
bfloat16 = _make("bfloat16", "BFloat16", ml_dtypes.bfloat16, _FLOAT)
float32 = _make("float32", "Float", np.float32, _FLOAT)
float64 = _make("float64", "Double", np.float64, _FLOAT)
complex64 = _make("complex64", "ComplexFloat", np.complex64, _COMPLEX)
complex128 = _make("complex128", "ComplexDouble", np.complex128, _COMPLEX)

# Types for storage: torch does not promote them, and only a small number of ops accepts them.
float8_e4m3fn = _make("float8_e4m3fn", "Float8_e4m3fn", ml_dtypes.float8_e4m3fn, _FLOAT)
float8_e4m3fnuz = _make("float8_e4m3fnuz", "Float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, _FLOAT)
float8_e5m2 = _make("float8_e5m2", "Float8_e5m2", ml_dtypes.float8_e5m2, _FLOAT)
float8_e5m2fnuz = _make("float8_e5m2fnuz", "Float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, _FLOAT)


class _Unmade(dtype):
    """A data type that programs name, and that no array has: using it says so."""

    __slots__ = ()

    @property
    def np(self) -> Any:
        raise NotImplementedError(f"tensors of {self} cannot be made: NumPy has no such type")


def _named(name: str, title: str, category: int, itemsize: int) -> dtype:
    made: Any = object.__new__(_Unmade)
    made.name, made.title, made.category, made.itemsize = name, title, category, itemsize
    made.is_floating_point, made.is_complex = False, category == _COMPLEX
    made.is_signed = not name.startswith("q") or name.startswith("qint")
    return made  # type: ignore[no-any-return]


complex32 = chalf = _named("complex32", "ComplexHalf", _COMPLEX, 4)
qint8, quint8 = _named("qint8", "QInt8", _INT, 1), _named("quint8", "QUInt8", _INT, 1)
qint32, quint4x2 = _named("qint32", "QInt32", _INT, 4), _named("quint4x2", "QUInt4x2", _INT, 1)
quint2x4 = _named("quint2x4", "QUInt2x4", _INT, 1)

ALL = (bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64,
       float16, bfloat16, float32, float64, complex64, complex128)  # fmt: skip
STORED = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz)
_BY_NAME = {d.name: d for d in (*ALL, *STORED, complex32, qint8, quint8, qint32, quint4x2, quint2x4)}
_BY_NUMPY = {d.np: d for d in (*ALL, *STORED)}
# torch has complex32 for float16; NumPy has nothing narrower than complex64.
_TO_COMPLEX = {
    float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128,
    complex64: complex64, complex128: complex128,
}  # fmt: skip
_TO_REAL = {complex64: float32, complex128: float64}
_PYTHON_TYPES: dict[Any, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


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
            f"can't convert np.ndarray of type {np_dtype}. The only supported types are: "
            + ", ".join(d.name for d in ALL)
        ) from None


def as_dtype(value: object) -> dtype:
    """Return the dtype that a user's ``dtype=`` argument names."""
    if type(value) is dtype:
        return value
    found = _PYTHON_TYPES.get(value) if isinstance(value, type) else None
    if found is None:
        if isinstance(value, _Unmade):
            value.np  # noqa: B018  (which says why not)
        raise TypeError(
            f"argument 'dtype' must be adjoint.dtype, not {type(value).__name__}; write adjoint.float32, for instance"
        )
    return found


class _Default:
    """The default floating dtype, held in one place that can be assigned."""

    dtype = float32
    complex = complex64


def default() -> dtype:
    """Return the dtype that Python floats become."""
    return _Default.dtype


def set_default(value: object) -> None:
    """Set the dtype that Python floats become."""
    if type(value) is not dtype or not value.is_floating_point or value in STORED:
        raise TypeError(
            f"only floating-point types are supported as the default type, not {value!r}; write adjoint.float64, "
            "for instance"
        )
    _Default.dtype = value
    _Default.complex = value.to_complex()


# Within the integers the wider signed type wins, except that uint8 with a signed type of its width needs
# the next one; the wider unsigned types promote with floats only. The floats form a chain
# but for float16 and bfloat16, which meet in float32.
_WIDE_UNSIGNED = (uint16, uint32, uint64)


def _promote_integers(a: dtype, b: dtype) -> dtype:
    if a.is_signed != b.is_signed and a.itemsize == b.itemsize:
        return int16
    return a if a.itemsize > b.itemsize else b


def _promote_floats(a: dtype, b: dtype) -> dtype:
    if a.itemsize == b.itemsize:
        return float32
    return a if a.itemsize > b.itemsize else b


def _refuse_promotion(a: dtype, b: dtype) -> None:
    for kinds, names in ((STORED, "Float8 Types"), (_WIDE_UNSIGNED, "uint16, uint32, uint64 types")):
        if a in kinds or b in kinds:
            raise RuntimeError(
                f"Promotion for {names} is not supported, attempted to promote {a.title} and {b.title}; convert one "
                "operand first"
            )


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    low, high = (a, b) if a.category <= b.category else (b, a)
    if high.category != _FLOAT or a in STORED or b in STORED:
        _refuse_promotion(a, b)
    if low.category != high.category:
        return complex128 if high.category == _COMPLEX and low is float64 else high
    if high.category == _INT:
        return _promote_integers(a, b)
    return _promote_floats(a, b) if high.category == _FLOAT else complex128


_TABLE: dict[tuple[dtype, dtype], dtype] = {}


def promote_types(type1: Any, type2: Any) -> dtype:
    """Return the smallest dtype that both arguments convert to.

    Examples
    --------
    >>> adjoint.promote_types(adjoint.int32, adjoint.float16)
    adjoint.float16
    """
    try:
        found = _TABLE.get((type1, type2))
    except TypeError:  # something without a hash; `as_dtype` names it
        found = None
    if found is None:
        a, b = as_dtype(type1), as_dtype(type2)
        found = _TABLE[(a, b)] = _promote(a, b)
    return found


def of_number(value: object) -> dtype:
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
            if level.is_complex:  # with the precision of the tensor, if it has one
                chosen = chosen.to_complex() if chosen.is_floating_point else level
            else:
                chosen = promote_types(chosen, level)
    assert chosen is not None
    return chosen


def floating(np_dtype: DType) -> DType:
    """Return the NumPy dtype in which an op that makes floats computes on `np_dtype`."""
    return np_dtype if of(np_dtype).category >= _FLOAT else _Default.dtype.np


def can_cast(source: object, target: object) -> bool:
    """Return whether an op's result of dtype `source` may be stored as `target`."""
    a, b = as_dtype(source), as_dtype(target)
    return a.category <= b.category and not (b.category == _BOOL and a.category > _BOOL)


class finfo:
    """Limits of a floating-point dtype.

    Attributes are ``bits``, ``eps`` (the distance from 1 to the next larger number), ``max``, ``min`` (``-max``),
    ``tiny`` and ``smallest_normal`` (the smallest positive normal number), ``resolution`` and ``dtype``.

    Parameters
    ----------
    type : dtype, optional
        A floating-point or complex type, which has the limits of its parts; by default the default dtype.

    Raises
    ------
    TypeError
        If the type is an integer or boolean one; `iinfo` has the limits of integers.

    Examples
    --------
    >>> adjoint.finfo(adjoint.float32).eps
    1.1920928955078125e-07
    >>> adjoint.finfo(adjoint.float16).max
    65504.0
    """

    __module__ = "adjoint"

    def __init__(self, type: object = ...) -> None:
        if type is None:
            raise TypeError("finfo(): argument 'type' (position 1) must be torch.dtype, not NoneType")
        chosen = default() if type is ... else as_dtype(type)
        if chosen.category < _FLOAT:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{chosen}'")
        info: Any = ml_dtypes.finfo(chosen.to_real().np)  # type: ignore[no-untyped-call]
        self.dtype = chosen.to_real().name
        self.bits = int(info.bits)
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        # The decimal digits that always survive; NumPy's figure is rounded to the type itself.
        self.resolution = float(f"1e-{math.floor((info.nmant) * math.log10(2))}")

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype.

    Examples
    --------
    >>> adjoint.iinfo(adjoint.int8).max
    127
    """

    __module__ = "adjoint"

    def __init__(self, type: object) -> None:
        chosen = as_dtype(type)
        if chosen.category == _BOOL:
            raise TypeError("adjoint.bool is not supported by adjoint.iinfo")
        if chosen.category != _INT:
            raise TypeError(f"adjoint.iinfo() requires an integer input type. Use adjoint.finfo to handle '{chosen}'")
        info = np.iinfo(chosen.np)
        self.dtype = chosen.name
        self.bits = int(info.bits)
        self.max = int(info.max)
        self.min = int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)
