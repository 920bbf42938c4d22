"""`capture`: run a program once, on its real values, and write down every primitive it calls.

The program runs as it would uncaptured, on concrete arrays, so everything that it does works. A value that Python
reads is returned and noted as a guard. Values are identified by their memory, so a tensor that reaches
an op by another path (`detach`, `.data`, saved for backward, viewed through NumPy) is still the same value.
Backward passes run their rules on tensors, so a gradient is a line like any other.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from .._typing import Array, Op, Params
from ..core import device as places
from ..core import engine, modes
from ..core.general import as_floating
from ..core.nodes import Node, wrap
from ..core.observation import Observer, run_opaque
from ..core.overrides import is_subclass
from ..core.payload import Payload, top_payload
from ..core.promotion import promote_all, promote_some
from ..core.tensor import TensorBase, ours, owner_of
from ..errors import place
from ..ops.shape import cast_p, clone_p, expand_p
from ..tree import tree_unflatten
from .graph import GUARD, WRITE, Effect, Graph, Line, Reference, Step, Value
from .memory import Memories, Memory, layout_of, put_region, take_region
from .numbers import Reading, looked_at, plain, settle
from .objects import flatten_arguments, flatten_result
from .references import alive_tensors, is_kept, is_kept_by_program
from .replay import answer_of

__all__ = ["CaptureError", "Captured", "capture"]

# Ways of writing that change the geometry of a tensor, not the memory.
_RESHAPING = frozenset(
    ("t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "resize_", "increment_version")
)
# Calls whose result has a shape that depends on data: the lines after them hold for one shape.
_DATA_DEPENDENT = frozenset(("masked_select", "nonzero", "argwhere", "unique", "unique_consecutive", "one_hot"))


class CaptureError(RuntimeError):
    """A program did something that cannot be written down as primitives."""


class Captured:
    """What ``capture(step)(*args)`` gives: the `graph`, and the `result` of the run it was captured from."""

    def __init__(self, graph: Graph, result: object) -> None:
        self.graph, self.result = graph, result

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the program again on other arguments; see `Graph.run`."""
        return self.graph.run(*args, **kwargs)

    def __str__(self) -> str:
        return str(self.graph)


def capture(function: Callable[..., Any]) -> Callable[..., Captured]:
    """Return a function that runs `function` once and gives its straight list of primitives.

    Forward, backward, and optimizer step become lines of one graph, which prints readably and can be run
    again on other arguments. Tensors that the program finds outside (parameters, buffers, state) are read
    and written in place on each run. Random numbers are drawn anew.

    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> def step(x):
    ...     loss = (w * x).sum()
    ...     loss.backward()
    ...     return loss.detach()
    >>> program = adjoint.compiler.capture(step)(adjoint.tensor([3.0, 4.0]))
    >>> program.result, w.grad
    (tensor(11.), tensor([3., 4.]))
    >>> w.grad = None
    >>> program(adjoint.tensor([5.0, 6.0])), w.grad
    (tensor(17.), tensor([5., 6.]))
    """

    def captured(*args: object, **kwargs: object) -> Captured:
        tracer = Tracer(args, kwargs)
        with tracer:
            result = function(*args, **kwargs)
        graph = tracer.finish(result)
        if tracer.unable:
            raise CaptureError(tracer.unable)
        return Captured(graph, tracer.settled(result))

    return captured


