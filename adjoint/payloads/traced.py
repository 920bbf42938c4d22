"""Traced: values that write down every primitive they meet, so that a program becomes a list."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.nodes import wrap
from ..core.payload import Level, entered
from ..core.primitive import Op
from ..core.tensor import TensorBase
from .speech import Speaking


class Line(NamedTuple):
    """One recorded call: ``targets = op(*operands, *params)``; operands are `Name`s or constants."""

    targets: tuple[Name, ...]
    op: Op
    operands: tuple[Any, ...]
    params: tuple[Any, ...]

    def __str__(self) -> str:
        names = ", ".join(map(str, self.targets))
        arguments = ", ".join(str(o) if isinstance(o, Name) else "constant" for o in self.operands)
        rest = "".join(f", {p!r}" for p in self.params)
        return f"{names} = {self.op.name}({arguments}{rest})"


class Name(NamedTuple):
    """A value in a trace."""

    number: int

    def __str__(self) -> str:
        return f"v{self.number}"


class Trace:
    """A straight list of primitives, as one run of a program called them."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.inputs: list[Name] = []
        self.outputs: list[Any] = []
        self._count = 0

    def name(self) -> Name:
        """Return a fresh name."""
        self._count += 1
        return Name(self._count)

    def run(self, *arrays: Any) -> list[Any]:
        """Run the list on other inputs."""
        values: dict[Name, Any] = dict(zip(self.inputs, arrays, strict=True))
        for line in self.lines:
            operands = [values[o] if isinstance(o, Name) else o for o in line.operands]
            result = line.op.call(*operands, *line.params)
            results = result if line.op.outputs else (result,)
            values.update(zip(line.targets, results, strict=True))
        return [values[o] if isinstance(o, Name) else o for o in self.outputs]

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))


class Traced(Speaking):
    """A value being traced: its name in the trace, and the concrete value of this run."""

    __slots__ = ("name", "trace", "value")

    def __init__(self, value: Any, name: Name, trace: Trace, level: int) -> None:
        self.value, self.name, self.trace, self.level = value, name, trace, level

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self.value.array.dtype if isinstance(self.value, TensorBase) else self.value.dtype

    @property
    def flags(self) -> Any:
        """Memory flags of the value behind."""
        return (self.value.array if isinstance(self.value, TensorBase) else self.value).flags

    @classmethod
    def apply(cls, op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run `op` on the concrete values and add a line to the trace."""
        mine = [isinstance(v, Traced) and v.level == level for v in values]
        trace: Trace = next(v.trace for v, own in zip(values, mine, strict=True) if own)
        out = op.call(*(v.value if own else v for v, own in zip(values, mine, strict=True)), *params)
        results = out if op.outputs else (out,)
        traced = tuple(cls(r, trace.name(), trace, level) for r in results)
        operands = tuple(v.name if own else v for v, own in zip(values, mine, strict=True))
        trace.lines.append(Line(tuple(t.name for t in traced), op, operands, params))
        return traced if op.outputs else traced[0]

    def below(self) -> Any:
        """Return the value of this run."""
        return self.value

    def concrete(self, what: str) -> Any:
        """Return the value of this run."""
        return self.value.array if isinstance(self.value, TensorBase) else self.value

    def __repr__(self) -> str:
        return f"Traced({self.name}, {self.value!r})"


def trace(function: Any, *tensors: Any) -> tuple[Any, Trace]:
    """Run `function` on traced copies of `tensors`; return its result and the trace.

    The result, a tensor or a sequence of them, becomes the outputs of the trace.
    """
    record = Trace()
    with entered(Level()) as level:
        inputs = []
        for tensor in tensors:
            name = record.name()
            record.inputs.append(name)
            leaf = wrap(Traced(tensor.array, name, record, level))
            if tensor.node is not None:
                leaf.requires_grad_()
            inputs.append(leaf)
        result = function(*inputs)
        outputs = (result,) if isinstance(result, TensorBase) else tuple(result)
        record.outputs = [o.array.name if isinstance(o.array, Traced) else o.array for o in outputs]
        values = tuple(_shown(o) for o in outputs)
    return (values[0] if isinstance(result, TensorBase) else values), record


def _shown(tensor: Any) -> Any:
    """Return the concrete tensor behind a traced one."""
    value = tensor.array.value if isinstance(tensor.array, Traced) else tensor.array
    return value if isinstance(value, TensorBase) else wrap(value)
