"""The overrides of CUDA devices, for the classes of CuPy's arrays and ours."""

from __future__ import annotations

from ..overrides import Overrides

override = Overrides()
