"""Imports every module that attaches overrides to primitives: before the first of these is declared."""

from __future__ import annotations

from . import attention as attention
from . import copying as copying
from . import gathering as gathering
from . import products as products
from . import reductions as reductions
from . import sampling as sampling
from .table import override as override
