"""Sobol's points against torch's."""

from __future__ import annotations

import pytest

import adjoint

from .oracle import needs_torch, torch

pytest.importorskip("scipy", reason="draws the points")


@needs_torch
def test_points_equal_torch() -> None:
    for dimension in (1, 2, 5):
        mine, theirs = adjoint.quasirandom.SobolEngine(dimension), torch.quasirandom.SobolEngine(dimension)
        for n in (1, 2, 5, 8):
            assert mine.draw(n).tolist() == theirs.draw(n).tolist()
        assert mine.reset().draw_base2(3).tolist() == theirs.reset().draw_base2(3).tolist()
        assert repr(mine) == repr(theirs)


def test_scrambled_points_fill_the_cube() -> None:
    engine = adjoint.quasirandom.SobolEngine(3, scramble=True, seed=1)
    points = engine.draw(64)
    assert points.shape == (64, 3) and points.min() >= 0 and points.max() < 1
    assert (points.mean(0) - 0.5).abs().max() < 0.02
    assert engine.reset().fast_forward(32).draw(32).tolist() == points[32:].tolist()
    with pytest.raises(ValueError, match="dimensionality"):
        adjoint.quasirandom.SobolEngine(0)
    with pytest.raises(ValueError, match="power of 2"):
        adjoint.quasirandom.SobolEngine(1).fast_forward(3).draw_base2(3)
