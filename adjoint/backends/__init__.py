"""Switches of torch's backends, which programs set; here they are remembered and change nothing."""

from __future__ import annotations

from .._paths import lead_to
from . import absent as mkl
from . import absent as mps
from . import absent as openmp
from . import cuda, cudnn, mkldnn

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

lead_to(__name__, {"absent": "mkl mps openmp"})
