"""The memory of values: what a captured program has seen, and the parts of it that are views."""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Iterator, Sequence
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array, DType, Op, Params, Shape
from ..core import device
from ..core.tensor import owner_of
from ..devices.cpu.memory import place_of
from .graph import Step, Value


class Layout(NamedTuple):
    """The address and memory layout of an array."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


def layout_of(array: Any) -> Layout:
    """Return the address and memory layout of an array."""
    address = place_of(array) if isinstance(array, np.ndarray) else device.address_of(array)
    return Layout(address, tuple(array.shape), tuple(array.strides), array.dtype)


def _span(layout: Layout) -> tuple[int, int]:
    """Return the first address and the one after the last."""
    if 0 in layout.shape:
        return layout.address, layout.address
    reach = [stride * (size - 1) for stride, size in zip(layout.strides, layout.shape, strict=True)]
    start = layout.address + sum(r for r in reach if r < 0)
    return start, layout.address + sum(r for r in reach if r > 0) + layout.dtype.itemsize


class View(NamedTuple):
    """A part of a memory: its value as of a version, and the op that made it from another part."""

    value: Value
    version: int
    op: Any
    params: tuple[Any, ...]
    parent: Any
    source: Any


class Memory:
    """A stretch of memory as a program knows it: `current` is its value, in the layout `home`.

    `first()` is the array that it was first seen as, while that lives; `held` is a reference to memory from outside.
    """

    __slots__ = ("constant", "current", "first", "held", "home", "origin", "version", "views", "written")

    def __init__(self, array: Array, value: Value, origin: Value | None) -> None:
        self.first, self.home = weakref.ref(array), layout_of(array)
        self.held = array if origin is not None else None
        self.current, self.origin = value, origin
        self.constant = value.kind == "constant"
        self.version, self.written = 0, False
        self.views: dict[Layout, View] = {}

    @property
    def span(self) -> tuple[int, int]:
        """The first address and the one after the last."""
        return _span(self.home)

    def remember(
        self, layout: Layout, value: Value, array: Array, op: Op | None = None, params: Params = (),
        parent: Value | None = None, source: Array | None = None,
    ) -> None:  # fmt: skip
        """Note the value of a part, and how it is made again; without an op, as it was made before."""
        old = self.views.get(layout)
        if op is None and old is not None:
            op, params, parent, source = old.op, old.params, old.parent, old.source
        self.views[layout] = View(value, self.version, op, params, parent, source)

    def region(self, layout: Layout) -> tuple[Any, ...]:
        """Return the parameters with which `take_region` and `put_region` find a part in the whole."""
        home = self.home
        return home.strides, layout.address - home.address, layout.shape, layout.strides, layout.dtype


def _forget(memories: Memories | None, key: int) -> None:
    if memories is not None:
        memories.forget(key)


class Memories:
    """Every memory that a program has seen and that is still there, by the array that owns it.

    What the program lets go is forgotten: its address may be another's next.
    """

    def __init__(self) -> None:
        self.by_owner: dict[int, list[Memory]] = {}
        self._alive: dict[int, Any] = {}

    def __iter__(self) -> Iterator[Memory]:
        return (m for found in self.by_owner.values() for m in found)

    def find(self, array: Any) -> Memory | None:
        """Return the memory of an array."""
        found = self.by_owner.get(id(owner_of(array)))
        if found is None:
            return None
        for memory in found:
            if memory.first() is array:
                return memory
        start, stop = _span(layout_of(array))
        return next((m for m in found if m.span[0] <= start and stop <= m.span[1]), None)

    def add(self, array: Array, value: Value, origin: Value | None = None) -> Memory:
        """Take in the memory of an array."""
        memory = Memory(array, value, origin)
        owner = owner_of(array)
        key = id(owner)
        if key not in self.by_owner:
            self.by_owner[key] = []
            mine = weakref.ref(self)
            self._alive[key] = weakref.ref(owner, lambda _: _forget(mine(), key))
        self.by_owner[key].append(memory)
        return memory

    def forget(self, key: int) -> None:
        """Forget the memory of an array that is gone."""
        self.by_owner.pop(key, None)
        self._alive.pop(key, None)


def _block_of(array: Any, strides: tuple[int, ...]) -> tuple[Any, int, Any]:
    """Return fresh bytes that hold an array with these strides, where its first element is, and the array there."""
    start, stop = _span(Layout(0, tuple(array.shape), strides, array.dtype))
    block = device.module_of(array).zeros(stop - start, np.uint8)
    fresh = _strided(block, -start, array.shape, strides, array.dtype)
    fresh[...] = array
    return block, -start, fresh


def _strided(block: Array, offset: int, shape: Shape, strides: Sequence[int], dtype: DType) -> Any:
    if isinstance(block, np.ndarray):
        return np.ndarray(shape, dtype, block, offset, strides)
    return device.module_of(block).ndarray(shape, dtype, block.data + offset, strides)


def _take(
    whole: Array, home: tuple[int, ...], offset: int, shape: Shape, strides: Sequence[int], dtype: DType
) -> Array:
    block, first, _ = _block_of(whole, home)
    return _strided(block, first + offset, shape, strides, dtype)


def _put(whole: Any, part: Any, home: Any, offset: int, shape: Shape, strides: Sequence[int], dtype: DType) -> Any:
    block, first, fresh = _block_of(whole, home)
    _strided(block, first + offset, shape, strides, dtype)[...] = part
    return fresh


# Parameters of both: strides of the whole, then offset, shape, strides and dtype of the part, in bytes.
take_region = Step("take_region", _take)  # operand: the whole
put_region = Step("put_region", _put)  # operands: the whole, the part; a new whole, with the part in its place


def shared_blocks(spans: list[tuple[Value, int, int]]) -> tuple[dict[Value, int], list[int]]:
    """Return the block of memory for each value, and the sizes of the blocks.

    A value is in use from one moment to another; blocks of the same size are handed on, the last one left first: it
    is the likeliest to be in the cache.
    """
    places: dict[Value, int] = {}
    sizes: list[int] = []
    free: dict[int, list[int]] = {}
    leaving: list[tuple[int, int]] = []  # the last moment of a block's use, and the block
    for v, start, stop in sorted(spans, key=lambda span: span[1]):
        while leaving and leaving[0][0] < start:
            block = heapq.heappop(leaving)[1]
            free.setdefault(sizes[block], []).append(block)
        size = -(-max(v.nbytes, 1) // 64) * 64
        if free.get(size):
            places[v] = free[size].pop()
        else:
            places[v] = len(sizes)
            sizes.append(size)
        heapq.heappush(leaving, (stop, places[v]))
    return places, sizes


class Spare:
    """An array that a program makes anew in every run: the last one again, once nothing else refers to it."""

    __slots__ = ("array", "dtype", "shape")
    unused = 0  # references to the array while it is

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype
        self.array = np.empty(0)

    def __call__(self) -> Any:
        """Return an array, whose elements may be anything."""
        if getrefcount(self.array) != self.unused or self.array.shape != self.shape:
            self.array = np.empty(self.shape, self.dtype)
        return self.array


def _references_when_unused() -> int:
    spare = Spare((0,), np.dtype(np.float32))
    return getrefcount(spare.array)


Spare.unused = _references_when_unused()  # interpreters count differently
