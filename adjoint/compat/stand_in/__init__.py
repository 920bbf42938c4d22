"""adjoint in torch's place: after `install`, ``import torch`` gives adjoint, and so does every ``torch.x.y``."""

from __future__ import annotations

from .children import include_children
from .finder import TORCH_VERSION, install, installed

__all__ = ["TORCH_VERSION", "include_children", "install", "installed"]
