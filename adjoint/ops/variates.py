"""Draws whose gradient reaches their parameters: gamma, Dirichlet; and the binomial, whose gradient is zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import device as devices
from ..core.dtypes import of
from ..core.recorders import nary
from ..kernels.implicit import dirichlet_gradient, gamma_gradient
from .random import Generator, _sampler, stream_of
from .shape import expand_p

Tensor = Any

__all__ = ["_dirichlet_grad", "_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad", "binomial"]


def _on_host(kernel: Any) -> Any:
    """Return a kernel of arrays on any device, computed on the host."""

    def computed(*arrays: Any) -> Any:
        place = devices.of(arrays[0])
        if place is devices.CPU:
            return kernel(*arrays)
        host = (devices.place_array(a, devices.CPU) if hasattr(a, "dtype") else a for a in arrays)
        return devices.place_array(kernel(*host), place)

    return computed


_gamma_slope, _dirichlet_slope = _on_host(gamma_gradient), _on_host(dirichlet_gradient)


def _standard_gamma_grad_kernel(x: Any, y: Any) -> Any:
    return _gamma_slope(np.broadcast_to(x, y.shape) if devices.of(x) is devices.CPU else x, y)


def _refused(name: str) -> Any:
    def rule(g: Any) -> Any:
        raise NotImplementedError(
            f"the derivative for '{name}' is not implemented: it is itself the derivative of a random draw"
        )

    return rule


def _unknown(name: str) -> Any:
    def jvp(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
        return _refused(name)(None)

    return jvp


standard_gamma_grad_p = nary(
    _standard_gamma_grad_kernel,
    inputs=2,
    name="standard_gamma_grad",
    x=_refused("_standard_gamma_grad"),
    y=_refused("_standard_gamma_grad"),
    jvp=_unknown("_standard_gamma_grad"),
    batch="elementwise",
)
dirichlet_grad_p = nary(
    lambda x, y, z: _dirichlet_slope(x, y, z),
    inputs=3,
    name="dirichlet_grad",
    x=_refused("_dirichlet_grad"),
    y=_refused("_dirichlet_grad"),
    z=_refused("_dirichlet_grad"),
    jvp=_unknown("_dirichlet_grad"),
    batch="elementwise",
)


def _dirichlet_rule(g: Any, x: Any, out: Any) -> Any:
    slope = dirichlet_grad_p(out, x, expand_p(x.sum(-1, keepdims=True), tuple(x.shape)))
    return slope * (g - expand_p((out * g).sum(-1, keepdims=True), tuple(x.shape)))


def _dirichlet_jvp(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
    (x,), (t,) = inputs, tangents
    moved = dirichlet_grad_p(out, x, expand_p(x.sum(-1, keepdims=True), tuple(x.shape))) * t
    return moved - out * expand_p(moved.sum(-1, keepdims=True), tuple(x.shape))


standard_gamma_p = nary(
    lambda x, sample: sample,
    inputs=1,
    name="standard_gamma",
    x=lambda g, x, out: g * standard_gamma_grad_p(x, out),
    jvp=lambda tangents, inputs, out, params: tangents[0] * standard_gamma_grad_p(inputs[0], out),
    batch=lambda x, sample: expand_p(sample, tuple(x.shape)),
)
sample_dirichlet_p = nary(
    lambda x, sample: sample,
    inputs=1,
    name="sample_dirichlet",
    x=_dirichlet_rule,
    jvp=_dirichlet_jvp,
    batch=lambda x, sample: expand_p(sample, tuple(x.shape)),
)
_binomial_p = _sampler("binomial", "BinomialBackward0", 2)


def _drawn(kind: str, *tensors: Tensor, generator: Generator | None) -> Any:
    place = devices.of(tensors[0].array)
    for t in tensors:
        if of(t.array.dtype).category != 2:
            raise NotImplementedError(f"\"{kind}_cpu\" not implemented for '{of(t.array.dtype).title}'")
    sample = getattr(stream_of(generator), kind)(*(devices.place_array(t.array, devices.CPU) for t in tensors))
    return devices.place_array(sample, place)


def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from gamma distributions of rate 1 with the concentrations in `input`, differentiably."""
    return standard_gamma_p(input, _drawn("gamma", input, generator=generator))


def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """Return how gamma draws `output` move with their concentrations `input`, at a fixed quantile."""
    return standard_gamma_grad_p(input, output)


def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from Dirichlet distributions with the concentrations in `input`, differentiably."""
    return sample_dirichlet_p(input, _drawn("dirichlet", input, generator=generator))


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """Return how each part of Dirichlet draws `x` moves with its own concentration, over one minus the part."""
    return dirichlet_grad_p(x, alpha, total)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw the number of successes in `count` trials of probability `prob`, element by element.

    Examples
    --------
    >>> adjoint.binomial(adjoint.tensor([3.0, 4.0]), adjoint.tensor([1.0, 0.0]))
    tensor([3., 0.])
    """
    return _binomial_p(count, prob, _drawn("binomial", count, prob, generator=generator))
