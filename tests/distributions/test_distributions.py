"""Every distribution against torch: densities, moments, quantiles, gradients, expansion, draws, refusals."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, outcome, same, torch

from .families import NAMES, SINGLE, make, parameters

# Torch's own mode is NaN (a logarithm of a negative number); ours is the closed form.
WRONG_IN_TORCH = {("kumaraswamy", "mode")}


def draws(name: str, shape: tuple[int, ...] = (4,)) -> Any:
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's Wishart takes good draws for singular ones
        return make(torch, name).sample(shape).numpy()


def asked(d: Any, what: str, x: Any, m: Any) -> Any:
    """Return what a distribution answers; None where torch has no answer."""
    if what in ("log_prob", "cdf"):
        return getattr(d, what)(x)
    if what == "icdf":
        return d.icdf(m.tensor([[0.1], [0.5], [0.9]], dtype=m.float64))
    if what in ("entropy", "perplexity"):
        return getattr(d, what)()
    return getattr(d, what)


@needs_torch
@pytest.mark.parametrize("what", ["log_prob", "cdf", "icdf", "entropy", "mean", "variance", "stddev", "mode"])
@pytest.mark.parametrize("name", NAMES)
def test_answers_and_gradients(name: str, what: str) -> None:
    if (name, what) in WRONG_IN_TORCH:
        pytest.skip("torch's mode of this family is NaN")
    values = draws(name)

    def program(m: Any) -> Any:
        given = parameters(m, name, grad=True)
        x = m.from_numpy(values.copy())
        leaves = list(given.values())
        if values.dtype.kind == "f":
            leaves.append(x.requires_grad_())
        try:
            d = make(m, name, given, validate_args=False)
            out = asked(d, what, x, m)
        except NotImplementedError:
            return "not implemented"
        found = [out]
        if out.requires_grad:
            weights = m.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape)
            grads = m.autograd.grad((out * weights).sum(), leaves, allow_unused=True)
            found += [None if g is None else m.nan_to_num(g) for g in grads]
        return found

    kind, mine = outcome(program, adjoint)
    expected, theirs = outcome(program, torch)
    assert kind == expected, (mine, theirs)
    if kind == "value":
        _close(mine, theirs, 2e-5 if name in (*SINGLE, "von_mises") else 2e-6)


def _close(mine: Any, theirs: Any, tolerance: float) -> None:
    assert isinstance(mine, str) == isinstance(theirs, str), (mine, theirs)
    if isinstance(mine, str):
        return
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if a is None or b is None:  # an unused input may get zeros instead of None
            for other in (a, b):
                assert other is None or not np.any(other[0]), (i, a, b)
            continue
        assert a[1:] == b[1:], (i, a, b)
        np.testing.assert_allclose(a[0], b[0], rtol=tolerance, atol=tolerance / 20, err_msg=str(i))


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_shapes_repr_and_expand(name: str) -> None:
    def program(m: Any) -> Any:
        d = make(m, name)
        big = d.expand((2, *d.batch_shape))
        x = m.from_numpy(values.copy())
        again = [repr(big).replace("torch", "adjoint"), list(big.batch_shape), big.log_prob(x[:, None])]
        return [
            repr(d).replace("torch", "adjoint"), list(d.batch_shape), list(d.event_shape), d.has_rsample,
            d.has_enumerate_support, repr(d.support), again, list(big.sample((3,)).shape),
        ]  # fmt: skip

    values = draws(name)
    same(program, 1e-6)


# Torch hands exponential_ to MKL on Intel processors, whose stream is another; its Wishart draws again where
# the first draw was good.
_OWN_STREAM = {"exponential", "pareto", "weibull", "wishart", "wishart_tril"}


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_draws_of_the_same_seed(name: str, dtype: str) -> None:
    def program(m: Any) -> Any:
        m.manual_seed(3)
        return make(m, name, parameters(m, name, dtype=dtype)).sample((5,))

    _, (mine, shape, kind) = outcome(program, adjoint)
    _, (theirs, *rest) = outcome(program, torch)
    assert [shape, kind] == rest
    if name not in _OWN_STREAM or np.allclose(mine, theirs, rtol=1e-4, atol=1e-5):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4 if dtype == "float32" else 1e-9, atol=1e-6)


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_draws(name: str) -> None:
    """Gamma and beta draws: torch's own derivative is good to 1e-3 or so."""

    def program(m: Any) -> Any:
        m.manual_seed(3)
        given = parameters(m, name, grad=True)
        d = make(m, name, given)
        if not d.has_rsample:
            return "none"
        x = d.rsample((6,))
        grads = m.autograd.grad((x * x.cos()).sum(), list(given.values()), allow_unused=True)
        return [x, *grads]

    kind, mine = outcome(program, adjoint)
    expected, theirs = outcome(program, torch)
    assert kind == "value", mine
    if theirs == "none" or expected == "error":  # torch's Wishart cannot be differentiated where it draws again
        return
    if name in _OWN_STREAM and not np.allclose(mine[0][0], theirs[0][0]):
        return  # other numbers were drawn
    for a, b in zip(mine, theirs, strict=True):
        if b is not None:
            np.testing.assert_allclose(a[0], b[0], rtol=3e-3, atol=3e-3)


