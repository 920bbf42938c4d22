"""Functions whose result requires grad: forward and backward captured together, run apart.

The function runs once, and a backward pass from its results after it, with gradients that stand for those to come.
Lines that depend on these are the backward program, the others the forward program, whose results the backward
program needs are handed from one to the other. In the graph of the caller the two are one node.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from .._typing import Array
from ..autograd.context import overwritten
from ..autograd.differentiate import grad
from ..autograd.function import Function
from ..core import interrupts, modes
from ..core.device import module_of
from ..core.fast_path import outside
from ..core.leaves import AccumulateGrad
from ..core.nodes import Cotangents, Freed, MultipleNode, Special, output_node, wrap
from ..core.tensor import TensorBase, tick, written_ledger
from ..core.views import edge_of
from ..devices import forks
from ..devices.cpu.provider import plainly
from ..errors import InPlaceError
from ..ops.random import get_rng_state, set_rng_state
from ..tree import tree_unflatten
from .backward import Backward, lines_behind, part_of, without
from .buffers import laid_out, row_major
from .capture import Tracer
from .graph import GUARD, WRITE, Graph, GuardFailure, Step, Value
from .guards import Outside
from .objects import flatten_arguments, flatten_result
from .program import Program, has_written, note_writes, program_of


class Recording:
    """One run of a function with its backward pass: what came out, and the graph of both."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, surroundings: Any) -> None:
        self.function = function
        self.leaves, self.takes = flatten_arguments((args, kwargs))
        self.stand_ins = [_stand_in(leaf) for leaf in self.leaves]
        args, kwargs = tree_unflatten(self.stand_ins, self.takes)
        tracer = Tracer(args, kwargs, surroundings=surroundings)
        with tracer:
            result = function(*args, **kwargs)
            self.found, self.spec = tracer.flattened(result)
            self.outputs = list({id(t): t for t in self.found if has_history(t) and not tracer.knew(t)}.values())
            self.wanted = _reached(self.outputs)
            seeds = [wrap(module_of(t.array).ones(t.array.shape, t.array.dtype)) for t in self.outputs]
            self.seeds = [tracer._argument(seed) for seed in seeds]
            self.gradients = (
                grad(self.outputs, self.wanted, seeds, retain_graph=True, allow_unused=True) if self.wanted else ()
            )
        self.unable = tracer.unable
        self.graph = tracer.finish((*self.found, *self.gradients))
        self.found = tracer.settled(self.found)
        self.trace: JointTrace | None = None
        self.known = surroundings.seen
        self.changes = any(m.op is WRITE or (isinstance(m.op, Step) and m.op.random) for m in self.graph.lines)

    def places(self) -> list[int]:
        """Return where in what the function returned the results with a history are."""
        at = {id(t): i for i, t in reversed([*enumerate(self.found)])}
        return [at[id(t)] for t in self.outputs]

    def looks_behind(self) -> bool:
        """Return whether the backward pass looks at values: it would be too late to go another way."""
        late = _dependents(self.graph, set(self.seeds))
        return any(line.op is GUARD and line.operands[0] in late for line in self.graph.lines)

    def connected(self) -> Any:
        """Return what the function returned, its history that of the caller's tensors."""
        inputs = _originals(self.wanted, self.stand_ins, self.leaves)
        made = dict(zip(map(id, self.outputs), _Eager.apply(self, *inputs), strict=True))
        theirs = dict(zip(map(id, self.stand_ins), self.leaves, strict=True))
        return tree_unflatten([made.get(id(t), theirs.get(id(t), t)) for t in self.found], self.spec)


def _stand_in(leaf: object) -> object:
    if not isinstance(leaf, TensorBase) or leaf.node is None:
        return leaf
    return leaf.detach().requires_grad_()  # type: ignore[attr-defined]


def _originals(wanted: list[Any], stand_ins: list[Any], leaves: list[Any]) -> list[Any]:
    original = {id(s): leaf for s, leaf in zip(stand_ins, leaves, strict=True)}
    return [original.get(id(t), t) for t in wanted]


