"""The graph's nodes: what one recorded op saves, and the attributes that programs may read."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._typing import DType, Op, Tensor, Value
from ..errors import InPlaceError
from . import device, modes
from .anomaly import Trail, recording
from .declaration import Display, Saves, Traits
from .dtypes import of
from .handles import RemovableHandle
from .observation import literal
from .shown import TRIMMED
from .size import Size
from .tensor import Storage, TensorBase, tick, written_ledger

ndarray, asarray = np.ndarray, np.asarray
_f32, _f64 = np.dtype(np.float32), np.dtype(np.float64)
getframe = sys._getframe

# Late bindings, set once by the packages below: core makes Tensors without importing their class.
_SCALARS = (np.generic, float, int, complex)


tensor_type: type[TensorBase] = TensorBase


make: Callable[[], Any] = TensorBase


registry: dict[str, Any] = {}


class Form(NamedTuple):
    """The form of an output: what a gradient of it must look like."""

    shape: Any
    dtype: Any
    device: Any
    is_tensor_subclass: bool = False
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False

    @classmethod
    def of(cls, x: TensorBase) -> Form:
        """Return the form of a tensor."""
        return cls(Size(x.array.shape), of(x.array.dtype), device.of(x.array), type(x) is not tensor_type)


# By node, what shows the output of a function of several ops here as that of one node, as torch has it (folding.py).
folds: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

# Forms by node, of outputs whose `grad_fn` a program has looked at: no other node needs to remember them.
_forms: weakref.WeakKeyDictionary[Any, Form] = weakref.WeakKeyDictionary()


def note_form(node: Any, x: TensorBase) -> None:
    """Store the form of the output of `node`."""
    _forms[node] = Form.of(x)


def tensor_hooks_of(node: Any) -> dict[int, Callable[..., Any]]:
    """Return the hooks of the tensor that `node` is the place of; those of one of several outputs run at the whole."""
    extra = extra_of(node)
    if extra.tensor_hooks is None:
        extra.tensor_hooks = {}
        if type(node) is Output:
            whole = extra_of(node.edges[0])
            whole.outputs = [*(whole.outputs or ()), (node.index, extra)]
    return extra.tensor_hooks


def form_of(node: Node) -> Form | None:
    """Return the form of the output that `node` is the place of, if it is known."""
    return node.form if hasattr(node, "form") else _forms.get(node)


class Extra:
    """Fields that only some nodes have: hooks, metadata, the forward traceback, tensors that retain a gradient.

    `grad_dtype` is set at leaves whose gradients have another dtype than they: ``(dtype,)``, or ``(None,)`` for any.
    """

    __slots__ = (
        "detached",
        "grad_dtype",
        "hooks",
        "metadata",
        "outputs",
        "prehooks",
        "retain",
        "shadow",
        "tensor_hooks",
        "traceback",
    )

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, Callable[..., Any]] | None = None
        self.prehooks: dict[int, Callable[..., Any]] | None = None
        self.hooks: dict[int, Callable[..., Any]] | None = None
        self.metadata: dict[Any, Any] | None = None
        self.retain: weakref.ref[TensorBase] | None = None
        self.traceback: Any = None
        self.grad_dtype: tuple[Any] | None = None
        self.detached = False  # whether its tensor has forgotten it, by `detach_`
        self.shadow: Node | None = None  # of an unfolded node, the one it was
        self.outputs: list[tuple[int, Extra]] | None = None  # of those with hooks, in the order they were given one

    @property
    def hooked(self) -> bool:
        """Whether functions of the program's run when the node does."""
        return bool(self.tensor_hooks or self.prehooks or self.hooks or self.outputs)


