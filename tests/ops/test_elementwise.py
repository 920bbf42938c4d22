"""Elementwise ops against torch: values, gradients at ordinary, special and kinky points, dtypes, writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, same, torch

INF, NAN = math.inf, math.nan
ORDINARY = [-2.7, -1.3, -0.6, -0.2, 0.3, 0.5, 0.9, 1.4, 2.2]
SPECIAL = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    1.5,
    2.5,
    3.0,
    -3.0,
    6.0,
    20.0,
    -20.0,
    1e4,
    1e-6,
]

UNARY = (
    "abs acos acosh angle asin asinh atan atanh ceil conj_physical cos cosh deg2rad digamma erf erfc "
    "erfinv exp exp2 expm1 floor frac i0 lgamma log log10 log1p log2 logit nan_to_num neg positive "
    "rad2deg reciprocal relu round rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc "
).split()
# torch's own values at these points are a matter of its vectorized code or differ from its scalar code.
LOOSE_AT_SPECIAL = {
    "digamma": [-INF, -20.0, -1.0, -2.0, -3.0],
    "lgamma": [-INF, -20.0, -1.0, -2.0, -3.0],
    "i0": [1e4],
    "logit": [0.0],
}
COMPLEX = (
    "abs acos acosh angle asin asinh atan atanh conj_physical cos cosh exp exp2 expm1 log log10 log1p "
    "log2 neg reciprocal rsqrt sgn sigmoid sin sinc sinh sqrt square tan tanh "
).split()
TESTS = "isnan isinf isfinite isposinf isneginf isreal signbit logical_not".split()
BINARY = (
    "add sub mul div pow atan2 hypot maximum minimum fmax fmin fmod remainder copysign logaddexp "
    "logaddexp2 xlogy nextafter floor_divide "
).split()
COMPARISONS = "eq ne lt le gt ge logical_and logical_or logical_xor isclose".split()
BITWISE = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm".split()


def gradients(module: Any, function: Callable[..., Any], *values: Any, dtype: str = "float64") -> list[Any]:
    """Return a function's value, its gradients under an uneven cotangent, and the gradients of those."""
    xs = [module.tensor(v, dtype=getattr(module, dtype), requires_grad=True) for v in values]
    out = function(module, *xs)
    results = [out]
    if not out.requires_grad:
        return results
    weights = module.linspace(1, 2, out.numel(), dtype=getattr(module, dtype)).reshape(out.shape)
    cotangent = weights.to(out.dtype)
    first = module.autograd.grad(out, xs, cotangent, create_graph=True, allow_unused=True)
    results += [g + 0 for g in first if g is not None]  # torch's may be a mere promise of zeros
    recorded = [g for g in first if g is not None and g.requires_grad]
    if recorded:
        total = sum(((g * (g.detach() + 1).conj()).real if g.is_complex() else g * g.detach()).sum() for g in recorded)
        if total.requires_grad:
            second = module.autograd.grad(total, xs, allow_unused=True)
            results += [g + 0 for g in second if g is not None and ((g.detach() + 0).abs() > 1e-12).any()]
    return results


@needs_torch
@pytest.mark.parametrize("name", UNARY)
def test_unary_value_and_gradients(name: str) -> None:
    same(lambda m: gradients(m, lambda m, x: getattr(m, name)(x), ORDINARY), 1e-7)


@needs_torch
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_value_and_gradients(name: str) -> None:
    values = [a + 1j * b for a in (-1.3, 0.4, 2.1) for b in (-0.7, 0.2, 1.9)]
    same(lambda m: gradients(m, lambda m, x: getattr(m, name)(x), values, dtype="complex128"), 1e-7)


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_at_special_values(name: str, dtype: str) -> None:
    values = [v for v in SPECIAL if v not in LOOSE_AT_SPECIAL.get(name, [])]

    def program(m: Any) -> Any:
        x = m.tensor(values, dtype=getattr(m, dtype), requires_grad=True)
        out = getattr(m, name)(x)
        if out.requires_grad:
            out.sum().backward()
        return [out, x.grad + 0 if x.grad is not None else None]

    same(program, 1e-5)


