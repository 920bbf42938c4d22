"""Op: how a primitive is declared, and how its rules run.

A primitive is a kernel and the rules of its gradients. A recorder (`unary`, `binary`, `parametric`,
`nary`; see recorders.py) turns that declaration into the function one calls: raw values in, raw value out;
tensors in, tensor out, with a node behind it when a gradient can flow.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .._typing import Array, DType, Kernel, Shape, Tensor, Value
from ..devices.contract import by_class
from ..devices.cpu.attached import override
from ..devices.overrides import Overrides
from .declaration import Display, Saves, Traits
from .nodes import Cotangents, MultipleNode, Node, differentiable, new_node, node_class, registry
from .saved import saved_properties
from .tensor import TensorBase

ndarray = np.ndarray

# Late bindings, set once by the packages below: a gradient is brought to its input's shape and dtype with
# primitives that live in ops.
sum_to: Callable[[Any, Shape], Any] = None  # type: ignore[assignment]
cast: Callable[[Any, DType], Any] = None  # type: ignore[assignment]
into: Callable[[Any, Any], Any] = None  # type: ignore[assignment]  # puts a result into ``out=``

by_ufunc: dict[Any, Kernel] = {}


# What torch calls that which rules save, where an op does not say otherwise.
_SAVED_NAMES = {
    "x": "self", "y": "other", "out": "result", "axis": "dim", "axes": "dim", "axis1": "dim1", "axis2": "dim2",
    "keepdims": "keepdim", "x_shape": "self_sym_sizes",
}  # fmt: skip


class Op:
    """A primitive: its kernel, the names of its inputs, and one rule per differentiable input.

    The hot path reads attributes of the op itself; `saves`, `display` and `traits` hold all others.
    """

    __slots__ = (
        "batch",  # how it is computed on a batch: "elementwise", "same", or a function
        "call",  # the function that one calls
        "direct",  # the one rule of an op of one input that saves at most one value: the engine calls it without `run`
        "display",
        "frees",  # whether it saves values of inputs or outputs: a backward pass frees those
        "inputs",
        "into",  # how an in-place form writes less than everything: called as the kernel is, it changes the first
        "joint",  # the one rule that returns the gradients of all inputs, if it has one
        "jvp",  # how its tangent is computed: "elementwise", "linear", "bilinear", or a function
        "kernel",
        "name",
        "params",
        "rules",  # by input
        "run",  # what the engine calls
        "saves",
        "sequence",  # of the op of n inputs, that of a sequence of inputs
        "title",  # what nodes are called
        "traits",
        "variants",
        "whole",  # the kernel with its hidden results, a tuple; `kernel` returns the value alone
    )

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        inputs: tuple[str, ...],
        params: tuple[str, ...],
        rules: dict[str, Kernel],
        recorder: Callable[[Op], Kernel],
        *,
        node_name: str | None = None,
        jvp: str | Kernel | None = None,
        batch: str | Kernel | None = None,
        promotes: bool | tuple[int, ...] = False,
        floating: bool = False,
        view: bool | str = False,
        outputs: bool = False,
        holomorphic: bool = False,
        flat: bool = False,
        accumulates: bool = False,
        explain: Callable[..., Exception | None] | None = None,
        joint: Kernel | None = None,
        sequence: Op | None = None,
        hidden: tuple[str, ...] = (),
        saves_outputs: tuple[int, ...] | None = None,
        saves_for: dict[int, int] | None = None,
        into: Callable[..., None] | None = None,
        saved: dict[str, str] | None = None,
        written: str | None = None,
        unfold: Callable[[Node], None] | None = None,
        split: Callable[[Node], None] | None = None,
        finish_order: tuple[int, ...] | None = None,
    ) -> None:
        unknown = set(rules) - set(inputs)
        if unknown:
            raise TypeError(f"{name}: rules for {sorted(unknown)}, but the inputs are {inputs}")
        self.name, self.inputs, self.params = name, inputs, params
        self.into = into and override.kernel(f"{name}_", into, _CPU)
        self.jvp, self.batch, self.sequence = jvp, batch, sequence
        self.title = node_name or "".join(part.capitalize() for part in name.split("_")) + "Backward0"
        self.traits = Traits(promotes, floating, view, outputs, holomorphic, flat, accumulates, False, explain)
        if sequence is None:  # the op of n inputs calls the kernel of the sequence
            kernel = override.kernel(name, kernel, _CPU)
        # Rules may name the hidden results, which programs do not see; where a transform computed the value, they
        # find None.
        self.whole, self.kernel = kernel, _first_of(kernel) if hidden else kernel
        self.joint, self.rules = joint, tuple([joint or rules.get(i) for i in inputs])
        named = [_saved_by(rule) for rule in ((joint,) if joint else self.rules)]
        self.saves = Saves.of_rules(inputs, params, named, hidden, saves_outputs, saves_for)
        self.frees = any(i <= len(inputs) for indexes in self.saves.indexes for i in indexes)
        visible = None if all(self.rules) else tuple([i for i, rule in enumerate(self.rules) if rule])
        names = {**_SAVED_NAMES, **(saved or {})}
        node = node_class(self.title, MultipleNode if outputs else Node, saved_properties(self, names))
        self.display = Display(node, names, visible, written, unfold, split, finish_order)
        self._attach(override, _CPU)
        self._follow_rules()
        self.variants = _Variants(self)
        self.call = recorder(self)
        if sequence is None:
            registry[name] = self

    @property
    def promotes(self) -> bool | tuple[int, ...]:
        """Whether inputs are brought to one dtype: all, or those at these positions."""
        return self.traits.promotes

    @property
    def floating(self) -> bool:
        """Whether integers become floats."""
        return self.traits.floating

    @property
    def view(self) -> bool | str:
        """Whether the result may be a view of the first input."""
        return self.traits.view

    @property
    def outputs(self) -> bool:
        """Whether it has several outputs."""
        return self.traits.outputs

    @property
    def node(self) -> Any:
        """The class that its nodes take when a program looks at them."""
        return self.display.node

    def _follow_rules(self) -> None:
        """Make `run`, what the engine calls, of the rules."""
        indexes, outputs = self.saves.indexes, self.traits.outputs
        self.run = _run_joint(self) if self.joint else _run_for(self.rules, indexes)
        lone = len(self.inputs) == 1 and not outputs and not self.joint and len(indexes[0]) < 2
        self.direct = self.rules[0] if lone else None
        if outputs:
            self.run = _run_several(self.run)

    def _attach(self, table: Overrides, classes: tuple[type, ...]) -> bool:
        """Let a device's kernels stand in for rules on its arrays; return whether it has any."""
        before, arrays = self.rules, (*self.inputs, "out", *self.saves.hidden)

        def attached(gradient: str, rule: Kernel | None) -> Any:
            return rule and table.rule(self.name, gradient, rule, classes, _saved_by(rule), arrays)

        if self.joint:
            self.joint = attached("joint", self.joint)
            self.rules = (self.joint,) * len(self.inputs)
        else:
            self.rules = tuple([attached(name, rule) for name, rule in zip(self.inputs, before, strict=True)])
        return any(a is not b for a, b in zip(before, self.rules, strict=True))

    def changed(self, **changes: object) -> Op:
        """Return an op that differs from this one in some attributes."""
        made = copy.copy(self)
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def renamed(self, title: str, base: type[Node] | None = None) -> Op:
        """Return the op with nodes of another title, of a class derived from `base` if there is one."""
        made = self.changed(title=title)
        shown = {} if base else saved_properties(made, self.display.names)
        made.display = self.display._replace(node=node_class(title, base or Node, shown), written=None)
        made.variants = _Variants(made)
        return made

    def overridden(self, table: Overrides, classes: tuple[type, ...]) -> Op:
        """Return the op with a device's own kernels for its value and gradients."""
        made = copy.copy(self)
        if self.sequence is None:
            made.whole = table.kernel(self.name, self.whole, classes)
            made.kernel = _first_of(made.whole) if self.saves.hidden else made.whole
        made.into = self.into and table.kernel(f"{self.name}_", self.into, classes)
        if made._attach(table, classes):
            made._follow_rules()
        return made

    def variant(self, result: Array) -> Op:
        """Return the op to record for a result: on complex values and on a GPU its rules run differently.

        A rule states the derivative. On complex values torch's gradient is the conjugate of what the
        chain rule gives, so there a holomorphic op's rules run between two conjugations.
        """
        if self.traits.holomorphic and result.dtype.kind == "c":
            return self.variants[_COMPLEX]
        if type(result) is not ndarray:
            return self.variants[type(result)]
        return self.variants[_HALF] if self.traits.accumulates and result.dtype.itemsize == 2 else self

    def form_for(self, values: Sequence[Any]) -> Op:
        """Return the op whose kernel computes these values: a device's own, where an array is one of it."""
        if self.kernel is self.variants.op.kernel:
            for v in values:
                if type(v) is not ndarray and type(v) in by_class:
                    return self.variants[type(v)]
        return self

    def is_overridden(self, *args: object) -> bool:
        """Return whether the device of the first argument, an array, has a kernel of its own for a call."""
        found = by_class.get(type(args[0]))
        return found is not None and found.override.applies(self.name, *args)

    def kernel_for(self, values: Sequence[Any]) -> Kernel:
        """Return the kernel that computes these values."""
        return self.form_for(values).kernel

    def in_place(self) -> Op:
        """Return the op to record for a write into the first input: some nodes have another name then."""
        return self if self.display.written is None else _in_place(self)

    def node_for(self, edge: Node | None, saved: Sequence[Any]) -> Node:
        """Return a node of a one-input op made by hand, with one edge and what its rule saves."""
        node: Node = new_node(self, (edge,), (saved,))
        return node

    def __call__(self, *args: object) -> Any:
        """Call the primitive: raw values in, raw value out; tensors in, tensor out."""
        return self.call(*args)

    def __repr__(self) -> str:
        return f"{self.name}_p({', '.join((*self.inputs, *self.params))})"


