"""Trees under the path at which torch programs look for them."""

from __future__ import annotations

from typing import Any

from .. import tree
from ..tree import *  # noqa: F403
from ..tree import _NODES as SUPPORTED_NODES
from ..tree import TreeSpec, broadcast_prefix, register_pytree_node

__all__ = ["SUPPORTED_NODES", "_broadcast_to_and_flatten", "_register_pytree_node"]
__all__ += tree.__all__

_register_pytree_node = register_pytree_node


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    return broadcast_prefix(tree, treespec, is_leaf)
