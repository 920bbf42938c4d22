"""Custom functions: a forward and a backward written by the user, as one node of the graph."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..core import device, modes
from ..core.inplace import check_writable, is_leaf_node, rebase
from ..core.payload import top_payload
from ..core.primitive import (
    Cotangents,
    Freed,
    Hookless,
    MultipleNode,
    Node,
    Special,
    differentiable,
    edge_of,
    extra_of,
    capture_traceback,
    fit,
    freed_error,
    getframe,
    output_node,
    wrap,
)
from ..core.tensor import InferenceStorage, TensorBase, View, note_write, ours, storage_of, tick
from ..errors import InPlaceError, place

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "NestedIOFunction",
    "InplaceFunction",
    "once_differentiable",
]

Tensor = Any


class _Kept:
    """A tensor given to `save_for_backward`: enough to give it back without holding an output."""

    __slots__ = ("array", "edge", "memory", "output", "packed", "tensor", "time", "unpack")

    def __init__(self, tensor: Any, output: int | None, time: int) -> None:
        self.time, self.output, self.unpack, self.packed = time, output, None, None
        self.memory = storage_of(tensor)
        self.tensor = self.array = self.edge = None
        if output is None and (tensor.node is None or is_leaf_node(tensor.node)):
            self.tensor = tensor
        else:
            self.array, self.edge = tensor.array, None if output is not None else edge_of(tensor)

    def restore(self, node: FunctionNode) -> Any:
        """Return the tensor, if nobody has written to it since."""
        ledger = self.memory.ledger
        if ledger is not None and ledger.time > self.time:
            kept, wrote = place(node.code, node.lasti), place(ledger.code, ledger.lasti)
            raise InPlaceError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"{node.op.title} saved it{f' at {kept}' if kept else ''}, and {ledger.operation or 'an in-place op'} "
                f"overwrote it{f' at {wrote}' if wrote else ''} (it is at version {ledger.version}). Save a copy "
                "(x.clone()) or use the out-of-place op."
            )
        if self.unpack is not None:
            return self.unpack(self.packed)
        if self.tensor is not None:
            return self.tensor
        edge = self.edge
        if self.output is not None:
            edge = node if node.single else output_node(node, self.output)
        return wrap(self.array, edge, self.memory)


class FunctionCtx:
    """What `forward`, `setup_context` and `backward` of a custom function may call on ``ctx``."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `backward`, which finds them in ``ctx.saved_tensors``."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, TensorBase):
                raise TypeError("save_for_forward can only save variables; assign other values to ctx itself")
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs `forward` has written to."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether `backward` gets zeros for outputs without a gradient (the default), or None."""
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing; torch keeps the name for old programs."""
        warnings.warn(
            "function 'mark_shared_storage' is deprecated. Tensors with shared storages are automatically tracked.",
            FutureWarning,
            stacklevel=2,
        )


class FunctionNode(MultipleNode, FunctionCtx):
    """The node of one call of a custom function; the function sees it as ``ctx``."""

    # A dict for whatever the function stores; the rest are plain slots of a node.
    __slots__ = ("__dict__", "arguments", "function", "mask", "positions", "single", "targets_of")

    function: Any
    arguments: int
    positions: tuple[int, ...]
    mask: tuple[bool, ...]
    single: bool

    # Class attributes are the defaults of what `ctx` methods set.
    to_save: tuple[Any, ...] | None = None
    saved_for_forward: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    materialize_grads = True

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Which inputs need a gradient from `backward`."""
        return self.mask

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        saved = self.saved
        if saved is None:
            return tuple(self.to_save or ())
        if type(saved) is Freed:
            raise freed_error(self, saved)
        return tuple(None if k is None else k.restore(self) for k in saved)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """Old name of `saved_tensors`."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if type(self.saved) is Freed:
            raise freed_error(self, self.saved)
        return tuple(SavedTensor(k) for k in self.saved or ())

    def __getattr__(self, name: str) -> Any:
        # Outputs that the function stored on ctx are not held (they would hold this node in turn).
        outputs = self.__dict__.get("_own_outputs")
        if outputs is not None and name in outputs:
            return outputs[name].restore(self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def lifted(self) -> Any:
        return self.saved

    def kept_cells(self) -> list[tuple[int, Any]]:
        return []

    def gradients(self, g: Any) -> list[Any]:
        if self.single and not isinstance(g, Cotangents):
            return [g]
        return super().gradients(g)

    def apply(self, *grads: Any) -> Any:
        """Call the function's `backward` with these gradients."""
        return self.function.backward(self, *grads)


BackwardCFunction = FunctionNode


