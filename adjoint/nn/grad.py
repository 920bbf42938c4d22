"""Gradients of convolutions, as functions."""

from __future__ import annotations

from typing import Any

from .._typing import Tensor
from ..autograd.differentiate import grad
from ..autograd.grad_mode import enable_grad
from ..ops.create import zeros
from . import functional as F


def _input_grad(dims: int, input_size: Any, weight: Tensor, grad_output: Tensor, *options: Any) -> Tensor:
    at = zeros(input_size, dtype=weight.dtype, device=weight.device, requires_grad=True)
    with enable_grad():
        out = getattr(F, f"conv{dims}d")(at, weight.detach(), None, *options)
    return grad(out, at, grad_output)[0]


def _weight_grad(dims: int, input: Tensor, weight_size: Any, grad_output: Tensor, *options: Any) -> Tensor:
    at = zeros(weight_size, dtype=input.dtype, device=input.device, requires_grad=True)
    with enable_grad():
        out = getattr(F, f"conv{dims}d")(input.detach(), at, None, *options)
    return grad(out, at, grad_output)[0]


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv1d` for its input."""
    return _input_grad(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv1d` for its weight."""
    return _weight_grad(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv2d` for its input."""
    return _input_grad(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv2d` for its weight."""
    return _weight_grad(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv3d` for its input."""
    return _input_grad(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `conv3d` for its weight."""
    return _weight_grad(3, input, weight_size, grad_output, stride, padding, dilation, groups)
