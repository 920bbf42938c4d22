"""Utilities around modules and their parameters."""

from __future__ import annotations

from ..._paths import lead_to
from . import parametrizations, parametrize, prune, rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .conversion import (
    convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format,
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
    parameters_to_vector,
    skip_init,
    vector_to_parameters,
)
from .norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from .summarize import summary

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector",
    "parametrizations", "parametrize", "prune", "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init",
    "spectral_norm", "stateless", "summary", "vector_to_parameters", "weight_norm",
]  # fmt: skip

lead_to(
    __name__,
    {"conversion": "convert_parameters fusion init memory_format stateless", "norms": "spectral_norm weight_norm"},
)
