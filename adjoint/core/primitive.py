"""Op and the general recorder: how a primitive is declared and what calling it records.

A primitive is a kernel and the rules of its gradients. A recorder (`unary`, `binary`, `parametric`,
`nary`) turns that declaration into the function one calls: raw values in, raw value out; tensors in,
tensor out, with a node behind it when a gradient can flow. `general` is the same thing in its plain,
complete form, and runs whenever something unusual is on; the recorders are its fast special cases.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from .._typing import Tensor
from ..devices.contract import by_class
from ..devices.cpu.attached import override
from ..devices.overrides import Overrides
from ..errors import describe, place
from ..scalar.symbol import Symbol
from . import device, modes
from .anomaly import Trail, has_nan
from .dtypes import default, dtype, floating, of_number
from .nodes import (
    Cotangents,
    MultipleNode,
    Node,
    attach_outputs,
    differentiable,
    extra_of,
    pack,
    refuse_inference,
    registry,
    show_saved,
    wrap,
)
from .overrides import has_handler, overridden, plain
from .payload import Payload, grad_at, inside, payload_of, top_payload
from .promotion import holds_numpy, promote_all, promote_some, python_scalars
from .tensor import (
    STALE,
    InferenceStorage,
    TensorBase,
    View,
    caller,
    ours,
    tick,
)
from .views import edge_of, note_view, shares, unrecorded_view

ndarray, asarray = np.ndarray, np.asarray
getframe = sys._getframe

# Late bindings, set once by the rooms below: a gradient is brought to its input's shape and dtype with
# primitives that live in ops.
sum_to: Callable[[Any, tuple[int, ...]], Any] = None  # type: ignore[assignment]
cast: Callable[[Any, Any], Any] = None  # type: ignore[assignment]
into: Callable[[Any, Any], Any] = None  # type: ignore[assignment]  # puts a result into ``out=``

by_ufunc: dict[Any, Callable[..., Any]] = {}


# What torch calls that which rules keep, where an op does not say otherwise.
_SAVED_NAMES = {
    "x": "self", "y": "other", "out": "result", "axis": "dim", "axes": "dim", "axis1": "dim1", "axis2": "dim2",
    "keepdims": "keepdim", "x_shape": "self_sym_sizes",
}  # fmt: skip


class Op:
    """A primitive: its kernel, the names of its inputs, and one rule per differentiable input."""

    __slots__ = (
        "batch",
        "call",
        "derived",
        "direct",
        "explain",
        "finishes",
        "flat",
        "floating",
        "frees",
        "hidden",
        "holomorphic",
        "inputs",
        "into",
        "joint",
        "jvp",
        "keeps",
        "keeps_outputs",
        "kept_for",
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
        "shows",
        "spans",
        "split",
        "sums",
        "title",
        "unfold",
        "variants",
        "view",
        "wants_undefined",
        "whole",
        "written",
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
        keeps_outputs: tuple[int, ...] | None = None,
        into: Callable[..., None] | None = None,
        written: str | None = None,
        flat: bool = False,
        hidden: tuple[str, ...] = (),
    ) -> None:
        # `into` is how an in-place form writes less than everything: it is called with the same
        # arguments as the kernel and changes the first.
        self.into = into
        self.name, self.inputs, self.params = name, inputs, params
        if sequence is None:  # the op of n inputs calls the kernel of the sequence
            kernel = override.kernel(name, kernel, _CPU)
        # With hidden results, `whole` returns a tuple of the value and these, which rules may name and programs do not
        # see; where a transform computed the value, rules find None. `kernel` returns the value alone.
        self.hidden, self.whole, self.kernel = hidden, kernel, _first_of(kernel) if hidden else kernel
        self.jvp, self.batch = jvp, batch
        self.promotes, self.floating, self.view, self.outputs = promotes, floating, view, outputs
        self.explain: Callable[..., Exception | None] | None = None
        self.unfold: Callable[[Node], None] | None = None  # how a node becomes those that torch has
        self.split: Callable[[Node], None] | None = None  # the same, where the first of those is none of this op
        self.kept_for: dict[int, int] = {}  # of one rule for all inputs: by input, whose gradient alone it is kept for
        self.finishes: tuple[int, ...] | None = None  # the order in which gradients of leaves are done; None: as inputs
        unknown = set(rules) - set(inputs)
        if unknown:
            raise TypeError(f"{name}: rules for {sorted(unknown)}, but the inputs are {inputs}")
        self.joint, self.rules = joint, tuple(joint or rules.get(i) for i in inputs)
        self._attach(override, _CPU)
        self._number_environment()
        # Whether it keeps values of inputs or outputs: a backward pass frees those, and cannot be repeated then.
        self.frees = any(i <= len(inputs) for kept in self.keeps for i in kept)
        # Which inputs programs see in `next_functions`, where some can never have a gradient; None: all.
        self.shows = None if all(self.rules) else tuple([i for i, rule in enumerate(self.rules) if rule])
        self.title = node_name or _node_name(name)
        # Whether it is made of straight lines: its gradient does not change with its input, and in a recorded pass has
        # the derivative zero rather than none.
        self.flat = flat
        self.written: Any = written  # the title of its nodes where it writes in place, if it is another; then the op
        self._follow_rules()
        self.wants_undefined = False
        self.holomorphic = holomorphic
        self.variants = _Variants(self)
        self.keeps_outputs = keeps_outputs  # of several outputs, those that `out` means in a rule; None: all
        self.sums: bool = False  # whether rules add up many products: on the host, half precision does that in single
        self.node: Any = type(
            self.title, (MultipleNode if outputs else Node,), {"__slots__": (), "__module__": "adjoint"}
        )
        self.saved_names = {**_SAVED_NAMES, **(saved or {})}
        show_saved(self)
        self.call: Callable[..., Any] = self.call_general
        self.sequence = sequence
        if sequence is None:
            registry[name] = self

    def _follow_rules(self) -> None:
        """Make `run`, what the engine calls, of the rules."""
        self.run = _run_joint(self) if self.joint else _run_for(self.rules, self.keeps)
        # The one rule of an op of one input, where it keeps one value or none: the engine calls it without `run`.
        lone = len(self.inputs) == 1 and not self.outputs and not self.joint and len(self.keeps[0]) < 2
        self.direct = self.rules[0] if lone else None
        if self.outputs:
            self.run = _run_several(self.run)

    def _attach(self, table: Overrides, classes: tuple[type, ...]) -> bool:
        """Let a device's kernels stand in for rules on its arrays; return whether it has any."""
        before, arrays = self.rules, (*self.inputs, "out", *self.hidden)

        def attached(gradient: str, rule: Any) -> Any:
            saved = tuple([n for n in _names_after_g(rule) if n != "needs"]) if rule else ()
            return rule and table.rule(self.name, gradient, rule, classes, saved, arrays)

        if self.joint:
            self.joint = attached("joint", self.joint)
            self.rules = (self.joint,) * len(self.inputs)
        else:
            self.rules = tuple([attached(name, rule) for name, rule in zip(self.inputs, before, strict=True)])
        return any(a is not b for a, b in zip(before, self.rules, strict=True))

    def overridden(self, table: Overrides, classes: tuple[type, ...]) -> Op:
        """Return the op with a device's own kernels for its value and gradients."""
        made = copy.copy(self)
        if self.sequence is None:
            made.whole = table.kernel(self.name, self.whole, classes)
            made.kernel = _first_of(made.whole) if self.hidden else made.whole
        if made._attach(table, classes):
            made._follow_rules()
        return made

    def _number_environment(self) -> None:
        # What a rule may keep, in one order for every op: inputs, output, parameters, then shapes and
        # dtypes of inputs that some rule names (`x_shape`), computed only then.
        names = [*self.inputs, "out", *self.hidden, *self.params]
        rules = (self.joint,) if self.joint else self.rules
        wanted = [[n for n in _names_after_g(r) if n != "needs"] if r else [] for r in rules]
        spans: dict[str, list[str]] = {
            "xs": list(self.inputs),
            "xs_from_1": list(self.inputs[1:]),
            "xs_from_2": list(self.inputs[2:]),
            "xs_shape": [f"{i}_shape" for i in self.inputs],
        }
        places = {n: i for i, n in reversed(list(enumerate(names)))}  # of thousands of inputs, a list is slow to search
        flat = [[n for w in ws for n in ([w] if w in places else spans.get(w, [w]))] for ws in wanted]
        derived = sorted({n for w in flat for n in w if n not in places}, key=_by_number)
        self.derived = tuple((places[n.rpartition("_")[0]], n.rpartition("_")[2]) for n in derived)
        places.update({n: len(names) + i for i, n in enumerate(derived)})
        self.keeps = tuple(tuple(places[n] for n in w) for w in flat)
        self.pickers = tuple(_picker(k) for k in self.keeps)
        self.spans = tuple(len(spans[w]) if w in spans and w not in names else 0 for w in wanted[0]) if rules else ()

    def variant(self, result: Any) -> Op:
        """Return the op to record for a result: on complex values and on a GPU its rules run differently.

        A rule states the derivative. On complex values torch's gradient is the conjugate of what the
        chain rule gives, so there a holomorphic op's rules run between two conjugations.
        """
        if self.holomorphic and result.dtype.kind == "c":
            return self.variants[_COMPLEX]
        if type(result) is not ndarray:
            return self.variants[type(result)]
        return self.variants[_HALF] if self.sums and result.dtype.itemsize == 2 else self

    def form_for(self, values: Sequence[Any]) -> Op:
        """Return the op whose kernel computes these values: a device's own, where an array is one of it."""
        if self.kernel is self.variants.op.kernel:
            for v in values:
                if type(v) is not ndarray and type(v) in by_class:
                    return self.variants[type(v)]
        return self

    def is_overridden(self, *args: Any) -> bool:
        """Return whether the device of the first argument, an array, has a kernel of its own for a call."""
        found = by_class.get(type(args[0]))
        return found is not None and found.override.applies(self.name, *args)

    def kernel_for(self, values: Sequence[Any]) -> Callable[..., Any]:
        """Return the kernel that computes these values."""
        return self.form_for(values).kernel

    def in_place(self) -> Op:
        """Return the op to record where it writes into its first input: the nodes of a few have another name then."""
        if isinstance(self.written, str):
            twin = copy.copy(self)
            twin.title, twin.written, twin.variants = self.written, None, _Variants(twin)
            twin.node = type(twin.title, (Node,), {"__slots__": (), "__module__": "adjoint"})
            show_saved(twin)
            self.written = twin
        return self.written or self

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


