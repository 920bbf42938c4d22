"""Tuples of dtypes by kind, as parametrized tests name them."""

from __future__ import annotations

from typing import Any

from ...core import dtypes
from ...core.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

Dtypes = tuple[dtypes.dtype, ...]

float_to_corresponding_complex_type_map = {float32: complex64, float64: complex128}


class _dispatch_dtypes(tuple[Any, ...]):
    """Dtypes of some kinds: another tuple can be added, and the sum is one of these."""

    def __add__(self, other: Any) -> _dispatch_dtypes:
        assert isinstance(other, tuple)
        return _dispatch_dtypes(tuple.__add__(self, other))


def _validate_dtypes(*dtypes: Any) -> Dtypes:
    """Return the arguments, all of which are dtypes."""
    return _joined(dtypes)


def _joined(*groups: Any) -> Dtypes:
    """Return dtypes of several groups, none of them twice."""
    found: list[dtypes.dtype] = []
    for group in groups:
        for d in group:
            if not isinstance(d, dtypes.dtype):
                raise TypeError(f"expected a dtype, not {d!r}")
            if d not in found:
                found.append(d)
    return _dispatch_dtypes(found)


_floating = _dispatch_dtypes((float32, float64))
_complex = _dispatch_dtypes((complex64, complex128))
_integral = _dispatch_dtypes((uint8, int8, int16, int32, int64))
_float8 = _dispatch_dtypes((float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz))


def empty_types() -> Dtypes:
    """Return no dtypes."""
    return _dispatch_dtypes()


def floating_types() -> Dtypes:
    """Return single and double precision."""
    return _floating


def floating_types_and(*dtypes: Any) -> Dtypes:
    """Return single and double precision, and others."""
    return _joined(_floating, dtypes)


def floating_types_and_half() -> Dtypes:
    """Return half, single and double precision."""
    return _joined(_floating, (float16,))


def floating_and_complex_types() -> Dtypes:
    """Return real and complex floating types."""
    return _joined(_floating, _complex)


def floating_and_complex_types_and(*dtypes: Any) -> Dtypes:
    """Return real and complex floating types, and others."""
    return _joined(_floating, _complex, dtypes)


def double_types() -> Dtypes:
    """Return double precision, real and complex."""
    return _dispatch_dtypes((float64, complex128))


def complex_types() -> Dtypes:
    """Return complex types."""
    return _complex


def complex_types_and(*dtypes: Any) -> Dtypes:
    """Return complex types, and others."""
    return _joined(_complex, dtypes)


def integral_types() -> Dtypes:
    """Return integer types."""
    return _integral


def integral_types_and(*dtypes: Any) -> Dtypes:
    """Return integer types, and others."""
    return _joined(_integral, dtypes)


def all_types() -> Dtypes:
    """Return real floating and integer types."""
    return _joined(_floating, _integral)


def all_types_and(*dtypes: Any) -> Dtypes:
    """Return real floating and integer types, and others."""
    return _joined(_floating, _integral, dtypes)


def all_types_and_half() -> Dtypes:
    """Return real floating types, half precision and integer types."""
    return _joined(_floating, _integral, (float16,))


def all_types_and_complex() -> Dtypes:
    """Return floating, integer and complex types."""
    return _joined(_floating, _integral, _complex)


def all_types_and_complex_and(*dtypes: Any) -> Dtypes:
    """Return floating, integer and complex types, and others."""
    return _joined(_floating, _integral, _complex, dtypes)


def float8_types() -> Dtypes:
    """Return floating types of eight bits."""
    return _float8


def float8_types_and(*dtypes: Any) -> Dtypes:
    """Return floating types of eight bits, and others."""
    return _joined(_float8, dtypes)


def all_types_complex_float8_and(*dtypes: Any) -> Dtypes:
    """Return all of floating, integer and complex types, those of eight bits too, and others."""
    return _joined(_floating, _integral, _complex, _float8, dtypes)


def all_mps_types() -> Dtypes:
    """Return the dtypes that Apple's GPUs compute in."""
    return _joined((float32, float16, bfloat16), _integral)


def all_mps_types_and(*dtypes: Any) -> Dtypes:
    """Return the dtypes that Apple's GPUs compute in, and others."""
    return _joined(all_mps_types(), dtypes)


def custom_types(*dtypes: Any) -> Dtypes:
    """Return the dtypes that are given."""
    return _joined(dtypes)


def get_all_dtypes(
    include_half: bool = True,
    include_bfloat16: bool = True,
    include_bool: bool = True,
    include_complex: bool = True,
    include_complex32: bool = False,
    include_qint: bool = False,
) -> list[dtypes.dtype]:
    """Return all dtypes but those that are left out."""
    found = [*get_all_int_dtypes(), *get_all_fp_dtypes(include_half, include_bfloat16)]
    if include_bool:
        found.append(dtypes.bool_)
    return [*found, *get_all_complex_dtypes()] if include_complex else found


def get_all_math_dtypes(device: Any) -> list[dtypes.dtype]:
    """Return the dtypes that arithmetic is done in on a device."""
    half = str(device).startswith("cuda")
    return [*get_all_int_dtypes(), *get_all_fp_dtypes(include_half=half, include_bfloat16=False), *_complex]


def get_all_complex_dtypes(include_complex32: bool = False) -> list[dtypes.dtype]:
    """Return complex types."""
    return list(_complex)


def get_all_int_dtypes() -> list[dtypes.dtype]:
    """Return integer types."""
    return list(_integral)


def get_all_fp_dtypes(include_half: bool = True, include_bfloat16: bool = True) -> list[dtypes.dtype]:
    """Return real floating types."""
    return [*_floating, *((float16,) if include_half else ()), *((bfloat16,) if include_bfloat16 else ())]


def get_all_qint_dtypes() -> list[dtypes.dtype]:
    """Return no dtypes: there are no quantized ones here."""
    return []


def highest_precision_float(device: Any) -> dtypes.dtype:
    """Return double precision."""
    return float64


def highest_precision_complex(device: Any) -> dtypes.dtype:
    """Return double precision, complex."""
    return complex128
