"""Op, Node, the recorders and the registry: how a primitive is declared and what calling it records.

A primitive is a kernel and the rules of its gradients. A recorder (`unary`, `binary`, `parametric`,
`nary`) turns that declaration into the function one calls: raw values in, raw value out; tensors in,
tensor out, with a node behind it when a gradient can flow. `general` is the same thing in its plain,
complete form, and runs whenever something unusual is on; the recorders are its fast special cases.
"""

from __future__ import annotations

import copy
import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ..errors import FreedGraphError, InPlaceError, describe, place
from ..hooks import RemovableHandle
from . import device, modes
from .dtypes import default, floating
from .overrides import overridden, plain
from .payload import Payload, top_payload
from .promotion import promote_all, promote_some
from .tensor import (
    STALE,
    InferenceStorage,
    Ledger,
    Storage,
    TensorBase,
    View,
    caller,
    ledger_of,
    ours,
    storage_of,
    tick,
    written_ledger,
)

ndarray, asarray = np.ndarray, np.asarray
_SCALARS = (np.generic, float, int, complex)
getframe = sys._getframe

# Late bindings, set once by the rooms below: core makes Tensors without importing their class, and
# brings a gradient to its input's shape and dtype with primitives that live in ops.
tensor_type: type[TensorBase] = TensorBase
make: Callable[[], Any] = TensorBase
sum_to: Callable[[Any, tuple[int, ...]], Any] = None  # type: ignore[assignment]
cast: Callable[[Any, Any], Any] = None  # type: ignore[assignment]
into: Callable[[Any, Any], Any] = None  # type: ignore[assignment]  # puts a result into ``out=``

registry: dict[str, Op] = {}
by_ufunc: dict[Any, Callable[..., Any]] = {}


class Extra:
    """What few nodes have: hooks, metadata, the forward traceback, tensors that retain a gradient."""

    __slots__ = ("hooks", "metadata", "prehooks", "retain", "tensor_hooks", "traceback")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, Callable[..., Any]] | None = None
        self.prehooks: dict[int, Callable[..., Any]] | None = None
        self.hooks: dict[int, Callable[..., Any]] | None = None
        self.metadata: dict[Any, Any] | None = None
        self.retain: weakref.ref[TensorBase] | None = None
        self.traceback: Any = None


class Freed:
    """Left in `node.saved` by the backward pass that released the kept values."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: Any, lasti: int) -> None:
        self.code = code
        self.lasti = lasti


class Packed:
    """Kept values that went through saved-tensor hooks; unpacked when a rule asks for them."""

    __slots__ = ("load", "watched")

    def __init__(self, load: Callable[[], Any], watched: dict[int, Any]) -> None:
        self.load = load
        self.watched = watched  # values whose packed form is still their own memory, by position

    def __iter__(self) -> Any:
        return iter(self.load())

    def __getitem__(self, index: int) -> Any:
        return self.load()[index]


class Node:
    """One recorded op, as its output's ``grad_fn`` shows it.

    Nodes are made as plain `Node`s: with one class for all of them the interpreter's attribute caches
    hold. A node takes its op's own class (`MulBackward0`) when a user first looks at it (`shown`).
    `edges` are the nodes that its gradients go to (None where none is wanted), `saved` what its rules
    kept, `stamp` when it was recorded,
    `targets` the inputs' shape and dtype where broadcasting or promotion changed them, and `code`,
    `lasti` the instruction of the program that recorded it.
    """

    __slots__ = ("__weakref__", "code", "edges", "extra", "lasti", "op", "saved", "stamp", "targets")

    op: Any
    edges: tuple[Any, ...]
    saved: Any
    stamp: int
    targets: Any
    extra: Extra | None
    code: Any
    lasti: int

    def lifted(self) -> Any:
        """Return the kept values as tensors that belong to the graph, for a recorded backward."""
        saved = unpacked(self)
        if saved is None:
            return None
        return tuple(
            None if kept is None else _lift(self, kept, indexes)
            for kept, indexes in zip(saved, self.op.keeps, strict=True)
        )

    def verify(self) -> None:
        """Raise if a kept value was written after it was kept."""
        verify_kept(self, self.saved)

    # --- What users may ask of a node ---

    def name(self) -> str:
        """Return the node's name, as torch gives it."""
        return str(self.op.title)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that gradients go on to, each with the number of the output it is."""
        return tuple((None, 0) if e is None else (shown(e), output_index(e)) for e in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever a program wants to remember about the node."""
        extra = extra_of(self)
        if extra.metadata is None:
            extra.metadata = {}
        return extra.metadata

    @property
    def _sequence_nr(self) -> int:
        return self.stamp

    def _set_sequence_nr(self, number: int) -> None:
        self.stamp = number

    def topological_nr(self) -> int:
        """Return the length of the longest path from here to a leaf."""
        depth: dict[Any, int] = {}
        stack = [self]
        while stack:
            node = stack[-1]
            waiting = [e for e in node.edges if e is not None and e not in depth]
            if waiting:
                stack.extend(waiting)
            else:
                stack.pop()
                depth[node] = 1 + max((depth[e] for e in node.edges if e is not None), default=-1)
        return depth[self]

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node has run; it may replace grad_inputs."""
        extra = extra_of(self)
        if extra.hooks is None:
            extra.hooks = {}
        return RemovableHandle(extra.hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs; it may replace them."""
        extra = extra_of(self)
        if extra.prehooks is None:
            extra.prehooks = {}
        return RemovableHandle(extra.prehooks, fn)

    def __call__(self, *grads: Any) -> Any:
        """Run the node by hand: gradients of its outputs in, gradients of its inputs out."""
        lift = modes.is_grad_enabled()
        values = [g if g is None or lift else g.array for g in grads]
        if isinstance(self, MultipleNode):
            g: Any = Cotangents({i: v for i, v in enumerate(values) if v is not None})
        else:
            (g,) = values
        self.verify()
        saved = self.lifted() if lift else unpacked(self)
        results = tuple(
            r if r is None or isinstance(r, TensorBase) else wrap(r) for r in self.op.run(self, g, self.edges, saved)
        )
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return f"<{self.op.title} object at {id(self):#x}>"


