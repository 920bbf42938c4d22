"""Dropout draws torch's noise for the same seed; flags, gradients, writes and refusals are torch's."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
from adjoint.nn import functional
from tests.oracle import needs_torch, same, torch

NAMES = ["dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]
SHAPES = {"dropout1d": (3, 4, 5), "dropout3d": (2, 3, 2, 2, 2)}


def room(m: Any) -> Any:
    return functional if m is adjoint else torch.nn.functional


@needs_torch
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_noise(name: str, p: float, inplace: bool, dtype: str) -> None:
    def program(m: Any) -> Any:
        m.manual_seed(11)
        shape = SHAPES.get(name, (2, 3, 4, 5))
        leaf = m.linspace(1, 2, int(m.ones(shape).numel()), dtype=getattr(m, dtype)).reshape(shape).requires_grad_()
        x = leaf * 1
        out = getattr(room(m), name)(x, p, True, inplace)
        (g,) = m.autograd.grad((out * out).sum(), leaf)
        return [out, g, (out is x) == inplace or p == 0, getattr(room(m), name)(x, p, training=False) is x]

    same(program, 1e-6)


@needs_torch
def test_without_a_batch() -> None:
    def program(m: Any) -> Any:
        m.manual_seed(2)
        return [
            room(m).dropout1d(m.ones(6, 3)),
            room(m).dropout2d(m.ones(6, 3, 2)),
            room(m).dropout3d(m.ones(6, 2, 2, 2)),
        ]

    same(program)


@needs_torch
def test_under_torch() -> None:
    def program(m: Any) -> Any:
        m.manual_seed(2)
        x = m.ones(6, 3)
        return [
            m.dropout(x, 0.5, True), m.feature_dropout(x, 0.5, True), m.alpha_dropout(x, 0.5, True),
            m.feature_alpha_dropout(x, 0.5, True), m.native_dropout(x, 0.5, True), m.dropout_(x.clone(), 0.2, True),
        ]  # fmt: skip

    same(program, 1e-6)


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_refusals(name: str) -> None:
    same(lambda m: getattr(room(m), name)(m.ones(2, 3, 4), 1.5, True))
    same(lambda m: room(m).dropout1d(m.ones(2), 0.5))


def test_frozen() -> None:
    adjoint.manual_seed(0)
    assert functional.dropout(adjoint.ones(8), 0.5).unique().tolist() == [0.0, 2.0]