class Freed:
    """Left in `node.saved` by the backward pass that released the saved values."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: Any, lasti: int) -> None:
        self.code = code
        self.lasti = lasti


class Packed:
    """Saved values that went through saved-tensor hooks; unpacked when a rule reads them."""

    __slots__ = ("entries", "indexes", "saved", "watched")

    def __init__(self, saved: Sequence[Any], indexes: Sequence[Any]) -> None:
        self.saved, self.indexes = saved, indexes
        self.entries: dict[int, tuple[Any, Callable[[Any], Any]]] = {}  # packed form and unpack hook, by position
        self.watched: dict[int, Any] = {}  # values whose packed form is still their own memory, by position

    def load(self) -> Any:
        """Return what the node saved, with the results of unpack hooks in their places."""
        values: dict[int, Any] = {}

        def fetch(value: object, index: int) -> Any:
            if index not in self.entries:
                return value
            if index not in values:
                packed, unpack_hook = self.entries[index]
                values[index] = checked_unpacked(unpack_hook(packed.tensor() if type(packed) is Own else packed)).array
            return values[index]

        return self.mapped(fetch)

    def mapped(self, function: Callable[[Any, int], Any]) -> tuple[Any, ...]:
        """Return what the node saved, each value exchanged for what ``function(value, position)`` returns."""
        return tuple([
            None if of_rule is None else _map_saved(of_rule, indexes, function)
            for of_rule, indexes in zip(self.saved, self.indexes, strict=True)
        ])  # fmt: skip

    def __iter__(self) -> Iterator[Any]:
        return iter(self.load())

    def __getitem__(self, index: int) -> Any:
        return self.load()[index]


def _map_saved(of_rule: Any, indexes: tuple[int, ...], function: Callable[[Any, int], Any]) -> Any:
    if len(indexes) == 1:
        return function(of_rule, indexes[0])
    return tuple(function(v, i) for v, i in zip(of_rule, indexes, strict=True))


class Own:
    """An output that its own node saves, as a hook has packed it: whole. It is made again, for there to be no cycle."""

    __slots__ = ("array", "index", "memory", "node")

    def __init__(self, tensor: TensorBase, node: Node, index: int | None = None) -> None:
        self.array, self.memory = tensor.array, tensor.memory
        self.node, self.index = weakref.ref(node), index

    def tensor(self) -> Tensor:
        """Return the output as a tensor of the graph."""
        node: Any = self.node()
        if node is not None and self.index is not None:
            node = output_node(node, self.index)
        return wrap(self.array, node, self.memory)


def checked_unpacked(tensor: object) -> TensorBase:
    """Return what an unpack hook has returned, which must be a tensor."""
    if not isinstance(tensor, TensorBase):
        raise TypeError(
            f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(tensor).__name__}"
        )
    return tensor


passes: dict[Any, None] = {}  # one entry for each backward pass that runs, in any thread
_NAMED_IN_FULL = frozenset(("AccumulateGrad", "CopySlices", "CopyBackwards"))


class Node:
    """One recorded op, as its output's ``grad_fn`` shows it.

    Nodes are made as plain `Node`s: with one class for all of them the interpreter's attribute caches
    hold. A node takes its op's own class (`MulBackward0`) when a user first looks at it (`shown`).
    `edges` are the nodes that its gradients go to (None where none is wanted), `saved` what its rules
    saved, `stamp` when it was recorded,
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

    def lifted(self) -> tuple[Any, ...] | None:
        """Return the saved values as tensors that belong to the graph, for a recorded backward."""
        saved = self.saved
        if saved is None:
            return None
        if type(saved) is not tuple:
            saved = unpacked(self)
        owners = (*self.edges, self) if self.targets is None else ()
        known = len(owners)
        tensors: list[Any] = []
        for of_rule, indexes in zip(saved, self.op.saves.indexes):
            if type(of_rule) is ndarray and indexes[0] < known:  # as nearly always
                tensors.append(wrap(of_rule, owners[indexes[0]]))
            elif of_rule is None or len(indexes) == 1:
                tensors.append(None if of_rule is None else lift_one(self, of_rule, indexes[0]))
            else:
                tensors.append(
                    tuple([
                        wrap(v, owners[i]) if type(v) is ndarray and i < known else lift_one(self, v, i)
                        for v, i in zip(of_rule, indexes)
                    ])
                )  # fmt: skip
        return tuple(tensors)

    def verify(self) -> None:
        """Raise if a saved value was written after it was saved."""
        verify_saved(self, self.saved)

    # --- What users may read of a node ---

    def name(self) -> str:
        """Return the node's name, as torch gives it: of those written by hand there, with their namespace."""
        title = str(self.op.title)
        return f"torch::autograd::{title}" if title in _NAMED_IN_FULL else title

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that gradients go on to, each with the number of the output it is."""
        self.unfold()
        edges = self.seen(self.edges or ())  # a custom function may read them before it has any
        return tuple((None, 0) if e is None or type(e) is Hidden else (shown(e), output_index(e)) for e in edges)

    def unfold(self) -> None:
        """Become the nodes that torch has, where one op here does the work of several: for code that walks the graph.

        Not while a pass runs, which has counted on the nodes as they are.
        """
        if self.op.display.unfold is not None and not passes:
            self.op.display.unfold(self)

    def seen(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return, of something for each input, what programs see: inputs that can have a gradient."""
        shows = self.visible()
        return values if shows is None else [values[i] for i in shows]

    def visible(self) -> Sequence[int] | None:
        """Return which inputs programs see; None: all."""
        shows = self.op.display.visible
        if self.op.name not in TRIMMED and self.op.title not in TRIMMED:
            return shows  # type: ignore[no-any-return]
        positions = range(len(self.edges)) if shows is None else shows
        return [i for i in positions if i == 0 or self.edges[i] is not None]

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the program's own data about the node."""
        extra = extra_of(self)
        if extra.metadata is None:
            extra.metadata = {}
            if (trail := trail_of(self)) is not None:
                extra.metadata["traceback_"] = trail.format()
                if (parent := recording.parent(self.stamp)) is not None:
                    extra.metadata["parent_"] = shown(parent)
        return extra.metadata

    @property
    def _input_metadata(self) -> list[Any]:
        return [form_of(self)]

    def _sequence_nr(self) -> int:
        return int(self.stamp)

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
        self.unfold()
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
        count = len(self.metas) if isinstance(self, MultipleNode) else 1
        if len(grads) != count:
            raise TypeError(f"expected {count} arguments, got {len(grads)} instead")
        for i, given in enumerate(grads):
            if given is not None and not isinstance(given, TensorBase):
                raise TypeError(f"argument {i} is not a Variable")
        values = [g if g is None or lift else g.array for g in grads]
        if isinstance(self, MultipleNode):
            g: Any = Cotangents({i: v for i, v in enumerate(values) if v is not None})
        else:
            (g,) = values
        self.verify()
        saved = self.lifted() if lift else unpacked(self)
        results = tuple(
            r if r is None or isinstance(r, TensorBase) else wrap(r)
            for r in self.seen(self.op.run(self, g, self.edges, saved))
        )
        return results[0] if len(results) == 1 else results

    @property
    def requires_grad(self) -> bool:
        """True: a tensor that needs no gradient has no node."""
        return True

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"cannot pickle '{self.op.title}' object: a graph stays where it was recorded")

    def __repr__(self) -> str:
        return f"<{self.op.title} object at {id(self):#x}>"


