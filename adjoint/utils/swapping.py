"""Swapping two tensors."""

from __future__ import annotations

import weakref
from typing import Any

from ..core.leaves import AccumulateGrad
from ..core.tensor import TensorBase

__all__ = ["swap_tensors"]

_SLOTS = ("array", "_grad", "node", "memory", "lineage")


def swap_tensors(t1: Any, t2: Any) -> None:
    """Swap two tensors: references to one see the values, class and gradient of the other.

    Raises
    ------
    RuntimeError
        Where a tensor has weak references, which would then mean the other one.
    """
    for t in (t1, t2):
        own = 1 if type(t.node) is AccumulateGrad else 0
        if weakref.getweakrefcount(t) > own:
            raise RuntimeError("Cannot swap t1 or t2 if it has weakref associated with it")
    state = [{name: getattr(t, name) for name in _SLOTS} for t in (t1, t2)]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for t, taken in ((t1, state[1]), (t2, state[0])):
        for name, value in taken.items():
            setattr(t, name, value)
        if isinstance(t, TensorBase) and type(t.node) is AccumulateGrad:
            t.node.follow(t)
