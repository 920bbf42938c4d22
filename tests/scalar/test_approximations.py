"""Special functions without SciPy: accuracy against mpmath, edges, and that backward passes do not need it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import mpmath
import numpy as np
import pytest

from adjoint.scalar import approximations

rng = np.random.default_rng(0)
small = 10.0 ** rng.uniform(-8, -1, 25)

# The function, the same of mpmath, where, and the bound on errors in units in the last place. Relative errors of psi
# near its root, and of ndtr far into the tail (where its argument's rounding error counts), are larger.
TABLE: dict[str, tuple[Any, Any, int]] = {
    "psi": (mpmath.digamma, np.concatenate([rng.uniform(1.6, 30, 60), rng.uniform(0.01, 1.3, 40), 10 * small]), 30),
    "zeta": (lambda x: mpmath.zeta(3, x), np.concatenate([rng.uniform(0.01, 40, 80)]), 8),
    "erfinv": (mpmath.erfinv, np.concatenate([rng.uniform(-1, 1, 80), 1 - small, small]), 4),
    "ndtri": (
        lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1),
        np.concatenate([rng.uniform(0.001, 0.999, 60), small]),
        8,
    ),
    "ndtr": (mpmath.ncdf, rng.uniform(-6, 6, 60), 64),
    "log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), rng.uniform(-100, 3, 80), 32),
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), rng.uniform(-4, 60, 100), 32),
    "i0": (lambda x: mpmath.besseli(0, x), rng.uniform(-200, 200, 100), 32),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), rng.uniform(-100, 100, 100), 32),
    "i1": (lambda x: mpmath.besseli(1, x), rng.uniform(-200, 200, 100), 32),
    "i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), rng.uniform(-100, 100, 100), 32),
}


@pytest.mark.parametrize("name", TABLE)
def test_accuracy(name: str) -> None:
    exact, where, bound = TABLE[name]
    function = getattr(approximations, name)
    with np.errstate(all="ignore"):
        found = function(np.float64(3), where) if name == "zeta" else function(where)
    with mpmath.workdps(50):
        for x, y in zip(where, found, strict=True):
            true = exact(mpmath.mpf(float(x)))
            assert abs(mpmath.mpf(float(y)) - true) <= bound * np.spacing(abs(float(true))), (x, y, true)


EDGES = np.array([0.0, -0.0, 1.0, -1.0, -2.5, -3.0, 0.5, 40.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", [n for n in TABLE if n != "zeta"])
def test_edges_are_scipys(name: str) -> None:
    special = pytest.importorskip("scipy.special")
    with np.errstate(all="ignore"):
        found, expected = getattr(approximations, name)(EDGES), getattr(special, name)(EDGES)
    exact = ~np.isinf(EDGES) if name in ("i0", "i1") else ...  # where SciPy has NaN for infinity
    np.testing.assert_allclose(found[exact], expected[exact], rtol=1e-12)


PROGRAM = """
import sys
sys.modules["scipy"] = None  # as if it were not installed
import adjoint as torch

x = torch.tensor([0.3, 0.7, 0.9], requires_grad=True)
for f in (torch.lgamma, torch.digamma, lambda x: torch.polygamma(2, x), torch.erfinv, torch.i0, torch.special.i0e,
          torch.special.i1, torch.special.i1e, torch.special.ndtri, torch.special.log_ndtr, torch.special.erfcx,
          lambda x: torch.mvlgamma(x + 2, 2), lambda x: torch.special.zeta(2.0, x)):
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    g.sum().backward()
assert torch.isfinite(x.grad).all()
torch.distributions.Beta(x, x).rsample().sum().backward()
torch.distributions.Gamma(x, x).entropy().sum().backward()
try:
    torch.igamma(x, x)
except ImportError as error:
    print(error)
"""


def test_backward_passes_do_not_need_scipy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("igamma is computed by SciPy")