def kept_arrays(node: Node, saved: Any) -> list[tuple[int, Any]]:
    """Return (position, array) of every kept input and output: inputs by position, the output as last."""
    if saved is None or type(saved) is Freed:
        return []
    if type(saved) is Packed:
        return list(saved.watched.items())
    arity = len(node.edges)
    found = []
    for kept, indexes in zip(saved, node.op.keeps, strict=True):
        if kept is not None:
            values = (kept,) if len(indexes) == 1 else kept
            for value, i in zip(values, indexes, strict=True):
                if i <= arity:
                    found += [(i, v) for v in (value if isinstance(value, tuple) else (value,))]
    return found


def verify_kept(node: Node, saved: Any) -> None:
    """Raise if one of the node's kept values was written after the node was recorded."""
    for position, value in kept_arrays(node, saved):
        ledger = written_ledger(value)
        if ledger is not None and ledger.time > node.stamp:
            raise InPlaceError(_overwritten(node, position, ledger))


def unpacked(node: Node) -> Any:
    """Return what the node keeps, or raise if it was freed."""
    saved = node.saved
    if type(saved) is Packed:
        return saved.load()
    if type(saved) is Freed:
        raise freed_error(node, saved)
    return saved


def freed_error(node: Node, freed: Freed) -> FreedGraphError:
    """Return the error for a second pass over a freed node."""
    message = (
        "Trying to backward through the graph a second time (or directly access saved tensors after they "
        "have already been freed). Saved intermediate values of the graph are freed when you call "
        ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
        "graph a second time or if you need to access saved tensors after calling backward."
    )
    first = place(freed.code, freed.lasti)
    recorded = place(node.code, node.lasti)
    detail = f" The node is {node.op.title}"
    if recorded:
        detail += f", recorded at {recorded}"
    if first:
        detail += f"; its kept values were freed by the backward pass started at {first}"
    return FreedGraphError(
        message + detail + ". If a value is carried from one step to the next, detach() it in between."
    )


def _overwritten(node: Node, position: int, ledger: Ledger) -> str:
    names = (*node.op.inputs, "result")
    which = names[position] if position < len(names) else "value"
    kept, wrote = place(node.code, node.lasti), place(ledger.code, ledger.lasti)
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{node.op.title} kept its {'result' if which == 'out' else f'input {which!r}'}"
        f"{f' at {kept}' if kept else ''}, and {ledger.operation or 'an in-place op'} overwrote it"
        f"{f' at {wrote}' if wrote else ''} (it is at version {ledger.version}). Write to a copy "
        "(x.clone()) or use the out-of-place op. Hint: adjoint.autograd.set_detect_anomaly(True) shows "
        "the whole forward traceback."
    )


def _lift(node: Node, kept: Any, indexes: tuple[int, ...]) -> Any:
    if len(indexes) == 1:
        return _lift_one(node, kept, indexes[0])
    return tuple(_lift_one(node, value, i) for value, i in zip(kept, indexes, strict=True))


def _lift_one(node: Node, value: Any, index: int) -> Any:
    """Return a kept value as the tensor it was: an input on its edge, the output on the node itself."""
    edges = node.edges
    if index > len(edges) or isinstance(value, TensorBase):
        return value
    if index == len(edges):
        if not isinstance(value, tuple):
            return wrap(value, node)
        return tuple(wrap(v, output_node(node, i) if differentiable(v.dtype) else None) for i, v in enumerate(value))
    if not hasattr(value, "dtype"):
        return value
    edge = edges[index]
    target = node.targets[index] if edge is not None and node.targets is not None else None
    if target is not None and target[1] != value.dtype:
        edge = registry["cast"].node_for(edge, target[1])
    return wrap(value, edge)