@needs_torch
@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "int8"])
@pytest.mark.parametrize("name", UNARY + TESTS)
def test_unary_of_integers(name: str, dtype: str) -> None:
    same(lambda m: getattr(m, name)(m.tensor([0, 1, 1, 1], dtype=getattr(m, dtype))), 1e-5)


@needs_torch
@pytest.mark.parametrize("dtype", ["float64", "int64", "float32"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_in_place_and_out(name: str, dtype: str) -> None:
    def in_place(m: Any) -> Any:
        x = m.tensor([0.5, 1.0, 0.25]).to(getattr(m, dtype))
        view = x[1:]
        result = getattr(view, name + "_")()
        assert result is view
        return [x, x._version]

    def into(m: Any) -> Any:
        x = m.tensor([0.5, 1.0, 0.25]).to(getattr(m, dtype))
        out = m.empty(0, dtype=getattr(m, dtype))
        result = getattr(m, name)(x, out=out)
        assert result is out
        return out

    if hasattr(torch.Tensor, name + "_"):
        same(in_place, 1e-5)
    if name not in ("positive", "relu"):
        same(into, 1e-5)


@needs_torch
@pytest.mark.parametrize("name", UNARY)
def test_unary_in_place_gradient(name: str) -> None:
    if not hasattr(torch.Tensor, name + "_") or name in ("asinh", "acosh", "atanh"):
        pytest.skip("torch has no in-place form, or none with a gradient")

    def program(m: Any) -> Any:
        x = m.tensor([0.2, 0.7, 0.4], dtype=m.float64, requires_grad=True)
        y = x * 1.1
        getattr(y, name + "_")()
        y.sum().backward()
        return [y, x.grad + 0]

    same(program, 1e-7)


@needs_torch
@pytest.mark.parametrize("name", BINARY)
def test_binary_value_and_gradients(name: str) -> None:
    a = [[0.7, 1.9, 2.4], [1.1, 0.3, 3.2]]
    b = [1.3, 0.8, 2.1]
    if name == "floor_divide":  # torch cannot differentiate it
        same(lambda m: m.floor_divide(m.tensor(a), m.tensor(b)))
        return
    same(lambda m: gradients(m, lambda m, x, y: getattr(m, name)(x, y), a, b), 1e-7)


@needs_torch
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
def test_complex_binary(name: str) -> None:
    a = [[0.7 + 1j, 1.9 - 0.5j, 2.4], [1.1j, 0.3 + 0.2j, 3.2 - 1j]]
    b = [1.3 - 0.4j, 0.8 + 1j, 2.1j]
    same(lambda m: gradients(m, lambda m, x, y: getattr(m, name)(x, y), a, b, dtype="complex128"), 1e-7)


@needs_torch
@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_binary_at_special_values(name: str) -> None:
    grid = [v for v in SPECIAL if abs(v) < 7 or math.isinf(v) or math.isnan(v)]
    xs, ys = [a for a in grid for _ in grid], [b for _ in grid for b in grid]

    def program(m: Any) -> Any:
        x = m.tensor(xs, dtype=m.float64, requires_grad=True)
        y = m.tensor(ys, dtype=m.float64, requires_grad=True)
        out = getattr(m, name)(x, y)
        if not out.requires_grad or name == "floor_divide":
            return out
        out.sum().backward()
        return [out, x.grad, y.grad]

    same(program, 1e-6)


@needs_torch
@pytest.mark.parametrize(
    "name", [*BITWISE, "add", "sub", "mul", "div", "pow", "remainder", "fmod", "floor_divide", "eq", "lt"]
)
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool"])
def test_binary_of_integers(name: str, dtype: str) -> None:
    def program(m: Any) -> Any:
        kind = getattr(m, dtype)
        x = m.tensor([0, 1, 5, 7, 7, 120], dtype=kind)
        y = m.tensor([1, 3, 2, 2, 7, 3], dtype=kind)
        return getattr(m, name)(x, y)

    def negative(m: Any) -> Any:
        x = m.tensor([-7, 7, -7, 7, -1, 1, 2], dtype=getattr(m, dtype))
        y = m.tensor([2, -2, -2, 2, -1, -1, -1], dtype=getattr(m, dtype))
        return getattr(m, name)(x, y)

    same(program)
    if dtype in ("int64", "int8") and "shift" not in name:
        same(negative)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
BIT_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}


@needs_torch
@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("number", [2, 2.5, -1.5, 0])
def test_operators_with_numbers_on_both_sides(symbol: str, number: Any) -> None:
    f = OPERATORS[symbol]
    for dtype in ("float32", "int64", "float64"):
        values = [1, 2, 3] if dtype == "int64" else [0.5, -1.5, 2.0]
        same(lambda m, d=dtype, v=values: f(m.tensor(v, dtype=getattr(m, d)), number), 1e-5)
        same(lambda m, d=dtype, v=values: f(number, m.tensor(v, dtype=getattr(m, d))), 1e-5)
    if symbol in "+-*/**":
        same(lambda m: gradients(m, lambda m, x: f(x, number), [0.5, 1.5, 2.0]), 1e-7)
        if number != 0 or symbol != "**":
            same(lambda m: gradients(m, lambda m, x: f(number, x), [0.5, 1.5, 2.0]), 1e-7)


@needs_torch
@pytest.mark.parametrize("symbol", BIT_OPERATORS)
def test_bit_operators(symbol: str) -> None:
    f = BIT_OPERATORS[symbol]
    same(lambda m: f(m.tensor([1, 5, 7]), m.tensor([3, 2, 1])))
    same(lambda m: f(m.tensor([1, 5, 7]), 2))
    same(lambda m: f(2, m.tensor([1, 5, 7])))
    same(lambda m: f(m.tensor([1.0, 5.0]), m.tensor([3.0, 2.0])))
    if len(symbol) == 1:
        same(lambda m: f(m.tensor([True, False]), m.tensor([True, True])))
        same(lambda m: [~m.tensor([True, False]), ~m.tensor([1, -5])])


@needs_torch
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5, 2.0, -1.3])
def test_power_of_a_number(exponent: float) -> None:
    same(lambda m: gradients(m, lambda m, x: x**exponent, [0.4, 1.3, 2.0]), 1e-7)
    same(lambda m: gradients(m, lambda m, x: x.pow(exponent), [-1.3, 0.0, 2.0]), 1e-7)

    def in_place(m: Any) -> Any:
        x = m.tensor([0.4, 1.3, 2.0], dtype=m.float64, requires_grad=True)
        y = x * 1
        y **= exponent
        y.sum().backward()
        return [y, x.grad]

    same(in_place, 1e-7)


