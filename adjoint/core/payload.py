"""Values other than arrays that a tensor may hold: batched, dual and traced ones, each at a level.

A transform that is entered pushes a level. Its payloads carry that number, and an op runs at the
highest level among its operands: payloads of that level are handled by their class, everything lower
enters whole, as a value, so that the graph it belongs to goes on recording (see docs/design.md).
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from .._typing import Op
from . import device, modes
from .tensor import TensorBase, tick

if TYPE_CHECKING:
    from .nodes import Node


class Payload:
    """Base class of values that a tensor may hold instead of an array.

    A subclass provides `shape`, `dtype`, `ndim` for the value as the program sees it, and `apply`, which
    runs one primitive on values of which at least one is of this level.
    """

    __slots__ = ("level",)

    level: int
    # NumPy calls the operand of the highest priority first; a payload goes before arrays and tensors.
    __array_priority__: ClassVar[float] = 2000.0
    # Whether a tensor of a lower level that is written with such a value becomes one itself.
    spreads: ClassVar[bool] = True
    # Whether ops come with the operands that the program gave, neither promoted nor taken out of their tensors.
    whole: ClassVar[bool] = False

    @classmethod
    def apply(cls, op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run `op` on `values`, of which those of `level` are payloads of this class."""
        raise NotImplementedError

    @classmethod
    def lifted(cls, value: object, level: int) -> Any:
        """Return a value of a lower level as one of this class and level."""
        raise NotImplementedError

    @classmethod
    def overwrite(cls, op: Op, x: TensorBase, rest: tuple[Any, ...], params: tuple[Any, ...], level: int) -> bool:
        """Write into the memory below the tensor's value, if there is one that others look at; else return False."""
        return False

    @property
    def by_value(self) -> bool:
        """Whether a write gives the tensor another value, so that what looks at its memory must be made anew."""
        return False

    def memory(self) -> Any:
        """Return the array at the bottom: of a batch all of it, of a dual value the primal."""
        value: Any = self
        while isinstance(value, Payload | TensorBase):
            inner = value.array if isinstance(value, TensorBase) else value.below()
            if inner is value:  # a shape without elements, which says what stands for its memory
                return value.memory()
            value = inner
        return value

    def below(self) -> Any:
        """Return the value one level down."""
        raise NotImplementedError

    def above(self, value: object) -> Any:
        """Return this with another value one level down, where it has one."""
        return self

    def outside(self, operation: str) -> object:
        """Return what is left of the value once its transform is over, where `operation` meets it then."""
        return self

    def detached(self) -> Any:
        """Return the value as `Tensor.detach` gives it."""
        return self

    def ones(self) -> Any:
        """Return the gradient of the value with respect to itself."""
        return device.ones_like(self)

    def history(self) -> object:
        """Return the tensor one level down whose history the value has, where programs see it; else None."""
        return None

    def note_holder(self, tensor: TensorBase) -> None:
        """Called when a tensor was made to hold the value."""


_levels = itertools.count(1).__next__


class Level:
    """A context in which payloads of one fresh level live.

    `kind` is their class, where a transform wants values of lower levels lifted to it; `size` (None but for a
    batch) and `randomness` say what random numbers drawn inside a batch are. A level of no payloads (`recording`) marks
    where a reverse-mode transform was entered, and with which grad mode. `captured` are the tensors that the
    function of a derivative has from outside, which it may not write. One that starts `afresh` records at its own
    level whatever the modes around it are.
    """

    __slots__ = (
        "afresh",
        "captured",
        "counted",
        "floor",
        "grad",
        "kind",
        "leaves",
        "number",
        "randomness",
        "recording",
        "size",
        "start",
        "transform",
    )

    leaves: frozenset[Any]  # the nodes of the arguments by which a reverse-mode transform differentiates
    start: int  # when it was entered: what was recorded earlier is from outside

    def __init__(
        self,
        kind: type[Payload] | None = None,
        size: int | None = None,
        randomness: str = "same",
        recording: bool = False,
        captured: tuple[TensorBase, ...] | None = None,
    ) -> None:
        self.kind, self.size, self.randomness, self.recording = kind, size, randomness, recording
        self.captured, self.afresh, self.counted = captured, False, False
        self.number = 0  # until it is entered
        self.transform = kind is not None or captured is not None
        self.leaves, self.start = frozenset(), 0

    def has_captured(self, x: TensorBase) -> bool:
        """Return whether the function that runs at this level has `x`, or a tensor of its memory, from outside."""
        for tensor in self.captured or ():
            if tensor is x or (tensor.memory is not None and tensor.memory is x.memory):
                return True
        return False

    def __enter__(self) -> int:
        self.number = _levels()
        if self.captured is not None:
            self.start = tick()
        levels = inside.levels
        around = innermost() if levels else None
        self.floor = 0 if around is None else around.number
        self.grad = modes.local.grad
        levels = (*levels, self)
        if not self.recording:
            modes.note_unusual(1)
        if self.transform:
            modes.note_transform(1)
        self.counted, inside.levels = True, levels
        return self.number

    def __exit__(self, *error: object) -> None:
        levels = inside.levels
        if levels and levels[-1] is self:
            inside.levels = levels[:-1]
        elif self in levels:
            inside.levels = levels[: levels.index(self)]
        if not self.counted:
            return
        self.counted = False
        if not self.recording:
            modes.note_unusual(-1)
        if self.transform:
            modes.note_transform(-1)


