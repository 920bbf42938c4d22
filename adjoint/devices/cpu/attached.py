"""Imports every module that attaches overrides to primitives: before the first of these is declared."""

from __future__ import annotations

from . import attention as attention
from . import convolution as convolution
from . import pooling as pooling
from . import products as products
from . import reductions as reductions
from .table import override as override