@needs_torch
def test_power_grad_fn() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1.0, 2.0], requires_grad=True)
        y = m.tensor([3.0, 2.0], requires_grad=True)
        nodes = [(x**2).grad_fn, (x**y).grad_fn, (2**x).grad_fn, x.square().grad_fn]
        return [[n.name(), sorted(a for a in dir(n) if a.startswith("_saved"))] for n in nodes] + [
            nodes[0]._saved_exponent
        ]

    same(program)


@needs_torch
@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
def test_division_rounding(mode: str | None) -> None:
    same(lambda m: m.div(m.tensor([7.0, -7.0, 7.5, -0.5]), m.tensor([2.0, 2.0, -2.0, 3.0]), rounding_mode=mode))
    same(lambda m: m.div(m.tensor([7, -7, 7, -1]), m.tensor([2, 2, -2, 3]), rounding_mode=mode))
    same(lambda m: m.tensor([7.0, -7.0]).div_(2, rounding_mode=mode))
    same(lambda m: m.div(m.tensor([1, 2]), 0, rounding_mode=mode))
    same(lambda m: gradients(m, lambda m, x, y: m.div(x, y, rounding_mode=mode), [7.0, -7.5], [2.0, 3.0]))
    with pytest.raises(RuntimeError, match="rounding_mode"):
        adjoint.div(adjoint.ones(2), 2, rounding_mode="up")


