"""Special functions against torch.special, and against frozen values of their own."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, same, torch

from .test_elementwise import gradients

pytest.importorskip("scipy", reason="the values of special functions come from SciPy")

POSITIVE = [0.2, 0.7, 1.3, 2.4, 5.1]
UNIT = [0.05, 0.3, 0.5, 0.8, 0.95]
ANY = [-2.3, -0.7, 0.4, 1.1, 3.2]
DIFFERENTIABLE = {
    "digamma": POSITIVE,
    "entr": POSITIVE,
    "erf": ANY,
    "erfc": ANY,
    "erfcx": ANY,
    "erfinv": UNIT,
    "exp2": ANY,
    "expit": ANY,
    "expm1": ANY,
    "gammaln": POSITIVE,
    "i0": ANY,
    "i0e": ANY,
    "i1": ANY,
    "i1e": ANY,
    "log1p": UNIT,
    "log_ndtr": ANY,
    "logit": UNIT,
    "ndtr": ANY,
    "ndtri": UNIT,
    "psi": POSITIVE,
    "sinc": ANY,
    "round": ANY,
}
VALUE_ONLY = {
    "airy_ai": ANY,
    "bessel_j0": ANY,
    "bessel_j1": ANY,
    "bessel_y0": POSITIVE,
    "bessel_y1": POSITIVE,
    "modified_bessel_i0": ANY,
    "modified_bessel_i1": ANY,
    "modified_bessel_k0": POSITIVE,
    "modified_bessel_k1": POSITIVE,
    "scaled_modified_bessel_k0": POSITIVE,
    "scaled_modified_bessel_k1": POSITIVE,
    "spherical_bessel_j0": ANY,
}
POLYNOMIALS = [f"{prefix}chebyshev_polynomial_{kind}" for prefix in ("", "shifted_") for kind in "tuvw"] + [
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


@needs_torch
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_value_and_gradients(name: str) -> None:
    same(lambda m: gradients(m, lambda m, x: getattr(m.special, name)(x), DIFFERENTIABLE[name]), 1e-6)


@needs_torch
@pytest.mark.parametrize("name", VALUE_ONLY)
def test_value(name: str) -> None:
    same(lambda m: getattr(m.special, name)(m.tensor(VALUE_ONLY[name], dtype=m.float64)), 1e-6)


@pytest.mark.parametrize("name", [n for n in VALUE_ONLY if n != "spherical_bessel_j0"])
def test_gradients_torch_lacks(name: str) -> None:
    values = np.array([0.4, 1.3, 2.6])
    x = adjoint.tensor(values, requires_grad=True)
    function = getattr(adjoint.special, name)
    function(x).sum().backward()
    step = 1e-6
    high, low = (function(adjoint.tensor(values + s)).numpy() for s in (step, -step))
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), (high - low) / (2 * step), rtol=1e-6, atol=1e-8)


@needs_torch
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    same(lambda m: getattr(m.special, name)(m.tensor([0.3, -0.8, 0.9], dtype=m.float64), 3), 1e-7)
    same(
        lambda m: getattr(m.special, name)(m.tensor([[0.3], [0.6]], dtype=m.float64), m.tensor([0, 1, 2, 5, 8])),
        1e-7,
    )
    same(lambda m: getattr(m.special, name)(0.4, m.tensor([2])), 1e-5)


@needs_torch
def test_functions_of_two_arguments() -> None:
    same(lambda m: gradients(m, lambda m, x, y: m.xlogy(x, y), [0.5, 0.0, 2.0], POSITIVE[:3]), 1e-7)
    same(lambda m: gradients(m, lambda m, x, y: m.special.xlog1py(x, y), [0.5, 0.0, 2.0], POSITIVE[:3]), 1e-7)
    same(lambda m: gradients(m, lambda m, y: m.special.zeta(2.5, y), POSITIVE), 1e-6)
    same(lambda m: gradients(m, lambda m, y: m.igamma(m.tensor(POSITIVE, dtype=m.float64), y), POSITIVE), 1e-5)
    same(lambda m: gradients(m, lambda m, y: m.igammac(m.tensor(POSITIVE, dtype=m.float64), y), POSITIVE), 1e-5)
    same(lambda m: m.xlogy(m.tensor([0.0, 0.0, 1.0, 0.0]), m.tensor([0.0, -1.0, math.nan, math.nan])))
    same(lambda m: m.xlogy(2, m.tensor([1, 2])), 1e-6)


@needs_torch
@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_polygamma(n: int) -> None:
    same(lambda m: gradients(m, lambda m, x: m.polygamma(n, x), POSITIVE), 1e-6)
    same(lambda m: m.tensor(POSITIVE).polygamma_(n), 1e-4)
    same(lambda m: m.polygamma(-1, m.ones(2)))


@needs_torch
@pytest.mark.parametrize("p", [1, 2, 4])
def test_multivariate_gamma(p: int) -> None:
    same(lambda m: gradients(m, lambda m, x: m.mvlgamma(x, p), [2.3, 4.5]), 1e-7)
    same(lambda m: m.tensor([3, 4]).mvlgamma(p), 1e-5)


@needs_torch
@pytest.mark.parametrize("eps", [None, 0.1, 1e-6, -1.0])
def test_logit(eps: float | None) -> None:
    values = [-0.5, 0.0, 0.05, 0.5, 0.97, 1.0, 1.5]

    def program(m: Any) -> Any:
        x = m.tensor(values, dtype=m.float64, requires_grad=True)
        out = m.logit(x, eps)
        out.sum().backward()
        return [out, x.grad]

    same(program, 1e-7)


@needs_torch
def test_parts_of_floats() -> None:
    values = [0.0, 1.0, -3.5, 1e10, 1e-10]
    same(lambda m: list(m.frexp(m.tensor(values))))
    same(lambda m: gradients(m, lambda m, x: m.frexp(x)[0], [1.5, -3.5]))
    same(lambda m: gradients(m, lambda m, x, y: m.ldexp(x, y), [1.5, -3.5], [2.0, 3.0]), 1e-7)
    same(lambda m: m.ldexp(m.tensor([1.5, -3.5]), m.tensor([2, -3])))
    same(lambda m: m.heaviside(m.tensor([-1.0, 0.0, 2.0, math.nan]), m.tensor(0.5)))
    same(lambda m: m.heaviside(m.tensor([-1, 0, 2]), m.tensor([5, 6, 7])))
    same(lambda m: m.heaviside(m.tensor([-1.0]), m.tensor([5])))
    same(lambda m: m.copysign(m.tensor([1.0, -2.0, 0.0]), -1))
    same(lambda m: m.copysign(m.tensor([1, 2]), m.tensor([-1, 1])))
    same(lambda m: m.nextafter(m.tensor([1.0, 2.0]), m.tensor([2.0, 1.0])))
    same(lambda m: [m.gcd(m.tensor([12, -18]), m.tensor([8, 12])), m.lcm(m.tensor([4, -6]), m.tensor([6, 4]))])


@needs_torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64"])
@pytest.mark.parametrize("name", ["erf", "erfc", "gammaln", "digamma", "i0", "ndtr", "sinc", "entr", "expit"])
def test_dtypes(name: str, dtype: str) -> None:
    same(lambda m: getattr(m.special, name)(m.tensor([1, 2, 3], dtype=getattr(m, dtype))), 2e-2)


def test_frozen_values() -> None:
    x = adjoint.tensor([0.5, 1.0, 2.5], dtype=adjoint.float64)
    np.testing.assert_allclose(adjoint.erf(x).numpy(), [0.52049987781, 0.84270079295, 0.99959304798], rtol=1e-10)
    np.testing.assert_allclose(adjoint.lgamma(x).numpy(), [0.57236494292, 0.0, 0.28468287047], atol=1e-10)
    np.testing.assert_allclose(adjoint.digamma(x).numpy(), [-1.96351002602, -0.57721566490, 0.70315664064], rtol=1e-10)
    np.testing.assert_allclose(adjoint.special.i1(x).numpy(), [0.25789430539, 0.56515910399, 2.51671624528], rtol=1e-10)


def test_error_function_of_many_numbers() -> None:
    x = np.linspace(-6, 6, 50_001)
    single = adjoint.erf(adjoint.tensor(x, dtype=adjoint.float32)).numpy()
    np.testing.assert_allclose(single, [math.erf(v) for v in x.astype(np.float32)], atol=3e-7)
    assert np.isnan(adjoint.erf(adjoint.full((5000,), math.nan)).numpy()).all()


def test_without_scipy() -> None:
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        "import adjoint\n"
        "x = adjoint.tensor([0.5, 2.0], dtype=adjoint.float64, requires_grad=True)\n"
        "adjoint.erf(x).sum().backward()\n"
        "assert abs(adjoint.lgamma(x)[1].item()) < 1e-12\n"
        "try:\n"
        "    adjoint.special.bessel_j0(x)\n"
        "except ImportError as error:\n"
        "    assert str(error).startswith('special.bessel_j0 is computed by SciPy'), error\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_namespace_is_whole() -> None:
    if torch is None:
        pytest.skip("torch, the oracle, is not installed")
    elsewhere = {"Tensor", "torch", "common_args", "multi_dim_common", "log_softmax", "softmax", "logsumexp"}
    assert {n for n in dir(torch.special) if not n.startswith("_")} - elsewhere <= set(adjoint.special.__all__)


def test_slope_of_digamma_in_single_precision() -> None:
    from scipy.special import polygamma

    values = np.concatenate([np.linspace(-1.9, 30.0, 57), [1e-3, 1e4, -7.3, np.inf]]).astype(np.float32)
    for chosen in (values[values > -2], values):  # few numbers by a sum, others by SciPy's zeta
        x = adjoint.tensor(chosen, requires_grad=True)
        x.digamma().sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), polygamma(1, chosen.astype(np.float64)), rtol=2e-6)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_log_of_added_exponentials_of_infinite_complex_numbers(dtype: str) -> None:
    """Of two that are empty, or both infinite, the difference is no number; sums of many are computed by the same."""
    inf, kind = math.inf, getattr(adjoint, dtype)
    x = adjoint.tensor([complex(-inf, 0), complex(-inf, 0), complex(1, 2), complex(inf, 0)], dtype=kind)
    y = adjoint.tensor([complex(-inf, 1), complex(1, 2), complex(-inf, 0), complex(inf, 0)], dtype=kind)
    expected = [complex(-inf, 1), complex(1, 2), complex(1, 2), complex(inf, 0)]
    assert adjoint.logaddexp(x, y).tolist() == expected
    assert adjoint.logcumsumexp(x, 0).tolist() == [complex(-inf, 0), complex(-inf, 0), complex(1, 2), complex(inf, 0)]
    if torch is not None:
        there = torch.logaddexp(torch.tensor(x.tolist()), torch.tensor(y.tolist()))
        assert there.tolist() == expected