def wrap(array: Any, node: Any = None, storage: Storage | None = None) -> Any:
    """Return a tensor that holds `array`, with the given history and storage."""
    out = make()
    out.array = array if type(array) is ndarray else settle(array)
    out.node = node
    out.memory = storage
    out.lineage = out._grad = None
    return out


def settle(value: Any) -> Any:
    """Return a kernel's result as an array: NumPy gives scalars for 0-d results."""
    return asarray(value) if isinstance(value, _SCALARS) else device.adopt(value)


class Op:
    """A primitive: its kernel, the names of its inputs, and one rule per differentiable input."""

    __slots__ = (
        "batch",
        "call",
        "cuda",
        "derived",
        "direct",
        "explain",
        "floating",
        "gpu_twin",
        "holomorphic",
        "inputs",
        "into",
        "joint",
        "jvp",
        "keeps",
        "kernel",
        "name",
        "node",
        "outputs",
        "params",
        "pickers",
        "promotes",
        "rules",
        "run",
        "saved_names",
        "sequence",
        "spans",
        "title",
        "twin",
        "view",
        "wants_undefined",
    )

    def __init__(
        self,
        name: str,
        kernel: Callable[..., Any],
        inputs: tuple[str, ...],
        params: tuple[str, ...],
        rules: dict[str, Callable[..., Any]],
        *,
        node_name: str | None = None,
        jvp: Any = None,
        batch: Any = None,
        promotes: bool | tuple[int, ...] = False,
        floating: bool = False,
        view: bool | str = False,
        outputs: bool = False,
        saved: dict[str, str] | None = None,
        joint: Callable[..., Any] | None = None,
        sequence: Op | None = None,
        holomorphic: bool = False,
        cuda: dict[str, str] | None = None,
        into: Callable[..., None] | None = None,
    ) -> None:
        # `into` is how an in-place form writes less than everything: it is called with the same
        # arguments as the kernel and changes the first.
        self.into = into
        self.name, self.kernel, self.inputs, self.params = name, kernel, inputs, params
        self.jvp, self.batch = jvp, batch
        self.promotes, self.floating, self.view, self.outputs = promotes, floating, view, outputs
        self.explain: Callable[..., Exception | None] | None = None
        unknown = set(rules) - set(inputs)
        if unknown:
            raise TypeError(f"{name}: rules for {sorted(unknown)}, but the inputs are {inputs}")
        self.joint = joint
        self.rules = tuple(joint or rules.get(i) for i in inputs)
        self._number_environment()
        self.title = node_name or _node_name(name)
        self.run = _run_joint(self) if joint else _run_for(self.rules, self.keeps)
        # The one rule of an op of one input, where it keeps one value: the engine calls it without `run`.
        self.direct = self.rules[0] if self.keeps and [len(k) for k in self.keeps] == [1] and not joint else None
        if outputs or len(inputs) != 1:
            self.direct = None
        if outputs:
            self.run = _run_several(self.run)
        self.wants_undefined = False
        self.holomorphic = holomorphic
        self.twin: Op | None = None
        self.cuda = cuda
        self.gpu_twin: Op | None = None
        self.node: Any = type(
            self.title, (MultipleNode if outputs else Node,), {"__slots__": (), "__module__": "adjoint"}
        )
        self.saved_names = {"x": "self", "y": "other", "out": "result", **(saved or {})}
        _show_saved(self)
        self.call: Callable[..., Any] = self.call_general
        self.sequence = sequence
        if sequence is None:
            registry[name] = self

    def _number_environment(self) -> None:
        # What a rule may keep, in one order for every op: inputs, output, parameters, then shapes and
        # dtypes of inputs that some rule names (`x_shape`), computed only then.
        names = [*self.inputs, "out", *self.params]
        rules = (self.joint,) if self.joint else self.rules
        wanted = [[n for n in _names_after_g(r) if n != "needs"] if r else [] for r in rules]
        spans: dict[str, list[str]] = {
            "xs": list(self.inputs),
            "xs_from_1": list(self.inputs[1:]),
            "xs_from_2": list(self.inputs[2:]),
            "xs_shape": [f"{i}_shape" for i in self.inputs],
        }
        flat = [[n for w in ws for n in ([w] if w in names else spans.get(w, [w]))] for ws in wanted]
        derived = sorted({n for w in flat for n in w if n not in names}, key=_by_number)
        names += derived
        self.derived = tuple((self.inputs.index(n.rpartition("_")[0]), n.rpartition("_")[2]) for n in derived)
        self.keeps = tuple(tuple(names.index(n) for n in w) for w in flat)
        self.pickers = tuple(_picker(k) for k in self.keeps)
        self.spans = tuple(len(spans[w]) if w in spans and w not in names else 0 for w in wanted[0]) if rules else ()

    def variant(self, result: Any) -> Op:
        """Return the op to record for a result: on complex values and on a GPU its rules run differently.

        A rule states the derivative. On complex values torch's gradient is the conjugate of what the
        chain rule gives, so there a holomorphic op's rules run between two conjugations. On a GPU an op
        that gives its rules in C too (`cuda`) runs them in one launch.
        """
        if self.holomorphic and result.dtype.kind == "c":
            if self.twin is None:
                self.twin = copy.copy(self)
                self.twin.run, self.twin.direct = _run_conjugated(self.run), None
            return self.twin
        if self.cuda and type(result) is not ndarray and not isinstance(result, Payload):
            if self.gpu_twin is None:
                names = tuple(tuple(_names_after_g(r)) for r in self.rules if r)
                self.gpu_twin = copy.copy(self)
                self.gpu_twin.direct = None
                self.gpu_twin.run = device.fused_run(self.run, names, tuple(self.cuda.values()))
            return self.gpu_twin
        return self

    def node_for(self, edge: Any, kept: Any) -> Node:
        """Return a node of a one-input op made by hand, with one edge and what its rule keeps."""
        node = Node()
        node.op = self
        node.edges, node.saved = (edge,), (kept,)
        node.stamp, node.targets, node.extra = tick(), None, None
        node.code, node.lasti = None, 0
        return node

    def call_general(self, *args: Any) -> Any:
        """Call the primitive through the general recorder."""
        arity = len(self.inputs)
        return general(self, args[:arity], args[arity:])

    def __call__(self, *args: Any) -> Any:
        """Call the primitive: raw values in, raw value out; tensors in, tensor out."""
        return self.call(*args)

    def __repr__(self) -> str:
        return f"{self.name}_p({', '.join((*self.inputs, *self.params))})"