class SavedTensor:
    """One saved tensor, on which pack and unpack hooks can be registered."""

    def __init__(self, kept: _Kept) -> None:
        self._kept = kept

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Store what `pack_hook` makes of the tensor, and let `unpack_hook` restore it."""
        _pack(self._kept, pack_hook, unpack_hook)


def _pack(kept: _Kept, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
    if kept.unpack is not None:
        raise RuntimeError("Setting hooks on a saved tensor more than once is not allowed")
    tensor = kept.tensor if kept.tensor is not None else wrap(kept.array, None, kept.memory)
    with Hookless():
        kept.packed = pack_hook(tensor.detach())
    edge, memory = kept.edge, kept.memory
    leaf = kept.tensor if kept.tensor is not None and kept.tensor.node is not None else None

    def unpack(packed: Any) -> Any:
        out = unpack_hook(packed)
        if not isinstance(out, TensorBase):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(out).__name__}"
            )
        return wrap(out.array, leaf.node if leaf is not None else edge, memory if leaf is None else None)

    kept.unpack = unpack
    kept.tensor = kept.array = None


def _run_function(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> list[Any]:
    """Call the user's backward and bring its answers to the form of the inputs."""
    gs = node.gradients(g)
    lift = modes.is_grad_enabled()
    if node.materialize_grads:
        gs = [_zeros(meta) if v is None else v for v, meta in zip(gs, node.metas, strict=True)]
    tensors = [v if v is None or isinstance(v, TensorBase) else wrap(v) for v in gs]
    mask = node.mask
    if None in edges:
        wanted = dict(zip(node.positions, edges, strict=True))
        node.mask = tuple(m and wanted.get(i) is not None for i, m in enumerate(mask))
    try:
        answers = node.function.backward(node, *tensors)
    finally:
        node.mask = mask
    if not isinstance(answers, tuple):
        answers = tuple(answers) if isinstance(answers, list) else (answers,)
    answers = _counted(node, answers)
    results = []
    for order, (position, edge) in enumerate(zip(node.positions, edges, strict=True)):
        answer = answers[position]
        results.append(None if edge is None or answer is None else _fitted(node, answer, position, order, lift))
    return results


def _zeros(meta: Any) -> Any:
    shape, dtype, module = meta
    return wrap(module.zeros(shape, dtype))


