"""Functions whose result requires grad: forward and backward captured together, run apart.

The function runs once, and a backward pass from its results after it, with gradients that stand for those to come.
Lines that depend on these are the backward program, the others the forward program, whose results the backward
program needs are handed from one to the other. In the graph of the caller the two are one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.differentiate import grad
from ..autograd.function import Function, once_differentiable
from ..core import interrupts
from ..core.device import module_of
from ..core.engine import AccumulateGrad
from ..core.nodes import Freed, wrap
from ..core.tensor import TensorBase
from ..devices.cpu import forks
from ..ops.random import get_rng_state, set_rng_state
from ..tree import tree_flatten, tree_unflatten
from .capture import Tracer
from .graph import GUARD, WRITE, Graph, GuardFailure, Step, Value
from .guards import Outside
from .program import Program, has_written, laid_out, note_writes, program_of


class Recording:
    """One run of a function with its backward pass: what came out, and the graph of both."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, surroundings: Any) -> None:
        leaves, spec = tree_flatten((args, kwargs))
        self.leaves = leaves
        self.stand_ins = [_stand_in(leaf) for leaf in leaves]
        args, kwargs = tree_unflatten(self.stand_ins, spec)
        tracer = Tracer(args, kwargs, surroundings=surroundings)
        with tracer:
            result = function(*args, **kwargs)
            self.found, self.spec = tree_flatten(result)
            self.outputs = [t for t in self.found if has_history(t)]
            self.wanted = _reached(self.outputs)
            seeds = [wrap(module_of(t.array).ones(t.array.shape, t.array.dtype)) for t in self.outputs]
            self.seeds = [tracer._argument(seed) for seed in seeds]
            self.gradients = (
                grad(self.outputs, self.wanted, seeds, retain_graph=True, allow_unused=True) if self.wanted else ()
            )
        self.unable = tracer.unable
        self.graph = tracer.finish((*self.found, *self.gradients))
        self.found = tracer.settled(self.found)

    def looks_behind(self) -> bool:
        """Return whether the backward pass looks at values: it would be too late to go another way."""
        late = _dependents(self.graph, set(self.seeds))
        return any(line.op is GUARD and line.operands[0] in late for line in self.graph.lines)

    def connected(self) -> Any:
        """Return what the function returned, its history that of the caller's tensors."""
        inputs = _originals(self.wanted, self.stand_ins, self.leaves)
        made = iter(_Eager.apply(self, *inputs))
        ours = set(map(id, self.outputs))
        return tree_unflatten([next(made) if id(t) in ours else t for t in self.found], self.spec)


def _stand_in(leaf: Any) -> Any:
    if not isinstance(leaf, TensorBase) or leaf.node is None:
        return leaf
    return leaf.detach().requires_grad_()  # type: ignore[attr-defined]


def _originals(wanted: list[Any], stand_ins: list[Any], leaves: list[Any]) -> list[Any]:
    original = {id(s): leaf for s, leaf in zip(stand_ins, leaves, strict=True)}
    return [original.get(id(t), t) for t in wanted]


def has_history(value: Any) -> bool:
    """Return whether a backward pass may start at a value: one that was there already has freed its history."""
    if not isinstance(value, TensorBase) or value.node is None:
        return False
    return not any(type(node.saved) is Freed for node in _nodes([value]))


def _nodes(outputs: list[Any]) -> list[Any]:
    """Return the nodes that the outputs come from."""
    stack, seen = [t.node for t in outputs], {}
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in seen:
            seen[id(node)] = node
            stack += node.edges
    return list(seen.values())


def _reached(outputs: list[Any]) -> list[Any]:
    """Return the leaves that gradients of the outputs go to."""
    return [node.variable for node in _nodes(outputs) if type(node) is AccumulateGrad]


