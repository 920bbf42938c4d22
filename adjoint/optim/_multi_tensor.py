"""Optimizers with ``foreach=True`` as their default, under PyTorch's older name for them."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from . import adam, descent

__all__ = ["ASGD", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"]


def _made(kind: Any) -> Any:
    return type(kind.__name__, (kind,), {"__init__": partialmethod(kind.__init__, foreach=True)})


Adam, AdamW, Adamax, NAdam, RAdam = (
    _made(kind) for kind in (adam.Adam, adam.AdamW, adam.Adamax, adam.NAdam, adam.RAdam)
)
ASGD, SGD, Adadelta, Adagrad, RMSprop, Rprop = (
    _made(kind)
    for kind in (descent.ASGD, descent.SGD, descent.Adadelta, descent.Adagrad, descent.RMSprop, descent.Rprop)
)
