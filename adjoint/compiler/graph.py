"""The graph of a captured program: values, lines that make them, and what a run does to the outside.

Everything between the inputs and the end is pure: a line makes new values and changes nothing. What the
program wrote in place is there as new values, and lines of `WRITE` at the end put them into the memory
they belong to. So a pass may drop, merge and move calls freely, as long as values are made before they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .._typing import Array
from ..core import device as devices
from ..core.nodes import wrap
from ..core.primitive import Op
from ..tree import TreeSpec

if TYPE_CHECKING:
    from ..core.tensor import TensorBase

__all__ = ["GUARD", "WRITE", "Effect", "Form", "Graph", "GuardFailure", "Line", "Reference", "Step", "Value"]


class GuardFailure(RuntimeError):
    """A captured program was run on values for which it would have taken another path."""


class Form:
    """The shape, dtype, strides and device of an array that is not there yet, its elements in order."""

    __slots__ = ("device", "dtype", "shape", "strides")

    def __init__(self, shape: Sequence[int], dtype: np.typing.DTypeLike, device: str = "cpu") -> None:
        self.shape, self.dtype, self.device = tuple(shape), np.dtype(dtype), device
        step, strides = self.dtype.itemsize, []
        for size in reversed(self.shape):
            strides.append(step)
            step *= max(size, 1)
        self.strides = tuple(reversed(strides))


class Value:
    """One array in a graph: made once, by one line, or an input.

    Attributes
    ----------
    number
        Identifies a value within its graph; the text of the graph calls it ``v7``.
    shape, dtype, strides, device
        What the array was in the captured run; strides in bytes, dtype NumPy's.
    kind
        ``"argument"``, ``"outside"`` (a tensor the program found, held by reference), ``"constant"`` or
        ``"result"``.
    array
        Of a constant: its elements.
    """

    __slots__ = ("array", "device", "dtype", "kind", "number", "shape", "strides")

    def __init__(self, number: int, like: Any, kind: str = "result", array: Any = None) -> None:
        self.number, self.kind, self.array = number, kind, array
        self.shape: tuple[int, ...] = tuple(like.shape)
        self.dtype: np.dtype[Any] = like.dtype
        self.strides: tuple[int, ...] = tuple(like.strides)
        self.device: str = like.device if isinstance(like, Value | Form) else str(devices.of(like))

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def described(self) -> str:
        """The dtype and shape, as ``float32[64, 10]``."""
        place = "" if self.device == "cpu" else f" on {self.device}"
        return f"{self.dtype.name}{list(self.shape)}{place}"

    def __repr__(self) -> str:
        return f"v{self.number}"


class Step:
    """A line that calls no primitive: a function of arrays.

    `random` steps sample from a generator on every run; the shape of what `dynamic` ones return depends on data.
    """

    __slots__ = ("dynamic", "function", "name", "outputs", "random")

    def __init__(
        self, name: str, function: Callable[..., Any], *, outputs: bool = False, random: bool = False,
        dynamic: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.function = name, function
        self.outputs, self.random, self.dynamic = outputs, random, dynamic

    def __repr__(self) -> str:
        return f"Step({self.name})"


def _belongs_to_the_graph(*_: object) -> NoReturn:
    raise TypeError("write and guard lines are the graph's own: Graph.run carries them out")


WRITE = Step("write", _belongs_to_the_graph)  # operands (target, value): put the value into an input's memory
GUARD = Step("guard", _belongs_to_the_graph)  # operand (value), params (what was read, its value)


class Line:
    """One line of a graph: ``outputs = op(*operands, *params)``.

    Attributes
    ----------
    op
        A primitive (`adjoint.core.primitive.Op`), a `Step`, `WRITE` or `GUARD`.
    operands
        Values, or Python numbers that the program passed as operands.
    params
        The op's parameters, as they were.
    outputs
        The values it makes; none for `WRITE` and `GUARD`.
    place
        The program's file and line; for a gradient, those of the op that it is the gradient of.
    backward
        Whether a backward pass called it.
    """

    __slots__ = ("_inputs", "_of", "backward", "op", "operands", "outputs", "params", "place")

    def __init__(
        self, op: Op | Step, operands: Sequence[Any], params: Sequence[Any] = (), outputs: Sequence[Value] = (),
        place: str = "", backward: bool = False,
    ) -> None:  # fmt: skip
        self.op: Any = op
        self.operands, self.params, self.outputs = tuple(operands), tuple(params), tuple(outputs)
        self.place, self.backward = place, backward
        self._of: Any = None

    @property
    def inputs(self) -> list[Value]:
        """The operands that are values."""
        if self._of is not self.operands:  # read often, changed seldom
            self._of, self._inputs = self.operands, [o for o in self.operands if isinstance(o, Value)]
        return self._inputs

    @property
    def is_call(self) -> bool:
        """Whether the line makes values, and may be dropped when they are not used."""
        return self.op is not WRITE and self.op is not GUARD

    def __str__(self) -> str:
        if self.op is WRITE:
            text = f"write {self.operands[0]} <- {self.operands[1]}"
        elif self.op is GUARD:
            text = f"guard {self.params[0]} of {self.operands[0]} is {_short(self.params[1])}"
        else:
            made = ", ".join(f"{v}: {v.described}" for v in self.outputs)
            given = ", ".join([*map(_short, self.operands), *map(_short, self.params)])
            text = f"{made} = {self.op.name}({given})"
        note = f"{self.place}{' (backward)' if self.backward else ''}"
        return f"{text:<72}  # {note}" if note else text

    __repr__ = __str__


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array {value.dtype.name}{list(value.shape)}" if value.size > 4 else repr(value.tolist())
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Reference:
    """A tensor outside the program, read afresh on each run.

    With ``attribute="grad"`` it is the gradient of `tensor`; with ``"number"``, `tensor` is a pair of a container and
    a key, and the number there is read.
    """

    __slots__ = ("attribute", "tensor", "value")

    def __init__(self, value: Value, tensor: Any, attribute: str = "") -> None:
        self.value, self.tensor, self.attribute = value, tensor, attribute

    @property
    def current(self) -> TensorBase:
        """The tensor as it is now."""
        if not self.attribute:
            return self.tensor
        if self.attribute == "number":
            return wrap(np.array(held(*self.tensor), np.float64))
        found = self.tensor._grad
        if found is None:
            raise GuardFailure(f"{self.value} is the .grad of a tensor, which had one when the program was captured")
        return found

    def bound(self) -> tuple[TensorBase, Any]:
        """Return the tensor and its array as they are now; raise if the program was made for another layout."""
        tensor, value = self.current, self.value
        array = tensor.array
        if array.shape != value.shape or array.dtype != value.dtype or array.strides != value.strides:
            raise GuardFailure(f"a tensor outside was {value.described} and is {array.dtype.name}{list(array.shape)}")
        return tensor, array


def held(container: Any, key: Any) -> Any:
    """Return what a container has at a key, or at the second of a pair of keys in what it has at the first."""
    return container[key[0]][key[1]] if type(key) is tuple else container[key]


class Effect:
    """A ``.grad`` that the program left behind: of a tensor or an argument's value; `value` is None or a value.

    `had` says whether there was a gradient before: one that was there is added to, and the program is another.
    """

    __slots__ = ("had", "target", "value")

    def __init__(self, target: Any, value: Value | None, had: bool) -> None:
        self.target, self.value, self.had = target, value, had


class Graph:
    """A program as a straight list of lines, from one run.

    Attributes
    ----------
    arguments
        The values of the tensors among the arguments, in order.
    outside
        A `Reference` for each tensor that the program found elsewhere.
    constants
        Values whose elements were fixed by the captured run.
    lines
        The program.
    outputs
        What it returned, flattened: values, and whatever else it was as it was.
    numbers
        The positions of outputs that are values, but were returned as Python numbers.
    effects
        The gradients it left in ``.grad``.
    saved
        How many outputs, at the end, only the program of the backward pass reads.
    escapes
        Places at which a tensor was made that the program stored somewhere; a run cannot do that again.
    """

    def __init__(self) -> None:
        self.arguments: list[Value] = []
        self.outside: list[Reference] = []
        self.constants: list[Value] = []
        self.lines: list[Line] = []
        self.outputs: list[Any] = []
        self.numbers: list[int] = []
        self.saved = 0
        self.effects: list[Effect] = []
        self.escapes: list[str] = []
        self.given: list[Any] = []  # the arguments, flattened: a value for a tensor, anything else itself
        self.takes: TreeSpec | None = None
        self.returns: TreeSpec | None = None
        self._count = 0

    # --- building ---

    def value(self, like: object, kind: str = "result", array: Array | None = None) -> Value:
        """Return a new value with the shape, dtype, strides and device of an array or another value."""
        self._count += 1
        return Value(self._count, like, kind, array)

    def constant(self, array: Any) -> Value:
        """Return a new value that is `array` on every run."""
        made = self.value(array, "constant", array)
        self.constants.append(made)
        return made

    def add(self, line: Line, before: Line | None = None) -> Line:
        """Put a line at the end, or before another."""
        self.lines.insert(len(self.lines) if before is None else self.lines.index(before), line)
        return line

    # --- asking ---

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def inputs(self) -> list[Value]:
        """Every value that no line makes: arguments, outside tensors, constants."""
        return [*self.arguments, *(r.value for r in self.outside), *self.constants]

    @property
    def results(self) -> set[Value]:
        """The values that leave the graph other than by a write: outputs and gradients."""
        left = {o for o in self.outputs if isinstance(o, Value)}
        return left | {e.value for e in self.effects if e.value is not None}

    def makers(self) -> dict[Value, Line]:
        """Return the line that makes each value."""
        return {v: line for line in self.lines for v in line.outputs}

    def users(self) -> dict[Value, list[Line]]:
        """Return the lines that use each value."""
        users: dict[Value, list[Line]] = {}
        for line in self.lines:
            for v in dict.fromkeys(line.inputs):
                users.setdefault(v, []).append(line)
        return users

    # --- rewriting ---

    def replace(self, old: Value, new: Value) -> None:
        """Use `new` wherever `old` was used, outputs and gradients included."""
        for line in self.lines:
            if old in line.operands:
                line.operands = tuple(new if o is old else o for o in line.operands)
        self.outputs = [new if o is old else o for o in self.outputs]
        for effect in self.effects:
            if effect.value is old:
                effect.value = new

    def keep(self, lines: Iterable[Line]) -> None:
        """Remove all lines but these, which stay in their order."""
        kept = set(map(id, lines))
        self.lines = [line for line in self.lines if id(line) in kept]

    def prune(self) -> None:
        """Drop the calls whose values are not used, except those that generate random numbers."""
        wanted, kept = self.results, []
        for line in reversed(self.lines):
            random = isinstance(line.op, Step) and line.op.random
            if not line.is_call or random or any(v in wanted for v in line.outputs):
                wanted.update(line.inputs)
                kept.append(line)
        self.lines = kept[::-1]
        self.constants = [v for v in self.constants if v in wanted]
        self.outside = [r for r in self.outside if r.value in wanted]

    def copy(self) -> Graph:
        """Return a graph with lines of its own and the same values."""
        twin = Graph()
        for name, held in vars(self).items():
            setattr(twin, name, list(held) if isinstance(held, list) else held)
        twin.lines = [Line(m.op, m.operands, m.params, m.outputs, m.place, m.backward) for m in self.lines]
        twin.effects = [Effect(e.target, e.value, e.had) for e in self.effects]
        return twin

    def check(self) -> None:
        """Raise if a value is used before it is made, or made twice."""
        known = set(self.inputs)
        for line in self.lines:
            for v in line.inputs:
                if v not in known:
                    raise ValueError(f"{v} is used before it is made: {line}")
            for v in line.outputs:
                if v in known:
                    raise ValueError(f"{v} is made twice: {line}")
            known.update(line.outputs)
        missing = self.results - known
        if missing:
            raise ValueError(f"results that no line makes: {sorted(missing, key=lambda v: v.number)}")

    # --- text and running ---

    def __str__(self) -> str:
        heads = [f"argument {v}: {v.described}" for v in self.arguments]
        for r in self.outside:
            heads.append(f"outside {r.value}: {r.value.described}{f' (.{r.attribute})' if r.attribute else ''}")
        heads += [f"constant {v}: {v.described}" for v in self.constants]
        tails = ["return " + ", ".join(map(_short, self.outputs))] if self.outputs else []
        tails += [f"grad of {_named(e.target, self.outside)} = {e.value}" for e in self.effects]
        return "\n".join([*heads, *map(str, self.lines), *tails])

    def run(self, *args: object, **kwargs: object) -> Any:
        """Run the program again on other arguments: reads and writes outside tensors, returns what it returned.

        Results have no history. Raises `GuardFailure`, before anything is written, where the program would have gone
        another way.
        """
        from .replay import replay

        return replay(self, args, kwargs)


def _named(target: object, outside: list[Reference]) -> str:
    if isinstance(target, Value):
        return str(target)
    return next((str(r.value) for r in outside if r.tensor is target and not r.attribute), "an outside tensor")
