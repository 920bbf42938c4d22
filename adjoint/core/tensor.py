"""Storage, views and the slots of a tensor: what recording and mutation need to know of one."""

from __future__ import annotations

import sys
import weakref
from itertools import count
from typing import Any

import numpy as np

from .._typing import Array
from ..devices import forks
from ..errors import own_files
from . import modes

ndarray = np.ndarray

# One clock orders everything: a node's stamp is when it was recorded, a write's time is when it
# happened. A saved value is stale exactly when it was written after the node that saved it.
tick = count(1).__next__


class _Clock:
    """The time of the latest in-place write to any storage."""

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest = 0


clock = _Clock()
_ledger_lock = forks.lock()


class Ledger:
    """What has happened to a storage: its writes, and the views that must be notified of the next one."""

    __slots__ = ("bare", "code", "cut", "epoch", "fresh", "lasti", "limit", "of", "operation", "time", "version")

    def __init__(self) -> None:
        self.version = 0
        self.time = 0
        self.code: Any = None
        self.lasti = 0
        self.operation = ""
        self.cut = False  # whether a base has lost its history, which views of it may still have
        self.epoch = 0  # how often a base was given another geometry in place: older views came from another shape
        # Weak references to the views whose `node` is up to date. A write that changes the history of
        # the base marks these stale and empties the list; reading a stale view puts it back. So a
        # write costs nothing for a view that was not read since the last one.
        self.fresh: list[weakref.ref[TensorBase]] = []
        self.bare: list[weakref.ref[TensorBase]] = []  # the stale ones that had no node of their own
        self.limit = 64  # length at which dead references are dropped
        self.of: tuple[int, int] = (0, 0)  # the identity of a base, and how many of `fresh`, from the first, are its


class Storage:
    """What tensors that look at the same memory share: `ledger` is None until the first write or view."""

    __slots__ = ("__weakref__", "ledger", "origin")

    ledger: Ledger | None
    origin: int  # address of offset 0; unset unless it is not the owning array's start


class PrivateStorage(Storage):
    """Storage of ``x.data``: the memory of `x`, but writes to it are not writes to `x`."""

    __slots__ = ()


class InferenceStorage(Storage):
    """Storage of a tensor made in inference mode: it has no version counter."""

    __slots__ = ()


class View:
    """How a view came from its base: the primitives to replay, and the mode they were made in.

    `steps` is a linked list, last op first: `(steps of what this is a view of, or None; op; parameters)`. So a view
    of a view, of a view, ... costs as much as the first; code that needs all of them calls `replay`.
    """

    __slots__ = ("bare", "base", "epoch", "kind", "maker", "steps")

    bare: bool  # of a stale view: whether it had no node of its own when a write made it stale
    epoch: int  # the storage's when its base was looked at; -1 where `steps` no longer lead here
    # Which output of which custom function it is, or the node of a stale view that may not be used; else unset.
    maker: Any
    steps: Any
    NORMAL, NO_GRAD, MULTIPLE, CUSTOM, INFERENCE = range(5)

    def __init__(self, base: TensorBase, steps: object, kind: int) -> None:
        self.base = base
        self.steps = steps
        self.kind = kind
        self.epoch = -1

    @property
    def replay(self) -> tuple[Any, ...]:
        """The ops, with parameters, that made the view of its base, first op first."""
        ops, steps = [], self.steps
        while steps is not None:
            steps, op, params = steps
            ops.append((op, params))
        return tuple(reversed(ops))

    def is_longer(self, than: int) -> bool:
        """Return whether more than so many ops made the view."""
        steps = self.steps
        while steps is not None and than:
            steps, than = steps[0], than - 1
        return steps is not None

    def followed(self, view: View) -> View:
        """Return how this view, which has become a view of itself in place, comes from its base."""
        new = View(view.base, view.steps, self.kind)
        new.epoch = view.epoch
        for name in ("bare", "maker"):
            if hasattr(self, name):
                setattr(new, name, getattr(self, name))
        return new


class TensorBase:
    """The slots of a tensor.

    `array` is the value: a NumPy or CuPy array, or inside a transform a payload. `node` is where its
    gradient goes: None, an op's node, or a leaf's `AccumulateGrad`; `STALE` when an in-place write has
    changed a view's history since it was last read. `memory` is None until the tensor is viewed or written
    (`storage_of` makes it then), and `lineage` unless it is a view: most results never are. The class must
    never define `__getattr__`: with one, the interpreter no longer reads slots directly, and every op gets slower.
    """

    __slots__ = ("__weakref__", "_grad", "array", "lineage", "memory", "node")

    array: Any
    node: Any
    memory: Storage | None
    lineage: View | None
    _grad: Any


class _Stale:
    """The mark left in `node` of a view whose history must be rebuilt from its base."""

    __slots__ = ()


STALE = _Stale()


def new_storage() -> Storage:
    """Return the identity of memory that no other tensor shares."""
    storage = Storage()
    storage.ledger = None
    return storage


def storage_of(x: TensorBase) -> Storage:
    """Return the tensor's storage, which a fresh result gets only on first use."""
    storage = x.memory
    if storage is None:
        storage = x.memory = new_storage()
    return storage


getframe = sys._getframe
ours = own_files  # a frame of any other file is the program's


def caller() -> tuple[Any, int]:
    """Return the code and instruction of the innermost frame outside adjoint."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in ours and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def depth_outside() -> int:
    """Return the stacklevel of the program's frame, for a warning given by the caller."""
    frame, depth = sys._getframe(1), 1
    while frame.f_code.co_filename in ours and frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def ledger_of(storage: Storage) -> Ledger:
    """Return the storage's ledger, opened if it has none."""
    ledger = storage.ledger
    if ledger is None:
        with _ledger_lock:
            ledger = storage.ledger
            if ledger is None:
                ledger = storage.ledger = Ledger()
    return ledger


