"""Recurrent layers, runs of rows, coordinates and diagonals against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, same

from .test_elementwise import gradients

rng = np.random.default_rng(5)
GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}


def floats(*shape: int) -> Any:
    return (rng.normal(size=shape) * 0.7).tolist()


@needs_torch
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", GATES)
def test_cells(name: str, biased: bool) -> None:
    k = GATES[name]
    values = [floats(2, 3), floats(2, 4), floats(4 * k, 3), floats(4 * k, 4)]
    values += [floats(4 * k), floats(4 * k)] if biased else []

    def cell(m: Any, x: Any, h: Any, *weights: Any) -> Any:
        out = getattr(m, name + "_cell")(x, (h, h * 0.5) if name == "lstm" else h, *weights)
        return out[0] + out[1] * 2 if name == "lstm" else out

    same(lambda m: gradients(m, cell, *values), 1e-8)


def weights(m: Any, name: str, layers: int, directions: int, biased: bool, project: int = 0) -> list[Any]:
    generator = np.random.default_rng(6)
    k, out, values = GATES[name], [], 3
    for layer in range(layers):
        width = values if layer == 0 else (project or 4) * directions
        for _ in range(directions):
            shapes = [(4 * k, width), (4 * k, project or 4)] + [(4 * k,)] * 2 * biased + [(project, 4)] * bool(project)
            out += [m.tensor((generator.normal(size=s) * 0.5).tolist(), dtype=m.float64) for s in shapes]
    return [w.requires_grad_() for w in out]


@needs_torch
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("layers", "bidirectional", "biased", "first"),
    [(1, False, True, False), (2, True, False, True), (2, True, True, False)],
)
@pytest.mark.parametrize("name", GATES)
def test_stacks(name: str, layers: int, bidirectional: bool, biased: bool, first: bool, packed: bool) -> None:
    def program(m: Any) -> Any:
        directions = 2 if bidirectional else 1
        params = weights(m, name, layers, directions, biased)
        h = m.linspace(-1, 1, layers * directions * 12, dtype=m.float64).reshape(-1, 3, 4).requires_grad_()
        hx = (h, h * 0.3) if name == "lstm" else h
        if packed:
            x = m.linspace(-1, 1, 24, dtype=m.float64).reshape(8, 3).requires_grad_()
            out, *last = getattr(m, name)(
                x, m.tensor([3, 3, 1, 1]), hx, params, biased, layers, 0.0, True, bidirectional
            )
        else:
            x = m.linspace(-1, 1, 45, dtype=m.float64).reshape((3, 5, 3) if first else (5, 3, 3)).requires_grad_()
            out, *last = getattr(m, name)(x, hx, params, biased, layers, 0.0, True, bidirectional, first)
        total = (out * out).sum() + sum((s * s).sum() for s in last)
        return [out, *last, *m.autograd.grad(total, [x, h, *params])]

    same(program, 1e-8)


@needs_torch
def test_projection() -> None:
    def program(m: Any) -> Any:
        params = weights(m, "lstm", 1, 1, True, project=2)
        hx = (m.ones(1, 3, 2, dtype=m.float64), m.ones(1, 3, 4, dtype=m.float64))
        return m.lstm(m.ones(5, 3, 3, dtype=m.float64), hx, params, True, 1, 0.0, False, False, False)

    same(program, 1e-8)


# --- Places -----------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("initial", [None, 1.5])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce: str, initial: float | None) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([[1.0, 5.0], [3.0, 2.0], [0.5, 4.0], [2.0, 1.0]], dtype=m.float64, requires_grad=True)
        out = m.segment_reduce(x, reduce, lengths=m.tensor([2, 0, 2]), initial=initial)
        (g,) = m.autograd.grad(m.nan_to_num(out, posinf=0.0, neginf=0.0).sum(), x)
        return [out, g]

    same(program, 1e-9)


@needs_torch
def test_places() -> None:
    same(lambda m: m.unravel_index(m.tensor([[3, 11], [0, 7]]), (2, 3, 2)))
    same(lambda m: m.unravel_index(m.tensor([1.0]), (2, 3)))
    for shape, again in (((3, 4), False), ((7, 3), False), ((7, 3), True), ((3, 3, 3), False)):
        same(lambda m: m.zeros(shape).fill_diagonal_(2.5, again))
    same(lambda m: m.zeros(3).fill_diagonal_(1))

    def differentiated(m: Any) -> Any:
        x = m.ones(3, 3, requires_grad=True)
        y = x * 2
        y.fill_diagonal_(0)
        y.sum().backward()
        return [y, x.grad]

    same(differentiated)
    same(lambda m: m.solve(m.ones(2, 2), m.ones(2, 2)))


def test_frozen() -> None:
    h = adjoint.rnn_tanh_cell(adjoint.ones(1, 1), adjoint.ones(1, 1), adjoint.ones(1, 1), adjoint.ones(1, 1))
    np.testing.assert_allclose(h.numpy(), [[np.tanh(2.0)]], rtol=1e-6)
