"""First values of parameters: torch's numbers under the same seed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, same

FILLED: list[tuple[tuple[int, ...], Any]] = [
    ((3, 4), lambda i, t: i.uniform_(t, -1, 2)),
    ((3, 4), lambda i, t: i.normal_(t, 1, 0.5)),
    ((30, 4), lambda i, t: i.normal_(t)),
    ((3, 4), lambda i, t: i.trunc_normal_(t, 0.5, 2, -1, 1)),
    ((30, 4), lambda i, t: i.trunc_normal_(t, 0.0, 1, -2, 2)),
    ((3, 4), lambda i, t: i.trunc_normal_(t, 0.0, 1, 1, 3)),
    ((30, 4), lambda i, t: i.trunc_normal_(t, 0.0, 1, -0.1, 0.1)),
    ((30, 4), lambda i, t: i.trunc_normal_(t.double(), 0.0, 1, -0.1, 0.1)),
    ((3, 4), lambda i, t: i.constant_(t, 2.5)),
    ((3, 4), lambda i, t: i.ones_(t)),
    ((3, 4), lambda i, t: i.zeros_(t)),
    ((3, 4), lambda i, t: i.eye_(t)),
    ((3,), lambda i, t: i.eye_(t)),
    ((4, 3, 3), lambda i, t: i.dirac_(t)),
    ((4, 3, 3, 2), lambda i, t: i.dirac_(t, groups=2)),
    ((3, 2, 1, 1, 1), lambda i, t: i.dirac_(t, groups=2)),
    ((3, 4), lambda i, t: i.dirac_(t)),
    ((3, 4), lambda i, t: i.xavier_uniform_(t, 2.0)),
    ((3, 4, 2), lambda i, t: i.xavier_normal_(t)),
    ((3, 4), lambda i, t: i.kaiming_uniform_(t, a=0.3, mode="fan_out")),
    ((3, 4, 5), lambda i, t: i.kaiming_normal_(t, nonlinearity="relu")),
    ((3,), lambda i, t: i.kaiming_normal_(t)),
    ((3, 4), lambda i, t: i.kaiming_normal_(t, mode="unknown")),
    ((3, 4), lambda i, t: i.kaiming_normal_(t, nonlinearity="unknown")),
    ((0, 4), lambda i, t: i.kaiming_normal_(t)),
    ((3, 5), lambda i, t: i.orthogonal_(t, gain=2)),
    ((5, 3), lambda i, t: i.orthogonal_(t)),
    ((4, 2, 3), lambda i, t: i.orthogonal_(t)),
    ((3,), lambda i, t: i.orthogonal_(t)),
    ((10, 4), lambda i, t: i.sparse_(t, 0.3, std=1.0)),
    ((3,), lambda i, t: i.sparse_(t, 0.3)),
    ((3, 4), lambda i, t: i.xavier_uniform(t)),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(FILLED)))
def test_filling(number: int) -> None:
    shape, fill = FILLED[number]

    def program(m: Any) -> Any:
        m.manual_seed(number)
        out = fill(m.nn.init, m.empty(shape, requires_grad=True))
        return out, out.requires_grad, out.is_leaf, m.rand(1)

    same(program, 1e-5)


@needs_torch
@pytest.mark.parametrize("given", [("linear",), ("tanh",), ("relu",), ("selu",), ("leaky_relu",), ("leaky_relu", 0.2),
                                   ("sigmoid",), ("conv_transpose2d",), ("leaky_relu", "x"), ("unknown",)])  # fmt: skip
def test_gain(given: Any) -> None:
    same(lambda m: m.nn.init.calculate_gain(*given))


def test_orthogonal_rows() -> None:
    t = adjoint.nn.init.orthogonal_(adjoint.empty(3, 6))
    np.testing.assert_allclose((t @ t.T).tolist(), np.eye(3), atol=1e-6)


def test_old_names_say_so() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adjoint.nn.init.constant(adjoint.empty(2), 1.0)
    assert caught[0].category is FutureWarning
    assert "in favor of `nn.init.constant_`" in str(caught[0].message)


def test_own_generator() -> None:
    a, b = (adjoint.nn.init.normal_(adjoint.empty(4), generator=adjoint.Generator().manual_seed(3)) for _ in range(2))
    assert (a == b).all()