class _Variants(dict[Any, Op]):
    """The forms of an op for other values than NumPy's arrays of real numbers, each made when it is first needed.

    Keys are `_COMPLEX`, `_HALF`, and the classes of a device's arrays: that one computes the values and gradients of
    its arrays by kernels of its own, where it has some for the op.
    """

    __slots__ = ("op",)

    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def __missing__(self, key: Any) -> Op:
        op, changes = self.op, {}
        if key is _COMPLEX:
            changes = {"run": _run_conjugated(op.run), "direct": None}
        elif key is _HALF:
            changes = {"run": _run_in_single(op.run), "direct": None}
        elif (found := by_class.get(key)) is not None and key is not ndarray:
            saved = tuple(tuple(_names_after_g(rule)) if rule else () for rule in op.rules)
            changes = found.elementwise(op, saved, fit_all)
            if not changes:
                return self.setdefault(key, op.overridden(found.override, found.classes))
        else:
            return op  # of a class that may become a device's yet
        made = op
        if changes:
            made = copy.copy(op)
            for name, value in changes.items():
                setattr(made, name, value)
        return self.setdefault(key, made)


_COMPLEX, _HALF = "complex", "half"  # of results
_CPU = (ndarray,)


def _first_of(whole: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel that returns the value alone."""

    def kernel(*args: Any) -> Any:
        return whole(*args)[0]

    kernel.__dict__.update(getattr(whole, "__dict__", {}))
    kernel.__wrapped__ = whole  # type: ignore[attr-defined]
    kernel.__name__ = getattr(whole, "__name__", "kernel")
    return kernel


class Primitive(Protocol):
    """What a recorder returns: rules call it with arrays, but checkers see what public functions make of it."""

    op: Op

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Compute, and record where a gradient can flow."""
        ...


def _names_after_g(rule: Callable[..., Any]) -> list[str]:
    return parameters_of(rule)[1:]


def parameters_of(function: Any) -> list[str]:
    """Return the names of a function's parameters (read off its code: `inspect` costs 20 µs an op)."""
    if hasattr(function, "parameters"):  # of a row-wise statement
        return list(function.parameters)
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
    if len(rules) == 2 and None not in rules and (all(counts) or not any(counts)):
        return _run_two(*rules, *counts)
    if sum(rule is not None for rule in rules) == 1:
        return _run_lone(rules, counts)
    nothing = (None,) * len(rules)

    def run(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        results = [
            None
            if edge is None or rule is None
            else rule(g)
            if count == 0
            else rule(g, kept)
            if count == 1
            else rule(g, *kept)
            for edge, rule, kept, count in zip(edges, rules, nothing if saved is None else saved, counts, strict=True)
        ]
        return results if self.targets is None else fit_all(results, self.targets)

    return run


def _run_joint(op: Op) -> Callable[..., Any]:
    rule, spans, single = op.joint, op.spans, len(op.keeps[0]) == 1
    assert rule is not None
    asks, spanned = "needs" in parameters_of(rule), any(spans)
    everything = (True,) * len(op.inputs)
    first = spans[0] if spanned and not any(spans[1:]) else 0  # as for `cat`: a sequence, then single values

    def run(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        kept = () if saved is None else saved if single else saved[0]
        if first:
            kept = (kept[:first], *kept[first:])
        elif spanned:
            kept = _gather(kept, spans)
        if all(edges):
            results = rule(g, *kept, needs=everything) if asks else rule(g, *kept)
        else:
            if asks:
                results = rule(g, *kept, needs=tuple([e is not None for e in edges]))
            else:
                results = [None if e is None else r for e, r in zip(edges, rule(g, *kept), strict=True)]
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


def _run_in_single(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Node.run` for half-precision arrays: BLAS knows none, so rules see and give them in single."""

    def run_in_single(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        if type(g) is not ndarray:
            return run(self, g, edges, saved)
        results = run(self, _in_single(g), edges, _in_single(saved))
        return [r if r is None else r.astype(g.dtype) for r in results]

    return run_in_single


def _in_single(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(_in_single(v) for v in value)
    if type(value) is ndarray and value.dtype.itemsize == 2 and differentiable(value.dtype):
        return value.astype(np.float32)
    return value


def _run_one(rule: Any, count: int) -> Callable[..., Any]:
    if rule is None:
        return lambda self, g, edges, saved: (None,)
    if count == 0:
        return lambda self, g, edges, saved: (rule(g),)
    if count == 1:
        return lambda self, g, edges, saved: (rule(g, saved[0]),)
    return lambda self, g, edges, saved: (rule(g, *saved[0]),)


def _run_lone(rules: tuple[Any, ...], counts: tuple[int, ...]) -> Callable[..., Any]:
    """Return `Node.run` where only one of several inputs has a rule."""
    at = next(i for i, rule in enumerate(rules) if rule is not None)
    rule, count, before, after = rules[at], counts[at], (None,) * at, (None,) * (len(rules) - at - 1)

    def run(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        if edges[at] is None:
            return (None,) * len(rules)
        result = rule(g) if count == 0 else rule(g, saved[at]) if count == 1 else rule(g, *saved[at])
        results = (*before, result, *after)
        return results if self.targets is None else fit_all(results, self.targets)

    return run


def _run_two(rule_x: Any, rule_y: Any, count_x: int, count_y: int) -> Callable[..., Any]:
    """Return `Node.run` of two inputs whose rules both keep something, or both nothing."""

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

    def run_more(self: Node, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        ex, ey = edges
        kx, ky = saved
        gx = None if ex is None else rule_x(g, kx) if count_x == 1 else rule_x(g, *kx)
        gy = None if ey is None else rule_y(g, ky) if count_y == 1 else rule_y(g, *ky)
        return (gx, gy) if self.targets is None else fit_all((gx, gy), self.targets)

    return run_bare if not count_x else run_kept if count_x == 1 == count_y else run_more


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


def _run_several(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, g, edges, saved: run(node, node.gradients(g), edges, saved)


# --- Recording: the general form -------------------------------------------------------------------


def general(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive with every unusual thing taken into account."""
    for v in inputs:
        if type(v) is Symbol:  # a formula is being printed, whatever else is on
            return op.kernel(*inputs, *params)
    if params and holds_numpy(params):
        params = python_scalars(params)
    if modes.unusual:
        if modes.local.observer is not None:
            return modes.local.observer.call(op, inputs, params, unobserved)
        if modes.unusual == 1 and modes.local.autocast is not None:
            return _lowered(op, modes.local.autocast(op, inputs), params)
    try:
        return unobserved(op, inputs, params)
    except (TypeError, AttributeError) as error:
        if not modes.local.subclasses_off and has_handler(inputs):
            return overridden(op, inputs, params)
        refuse_strangers(op, inputs, error)
        raise


def _lowered(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive on inputs that autocast has seen; as nothing else is unusual, by its recorder."""
    modes.note_unusual(-1)
    try:
        return op.call(*inputs, *params)
    finally:  # by a store: see modes.py
        modes.unusual += 1
        modes.note_unusual(0)


def unobserved(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive past any observer."""
    if not modes.unusual and not any(isinstance(v, TensorBase) for v in inputs):
        if type(inputs[0]) in NUMBERS and all(type(v) in NUMBERS for v in inputs):
            return _of_numbers(op, inputs, params)
        top = top_payload(inputs)
        if top is not None and top.level:
            return escaped(op, inputs, params, top)
        if inputs and _is_stranger(inputs[0]):  # NumPy would take a list
            raise _no_tensor(op.name, inputs[0])
        return _run_raw(op, inputs, params)
    if modes.unusual and modes.local.autocast is not None:
        inputs = modes.local.autocast(op, inputs)
    if inputs and not hasattr(inputs[0], "shape") and not any(isinstance(v, TensorBase) for v in inputs):
        if _is_stranger(inputs[0]):
            raise _no_tensor(op.name, inputs[0])
        if not inside.levels and len(inputs) == 1:
            return _of_numbers(op, inputs, params)
    top = None
    bare = True
    for v in inputs:
        if type(v) is not ndarray:
            if isinstance(v, TensorBase):
                bare, v = False, v.array
            if isinstance(v, Payload) and (top is None or v.level > top.level):
                top = v
    if not inside.levels:
        return _at_level(op, inputs, params, top) if top is None or not top.level else escaped(op, inputs, params, top)
    if bare:
        return _run_raw(op, inputs, params) if top is None else _on_payloads(op, inputs, params, top)
    if (wanted := grad_at(0 if top is None else top.level)) is not modes.local.grad:
        modes.set_grad(wanted)
        try:
            return _at_level(op, inputs, params, top)
        finally:  # by stores: see modes.py
            modes.off[modes.local.key], modes.local.grad = None, not wanted
            if not wanted:
                modes.off.pop(modes.local.key, None)
    return _at_level(op, inputs, params, top)


def escaped(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], top: Payload) -> Any:
    """Call a primitive on a value of a transform that is over: what it holds, or an error."""
    freed = tuple([_outside(v, op) for v in inputs])
    if any(isinstance(payload_of(v), type(top)) for v in freed):
        return _at_level(op, inputs, params, top)
    return op.call(*freed, *params)


def _outside(value: Any, op: Op) -> Any:
    payload = payload_of(value)
    while payload is not None and payload.level:
        below = payload.outside(op.name)
        value = below if isinstance(below, TensorBase) or not isinstance(value, TensorBase) else wrap(below)
        if below is payload:
            break
        payload = payload_of(value)
    return value


NUMBERS = frozenset((int, float, complex, bool))
_PLACES = ("input", "other")


def _is_stranger(value: Any) -> bool:
    """Return whether a value is nothing that a kernel computes with: no array, tensor or number."""
    return type(value) not in NUMBERS and not hasattr(value, "shape") and not isinstance(value, int | float | complex)


def refuse_strangers(op: Op, inputs: tuple[Any, ...], error: Exception | None = None) -> None:
    """Raise TypeError for the first input that is no array, tensor or number, unless `error` has named one."""
    if isinstance(error, TypeError) and "not " in str(error) and "not support" not in str(error):
        return
    for at, value in enumerate(inputs):
        if _is_stranger(value):
            raise _no_tensor(op.name, value, at) from error


def _no_tensor(name: str, value: Any, at: int = 0) -> TypeError:
    word = _PLACES[at] if at < len(_PLACES) else f"tensor{at}"
    found = "torch.dtype" if isinstance(value, dtype) else type(value).__name__
    return TypeError(
        f"{name.removesuffix('_all')}(): argument '{word}' (position {at + 1}) must be Tensor, not {found}; "
        "convert it with adjoint.tensor(...)"
    )


_TAKES_NUMBERS = frozenset(("add", "sub", "mul", "div", "div_floor"))


def _of_numbers(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive on nothing but Python's numbers: the four operations take them, in a program alone."""
    first = inputs[0]
    if op.name not in _TAKES_NUMBERS:
        raise _no_tensor(op.name, first)
    return op.call(wrap(np.asarray(first, of_number(first).np)), *inputs[1:], *params)


def _at_level(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], top: Payload | None) -> Any:
    """Call a primitive at the level of `top`, in the grad mode of that level."""
    level = 0 if top is None else top.level
    values, mine = _values_at(inputs, level)
    if mine is None:
        return overridden(op, inputs, params)
    if top is not None and top.whole:
        c = type(top).apply(op, level, inputs, params)
        params = (*(None,) * len(op.hidden), *params)
        return _record_outputs(op, inputs, mine, values, params, c) if any(mine) else c
    if op.promotes:
        values = promote_all(values) if op.promotes is True else promote_some(values, op.promotes or ())
    if op.floating:
        values = tuple([as_floating(v) for v in values])
    hidden: Sequence[Any] = (None,) * len(op.hidden)
    try:
        if top is not None:
            c = type(top).apply(op, level, values, params)
        elif hidden:
            c, *hidden = op.form_for(values).whole(*values, *params)
        else:
            c = op.kernel_for(values)(*values, *params)
    except RuntimeWarning:
        if top is not None:
            raise
        c = quietly(op.kernel, *values, *params)
    except Exception as error:
        if top is not None:
            raise explained(op, error, (*inputs, *params)) from error.__cause__
        c = recovered(op, error, (*inputs, *params), values, params)
    if modes.unusual and modes.local.anomaly_forward and top is None:
        refuse_new_nan(op.name, values, c)
    if not any(mine):
        return c
    return _record_outputs(op, inputs, mine, values, (*hidden, *params), c)


def _on_payloads(op: Op, values: tuple[Any, ...], params: tuple[Any, ...], top: Payload) -> Any:
    """Call a primitive on bare payloads, as rules inside a transform do: nothing is recorded at their level."""
    if op.promotes:
        values = promote_all(values) if op.promotes is True else promote_some(values, op.promotes or ())
    if op.floating:
        values = tuple([as_floating(v) for v in values])
    try:
        return type(top).apply(op, top.level, values, params)
    except RuntimeWarning:
        raise
    except Exception as error:
        raise explained(op, error, (*values, *params)) from error.__cause__


def _run_raw(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive on plain values, as rules do: NumPy promotes, and its 0-d scalars keep their dtype."""
    try:
        return op.kernel_for(inputs)(*inputs, *params)
    except RuntimeWarning:
        return unchecked(op.kernel, *inputs, *params)
    except Exception as error:
        raise explained(op, error, (*inputs, *params)) from error.__cause__


def refuse_new_nan(name: str, inputs: Sequence[Any], c: Any) -> None:
    """Raise if an op made a NaN out of inputs that have none."""
    results = c if isinstance(c, tuple) else (c,)
    if not any(map(has_nan, results)) or any(map(has_nan, inputs)):
        return
    shown_inputs = ", ".join(describe(v) for v in inputs)
    code, lasti = caller()
    raise RuntimeError(
        f"Function '{name}' returned nan values in its forward: {name}({shown_inputs}) made a NaN out of inputs "
        f"that have none, at {place(code, lasti)}. It was found by anomaly detection; detect_anomaly(forward=False) "
        "checks gradients only."
    )


def _values_at(inputs: tuple[Any, ...], level: int) -> tuple[tuple[Any, ...], tuple[bool, ...] | None]:
    """Return what the kernel sees of each input, and which inputs are tensors of this level.

    None instead of the latter means that an input's class must be asked before anything is computed.
    """
    values, mine = [], []
    for value in inputs:
        if isinstance(value, TensorBase):
            if type(value) not in plain and not modes.local.subclasses_off:
                return (), None
            if level and value.node is STALE:  # a view inside a transform, whose base was written
                edge_of(value)
            array = value.array
            own = (array.level if isinstance(array, Payload) else 0) == level
            # What is of a lower level and has no history there is no more than its value.
            values.append(array if own or value.node is None else value)
            mine.append(own)
        else:
            values.append(value)
            mine.append(False)
    return tuple(values), tuple(mine)


def _record_outputs(op: Op, inputs: tuple[Any, ...], mine: tuple[bool, ...], values: Any, params: Any, c: Any) -> Any:
    owned = inputs if all(mine) else tuple([x if own else None for x, own in zip(inputs, mine, strict=True)])
    edges: tuple[Any, ...] = (None,) * len(owned)  # nobody asks for them, nor for the history of a stale view
    if modes.is_grad_enabled() and not modes.local.inference:
        edges = tuple([edge_of(x) if x is not None and r else None for x, r in zip(owned, op.rules, strict=True)])
    recording = any(e is not None for e in edges)
    if op.outputs:
        return _record_several(op, owned, edges, recording, values, params, c)
    out = _outcome(op, owned, params, c, _kind(View.NORMAL))
    if recording and differentiable(out.array.dtype):
        out.node = build_node(op, edges, owned, values, params, out.array)
    return out


def _record_several(
    op: Op, owned: Any, edges: Any, recording: bool, values: Any, params: Any, c: Sequence[Any]
) -> tuple[Any, ...]:
    kind = _kind(View.MULTIPLE)
    outs = tuple([_outcome(op, owned, (*params, i), array, kind) for i, array in enumerate(c)])
    if recording:
        arrays = tuple([o.array for o in outs])
        node = build_node(op, edges, owned, values, params, arrays)
        node.metas = tuple([(a.shape, a.dtype) for a in arrays])
        attach_outputs(node, outs)
    return outs


def _kind(usual: int) -> int:
    """Return the kind of a view made in the current mode."""
    if modes.is_grad_enabled():
        return usual
    return View.INFERENCE if modes.unusual and modes.local.inference else View.NO_GRAD


def _outcome(op: Op, owned: tuple[Any, ...], params: Any, c: Any, kind: int) -> Any:
    """Return the tensor of a result, as a view of the first input where the op makes views."""
    out = wrap(c)
    if isinstance(out.array, Payload):
        out.array.note_holder(out)
    if op.view and owned[0] is not None and shares(out.array, owned[0].array):
        note_view(out, owned[0], op, params, kind)
        if kind in (View.NO_GRAD, View.INFERENCE) and owned[0].node is not None and op.rules[0] is not None:
            out.node = unrecorded_view(out)
    elif modes.unusual and modes.local.inference:
        out.memory = InferenceStorage()
        out.memory.ledger = None
    return out


def build_node(op: Op, edges: tuple[Any, ...], owned: Any, values: Any, params: Any, out: Any) -> Any:
    """Return the node of a recorded call, with what its rules keep."""
    n: Any = MultipleNode() if op.outputs else Node()
    first = out[0] if op.outputs else out
    n.op = op.variant(first) if op.holomorphic or type(first) is not ndarray else op
    n.edges, n.stamp, n.extra = edges, tick(), None
    if op.keeps_outputs is not None:
        out = tuple([o if i in op.keeps_outputs else None for i, o in enumerate(out)])
    env = (*values, out, *params, *[getattr(values[i], what) for i, what in op.derived])
    if not any(op.keeps):
        n.saved = None
    elif op.joint:
        n.saved = tuple([pick and pick(env) for pick in op.pickers])
    else:
        n.saved = tuple(
            [None if e is None or pick is None else pick(env) for e, pick in zip(edges, op.pickers, strict=True)]
        )
    if modes.inferred:
        refuse_inference(n, owned)
    n.targets = _targets(op, owned, values, out)
    frame = getframe(2)
    while frame.f_code.co_filename in ours and frame.f_back is not None:
        frame = frame.f_back
    n.code, n.lasti = frame.f_code, frame.f_lasti
    if modes.unusual:
        _note_unusual_node(n, owned)
    return n


def _targets(op: Op, owned: Any, values: Any, out: Any) -> Any:
    if not op.promotes:
        return None
    joined = op.sequence is not None  # inputs of cat and stack do not broadcast
    changed = any(
        x is not None and (v.dtype != x.array.dtype or (v.shape != out.shape and not joined))
        for x, v in zip(owned, values, strict=True)
    )
    return tuple(_target(x) for x in owned) if changed else None


def _note_unusual_node(node: Node, owned: Any) -> None:
    local = modes.local
    if local.anomaly_stack:
        extra_of(node).traceback = Trail.now()
    if local.pack_hooks and node.saved is not None:
        pack(node, *local.pack_hooks[-1], owned)


def as_floating(value: Any) -> Any:
    """Return the value converted to a floating dtype, for ops that make floats of integers."""
    dtype = value.array.dtype if isinstance(value, TensorBase) else getattr(value, "dtype", None)
    if dtype is None:
        return value if isinstance(value, float | complex) else np.asarray(value, default().np)
    wanted = floating(dtype)
    return value if dtype == wanted else cast(value, wanted)


def quietly(kernel: Callable[..., Any], *args: Any) -> Any:
    """Call a kernel that has warned of a NaN or an infinity, which are values like any other."""
    c = unchecked(kernel, *args)
    if modes.local.anomaly_forward:
        op = next((op for op in registry.values() if op.kernel is kernel), kernel)
        refuse_new_nan(getattr(op, "name", getattr(kernel, "__name__", "an op")), args, c)
    return c


def unchecked(kernel: Callable[..., Any], *args: Any) -> Any:
    """Call a kernel or a rule without NumPy's warnings, NaN or not."""
    with np.errstate(all="ignore"):
        return kernel(*args)


def recovered(op: Op, error: Exception, inputs: Any, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Return the result after all, where a 0-d value on the host met arrays on a GPU; else raise."""
    mixed = any(type(v) is ndarray and v.ndim == 0 for v in values) and any(
        hasattr(v, "ndim") and device.module_of(v) is not np for v in values
    )
    if not mixed:
        raise explained(op, error, inputs) from error.__cause__
    return op.kernel_for(values)(*(v[()] if type(v) is ndarray and v.ndim == 0 else v for v in values), *params)


def explained(op: Op, error: Exception, inputs: tuple[Any, ...]) -> Exception:
    """Return the error a user should see for a kernel's exception."""
    from .failures import translate

    top = None if inside.levels else top_payload(inputs)
    if top is not None and top.level:
        top.outside(op.name)  # which may refuse
    return translate(op, error, inputs)


def rescued(op: Op, error: Exception, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Return what an op on a value of a transform that is over gives after all; else raise what a user should see."""
    top = None if inside.levels else top_payload(inputs)
    if top is not None and top.level:
        return escaped(op, inputs, params, top)
    raise explained(op, error, (*inputs, *params)) from error.__cause__
