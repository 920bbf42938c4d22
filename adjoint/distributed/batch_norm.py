"""Batch norm over the batches of all processes."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..ops.join import cat, stack
from .nn.functional import all_gather

__all__ = ["synchronised"]


def synchronised(norm: Any, input: Any, momentum: float) -> Any:
    """Return `input` normalised by mean and variance over all ranks, and update the running statistics.

    Each rank gives its mean, its sum of squares around that mean, and its count: these combine without the
    cancellation that a difference of sums would suffer. Gradients flow through what is gathered.
    """
    axes = [axis for axis in range(input.dim()) if axis != 1]
    shape = [1, -1] + [1] * (input.dim() - 2)
    value = input if input.dtype.itemsize >= 4 else input.float()
    count = value.numel() / value.shape[1]
    mean = value.mean(axes) if count else value.sum(axes)
    squares = ((value - mean.reshape(shape)) ** 2).sum(axes)
    parts = stack(all_gather(cat([mean, squares, mean.new_full((1,), count)]), norm.process_group))
    channels = value.shape[1]
    means, spreads, counts = parts[:, :channels], parts[:, channels:-1], parts[:, -1:].detach()
    total = counts.sum()
    whole = (means * counts).sum(0) / total
    variance = (spreads + counts * (means - whole) ** 2).sum(0) / total
    if norm.training and norm.running_mean is not None:
        with no_grad():
            norm.running_mean.lerp_(whole.to(norm.running_mean.dtype), momentum)
            unbiased = variance * (total / (total - 1))
            norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), momentum)
    out = (value - whole.reshape(shape)) * (variance + norm.eps).rsqrt().reshape(shape)
    if norm.weight is not None:
        out = out * norm.weight.reshape(shape)
    if norm.bias is not None:
        out = out + norm.bias.reshape(shape)
    return out.to(input.dtype)