@needs_torch
@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith(("bern", "binom", "categ", "one_hot"))])
@pytest.mark.parametrize("expand", [True, False])
def test_enumeration(name: str, expand: bool) -> None:
    same(lambda m: make(m, name).enumerate_support(expand))


@needs_torch
@pytest.mark.parametrize(
    "program",
    [
        lambda D, t: D.Normal(t.tensor([0.0, 1.0]), t.tensor([-1.0, 1.0])),
        lambda D, t: D.Normal(0.0, 1.0).log_prob("a"),
        lambda D, t: D.Uniform(0.0, 1.0).log_prob(t.tensor(2.0)),
        lambda D, t: D.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)),
        lambda D, t: D.Bernoulli(),
        lambda D, t: D.Bernoulli(0.5, 0.5),
        lambda D, t: D.Categorical(t.tensor(1.0)),
        lambda D, t: D.Uniform(1.0, 0.0),
        lambda D, t: D.MultivariateNormal(t.zeros(2)),
        lambda D, t: D.MultivariateNormal(t.zeros(2), t.ones(2)),
        lambda D, t: D.MultivariateNormal(t.zeros(2), -t.eye(2)),
        lambda D, t: D.Dirichlet(t.tensor(1.0)),
        lambda D, t: D.Geometric(t.tensor(0.0)),
        lambda D, t: D.LKJCholesky(1),
        lambda D, t: D.LowRankMultivariateNormal(t.ones(2), t.ones(3, 1), t.ones(2)),
        lambda D, t: D.Independent(D.Normal(0, 1), 1),
        lambda D, t: D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0)),
        lambda D, t: D.kl_divergence(D.Cauchy(0.0, 1.0), D.VonMises(t.tensor(0.0), t.tensor(1.0))),
        lambda D, t: D.Wishart(t.tensor(1.0), t.eye(2)),
        lambda D, t: D.Wishart(t.tensor(3.0)),
        lambda D, t: D.Multinomial(t.tensor(3), t.ones(2)),
        lambda D, t: D.MixtureSameFamily(3, 4),
        lambda D, t: D.MixtureSameFamily(D.Categorical(t.ones(2)), D.Normal(t.zeros(3), 1)),
        lambda D, t: D.TransformedDistribution(D.Normal(0.0, 1.0), 3),
        lambda D, t: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
        lambda D, t: D.Distribution.set_default_validate_args(3),
        lambda D, t: D.Normal(0.0, 1.0).enumerate_support(),
        lambda D, t: D.Poisson(1.0).rsample(),
        lambda D, t: D.Multinomial(2, t.ones(2)).mode,
        lambda D, t: D.biject_to(3),
        lambda D, t: D.ReshapeTransform((2,), (3,)),
        lambda D, t: D.ExpTransform(cache_size=3),
        lambda D, t: D.Categorical(t.ones(2)).log_prob(t.tensor(2)),
        lambda D, t: D.utils.broadcast_all(1, "a"),
        lambda D, t: D.OneHotCategorical(t.ones(3)).log_prob(t.ones(3)),
        lambda D, t: D.Binomial(t.tensor([2, 3]), t.tensor(0.5)).enumerate_support(),
    ],
)
def test_refusals(program: Any) -> None:
    kind, mine = outcome(lambda m: program(m.distributions, m), adjoint)
    expected, theirs = outcome(lambda m: program(m.distributions, m), torch)
    assert (kind, mine[0]) == (expected, theirs[0]), (mine, theirs)
    expected = theirs[1].replace("torch.Size", "adjoint.Size").replace("'torch.", "'adjoint.")
    # A class is in another file here, so of its path the package and the name are compared.
    texts = (" ".join(text.split()) for text in (mine[1], expected))
    said, expected = (re.sub(r"(<class 'adjoint\.\w+)\.\w+\.", r"\1.", text) for text in texts)
    first = expected.split(" of distribution")[0][:60]
    assert said.startswith(first) or not first or "cannot" in first, (mine, theirs)


