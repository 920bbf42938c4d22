"""How the memory of a sample's tensors may lie: gaps, repeated elements, negative steps."""

from __future__ import annotations

from typing import Any

import torch

from . import translate

LAYOUTS = ("plain", "noncontiguous", "expanded", "reversed")
# NumPy alone has negative steps and memory that may not be written; torch gets the same values, laid out plainly.
READ_ONLY = "reversed"


def arranged(sample: Any, layout: str) -> Any:
    """Return a sample whose tensors lie in memory as `layout` says."""
    translate.reversed = layout == READ_ONLY
    if layout == "noncontiguous":
        return sample.noncontiguous()
    if layout == "expanded":
        return sample.transform(lambda t: _expanded(t) if isinstance(t, torch.Tensor) else t)
    return sample


def _expanded(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor that repeats its first part along the first axis that is long enough."""
    axis = next((i for i, n in enumerate(t.shape) if n > 1), None)
    if axis is None or t.layout != torch.strided or not (t.is_floating_point() or t.is_complex()):
        return t
    return t.detach().narrow(axis, 0, 1).expand_as(t).requires_grad_(t.requires_grad)
