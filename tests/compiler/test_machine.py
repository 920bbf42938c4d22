"""Functions of single numbers in machine code: every one there is has a translation, and means what NumPy's does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as torch

pytest.importorskip("numba", reason="loops are compiled where Numba is installed")

from adjoint.compiler.kernels import code
from adjoint.compiler.loops import Kind
from adjoint.devices.cpu.mathematics import NAMES
from tests.compiler.programs import ROUNDED

NUMPY: dict[str, Any] = {
    "erf": np.vectorize(math.erf),
    "log1p_exp": lambda x: np.logaddexp(0, x),
    "normal_cdf": np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "expm1_below": np.expm1,
    "exp_below": np.exp,
    "bounded_exp": np.exp,
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
}
POINTS = [-0.95, -0.5, -1e-3, 0.0, 1e-3, 0.25, 0.9]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_function_is_translated(name: str) -> None:
    function, dtype = name[:-2], {"32": np.float32, "64": np.float64}[name[-2:]]
    x = np.array(POINTS, dtype)
    x = {"log": np.abs(x) + 1, "log2": np.abs(x) + 1, "sqrt": np.abs(x), "power": np.abs(x) + 1}.get(function, x)
    x = -np.abs(x) if function.endswith("_below") else x
    given = [x, x[::-1].copy()] if function in ("power", "logaddexp", "hypot") else [x]
    out = np.empty_like(x)
    names = ["a", "b"][: len(given)]
    text = f"{name}({', '.join(f'{n}[i]' for n in names)})"
    source = f"def loop({', '.join(names)}, out):\n    for i in range(a.shape[0]):\n        out[i] = {text}\n"
    kinds = [Kind(x.dtype.name, 1, True, (0,), i) for i in range(len(given) + 1)]
    code.loop(source, kinds)(*given, out)()
    expected = NUMPY.get(function, getattr(np, function, None))(*(g.astype(np.float64) for g in given))
    np.testing.assert_allclose(out, expected, rtol=2e-6 if dtype is np.float32 else 1e-13, atol=1e-7 * (x.itemsize < 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gelu(dtype: Any) -> None:
    def step(x: Any) -> Any:
        y = torch.nn.functional.gelu(x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        return y.detach(), grad

    compiled = torch.compile(step)
    for _ in range(3):
        x = (torch.randn(4, 5, dtype=dtype) * 4).requires_grad_()
        for found, expected in zip(compiled(x), step(x), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ROUNDED)
def test_every_op_is_rounded(name: str, dtype: Any) -> None:
    # Bit for bit what the eager program computes: users compare, round and compensate.
    torch.manual_seed(0)
    compiled = torch.compile(ROUNDED[name])
    for _ in range(3):
        x, y = torch.randn(9, 40, dtype=dtype), torch.randn(9, 40, dtype=dtype)
        found, expected = compiled(x, y), ROUNDED[name](x, y)
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        for a, b in pairs:
            np.testing.assert_array_equal(a.numpy(), b.numpy())