def as_recorded(node: Node) -> Node:
    """Return the node that an unfolded one was."""
    extra = getattr(node, "extra", None)  # one that is being recorded has none yet
    return node if extra is None or extra.shadow is None else extra.shadow


def saved_arrays(node: Node, saved: Any) -> list[tuple[int, Any]]:
    """Return (position, array) of every saved input and output: inputs by position, the output as last."""
    if saved is None or type(saved) is Freed:
        return []
    if type(saved) is Packed:
        return list(saved.watched.items())
    node = as_recorded(node)
    if not node.op.saves.indexes:  # no primitive: a custom or a compiled function
        return []
    arity = len(node.edges)
    found = []
    for of_rule, indexes in zip(saved, node.op.saves.indexes, strict=True):
        if of_rule is not None:
            values = (of_rule,) if len(indexes) == 1 else of_rule
            for value, i in zip(values, indexes, strict=True):
                if i <= arity:
                    found += [(i, v) for v in (value if isinstance(value, tuple) else (value,)) if v is not None]
    return found


def verify_saved(node: Node, saved: Sequence[Any], only: int = -1) -> None:
    """Raise if a saved value of the node, or only that at `only`, was written after the node was recorded."""
    node = as_recorded(node)
    for position, value in saved_arrays(node, saved):
        if only not in (-1, position):
            continue
        ledger = written_ledger(value)
        if ledger is not None and ledger.time > node.stamp:
            from .failures import overwritten

            raise overwritten(node, position, ledger)
        edge = node.edges[position] if position < len(node.edges) else None
        if edge is not None and edge.extra is not None and edge.extra.detached:
            raise InPlaceError(
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
                f"supported, please use out-of-place `.detach()` instead: {node.op.title} saved its input {position}"
            )


def unpacked(node: Node) -> Any:
    """Return what the node saves, or raise if it was freed."""
    saved = node.saved
    if type(saved) is Packed:
        return saved.load()
    if type(saved) is Freed:
        from .failures import freed_error

        raise freed_error(node, saved)
    return saved


