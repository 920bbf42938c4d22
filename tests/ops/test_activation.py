"""Activation functions against torch.nn.functional: values, two orders of gradients, kinks, writes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.ops import activation
from tests.oracle import needs_torch, same, torch

from .test_elementwise import INF, NAN, gradients

CALLS: dict[str, list[dict[str, Any]]] = {
    "relu": [{}],
    "relu6": [{}],
    "leaky_relu": [{}, {"negative_slope": 0.3}, {"negative_slope": -0.5}, {"negative_slope": 1.5}],
    "rrelu": [{}, {"lower": 0.1, "upper": 0.5}],
    "elu": [{}, {"alpha": 0.7}],
    "selu": [{}],
    "celu": [{}, {"alpha": 1.7}],
    "gelu": [{}, {"approximate": "tanh"}],
    "silu": [{}],
    "mish": [{}],
    "hardtanh": [{}, {"min_val": 0.0, "max_val": 1.0}],
    "hardswish": [{}],
    "hardsigmoid": [{}],
    "hardshrink": [{}, {"lambd": 1.3}],
    "softshrink": [{}, {"lambd": 1.3}],
    "tanhshrink": [{}],
    "softplus": [{}, {"beta": 2, "threshold": 1}],
    "softsign": [{}],
    "logsigmoid": [{}],
    "threshold": [{"threshold": 0.1, "value": 20.0}],
    "glu": [{}, {"dim": 0}],
}
CASES = [(name, options) for name, calls in CALLS.items() for options in calls]
NEVER_IN_PLACE = "gelu hardshrink softshrink tanhshrink softplus softsign logsigmoid glu".split()
IN_PLACE = [(n, o) for n, o in CASES if n not in NEVER_IN_PLACE]
ORDINARY = [[-4.2, -2.7, -1.1, -0.6], [-0.2, 0.3, 0.7, 1.4], [2.2, 2.9, 5.5, 7.1], [-0.45, 0.45, 9.0, -9.0]]
KINKS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    3.0,
    -3.0,
    6.0,
    0.5,
    -0.5,
    1.3,
    -1.3,
    0.1,
    INF,
    -INF,
    NAN,
    1e4,
    -1e4,
    90.0,
    -90.0,
    30.0,
]


def call(module: Any, name: str, x: Any, options: dict[str, Any]) -> Any:
    room = activation if module is adjoint else torch.nn.functional
    return getattr(room, name)(x, **options)


@needs_torch
@pytest.mark.parametrize(("name", "options"), CASES)
def test_value_and_gradients(name: str, options: dict[str, Any]) -> None:
    if name == "hardsigmoid":  # torch has no second derivative of it
        same(lambda m: call(m, name, m.tensor(ORDINARY), options))
        return
    same(lambda m: gradients(m, lambda m, x: call(m, name, x, options), ORDINARY), 1e-7)


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_at_kinks(name: str, options: dict[str, Any], dtype: str) -> None:
    # torch's scalar and vector code differ in whether a NaN comes back, and in gelu of infinity.
    values = [v for v in KINKS if not (math.isnan(v) and name in ("elu", "selu", "celu", "hardswish"))]
    values = [v for v in values if not (math.isinf(v) and name == "gelu")]
    values = values[: len(values) // 2 * 2]

    def program(m: Any) -> Any:
        x = m.tensor(values, dtype=getattr(m, dtype), requires_grad=True)
        out = call(m, name, x, options)
        out.sum().backward()
        return [out, x.grad + 0]

    same(program, 1e-5)


@needs_torch
@pytest.mark.parametrize(("name", "options"), IN_PLACE)
def test_in_place(name: str, options: dict[str, Any]) -> None:
    if options.get("negative_slope", 0) < 0:
        pytest.skip("torch refuses a negative slope in place")

    def program(m: Any) -> Any:
        x = m.tensor(ORDINARY, dtype=m.float64, requires_grad=True)
        y = x * 1.0
        out = call(m, name, y, {**options, "inplace": True})
        assert out is y
        (y * y).sum().backward()
        return [y, x.grad]

    same(program, 1e-7)


@needs_torch
@pytest.mark.parametrize("dtype", ["int64", "bool", "float16", "bfloat16"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_other_dtypes(name: str, options: dict[str, Any], dtype: str) -> None:
    if (name, dtype) == ("tanhshrink", "bool"):
        pytest.skip("adjoint subtracts a boolean where torch refuses")
    values = [[0, 1, 1, 0]] if dtype == "bool" else [[-2, 0, 1, 3]]
    same(lambda m: call(m, name, m.tensor(values, dtype=getattr(m, dtype)), options), 1e-2)


@needs_torch
def test_prelu() -> None:
    def shared(m: Any, x: Any, w: Any) -> Any:
        return (activation if m is adjoint else torch.nn.functional).prelu(x, w)

    x = [[[-1.0, 2.0], [-3.0, 0.25], [0.5, -0.5]]]
    same(lambda m: gradients(m, shared, x, [0.25]), 1e-7)
    same(lambda m: gradients(m, shared, x, [0.25, 0.5, 2.0]), 1e-7)
    same(lambda m: gradients(m, shared, [-1.0, 2.0], 0.25), 1e-7)
    same(lambda m: shared(m, m.ones(2, 3), m.ones(2)))
    same(lambda m: shared(m, m.ones(2, 3), m.ones(2, 1)))


@needs_torch
def test_rrelu_in_training_draws_as_torch_does() -> None:
    def program(m: Any) -> Any:
        m.manual_seed(3)
        x = m.tensor(ORDINARY, dtype=m.float64, requires_grad=True)
        out = call(m, "rrelu", x, {"training": True})
        out.sum().backward()
        return [out, x.grad]

    same(program, 1e-7)


@needs_torch
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hardtanh", {"min_val": 2.0, "max_val": 1.0}),
        ("softshrink", {"lambd": -1.0}),
        ("gelu", {"approximate": "x"}),
        ("celu", {"alpha": 0.0}),
        ("glu", {"dim": 1}),
    ],
)
def test_refusals(name: str, options: dict[str, Any]) -> None:
    same(lambda m: call(m, name, m.ones(2, 3), options))


@needs_torch
def test_large_arrays() -> None:
    def program(m: Any) -> Any:
        x = m.linspace(-6, 6, 20_000).requires_grad_()
        y = sum(call(m, n, x, {}) for n in ("relu", "gelu", "silu", "elu", "softplus", "leaky_relu", "hardswish"))
        y.sum().backward()
        return [y, x.grad]

    same(program, 2e-5)


def test_frozen_values() -> None:
    x = adjoint.tensor([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(activation.gelu(x).numpy(), [-0.15865526, 0, 1.9544997], rtol=1e-5)
    np.testing.assert_allclose(activation.silu(x).numpy(), [-0.26894143, 0, 1.7615942], rtol=1e-5)
    np.testing.assert_allclose(activation.softplus(x).numpy(), [0.3132617, math.log(2), 2.126928], rtol=1e-5)
    np.testing.assert_allclose(activation.elu(x).numpy(), [math.expm1(-1), 0, 2], rtol=1e-5)
    assert activation.leaky_relu(x, 0.5).tolist() == [-0.5, 0.0, 2.0]
    assert not hasattr(adjoint, "gelu")
    assert adjoint.relu(x).tolist() == [0.0, 0.0, 2.0]


def test_infinite_gradient_does_not_pass_a_closed_gate() -> None:
    x = adjoint.tensor([-1.0, 1.0], requires_grad=True)
    activation.relu(x).backward(adjoint.tensor([math.inf, 1.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 1.0]
