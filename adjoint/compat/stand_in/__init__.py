"""adjoint as torch: after `install`, ``import torch`` imports adjoint, and ``torch.x.y`` is ``adjoint.x.y``."""

from __future__ import annotations

from .children import include_children
from .finder import TORCH_VERSION, install, installed

__all__ = ["TORCH_VERSION", "include_children", "install", "installed"]