def lift_one(node: Node, value: object, index: int) -> Any:
    """Return a saved value as the tensor it was: an input on its edge, the output on the node itself."""
    edges = node.edges
    if type(value) is ndarray and node.targets is None and index < len(edges):  # as nearly always
        return wrap(value, edges[index])
    if index > len(edges) or isinstance(value, TensorBase):
        return value
    if index == len(edges):
        if not isinstance(value, tuple):
            return wrap(value, node)
        return tuple(
            None if v is None else wrap(v, output_node(node, i) if differentiable(v.dtype) else None)
            for i, v in enumerate(value)
        )
    if not hasattr(value, "dtype"):
        return value
    if isinstance(value, np.generic):  # a scalar operand beside an array of a GPU
        value = literal(asarray(value))
    edge = edges[index]
    target = node.targets[index] if edge is not None and node.targets is not None else None
    if target is not None and target[1] != value.dtype:
        edge = registry["cast"].node_for(edge, target[1])
    return wrap(value, edge)


# How a value of some class becomes a tensor, where it belongs to tensors of a class of their own.
dressers: dict[type, Callable[..., Any]] = {}


def wrap(array: object, node: Node | None = None, storage: Storage | None = None) -> Tensor:
    """Return a tensor that holds `array`, with the given history and storage."""
    if type(array) is not ndarray:
        array = settle(array)
        if type(array) in dressers:
            return dressers[type(array)](array, node, storage)  # type: ignore[no-any-return]
    out: Tensor = make()
    out.array = array
    out.node = node
    out.memory = storage
    out.lineage = out._grad = None
    return out


def settle(value: Any) -> Any:
    """Return a kernel's result as an array: NumPy gives scalars for 0-d results."""
    return asarray(value) if isinstance(value, _SCALARS) else device.adopt(value)


class Special:
    """Stands in `node.op` of a node that no primitive recorded: a leaf, one output of several, a write."""

    __slots__ = ("direct", "display", "frees", "inputs", "name", "params", "run", "saves", "title", "traits")

    def __init__(
        self,
        title: str,
        run: Callable[..., Any],
        base: type[Node] | None = None,
        shown: dict[str, Any] | None = None,
        *,
        takes_undefined: bool = False,
        flat: bool = False,
    ) -> None:
        self.name = self.title = title
        self.run, self.direct, self.frees = run, None, True
        self.inputs: tuple[str, ...] = ()
        self.params: tuple[str, ...] = ()
        self.saves, self.traits = Saves(), Traits(takes_undefined=takes_undefined, flat=flat)
        self.display = Display(node_class(title, base or Node, shown or {}))

    @property
    def node(self) -> Any:
        """The class that its nodes take when a program looks at them."""
        return self.display.node


def node_class(title: str, base: type[Node], shown: dict[str, Any]) -> type[Node]:
    """Return the class of an op's nodes as programs see them, with these attributes."""
    return type(title, (base,), {"__slots__": (), "__module__": "adjoint", **shown})


def new_node(
    op: Op | Special,
    edges: tuple[Any, ...],
    saved: Sequence[Any] | None = None,
    like: Node | None = None,
    kind: Callable[[], Any] | None = None,
) -> Any:
    """Return a node that no call has recorded, at the place in the program of the node `like`, if there is one."""
    node = (kind or Node)()
    node.op, node.edges, node.saved, node.targets, node.extra, node.stamp = op, edges, saved, None, None, tick()
    node.code, node.lasti = (None, 0) if like is None else (like.code, like.lasti)
    return node


class Output(Node):
    """One output of a node that has several: hands its gradient on to its place in that node."""

    __slots__ = ("index",)

    index: int


