"""The derivative of a random sample in its parameters, with its quantile held fixed.

A sample ``x`` of the distribution function ``F(x; a)`` changes by ``dx/da = -(dF/da) / F'(x)``. Under the
integral sign, with the score ``log t - E[log t]`` of a gamma or beta density p,

    dx/da = -1/p(x) * (integral of p(t) (log t - E[log t]) up to x)
          = +1/p(x) * (integral of the same from x on).

The integrand changes its sign once, where ``log t = E[log t]``, so on one side of ``x`` it has one sign and
nothing cancels; that side is integrated by the double exponential formula (Takahasi and Mori, 1974), whose
nodes crowd towards zero and so see every scale. Torch fits polynomials instead, to three or four digits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .._typing import Array
from .special import special

_CHUNK = 4096  # elements at a time: each takes a row of nodes
_digamma = special("psi")


@cache
def _nodes(single: bool) -> tuple[Any, Any]:
    """Return nodes and weights for integrals from zero to infinity of what decays at the rate 1."""
    step = 0.09 if single else 0.045
    t = np.arange(-4.5, 4.6, step)
    w = np.exp(t - np.exp(-t))
    return w, w * (1.0 + np.exp(-t)) * step


def _integral(log_ratio: Array, score: Array, weights: Array) -> Array:
    return (np.exp(np.minimum(log_ratio, 700.0)) * score * weights).sum(axis=-1)


def _in_chunks(function: Callable[..., Any], *arrays: Array) -> Array:
    """Return an elementwise function of equal arrays, computed in double precision, a chunk at a time."""
    dtype, shape = arrays[0].dtype, arrays[0].shape
    flat = [np.asarray(a, np.float64).reshape(-1) for a in arrays]
    out = np.empty(flat[0].size)
    for start in range(0, out.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        with np.errstate(all="ignore"):
            out[part] = function(*(a[part] for a in flat), dtype.itemsize < 8)
    return out.reshape(shape).astype(dtype)


def gamma_gradient(concentration: Array, sample: Array) -> Array:
    """Return the derivative of samples of gamma distributions of rate 1 in their concentration."""
    return _in_chunks(_gamma_part, np.broadcast_to(concentration, sample.shape), sample)


def _gamma_part(a: Array, x: Array, single: bool) -> Array:
    out = np.empty_like(x)
    near = (a < 50.0) & (x < a + 1.5 * np.sqrt(a) + 1.0)
    out[near] = _gamma_series(a[near], x[near])
    out[~near] = _gamma_integral(a[~near, None], x[~near, None], single)
    return out


def _gamma_series(a: Array, x: Array) -> Array:
    """Return it by the power series of the incomplete gamma function; what is like 1/a² is left out by hand."""
    term = total = 1.0 / a
    harmonic = weighted = np.zeros_like(a)
    for n in range(1, 400):
        term = term * x / (a + n)
        harmonic = harmonic + 1.0 / (a + n)
        total, weighted = total + term, weighted + term * harmonic
        if not (term * (1.0 + harmonic) > 1e-17 * (total + weighted)).any():
            break
    return x * (weighted - (np.log(x) - _digamma(a + 1.0)) * total)


def _gamma_integral(a: Array, x: Array, single: bool) -> Array:
    w, weights = _nodes(single)
    centre = _digamma(a)
    below = np.log(x) < centre
    rate = np.where(below, a - x, 1.0 - (a - 1.0) / x) + np.where(below, np.sqrt(x), 1.0 / np.sqrt(x + 1.0))
    w, weights = w / rate, weights / rate
    down = _integral(x * -np.expm1(-w) - a * w, w + centre - np.log(x), weights) * x[:, 0]
    up = _integral((a - 1.0) * np.log1p(w / x) - w, np.log(x) + np.log1p(w / x) - centre, weights)
    return np.where(below[:, 0], down, up)


def dirichlet_gradient(sample: Array, concentration: Array, total: Array) -> Array:
    """Return the derivative of each part of a Dirichlet sample in its own concentration, over one minus the part."""
    total = np.broadcast_to(total, sample.shape)
    return _in_chunks(_beta_part, sample, np.broadcast_to(concentration, sample.shape), total)


def _beta_part(x: Array, a: Array, total: Array, single: bool) -> Array:
    """Return dx/da / (1 - x) of samples of Beta(a, total - a)."""
    b = total - a
    left = (x < 0.5) & (a < 1.0) & (b * x < 2.0)
    right = (x >= 0.5) & (b < 1.0) & (a * (1.0 - x) < 2.0)
    rest = ~(left | right)
    out = np.empty_like(x)
    out[left] = _beta_series(x[left], a[left], b[left])
    out[right] = _beta_series_of_rest(x[right], a[right], b[right])
    out[rest] = _beta_integral(x[rest, None], a[rest, None], b[rest, None], single)
    return out


def _beta_series(x: Array, a: Array, b: Array) -> Array:
    """Return it by the power series of the incomplete beta function; what is like 1/a² is left out by hand."""
    score = np.log(x) - _digamma(a + 1.0) + _digamma(a + b)
    power, total = np.ones_like(x), score / a
    for n in range(1, 80):
        power = power * x * (n - b) / n
        total = total + power * (score + n / (a * (a + n))) / (a + n)
    return -x * (1.0 - x) ** -b * total


def _beta_series_of_rest(x: Array, a: Array, b: Array) -> Array:
    """Return it by the power series, in 1 - x, of what the incomplete beta function leaves of one."""
    y, centre = 1.0 - x, _digamma(a) - _digamma(a + b)
    power, slope, total = np.ones_like(x), np.zeros_like(x), -centre / b
    for n in range(1, 80):
        slope = y * (slope * (n - a) - power) / n
        power = power * y * (n - a) / n
        total = total + (slope - centre * power) / (b + n)
    return x ** (1.0 - a) * total


def _beta_integral(x: Array, a: Array, b: Array, single: bool) -> Array:
    w, weights = _nodes(single)
    centre = _digamma(a) - _digamma(a + b)
    below = np.log(x) < centre
    tail, power = np.where(below, a, b), np.where(below, b, a) - 1.0
    odds = np.where(below, x / (1.0 - x), (1.0 - x) / x)
    rate = np.maximum(tail - power * odds, 0.0) + np.sqrt(np.maximum(power * odds, 0.0)) + np.minimum(tail, 1.0)
    rate = np.where((power < 0.0) | (tail < 1.0), tail, rate)
    w, weights = w / rate, weights / rate
    gone = -np.expm1(-w)
    # Left of x, t = x exp(-w); right of it, 1 - t = (1 - x) exp(-w).
    growth = np.log1p(gone * odds)
    score = np.where(below, w + centre - np.log(x), growth + np.log(x) - centre)
    return _integral(power * growth - tail * w, score, weights) * np.where(below, odds, 1.0)[:, 0]
