"""Calls of elementwise operators: a row names one and makes its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from .drawing import COMPLEX, FLOATS, Array, Draw, F, Made, Name, Row, made


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


UNARY = words(
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac "
    "isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not neg positive rad2deg "
    "reciprocal relu round rsqrt sigmoid sign signbit sgn sin sinc sinh sqrt square tan tanh trunc i0 conj_physical "
    "angle real bitwise_not nan_to_num frexp special.entr special.erfcx special.i0e special.i1 special.i1e "
    "special.log_ndtr special.ndtr special.ndtri special.expit special.psi special.gammaln special.sinc "
    "special.bessel_j0 special.bessel_j1 nn.functional.relu6 nn.functional.selu nn.functional.silu nn.functional.mish "
    "nn.functional.softsign nn.functional.tanhshrink nn.functional.logsigmoid nn.functional.hardswish "
    "nn.functional.hardsigmoid nn.functional.hardtanh Tensor.clone Tensor.abs Tensor.__neg__ Tensor.__invert__"
)
BINARY = words(
    "add sub mul div true_divide pow atan2 fmod remainder floor_divide maximum minimum fmax fmin hypot copysign xlogy "
    "logaddexp logaddexp2 nextafter ldexp heaviside gcd lcm bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge "
    "logical_and logical_or logical_xor float_power rsub special.xlog1py special.zeta isclose special.xlogy "
    "Tensor.__add__ Tensor.__radd__ Tensor.__sub__ Tensor.__rsub__ Tensor.__mul__ Tensor.__truediv__ "
    "Tensor.__rtruediv__ Tensor.__pow__ Tensor.__rpow__ Tensor.__mod__ Tensor.__rmod__ Tensor.__floordiv__ "
    "Tensor.__rfloordiv__ Tensor.__and__ Tensor.__lt__ Tensor.__eq__ igamma igammac bitwise_left_shift "
    "bitwise_right_shift dist"
)


def unary(d: Draw) -> Made:
    """Return a tensor of any shape."""
    return made(d.array(d.shape()))


def binary(d: Draw) -> Made:
    """Return two tensors that broadcast."""
    shape = d.shape()
    return made(d.array(shape), d.other(shape))


def _with(*options: Any) -> Row:
    """Return a row of one tensor and one of some sets of keyword arguments."""
    return lambda d: made(d.array(d.shape()), **d.pick(*options))


def _clamp(d: Draw) -> Made:
    x = d.array(d.shape())
    ends = [None if d.chance(0.25) else d.other(x.values.shape) for _ in range(2)]
    if all(e is None for e in ends) or isinstance(ends[0], Array) != isinstance(ends[1], Array):
        ends = [-1, 0.5] if d.dtype in FLOATS else [-1, 2]
    return made(x, *ends)


def _three(d: Draw, **kwargs: Any) -> Made:
    shape = d.shape()
    return made(d.array(shape), d.array(d.partner(shape)), d.array(d.partner(shape)), **kwargs)


def _where(d: Draw) -> Made:
    shape = d.shape()
    return made(d.mask(d.partner(shape)), d.array(shape), d.other(shape))


ELEMENTWISE: dict[str, Row] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    "add ": lambda d: (binary(d)[0], {"alpha": d.pick(1, 2, -1, 0)}),
    "sub ": lambda d: (binary(d)[0], {"alpha": d.pick(1, 2, -1, 0)}),
    "div ": lambda d: (binary(d)[0], {"rounding_mode": d.pick("floor", "trunc", None)}),
    "pow ": lambda d: made(d.array(d.shape()), d.pick(0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 0.0, 2.0)),
    "round ": _with({"decimals": 0}, {"decimals": 1}, {"decimals": -1}),
    "logit": _with({}, {"eps": 1e-3}, {"eps": 0.3}),
    "nan_to_num ": _with({"nan": 2.0}, {"posinf": 1.0, "neginf": -3.0}),
    "clamp": _clamp,
    "clamp_min": lambda d: binary(d),
    "clamp_max": lambda d: binary(d),
    "lerp": lambda d: _three(d) if d.chance(0.6) else made(*_three(d)[0][:2], d.pick(0.3, 0.7, 0, 1.5)),
    "addcmul": lambda d: _three(d, value=d.pick(None, 2, 0.5, 0)),
    "addcdiv": lambda d: _three(d, value=d.pick(None, 2, 0.5, 0)),
    "where": _where,
    "polygamma": lambda d: made(d.int(0, 3), d.array(d.shape(), low=0.1)),
    "mvlgamma": lambda d: made(d.array(d.shape(), low=1.6, high=6), d.int(1, 3)),
    "polar": lambda d: made(*(a._replace(values=np.abs(a.values)) for a in _three(d)[0][:1]), d.array(())),
    "complex": lambda d: _three(d)[0][:2] and (_three(d)[0][:2], {}),
    F + "leaky_relu": _with({}, {"negative_slope": 0.2}, {"negative_slope": -0.5}, {"negative_slope": 0}),
    F + "elu": _with({}, {"alpha": 0.5}, {"alpha": 2.0}),
    F + "celu": _with({}, {"alpha": 0.5}),
    F + "gelu": _with({}, {"approximate": "tanh"}),
    F + "softplus": _with({}, {"beta": 2.0}, {"threshold": 1.03}),
    F + "hardtanh ": _with({"min_val": -0.5, "max_val": 2.0}),
    F + "hardshrink": _with({}, {"lambd": 1.0}, {"lambd": 0}),
    F + "softshrink": _with({}, {"lambd": 1.0}, {"lambd": 0}),
    F + "threshold": _with({"threshold": 0.0, "value": 1.0}, {"threshold": 1.0, "value": -2.0}),
    F + "prelu": lambda d: (lambda s: made(d.array(s), d.array((s[1] if len(s) > 1 and d.chance(0.5) else 1,))))(
        d.shape(1)
    ),
    F + "glu": lambda d: (lambda s: made(d.array((*s, 2 * d.int(1, 2))), -1))(d.shape(0, 2)),
    "Tensor.to": lambda d: made(d.array(d.shape()), Name(d.pick(*FLOATS, *COMPLEX))),
    "Tensor.sigmoid": unary,
}