@needs_torch
def test_alpha() -> None:
    for name in ("add", "sub", "rsub"):
        same(lambda m, n=name: gradients(m, lambda m, x, y: getattr(m, n)(x, y, alpha=3), [1.0, 2.0], [0.5, 4.0]))
        same(lambda m, n=name: getattr(m, n)(m.tensor([1, 2]), 3, alpha=2))
    same(lambda m: m.ones(2).add_(m.ones(2), alpha=0.5).sub_(1, alpha=2))


@needs_torch
@pytest.mark.parametrize("bounds", [(0.2, 1.0), (None, 0.5), (-0.5, None), (1.0, -1.0), (0, 1)])
def test_clamp(bounds: tuple[Any, Any]) -> None:
    low, high = bounds
    values = [-1.5, -0.5, 0.2, 0.3, 0.5, 1.0, 2.0]
    same(lambda m: gradients(m, lambda m, x: x.clamp(low, high), values))
    same(lambda m: m.tensor(values).clamp_(low, high))
    same(lambda m: m.clip(m.tensor([-2, 0, 1, 5]), low, high))
    same(lambda m: m.tensor([NAN, INF, -INF]).clamp(low, high))

    def tensors(m: Any, x: Any) -> Any:
        return x.clamp(*(None if b is None else m.tensor([b] * 7, dtype=m.float64) for b in bounds))

    same(lambda m: gradients(m, tensors, values))


@needs_torch
def test_clamp_with_tensor_bounds() -> None:
    x, low, high = [-1.0, 0.0, 0.5, 3.0, 1.0], [0.0, 0.0, 1.0, 0.0, 2.0], [1.0, 1.0, 0.0, 2.0, 2.0]
    same(lambda m: gradients(m, lambda m, x, a, b: m.clamp(x, a, b), x, low, high))
    same(lambda m: gradients(m, lambda m, x, a: m.clamp_min(x, a), x, low))
    same(lambda m: gradients(m, lambda m, x, a: m.clamp_max(x, a), x, high))
    same(lambda m: gradients(m, lambda m, x, a: m.clamp(x, min=a), x, 0.5))
    same(lambda m: m.clamp(m.ones(2)))


