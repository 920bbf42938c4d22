"""Switches of torch's backends, which programs set; here they are remembered and change nothing."""

from __future__ import annotations

from . import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
