"""`traced`: a program whose axes are dynamic wherever the program is the same for other sizes."""

from __future__ import annotations

from typing import Any

from .. import tree
from ..core.tensor import TensorBase
from .exported import ExportedProgram, exported
from .program import ExportError
from .sizes import Dim

__all__ = ["traced"]


def traced(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """Return a module or function as a program, with as many dynamic axes as it allows.

    Axes of one size share a dynamic size. All of them are tried at once, then one size after the other.
    """
    tensors = [v for v in tree.tree_leaves((args, kwargs)) if isinstance(v, TensorBase)]
    groups: dict[Any, list[tuple[int, int]]] = {}
    for number, tensor in enumerate(tensors):
        for axis, size in enumerate(tensor.array.shape):
            if size > 1 or axis == 0:  # of size 1, a batch of one is meant, and a first axis only
                groups.setdefault(size, []).append((number, axis))
    fixed = exported(module, args, kwargs, [])
    if not groups or size_of_none(groups):
        return fixed
    whole = _tried(module, args, kwargs, len(tensors), list(groups.items()))
    if whole is not None:
        return whole
    allowed: list[Any] = []
    for group in groups.items():
        if _tried(module, args, kwargs, len(tensors), [group]) is not None:
            allowed.append(group)
    return (_tried(module, args, kwargs, len(tensors), allowed) if allowed else None) or fixed


def size_of_none(groups: dict[Any, Any]) -> bool:
    """Return whether an axis has no elements: such inputs say nothing about others."""
    return 0 in groups


def _tried(module: Any, args: Any, kwargs: Any, count: int, groups: list[Any]) -> ExportedProgram | None:
    axes: list[dict[int, Dim]] = [{} for _ in range(count)]
    for at, (_, places) in enumerate(groups):
        dim = Dim(f"s{at}")
        for number, axis in places:
            axes[number][axis] = dim
    try:
        program = exported(module, args, kwargs, axes)
    except ExportError:
        return None
    return program