class _Eager(Function):
    """The captured run itself as a node: its backward pass is that of the run."""

    @staticmethod
    def forward(ctx: Any, recording: Recording, *inputs: Any) -> Any:
        """Return the results of the run."""
        ctx.recording = recording
        return tuple(t.detach() for t in recording.outputs)  # type: ignore[attr-defined]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gs: Any) -> Any:
        """Run the backward pass of the run."""
        recording = ctx.recording
        found = grad(recording.outputs, recording.wanted, gs, retain_graph=True, allow_unused=True)
        return None, *found


class _Compiled(Function):
    """A compiled forward program as a node; its backward pass is the other program."""

    @staticmethod
    def forward(ctx: Any, trace: JointTrace, leaves: list[Any], *inputs: Any) -> Any:
        """Run the forward program."""
        outputs, kept = trace.forward_arrays(leaves)
        ctx.trace, ctx.kept = trace, kept
        ctx.arguments = [leaves[i].array for i in trace.backward_leaves]
        ctx.save_for_backward(*inputs)
        made = tuple(map(wrap, outputs))
        ctx.mark_non_differentiable(*(t for t, yes in zip(made, trace.differentiable, strict=True) if not yes))
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gs: Any) -> Any:
        """Run the backward program."""
        trace = ctx.trace
        assert ctx.saved_tensors is not None  # raises if an input was written meanwhile
        given = [g.array for g, yes in zip(gs, trace.differentiable, strict=True) if yes]
        found = trace.backward_arrays(ctx.kept, ctx.arguments, given)
        return None, None, *(None if a is None else wrap(a) for a in found)


