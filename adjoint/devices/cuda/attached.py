"""Imports every module with kernels, which attach them to primitives; attention's need Triton, which may be missing."""

from __future__ import annotations

import contextlib

from . import convolution as convolution
from . import copies as copies
from . import ctc as ctc
from . import draws as draws
from . import elementwise as elementwise
from . import entropy as entropy
from . import epilogues as epilogues
from . import gathering as gathering
from . import joining as joining
from . import moments as moments
from . import products as products
from . import recurrent as recurrent
from . import reductions as reductions
from . import rowwise as rowwise
from . import scans as scans
from . import selection as selection
from . import windows as windows
from .table import override as override

with contextlib.suppress(ImportError):
    from . import attention as attention
