"""The arrays of a program: their names, buffers and views that are made once, and calls that are bound to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Array, DType
from ..devices.cpu.sizes import REUSED
from ..devices.cpu.sizes import THREAD_PROGRAM as THREADED
from .calls import NEW, pieces
from .fusion import Fusion
from .graph import Graph, Line, Step, Value
from .loops import Kind, copying_text
from .memory import Spare

WRITING = "writing[0] = True"
_RESHAPING = frozenset(("reshape", "unsafe_view", "clone", "contiguous", "clone_ordered"))
COPIED = tuple(np.dtype(name) for name in ("float32", "float64", "bool", "int8", "int32", "int64"))


class Buffers:
    """What the lines of a program refer to, and the text so far: `Program` writes the lines."""

    def __init__(self, graph: Graph, fusion: Fusion, kernels: Any) -> None:
        self.graph, self.fusion, self.kernels = graph, fusion, kernels
        self.results = graph.results
        end = len(graph.outputs) - graph.saved
        self.passed = set(graph.outputs[end:]).difference(v for v in graph.outputs[:end] if isinstance(v, Value))
        self.direct: dict[Value, Value] = {}  # new values that go straight to the memory of an input, and that input
        self.writing = [False]  # whether the run, or the last there was, has written to memory that outlives it
        self.env: dict[str, Any] = {"np": np, "empty": np.empty, "new": NEW, "writing": self.writing}
        if kernels is not None:
            self.env.update(row=kernels.row, pieces=pieces)
        self.buffers: list[tuple[str, Value]] = []  # made once
        self.spans: dict[Value, list[int]] = {}  # from which part of the body to which a buffer is in use
        self.holders: dict[Value, list[Value]] = {}  # what a library returned, and what it may be a view of
        self.prelude: dict[str, str] = {}  # the text of views of what is there once, by name
        self.first: list[str] = []  # arrays that are new in every run, and views of them
        self.early: set[Value] = set()  # values whose array is there from then on
        self.runs = 0
        self.body: list[Any] = []  # lines of text, and calls of machine code
        self.names: dict[Value, str] = {}
        self.samples: dict[Value, Any] = {}  # arrays laid out as those of each run
        self.strides: dict[Value, tuple[int, ...]] = {}
        self.fixed: set[Value] = set()  # values whose array is the same object in every run

    def _declare(self, v: Value, name: str, strides: tuple[int, ...], fixed: bool) -> str:
        self.names[v] = name
        self.strides[v] = strides
        self._touch(v)
        if fixed:
            self.fixed.add(v)
        return name

    def _buffer(self, v: Value) -> str:
        """Give a value an array: one for ever, the memory it is written to, or a new one if it leaves the program."""
        if v in self.names:
            self._touch(v)
            return self.names[v]
        strides = row_major(v.shape, v.dtype.itemsize)
        if v in self.direct:
            target = self.direct[v]
            self.names[v] = self.names[target]
            self.strides[v] = self.strides[target]
            self.fixed.add(v) if target in self.fixed else None
            return self.names[v]
        name = self._declare(v, f"b{v.number}", strides, v not in self.results)
        if v in self.results:
            made = f"empty({v.shape}, {self._object(v.dtype, v.dtype.name)})"
            if v in self.passed and v.nbytes >= REUSED:
                made = f"{self._object(Spare(v.shape, v.dtype), 'spare')}()"
            self.first.append(f"{name} = {made}")
            self.early.add(v)
        else:
            self.buffers.append((name, v))
        return name

    def _array(self, v: Value) -> str:
        """Return the name of a value's array, which is written as a view of another if it is one."""
        self._touch(v)
        if v in self.names:
            return self.names[v]
        line = self.fusion.views[v]
        operand = line.operands[0]
        source = self._array(operand)
        text = _view_text(line, source, self._object(line.op.kernel, line.op.name), self._params(line))
        name = f"v{v.number}"
        before = self._sample(operand)
        after = self.samples[v] = np.asarray(line.op.kernel(before, *line.params))
        if operand in self.fixed and np.may_share_memory(before, after):
            self.prelude[name] = text
            self.fixed.add(v)
        elif operand in self.early and (np.may_share_memory(before, after) or self._is_given(operand)):
            self.first.append(f"{name} = {text}")
            self.early.add(v)
        elif self._only_reshapes(line):  # and must copy
            return self._copied(v, operand)
        else:
            self.body.append(f"{name} = {text}")
        self.names[v], self.strides[v] = name, after.strides
        return name

    def _only_reshapes(self, line: Line) -> bool:
        """Return whether a line only gives elements another shape, and a loop can copy them."""
        out, x = line.outputs[0], line.operands[0] if line.operands else None
        if self.kernels is None or isinstance(line.op, Step) or line.op.name not in _RESHAPING:
            return False
        alike = isinstance(x, Value) and x.dtype == out.dtype and x.size == out.size > 0
        return alike and out.dtype in COPIED and bool(out.shape)

    def _copied(self, v: Value, source: Value) -> str:
        """Give a value the elements of another, in order, in a buffer; return its name."""
        self.fusion.views.pop(v, None)
        self._touch(source)
        name = self._buffer(v)
        self.samples.pop(v, None)
        seen = f"{name}_as_{'x'.join(map(str, source.shape))}"
        text, fixed = f"{name}.reshape({source.shape})", v in self.fixed
        if fixed:
            self.prelude[seen] = text
        there = self._sample(v).reshape(source.shape)
        self._copy(
            (self.names[source], source in self.fixed), self._sample(source), (seen if fixed else text, fixed), there
        )
        return name

    def _copy(self, source: tuple[str, bool], before: Array, target: tuple[str, bool], after: Array) -> None:
        """Write a call that copies elements between arrays of one shape, laid out as two samples are."""
        kinds = [kind_of(a, memory) for memory, a in enumerate((before, after))]
        threaded = after.size >= THREADED
        kernel = self._object(self.kernels.loop(copying_text(after.ndim, threaded), kinds), "copy")
        operands = [source, target]
        if not threaded:
            self._append_native(Native(kernel, operands), "run", True)
            return
        least = max(1, THREADED // 2 // max(after.size // len(after), 1))
        call = Native(f"{kernel}.shared", operands, ["team", str(len(after)), str(least), "()"])
        self._append_native(call, "share", self._has_team())

    def _sample(self, v: Value) -> np.ndarray[Any, Any]:
        """Return an array laid out as that of a value."""
        if v not in self.samples:
            self.samples[v] = laid_out(v.shape, v.dtype, self.strides[v])
        return self.samples[v]

    def _shaped(self, v: Value, shape: tuple[int, ...]) -> str:
        """Return the text of a value's array, in the shape in which a loop sees it."""
        self._touch(v)
        name = self.names[v]
        if v.shape == shape:
            return name
        text = f"{name}.reshape({shape})"
        if v not in self.fixed:
            return text
        seen = f"{name}_{'x'.join(map(str, shape)) or '0'}"
        self.prelude[seen] = text
        return seen

    def _kinds(self, given: list[tuple[Value, tuple[int, ...]]]) -> list[Kind]:
        """Return what loops may rely on of the arrays that they are given."""
        memories: dict[Value, int] = {}
        kinds = []
        for v, shape in given:
            root = self._root(v)
            # An array that a library has returned may share memory with another array.
            memory = None if self.names[root].startswith("r") else memories.setdefault(root, len(memories))
            kinds.append(kind_of(self._sample(v).reshape(shape), memory))
        return kinds

    def _root(self, v: Value) -> Value:
        while v in self.fusion.views:
            v = self.fusion.views[v].operands[0]
        return v

    def _touch(self, v: Value) -> None:
        """Note that a value is in use where the body has come to."""
        root, now = self._root(v), len(self.body)
        self.spans.setdefault(root, [now, now])[1] = now
        for holder in self.holders.get(root, ()):
            self._touch(holder)

    def _is_given(self, v: Value) -> bool:
        return self._root(v).kind == "argument"

    def _object(self, thing: object, hint: str) -> str:
        """Return the name under which a program finds an object."""
        name = f"{hint.strip('_')}_"
        number = 0
        while self.env.setdefault(name, thing) is not thing:
            number += 1
            name = f"{hint.strip('_')}_{number}"
        return name

    def _params(self, line: Line) -> list[str]:
        return [literal(p) or self._object(p, "p") for p in line.params]

    def _has_team(self) -> bool:
        """Return whether OpenMP's threads share loops; what they are called with is looked up once."""
        if "team" not in self.env:
            self.env["team"] = self.kernels.pool()
        return self.env["team"] is not None

    def _append_native(self, call: Native, hint: str, joins: bool) -> None:
        """Write a call of machine code, into a row where it may join others."""
        self.body.append(call if joins else self._run_text(hint, call.text, [call]))

    def _run_text(self, hint: str, text: str, calls: list[Native]) -> str:
        """Bind calls once under a name, and return the text that runs them, with what is new in every run."""
        self.runs += 1
        name = f"{hint}_{self.runs}"
        self.prelude[name] = text
        return f"{name}({', '.join(text for call in calls for text, fixed in call.operands if not fixed)})"

    def _joined(self, body: list[Any]) -> list[str]:
        """Return lines of text, calls of machine code that follow one another as one."""
        lines: list[str] = []
        waiting: list[Native] = []
        for item in (*body, None):
            if isinstance(item, Native):
                waiting.append(item)
                continue
            if item is WRITING:  # before the calls that wait, which stay one
                lines.append(item)
                continue
            if waiting:
                texts = [call.text for call in waiting]
                inner = ",\n        ".join(texts)
                text = texts[0] if len(texts) == 1 else f"row(\n        {inner},\n    )"
                lines.append(self._run_text("run", text, waiting))
                waiting = []
            lines += [] if item is None else [item]
        return lines


class Native:
    """A call of machine code: its name, texts of its arrays and whether they are the same in every run."""

    def __init__(self, name: str, operands: list[tuple[str, bool]], numbers: list[str] | None = None) -> None:
        self.name, self.operands, self.numbers = name, operands, numbers or []

    @property
    def text(self) -> str:
        """The text that binds it to what is there once."""
        given = [text if fixed else "new" for text, fixed in self.operands]
        return f"{self.name}({', '.join((*self.numbers, *given))})"


def kind_of(array: Array, memory: int | None) -> Kind:
    """Return what loops may rely on of an array that is laid out as this one."""
    item = array.dtype.itemsize
    unit = tuple(i for i, step in enumerate(array.strides) if step == item)
    return Kind(array.dtype.name, array.ndim, array.strides == row_major(array.shape, item), unit, memory)


def is_dense(v: Value) -> bool:
    """Return whether a value is contiguous in row-major order."""
    return dense_as(v, v.strides)


def dense_as(v: Value, strides: tuple[int, ...]) -> bool:
    """Return whether these strides of a value are those of row-major order."""
    return strides == row_major(v.shape, v.dtype.itemsize)


def row_major(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a contiguous array in row-major order."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def laid_out(shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return an array of some elements with the given strides."""
    if 0 in shape:
        return np.empty(shape, dtype)
    reach = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    low = -sum(r for r in reach if r < 0)
    block = np.empty(low + sum(r for r in reach if r > 0) + dtype.itemsize, np.uint8)
    return np.ndarray(shape, dtype, block, low, strides)


def _view_text(line: Line, source: str, kernel: str, params: list[str]) -> str:
    name = line.op.name
    if name in ("reshape", "unsafe_view"):
        return f"{source}.reshape({tuple(line.outputs[0].shape)})"
    if name == "transpose":
        return f"{source}.swapaxes({line.params[0]}, {line.params[1]})"
    if name == "t" and len(line.outputs[0].shape) == 2:
        return f"{source}.T"
    return f"{kernel}({', '.join((source, *params))})"


def literal(value: Any) -> str | None:
    """Return the text of a plain constant, or None."""
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if type(value) is float and math.isfinite(value):
        return repr(value)
    if isinstance(value, tuple) and all(literal(v) is not None for v in value):
        inner = ", ".join(str(literal(v)) for v in value)
        return f"({inner},)" if value else "()"
    return None
