"""``torch.quasirandom``: Sobol's points, by SciPy. They fill a cube more evenly than random ones."""

from __future__ import annotations

import warnings
from typing import Any

from .core import dtypes
from .ops.create import empty, from_numpy
from .ops.random import default_generator

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points of Sobol's sequence in the unit cube; `scramble` shifts them at random.

    Examples
    --------
    >>> adjoint.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        if scramble and seed is None:
            seed = int(empty((), dtype=dtypes.int64).random_(0, 2**31, generator=default_generator).item())
        self._scrambling = seed
        self.num_generated = 0
        self._engine = self._new()

    def _new(self) -> Any:
        try:
            from scipy.stats import qmc
        except ImportError as error:
            raise ImportError("SobolEngine needs SciPy, which is not installed here; pip install scipy") from error
        return qmc.Sobol(self.dimension, scramble=self.scramble, seed=self._scrambling)

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """Return the next `n` points."""
        with warnings.catch_warnings():  # SciPy says that n should be a power of 2; torch leaves that to the caller
            warnings.simplefilter("ignore")
            points = self._engine.random(n) if n else self._engine.random(1)[:0]
        self.num_generated += n
        drawn = from_numpy(points).to(dtypes.default() if dtype is None else dtype)
        if out is None:
            return drawn
        return out.resize_as_(drawn).copy_(drawn)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """Return the next ``2**m`` points."""
        n, total = 2**m, self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2; {self.num_generated} points "
                f"were generated before, then n=2**{m}={n}"
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin again."""
        self.num_generated = 0
        self._engine = self._new()
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out `n` points."""
        self._engine.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        scramble = ", scramble=True" if self.scramble else ""
        seed = f", seed={self.seed}" if self.seed is not None else ""
        return f"SobolEngine(dimension={self.dimension}{scramble}{seed})"
