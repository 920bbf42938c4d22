"""Axes that are dynamic where the program allows it (``Dim.AUTO``): which of them are, found by trying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .. import tree
from ..core.tensor import TensorBase
from .program import ExportError, Program, captured
from .sizes import Dim

__all__ = ["captured_as_far_as_possible"]

_Axis: TypeAlias = tuple[int, int]  # number of a tensor among the arguments, and of its axis


def captured_as_far_as_possible(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Sequence[Mapping[int, Dim]]
) -> Program:
    """Return a program whose optional dynamic axes are dynamic as far as it allows.

    All of them are tried as sizes of their own; then each alone, and those that fail alone with others of their size.
    """
    optional = [(n, axis) for n, axes in enumerate(dynamic) for axis, dim in axes.items() if dim.optional]
    if not optional:
        return captured(module, args, kwargs, dynamic)
    whole = _tried(module, args, kwargs, dynamic, [[axis] for axis in optional])
    if whole is not None:
        return whole
    groups = [[axis] for axis in optional if _tried(module, args, kwargs, dynamic, [[axis]]) is not None]
    left = [axis for axis in optional if [axis] not in groups]
    tensors = [v for v in tree.tree_leaves((args, kwargs)) if isinstance(v, TensorBase)]
    by_size: dict[int, list[_Axis]] = {}
    for number, axis in left:
        by_size.setdefault(tensors[number].array.shape[axis], []).append((number, axis))
    groups += [axes for axes in by_size.values() if len(axes) > 1]
    best: Program | None = None
    accepted: list[list[_Axis]] = []
    for group in groups:
        found = _tried(module, args, kwargs, dynamic, [*accepted, group])
        if found is not None:
            best = found
            accepted.append(group)
    return best or captured(module, args, kwargs, _axes(dynamic, []))


def _tried(
    module: Any, args: Any, kwargs: Any, dynamic: Sequence[Mapping[int, Dim]], groups: list[list[_Axis]]
) -> Program | None:
    try:
        return captured(module, args, kwargs, _axes(dynamic, groups))
    except ExportError:
        return None


def _axes(dynamic: Sequence[Mapping[int, Dim]], groups: list[list[_Axis]]) -> list[dict[int, Dim]]:
    """Return the dynamic axes with those of `groups` alone of the optional ones; the axes of a group share a size."""
    axes = [{axis: dim for axis, dim in dims.items() if not dim.optional} for dims in dynamic]
    for group in groups:
        number, first = group[0]
        for other, axis in group:
            axes[other][axis] = dynamic[number][first]
    return axes