# Ledgers of memory that was written, by the identity of the array that owns it. A rule saves arrays, and
# this is how one finds out, long after, whether the memory of such an array was written. The
# weak reference takes the entry out when the memory goes, before the number can mean another array.
_written: dict[int, tuple[Any, Ledger]] = {}


def owner_of(array: Any) -> Any:
    """Return the array that owns the memory that `array` looks at."""
    while True:
        base = getattr(array, "base", None)
        if base is None:
            return array
        if not hasattr(base, "dtype"):  # NumPy's as_strided puts an object of its own in between
            base = getattr(base, "base", None)
            if base is None:
                return array
        array = base


def written_ledger(array: Any) -> Ledger | None:
    """Return the ledger of the memory that `array` looks at, if it was ever written."""
    # What an op at a higher level saves, it saves whole.
    while type(array) is not ndarray and (hasattr(array, "level") or isinstance(array, TensorBase)):
        array = array.array if isinstance(array, TensorBase) else array.memory()
    entry = _written.get(id(owner_of(array)))
    return None if entry is None else entry[1]


def _register(array: Array, ledger: Ledger) -> None:
    owner = owner_of(array)
    key = id(owner)
    known = _written.get(key)
    if known is None or known[1] is not ledger:
        try:
            ref = weakref.ref(owner, lambda _: _written.pop(key, None))
        except TypeError:  # a payload: it never changes, a write gives its tensor another one
            return
        _written[key] = (ref, ledger)


def mark_stale(x: TensorBase, ledger: Ledger, transformed: bool = False) -> None:
    """Mark the views of memory that was written: their history must be rebuilt, if its base has one.

    Inside a transform a view's value must be, too: there is no memory that it shares with its base.
    """
    base, fresh = x if x.lineage is None else x.lineage.base, ledger.fresh
    if base.node is None and not transformed and not ledger.cut and _are_of(ledger, base):
        return
    ledger.fresh, ledger.of = [], (0, 0)
    for ref in fresh:
        view = ref()
        if view is None:
            continue
        if transformed:  # nothing else leads to it, should its base get another shape
            ledger.fresh.append(ref)
        if view.node is STALE:
            continue
        lineage: Any = view.lineage
        if view.node is None and lineage.base.node is None and not transformed:  # of an alias (detach()), or cut
            ledger.fresh.append(ref)
            continue
        lineage.bare = view.node is None or view.node.op.name == "Hidden"
        if lineage.bare:
            _note_bare(ledger, ref)
        if view.node is not None:
            retain_later(view)
            if lineage.kind and not lineage.bare and not hasattr(lineage, "maker"):
                lineage.maker = view.node
        view.node = STALE


def _note_bare(ledger: Ledger, ref: weakref.ref[TensorBase]) -> None:
    """Note a stale view that requires a gradient only as long as its base does."""
    count = len(ledger.bare)
    if count >= 64 and not count & (count - 1):
        ledger.bare = [r for r in ledger.bare if r() is not None]
    ledger.bare.append(ref)


def _are_of(ledger: Ledger, base: TensorBase) -> bool:
    """Return whether the views of a storage are of one base; of many, each is looked at once, not at each write."""
    known, start = ledger.of
    for i in range(start if known == id(base) else 0, len(ledger.fresh)):
        view = ledger.fresh[i]()
        if view is not None and view.lineage is not None and view.lineage.base is not base:
            return False
    ledger.of = id(base), len(ledger.fresh)
    return True


def note_geometry(x: TensorBase) -> None:
    """Note that the tensor gets another shape, strides or memory in place: views of it came from what it was."""
    if x.lineage is not None:
        x.lineage.epoch = -1
    elif x.memory is not None and x.memory.ledger is not None:
        x.memory.ledger.epoch += 1


# Views whose gradient the program wants to retain, by identity, while they have no node that could remember it.
retaining: dict[int, weakref.ref[TensorBase]] = {}


def retain_later(view: TensorBase, old_too: bool = False) -> None:
    """Remember that a view about to lose its node retains its gradient; its old node does so still if `old_too`."""
    extra = getattr(view.node, "extra", None)
    if extra is not None and extra.retain is not None and extra.retain() is view:
        key = id(view)
        retaining[key] = weakref.ref(view, lambda _: retaining.pop(key, None))
        if not old_too:
            extra.retain = None


def note_write(x: TensorBase, operation: str = "") -> None:
    """Record that the tensor's memory was written: when, how often, by which op and on which line."""
    storage = x.memory
    if storage is None or storage.ledger is None:
        storage = storage_of(x)
        ledger_of(storage)
    ledger: Any = storage.ledger
    ledger.version += 1
    ledger.time = clock.latest = tick()
    frame: Any = getframe(1)
    while frame.f_code.co_filename in ours and frame.f_back is not None:
        frame = frame.f_back
    ledger.code, ledger.lasti = frame.f_code, frame.f_lasti
    ledger.operation = operation
    known = _written.get(id(x.array))  # which is there if the array owns its memory
    if (known is None or known[1] is not ledger) and type(storage) is not PrivateStorage:
        _register(x.array, ledger)
    if ledger.fresh:
        mark_stale(x, ledger)
    if modes.unusual and modes.local.observer is not None:
        modes.local.observer.written(x, operation)