@needs_torch
def test_where() -> None:
    c = [[True, False], [False, True]]
    same(lambda m: gradients(m, lambda m, x, y: m.where(m.tensor(c), x, y), [[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0]))
    same(lambda m: gradients(m, lambda m, x: m.where(m.tensor(c), x, 0), [1.0, 2.0]))
    same(lambda m: gradients(m, lambda m, x: m.where(m.tensor(c), -1.5, x), 3.0))
    same(lambda m: m.where(m.tensor(c), m.tensor([1, 2]), m.tensor([1.5, 2.5])))
    same(lambda m: m.where(m.tensor(c), 1, 2.5))
    same(lambda m: m.where(m.tensor(c), m.tensor(1.0, dtype=m.float64), m.tensor([1.0, 2.0])))
    same(lambda m: list(m.where(m.tensor(c))))
    same(lambda m: m.where(m.tensor([1, 0]), 1.0, 2.0))
    same(lambda m: m.ones(2).where(m.tensor([True, False]), m.zeros(2)))


@needs_torch
def test_where_stops_infinities() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([0.0, 4.0], requires_grad=True)
        m.where(x > 0, x.sqrt(), 0).sum().backward()
        return x.grad

    same(program)


@needs_torch
def test_large_selection() -> None:
    def program(m: Any) -> Any:
        x = m.linspace(-3, 3, 10_000, dtype=m.float64).requires_grad_()
        y = m.where(x > 0.5, x * 2, m.tensor(-0.0, dtype=m.float64)) + m.where(x < 0, x, x**2).relu()
        y.sum().backward()
        return [y, x.grad]

    same(program)


@needs_torch
def test_masked_fill() -> None:
    mask = [[True, False], [False, False]]
    same(lambda m: gradients(m, lambda m, x: x.masked_fill(m.tensor(mask), 9.0), [[1.0, 2.0], [3.0, 4.0]]))
    same(lambda m: gradients(m, lambda m, x: x.masked_fill(m.tensor(mask), 9.0), [1.0, 2.0]))
    same(lambda m: gradients(m, lambda m, x, v: x.masked_fill(m.tensor(mask), v), [[1.0, 2.0], [3.0, 4.0]], 7.0))
    same(lambda m: m.zeros(2, 2, dtype=m.int64).masked_fill_(m.tensor(mask), 3))
    same(lambda m: m.zeros(2, 2, dtype=m.int64).masked_fill(m.tensor(mask), 3.5))
    same(lambda m: m.zeros(2, 2).masked_fill(m.tensor(mask), -INF))
    same(lambda m: m.zeros(2, 2).masked_fill(m.tensor([1, 0]), 1.0))
    same(lambda m: m.zeros(2, 2).masked_fill(m.tensor(mask), m.ones(2)))
    same(lambda m: m.zeros(2).masked_fill_(m.tensor(mask), 1.0))

    def in_place(m: Any) -> Any:
        x = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = x * 2
        y[0].masked_fill_(m.tensor([True, False]), 5.0)
        (y * y).sum().backward()
        return [y, x.grad]

    same(in_place)


@needs_torch
def test_lerp_and_fused_products() -> None:
    a, b, c = [1.0, 2.0, 3.0], [4.0, 0.5, -1.0], [0.1, 0.5, 0.9]
    same(lambda m: gradients(m, lambda m, x, y, w: m.lerp(x, y, w), a, b, c))
    for weight in (0.2, 0.5, 0.8):
        same(lambda m, w=weight: gradients(m, lambda m, x, y: m.lerp(x, y, w), a, b))
        same(lambda m, w=weight: m.tensor(a).lerp_(m.tensor(b), w))
    for name in ("addcmul", "addcdiv"):
        same(lambda m, n=name: gradients(m, lambda m, x, y, z: getattr(m, n)(x, y, z, value=0.5), a, b, c))
        same(lambda m, n=name: getattr(m.tensor(a), n + "_")(m.tensor(b), m.tensor(c), value=-2))
        same(lambda m, n=name: getattr(m, n)(m.tensor([1, 2]), m.tensor([3, 4]), m.tensor([2, 2])))


@needs_torch
@pytest.mark.parametrize("decimals", [0, 1, 3, -1])
def test_round_decimals(decimals: int) -> None:
    same(lambda m: m.round(m.tensor([0.15, 2.5, -1.2345, 123.456, 55.0]), decimals=decimals), 1e-5)
    same(lambda m: m.tensor([0.15, 2.5, -1.2345]).round_(decimals=decimals), 1e-5)
    same(lambda m: gradients(m, lambda m, x: x.round(decimals=decimals), [0.15, 2.5]))


@needs_torch
def test_nan_to_num() -> None:
    values = [NAN, INF, -INF, 1.5]
    same(lambda m: gradients(m, lambda m, x: m.nan_to_num(x), values))
    same(lambda m: m.nan_to_num(m.tensor(values), nan=1.0, posinf=2.0, neginf=-3.0))
    same(lambda m: m.tensor(values).nan_to_num_(7))
    same(lambda m: m.nan_to_num(m.tensor([1, 2])))


@needs_torch
def test_closeness() -> None:
    a, b = [1.0, NAN, INF, 1.0, 0.0], [1.0 + 1e-6, NAN, INF, 1.1, 1e-9]
    for options in ({}, {"equal_nan": True}, {"rtol": 0.2}, {"atol": 1e-3, "rtol": 0}):
        same(lambda m, o=options: m.isclose(m.tensor(a, dtype=m.float64), m.tensor(b, dtype=m.float64), **o))
        same(lambda m, o=options: m.allclose(m.tensor(a, dtype=m.float64), m.tensor(b, dtype=m.float64), **o))
    same(lambda m: m.isclose(m.tensor([1, 2, 1000000]), m.tensor([1, 3, 1000001])))
    same(lambda m: m.isclose(m.tensor([1.0]), m.tensor([1.0], dtype=m.float64)))
    same(
        lambda m: [
            m.equal(m.ones(2), m.ones(2)),
            m.equal(m.ones(2), m.ones(3)),
            m.equal(m.ones(2), m.zeros(2)),
        ]
    )
    same(lambda m: m.equal(m.tensor([NAN]), m.tensor([NAN])))


@needs_torch
def test_equality_with_other_things() -> None:
    nothing = None
    same(lambda m: [m.ones(2) == nothing, m.ones(2) != nothing, m.ones(2) == "a"])
    same(lambda m: m.ones(2) < "a")
    same(lambda m: m.ones(2) + "a")
    same(lambda m: m.ones(2) + None)


@needs_torch
def test_complex_parts() -> None:
    same(lambda m: gradients(m, lambda m, x, y: m.complex(x, y), [1.0, 2.0], [[3.0], [4.0]]))
    same(lambda m: gradients(m, lambda m, x, y: m.polar(x, y), [1.0, 2.0], [0.5, -1.0]))
    same(lambda m: m.complex(m.ones(2), m.ones(2, dtype=m.float64)))
    same(lambda m: m.angle(m.tensor([1.0, -1.0, 0.0, NAN, -0.0])))
    same(lambda m: m.angle(m.tensor([1, -1, 0])))
    same(lambda m: gradients(m, lambda m, x: x.abs(), [0j, 3 + 4j], dtype="complex128"))
    same(lambda m: gradients(m, lambda m, x: x.angle(), [0j, 3 + 4j], dtype="complex128"))
    same(lambda m: gradients(m, lambda m, x: x.sgn(), [0j, 3 + 4j], dtype="complex128"))


@needs_torch
def test_mixed_dtypes_get_gradients_of_their_own_dtype() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([1.0, 2.0], requires_grad=True)
        y = m.tensor([3.0, 4.0], dtype=m.float64, requires_grad=True)
        z = m.tensor(2.0, dtype=m.float64, requires_grad=True)
        w = m.tensor([1 + 1j, 2j], requires_grad=True)
        (x * y + x**z + m.where(x > 1, x, y) + m.maximum(x.double(), y)).sum().backward()
        ((x + 2) * w).abs().sum().backward()
        m.pow(x, 1 + 1j).abs().sum().backward()
        return [x.grad, y.grad, z.grad, w.grad]

    same(program, 1e-5)


@needs_torch
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_empty_and_scalar_shapes(shape: tuple[int, ...]) -> None:
    def program(m: Any) -> Any:
        x = m.full(shape, 0.5, dtype=m.float64, requires_grad=True)
        y = (
            m.where(x > 0, x.clamp(0.1, 2) ** 1.5, x.abs())
            + m.maximum(x, x * 2).sqrt().tanh()
            + x.sigmoid() / (1 - x / 3)
        )
        y = y.masked_fill(y < 0, 1.0) + m.lerp(x, y, 0.25) + m.erf(x) + 2**x + x % 0.3 + x.relu()
        y.sum().backward()
        return [y, x.grad]

    same(program)


@needs_torch
def test_layouts() -> None:
    def program(m: Any) -> Any:
        base = m.arange(24.0, dtype=m.float64).reshape(2, 3, 4).requires_grad_()
        x = base.permute(2, 0, 1)[::2]
        y = m.ones(3, dtype=m.float64).expand(2, 2, 3)
        z = m.where(x > 5, x.sqrt(), y) * m.maximum(x, y).log() + x.clamp(2, 9)
        z.sum().backward()
        return [z, base.grad]

    same(program)


@needs_torch
def test_python_functions_of_elements() -> None:
    same(lambda m: m.tensor([1.0, 2.0]).apply_(lambda v: v * 3))
    same(lambda m: m.tensor([1.0, 2.0]).map_(m.tensor([3.0, 4.0]), lambda a, b: a + b))
    same(lambda m: m.tensor([1.0, 2.0], requires_grad=True).apply_(lambda v: v))


class Answering:
    """Something that is neither a tensor nor a number, but knows what to do beside a tensor."""

    def __radd__(self, other: Any) -> str:
        return "added"

    def __rpow__(self, other: Any) -> str:
        return "raised"

    def __gt__(self, other: Any) -> str:
        return "compared"


@needs_torch
def test_operands_that_answer_for_themselves() -> None:
    same(lambda m: [m.ones(2) + Answering(), m.ones(2) ** Answering(), m.ones(2) < Answering()])
    same(lambda m: m.ones(2) * Answering())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_stays(dtype: str) -> None:
    kind = getattr(adjoint, dtype)
    for name in ("rsqrt", "sigmoid", "relu", "sqrt", "log1p", "sinc", "erf", "deg2rad", "tanh", "round", "sign"):
        x = adjoint.tensor([0.5, 2.0], dtype=kind, requires_grad=True)
        out = getattr(adjoint, name)(x)
        assert out.dtype is kind, name
        out.sum().backward()
        assert x.grad is not None and x.grad.dtype is kind, name
        (g,) = adjoint.autograd.grad(getattr(adjoint, name)(x).sum(), x)
        assert g.dtype is kind, name
    y = adjoint.tensor([0.5, 2.0], dtype=kind)
    for out in (y**1.5, 2.5**y, 1 - y, y.clamp(0.1, 0.7), adjoint.lerp(y, y, 0.3), y.masked_fill(y > 1, 0.25)):
        assert out.dtype is kind


def test_frozen_values() -> None:
    x = adjoint.tensor([0.5, -1.0, 2.0], requires_grad=True)
    y = (x.exp() - x.sigmoid() * 2 + x.abs().sqrt()).sum()
    y.backward()
    assert x.grad is not None
    expected = np.exp([0.5, -1, 2]) - 2 * np.array([0.2350037, 0.1966119, 0.1049936]) + [0.7071068, -0.5, 0.3535534]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
    assert adjoint.tensor([7, -7]).div(2, rounding_mode="trunc").tolist() == [3, -3]
    assert (adjoint.tensor([7, -7]) % 3).tolist() == [1, 2]
    assert adjoint.tensor([1.0, 2.0]).clamp(max=1.5).tolist() == [1.0, 1.5]
    assert adjoint.where(adjoint.tensor([True, False]), 1.0, 2.0).tolist() == [1.0, 2.0]


def test_maximum_splits_ties() -> None:
    x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    y = adjoint.tensor([1.0, 1.0], requires_grad=True)
    adjoint.maximum(x, y).sum().backward()
    assert x.grad.tolist() == [0.5, 1.0]
    assert y.grad.tolist() == [0.5, 0.0]


def test_nothing_warns() -> None:
    # The suite turns warnings into errors, so this would raise.
    x = adjoint.tensor([0.0, -1.0, float("inf"), 1e38], requires_grad=True)
    (x.log() + x.sqrt() + 1 / x + x / x + x * 1e38 + x - x + x.exp()).sum().backward()
    x.detach().log_()


def test_the_older_order_puts_the_number_first() -> None:
    x, y = adjoint.ones(2), adjoint.full((2,), 2.0)
    with pytest.warns(UserWarning, match="This overload of add_ is deprecated"):
        assert x.clone().add_(3, y).tolist() == [7.0, 7.0]
    with pytest.warns(UserWarning, match="This overload of addcdiv_ is deprecated"):
        assert x.clone().addcdiv_(-1, y, y).tolist() == [0.0, 0.0]
    with pytest.raises(TypeError, match="positional arguments"):
        x.add(y, y)
