"""Probability distributions: densities, samples that carry gradients, divergences, transforms."""

from __future__ import annotations

from .._paths import lead_to
from . import constraint_registry, constraints, kl, transforms, utils
from .bernoulli import Bernoulli, ContinuousBernoulli, Geometric, RelaxedBernoulli
from .categorical import (
    Categorical,
    MixtureSameFamily,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    RelaxedOneHotCategorical,
)
from .composed import Independent, TransformedDistribution
from .constraint_registry import biject_to, transform_to
from .counts import Binomial, NegativeBinomial, Poisson
from .distribution import Distribution, ExponentialFamily
from .gamma import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma, InverseGamma, StudentT
from .kl import kl_divergence, register_kl
from .location import Cauchy, HalfCauchy, HalfNormal, Laplace, LogisticNormal, LogNormal, Normal, VonMises
from .multivariate import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from .transforms import *  # noqa: F403
from .uniform import GeneralizedPareto, Gumbel, Kumaraswamy, Pareto, Uniform, Weibull

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
    "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
    "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "kl_divergence", "register_kl", "transform_to",
]  # fmt: skip
__all__ += transforms.__all__

lead_to(
    __name__,
    {
        "bernoulli": "continuous_bernoulli geometric relaxed_bernoulli",
        "categorical": "mixture_same_family multinomial one_hot_categorical relaxed_categorical",
        "composed": "independent transformed_distribution",
        "counts": "binomial negative_binomial poisson",
        "distribution": "exp_family",
        "gamma": "beta chi2 dirichlet exponential fishersnedecor inverse_gamma studentT",
        "location": "cauchy half_cauchy half_normal laplace log_normal logistic_normal normal von_mises",
        "multivariate": "lkj_cholesky lowrank_multivariate_normal multivariate_normal wishart",
        "uniform": "generalized_pareto gumbel kumaraswamy pareto weibull",
    },
)