def _counted(node: Any, answers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one answer per argument of `forward`."""
    expected = node.arguments
    if len(answers) > expected and all(a is None for a in answers[expected:]):
        answers = answers[:expected]
    if len(answers) != expected:
        raise RuntimeError(
            f"function {node.op.title} returned an incorrect number of gradients (expected {expected}, got {len(answers)})"
        )
    for i, answer in enumerate(answers):
        if answer is not None and i not in node.positions:
            raise RuntimeError(
                f"function {node.op.title} returned a gradient different from None at position {i + 1}, but the "
                "corresponding forward input was not a Variable"
            )
    return answers


def _fitted(node: Any, answer: Any, position: int, order: int, lift: bool) -> Any:
    if not isinstance(answer, TensorBase):
        raise TypeError(
            f"{node.op.title}: expected Variable or None for the gradient at position {position + 1}, got {type(answer).__name__}"
        )
    shape, dtype = node.targets_of[order]
    value: Any = answer if lift else answer.array
    if answer.array.shape != shape:
        if not _expandable(shape, answer.array.shape):
            raise RuntimeError(
                f"Function {node.op.title} returned an invalid gradient at index {position} - got "
                f"{list(answer.array.shape)} but expected shape compatible with {list(shape)}"
            )
        value = fit(value, shape, dtype)
    elif answer.array.dtype != dtype:
        value = fit(value, shape, dtype)
    return value


def _expandable(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    if len(shape) > len(to):
        return False
    tail = to[len(to) - len(shape) :]
    return all(n in (1, m) for n, m in zip(shape, tail, strict=True))


class _FunctionMeta(type):
    """Gives every custom function the class of its nodes: `SquareBackward` for `Square`."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> None:
        super().__init__(name, bases, body)
        op = Special(f"{name}Backward", _run_function, wants_undefined=True)
        cls._op = op
        cls._backward_cls = op.node = type(
            op.title, (FunctionNode,), {"__slots__": (), "__module__": cls.__module__, "_forward_cls": cls}
        )
        splits = any("setup_context" in k.__dict__ for k in cls.__mro__ if k.__dict__.get("_is_base") is None)
        cls._splits = splits


class Function(metaclass=_FunctionMeta):
    """Base of custom differentiable functions.

    Subclasses define static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, or ``forward``
    without ctx beside ``setup_context(ctx, inputs, output)``; programs call ``apply``.

    Examples
    --------
    >>> class Square(adjoint.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         (x,) = ctx.saved_tensors
    ...         return grad_output * 2 * x
    >>> x = adjoint.tensor(3.0, requires_grad=True)
    >>> y = Square.apply(x)
    >>> y
    tensor(9., grad_fn=<SquareBackward>)
    >>> y.backward()
    >>> x.grad
    tensor(6.)
    """

    _is_base = True
    _op: Any
    _backward_cls: Any
    _splits: bool
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static, so "
            f"you should invoke them on the class itself: {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the function."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Prepare ctx for `backward`, when `forward` does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of each input, given those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangent of each output, given those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function and record the call."""
        if modes.unusual and top_payload(args) is not None:
            from ..payloads.functions import apply_function

            return apply_function(cls, args, kwargs)
        return _apply(cls, args, kwargs)


_base_backward = Function.__dict__["backward"].__func__


def _apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ctx: FunctionNode = cls._backward_cls()
    edges, positions, mask = [], [], []
    recording = False
    for i, a in enumerate(args):
        if isinstance(a, TensorBase):
            e = edge_of(a)
            edges.append(e)
            positions.append(i)
            mask.append(e is not None)
            if e is not None:
                recording = True
        else:
            mask.append(False)
    grad = modes.local.grad if modes.off else True
    recording = recording and grad
    ctx.function, ctx.op = cls, cls._op
    ctx.arguments, ctx.positions = len(args), tuple(positions)
    ctx.mask = tuple(mask) if recording else (False,) * len(args)
    ctx.edges, ctx.saved, ctx.cells, ctx.targets, ctx.extra = tuple(edges), None, (), None, None
    ctx.targets_of = tuple([(args[i].array.shape, args[i].array.dtype) for i in positions])
    if grad:
        modes.set_grad(False)
    try:
        if cls._splits:
            raw = cls.forward(*args, **kwargs)
            cls.setup_context(ctx, args, raw)
        else:
            raw = cls.forward(ctx, *args, **kwargs)
    finally:
        if grad:
            modes.set_grad(True)
    several = isinstance(raw, tuple)
    outputs = _Outputs(ctx, args, raw if several else (raw,), several)
    outputs.attach(recording)
    return tuple(outputs.values) if several else outputs.values[0]


class _Outputs:
    """The results of one call, being given their history."""

    __slots__ = ("args", "ctx", "several", "values")

    def __init__(self, ctx: FunctionNode, args: tuple[Any, ...], values: tuple[Any, ...], several: bool) -> None:
        self.ctx, self.args, self.several = ctx, args, several
        self.values = list(values)

    def attach(self, recording: bool) -> None:
        """Connect the outputs to the node and let it keep what was saved."""
        ctx, values = self.ctx, self.values
        tensors = [v for v in values if isinstance(v, TensorBase)]
        if not self.several and not tensors and values[0] is not None:
            raise TypeError(f"{type(ctx).__name__}: expected Variable or a tuple of them, got {type(values[0]).__name__}")
        for t in ctx.dirty_tensors:
            self._check_dirty(t, recording)
        if not recording:
            self._alias_inputs()
            return
        ctx.single = not self.several
        ctx.metas = tuple(
            [
                (v.array.shape, v.array.dtype, device.module_of(v.array)) if isinstance(v, TensorBase) else None
                for v in values
            ]
        )
        frame = getframe(3)
        code = frame.f_code
        while code.co_filename in ours and frame.f_back is not None:
            frame = frame.f_back
            code = frame.f_code
        ctx.code, ctx.lasti = code, frame.f_lasti
        for t in ctx.dirty_tensors:
            note_write(t, type(ctx).__name__)
        ctx.stamp = tick()
        saved_values = list(values)
        for i, v in enumerate(values):
            if isinstance(v, TensorBase):
                values[i] = self._attach_one(v, i)
        self._keep(saved_values)
        if modes.unusual and modes.local.anomaly:
            extra_of(ctx).traceback = capture_traceback()

    def _check_dirty(self, t: Any, recording: bool) -> None:
        ctx = self.ctx
        if not any(t is a for a in self.args):
            raise RuntimeError(
                f"{ctx.op.title}: a tensor given to mark_dirty is not an input; mark_dirty only takes tensors that forward was given"
            )
        if not any(t is v for v in self.values) and recording:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                "that are modified inplace must all be outputs of the Function."
            )
        check_writable(t, recording and any(ctx.mask))

    def _alias_inputs(self) -> None:
        for t in self.ctx.dirty_tensors:
            note_write(t, type(self.ctx).__name__)

    def _attach_one(self, v: Any, i: int) -> Any:
        ctx = self.ctx
        position = next((p for p, a in enumerate(self.args) if a is v), None)
        dirty = any(v is t for t in ctx.dirty_tensors)
        if any(v is t for t in ctx.non_differentiable) or not differentiable(v.array.dtype):
            if position is not None and not dirty:
                return v.detach()
            return v
        node: Any = ctx if ctx.single else output_node(ctx, i)
        if dirty:
            slot = ctx.positions.index(position)
            if v.lineage is not None and not ctx.single:
                raise RuntimeError(
                    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                    "return more than one Tensor. This is not supported by the current autograd engine. Clone the input."
                )
            rebase(v, ctx, slot, node)
            return v
        if position is not None:
            out = wrap(v.array, node, storage_of(v))
            out.lineage = View(v if v.lineage is None else v.lineage.base, (), View.CUSTOM)
            return out
        if v.lineage is not None and any(v.lineage.base is a or self._shares_base(v, a) for a in self.args):
            v.lineage.kind = View.CUSTOM
        elif v.node is not None:
            v = v.detach()
        v.node = node
        return v

    def _shares_base(self, v: Any, a: Any) -> bool:
        return isinstance(a, TensorBase) and a.lineage is not None and a.lineage.base is v.lineage.base

    def _keep(self, raw: list[Any]) -> None:
        """Store the saved tensors without holding outputs, and release outputs stored on ctx."""
        ctx = self.ctx
        if ctx.to_save:
            kept = []
            for t in ctx.to_save:
                if t is None:
                    kept.append(None)
                    continue
                if not isinstance(t, TensorBase):
                    raise TypeError(
                        f"save_for_backward can only save variables, but argument is of type {type(t).__name__}; "
                        "assign other values to ctx itself"
                    )
                if type(t.memory) is InferenceStorage:
                    raise RuntimeError(
                        "Inference tensors cannot be saved for backward. To work around you can make a clone to get a "
                        "normal tensor and use it in autograd."
                    )
                kept.append(_Kept(t, self._output_index(t, raw), ctx.stamp))
            ctx.saved = tuple(kept)
            if modes.unusual and modes.local.pack_hooks:
                for k in kept:
                    if k is not None:
                        _pack(k, *modes.local.pack_hooks[-1])
            if modes.unusual and modes.local.pack_refusal is not None:
                raise RuntimeError(modes.local.pack_refusal)
        attributes = ctx.__dict__
        attributes.pop("to_save", None)
        if attributes:
            own = {}
            for name, value in list(attributes.items()):
                if isinstance(value, TensorBase):
                    output = self._output_index(value, raw)
                    if output is not None:
                        own[name] = _Kept(value, output, ctx.stamp)
                        del attributes[name]
            for name in ("dirty_tensors", "non_differentiable"):
                attributes.pop(name, None)
            if own:
                attributes["_own_outputs"] = own

    def _output_index(self, t: Any, raw: list[Any]) -> int | None:
        """Return which output `t` is; an input that was returned as is counts as an input."""
        for i, v in enumerate(raw):
            if v is t:
                written = any(t is d for d in self.ctx.dirty_tensors)
                is_input = any(t is a for a in self.args)
                return i if written or not is_input else None
        return None


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` as impossible to differentiate again: doing so raises instead of being wrong."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        was = modes.local.grad
        modes.set_grad(False)
        try:
            outputs = function(ctx, *args)
        finally:
            modes.set_grad(was)
        if not modes.is_grad_enabled():
            return outputs
        if not any(isinstance(a, TensorBase) and a.node is not None for a in args):
            return outputs
        answers = outputs if isinstance(outputs, tuple) else (outputs,)
        edges = tuple(edge_of(a) for a in args if isinstance(a, TensorBase))
        failing = tuple(a if not isinstance(a, TensorBase) else _failing(a, edges) for a in answers)
        return failing if isinstance(outputs, tuple) else failing[0]

    return wrapper


def _refuse(node: Any, g: Any, edges: Any, saved: Any) -> Any:
    raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


_error_op = Special("Error", _refuse, wants_undefined=True)
_error_op.node = type("Error", (Node,), {"__slots__": (), "__module__": "adjoint"})


def _failing(tensor: Any, edges: tuple[Any, ...]) -> Any:
    out = tensor.detach()
    node = Node()
    node.op, node.edges, node.saved, node.cells = _error_op, edges, None, ()
    node.targets, node.extra, node.code, node.lasti, node.stamp = None, None, None, 0, tick()
    out.node = node
    return out


class InplaceFunction(Function):
    """Torch's base for functions with an ``inplace`` option."""

    _is_base = True


class NestedIOFunction(Function):
    """Torch's base for functions of nested inputs; kept for its name."""

    _is_base = True

