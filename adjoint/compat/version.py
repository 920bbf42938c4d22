"""The version and what it was built for, as in ``torch.version``."""

from __future__ import annotations

from .._version import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "unknown"
