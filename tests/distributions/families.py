"""One table of distributions: how to make each on adjoint or on torch, from arrays."""

from __future__ import annotations

from typing import Any

A = [0.3, 1.7, 2.5]
P = [0.2, 0.5, 0.9]
M = [[2.0, 0.3], [0.3, 1.0]]
L = [[1.2, 0.0], [0.4, 0.8]]

# A name, the class, its parameters (lists become float64 leaves), and what else it takes.
TABLE: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("normal", "Normal", {"loc": [0.0, 1.0, -2.0], "scale": A}, {}),
    ("log_normal", "LogNormal", {"loc": [0.0, 1.0, -2.0], "scale": [0.3, 0.7, 1.0]}, {}),
    ("half_normal", "HalfNormal", {"scale": A}, {}),
    ("half_cauchy", "HalfCauchy", {"scale": A}, {}),
    ("cauchy", "Cauchy", {"loc": [0.0, 1.0, -2.0], "scale": A}, {}),
    ("laplace", "Laplace", {"loc": [0.0, 1.0, -2.0], "scale": A}, {}),
    ("gumbel", "Gumbel", {"loc": [0.0, 1.0, -2.0], "scale": A}, {}),
    ("exponential", "Exponential", {"rate": A}, {}),
    ("gamma", "Gamma", {"concentration": A, "rate": [1.0, 0.5, 2.0]}, {}),
    ("inverse_gamma", "InverseGamma", {"concentration": [0.7, 1.7, 2.5], "rate": [1.0, 0.5, 2.0]}, {}),
    ("chi2", "Chi2", {"df": [1.0, 2.5, 7.0]}, {}),
    ("beta", "Beta", {"concentration1": A, "concentration0": [0.6, 1.0, 4.0]}, {}),
    ("dirichlet", "Dirichlet", {"concentration": [[0.5, 1.5, 3.0], [2.0, 2.0, 1.0]]}, {}),
    ("student", "StudentT", {"df": [0.8, 1.7, 4.5], "loc": [0.0, 1.0, -1.0], "scale": A}, {}),
    ("fisher", "FisherSnedecor", {"df1": [1.0, 3.0, 5.0], "df2": [2.0, 3.5, 9.0]}, {}),
    ("uniform", "Uniform", {"low": [0.0, -1.0, 2.0], "high": [1.0, 3.0, 2.5]}, {}),
    ("pareto", "Pareto", {"scale": A, "alpha": [0.8, 1.5, 3.0]}, {}),
    ("generalized_pareto", "GeneralizedPareto",
     {"loc": [0.0, 1.0, -2.0], "scale": A, "concentration": [0.0, 0.3, -0.4]}, {}),
    ("weibull", "Weibull", {"scale": A, "concentration": [0.7, 1.5, 3.0]}, {}),
    ("kumaraswamy", "Kumaraswamy", {"concentration1": [0.5, 1.5, 3.0], "concentration0": [0.6, 2.0, 4.0]}, {}),
    ("von_mises", "VonMises", {"loc": [0.0, 1.0, -2.0], "concentration": [0.1, 2.0, 20.0]}, {}),
    ("bernoulli", "Bernoulli", {"probs": [0.2, 0.6, 0.9]}, {}),
    ("bernoulli_logits", "Bernoulli", {"logits": [-1.0, 0.5, 2.0]}, {}),
    ("binomial", "Binomial", {"probs": [0.2, 0.6, 0.9]}, {"total_count": 5}),
    ("binomial_logits", "Binomial", {"logits": [-1.0, 0.5, 2.0]}, {"total_count": 20}),
    ("negative_binomial", "NegativeBinomial", {"total_count": [1.0, 3.0, 5.0], "probs": [0.2, 0.5, 0.8]}, {}),
    ("negative_binomial_logits", "NegativeBinomial", {"logits": [-1.0, 0.5, 1.0]}, {"total_count": 3}),
    ("geometric", "Geometric", {"probs": P}, {}),
    ("geometric_logits", "Geometric", {"logits": [-1.0, 0.5, 2.0]}, {}),
    ("poisson", "Poisson", {"rate": [0.3, 4.0, 15.0]}, {}),
    ("categorical", "Categorical", {"probs": [[0.2, 0.3, 0.5], [1.0, 2.0, 3.0]]}, {}),
    ("categorical_logits", "Categorical", {"logits": [[0.2, -0.3, 0.5], [1.0, 2.0, 3.0]]}, {}),
    ("one_hot", "OneHotCategorical", {"probs": [[0.2, 0.3, 0.5], [1.0, 2.0, 3.0]]}, {}),
    ("straight_through", "OneHotCategoricalStraightThrough", {"logits": [0.2, -0.3, 0.5]}, {}),
    ("multinomial", "Multinomial", {"probs": [[0.2, 0.3, 0.5], [1.0, 2.0, 3.0]]}, {"total_count": 6}),
    ("continuous_bernoulli", "ContinuousBernoulli", {"probs": [0.1, 0.5001, 0.9]}, {}),
    ("continuous_bernoulli_logits", "ContinuousBernoulli", {"logits": [-2.0, 0.0005, 1.0]}, {}),
    ("relaxed_bernoulli", "RelaxedBernoulli", {"temperature": [0.7], "probs": [0.2, 0.5, 0.9]}, {}),
    ("relaxed_one_hot", "RelaxedOneHotCategorical",
     {"temperature": [0.7], "probs": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]}, {}),
    ("logistic_normal", "LogisticNormal", {"loc": [[0.0, 0.5], [1.0, -1.0]], "scale": [[1.0, 0.5], [0.3, 1.0]]}, {}),
    ("multivariate", "MultivariateNormal", {"loc": [[0.0, 1.0], [2.0, 3.0], [1.0, 1.0]], "covariance_matrix": M}, {}),
    ("multivariate_precision", "MultivariateNormal", {"loc": [0.0, 1.0], "precision_matrix": M}, {}),
    ("multivariate_tril", "MultivariateNormal", {"loc": [0.0, 1.0], "scale_tril": [L, L]}, {}),
    ("lowrank", "LowRankMultivariateNormal",
     {"loc": [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0]], "cov_factor": [[1.0], [0.5], [-0.3]], "cov_diag": A}, {}),
    ("wishart", "Wishart", {"df": [3.0, 4.5], "covariance_matrix": M}, {}),
    ("wishart_tril", "Wishart", {"df": 4.0, "scale_tril": L}, {}),
    ("lkj", "LKJCholesky", {"concentration": [0.7, 1.0, 3.0]}, {"dim": 3}),
]  # fmt: skip
NAMES = [row[0] for row in TABLE]
_ROWS = {row[0]: row for row in TABLE}


# Torch compares its concentration with a float32 zero, and so refuses float64.
SINGLE = {"generalized_pareto"}


def parameters(m: Any, name: str, grad: bool = False, dtype: str = "float64") -> dict[str, Any]:
    kind = m.float32 if name in SINGLE else getattr(m, dtype)
    return {k: m.tensor(v, dtype=kind, requires_grad=grad) for k, v in _ROWS[name][2].items()}


def make(m: Any, name: str, given: dict[str, Any] | None = None, **options: Any) -> Any:
    _, kind, _, rest = _ROWS[name]
    return getattr(m.distributions, kind)(**(parameters(m, name) if given is None else given), **rest, **options)
