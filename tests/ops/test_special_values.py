"""Every machine form of every elementwise primitive gives the same at special values, and torch agrees.

A sample of what `python -m tests.ops.special_values` compares; tests/gpu/test_special_values.py has the forms on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch

from . import special_values
from .special_values import Case, Difference, cases, differences

_PARTS = 6
F = adjoint.nn.functional


def shown(found: list[Difference]) -> str:
    return "\n".join(map(str, found[:20]))


def sampled(dtype: str, part: int, step: int = 1) -> list[Case]:
    return list(cases(dtypes=[dtype]))[part :: _PARTS * step]


def test_every_elementwise_primitive_has_a_program() -> None:
    assert all(special_values.programs(name) for name in special_values.names())


@needs_torch
@pytest.mark.parametrize("part", range(_PARTS))
def test_torch_agrees(part: int) -> None:
    found = [d for case in sampled("float32", part) for d in differences(case, "eager", "torch")]
    assert not found, shown(found)


@needs_torch
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "bool"])
def test_torch_agrees_in_other_dtypes(dtype: str) -> None:
    found = [d for case in sampled(dtype, 0) for d in differences(case, "eager", "torch")]
    assert not found, shown(found)


@pytest.mark.parametrize("part", range(_PARTS))
def test_compiled_loops_of_large_arrays_agree(part: int) -> None:
    found = [d for case in sampled("float32", part) for d in differences(case, "large")]
    assert not found, shown(found)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32"])
def test_large_arrays_of_other_dtypes_agree(dtype: str) -> None:
    found = [d for case in sampled(dtype, 1) for d in differences(case, "large")]
    assert not found, shown(found)


def test_large_arrays_without_compiled_loops_agree() -> None:
    found = [d for case in sampled("float32", 2) for d in differences(case, "provider")]
    assert not found, shown(found)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_compiled_programs_agree(dtype: str) -> None:
    found = [d for case in sampled(dtype, 3, 2) for d in differences(case, "compiled")]
    assert not found, shown(found)


_DIFFERED = (
    "F.gelu(x)", "F.mish(x)", "F.logsigmoid(x)", "T.logical_not(x)", "T.tanh(x)", "T.sin(x)", "T.erf(x)",
    "T.addcmul(x, y, z, value=0.5)", "T.where(x > 0, x, T.exp(x))", "T.special.laguerre_polynomial_l(x, y)",
)  # fmt: skip


@pytest.mark.parametrize("text", _DIFFERED)
def test_programs_that_have_differed(text: str) -> None:
    for form in ("large", "compiled"):
        found = differences(Case(text, "float32"), form)
        assert not found, shown(found)


def gradient(function: Any, x: float, dtype: Any = adjoint.float32) -> float:
    leaf = adjoint.tensor([x], dtype=dtype, requires_grad=True)
    (g,) = adjoint.autograd.grad(function(leaf).sum(), leaf, create_graph=True)
    return float(g)


def test_values_that_were_wrong() -> None:
    assert np.isnan(gradient(F.hardswish, np.nan)) and gradient(adjoint.abs, np.nan) == 0
    assert gradient(F.mish, 9.0, adjoint.float16) == 1.0  # the rule's square is no 16-bit float
    half = adjoint.tensor([np.inf, -np.inf, np.nan], dtype=adjoint.float16)
    assert adjoint.nan_to_num(half).tolist() == [65504.0, -65504.0, 0.0]
    assert adjoint.round(adjoint.tensor([60000.0], dtype=adjoint.float16), decimals=2).item() == 60000.0
    assert np.signbit(adjoint.relu(adjoint.tensor([-0.0])).numpy())[0]
    assert adjoint.special.chebyshev_polynomial_t(adjoint.tensor(2.0), adjoint.tensor(np.nan)).item() == 0.0
    assert adjoint.special.spherical_bessel_j0(adjoint.tensor(np.inf)).item() == 0.0
