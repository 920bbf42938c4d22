"""The F-distribution."""

from __future__ import annotations

from numbers import Number
from typing import Any

from .._typing import Tensor
from ..core.dtypes import finfo
from ..core.size import Size
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all, ops

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The distribution of the ratio of two mean squares, of `df1` and `df2` normal numbers."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        numbers = isinstance(df1, Number) and isinstance(df2, Number)
        super().__init__(Size(()) if numbers else self.df1.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = super().expand(batch_shape, _instance)
        new._gamma1, new._gamma2 = self._gamma1.expand(batch_shape), self._gamma2.expand(batch_shape)
        return new

    def _where_df2_above(self, least: int) -> Tensor:
        df2 = self.df2.clone()
        df2[df2 <= least] = float("nan")
        return df2

    @property
    def mean(self) -> Tensor:
        """The mean, where there is one."""
        df2 = self._where_df2_above(2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """The densest value, where it is inside."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        mode[self.df1 <= 2] = float("nan")
        return mode

    @property
    def variance(self) -> Tensor:
        """The variance, where there is one."""
        df2 = self._where_df2_above(4)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw such that gradients reach both parameters."""
        shape = self._extended_shape(sample_shape)
        above = self._gamma1.rsample(sample_shape).view(shape)
        below = self._gamma2.rsample(sample_shape).view(shape)
        below.detach().clamp_(min=finfo(below.dtype).tiny)
        ratio = above / below
        ratio.detach().clamp_(min=finfo(below.dtype).tiny)
        return ratio

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        body = half1 * ratio.log() + (half1 - 1) * ops.log(value)
        return norm + body - (half1 + half2) * ops.log1p(ratio * value)
