"""Elementwise primitives on a GPU at special values: denormals are no zeros, and small CPU arrays give the same."""

from __future__ import annotations

import pytest

import adjoint
from tests.ops.special_values import cases, differences, names

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("form", ["eager", "compiled"])
def test_a_gpu_gives_what_small_arrays_give(form: str, name: str) -> None:
    for case in cases([name], ["float32"]):
        found = differences(case, form, device="cuda")
        assert not found, "\n".join(map(str, found[:20]))


@pytest.mark.parametrize("name", ["exp", "gelu", "where", "sqrt", "nan_to_num", "div"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_dtypes_too(dtype: str, name: str) -> None:
    for case in cases([name], [dtype]):
        found = differences(case, "eager", device="cuda")
        assert not found, "\n".join(map(str, found[:20]))


def test_denormals_are_numbers() -> None:
    x = adjoint.tensor([1e-42], device="cuda", requires_grad=True)
    assert adjoint.where(x > 0, x, adjoint.exp(x)).item() == x.item()
    assert adjoint.autograd.grad(adjoint.relu(x).sum(), x)[0].item() == 1
    assert adjoint.sqrt(x).item() > 0 and adjoint.log(x).item() > -100
    assert adjoint.addcdiv(x, x, x).item() == 1
