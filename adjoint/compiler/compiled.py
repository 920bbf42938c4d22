"""`compile`: a function, run once to see what it does, then as fused loops and library calls."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from ..core import modes
from ..core.dtypes import default
from ..core.nodes import wrap
from ..core.tensor import TensorBase
from ..ops.random import get_rng_state, set_rng_state
from ..tree import tree_flatten, tree_unflatten
from . import kernels
from .capture import CaptureError, Tracer
from .graph import GUARD, Graph, GuardFailure, Step, Value
from .guards import Surroundings
from .joint import JointTrace, Recording
from .program import Program, note_writes

__all__ = ["Compiled", "compile"]

_LIMIT = 16  # programs kept for one function


class Signature:
    """What a program was captured for: the structure of its arguments, and what each of them was."""

    def __init__(self, leaves: list[Any], spec: Any) -> None:
        self.spec = spec
        self.parts = [_described(leaf) for leaf in leaves]
        self.grad, self.default = modes.is_grad_enabled(), default()

    def difference(self, leaves: list[Any], spec: Any) -> str:
        """Return in words what is different now, or nothing."""
        if (spec is not self.spec and spec != self.spec) or len(leaves) != len(self.parts):
            return f"the arguments were {self.spec}, and are {spec}"
        for i, (leaf, part) in enumerate(zip(leaves, self.parts)):
            if not _fits(leaf, part):
                return f"argument {i} was {_shown(part)} and is {_shown(_described(leaf))}"
        if modes.is_grad_enabled() is not self.grad:
            return f"grad mode was {'on' if self.grad else 'off'}"
        if default() is not self.default:
            return f"the default dtype was {self.default}"
        return ""


def _described(leaf: Any) -> Any:
    if isinstance(leaf, TensorBase):
        a = leaf.array
        return (tuple(a.shape), a.dtype, tuple(a.strides), leaf.node is not None, type(a))
    return leaf


def _fits(leaf: Any, part: Any) -> bool:
    if isinstance(leaf, TensorBase):
        a = leaf.array
        return (
            type(part) is tuple and len(part) == 5 and a.shape == part[0] and a.dtype == part[1]
            and a.strides == part[2] and (leaf.node is not None) is part[3] and type(a) is part[4]
        )  # fmt: skip
    return leaf is part or (type(leaf) is type(part) and bool(leaf == part))


def _shown(part: Any) -> str:
    if type(part) is tuple and len(part) == 5:
        grad = ", requires grad" if part[3] else ""
        return f"{part[1].name}{list(part[0])} with strides {part[2]}{grad}"
    return repr(part)


class Trace:
    """One way through a function: a program, and when it is the right one."""

    def __init__(self, signature: Signature, surroundings: Surroundings, graph: Graph, loops: Any) -> None:
        self.signature, self.surroundings, self.graph = signature, surroundings, graph
        self.program = Program(graph, loops)
        self.program.bind()
        self.calls = 0
        self.lock = threading.Lock()
        self._plan()
        self.random = any(isinstance(m.op, Step) and m.op.random for m in graph.lines) and self.program.guarded

    def _plan(self) -> None:
        graph = self.program.graph
        number = {v: i for i, v in enumerate(self.program.left)}
        leaf_of = {v: i for i, v in enumerate(graph.given) if isinstance(v, Value)}
        self.leaves = [leaf_of[v] for v in graph.arguments]
        owner = {r.value: r for r in graph.outside}

        def source(v: Any) -> Any:
            if not isinstance(v, Value):
                return lambda leaves, made: v
            if v in number:
                return lambda leaves, made, i=number[v]: made[i]
            if v in leaf_of:
                return lambda leaves, made, i=leaf_of[v]: leaves[i]
            return lambda leaves, made, r=owner[v]: r.current

        self.outputs = [source(o) for o in graph.outputs]
        self.effects = [
            (leaf_of[e.target] if isinstance(e.target, Value) else None, e.target, source(e.value))
            for e in graph.effects
        ]
        self.had = [
            (leaf_of[e.target] if isinstance(e.target, Value) else None, e.target, e.had) for e in graph.effects
        ]
        single = object()
        self.single = len(self.outputs) == 1 and tree_unflatten([single], graph.returns) is single
        self.written = [
            (leaf_of.get(t), owner.get(t)) for t, _ in (line.operands for line in self.program.writes)
        ]  # fmt: skip

    def refuses(self, leaves: list[Any], spec: Any) -> str:
        """Return in words why this is not the program to run, or nothing."""
        found = self.signature.difference(leaves, spec)
        if found:
            return found
        fact = self.surroundings.broken()
        if fact is not None:
            return f"{fact.name} was {fact.value!r:.60} and is {fact.now()!r:.60}"
        for position, target, had in self.had:
            if ((target if position is None else leaves[position])._grad is not None) is not had:
                return f"a tensor {'had' if had else 'had no'} gradient, and now has {'none' if had else 'one'}"
        return ""

    def run(self, leaves: list[Any]) -> Any:
        """Run the program, put its effects in place, and return what the function returns."""
        program = self.program
        with self.lock:
            if not program.is_bound():
                program.bind()
            state = get_rng_state() if self.random else None
            try:
                arrays = program.run(*[leaves[i].array for i in self.leaves])
            except GuardFailure:
                if state is not None:
                    set_rng_state(state)
                raise
        self.calls += 1
        made = [wrap(a) for a in arrays]
        if self.written:
            note_writes([leaves[i] if i is not None else r.current for i, r in self.written])
        for position, target, source in self.effects:
            tensor = target if position is None else leaves[position]
            tensor._grad = source(leaves, made)
        outputs = [source(leaves, made) for source in self.outputs]
        return outputs[0] if self.single else tree_unflatten(outputs, program.graph.returns)


class Compiled:
    """A function that runs as compiled programs, one for each way it has gone."""

    def __init__(self, function: Callable[..., Any], *, fullgraph: bool = False, backend: Any = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.fullgraph = fullgraph
        self.loops = kernels.loops if backend != "numpy" and kernels.available() else None
        self.traces: list[Any] = []
        self.reasons: list[str] = []  # why a program was captured anew
        self.refused: str = ""  # why the function is not compiled
        self.differentiable = False
        self.rows: dict[int, Any] = {}  # the structure of so many tensors
        self.lock = threading.RLock()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, compiled where it can be."""
        if modes.unusual or self.refused:
            return self.function(*args, **kwargs)
        leaves, spec = self._flattened(args, kwargs)
        refusals = []
        for trace in self.traces:
            why = trace.refuses(leaves, spec)
            if not why:
                try:
                    return trace.run(leaves)
                except GuardFailure as error:
                    why = str(error)
            refusals.append(why)
        return self._capture(args, kwargs, leaves, spec, refusals)

    def _flattened(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
        """Return the arguments in a row, and their structure; most often they are tensors in a row already."""
        if kwargs or not all([isinstance(a, TensorBase) for a in args]):  # noqa: C419 - faster than a generator
            return tree_flatten((args, kwargs))
        spec = self.rows.get(len(args))
        if spec is None:
            spec = self.rows[len(args)] = tree_flatten((args, kwargs))[1]
        return list(args), spec

    def _capture(self, args: Any, kwargs: Any, leaves: list[Any], spec: Any, refusals: list[str]) -> Any:
        with self.lock:
            if len(self.traces) >= _LIMIT:
                self._refuse(
                    f"it was captured {_LIMIT} times and still took another way: {refusals[-1]}. Make what changes a "
                    "tensor argument, or compile a smaller part"
                )
                return self.function(*args, **kwargs)
            if refusals:
                self.reasons.append(refusals[-1])
            signature = Signature(leaves, spec)
            if self.differentiable and signature.grad:
                return self._capture_joint(args, kwargs, signature)
            tracer = Tracer(args, kwargs)
            try:
                with tracer:
                    result = self.function(*args, **kwargs)
            except CaptureError as error:
                self._refuse(str(error))
                raise
            found, _ = tree_flatten(result)
            given = set(map(id, leaves))
            if any(isinstance(t, TensorBase) and t.node is not None and id(t) not in given for t in found):
                self.differentiable = True  # the next call is captured together with its backward pass
                return result
            graph = tracer.finish(result)
            if not graph.escapes:  # else: state made on first use; the next call will find it there
                self._add(Trace(signature, Surroundings(self.function, leaves, _numbers(graph)), graph, self.loops))
            return result

    def _capture_joint(self, args: Any, kwargs: Any, signature: Signature) -> Any:
        recording = Recording(self.function, args, kwargs)
        if not recording.outputs:
            return tree_unflatten(recording.found, recording.spec)
        if any(m.op is GUARD for m in recording.graph.lines):
            self._refuse("it looks at values while its result requires grad; compile the step with backward inside")
        elif not recording.graph.escapes:
            surroundings = Surroundings(self.function, recording.leaves, _numbers(recording.graph))
            self._add(JointTrace(signature, surroundings, recording, self.loops))
        return recording.connected()

    def _add(self, trace: Any) -> None:
        self.traces.insert(0, trace)

    def _refuse(self, why: str) -> None:
        self.refused = why
        if self.fullgraph:
            raise RuntimeError(f"cannot compile {self.function!r}: {why}")
        warnings.warn(f"{getattr(self, '__name__', 'function')} runs uncompiled: {why}", RuntimeWarning, stacklevel=4)

    def code(self) -> str:
        """Return the source of every program, newest first."""
        return "\n\n".join(f"# program {i}\n{t.program.code()}" for i, t in enumerate(self.traces))


def _numbers(graph: Graph) -> set[tuple[int, Any]]:
    """Return the places whose numbers a program reads on every run."""
    return {(id(r.tensor[0]), r.tensor[1]) for r in graph.outside if r.attribute == "number"}


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return `model`, a function or module, compiled; also a decorator.

    The first call runs the function and writes down every primitive it calls, backward passes and optimizer
    steps included; later calls run that list, fused. Where the function would go another way (other shapes,
    another branch), it is captured again. Loops are compiled by Numba where it is installed
    (``adjoint[compile]``) unless ``backend="numpy"``; `mode`, `dynamic` and `options` are accepted and change nothing.

    Examples
    --------
    >>> @adjoint.compile
    ... def norm(x):
    ...     return (x * x).sum().sqrt()
    >>> norm(adjoint.tensor([3.0, 4.0])), norm(adjoint.tensor([6.0, 8.0]))
    (tensor(5.), tensor(10.))
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if disable:
        return model
    compiled = Compiled(model, fullgraph=fullgraph, backend=backend)
    stand_for = getattr(model, "_compiled_with", None)  # a module wants to stay one
    return compiled if stand_for is None else stand_for(compiled)
