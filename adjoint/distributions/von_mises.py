"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..core.dtypes import float64
from ..core.size import Size
from ..ops.special import i0e, i1e
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, ops

__all__ = ["VonMises"]


class VonMises(Distribution):
    """The normal distribution of the circle: angles around `loc`, the closer the greater `concentration`."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(()), validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # log I0(k) = log(exp(-k) I0(k)) + k, and the k goes into the cosine: nothing overflows
        return k * (ops.cos(value - self.loc) - 1) - math.log(2 * math.pi) - i0e(k).log()

    # Angles are drawn in double precision: in single, small concentrations never end.

    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.to(float64)

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.to(float64)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        k = self._concentration
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return ops.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw angles by rejection from a wrapped Cauchy distribution (D. J. Best and N. I. Fisher, 1979)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            x = ops.zeros(shape, dtype=float64, device=self.loc.device)
            loc, k, r = (v.expand(shape) for v in (self._loc, self._concentration, self._proposal_r))
            done = ops.zeros(shape, device=self.loc.device) > 0
            while not done.all():
                u1, u2, u3 = ops.rand((3, *shape), dtype=float64, device=self.loc.device).unbind()
                z = ops.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = ops.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        return type(self)(
            self.loc.expand(batch_shape), self.concentration.expand(batch_shape), validate_args=self._validate_args
        )

    @property
    def mean(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)
