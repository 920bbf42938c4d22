"""`rearrange`: dimensions named in a pattern, put in another order, split and joined."""

from __future__ import annotations

import math
import re
from typing import Any

from ..core.tensor import TensorBase
from ..ops.dimensions import permute_p
from ..ops.join import stack
from ..ops.shape import reshape_p

# The names that each dimension is made of: a tuple where they stand in parentheses, else a list of one.
_Axes = list[list[str] | tuple[str, ...]]


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """Return a tensor with its dimensions in the order that `pattern` gives, split and joined at parentheses.

    Parameters
    ----------
    tensor
        A tensor, or several of one shape, which are stacked first.
    pattern
        Names of the dimensions before and after ``->``: ``"b (h w) c -> b c h w"``; ``...`` stands for any number.
    axes_lengths
        Sizes of names that the tensor's shape does not determine.

    Examples
    --------
    >>> from adjoint.func import rearrange
    >>> rearrange(adjoint.arange(6).reshape(2, 3), "a b -> (b a)")
    tensor([0, 3, 1, 4, 2, 5])
    """
    x = tensor if isinstance(tensor, TensorBase) else stack(tensor)
    before, after = _parsed(pattern)
    shape = tuple(x.array.shape)
    before, after = _without_ellipsis(before, after, len(shape))
    names, wanted = [n for axis in before for n in axis], [n for axis in after for n in axis]
    if one_sided := set(names) ^ set(wanted):
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {one_sided}")
    if unknown := axes_lengths.keys() - set(names):
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    if len(before) != len(shape):
        raise ValueError(
            f"Number of dimensions in pattern ({len(before)}) must be equal to the number of dimensions in the tensor "
            f"({len(shape)})"
        )
    sizes = dict(axes_lengths)
    for axis, size in zip(before, shape, strict=True):
        _measure(axis, size, sizes)
    apart = reshape_p(x, tuple(sizes[n] for n in names))
    ordered = permute_p(apart, tuple(names.index(n) for n in wanted)) if names else apart
    return reshape_p(ordered, tuple(math.prod(sizes[n] for n in axis) for axis in after))


def _parsed(pattern: str) -> tuple[_Axes, _Axes]:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    before, after = (_axes(side) for side in sides)
    if ["..."] not in before and any("..." in axis for axis in after):
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    return before, after


def _axes(side: str) -> _Axes:
    """Return the names that each dimension of one side of a pattern is made of."""
    axes: _Axes = []
    group: list[str] | None = None
    for word in re.findall(r"\(|\)|\.\.\.|[^\s()]+", side):
        if (word == "(") == (group is not None) and word in "()":
            raise ValueError(f"Imbalanced parentheses in expression: '{side}'")
        if word == "(":
            group = []
        elif word == ")":
            axes.append(tuple(group or ()))
            group = None
        elif word == "1":
            axes += [[]] if group is None else []
        else:
            _check_name(word)
            axes += [[word]] if group is None else []
            if group is not None:
                group.append(word)
    if group is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{side}'")
    names = [n for axis in axes for n in axis]
    for n in names:
        if names.count(n) > 1:
            raise ValueError(f"Indexing expression contains duplicate dimension '{n}'")
    return axes


def _check_name(word: str) -> None:
    if word.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if word != "..." and (not word.isidentifier() or word[0] == "_" or word[-1] == "_"):
        raise ValueError(f"Invalid axis identifier: {word}\naxis name should should not start or end with underscore")


def _without_ellipsis(before: _Axes, after: _Axes, rank: int) -> tuple[_Axes, _Axes]:
    """Return both sides with a name for each dimension that ``...`` stands for."""
    if ["..."] not in before:
        return before, after
    names = [f"...{i}" for i in range(rank - len(before) + 1)]

    def spelled(axes: _Axes) -> _Axes:
        out: _Axes = []
        for axis in axes:
            if axis == ["..."]:
                out += [[n] for n in names]
            else:
                out.append(tuple(n for a in axis for n in (names if a == "..." else [a])))
        return out

    return spelled(before), spelled(after)


def _measure(axis: list[str] | tuple[str, ...], size: int, sizes: dict[str, int]) -> None:
    """Find the sizes of the names that one dimension is made of."""
    missing = [n for n in axis if n not in sizes]
    if len(missing) > 1:
        raise ValueError(f"cannot infer the sizes of two dimensions at once {missing[0]} and {missing[1]}")
    known = math.prod(sizes[n] for n in axis if n in sizes)
    if missing:
        sizes[missing[0]] = size // known if known else 0
    total = math.prod(sizes[n] for n in axis)
    if total != size:
        raise ValueError(f"Dimension sizes to do not match ({size} != {total}) when matching dimension pack {axis}")
