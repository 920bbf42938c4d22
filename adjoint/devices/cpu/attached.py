"""Imports every module that attaches overrides to primitives: before the first of these is declared."""

from __future__ import annotations

from . import attention as attention
from . import entropy as entropy
from . import products as products
from . import reductions as reductions
from . import rowwise as rowwise
from .table import override as override
