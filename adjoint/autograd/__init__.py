"""Gradients: `backward`, `grad`, custom functions, modes and the graph itself."""

from __future__ import annotations

from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, profiler, variable
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .debugging import debug_mode
from .differentiate import backward, grad
from .function import Function, NestedIOFunction
from .grad_mode import (
    _unsafe_preserve_version_counter,
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck
from .variable import Variable

__all__ = [
    "Function", "NestedIOFunction", "Variable", "anomaly_mode", "backward", "debug_mode", "detect_anomaly",
    "enable_grad", "enforce_grad_layout_policy", "forward_ad", "function", "functional", "grad", "grad_mode",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "no_grad", "profiler", "set_detect_anomaly",
    "set_grad_enabled", "set_multithreading_enabled", "variable",
]  # fmt: skip