class JointTrace:
    """A forward and a backward program, and when they are the right ones."""

    def __init__(self, signature: Any, surroundings: Any, recording: Recording, loops: Any) -> None:
        self.signature, self.surroundings = signature, surroundings
        self.lock = forks.lock()
        graph = recording.graph
        count = len(recording.found)
        outputs, gradients = graph.outputs[:count], graph.outputs[count:]
        seeds = set(recording.seeds)
        late = _dependents(graph, seeds)
        self.spec = recording.spec
        self.outputs, self.numbers = outputs, set(graph.numbers)
        self.tensors = [i for i, o in enumerate(outputs) if isinstance(o, Value)]
        ours = set(map(id, recording.outputs))
        self.differentiable = [id(recording.found[i]) in ours for i in self.tensors]
        leaf_of = {v: i for i, v in enumerate(graph.given) if isinstance(v, Value)}
        known = {*graph.arguments, *(r.value for r in graph.outside), *graph.constants}

        ahead = [m for m in graph.lines if m.op is WRITE or not any(v in late for v in m.outputs)]
        behind = [m for m in graph.lines if m.op is not WRITE and any(v in late for v in m.outputs)]
        made = {v for m in ahead for v in m.outputs}
        needed = {v for m in behind for v in m.inputs} | {v for v in gradients if isinstance(v, Value)}
        self.kept = [v for v in made if v in needed]
        arguments = [v for v in graph.arguments if v not in seeds]
        self.ahead = _part(graph, ahead, arguments, [*(outputs[i] for i in self.tensors), *self.kept], loops)
        used = [v for v in arguments if v in needed]
        self.behind = _part(graph, behind, [*self.kept, *used, *recording.seeds], gradients, loops)
        self.leaves = [leaf_of[v] for v in self.ahead.graph.arguments]
        self.backward_leaves = [leaf_of[v] for v in used]
        self.gradients = gradients
        self.known = known
        positions = {id(t): i for i, t in enumerate(recording.stand_ins)}
        self.inputs = [(positions.get(id(t)), t) for t in recording.wanted]
        owner = {r.value: r for r in graph.outside}
        self.written = [(leaf_of.get(t), owner.get(t)) for t, _ in (line.operands for line in self.ahead.writes)]
        self.outside = Outside(graph)
        self.calls = 0
        self.random = self.ahead.guarded and any(isinstance(m.op, Step) and m.op.random for m in ahead)
        self.program = self.ahead  # what `code` and `explain` show first

    def refuses(self, leaves: list[Any], spec: Any) -> str:
        """Return in words why these are not the programs to run, or nothing."""
        found: str = self.signature.difference(leaves, spec)
        return found or self.surroundings.difference() or self.outside.difference(leaves, bool(self.written))

    def run(self, leaves: list[Any]) -> Any:
        """Run the forward program and return what the function returns."""
        inputs = [t if i is None else leaves[i] for i, t in self.inputs]
        state = get_rng_state() if self.random else None
        try:
            made = _Compiled.apply(self, leaves, *inputs)
        except GuardFailure:
            if state is not None:
                set_rng_state(state)
            raise
        self.calls += 1
        if self.written:
            note_writes([leaves[i] if i is not None else r.current for i, r in self.written])  # type: ignore[union-attr]
        outputs = list(self.outputs)
        for i, t in zip(self.tensors, made, strict=True):
            outputs[i] = t.array.item() if i in self.numbers else t
        return tree_unflatten(outputs, self.spec)

    def forward_arrays(self, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the arrays of the results, and those that the backward program needs."""
        arrays = _run(self.ahead, self.lock, [leaves[i].array for i in self.leaves])
        owners = {v: leaves[i].array for v, i in zip(self.ahead.graph.arguments, self.leaves, strict=True)}
        owners.update({r.value: r.current.array for r in self.ahead.graph.outside})
        made = {**owners, **dict(zip(self.ahead.left, arrays, strict=True))}
        results = self.ahead.graph.outputs
        count = len(self.tensors)
        outputs = [made[v].copy() if v in owners else made[v] for v in results[:count]]
        return outputs, [made[v] for v in results[count:]]

    def backward_arrays(self, kept: list[Any], arguments: list[Any], gradients: list[Any]) -> list[Any]:
        """Return the arrays of the gradients of the inputs, None where there is none."""
        program = self.behind
        given = [_laid_as(v, a) for v, a in zip(program.graph.arguments, (*kept, *arguments, *gradients), strict=True)]
        arrays = _run(program, self.lock, given)
        owners = dict(zip(program.graph.arguments, given, strict=True))
        owners.update({r.value: r.current.array for r in program.graph.outside})
        made = {**owners, **dict(zip(program.left, arrays, strict=True))}
        return [made[v] if isinstance(v, Value) else None for v in program.graph.outputs]


def _laid_as(v: Value, array: Any) -> Any:
    """Return an array that lies as a program has been compiled for."""
    if array.strides == v.strides or not isinstance(array, np.ndarray):
        return array
    fresh = laid_out(v.shape, v.dtype, v.strides)
    fresh[...] = array
    return fresh


def _run(program: Program, lock: Any, arrays: list[Any]) -> Any:
    replaced = interrupts.hold()
    try:
        return _run_held(program, lock, arrays)
    finally:
        interrupts.release(replaced)
        if interrupts.came:
            interrupts.deliver()


@has_written
def _run_held(program: Program, lock: Any, arrays: list[Any]) -> Any:
    with lock:
        if not program.is_bound():
            program.bind()
        return program.run(*arrays)


def _dependents(graph: Graph, roots: set[Value]) -> set[Value]:
    """Return the values that depend on some of `roots`, those included."""
    found = set(roots)
    for line in graph.lines:
        if any(v in found for v in line.inputs):
            found.update(line.outputs)
    return found


def _part(graph: Graph, lines: list[Any], arguments: list[Value], outputs: list[Any], loops: Any) -> Program:
    """Return some lines of a graph as a program of its own."""
    part = graph.copy()
    mine = set(map(id, lines))
    part.lines = [twin for twin, line in zip(part.lines, graph.lines, strict=True) if id(line) in mine]
    part.arguments, part.outputs, part.effects = arguments, outputs, []
    part.prune()
    program: Program = program_of(part, loops)
    program.bind()
    return program