class Tracer(Observer):
    """Writes a graph while a program runs."""

    lifts = captures = True

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], volatile: frozenset[tuple[int, Any]] = frozenset(),
        surroundings: Any = None,
    ) -> None:  # fmt: skip
        self.graph = Graph()
        self.surroundings = surroundings  # what is watched between calls; None: the caller vouches for all there is
        self.volatile = volatile  # places of numbers that have changed between calls
        self.memories = Memories()
        self.depth = 0  # inside a kernel: what it calls is part of the line
        self.announced: Any = None
        self.unable = ""  # why what has been written down is not what the program did
        self.readings: list[weakref.ref[Reading]] = []
        self.made: list[tuple[weakref.ref[Any], str]] = []
        # Everything alive now is outside; an array that turns up later and was not recorded is a constant.
        self.before = {id(t): (t, t._grad) for t in alive_tensors()}
        self.outside: dict[Any, Any] = {}
        for t, _ in self.before.values():
            key = _memory_of(t)
            if key is not None and (key not in self.outside or t.node is not None):
                self.outside[key] = t
        self.lasting = [t.array for t in self.outside.values()]  # no other array gets their addresses
        leaves, self.graph.takes = flatten_arguments((args, kwargs))
        self.given = set(map(id, leaves))
        for leaf in leaves:
            self.graph.given.append(self._argument(leaf) if isinstance(leaf, TensorBase) else leaf)

    def __enter__(self) -> Self:
        places.captures.append(None)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        places.captures.pop()

    def _argument(self, tensor: TensorBase) -> Value:
        known = self.memories.find(tensor.array)
        if known is not None and known.home == layout_of(tensor.array):
            return known.current  # the same tensor twice
        value = self.graph.value(tensor.array, "argument")
        self.graph.arguments.append(value)
        self.memories.add(tensor.array, value, origin=value)
        return value

    def knew(self, tensor: Any) -> bool:
        """Return whether a tensor was there before the program ran, as one of its arguments or outside."""
        return id(tensor) in self.before

    def is_on(self) -> bool:
        """Return whether the program is still running."""
        watching = modes.local.observer
        while watching is not None and watching is not self:
            watching = watching.inner
        return watching is self

    # --- calls of an observer ---

    def call(self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Run a primitive and write it down."""
        if self.depth or top_payload(inputs) is not None or not any(isinstance(v, TensorBase) for v in inputs):
            return self.proceed(op, inputs, params, run)
        if not modes.local.subclasses_off and any(map(is_subclass, inputs)):
            return self.proceed(op, inputs, params, run)  # its class's handler runs first, and calls again
        params = tuple(map(looked_at, params))
        inputs, taken = self._converted(op, tuple(map(looked_at, inputs)))
        operands = tuple(self.operand(v) for v in inputs)
        self.depth += 1
        try:
            result = self.proceed(op, taken, params, run)
        finally:
            self.depth -= 1
        self.record(op, operands, params, result if op.outputs else (result,), inputs)
        return result

    def _converted(self, op: Any, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the inputs in the dtypes in which an op takes them, by lines of their own; and those it is to take.

        Autocast is recorded by its conversions. Rules save their inputs converted, so these conversions are recorded,
        too: no op of the backward pass would recognise the saved array otherwise. Scalars become the arrays that the op
        makes of them.
        """
        if modes.local.autocast is not None:
            inputs = modes.local.autocast(op, inputs)
        keeping = modes.is_grad_enabled() and any(isinstance(v, TensorBase) and v.node is not None for v in inputs)
        if not keeping or not (op.promotes or op.floating) or any(map(is_subclass, inputs)):
            return inputs, inputs
        values = tuple(v.array if isinstance(v, TensorBase) else v for v in inputs)
        if op.promotes:
            values = promote_all(values) if op.promotes is True else promote_some(values, op.promotes)
        if op.floating:
            values = tuple(map(as_floating, values))
        for x, v in zip(inputs, values, strict=True):
            if v is not x and not isinstance(x, TensorBase):
                self.literal(v)
        inputs = tuple(
            cast_p(x, v.dtype) if isinstance(x, TensorBase) and v.dtype != x.array.dtype else x
            for x, v in zip(inputs, values, strict=True)
        )
        return inputs, tuple(x if isinstance(x, TensorBase) else v for x, v in zip(inputs, values, strict=True))

    def compute_into(
        self, op: Op, x: TensorBase, inputs: Sequence[Any], params: Params, run: Callable[[], None]
    ) -> None:
        """Write an in-place op down as the op out of place, whose result is the memory's new value."""
        if self.depth:
            run()
            return
        was = modes.local.grad
        modes.set_grad(False)
        try:
            result = self._out_of_place(op, inputs, params, run)
            array = x.array
            if result.array.dtype != array.dtype:
                result = cast_p(result, array.dtype)
            if result.array.shape != array.shape:
                result = expand_p(result, tuple(array.shape))
            value = self.operand(result)
            self.operand(x)  # known before it is written
            self.depth += 1
            try:
                run()
            finally:
                self.depth -= 1
        finally:  # by stores: see modes.py
            modes.off[modes.local.key], modes.local.grad = None, was
            if was:
                modes.off.pop(modes.local.key, None)
        self.assign(array, value)
        self.announced = x

    def _out_of_place(self, op: Op, inputs: Sequence[Any], params: Params, run: Callable[[], None]) -> Any:
        try:
            return op.call(*inputs, *params)
        except Exception:
            self.depth += 1
            try:
                run()  # raises the error about the write
            finally:
                self.depth -= 1
            raise

    def written(self, x: TensorBase, operation: str) -> None:
        """Refuse a write that was not seen as an op: a run could not repeat it."""
        if self.depth or operation in _RESHAPING:
            return
        if self.announced is not x:
            self.unable = self.unable or (
                f"{operation or 'something'} wrote into a tensor without calling a primitive, at {self.where()[0]}; "
                "such a write cannot be captured"
            )
        self.announced = None

    def read(self, x: TensorBase, what: str) -> None:
        """Note what Python gets to see of a value as a guard: the program may go its way by it."""
        if self.depth or what == "repr()" or isinstance(x.array, Payload):
            return
        asked = what if what == "bool()" else "item()" if x.array.size == 1 and what != "numpy()" else "elements"
        where, backward = self.where()
        operand = self.operand(x)
        self.graph.add(Line(GUARD, (operand,), (asked, answer_of(x.array, asked)), (), where, backward))

    def item(self, x: TensorBase) -> Any:
        """Return a scalar that remembers its origin to the program; one that adjoint itself reads becomes a guard."""
        if self.depth or not isinstance(x.array, np.ndarray) or x.array.dtype.kind != "f":
            return None
        if sys._getframe(2).f_code.co_filename in ours:
            return None
        found = Reading.of(self, self.operand(x), x.array.item())
        self.readings.append(weakref.ref(found))
        return found

    def opaque(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Run a function of arrays and write it down."""
        args = tuple(map(looked_at, args))
        if self.depth:
            return run_opaque(function, args)
        operands = tuple(self.operand(a) if isinstance(a, TensorBase) or self.knows(a) else a for a in args)
        self.depth += 1
        try:
            result = run_opaque(function, args)
        finally:
            self.depth -= 1
        several = isinstance(result, tuple)
        # NumPy makes scalars of 0-d results; as arrays they have a memory to be known by.
        result = tuple(map(_settled, result)) if several else _settled(result)
        step = Step(name, function, outputs=several, random=name.startswith("random."), dynamic=True)
        self.record(step, operands, (), result if several else (result,), ())
        return result

    def literal(self, array: Any) -> None:
        """Take in an array that is the same on every run."""
        if not self.depth and _is_array(array) and self.memories.find(array) is None:
            self._constant(array)

    def saved_inputs(self, inputs: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what an in-place op saves, copies and conversions made by lines of their own."""
        if self.depth:
            return values
        was = modes.local.grad
        modes.set_grad(False)
        try:
            return tuple(map(self._kept, inputs, values))
        finally:  # by stores: see modes.py
            modes.off[modes.local.key], modes.local.grad = None, was
            if was:
                modes.off.pop(modes.local.key, None)

    def _kept(self, given: Any, value: Any) -> Any:
        if not isinstance(given, TensorBase):
            self.literal(value)
            return value
        if value is given.array:
            return value
        return (clone_p(given) if value.dtype == given.array.dtype else cast_p(given, value.dtype)).array

    def number(self, container: Any, key: Any, often: bool) -> Any:
        """Return a number of the program's, or several, as tensors that are read anew on every run."""
        found = container[key]
        if self.depth or not (often or (id(container), key) in self.volatile):
            return found
        if type(found) is tuple and all(type(n) is float for n in found):
            return tuple(self._number(container, (key, i), n) for i, n in enumerate(found))
        return self._number(container, key, found) if type(found) is float else found

    def _number(self, container: Any, key: object, found: float) -> object:
        tensor = wrap(np.array(found))
        value = self.graph.value(tensor.array, "outside")
        self.graph.outside.append(Reference(value, (container, key), "number"))
        self.memories.add(tensor.array, value, origin=value)
        return tensor

    def pattern(self, tensors: list[Any]) -> object:
        """Begin to note what is done to some tensors."""
        return None if self.depth else Pattern(self, tensors)

    # --- writing lines ---

    def knows(self, value: object) -> bool:
        """Return whether a bare array is in memory that the program has computed."""
        if not _is_array(value):
            return False
        return self.memories.find(value) is not None

    def operand(self, v: Any) -> Any:
        """Return what stands for an operand in a line: its value now, or itself if it is a number."""
        array = v.array if isinstance(v, TensorBase) else v
        if not hasattr(array, "strides") or isinstance(array, np.generic):
            return v
        memory = self.memories.find(array)
        if memory is None:
            memory = self._adopt(array, v)
        elif memory.origin is not None and id(v) in self.before and id(v) not in self.given:
            if memory.origin.kind == "argument":
                self.unable = self.unable or "one of its arguments is a tensor that it also finds by itself"
        if memory.first() is array:
            return memory.current
        return self._region(memory, layout_of(array), array)

    def _adopt(self, array: Any, v: object) -> Memory:
        """Take in memory that is not the program's own: an outside tensor's, or a constant."""
        tensor = v if id(v) in self.before else self.outside.get(layout_of(array))
        if tensor is None:
            self._refuse_unknown(array)
            return self._constant(array)
        return self._refer(tensor)

    def _constant(self, array: Array) -> Memory:
        return self.memories.add(array, self.graph.constant(array.copy()))  # the program may write into it

    def _is_constant(self, array: Array) -> bool:
        memory = self.memories.find(array)
        return memory is not None and memory.constant and not memory.written

    def _refuse_unknown(self, array: Array) -> None:
        """Refuse an array that is no input, no result of a line and no literal: on another run it may be another."""
        self.unable = self.unable or (
            f"an array {array.dtype.name}{list(array.shape)} is used at {self.where()[0]}, and was made by no op that "
            "is captured; compute it with ops, or outside the compiled function"
        )

    def _refer(self, tensor: Any) -> Memory:
        if self.surroundings is not None and not self._is_watched(tensor):
            self.unable = self.unable or (
                f"it finds a tensor {tensor.array.dtype.name}{list(tensor.array.shape)} at {self.where()[0]} by a way "
                "that adjoint cannot trace; pass it as an argument, or store it in a variable or an attribute"
            )
        value = self.graph.value(tensor.array, "outside")
        self.graph.outside.append(Reference(value, tensor))
        return self.memories.add(tensor.array, value, origin=value)

    def _is_watched(self, tensor: TensorBase) -> bool:
        """Return whether it would be noticed that another tensor is in the place where the program found this one."""
        known = self.surroundings
        if id(tensor) in known.tensors or id(owner_of(tensor.array)) in known.arrays:
            return True
        return any(g is tensor and id(t) in self.watched for t, g in self.before.values())

    @functools.cached_property
    def watched(self) -> set[int]:
        """The tensors of which it would be noticed that they are others."""
        return self.surroundings.tensors | self.given

    def lent(self, x: TensorBase) -> None:
        """Refer to memory that came in through NumPy, unless it is the program's own."""
        if not self.depth and self.memories.find(x.array) is None:
            self._refer(x)

    def _region(self, memory: Memory, layout: Any, array: Any) -> Value:
        """Return the value of a part of a memory, made again by a line if a write has changed it."""
        if layout == memory.home:
            return memory.current
        view = memory.views.get(layout)
        if view is not None and view.version == memory.version:
            return view.value
        value = self.graph.value(array)
        where, backward = self.where()
        if view is not None and view.op is not None:
            parent = self._region(memory, view.parent, view.source)
            line = Line(view.op, (parent,), view.params, (value,), where, backward)
        else:
            line = Line(take_region, (memory.current,), memory.region(layout), (value,), where, backward)
        self.graph.add(line)
        memory.remember(layout, value, array)
        return value

    def record(self, op: Any, operands: Sequence[Any], params: Params, results: Any, inputs: Sequence[Any]) -> None:
        """Add the line of a call whose results are there."""
        outputs, aliases = [], True
        for result in results:
            array = result.array if isinstance(result, TensorBase) else _settled(result)
            memory = self.memories.find(array)
            layout = None if memory is None else layout_of(array)
            if memory is not None and layout == memory.home:
                outputs.append(self.graph.value(array))  # the input itself: a name that is not used
                continue
            if op.name == "as_strided" and memory is not None and layout is not None:
                # It reads memory in the strides of this run; in a program the same value may have others.
                outputs.append(self._region(memory, layout, array))
                continue
            aliases = False
            value = self.graph.value(array)
            outputs.append(value)
            if memory is None or layout is None:
                self.memories.add(array, value)
            else:
                memory.remember(layout, value, array, *self._derivation(op, inputs, params, memory))
        where, backward = self.where()
        if not aliases:
            for array in _arrays_in(params):
                if not self._is_constant(array):
                    self._refuse_unknown(array)
            self.graph.add(Line(op, operands, params, outputs, where, backward))
            if op.name in _DATA_DEPENDENT or (op.name == "index" and any(map(_is_mask, operands[1:]))):
                self.graph.add(Line(GUARD, (outputs[0],), ("shape", outputs[0].shape), (), where, backward))
        for result in results:
            if isinstance(result, TensorBase):
                self.made.append((weakref.ref(result), f"{op.name} at {where}"))

    def _derivation(self, op: Op, inputs: Sequence[Any], params: Params, memory: Memory) -> tuple[Any, ...]:
        """Return how a view is made again after a write: by its op, if that does not depend on strides."""
        if op.outputs or op.name == "as_strided" or not inputs or not isinstance(inputs[0], TensorBase):
            return ()
        source = inputs[0].array
        if self.memories.find(source) is not memory:
            return ()
        return op, params, layout_of(source), self.graph.value(source)  # what it looks like, not the memory

    def assign(self, array: Any, value: Value) -> None:
        """Make `value` what the memory of `array` holds from now on."""
        memory = self.memories.find(array)
        assert memory is not None
        layout = layout_of(array)
        memory.version += 1
        memory.written = True
        if layout == memory.home:
            memory.current = value
            return
        where, backward = self.where()
        whole = self.graph.value(memory.current)
        self.graph.add(Line(put_region, (memory.current, value), memory.region(layout), (whole,), where, backward))
        memory.current = whole
        memory.remember(layout, value, array)

    def where(self) -> tuple[str, bool]:
        """Return the program's file and line, and whether a backward pass is running a rule."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code is _running_rule:
                node = frame.f_locals.get("node")
                if isinstance(node, Node) and node.code is not None:
                    return place(node.code, node.lasti) or "", True
            if code.co_filename not in ours:
                return place(code, frame.f_lasti) or "", False
            frame = frame.f_back
        return "", False

    # --- the end ---

    def finish(self, result: object) -> Graph:
        """Return the graph, with what the program returned and left behind."""
        graph = self.graph
        leaves, graph.returns = self.flattened(result)
        graph.outputs = [self._returned(leaf) for leaf in leaves]
        graph.numbers = [i for i, leaf in enumerate(leaves) if type(leaf) is Reading]
        self._note_gradients()
        for memory in self.memories:
            if memory.written and memory.origin is not None:
                graph.add(Line(WRITE, (memory.origin, memory.current)))
        self._note_state(leaves)
        self._note_escapes(leaves)
        self._note_overlaps()
        graph.prune()
        graph.check()
        return graph

    def flattened(self, result: Any) -> tuple[list[Any], Any]:
        """Take a result apart, objects that the program has made and that hold tensors included."""
        known = set() if self.surroundings is None else self.surroundings.seen
        return flatten_result(result, known | self.given)

    def settled(self, result: Any) -> Any:
        """Return what the program returned, with Python scalars for readings, in what the program has stored too."""
        leaves, spec = self.flattened(result)
        if any(type(leaf) is Reading for leaf in leaves):
            result = tree_unflatten([plain(leaf) for leaf in leaves], spec)
        del leaves
        settle([reading for ref in self.readings if (reading := ref()) is not None])
        return result

    def _returned(self, tensor: Any) -> Any:
        if type(tensor) is Reading:
            return tensor.value
        if not isinstance(tensor, TensorBase):
            return tensor
        memory = self.memories.find(tensor.array)
        if memory is not None and memory.origin is not None and memory.home == layout_of(tensor.array):
            return memory.origin
        value = self.operand(tensor)
        assert isinstance(value, Value)
        return value

    def _note_gradients(self) -> None:
        graph = self.graph
        arguments = {id(t): v for v, t in self._argument_tensors()}
        parents = {id(g): t for t, g in self.before.values() if g is not None}
        for tensor, grad in self.before.values():
            now = tensor._grad
            if now is not grad:
                value = None if now is None else self._returned(now)
                graph.effects.append(Effect(arguments.get(id(tensor), tensor), value, grad is not None))
        for reference in graph.outside:
            parent = parents.get(id(reference.tensor))
            if parent is not None:
                reference.tensor, reference.attribute = parent, "grad"

    def _argument_tensors(self) -> list[tuple[Value, Any]]:
        homes = {m.home: m.origin for m in self.memories if m.origin in self.graph.arguments}
        found = ((homes.get(_memory_of(t)), t) for t, _ in self.before.values())
        return [(v, t) for v, t in found if v is not None]

    def _note_state(self, returned: list[Any]) -> None:
        """Note memory that the program made, wrote to and stored: state, as an optimizer makes on its first step."""
        tensors = [*returned, *(t._grad for t, _ in self.before.values())]
        known = {id(self.memories.find(t.array)) for t in tensors if isinstance(t, TensorBase)}
        for memory in self.memories:
            if memory.written and memory.origin is None and memory.constant and id(memory) not in known:
                if memory.held is None or is_kept(memory):
                    self.graph.escapes.append("state that was made and written in the same run")

    def _note_overlaps(self) -> None:
        """Note memory that was written and is known twice, under different names: a run would write one of them."""
        for found in self.memories.by_owner.values():
            if len(found) > 1 and any(m.written for m in found):
                spans = sorted(m.span for m in found)
                if any(a[1] > b[0] for a, b in pairwise(spans)):
                    self.unable = self.unable or "it writes into memory that two of its tensors share in part"

    def _note_escapes(self, returned: list[Any]) -> None:
        """Note tensors that outlive the run and that it did not return: the program has stored them somewhere."""
        allowed = {id(t) for t in returned} | {id(t._grad) for t, _ in self.before.values()}
        for ref, made_by in self.made:
            tensor = ref()
            if tensor is not None and id(tensor) not in allowed and is_kept_by_program(tensor):
                self.graph.escapes.append(made_by)
        self.made.clear()


class Pattern:
    """What a program does to some tensors, in place, and would do to others with the same memory layout."""

    def __init__(self, tracer: Tracer, tensors: list[Any]) -> None:
        self.tracer, self.start = tracer, len(tracer.graph.lines)
        self.before = [tracer.operand(t) for t in tensors]

    def end(self, tensors: list[Any]) -> bool:
        """Return whether all that has been done since is lines, and writes into some of the tensors as a whole."""
        self.after = [self.tracer.operand(t) for t in tensors]
        self.lines = self.tracer.graph.lines[self.start :]
        return (
            len(set(self.before)) == len(tensors)
            and all(line.is_call for line in self.lines)
            and self._whole(tensors)
        )  # fmt: skip

    def _whole(self, tensors: list[Any]) -> bool:
        for tensor, old, new in zip(tensors, self.before, self.after, strict=True):
            memory = self.tracer.memories.find(tensor.array)
            if old is not new and (memory is None or memory.home != layout_of(tensor.array)):
                return False
        return True

    def repeat(self, tensors: list[Any]) -> bool:
        """Write down the same of other tensors; return whether that was possible. Nothing is computed."""
        tracer = self.tracer
        given = [tracer.operand(t) for t in tensors]
        if len(set(given)) != len(given) or not self._whole(tensors):
            return False
        now: dict[Any, Value] = dict(zip(self.before, given, strict=True))
        graph = tracer.graph
        for line in self.lines:
            operands = tuple(now.get(o, o) if isinstance(o, Value) else o for o in line.operands)
            outputs = [graph.value(v) for v in line.outputs]
            now.update(zip(line.outputs, outputs, strict=True))
            graph.add(Line(line.op, operands, line.params, outputs, line.place, line.backward))
        for tensor, old, new in zip(tensors, self.before, self.after, strict=True):
            if old is not new:
                tracer.assign(tensor.array, now[new])
        return True


_running_rule = engine._run_watched.__code__


def _is_mask(operand: object) -> bool:
    return isinstance(operand, Value) and operand.dtype == bool


def _memory_of(tensor: Any) -> Any:
    """Return where a tensor's elements are; None of sparse tensors, and of tensors inside a transform."""
    array = tensor.array
    return None if isinstance(array, Payload) or not hasattr(type(array), "strides") else layout_of(array)


def _arrays_in(params: Params) -> list[Any]:
    """Return the arrays among the parameters of an op, which a line stores unchanged."""
    found = []
    for p in params:
        if isinstance(p, TensorBase) or _is_array(p):
            found.append(p.array if isinstance(p, TensorBase) else p)
        elif type(p) in (tuple, list):
            found += _arrays_in(p)
    return found


def _is_array(value: object) -> bool:
    return hasattr(type(value), "strides") and not isinstance(value, np.generic)


def _settled(value: object) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value
