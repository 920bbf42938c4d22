"""Which tensors are alive, and what refers to them: programs also store tensors that they do not return."""

from __future__ import annotations

import gc
import sys
from itertools import chain, starmap
from typing import Any

from ..core.nodes import Node
from ..core.tensor import TensorBase, View
from ..devices.contract import by_class
from .memory import Memory

__all__ = ["alive_tensors", "is_kept", "is_kept_by_program"]


def is_kept(memory: Memory) -> bool:
    """Return whether there are references besides a `Memory` to the GPU array that it holds."""
    spare = by_class[type(memory.held)].spare_references(memory.held)  # type: ignore[arg-type]
    return sys.getrefcount(memory.held) > 2 + spare  # the question itself among them


def _and_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_and_subclasses, kind.__subclasses__()))


_is_tensor = type.__instancecheck__.__get__(TensorBase)


def alive_tensors() -> list[Any]:
    """Return all existing tensors, in one call of C's: objects refer to their class.

    `gc.get_objects` would refer to everything, and CPython cannot resize a tuple that another thread is building while
    there are other references to it: that thread would get a SystemError.
    """
    kinds = _and_subclasses(TensorBase)
    found = filter(_is_tensor, chain.from_iterable(starmap(gc.get_referrers, (kinds,))))
    return [t for t in list(found) if type(t) in kinds and hasattr(t, "_grad")]


def is_kept_by_program(tensor: TensorBase) -> bool:
    """Return whether something other than a graph or a running function refers to a tensor."""
    for holder in gc.get_referrers(tensor):
        if isinstance(holder, list | set | tuple):
            return any(not _is_frame(h) for h in gc.get_referrers(holder) if h is not holder)
        if isinstance(holder, dict) and not any(_is_graph(h) for h in gc.get_referrers(holder)):
            return True
        if not isinstance(holder, dict) and not _is_frame(holder) and not _is_graph(holder):
            return True
    return False


def _is_frame(holder: object) -> bool:
    return type(holder).__name__ in ("frame", "list_iterator", "generator")


def _is_graph(holder: object) -> bool:
    return isinstance(holder, Node | View) or hasattr(type(holder), "save_for_backward")