def _run_output(node: Any, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
    return (Cotangents({node.index: g}),)


output = Special("Output", _run_output)


class Hidden(Node):
    """Where the gradient of a view goes that was made unrecorded, of a base that requires a gradient: nowhere.

    Such a view requires a gradient as its base does, and so does what is computed from it; but it has no history.
    Each view has one of its own, since the gradients that arrive have its shape.
    """

    __slots__ = ()
    # Attributes of the class, in place of slots: a view made unrecorded must cost little.
    op = Special("Hidden", lambda node, g, edges, saved: ())
    edges, saved, targets, extra = (), None, None, None
    stamp, code, lasti = -1, None, 0

    def __lt__(self, other: object) -> bool:
        return False  # all have one stamp, and the engine's heap compares nodes then


class Reshaped(Node):
    """Goes before the history of a tensor that got another shape unrecorded: what arrives must still fit that."""

    __slots__ = ("shape",)

    shape: tuple[int, ...]


def _run_reshaped(node: Any, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
    given, expected = tuple(g.shape), node.shape
    lead = len(given) - len(expected)
    if lead < 0 or any(n not in (1, m) for n, m in zip(expected, given[lead:], strict=True)):
        raise RuntimeError(
            f"Function {shown(node).name()} returned an invalid gradient at index 0 - got {list(given)} but expected "
            f"shape compatible with {list(expected)}: the tensor's shape was changed in place after it was computed, "
            "where that was not recorded (no_grad, .data)"
        )
    return (registry["sum_to"].call(g, expected) if given != expected else g,)


_reshaped = Special("Reshaped", _run_reshaped)


def reshaped(inner: Node, shape: tuple[int, ...]) -> Reshaped:
    """Return a node that gradients of the right shape alone pass on their way to `inner`."""
    node: Reshaped = new_node(_reshaped, (inner,), None, inner, Reshaped)
    node.shape = shape
    return node


class Cotangents:
    """The gradients that have reached a node of several outputs, by output."""

    __slots__ = ("parts",)

    size = 0  # the engine adds in place only what is large

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = parts

    def __add__(self, other: Cotangents) -> Cotangents:
        parts = self.parts  # only the engine holds them; copies would be as many as outputs, each of all so far
        for i, g in other.parts.items():
            parts[i] = parts[i] + g if i in parts else g
        return self


class MultipleNode(Node):
    """A node of several outputs; `metas` has the shape and dtype of each (a custom function's: its array class)."""

    __slots__ = ("metas",)

    metas: tuple[Any, ...]

    def gradients(self, g: Cotangents | None) -> list[Any]:
        """Return one gradient per output, None where none arrived."""
        gs: list[Any] = [None] * len(self.metas)
        if g is not None:
            for i, part in g.parts.items():
                gs[i] = part
        return gs

    @property
    def _input_metadata(self) -> list[Any]:
        known = {
            node.index: form for node, form in tuple(_forms.items()) if type(node) is Output and node.edges[0] is self
        }
        return [
            known.get(i) or (None if meta is None else Form(Size(meta[0]), of(meta[1]), device.CPU))
            for i, meta in enumerate(self.metas)
        ]


def attach_outputs(parent: Node, outs: Sequence[Any]) -> None:
    """Let tensors be the outputs of `parent`; the first is the newest, so that a pass comes to it first."""
    edges, code, lasti = (parent,), parent.code, parent.lasti
    for i in range(len(outs) - 1, -1, -1):
        out = outs[i]
        d = out.array.dtype
        if d is _f32 or d is _f64 or differentiable(d):
            out.node = node = Output()  # as `output_node`, without its calls
            node.op = output
            node.edges = edges
            node.saved = node.targets = node.extra = None
            node.stamp = tick()
            node.index = i
            node.code = code
            node.lasti = lasti


def first_is_newest(outputs: Sequence[Output]) -> None:
    """Exchange the stamps of outputs, made one after the other, so that a pass comes to the first one first."""
    own = sorted(set(outputs), key=lambda node: node.index)
    for node, stamp in zip(own, sorted((node.stamp for node in own), reverse=True), strict=True):
        node.stamp = stamp


def output_node(parent: Node, index: int) -> Output:
    """Return the node of one output of `parent`."""
    node: Output = new_node(output, (parent,), None, parent, Output)
    node.index = index
    return node


def trail_of(node: Node) -> Trail | None:
    """Return where the program recorded a node, if anomaly detection was on then."""
    if node.extra is not None and node.extra.traceback is not None:
        return node.extra.traceback  # type: ignore[no-any-return]
    if node.code is None or not recording.covers(node.stamp):
        return None
    return Trail([(node.code, node.lasti)])


def extra_of(node: Node) -> Extra:
    """Return the node's extra, made if it has none."""
    if node.extra is None:
        node.extra = Extra()
    return node.extra


def differentiable(dtype: DType) -> bool:
    """Return whether values of a NumPy dtype can carry a gradient."""
    return dtype.kind in "fc" or (dtype.kind == "V" and dtype.name == "bfloat16")  # `name` costs microseconds


def shown(node: Any) -> Any:
    """Return the node as users see it: of its op's class; for one output of several, the whole node."""
    while type(node) is Output or type(node) is Reshaped:
        node = node.edges[0]
    if type(node) is Node or type(node) is MultipleNode:
        if node in folds and not passes and folds[node](node):
            return node
        node.__class__ = node.op.node
        if node.op.display.split is not None and not passes:
            node.op.display.split(node)
    return node


def output_index(node: Any) -> int:
    """Return which output of the node that users see this is."""
    while type(node) is Reshaped:
        node = node.edges[0]
    return node.index if type(node) is Output else 0
