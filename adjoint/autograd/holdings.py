"""The memory of a graph: which nodes behind a loss save how many bytes for the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..core import dtypes
from ..core.leaves import AccumulateGrad
from ..core.nodes import Freed, Packed, saved_arrays, shown
from ..core.pruning import reach
from ..core.tensor import TensorBase, owner_of
from ..core.views import edge_of
from ..errors import place

__all__ = ["Holding", "Holdings", "saved"]


class Holding(NamedTuple):
    """One array that a node saves.

    `bytes` are those of the array; `shared` says whose memory it is, where it takes none of its own:
    ``"leaf"`` (a parameter's or an input's), or ``"kept above"`` (another row's).
    """

    node: str
    value: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    shared: str
    place: str
    module: str
    storage: int


class Holdings(list[Holding]):
    """The rows of `saved`; prints as a table, largest first."""

    @property
    def total(self) -> int:
        """The bytes that would be free without the graph: each memory once, leaves' not at all."""
        return sum(h.bytes for h in self if not h.shared)

    def __str__(self) -> str:
        rows = [
            (h.node, h.value, f"{h.dtype}{list(h.shape)}", f"{h.bytes:,}", h.shared, h.module, h.place)
            for h in sorted(self, key=lambda h: (bool(h.shared), -h.bytes))
        ]
        titles = ("node", "keeps", "shape", "bytes", "memory of", "in", "line")
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in (titles, *rows)]
        return "\n".join([*lines, f"{self.total:,} bytes held by the graph alone, in {len(self)} values"])


def saved(loss: Any) -> Holdings:
    """Return the saved values of the graph behind a tensor: node, line, shape, dtype, bytes, and whose memory it is.

    Examples
    --------
    >>> x = adjoint.ones(3, requires_grad=True)
    >>> held = adjoint.autograd.graph.saved(x.exp().sin().sum())
    >>> [(h.node, h.bytes) for h in held], held.total
    ([('SinBackward0', 12), ('ExpBackward0', 12)], 12)
    """
    root = edge_of(loss)
    nodes = [] if root is None else reach([root])
    leaves = {id(owner_of(e.array)) for n in nodes for e in n.edges if type(e) is AccumulateGrad}
    seen: set[int] = set()
    found = Holdings()
    for node in nodes:
        for name, array in values_kept(node):
            storage = id(owner_of(array))
            shared = "leaf" if storage in leaves else "kept above" if storage in seen else ""
            seen.add(storage)
            kind, where = dtypes.of(array.dtype).name, place(node.code, node.lasti) or ""
            row = (shown(node).op.title, name, tuple(array.shape), kind, int(array.nbytes), shared, where)
            found.append(Holding(*row, function_of(node), storage))
    return found


def function_of(node: Any) -> str:
    """Return the name of the program's function that recorded a node, as ``Block.forward``."""
    return "" if node.code is None else str(node.code.co_qualname)


def values_kept(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays that a node saves, each with the name of the input, or ``"result"``."""
    held = node.saved
    if held is None or type(held) is Freed:
        return
    names = (*node.op.inputs, "result")
    if type(held) is Packed or node.op.saves.indexes:
        pairs = [(names[min(i, len(names) - 1)], v) for i, v in saved_arrays(node, held)]
    else:  # a custom function, which saves what it likes
        pairs = [("saved", v) for v in held]
    once: set[int] = set()
    for name, value in pairs:
        array = value.array if isinstance(value, TensorBase) else getattr(value, "array", value)
        if hasattr(array, "nbytes") and hasattr(array, "strides") and id(array) not in once:
            once.add(id(array))
            yield name, array
