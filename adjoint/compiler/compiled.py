"""`compile`: runs a function once to record its ops, then as fused loops and library calls."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from .._typing import Kernel
from ..core import device as devices
from ..core import modes
from ..core.dtypes import default
from ..core.interrupts import came, deliver, hold, release
from ..core.nodes import wrap
from ..core.overrides import is_subclass
from ..core.tensor import TensorBase, owner_of
from ..devices import forks
from ..devices.contract import by_name
from ..devices.cpu.provider import plainly
from ..ops.literals import depth_outside
from ..ops.random import get_rng_state, set_rng_state
from ..tree import tree_flatten, tree_unflatten
from . import kernels
from .capture import Tracer
from .graph import Graph, GuardFailure, Step, Value
from .guards import Before, Executed, Outside, Surroundings
from .joint import JointTrace, Recording, has_history
from .memory import layout_of
from .objects import flatten_arguments
from .program import has_written, note_writes, program_of

__all__ = ["Compiled", "compile"]

_LIMIT = 256  # programs stored for one function, those that ran last
_IN_VAIN = 16  # programs that never ran again, for what is not a matter of sizes
_SIZES = 8  # programs for tensors of other sizes, of those that have not run as often as this:
_REPAID = 16
_MOST_SIZES = 32  # and of all
_UNSETTLED = 3  # calls in a row that changed something besides tensors


class Signature:
    """What a program was captured for: the structure of its arguments, and what each of them was."""

    def __init__(self, leaves: list[Any], spec: object) -> None:
        self.spec = spec
        self.parts = [_described(leaf) for leaf in leaves]
        self.aliases = _aliases(leaves)
        self.grad, self.default, self.place = modes.is_grad_enabled(), default(), devices.current()

    def difference(self, leaves: list[Any], spec: object) -> str:
        """Return a text about what is different now, or an empty one."""
        if (spec is not self.spec and spec != self.spec) or len(leaves) != len(self.parts):
            return f"the arguments were {self.spec}, and are {spec}"
        for i, (leaf, part) in enumerate(zip(leaves, self.parts)):
            if not _fits(leaf, part):
                return f"argument {i} was {_shown(part)} and is {_shown(_described(leaf))}"
        if modes.is_grad_enabled() is not self.grad:
            return f"grad mode was {'on' if self.grad else 'off'}"
        if default() is not self.default:
            return f"the default dtype was {self.default}"
        if _aliases(leaves) != self.aliases:
            return "other arguments share memory than did"
        if devices.current() != self.place:
            return f"the default device was {self.place}"
        return ""

    def differs_in_sizes(self, leaves: list[Any], spec: object) -> bool:
        """Return whether there is a difference, and it is one of the tensors' sizes, not of what Python says."""
        if spec != self.spec or len(leaves) != len(self.parts):
            return False
        pairs = [(leaf, part) for leaf, part in zip(leaves, self.parts) if not _fits(leaf, part)]
        return bool(pairs) and all(isinstance(leaf, TensorBase) and type(part) is _Part for leaf, part in pairs)

    def resized(self, leaves: list[Any], spec: Any) -> tuple[int, int] | None:
        """Return the first tensor and axis of another size, if nothing else is different."""
        if not self.differs_in_sizes(leaves, spec):
            return None
        first = None
        for i, (leaf, part) in enumerate(zip(leaves, self.parts)):
            if type(part) is not _Part:
                continue
            now = _described(leaf)
            if len(now.shape) != len(part.shape) or now._replace(shape=part.shape, strides=part.strides) != part:
                return None
            axes = [axis for axis, (x, y) in enumerate(zip(now.shape, part.shape)) if x != y]
            first = (i, axes[0]) if first is None and axes else first
        return first


class _Part(NamedTuple):
    """What a tensor among the arguments was."""

    shape: tuple[int, ...]
    dtype: Any
    strides: tuple[int, ...]
    required: bool
    kind: type
    array: type


