"""Imports every module that attaches overrides to primitives: before the first of these is declared."""

from __future__ import annotations

from . import attention as attention
from . import convolution as convolution
from . import copying as copying
from . import entropy as entropy
from . import extremes as extremes
from . import gathering as gathering
from . import ordering as ordering
from . import pairs as pairs
from . import pooling as pooling
from . import products as products
from . import recurrent as recurrent
from . import reductions as reductions
from . import rowwise as rowwise
from . import sampling as sampling
from . import scans as scans
from . import selection as selection
from . import special as special
from .table import override as override