def has_history(value: object) -> bool:
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
    def forward(ctx: Any, recording: Recording, *inputs: object) -> tuple[Any, ...]:
        """Return the results of the run."""
        ctx.recording = recording
        ctx.set_materialize_grads(False)
        return tuple(t.detach() for t in recording.outputs)  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Run the backward pass of the run."""
        recording = ctx.recording
        if modes.local.grad:
            if recording.trace is not None:
                recording.trace.differentiated = True
            inputs = _originals(recording.wanted, recording.stand_ins, recording.leaves)
            return None, *_recorded_gradients(recording, recording.leaves, recording.places(), inputs, gs)
        outputs, arrived = _arrived(recording.outputs, gs)
        found = grad(outputs, recording.wanted, arrived, retain_graph=True, allow_unused=True)
        return None, *found


def _arrived(outputs: Sequence[Any], gradients: Any) -> tuple[list[Any], list[Any]]:
    """Return the outputs whose gradients have arrived, and these."""
    pairs = [(t, g) for t, g in zip(outputs, gradients, strict=True) if g is not None]
    return [t for t, _ in pairs], [g for _, g in pairs]


def _recorded_gradients(of: Any, leaves: list[Any], places: Sequence[int], inputs: list[Any], gs: Any) -> Any:
    """Return gradients as tensors with a history: those of the function, which runs again, uncompiled."""
    if of.changes:
        raise RuntimeError(
            "the gradient of a compiled function that writes into tensors or takes random numbers cannot be "
            "differentiated again: compile the function that takes the gradient, or leave this one uncompiled"
        )
    args, kwargs = tree_unflatten(leaves, of.takes)
    found, _ = flatten_result(of.function(*args, **kwargs), of.known)
    outputs, arrived = _arrived([found[i] for i in places], gs)
    return grad(outputs, inputs, arrived, create_graph=True, allow_unused=True)


class Run:
    """What a compiled forward pass leaves for the backward pass: the `saved` of its node."""

    __slots__ = ("arguments", "leaves", "saved", "trace")

    def __init__(self, trace: JointTrace, leaves: list[Any], saved: list[Any]) -> None:
        self.trace, self.leaves, self.saved = trace, leaves, saved
        self.arguments = [leaves[i].array for i in trace.backward_leaves]

    def __iter__(self) -> Iterator[Any]:
        """Yield the arrays that the node holds."""
        return iter((*self.saved, *self.arguments))

    def verify(self, node: Any) -> None:
        """Raise if an array that the backward pass reads was written after the forward pass."""
        for array in (*self, *(r.current.array for r in self.trace.behind.outside)):
            ledger = written_ledger(array)
            if ledger is not None and ledger.time > node.stamp:
                raise InPlaceError(overwritten(node, ledger))


class CompiledNode(MultipleNode):
    """The node of one call of a compiled function."""

    __slots__ = ()

    def verify(self) -> None:
        """Raise if something that the backward pass reads was written after the forward pass."""
        if type(self.saved) is Run:
            self.saved.verify(self)

    def lifted(self) -> Any:
        """Return what was saved, as it is."""
        return self.saved


def _run_compiled(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
    """Return the gradients of the inputs, by the backward program."""
    trace = saved.trace
    gs = node.gradients(g) if type(g) is Cotangents else (g,)
    if not any([isinstance(g, TensorBase) for g in gs]):  # noqa: C419 - faster than a generator
        return trace.backward_arrays(saved, gs)
    if modes.local.grad:
        return trace.recorded_gradients(saved, gs)
    found = trace.backward_arrays(saved, [None if g is None else g.array for g in gs])
    return [None if a is None else wrap(a) for a in found]


_compiled = Special("CompiledFunctionBackward", _run_compiled, CompiledNode)


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
        self.function, self.takes, self.spec = recording.function, recording.takes, recording.spec
        self.outputs, self.numbers = outputs, set(graph.numbers)
        self.tensors = [i for i, o in enumerate(outputs) if isinstance(o, Value)]
        leaf_of = {v: i for i, v in enumerate(graph.given) if isinstance(v, Value)}

        ahead = [m for m in graph.lines if m.op is WRITE or not any(v in late for v in m.outputs)]
        behind, saved = lines_behind(graph, late, gradients)
        arguments = [v for v in graph.arguments if v not in seeds]
        results = [*(outputs[i] for i in self.tensors), *saved]
        self.ahead = program_of(part_of(graph, ahead, arguments, results, len(saved)), loops)
        self.ahead.bind()
        needed = {v for m in behind for v in m.inputs} | {v for v in gradients if isinstance(v, Value)}
        used = [v for v in arguments if v in needed]
        self.seeds, self.loops = recording.seeds, loops
        self.behind = part_of(graph, behind, [*saved, *used, *recording.seeds], gradients)
        self.programs: dict[tuple[bool, ...], Backward] = {}  # by which results have gradients
        self.leaves = [leaf_of[v] for v in self.ahead.graph.arguments]
        self.backward_leaves = [leaf_of[v] for v in used]
        positions = {id(t): i for i, t in enumerate(recording.stand_ins)}
        self.inputs = [(positions.get(id(t)), t) for t in recording.wanted]
        owner = {r.value: r for r in graph.outside}
        self.written = [(leaf_of.get(t), owner.get(t)) for t, _ in (line.operands for line in self.ahead.writes)]
        self.outside = Outside(graph)
        self.calls = 0
        self.random = self.ahead.guarded and any(isinstance(m.op, Step) and m.op.random for m in ahead)
        self.changes, self.places, self.known = recording.changes, recording.places(), recording.known
        recording.trace = self
        self.differentiated = False  # whether a gradient was differentiated again, which programs cannot do
        self.program = self.ahead  # what `code` and `explain` show first
        self._plan_results(recording, {**leaf_of, **owner})
        self._save_in_order()

    def _plan_results(self, recording: Recording, given: dict[Value, Any]) -> None:
        """Find out where each result comes from: the program's arrays, or tensors that the caller has."""
        number = {v: i for i, v in enumerate(self.ahead.left)}
        results = self.ahead.graph.outputs
        self.saved = [(number.get(v), given.get(v)) for v in results[len(self.tensors) :]]
        order = {id(t): k for k, t in enumerate(recording.outputs)}
        first: dict[int, int] = {}
        self.made: list[tuple[int, int, int | None]] = []  # which result, which array, which output of the node
        self.given: list[tuple[int, Any, str]] = []  # which result, which tensor, and what of it is returned
        self.twice: list[tuple[int, int]] = []  # results that are an earlier one
        for i, value in zip(self.tensors, results, strict=False):
            tensor = recording.found[i]
            if first.setdefault(id(tensor), i) != i:
                self.twice.append((i, first[id(tensor)]))
            elif value in number:
                self.made.append((i, number[value], order.get(id(tensor))))
            elif id(tensor) in order:
                self.given.append((i, (given[value], order[id(tensor)]), "copy"))
            else:
                which = given[value]
                alike = recording.stand_ins[which] if type(which) is int else which.current
                self.given.append((i, which, "itself" if tensor is alike else "detached"))
        one = object()
        self.single = (
            len(self.outputs) == len(self.made) == len(order) == 1 and not self.numbers
            and tree_unflatten([one], self.spec) is one
        )  # fmt: skip
        self.made.reverse()  # the first output's node is the newest, as in eager mode
        self.metas = tuple([(tuple(t.array.shape), t.array.dtype) for t in recording.outputs])

    def _save_in_order(self) -> None:
        """Let the backward program take saved arrays as the forward program makes them: row by row."""
        for k, (made, _) in enumerate(self.saved):
            v = self.behind.arguments[k]
            if made is not None and v.device == "cpu":
                twin = self.behind.value(v)
                twin.strides = row_major(v.shape, v.dtype.itemsize)
                self.behind.replace(v, twin)
                self.behind.arguments[k] = twin

    def _backward_for(self, arrived: tuple[bool, ...]) -> Backward:
        """Return the backward program for the results whose gradients arrive."""
        found = self.programs.get(arrived)
        if found is None:
            graph = self.behind.copy()
            if not all(arrived):
                without(graph, [v for v, there in zip(self.seeds, arrived, strict=True) if not there])
            with plainly:
                found = self.programs[arrived] = Backward(graph, self.loops)
        return found

    def refuses(self, leaves: list[Any], spec: object) -> str:
        """Return a text about why these are not the programs to run, or an empty one."""
        if self.differentiated:
            return "its gradient was differentiated again"
        found: str = self.signature.difference(leaves, spec) or self.surroundings.difference()
        return found or self.outside.difference(leaves, bool(self.written))

    def run(self, leaves: list[Any]) -> Any:
        """Run the forward program and return what the function returns."""
        edges = tuple([edge_of(t if i is None else leaves[i]) for i, t in self.inputs])
        state = get_rng_state() if self.random else None
        try:
            arrays = _run(self.ahead, self.lock, [leaves[i].array for i in self.leaves])
        except GuardFailure:
            if state is not None:
                set_rng_state(state)
            raise
        self.calls += 1
        if self.written:
            note_writes([leaves[i] if i is not None else r.current for i, r in self.written])  # type: ignore[union-attr]
        node = CompiledNode()
        node.op, node.edges, node.targets, node.extra, node.metas = _compiled, edges, None, None, self.metas
        saved = [arrays[i] if i is not None else _tensor(leaves, which).array for i, which in self.saved]
        node.saved = Run(self, leaves, saved)
        node.code, node.lasti = outside(sys._getframe(1))
        node.stamp = tick()
        if self.single:
            return wrap(arrays[self.made[0][1]], node)
        outputs = list(self.outputs)
        alone = len(self.metas) == 1
        for i, array, index in self.made:
            if i in self.numbers:
                outputs[i] = arrays[array].item()
            else:
                ours = None if index is None else node if alone else output_node(node, index)
                outputs[i] = wrap(arrays[array], ours)
        for i, which, what in self.given:
            outputs[i] = self._returned(leaves, which, what, node)
        for i, earlier in self.twice:
            outputs[i] = outputs[earlier]
        return tree_unflatten(outputs, self.spec)

    def _returned(self, leaves: list[Any], which: Any, what: str, node: Any) -> Any:
        """Return a result that is the caller's: the tensor, one without its history, or its copy as a new result."""
        if what == "copy":
            which, index = which
            return wrap(_tensor(leaves, which).array.copy(), node if len(self.metas) == 1 else output_node(node, index))
        tensor = _tensor(leaves, which)
        return tensor if what == "itself" else tensor.detach()

    def backward_arrays(self, run: Run, gradients: Any) -> Any:
        """Return the arrays of the gradients of the inputs, None where there is none."""
        backward = self._backward_for(tuple([g is not None for g in gradients]))
        given = [*run.saved, *run.arguments]
        for g in gradients:  # rules on arrays of no dimensions return NumPy's scalars, which programs cannot read
            if g is not None:
                given.append(np.asarray(g) if isinstance(g, np.generic) else g)
        for i, v in backward.taken:
            if given[i].strides != v.strides:
                given[i] = _laid_as(v, given[i])
        return backward.results(_run(backward.program, self.lock, given), given)

    def recorded_gradients(self, run: Run, gradients: Any) -> Any:
        """Return the gradients as tensors with a history; from then on the function runs uncompiled."""
        self.differentiated = True
        inputs = [t if i is None else run.leaves[i] for i, t in self.inputs]
        return _recorded_gradients(self, run.leaves, self.places, inputs, gradients)


def _tensor(leaves: list[Any], which: Any) -> Any:
    """Return an argument by its place, or a tensor outside by its reference."""
    return leaves[which] if type(which) is int else which.current


def _laid_as(v: Value, array: Array) -> Array:
    """Return an array in the memory layout that a program has been compiled for."""
    if array.strides == v.strides or not isinstance(array, np.ndarray):
        return array
    fresh = laid_out(v.shape, v.dtype, v.strides)
    fresh[...] = array
    return fresh


def _run(program: Program, lock: Any, arrays: list[Any]) -> Any:
    if not program.writes:  # into memory that outlives the run: signals need not wait
        with lock:
            if not program.is_bound():
                program.bind()
            return program.run(*arrays)
    replaced = interrupts.hold()
    try:
        return _run_held(program, lock, arrays)
    finally:
        interrupts.release(replaced)
        if interrupts.came:
            interrupts.deliver()


@has_written
def _run_held(program: Program, lock: AbstractContextManager[Any], arrays: list[Any]) -> tuple[Any, ...]:
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