def _described(leaf: object) -> Any:
    if isinstance(leaf, TensorBase):
        a = leaf.array
        return _Part(tuple(a.shape), a.dtype, tuple(a.strides), leaf.node is not None, type(leaf), type(a))
    return leaf


def _fits(leaf: object, part: Any) -> bool:
    if isinstance(leaf, TensorBase):
        a = leaf.array
        return (
            type(part) is _Part and a.shape == part[0] and a.dtype == part[1] and a.strides == part[2]
            and (leaf.node is not None) is part[3] and type(leaf) is part[4] and type(a) is part[5]
        )  # fmt: skip
    if isinstance(leaf, np.ndarray):  # whose elements are compared with what is around the function
        return leaf is part
    return leaf is part or (type(leaf) is type(part) and (bool(leaf == part) or (leaf != leaf and part != part)))


def _shown(part: Any) -> str:
    if type(part) is _Part:
        grad = ", requires grad" if part.required else ""
        return f"{part.dtype.name}{list(part.shape)} with strides {part.strides}{grad}"
    return repr(part)


def _aliases(leaves: list[Any]) -> Any:
    """Return which tensors share memory, and their places in it; None where each has its own."""
    if len(leaves) < 2:
        return None
    seen = set()
    for leaf in leaves:  # as nearly always each has its own
        if isinstance(leaf, TensorBase):
            a = leaf.array
            if (key := id(a if a.base is None else owner_of(a))) in seen:
                break
            seen.add(key)
    else:
        return None
    owners: dict[int, list[int]] = {}
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, TensorBase):
            a = leaf.array
            owners.setdefault(id(a if a.base is None else owner_of(a)), []).append(i)
    shared = [found for found in owners.values() if len(found) > 1]
    return [
        [(i, layout_of(leaves[i].array).address - layout_of(leaves[g[0]].array).address) for i in g] for g in shared
    ]


class Trace:
    """One way through a function: a program, and when it is the right one."""

    def __init__(self, signature: Signature, surroundings: Surroundings, graph: Graph, loops: Any) -> None:
        self.signature, self.surroundings, self.graph = signature, surroundings, graph
        self.program = program_of(graph, loops)
        self.program.bind()
        self.calls = 0
        self.lock = forks.lock()
        self._plan()
        self.random = any(isinstance(m.op, Step) and m.op.random for m in graph.lines) and self.program.guarded

    def _plan(self) -> None:
        graph = self.program.graph
        number = {v: i for i, v in enumerate(self.program.left)}
        leaf_of = {v: i for i, v in enumerate(graph.given) if isinstance(v, Value)}
        self.leaves = [leaf_of[v] for v in graph.arguments]
        owner = {r.value: r for r in graph.outside}

        def source(v: object) -> Any:
            if not isinstance(v, Value):
                return lambda leaves, made: v
            if v in number:
                return lambda leaves, made, i=number[v]: made[i]
            if v in leaf_of:
                return lambda leaves, made, i=leaf_of[v]: leaves[i]
            return lambda leaves, made, r=owner[v]: r.current

        self.outputs = [
            _number(source(o)) if i in graph.numbers else source(o) for i, o in enumerate(graph.outputs)
        ]  # fmt: skip
        self.outside = Outside(self.graph)
        self.effects = [
            (leaf_of[e.target] if isinstance(e.target, Value) else None, e.target, source(e.value))
            for e in graph.effects
        ]
        read = {id(r.tensor) for r in graph.outside if r.attribute}
        self.replaced = [
            e.target for e in graph.effects if not isinstance(e.target, Value) and id(e.target) not in read
        ] if getattr(self.program, "reuses", False) else []  # fmt: skip
        self.had = [
            (leaf_of[e.target] if isinstance(e.target, Value) else None, e.target, e.had) for e in graph.effects
        ]
        single = object()
        self.single = len(self.outputs) == 1 and tree_unflatten([single], graph.returns) is single
        self.written = [
            (leaf_of.get(t), owner.get(t)) for t, _ in (line.operands for line in self.program.writes)
        ]  # fmt: skip

    def refuses(self, leaves: list[Any], spec: object) -> str:
        """Return a text about why this is not the program to run, or an empty one."""
        found = self.signature.difference(leaves, spec) or self.surroundings.difference()
        found = found or self.outside.difference(leaves, bool(self.written))
        if found:
            return found
        for position, target, had in self.had:
            if ((target if position is None else leaves[position])._grad is not None) is not had:
                return f"a tensor {'had' if had else 'had no'} gradient, and now has {'none' if had else 'one'}"
        return ""

    @has_written
    def run(self, leaves: list[Any]) -> Any:
        """Run the program, put its effects in place, and return what the function returns."""
        program = self.program
        with self.lock:
            if not program.is_bound():
                program.bind()
            state = get_rng_state() if self.random else None
            for target in self.replaced:  # memory that is no longer referenced is reused for the new gradients
                target._grad = None
            try:
                arrays = program.run(*[leaves[i].array for i in self.leaves])
            except GuardFailure:
                if state is not None:
                    set_rng_state(state)
                raise
        self.calls += 1
        made = [wrap(a) for a in arrays]
        if self.written:
            note_writes([leaves[i] if i is not None else r.current for i, r in self.written])  # type: ignore[union-attr]
        for position, target, source in self.effects:
            tensor = target if position is None else leaves[position]
            tensor._grad = source(leaves, made)
        outputs = [source(leaves, made) for source in self.outputs]
        return outputs[0] if self.single else tree_unflatten(outputs, program.graph.returns)