@functools.cache
def _in_place(op: Op) -> Op:
    return op.renamed(op.display.written or op.title)


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
            saved = tuple([_saved_by(rule) for rule in op.rules])
            changes = found.elementwise(op, saved, fit_all)
            if not changes:
                return self.setdefault(key, op.overridden(found.override, found.classes))
        else:
            return op  # of a class that may become a device's yet
        return self.setdefault(key, op.changed(**changes))


_COMPLEX, _HALF = "complex", "half"  # of results
_CPU = (ndarray,)


def _first_of(whole: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel that returns the value alone."""

    def kernel(*args: object) -> Any:
        return whole(*args)[0]

    kernel.__dict__.update(getattr(whole, "__dict__", {}))
    kernel.__wrapped__ = whole  # type: ignore[attr-defined]
    kernel.__name__ = getattr(whole, "__name__", "kernel")
    return kernel


class Primitive(Protocol):
    """What a recorder returns: rules call it with arrays, but checkers see what public functions make of it."""

    op: Op

    def __call__(self, *args: object, **kwargs: object) -> Tensor:
        """Compute, and record where a gradient can flow."""
        ...


def _saved_by(rule: Kernel | None) -> tuple[str, ...]:
    """Return the names of what a rule saves: its parameters after the gradient."""
    return tuple([n for n in parameters_of(rule)[1:] if n != "needs"]) if rule else ()


def parameters_of(function: Any) -> list[str]:
    """Return the names of a function's parameters (read off its code: `inspect` costs 20 µs an op)."""
    if hasattr(function, "parameters"):  # of a row-wise statement
        return list(function.parameters)
    while hasattr(function, "__wrapped__") or not hasattr(function, "__code__"):
        function = getattr(function, "__wrapped__", None) or function.func
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _run_for(rules: tuple[Any, ...], indexes: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
    """Return `Node.run` for these rules: the general form, or a shorter one for the common shapes."""
    counts = tuple([len(i) for i in indexes])
    if not any(rules):
        return lambda self, g, edges, saved: (None,) * len(edges)
    if len(rules) == 1:
        return _run_one(rules[0], counts[0])
    if len(rules) == 2 and None not in rules and (all(counts) or not any(counts)):
        return _run_two(*rules, *counts)
    if sum(rule is not None for rule in rules) == 1:
        return _run_lone(rules, counts)
    nothing = (None,) * len(rules)

    def run(self: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> Any:
        results = [
            None
            if edge is None or rule is None
            else rule(g)
            if count == 0
            else rule(g, values)
            if count == 1
            else rule(g, *values)
            for edge, rule, values, count in zip(edges, rules, nothing if saved is None else saved, counts, strict=True)
        ]
        return results if self.targets is None else fit_all(results, self.targets)

    return run


def _run_joint(op: Op) -> Callable[..., Any]:
    rule, spans, single = op.joint, op.saves.spans, len(op.saves.indexes[0]) == 1
    assert rule is not None
    takes_needs, spanned = "needs" in parameters_of(rule), any(spans)
    everything = (True,) * len(op.inputs)
    first = spans[0] if spanned and not any(spans[1:]) else 0  # as for `cat`: a sequence, then single values

    def run(self: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> Any:
        values = () if saved is None else saved if single else saved[0]
        if first:
            values = (values[:first], *values[first:])
        elif spanned:
            values = _gather(values, spans)
        if all(edges):
            results = rule(g, *values, needs=everything) if takes_needs else rule(g, *values)
        else:
            if takes_needs:
                results = rule(g, *values, needs=tuple([e is not None for e in edges]))
            else:
                results = [None if e is None else r for e, r in zip(edges, rule(g, *values), strict=True)]
        return results if self.targets is None else fit_all(results, self.targets)

    return run


def _gather(values: Sequence[Any], spans: tuple[int, ...]) -> list[Any]:
    """Return saved values with those of one sequence grouped as a tuple."""
    gathered: list[Any] = []
    at = 0
    for span in spans:
        gathered.append(tuple(values[at : at + span]) if span else values[at])
        at += span or 1
    return gathered


def _run_conjugated(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_conjugated(self: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> Sequence[Any]:
        if isinstance(g, Cotangents):
            g = Cotangents({i: part.conj() for i, part in g.parts.items()})
        else:
            g = g.conj()
        return [r if r is None else r.conj() for r in run(self, g, edges, saved)]

    return run_conjugated


def _run_in_single(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Node.run` for half-precision arrays: BLAS knows none, so rules see and give them in single."""

    def run_in_single(self: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> Any:
        if type(g) is not ndarray:
            return run(self, g, edges, saved)
        results = run(self, _in_single(g), edges, _in_single(saved))
        return [r if r is None else r.astype(g.dtype) for r in results]

    return run_in_single


def _in_single(value: object) -> object:
    if type(value) is tuple:
        return tuple(_in_single(v) for v in value)
    if type(value) is ndarray and value.dtype.itemsize == 2 and differentiable(value.dtype):
        return value.astype(np.float32)
    return value


def _run_one(rule: Kernel, count: int) -> Callable[..., Any]:
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

    def run(self: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> Any:
        if edges[at] is None:
            return (None,) * len(rules)
        result = rule(g) if count == 0 else rule(g, saved[at]) if count == 1 else rule(g, *saved[at])
        results = (*before, result, *after)
        return results if self.targets is None else fit_all(results, self.targets)

    return run


def _run_two(rule_x: Kernel, rule_y: Kernel, count_x: int, count_y: int) -> Callable[..., Any]:
    """Return `Node.run` of two inputs whose rules both save something, or both nothing."""

    def run_bare(self: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> Sequence[Any]:
        ex, ey = edges
        gx = None if ex is None else rule_x(g)
        gy = None if ey is None else rule_y(g)
        return (gx, gy) if self.targets is None else fit_all((gx, gy), self.targets)

    def run_saved(self: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> Sequence[Any]:
        ex, ey = edges
        kx, ky = saved
        gx = None if ex is None else rule_x(g, kx)
        gy = None if ey is None else rule_y(g, ky)
        return (gx, gy) if self.targets is None else fit_all((gx, gy), self.targets)

    def run_more(self: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> Sequence[Any]:
        ex, ey = edges
        kx, ky = saved
        gx = None if ex is None else rule_x(g, kx) if count_x == 1 else rule_x(g, *kx)
        gy = None if ey is None else rule_y(g, ky) if count_y == 1 else rule_y(g, *ky)
        return (gx, gy) if self.targets is None else fit_all((gx, gy), self.targets)

    return run_bare if not count_x else run_saved if count_x == 1 == count_y else run_more


def fit_all(results: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
    """Undo broadcasting and promotion: bring each gradient to its input's shape and dtype."""
    return [g if g is None or t is None else fit(g, *t) for g, t in zip(results, targets, strict=True)]


def fit(g: Value, shape: tuple[int, ...], dtype: DType) -> Any:
    """Return `g` summed to `shape` and converted to `dtype`."""
    if g.shape != shape:
        g = sum_to(g, shape)
    raw = g.array if isinstance(g, TensorBase) else g
    return g if raw.dtype == dtype else cast(g, dtype)


def _run_several(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, g, edges, saved: run(node, node.gradients(g), edges, saved)
