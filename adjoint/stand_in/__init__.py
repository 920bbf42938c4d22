"""adjoint in torch's place: after `install`, ``import torch`` gives adjoint, and so does every ``torch.x.y``."""

from __future__ import annotations

from .finder import TORCH_VERSION, install, installed

__all__ = ["TORCH_VERSION", "install", "installed"]
