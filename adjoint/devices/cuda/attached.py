"""Imports every module that attaches overrides to primitives; Triton, of which attention's are made, may be missing."""

from __future__ import annotations

import contextlib

from . import convolution as convolution
from . import epilogues as epilogues
from . import products as products
from . import reductions as reductions
from . import rows as rows
from . import rowwise as rowwise
from . import scans as scans
from . import selection as selection
from . import windows as windows
from .table import override as override

with contextlib.suppress(ImportError):
    from . import attention as attention
