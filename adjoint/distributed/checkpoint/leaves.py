"""The leaves of a state dict: tensors, parts of tensors, and plain values, each with its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core.tensor import TensorBase
from ..shards import ShardedParameter

__all__ = ["Leaf", "leaves_of"]


class Leaf:
    """A value in nested dicts and lists: its name is the way to it."""

    def __init__(self, path: tuple[Any, ...], holder: Any, value: Any) -> None:
        self.path, self.holder, self.value = path, holder, value
        self.name = ".".join(map(str, path))

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, whole or in part."""
        return isinstance(self.value, TensorBase)

    @property
    def is_part(self) -> bool:
        """Whether every rank has another part of it."""
        return isinstance(self.value, ShardedParameter)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return tuple(self.value.full_shape if self.is_part else self.value.array.shape)

    @property
    def start(self) -> int:
        """The number of its first element in the whole tensor."""
        return int(self.value.start) if self.is_part else 0

    def replace(self, value: Any) -> None:
        """Put another value in its place."""
        self.holder[self.path[-1]] = value


def leaves_of(state_dict: dict[str, Any]) -> list[Leaf]:
    """Return the leaves of nested dicts and lists; objects that have a ``state_dict()`` are asked for it."""
    found = list(_leaves(state_dict, ()))
    names = [leaf.name for leaf in found]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"two values of the state dict have the same name: {', '.join(twice[:3])}")
    return found


def _leaves(holder: Any, path: tuple[Any, ...]) -> Iterator[Leaf]:
    for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
        way = (*path, key)
        if isinstance(value, dict | list) and value:
            yield from _leaves(value, way)
        else:
            yield Leaf(way, holder, value)