def _number(source: Callable[..., Any]) -> Callable[..., Any]:
    return lambda leaves, made: source(leaves, made).array.item()


class Compiled:
    """A function that runs as compiled programs, one for each way it has gone."""

    runs_programs = True

    made: weakref.WeakSet[Compiled] = weakref.WeakSet()  # all there are

    def __init__(self, function: Callable[..., Any], *, fullgraph: bool = False, backend: object = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.made.add(self)
        self.fullgraph = fullgraph
        self.loops = kernels.code if backend != "numpy" and kernels.available() else None
        self.traces: list[Any] = []
        self.reasons: list[str] = []  # why a program was captured anew
        self.refused: str = ""  # why the function is not compiled
        self.differentiable = False
        self.started = False
        self.unsettled = 0
        self.executed: set[Any] | None = (
            None  # the code that calls run, where too much can be reached to look at it all
        )
        self.warned = False  # that sizes change again and again
        self.volatile: set[tuple[int, Any]] = set()
        self.rows: dict[int, Any] = {}  # the structure of so many tensors
        self.lock = forks.reentrant_lock()

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the function, compiled where it can be."""
        if modes.unusual or self.refused:
            return self.function(*args, **kwargs)
        leaves, spec = self._flattened(args, kwargs)
        refusals: list[str] = []
        for trace in self.traces:
            why = trace.refuses(leaves, spec)
            if not why:
                replaced = hold() if trace.written else []
                try:
                    result = trace.run(leaves)
                except GuardFailure as error:
                    why = str(error)
                else:
                    if refusals:  # the program that ran last is tried first
                        self.traces = [trace, *(t for t in self.traces if t is not trace)]
                    return result
                finally:
                    release(replaced)
                    if came:
                        deliver()
            refusals.append(why)
        return self._capture(args, kwargs, leaves, spec, refusals)

    def _flattened(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
        """Return the arguments in a row, and their structure; most often they are tensors in a row already."""
        if kwargs or not all([isinstance(a, TensorBase) for a in args]):  # noqa: C419 - faster than a generator
            return flatten_arguments((args, kwargs))
        spec = self.rows.get(len(args))
        if spec is None:
            spec = self.rows[len(args)] = tree_flatten((args, kwargs))[1]
        return list(args), spec

    def _capture(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any], spec: object, refusals: list[str]
    ) -> Any:
        if any(map(is_subclass, leaves)):  # its class may handle every op
            return self.function(*args, **kwargs)
        places = [devices.of(t.array).type for t in leaves if isinstance(t, TensorBase)]
        if (without := next((p for p in places if p in by_name and not by_name[p].has_programs), None)) is not None:
            self._refuse(f"device '{without}' has no compiled programs")
            return self.function(*args, **kwargs)
        if any(getattr(t, "differentiated", False) for t in self.traces):
            self._refuse("its gradient is differentiated again; compile the function that does so instead")
            return self.function(*args, **kwargs)
        with self.lock, plainly:
            unused = [t for t in self.traces if not t.calls and not t.signature.differs_in_sizes(leaves, spec)]
            if len(unused) >= _IN_VAIN:
                self._refuse(
                    f"it was captured {_IN_VAIN} times and took another way each time: {refusals[0]}. Make what "
                    "changes a tensor argument, or compile a smaller part"
                )
                return self.function(*args, **kwargs)
            if self._sizes_keep_changing(leaves, spec, args, kwargs):
                return self.function(*args, **kwargs)
            if refusals:
                self.reasons = [*self.reasons[1 - _LIMIT :], refusals[0]]
            signature = Signature(leaves, spec)
            before = Before(self.function, leaves, self.executed)
            if before.surroundings.unknown and self.executed is None and sys.getprofile() is None:
                self.executed = set()
                with Executed(self.executed) as executed:
                    result = self.function(*args, **kwargs)
                executed.is_known()
                return result  # the next call is captured, and what it may reach in the code that has run is watched
            if before.surroundings.unknown:
                self._refuse(before.surroundings.unknown)
                return self.function(*args, **kwargs)
            if not self.started and any(not o.state for o in before.surroundings.optimizers):
                self.started = True  # the next call finds state and gradients, and is captured
                return self.function(*args, **kwargs)
            if self.differentiable and signature.grad:
                return self._capture_joint(args, kwargs, signature, before)
            self._note_volatile()
            tracer = Tracer(args, kwargs, frozenset(self.volatile), before.surroundings)
            with self._noting() as executed, tracer:
                result = self.function(*args, **kwargs)
            found, _ = tracer.flattened(result)
            if any(has_history(t) and not tracer.knew(t) for t in found):
                self.differentiable = True  # the next call is captured together with its backward pass
                return tracer.settled(result)
            del found
            graph = tracer.finish(result)
            result = tracer.settled(result)
            if self._is_settled(tracer.unable, graph, before, executed):
                surroundings = Surroundings(self.function, leaves, _numbers(graph), self.executed)
                self._add(Trace(signature, surroundings, graph, self.loops))
            return result

    def _noting(self) -> Any:
        """Note what code runs, where only that is watched."""
        return nullcontext() if self.executed is None else Executed(self.executed)

    def _sizes_keep_changing(self, leaves: list[Any], spec: Any, args: Any, kwargs: Any) -> bool:
        """Return whether there are enough programs for arguments of other sizes; these go on running."""
        there = [(t, found) for t in self.traces if (found := t.signature.resized(leaves, spec)) is not None]
        if len(there) < _SIZES:
            return False
        if len(there) < _MOST_SIZES and sum(t.calls < _REPAID for t, _ in there) < _SIZES:
            return False
        if not self.warned:
            self.warned = True
            (i, axis), trace = there[0][1], there[0][0]
            name = _name_of(self.function, args, kwargs, leaves[i]) or f"argument {i}"
            title = getattr(self, "__name__", type(self.function).__name__)
            warnings.warn(
                f"{title} runs uncompiled for further sizes: there are {len(there)} programs already, and the size of "
                f"{name} along dimension {axis} keeps changing (it was {trace.signature.parts[i].shape[axis]}, and is "
                f"{leaves[i].shape[axis]}). Pad it to few sizes",
                RuntimeWarning,
                stacklevel=depth_outside(),
            )
        return True

    def _note_volatile(self) -> None:
        """Note numbers that have changed since a program was captured: the next one reads them on every run."""
        for trace in self.traces:
            fact = trace.surroundings.broken()
            if fact is not None and isinstance(fact.container, dict) and isinstance(fact.value, float | tuple):
                self.volatile.add((id(fact.container), fact.key))

    def _is_settled(self, unable: str, graph: Graph, before: Before, executed: Any) -> bool:
        """Return whether a program does all that the captured call did; if it never does, the function is refused."""
        if executed is not None and not executed.is_known():
            return False  # what that code changes was not looked at before the call
        if unable:
            self._refuse(unable)
            return False
        changed = before.difference()
        why = f"it creates a tensor and stores it: {graph.escapes[0]}" if graph.escapes else changed
        if why:  # state made on first use is there when the next call is captured
            self.unsettled += 1
            if self.unsettled > _UNSETTLED:
                self._refuse(f"{why}. A program only computes: do this outside the compiled function")
        return not why

    def _capture_joint(self, args: Any, kwargs: Any, signature: Signature, before: Before) -> Any:
        with self._noting() as executed:
            recording = Recording(self.function, args, kwargs, before.surroundings)
        self.differentiable = bool(recording.outputs)  # if nothing is, the next such call is captured without a pass
        if recording.looks_behind():
            self._refuse("its backward pass looks at values; compile the step with the backward pass inside")
        elif self._is_settled(recording.unable, recording.graph, before, executed) and recording.outputs:
            surroundings = Surroundings(self.function, recording.leaves, _numbers(recording.graph), self.executed)
            self._add(JointTrace(signature, surroundings, recording, self.loops))
        return recording.connected() if recording.outputs else tree_unflatten(recording.found, recording.spec)

    def _add(self, trace: Any) -> None:
        self.unsettled = 0
        self.traces = [trace, *self.traces[: _LIMIT - 1]]

    def _refuse(self, why: str) -> None:
        self.refused = why
        if self.fullgraph:
            raise RuntimeError(f"cannot compile {self.function!r}: {why}")
        warnings.warn(
            f"{getattr(self, '__name__', 'function')} runs uncompiled: {why}",
            RuntimeWarning,
            stacklevel=depth_outside(),
        )

    def code(self) -> str:
        """Return the source of every program, newest first."""
        return "\n\n".join(f"# program {i}\n{t.program.code()}" for i, t in enumerate(self.traces))


def _name_of(function: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], leaf: object) -> str:
    """Return what a function calls the argument that a tensor is, or is in; nothing where that is not known."""
    try:
        given = inspect.signature(getattr(function, "forward", function)).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return ""
    return next((f"'{k}'" for k, v in given.items() if any(x is leaf for x in tree_flatten(v)[0])), "")


def _numbers(graph: Graph) -> set[tuple[int, Any]]:
    """Return the places whose numbers a program reads on every run."""
    places = [r.tensor for r in graph.outside if r.attribute == "number"]
    return {(id(container), key[0] if type(key) is tuple else key) for container, key in places}


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: object = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return `model`, a function or module, compiled; also a decorator.

    The first call runs the function and captures every primitive it calls, backward passes and optimizer steps
    included. Later calls run that list, fused. Where the function would take another path (other shapes, another
    branch), it is captured again.

    Parameters
    ----------
    model : callable, optional
        The function or module. Without it a decorator is returned.
    fullgraph : bool, default False
        Raise if the function cannot be captured whole, instead of running it uncompiled.
    dynamic : bool, optional
        Accepted and ignored: a program for other sizes is captured when they come.
    backend : str, optional
        ``"numba"`` compiles loops with Numba (the extra ``compile``); ``"numpy"`` needs no compiler. By default Numba
        where it is installed; other names count as the default.
    mode, options : optional
        Accepted and ignored.
    disable : bool, default False
        Return `model` itself.

    Returns
    -------
    callable
        The compiled function; for a module, a module of the same parameters.

    Raises
    ------
    AssertionError
        If `model` is not callable.

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
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable:
        return model
    compiled = Compiled(model, fullgraph=fullgraph, backend=backend)
    stand_for = getattr(model, "_compiled_with", None)  # a module wants to stay one
    return compiled if stand_for is None else stand_for(compiled)
