"""Fused loops compiled by Numba."""

from __future__ import annotations

import importlib.util

from ..kernels.sources import Loops

HEAD = '''"""Loops that adjoint wrote for a compiled program; see adjoint/compiler/loops.py."""

import numba
import numpy as np

from adjoint.kernels.mathematics import FLAGS, NAMES

globals().update(NAMES)


@numba.njit(nogil=True, cache={cache}, fastmath=FLAGS, error_model="numpy")
'''


def available() -> bool:
    """Return whether loops can be compiled here."""
    return importlib.util.find_spec("numba") is not None


loops = Loops(HEAD)