@needs_torch
def test_mixtures_and_independent() -> None:
    def program(m: Any) -> Any:
        D = m.distributions
        weights = m.tensor([0.2, 0.8], dtype=m.float64, requires_grad=True)
        loc = m.tensor([[0.0, 1.0], [2.0, 3.0], [1.0, 5.0]], dtype=m.float64, requires_grad=True)
        mix = D.MixtureSameFamily(D.Categorical(weights), D.Normal(loc, 0.5))
        x = m.tensor([0.3, 2.0, 4.0], dtype=m.float64)
        out = mix.log_prob(x)
        found = [out, mix.mean, mix.variance, mix.cdf(x), m.autograd.grad(out.sum(), [weights, loc])]
        blocks = D.Independent(D.Normal(loc, m.ones_like(loc)), 1)
        m.manual_seed(1)
        vectors = D.MixtureSameFamily(D.Categorical(m.tensor([1.0, 1.0, 2.0])), blocks)
        drawn = vectors.sample((4,))
        return [*found, blocks.log_prob(loc), blocks.entropy(), drawn, vectors.log_prob(drawn), vectors.mean,
                vectors.expand((2,)).sample().shape, repr(mix).replace("torch", "adjoint"), repr(blocks)]  # fmt: skip

    same(program, 1e-6)


def test_frozen_values() -> None:
    """What needs no oracle: closed forms, to the last digits."""
    D = adjoint.distributions
    x = adjoint.tensor(0.5, dtype=adjoint.float64)
    assert D.Normal(x, x).log_prob(x).item() == pytest.approx(-0.5 * np.log(2 * np.pi) + np.log(2))
    assert D.Gamma(x * 4, x * 2).log_prob(x).item() == pytest.approx(np.log(0.5) - 0.5)
    assert D.Beta(x * 4, x * 4).log_prob(x).item() == pytest.approx(np.log(1.5))
    assert D.Kumaraswamy(x * 4, x * 6).mode.item() == pytest.approx((1 / 5) ** 0.5)
    normal = D.Normal(x, x * 2)
    assert D.kl_divergence(normal, normal).item() == 0


@pytest.mark.parametrize("name", ["gamma", "beta", "dirichlet", "student", "wishart_tril", "binomial", "von_mises"])
def test_sample_statistics(name: str) -> None:
    adjoint.manual_seed(0)
    d = make(adjoint, name)
    x = d.sample((4000,)).numpy()
    mean, std = d.mean.numpy(), np.sqrt(np.nan_to_num(d.variance.numpy(), posinf=0.0))
    if name == "von_mises":
        x = x - d.mean.numpy()
        assert abs(np.cos(x).mean(0) - (1 - d.variance.numpy())).max() < 0.05
        return
    finite = np.isfinite(mean) & (std > 0)
    assert (abs(x.mean(0) - mean) < 6 * std / 4000**0.5)[finite].all()


def test_gradient_of_gamma_draws_is_exact() -> None:
    """The derivative at a fixed quantile, against differences of SciPy's quantile function."""
    special = pytest.importorskip("scipy.special", reason="quantiles come from SciPy")
    a = np.array([0.4, 1.0, 3.0, 30.0, 200.0])
    x = a * np.array([0.3, 1.2, 0.8, 1.1, 0.97])
    q, h = special.gammainc(a, x), 1e-3 * a
    f = lambda b: special.gammaincinv(b, q)
    slope = (8 * (f(a + h) - f(a - h)) - (f(a + 2 * h) - f(a - 2 * h))) / (12 * h)
    mine = adjoint._standard_gamma_grad(adjoint.from_numpy(a), adjoint.from_numpy(x)).numpy()
    np.testing.assert_allclose(mine, slope, rtol=1e-7)
    q = special.betainc(a, 2.0, x / (1 + a * 1.5))
    y = special.betaincinv(a, 2.0, q)
    f = lambda b: special.betaincinv(b, 2.0, q)
    slope = (8 * (f(a + h) - f(a - h)) - (f(a + 2 * h) - f(a - 2 * h))) / (12 * h)
    mine = adjoint._dirichlet_grad(*map(adjoint.from_numpy, (y, a, a + 2.0))).numpy()
    np.testing.assert_allclose(mine * (1 - y), slope, rtol=1e-6)