# For each batch's level, by their identity, the tensors that stand for one element of a tensor: that, along which
# dimension, the stand-in, and what it held at first.
arguments: dict[int, dict[int, tuple[Any, int, Any, Any]]] = {}


class _Inside(threading.local):
    """The levels that this thread is inside of, innermost last."""

    levels: tuple[Level, ...] = ()


inside = _Inside()


class entered:
    """A context that enters a level, and leaves it whatever happens: if its end is interrupted, once it is dropped."""

    __slots__ = ("level", "levels")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.levels: tuple[Level, ...] | None = None

    def __enter__(self) -> int:
        self.levels = inside.levels
        try:
            return self.level.__enter__()
        except BaseException:  # an interrupt
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        inside.levels, self.levels = self.levels or (), None  # by stores: see modes.py
        self.level.__exit__()

    def __del__(self) -> None:
        if self.levels is not None and self.level in inside.levels:
            self.__exit__()
        elif self.levels is not None:  # a context around it has ended since
            self.level.__exit__()


def innermost() -> Level | None:
    """Return the innermost level whose payloads values are lifted to, if any."""
    for level in reversed(inside.levels):
        if level.kind is not None:
            return level
    return None


def transforming() -> bool:
    """Return whether this thread is inside a function transform (`grad`, `jvp`, `vmap`, ...)."""
    return modes.transforms > 0 and any(level.transform for level in inside.levels)


def is_captured(x: TensorBase) -> bool:
    """Return whether a function that is being differentiated has `x`, or a tensor of its memory, from outside."""
    return any(level.has_captured(x) for level in inside.levels)


_LEAF = 2**64 - 1  # the stamp of leaves


def has_seen_history(node: Node) -> bool:
    """Return whether a program inside transforms sees the history of what a node has recorded.

    A derivative shows its function how values depend on the arguments; what was made of captured tensors alone
    is recorded for what is around it, and looks like a constant inside.
    """
    for level in reversed(inside.levels):
        if node in level.leaves:
            return True
        if level.captured is not None and level.start <= node.stamp < _LEAF:
            return _leads_to(node, level.leaves, level.start)
    return True


def is_argument(node: Node) -> bool:
    """Return whether a node is that of an argument by which a transform around differentiates."""
    return any(node in level.leaves for level in inside.levels)


def _leads_to(node: Node, leaves: frozenset[Any], start: int) -> bool:
    """Return whether the part of the graph that was recorded since `start` leads from a node to some leaves."""
    if not leaves:
        return False
    seen, stack = {node}, [node]
    while stack:
        for edge in stack.pop().edges:
            if edge in leaves:
                return True
            if edge is not None and edge not in seen and start <= edge.stamp < _LEAF:
                seen.add(edge)
                stack.append(edge)
    return False


def transforms() -> list[Level]:
    """Return the levels of the function transforms that this thread is inside of, innermost last."""
    return [level for level in inside.levels if level.transform]


def wrapped_in(x: TensorBase, levels: list[Level]) -> tuple[int, Any]:
    """Return the depth of the innermost of some transforms that has made something of `x`, and what `x` is below it.

    Depths count from 1; it is -1, and `x` itself, where none has.
    """
    payload = payload_of(x)
    for depth in range(len(levels), 0, -1):
        level = levels[depth - 1]
        if payload is not None and payload.level == level.number:
            return depth, payload.below()
        if level.captured is not None and not level.has_captured(x):
            return depth, x.array
    return -1, x


def grad_at(number: int) -> bool:
    """Return the grad mode for an op whose operands are of a level and lower ones.

    A reverse-mode transform records what happens at the level it was entered in, and above: a `no_grad` around it
    goes on for the levels below. One inside the function is obeyed by all.
    """
    grad = modes.local.grad
    entered = grad or modes.local.silenced > 0
    for level in reversed(inside.levels):
        if level.recording and level.floor > number:
            grad = entered and level.grad
            entered = grad
        elif level.afresh and level.floor <= number:
            break
    return grad


def payload_of(value: object) -> Payload | None:
    """Return the payload that `value` is or holds, if any."""
    if isinstance(value, TensorBase):
        value = value.array
    return value if isinstance(value, Payload) else None


def is_batch(value: object) -> bool:
    """Return whether a tensor stands for one element of a batch."""
    payload = payload_of(value)
    return payload is not None and not payload.spreads


def refuse_format(value: object) -> None:
    """Raise if the tensor stands for one element of a batch, and a memory format other than the default is given."""
    if is_batch(value):
        raise RuntimeError(
            "NYI: querying is_contiguous inside of vmap for memory_format other than adjoint.contiguous_format: the "
            "format is a property of the whole batch. Choose it outside vmap."
        )


def top_payload(values: tuple[Any, ...]) -> Payload | None:
    """Return the payload of the highest level among `values`, if any."""
    top: Payload | None = None
    for value in values:
        payload = payload_of(value)
        if payload is not None and (top is None or payload.level > top.level):
            top = payload
    return top


def broadcasting(rule: Any) -> Any:
    """Mark a batching rule as one that takes operands whose batch axis has size 1, for all of the batch."""
    rule.broadcasts = True
    return rule


def history_below(x: TensorBase) -> Any:
    """Return the tensor one level down whose history a tensor has, where programs see it (`forward_ad`); else None."""
    return x.array.history() if isinstance(x.array, Payload) else None
