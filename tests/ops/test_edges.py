"""Values and gradients at the edges of domains: NaN, zeros in products, negative bases; torch or differences judge."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
from tests.oracle import needs_torch, same

nan = float("nan")
EXTREMES = ("min", "max", "amin", "amax", "median", "nanmedian")


@needs_torch
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("values", [[1.0, nan, 3.0], [nan, nan, 1.0], [[1.0, nan], [2.0, 3.0]], [2.0, 2.0, 1.0]])
def test_gradient_of_an_extreme_with_nan(name: str, values: Any) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(values, dtype=m.float64, requires_grad=True)
        out = getattr(m, name)(x)
        return [out, *m.autograd.grad(out, x)]

    same(program)


@needs_torch
@pytest.mark.parametrize("base", [-2.0, -1, 2.0, 0.0, 1 + 1j, -2 + 0j])
@pytest.mark.parametrize("power", [1 + 1j, 2 + 0j, 0.5 + 0j, -1 + 2j])
def test_gradient_of_a_complex_power(base: Any, power: complex) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(power, dtype=m.complex128, requires_grad=True)
        return list(m.autograd.grad((base**x).abs(), x)) if base or (power.real > 0 and not power.imag) else []

    same(program)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize(
    "source", [[0.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 0.0], [1.0, 2.0, 0.0, 4.0], [0.0, 0.0, 0.0, 1.0]]
)
@pytest.mark.parametrize("index", [[0, 0, 1, 1], [0, 0, 0, 1], [2, 0, 2, 0]])
@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_derivatives_of_a_product_with_zeros(name: str, index: Any, source: Any, include_self: bool) -> None:
    x = adjoint.tensor([2.0, 0.0, 5.0], dtype=adjoint.float64, requires_grad=True)
    y = adjoint.tensor(source, dtype=adjoint.float64, requires_grad=True)
    f = lambda x, y: getattr(x, name)(0, adjoint.tensor(index), y, "prod", include_self=include_self)
    assert adjoint.autograd.gradcheck(f, (x, y))
    assert adjoint.autograd.gradgradcheck(f, (x, y))


@needs_torch
@pytest.mark.parametrize("eps", [None, 0.0, 0.1, 0.4, 0.5, 0.6, 0.9, 1.0])
def test_logit_with_crossed_bounds(eps: float | None) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([0.0, 0.05, 0.3, 0.5, 0.55, 0.7, 0.95, 1.0, nan], dtype=m.float64, requires_grad=True)
        return [m.logit(x, eps=eps), *m.autograd.grad(m.logit(x, eps=eps).sum(), x)]

    same(program)
