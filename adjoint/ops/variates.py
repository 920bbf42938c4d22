"""Samples whose gradient reaches their parameters: gamma, Dirichlet; and the binomial, whose gradient is zero."""

from __future__ import annotations

from typing import Any

from .._typing import Array, Inputs, Kernel, Out, Params, Tangents, Tensor, Value
from ..core.device import module_of, through_host
from ..core.dtypes import of
from ..core.recorders import nary
from ..scalar.implicit import dirichlet_gradient, gamma_gradient
from .draws import sampled
from .random import Generator, _sampler, on_host, stream_of
from .shape import expand_p

__all__ = ["_dirichlet_grad", "_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad", "binomial"]


def _spread(kernel: Kernel) -> Kernel:
    """Return a kernel of arrays of one shape for arrays that broadcast."""
    return lambda *arrays: kernel(*module_of(arrays[0]).broadcast_arrays(*arrays))


def _refused(name: str) -> Kernel:
    def rule(g: Array) -> Tensor:
        raise NotImplementedError(
            f"the derivative for '{name}' is not implemented: it is itself the derivative of a random sample"
        )

    return rule


def _unknown(name: str) -> Kernel:
    def jvp(tangents: Tangents, inputs: Inputs, out: Out, params: Params) -> Any:
        return _refused(name)(None)

    return jvp


_gamma_slope = _spread(through_host("the gradient of a gamma sample")(gamma_gradient))
_dirichlet_slope = _spread(through_host("the gradient of a Dirichlet sample")(dirichlet_gradient))


def _kept_as_drawn(x: Array, sample: Value) -> Value:
    return sample


standard_gamma_grad_p, dirichlet_grad_p = (
    nary(
        kernel,
        inputs=inputs,
        name=name,
        joint=_refused(f"_{name}"),
        jvp=_unknown(f"_{name}"),
        batch="elementwise",
    )
    for name, inputs, kernel in (
        ("standard_gamma_grad", 2, lambda x, y: _gamma_slope(x, y)),
        ("dirichlet_grad", 3, lambda x, y, z: _dirichlet_slope(x, y, z)),
    )
)


def _dirichlet_rule(g: Array, x: Array, out: Array) -> Value:
    slope = dirichlet_grad_p(out, x, expand_p(x.sum(-1, keepdims=True), tuple(x.shape)))
    return slope * (g - expand_p((out * g).sum(-1, keepdims=True), tuple(x.shape)))


def _dirichlet_jvp(tangents: Inputs, inputs: Inputs, out: Array, params: Params) -> Value:
    x, t = inputs[0], tangents[0]
    moved = dirichlet_grad_p(out, x, expand_p(x.sum(-1, keepdims=True), tuple(x.shape))) * t
    return moved - out * expand_p(moved.sum(-1, keepdims=True), tuple(x.shape))


# The sample is an operand like any other: inside a batch it is a batch of samples.
standard_gamma_p = nary(
    _kept_as_drawn,
    inputs=2,
    name="standard_gamma",
    x=lambda g, x, out: g * standard_gamma_grad_p(x, out),
    jvp=lambda tangents, inputs, out, params: tangents[0] * standard_gamma_grad_p(inputs[0], out),
    batch=lambda x, sample: expand_p(sample, tuple(x.shape)),
)
sample_dirichlet_p = nary(
    _kept_as_drawn,
    inputs=2,
    name="sample_dirichlet",
    x=_dirichlet_rule,
    jvp=_dirichlet_jvp,
    batch=lambda x, sample: expand_p(sample, tuple(x.shape)),
)
_binomial_p = _sampler("binomial", "BinomialBackward0", 2)


def _drawn(kind: str, *tensors: Tensor, generator: Generator | None) -> Any:
    for t in tensors:
        if of(t.array.dtype).category != 2:
            raise NotImplementedError(f"\"{kind}_cpu\" not implemented for '{of(t.array.dtype).title}'")
    return sampled(on_host(lambda *arrays: getattr(stream_of(generator), kind)(*arrays)), *tensors)


def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return differentiable samples of gamma distributions of rate 1 with the concentrations in `input`."""
    return standard_gamma_p(input, _drawn("gamma", input, generator=generator))


def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """Return the derivative of gamma samples `output` in their concentrations `input`, at a fixed quantile."""
    return standard_gamma_grad_p(input, output)


def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return differentiable samples of Dirichlet distributions with the concentrations in `input`."""
    return sample_dirichlet_p(input, _drawn("dirichlet", input, generator=generator))


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """Return the derivative of each part of Dirichlet samples `x` in its concentration, over one minus the part."""
    return dirichlet_grad_p(x, alpha, total)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Return the number of successes in `count` trials of probability `prob`, element by element.

    Examples
    --------
    >>> adjoint.binomial(adjoint.tensor([3.0, 4.0]), adjoint.tensor([1.0, 0.0]))
    tensor([3., 0.])
    """
    return _binomial_p(count, prob, _drawn("binomial", count, prob, generator=generator))
