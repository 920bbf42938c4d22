"""The CPU's part of a program on a GPU: step counts, learning rates, random numbers, and their copy to the device.

It is a program of its own, for the CPU, which runs first. What the device needs of it is written straight into one
piece of memory, which is sent in one go.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.nodes import wrap
from ..graph import WRITE, Graph, Line, Reference, Step, Value
from ..program import Program

_ALIGNED = 16
_SLOTS = 8  # calls in flight before the CPU waits


def host_lines(graph: Graph, guarded: bool) -> list[Line]:
    """Return the lines that can run on the CPU before anything runs on the device; with guards, no writes."""
    known = {v for v in graph.inputs if v.device == "cpu"}
    found = []
    for line in graph.lines:
        if line.op is WRITE:
            if not guarded and all(v in known for v in line.operands):
                found.append(line)
        elif line.is_call and all(v in known for v in line.inputs) and all(v.device == "cpu" for v in line.outputs):
            found.append(line)
            known.update(line.outputs)
    return found


class Host:
    """The CPU's lines as a program, and the memory in which it leaves what the device reads."""

    def __init__(self, graph: Graph, lines: list[Line], kernels: Any, results: list[Value]) -> None:
        self.graph, self.lines, self.kernels, self.results = graph, lines, kernels, results
        self.places: dict[Value, int] = {}
        self.size = 0

    def place(self, v: Value) -> int:
        """Return the offset of a value in the memory that is sent to the device."""
        if v not in self.places:
            self.places[v] = self.size
            self.size += -(-max(v.nbytes, 1) // _ALIGNED) * _ALIGNED
        return self.places[v]

    def finish(self) -> None:
        """Make the program."""
        self.staged = np.zeros(max(self.size, 1), np.uint8)
        part = self.graph.copy()
        mine = set(map(id, self.lines))
        part.lines = [t for t, line in zip(part.lines, self.graph.lines, strict=True) if id(line) in mine]
        part.arguments = [v for v in part.arguments if v.device == "cpu"]
        part.outside = [r for r in part.outside if r.value.device == "cpu"]
        part.constants = [v for v in part.constants if v.device == "cpu"]
        part.effects, part.outputs, part.numbers = [], list(self.results), []
        for v, place in self.places.items():
            there = self.staged[place : place + v.nbytes].view(v.dtype).reshape(v.shape)
            target = part.value(there, "outside")
            part.outside.append(Reference(target, wrap(there)))
            part.lines.append(Line(WRITE, (target, v)))
        part.prune()
        self.idle = not part.lines and not self.results
        self.program = Program(part, self.kernels)
        self.program.bind()

    def run(self, arrays: list[Any]) -> dict[Value, Any]:
        """Run the CPU's part on the arguments that are there; return the values that it leaves to the caller."""
        if self.idle:
            return {}
        if not self.program.is_bound():
            self.program.bind()
        return dict(zip(self.program.left, self.program.run(*arrays), strict=True))


class Mail:
    """Sends bytes to the device without waiting for what is under way."""

    def __init__(self, size: int) -> None:
        import cupy

        self.cupy, self.size = cupy, size
        self.there = cupy.cuda.alloc(max(size, 1))
        self.slots = [cupy.cuda.alloc_pinned_memory(max(size, 1)) for _ in range(_SLOTS)]
        self.events: list[Any] = [None] * _SLOTS
        self.turn = 0

    def send(self, staged: Any) -> None:
        """Put the bytes where kernels that are launched from now on read them."""
        if not self.size:
            return
        self.turn = turn = (self.turn + 1) % _SLOTS
        if self.events[turn] is None:
            self.events[turn] = self.cupy.cuda.Event(disable_timing=True)
        else:
            self.events[turn].synchronize()
        slot, stream = self.slots[turn], self.cupy.cuda.get_current_stream()
        np.frombuffer(slot, np.uint8, self.size)[:] = staged[: self.size]
        kind = self.cupy.cuda.runtime.memcpyHostToDevice
        self.cupy.cuda.runtime.memcpyAsync(self.there.ptr, slot.ptr, self.size, kind, stream.ptr)
        self.events[turn].record(stream)


# Seeds for several random masks at once, as each would request one.
SEED = Step("seed", lambda stream, count: np.asarray(stream.random((count,), np.int64)), random=True, dynamic=True)