def _names_after_g(rule: Callable[..., Any]) -> list[str]:
    return parameters_of(rule)[1:]


def parameters_of(function: Any) -> list[str]:
    """Return the names of a function's parameters (read off its code: `inspect` costs 20 µs an op)."""
    while hasattr(function, "__wrapped__") or not hasattr(function, "__code__"):
        function = getattr(function, "__wrapped__", None) or function.func
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _by_number(name: str) -> tuple[int, str]:
    digits = "".join(c for c in name if c.isdigit())
    return (int(digits) if digits else 0, name)


def _node_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_")) + "Backward0"


def _picker(indexes: tuple[int, ...]) -> Callable[[Any], Any] | None:
    return itemgetter(*indexes) if indexes else None


def _run_for(rules: tuple[Any, ...], keeps: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
    """Return `Node.run` for these rules: the general form, or a shorter one for the common shapes."""
    counts = tuple(len(k) for k in keeps)
    if not any(rules):
        return lambda self, g, edges, saved: (None,) * len(edges)
    if len(rules) == 1:
        return _run_one(rules[0], counts[0])
    if len(rules) == 2 and None not in rules and counts in ((0, 0), (1, 1)):
        return _run_two(*rules, counts[0])

    def run(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        results = [
            None
            if edge is None or rule is None
            else rule(g)
            if count == 0
            else rule(g, kept)
            if count == 1
            else rule(g, *kept)
            for edge, rule, kept, count in zip(edges, rules, saved, counts, strict=True)
        ]
        return results if self.targets is None else fit_all(results, self.targets)

    return run


def _run_joint(op: Op) -> Callable[..., Any]:
    rule, spans, single = op.joint, op.spans, len(op.keeps[0]) == 1
    assert rule is not None
    asks = "needs" in parameters_of(rule)

    def run(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        kept = () if saved is None else saved if single else saved[0]
        if any(spans):
            kept = _gather(kept, spans)
        if asks:
            results = rule(g, *kept, needs=tuple(e is not None for e in edges))
        else:
            results = rule(g, *kept)
        results = [None if e is None else r for e, r in zip(edges, results, strict=True)]
        return results if self.targets is None else fit_all(results, self.targets)

    return run


def _gather(kept: Sequence[Any], spans: tuple[int, ...]) -> list[Any]:
    """Return kept values with those of one sequence put together again."""
    gathered: list[Any] = []
    at = 0
    for span in spans:
        gathered.append(tuple(kept[at : at + span]) if span else kept[at])
        at += span or 1
    return gathered


def _run_conjugated(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_conjugated(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        if isinstance(g, Cotangents):
            g = Cotangents({i: part.conj() for i, part in g.parts.items()})
        else:
            g = g.conj()
        return [r if r is None else r.conj() for r in run(self, g, edges, saved)]

    return run_conjugated


def _run_one(rule: Any, count: int) -> Callable[..., Any]:
    if rule is None:
        return lambda self, g, edges, saved: (None,)
    if count == 0:
        return lambda self, g, edges, saved: (rule(g),)
    if count == 1:
        return lambda self, g, edges, saved: (rule(g, saved[0]),)
    return lambda self, g, edges, saved: (rule(g, *saved[0]),)


def _run_two(rule_x: Any, rule_y: Any, count: int) -> Callable[..., Any]:
    def run_bare(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        ex, ey = edges
        gx = None if ex is None else rule_x(g)
        gy = None if ey is None else rule_y(g)
        return (gx, gy) if self.targets is None else fit_all((gx, gy), self.targets)

    def run_kept(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        ex, ey = edges
        kx, ky = saved
        gx = None if ex is None else rule_x(g, kx)
        gy = None if ey is None else rule_y(g, ky)
        return (gx, gy) if self.targets is None else fit_all((gx, gy), self.targets)

    return run_kept if count else run_bare


def fit_all(results: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
    """Undo broadcasting and promotion: bring each gradient to its input's shape and dtype."""
    return [g if g is None or t is None else fit(g, *t) for g, t in zip(results, targets, strict=True)]


def fit(g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return `g` summed to `shape` and converted to `dtype`."""
    if g.shape != shape:
        g = sum_to(g, shape)
    raw = g.array if isinstance(g, TensorBase) else g
    return g if raw.dtype == dtype else cast(g, dtype)


def _target(value: Any) -> Any:
    if not isinstance(value, TensorBase):
        return None
    return value.array.shape, value.array.dtype


def _show_saved(op: Op) -> None:
    """Give the op's node class an attribute `_saved_NAME` for each value that its rules may keep."""
    names = [*op.inputs, "out", *op.params, *(f"{op.inputs[i]}_{what}" for i, what in op.derived)]
    for index in sorted({i for kept in op.keeps for i in kept}):
        title = op.saved_names.get(names[index], names[index])
        setattr(op.node, f"_saved_{title}", property(functools.partial(_saved_value, index=index)))
        if index <= len(op.inputs):
            setattr(op.node, f"_raw_saved_{title}", property(functools.partial(_raw_saved, index=index)))


def _saved_value(node: Node, index: int) -> Any:
    saved = unpacked(node)
    for kept, indexes in zip(saved, node.op.keeps, strict=True):
        if kept is not None and index in indexes:
            value = kept if len(indexes) == 1 else kept[indexes.index(index)]
            return _lift_one(node, value, index)
    return None


class RawSaved:
    """One kept value of a node, on which pack and unpack hooks can be registered."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node, self.index = node, index

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Store what `pack_hook` makes of the value, and let `unpack_hook` restore it."""
        if type(self.node.saved) is Freed:
            raise freed_error(self.node, self.node.saved)
        if type(self.node.saved) is Packed:
            raise RuntimeError("Setting hooks on a saved tensor more than once is not allowed")
        pack(self.node, pack_hook, unpack_hook, only=self.index)


def _raw_saved(node: Node, index: int) -> RawSaved:
    unpacked(node)
    return RawSaved(node, index)


class Special:
    """Stands in `node.op` of a node that no primitive recorded: a leaf, one output of several, a write."""

    __slots__ = (
        "derived",
        "direct",
        "inputs",
        "joint",
        "keeps",
        "name",
        "node",
        "run",
        "saved_names",
        "title",
        "wants_undefined",
    )

    def __init__(self, title: str, run: Callable[..., Any], wants_undefined: bool = False) -> None:
        self.name = self.title = title
        self.run, self.wants_undefined, self.direct = run, wants_undefined, None
        self.inputs: tuple[str, ...] = ()
        self.keeps: tuple[tuple[int, ...], ...] = ()
        self.derived: tuple[Any, ...] = ()
        self.joint = None
        self.node: Any = None
        self.saved_names: dict[str, str] = {}


class Output(Node):
    """One output of a node that has several: hands its gradient on to its place in that node."""

    __slots__ = ("index",)

    index: int

    def lifted(self) -> Any:
        """Return None: it keeps nothing."""
        return None


def _run_output(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    return (Cotangents({node.index: g}),)


_output = Special("Output", _run_output)


class Cotangents:
    """The gradients that have reached a node of several outputs, by output."""

    __slots__ = ("parts",)

    size = 0  # the engine adds in place only what is large

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: Cotangents) -> Cotangents:
        parts = dict(self.parts)
        for i, g in other.parts.items():
            parts[i] = parts[i] + g if i in parts else g
        return Cotangents(parts)


class MultipleNode(Node):
    """A node of several outputs; `metas` has the shape, dtype and array module of each."""

    __slots__ = ("metas",)

    metas: tuple[Any, ...]

    def gradients(self, g: Cotangents | None) -> list[Any]:
        """Return one gradient per output, None where none arrived."""
        parts = {} if g is None else g.parts
        return [parts.get(i) for i in range(len(self.metas))]


def _run_several(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, g, edges, saved: run(node, node.gradients(g), edges, saved)


def output_node(parent: Node, index: int) -> Output:
    """Return the node of one output of `parent`."""
    node = Output()
    node.op = _output
    node.edges, node.saved, node.targets, node.extra = (parent,), None, None, None
    node.code, node.lasti = parent.code, parent.lasti
    node.stamp, node.index = tick(), index
    return node


# --- Recording: the general form -------------------------------------------------------------------


def general(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive with every unusual thing taken into account."""
    if not modes.unusual and not any(isinstance(v, TensorBase) for v in inputs):
        return _run_raw(op, inputs, params)
    top = top_payload(inputs) if modes.unusual else None
    level = 0 if top is None else top.level
    values, mine = _values_at(inputs, level)
    if mine is None:
        return overridden(op, inputs, params)
    if op.promotes:
        values = promote_all(values) if op.promotes is True else promote_some(values, op.promotes or ())
    if op.floating:
        values = tuple(as_floating(v) for v in values)
    try:
        c = op.kernel(*values, *params) if top is None else type(top).apply(op, level, values, params)
    except RuntimeWarning:
        if top is not None:
            raise
        c = quietly(op.kernel, *values, *params)
    except Exception as error:
        if top is not None:
            raise explained(op, error, (*inputs, *params)) from error.__cause__
        c = recovered(op, error, (*inputs, *params), values, params)
    if modes.unusual and modes.local.anomaly_forward and top is None:
        _refuse_new_nan(op, values, c, inputs)
    if not any(mine):
        return c
    return _record_outputs(op, inputs, mine, values, params, c)


def _run_raw(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive on plain values, as rules do: NumPy promotes, and its 0-d scalars keep their dtype."""
    try:
        return op.kernel(*inputs, *params)
    except RuntimeWarning:
        return quietly(op.kernel, *inputs, *params)
    except Exception as error:
        raise explained(op, error, (*inputs, *params)) from error.__cause__


def _refuse_new_nan(op: Op, values: tuple[Any, ...], c: Any, inputs: tuple[Any, ...]) -> None:
    """Raise if an op made a NaN out of inputs that have none."""
    results = c if op.outputs else (c,)
    if not any(_has_nan(r) for r in results) or any(_has_nan(v) for v in values):
        return
    shown_inputs = ", ".join(describe(v) for v in inputs)
    code, lasti = caller()
    raise RuntimeError(
        f"Function '{op.name}' returned nan values in its forward: {op.name}({shown_inputs}) made a NaN out of inputs "
        f"that have none, at {place(code, lasti)}. It was found by anomaly detection; detect_anomaly(forward=False) "
        "checks gradients only."
    )


def _has_nan(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and dtype.kind in "fc" and bool(np.isnan(value).any())


def _values_at(inputs: tuple[Any, ...], level: int) -> tuple[tuple[Any, ...], tuple[bool, ...] | None]:
    """Return what the kernel sees of each input, and which inputs are tensors of this level.

    None instead of the latter means that an input's class must be asked before anything is computed.
    """
    values, mine = [], []
    for value in inputs:
        if isinstance(value, TensorBase):
            if type(value) not in plain and not modes.local.subclasses_off:
                return (), None
            array = value.array
            own = (array.level if isinstance(array, Payload) else 0) == level
            values.append(array if own else value)
            mine.append(own)
        else:
            values.append(value)
            mine.append(False)
    return tuple(values), tuple(mine)


def _record_outputs(op: Op, inputs: tuple[Any, ...], mine: tuple[bool, ...], values: Any, params: Any, c: Any) -> Any:
    owned = tuple(x if own else None for x, own in zip(inputs, mine, strict=True))
    edges = tuple(edge_of(x) if x is not None and r else None for x, r in zip(owned, op.rules, strict=True))
    recording = any(e is not None for e in edges) and modes.is_grad_enabled()
    if op.outputs:
        return _record_several(op, owned, edges, recording, values, params, c)
    out = _outcome(op, owned, params, c, View.NORMAL if modes.is_grad_enabled() else View.NO_GRAD)
    if recording and differentiable(out.array.dtype):
        out.node = build_node(op, edges, owned, values, params, out.array)
    return out


def _record_several(
    op: Op, owned: Any, edges: Any, recording: bool, values: Any, params: Any, c: Sequence[Any]
) -> tuple[Any, ...]:
    outs = tuple(_outcome(op, owned, (*params, i), array, View.MULTIPLE) for i, array in enumerate(c))
    if recording:
        arrays = tuple(o.array for o in outs)
        node = build_node(op, edges, owned, values, params, arrays)
        node.metas = tuple((a.shape, a.dtype) for a in arrays)
        for i, out in enumerate(outs):
            if differentiable(out.array.dtype):
                out.node = output_node(node, i)
    return outs


def _outcome(op: Op, owned: tuple[Any, ...], params: Any, c: Any, kind: int) -> Any:
    """Return the tensor of a result, as a view of the first input where the op makes views."""
    out = wrap(c)
    if op.view and owned[0] is not None and shares(out.array, owned[0].array):
        note_view(out, owned[0], op, params, kind)
    elif modes.unusual and modes.local.inference:
        out.memory = InferenceStorage()
        out.memory.ledger = None
    return out


def build_node(op: Op, edges: tuple[Any, ...], owned: Any, values: Any, params: Any, out: Any) -> Any:
    """Return the node of a recorded call, with what its rules keep."""
    n: Any = MultipleNode() if op.outputs else Node()
    n.op = op.variant(out[0] if op.outputs else out) if op.holomorphic or op.cuda else op
    n.edges, n.stamp, n.extra = edges, tick(), None
    env = (*values, out, *params, *(_derive(values[i], what) for i, what in op.derived))
    if not any(op.keeps):
        n.saved = None
    elif op.joint:
        n.saved = tuple(pick and pick(env) for pick in op.pickers)
    else:
        n.saved = tuple(
            None if e is None or pick is None else pick(env) for e, pick in zip(edges, op.pickers, strict=True)
        )
    if modes.inferred:
        refuse_inference(n, owned)
    n.targets = _targets(op, owned, values, out)
    frame = getframe(2)
    while frame.f_code.co_filename in ours and frame.f_back is not None:
        frame = frame.f_back
    n.code, n.lasti = frame.f_code, frame.f_lasti
    if modes.unusual:
        _note_unusual_node(n)
    return n


def refuse_inference(node: Node, inputs: Sequence[Any]) -> None:
    """Raise if the node keeps one of its inputs that was made in inference mode."""
    for position, _ in kept_arrays(node, node.saved):
        if position < len(inputs) and isinstance(inputs[position], TensorBase):
            if type(inputs[position].memory) is InferenceStorage:
                raise RuntimeError(
                    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
                    "mode in computation tracked by autograd. To work around this, you can make a clone to get normal "
                    "tensor and use it in autograd, or use `adjoint.no_grad()` instead of `adjoint.inference_mode()`."
                )


def _derive(value: Any, what: str) -> Any:
    return getattr(value, what)


def _targets(op: Op, owned: Any, values: Any, out: Any) -> Any:
    if not op.promotes:
        return None
    changed = any(
        x is not None and (v.shape != out.shape or v.dtype != x.array.dtype) for x, v in zip(owned, values, strict=True)
    )
    return tuple(_target(x) for x in owned) if changed else None


def _note_unusual_node(node: Node) -> None:
    local = modes.local
    if local.anomaly:
        extra_of(node).traceback = capture_traceback()
    if local.pack_hooks and node.saved is not None:
        pack(node, *local.pack_hooks[-1])
    if node.saved is not None and local.pack_refusal is not None:
        raise RuntimeError(local.pack_refusal)


def capture_traceback() -> Any:
    """Return the stack of the program at this moment, without adjoint's own frames."""
    import traceback

    frame = getframe(1)
    while frame.f_code.co_filename in ours and frame.f_back is not None:
        frame = frame.f_back
    return traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)


def pack(
    node: Node, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any], only: int | None = None
) -> None:
    """Pass every kept tensor through `pack_hook` now and `unpack_hook` when it is needed."""
    packed: dict[int, Any] = {}
    watched: dict[int, Any] = {}
    arity, keeps = len(node.edges), node.op.keeps  # `load` must not hold the node, which holds it

    def store(value: Any, index: int) -> Any:
        if index > arity or not hasattr(value, "dtype") or (only is not None and index != only):
            return value
        if index not in packed:
            with Hookless():
                packed[index] = result = pack_hook(wrap(value))
            if isinstance(result, TensorBase) and result.array is value:
                watched[index] = value
        return index

    saved = tuple(
        None if kept is None else _map_kept(kept, indexes, store)
        for kept, indexes in zip(node.saved, keeps, strict=True)
    )

    def load() -> Any:
        values: dict[int, Any] = {}

        def fetch(value: Any, index: int) -> Any:
            if index not in packed:
                return value
            if index not in values:
                tensor = unpack_hook(packed[index])
                if not isinstance(tensor, TensorBase):
                    raise TypeError(
                        "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                        f"{type(tensor).__name__}"
                    )
                values[index] = tensor.array
            return values[index]

        return tuple(
            None if kept is None else _map_kept(kept, indexes, fetch)
            for kept, indexes in zip(saved, keeps, strict=True)
        )

    node.saved = Packed(load, watched)


def _map_kept(kept: Any, indexes: tuple[int, ...], function: Callable[[Any, int], Any]) -> Any:
    if len(indexes) == 1:
        return function(kept, indexes[0])
    return tuple(function(v, i) for v, i in zip(kept, indexes, strict=True))


class Hookless:
    """A context without saved-tensor hooks and without recording, in which the hooks themselves run."""

    __slots__ = ("grad", "hooks")

    def __enter__(self) -> None:
        self.hooks, self.grad = modes.local.pack_hooks, modes.local.grad
        modes.local.pack_hooks = ()
        modes.set_grad(False)

    def __exit__(self, *error: object) -> None:
        modes.local.pack_hooks = self.hooks
        modes.set_grad(self.grad)


def extra_of(node: Node) -> Extra:
    """Return the node's extra, made if it has none."""
    if node.extra is None:
        node.extra = Extra()
    return node.extra


def differentiable(dtype: Any) -> bool:
    """Return whether values of a NumPy dtype can carry a gradient."""
    return dtype.kind in "fc" or dtype.name == "bfloat16"


def as_floating(value: Any) -> Any:
    """Return the value converted to a floating dtype, for ops that make floats of integers."""
    dtype = value.array.dtype if isinstance(value, TensorBase) else getattr(value, "dtype", None)
    if dtype is None:
        return value if isinstance(value, float | complex) else np.asarray(value, default().np)
    wanted = floating(dtype)
    return value if dtype == wanted else cast(value, wanted)


def quietly(kernel: Callable[..., Any], *args: Any) -> Any:
    """Call a kernel that has warned of a NaN or an infinity, which are values like any other."""
    with np.errstate(all="ignore"):
        return kernel(*args)


def recovered(op: Op, error: Exception, inputs: Any, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Return the result after all, where a 0-d value on the host met arrays on a GPU; else raise."""
    mixed = any(type(v) is ndarray and v.ndim == 0 for v in values) and any(
        hasattr(v, "ndim") and device.module_of(v) is not np for v in values
    )
    if not mixed:
        raise explained(op, error, inputs) from error.__cause__
    return op.kernel(*(v[()] if type(v) is ndarray and v.ndim == 0 else v for v in values), *params)


def explained(op: Op, error: Exception, inputs: tuple[Any, ...]) -> Exception:
    """Return the error a user should see for a kernel's exception."""
    from .failures import translate

    return translate(op, error, inputs)


# --- Edges and views -------------------------------------------------------------------------------


def edge_of(x: TensorBase) -> Any:
    """Return the node that the tensor's gradient goes to, rebuilt first if a write made it stale."""
    node = x.node
    return refresh(x) if node is STALE else node


def refresh(x: TensorBase) -> Any:
    """Rebuild the history of a view from its base, whose history an in-place write has changed."""
    view = x.lineage
    assert view is not None
    if view.kind in (View.NO_GRAD, View.MULTIPLE, View.CUSTOM):
        raise RuntimeError(refused_view(x, "and its base or another view of its base has been modified inplace"))
    was = modes.local.grad
    modes.set_grad(True)
    try:
        fresh: Any = view.base
        for op, params in view.replay:
            fresh = op.call(fresh, *params)
    finally:
        modes.set_grad(was)
    x.node = fresh.node
    ledger_of(storage_of(x)).fresh.append(weakref.ref(x))
    return x.node


def refused_view(x: TensorBase, what: str) -> str:
    """Return the sentence that refuses a write to, or through, a view of this kind."""
    view = x.lineage
    assert view is not None
    node = x.node
    made_by = (
        "A view" if not isinstance(node, Node) else f"Output {output_index(node)} of {shown(node).name()} is a view"
    )
    if view.kind == View.MULTIPLE:
        return (
            f"{made_by if made_by != 'A view' else 'Output 0 of a function is a view'} {what}. This view is the "
            "output of a function that returns multiple views. Such functions do not allow the output views "
            "to be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    if view.kind == View.NO_GRAD:
        return (
            f"A view was created in no_grad mode {what} with grad mode enabled. Given that this use case is "
            "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view "
            "and the inplace either both inside the no_grad block (if you don't want the inplace to be "
            "tracked) or both outside (if you want the inplace to be tracked)."
        )
    if view.kind == View.INFERENCE:
        return (
            f"A view was created in inference mode {what} in normal mode. Make the view outside "
            "inference_mode, or clone it first."
        )
    return (
        f"{made_by} {what}. This view was created inside a custom Function (or because an input was returned "
        "as-is) and the autograd logic to handle view+inplace would override the custom backward associated "
        "with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix "
        "this by cloning the output of the custom Function."
    )


def shown(node: Any) -> Any:
    """Return the node as users see it: of its op's class; for one output of several, the whole node."""
    if type(node) is Output:
        node = node.edges[0]
    if type(node) is Node or type(node) is MultipleNode:
        node.__class__ = node.op.node
    return node


def output_index(node: Any) -> int:
    """Return which output of the node that users see this is."""
    return node.index if type(node) is Output else 0


def shares(a: Any, b: Any) -> bool:
    """Return whether `a`, just made from `b` by a viewing kernel, looks at its memory."""
    if type(a) is not ndarray:
        return True
    base = a.base
    # Memory that was just allocated lies apart from every array's.
    return a is b or (base is not None and (base is b or base is b.base or bool(np.may_share_memory(a, b))))


_new: Callable[..., Any] = object.__new__


def note_view(out: TensorBase, x: TensorBase, op: Op, params: tuple[Any, ...], kind: int) -> None:
    """Make `out` a view of `x`: shared storage, the way to replay it, a place in the ledger."""
    source = x.lineage
    out.lineage = view = _new(View)  # without __init__: every view passes here
    if source is None:
        view.base, view.replay, view.kind = x, ((op, params),), kind
    else:
        view.base, view.replay = source.base, (*source.replay, (op, params))
        view.kind = kind if kind > source.kind else source.kind
    out.memory = storage = x.memory or storage_of(x)
    ledger = storage.ledger or ledger_of(storage)
    fresh = ledger.fresh
    if len(fresh) > ledger.limit:
        ledger.fresh = fresh = [r for r in fresh if r() is not None]
        ledger.limit = 64 + 2 * len(fresh)  # so that many living views are not gone through again and again
    fresh.append(weakref.ref(out))
