"""Custom functions: a forward and a backward written by the user, as one node of the graph."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from ..core import modes, nodes, recorders
from ..core.anomaly import Trail
from ..core.inplace import check_writable, is_leaf_node, rebase
from ..core.nodes import (
    Cotangents,
    Extra,
    Freed,
    MultipleNode,
    Node,
    Output,
    Own,
    Special,
    check_hooks,
    checked_unpacked,
    differentiable,
    extra_of,
    first_is_newest,
    freed_error,
    freed_hooks_error,
    output_node,
    packed_by,
    wrap,
)
from ..core.observation import literal
from ..core.payload import Payload, is_captured, top_payload, transforming
from ..core.primitive import fit, getframe
from ..core.tensor import (
    STALE,
    InferenceStorage,
    TensorBase,
    View,
    clock,
    note_write,
    storage_of,
    tick,
    written_ledger,
)
from ..core.views import edge_of, watch_base
from ..devices.contract import by_class
from ..errors import InPlaceError, place

__all__ = [
    "BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "NestedIOFunction",
    "once_differentiable",
]  # fmt: skip


class _Kept:
    """A tensor given to `save_for_backward`: enough to give it back without holding an output."""

    __slots__ = ("array", "edge", "memory", "output", "packed", "tensor", "unpack")

    array: Any
    tensor: Any  # the tensor itself, if it is no output of the node
    edge: Any
    memory: Any
    output: int | None
    packed: Any
    unpack: Any

    def restore(self, node: BackwardCFunction) -> Any:
        """Return the tensor, if nobody has written to it since."""
        if self.unpack is not None:
            return self.unpack(self.packed)
        ledger = written_ledger(self.array)
        if ledger is not None and ledger.time > node.stamp:
            raise InPlaceError(_overwritten(node, ledger))
        edge = self.edge
        if self.output is not None:
            edge = node if node.single else output_node(node, self.output)
        return wrap(self.array, edge, self.memory)


def _overwritten(node: BackwardCFunction, ledger: Any) -> str:
    kept, wrote = place(node.code, node.lasti), place(ledger.code, ledger.lasti)
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{node.op.title} saved it{f' at {kept}' if kept else ''}, and {ledger.operation or 'an in-place op'} "
        f"overwrote it{f' at {wrote}' if wrote else ''} (it is at version {ledger.version}). Save a copy "
        "(x.clone()) or use the out-of-place op."
    )


class _OwnOutput:
    """An attribute of ``ctx`` that holds, on some nodes, one of the node's own outputs.

    The node must not hold the output itself, which holds the node: it keeps what it takes to make it again.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, node: Any, owner: Any = None) -> Any:
        try:
            value = node.__dict__[self.name]
        except (KeyError, AttributeError):
            raise AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}'") from None
        return value.restore(node) if type(value) is _Kept else value

    def __set__(self, node: Any, value: Any) -> None:
        node.__dict__[self.name] = value

    def __delete__(self, node: Any) -> None:
        del node.__dict__[self.name]


class FunctionCtx:
    """What `forward`, `setup_context` and `backward` of a custom function may call on ``ctx``."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `backward`, which finds them in ``ctx.saved_tensors``."""
        self.to_save: tuple[Any, ...] | None = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, TensorBase):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    "on ctx."
                )
        self.saved_for_forward: tuple[Any, ...] | None = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs `forward` has written to."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether `backward` gets zeros for outputs without a gradient (the default), or None."""
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing; torch keeps the name for old programs."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked.",
            FutureWarning,
            stacklevel=2,
        )


class BackwardCFunction(MultipleNode, FunctionCtx):
    """The node of one call of a custom function; the function sees it as ``ctx``."""

    # A dict for whatever the function stores; the rest are plain slots of a node. `forms` has the shape and
    # dtype of each argument that is a tensor, None for others; `_needs` what `needs_input_grad` is where the
    # edges do not tell: nothing was recorded, or the program has set it.
    __slots__ = (
        "__dict__", "_named", "_needs", "dirty_tensors", "forms", "function", "non_differentiable", "single", "to_save",
    )  # fmt: skip

    function: Any
    forms: list[Any]
    _needs: Any
    single: bool
    to_save: tuple[Any, ...] | None
    dirty_tensors: tuple[Any, ...]
    non_differentiable: tuple[Any, ...]
    _named: dict[str, Any] | None  # what the program stored under names that are slots of the node

    # Class attributes are the defaults of what `ctx` methods set.
    saved_for_forward: tuple[Any, ...] | None = None
    materialize_grads = True
    _materialize_non_diff_grads = True  # whether that goes for outputs that were marked as not differentiable

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Which inputs require a gradient."""
        if self._needs is not None:
            return self._needs  # type: ignore[no-any-return]
        return _needs(self.forms, self.edges)

    @needs_input_grad.setter
    def needs_input_grad(self, value: Any) -> None:
        self._needs = value

    @needs_input_grad.deleter
    def needs_input_grad(self) -> None:
        self._needs = None

    @property
    def positions(self) -> list[int]:
        """Which arguments are tensors."""
        return [i for i, form in enumerate(self.forms) if form is not None]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        saved = self.saved
        written = self.stamp < clock.latest if saved is not None else False
        if type(saved) is tuple and not written:
            return saved
        if saved is None:  # before forward has ended, or in jvp
            return tuple(self.saved_for_forward or ())
        if type(saved) is Freed:
            raise freed_error(self, saved)
        restored = []
        for kept in saved:
            if type(kept) is _Kept:
                kept = kept.restore(self)
            elif written and kept is not None:
                ledger = written_ledger(kept.array)
                if ledger is not None and ledger.time > self.stamp:
                    raise InPlaceError(_overwritten(self, ledger))
            restored.append(kept)
        return tuple(restored)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """Old name of `saved_tensors`."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if type(self.saved) is Freed:
            raise freed_error(self, self.saved)
        kept = [k if k is None or type(k) is _Kept else _keep(k, edge_of(k), None) for k in self.saved or ()]
        self.saved = kept or None
        return tuple(SavedTensor(k, self) for k in kept)

    def lifted(self) -> Any:
        """Return what was saved: `saved_tensors` makes tensors of it."""
        return self.saved

    def verify(self) -> None:
        """Do nothing."""
        # saved_tensors does, when the function asks for them

    def gradients(self, g: Any) -> list[Any]:
        """Return one gradient per output, None where none arrived."""
        if self.single and not isinstance(g, Cotangents):
            return [g]
        return super().gradients(g)

    def apply(self, *grads: Any) -> Any:
        """Call the function's `backward` with these gradients."""
        return _call_backward(self, grads)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{self.op.title} object at {id(self):#x}>"


class _ClearingNode(BackwardCFunction):
    """The node of a function with `clear_saved_tensors_on_access`: what was saved is given out once."""

    __slots__ = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given; it can be read once."""
        if type(self.saved) is Cleared:
            raise RuntimeError(
                "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
                "autograd.Function. Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
            )
        tensors = super().saved_tensors
        if self.saved is not None:
            self.saved = Cleared()
        return tensors


class Cleared:
    """Left in place of what `saved_tensors` has given out."""

    __slots__ = ()


def _needs(forms: list[Any], edges: Any) -> tuple[bool, ...]:
    """Return, for each argument, whether it is a tensor that has an edge."""
    remaining = iter(edges)
    return tuple([form is not None and next(remaining) is not None for form in forms])


ndarray, f32, f64 = np.ndarray, np.dtype(np.float32), np.dtype(np.float64)


class SavedTensor:
    """One saved tensor, on which pack and unpack hooks can be registered."""

    def __init__(self, kept: _Kept | None, node: BackwardCFunction) -> None:
        self._kept, self._node = kept, node

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Store what `pack_hook` makes of the tensor, and let `unpack_hook` restore it."""
        check_hooks(pack_hook, unpack_hook)
        if self._kept is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if type(self._node.saved) is Freed:
            raise freed_hooks_error()
        _pack(self._kept, self._node, pack_hook, unpack_hook)


def _pack(
    kept: _Kept, node: BackwardCFunction, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]
) -> None:
    if kept.unpack is not None:
        raise RuntimeError(
            "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks "
            "is allowed at a time."
        )
    edge, memory, output = kept.edge, kept.memory, kept.output
    tensor = kept.tensor
    if tensor is None:
        if output is not None:
            edge = node if node.single else output_node(node, output)
        tensor = wrap(kept.array, edge, memory)
    packed = packed_by(pack_hook, tensor)
    watched = isinstance(packed, TensorBase) and packed.memory is memory
    if packed is tensor and output is not None:
        packed = Own(tensor, node, None if node.single else output)
    kept.packed = packed
    holder = weakref.ref(node)

    def unpack(packed: Any) -> Any:
        out = checked_unpacked(unpack_hook(packed.tensor() if type(packed) is Own else packed))
        owner = holder()
        if watched and owner is not None and memory.ledger is not None and memory.ledger.time > owner.stamp:
            raise InPlaceError(_overwritten(owner, memory.ledger))
        own = kept.edge
        if output is not None and owner is not None:
            own = owner if owner.single else output_node(owner, output)
        return wrap(out.array, own, memory if watched else None)

    kept.unpack = unpack
    kept.array = kept.tensor = None


def _run_function(node: Any, g: Any, edges: tuple[Any, ...], saved: Any, boxed: bool = False) -> list[Any]:
    """Call the user's backward and bring its answers to the form of the inputs."""
    if type(g) is ndarray and node.single and node._named is None and not boxed:  # as nearly always
        given = nodes.make()  # as `wrap` does
        given.array = g
        given._grad = given.lineage = given.memory = given.node = None
        answers, lift = node.function.backward(node, given), False
    else:
        answers, lift = _answers(node, g)
    forms = node.forms
    if type(answers) is not tuple:
        if len(forms) == 1 and not lift and isinstance(answers, TensorBase) and type(a := answers.array) is ndarray:
            if a.shape == forms[0][0] and a.dtype is forms[0][1]:
                return [a]
        answers = tuple(answers) if isinstance(answers, tuple) else (answers,)
    if len(answers) != len(forms):
        answers = _counted(node, answers)
    if len(edges) != len(forms):
        answers, forms = _of_tensors(node, answers)
    results: list[Any] = []
    for answer, edge, form in zip(answers, edges, forms):
        if edge is None or answer is None:
            results.append(None)
        elif (
            isinstance(answer, TensorBase)
            and type(a := answer.array) is ndarray
            and a.shape == form[0]
            and a.dtype is form[1]
        ):
            results.append(answer if lift else a)
        else:
            results.append(_fitted(node, answer, len(results), form, lift))
    return results


_run_boxed = functools.partial(_run_function, boxed=True)  # its gradients come in one list, which it may empty


def _answers(node: Any, g: Any) -> tuple[Any, bool]:
    """Return what the user's backward returns, and whether the pass is recorded."""
    lift = isinstance(g, TensorBase)
    if node.single and type(g) is not Cotangents:
        if g is None:
            lift = modes.local.grad
            g = _zeros(node.metas[0]) if node.materialize_grads else None
        tensors: list[Any] = [g if lift or g is None or isinstance(g, TensorBase) else wrap(g)]
    else:
        lift = modes.local.grad
        gs = node.gradients(g)
        if node.materialize_grads:
            gs = [_zeros(meta) if v is None and meta else v for v, meta in zip(gs, node.metas, strict=True)]
        tensors = [v if v is None or isinstance(v, TensorBase) else wrap(v) for v in gs]
    return _call_backward(node, tensors), lift


def _zeros(meta: Any) -> Any:
    shape, dtype, kind = meta if len(meta) > 2 else (*meta, ndarray)
    module = np if issubclass(kind, Payload) else by_class[kind].module
    return wrap(literal(module.zeros(shape, dtype)))


def _counted(node: Any, answers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one answer per argument of `forward`, or raise."""
    expected = len(node.forms)
    if len(answers) > expected and all(a is None for a in answers[expected:]):
        return answers[:expected]
    raise RuntimeError(
        f"function {node.op.title} returned an incorrect number of gradients (expected {expected}, got {len(answers)})"
    )


def _of_tensors(node: Any, answers: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return the answers for arguments that were tensors, and their forms; the others have no gradient."""
    for i, (answer, form) in enumerate(zip(answers, node.forms, strict=True)):
        if answer is not None and form is None:
            raise RuntimeError(
                f"function {node.op.title} returned a gradient different than None at position {i + 1}, but the "
                "corresponding forward input was not a Variable"
            )
    positions = node.positions
    return [answers[i] for i in positions], [node.forms[i] for i in positions]


def _fitted(node: Any, answer: Any, order: int, target: Any, lift: bool) -> Any:
    """Return a gradient summed and converted to the form of its input."""
    position = node.positions[order]
    if not isinstance(answer, TensorBase):
        raise RuntimeError(
            f"expected Variable or None (got {type(answer).__name__}) as the gradient at position {position + 1} of "
            f"{node.op.title}"
        )
    if isinstance(answer.array, Payload) and "strided" not in str(answer.layout):  # type: ignore[attr-defined]
        answer = answer.to_dense()  # type: ignore[attr-defined]  # gradients that are added up are arrays
    shape, dtype = target
    if answer.array.dtype.kind == "c" and dtype.kind != "c":
        raise RuntimeError(
            "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true, but got "
            f"false: {node.op.title} returned a complex gradient for the real input at position {position + 1}; "
            "return its real part"
        )
    if answer.array.shape != shape and not _expandable(shape, answer.array.shape):
        raise RuntimeError(
            f"Function {node.op.title} returned an invalid gradient at index {position} - got "
            f"{list(answer.array.shape)} but expected shape compatible with {list(shape)}"
        )
    return fit(answer if lift else answer.array, shape, dtype)


def _expandable(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    if len(shape) > len(to):
        return False
    tail = to[len(to) - len(shape) :]
    return all(n in (1, m) for n, m in zip(shape, tail, strict=True))


class FunctionMeta(type):
    """Gives every custom function the class of its nodes: `SquareBackward` for `Square`."""

    boxed_grads_call: bool
    clear_saved_tensors_on_access: bool

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> None:
        super().__init__(name, bases, body)
        op = Special(f"{name}Backward", _run_boxed if cls.boxed_grads_call else _run_function, wants_undefined=True)
        cls._op = op
        base = _ClearingNode if cls.clear_saved_tensors_on_access else BackwardCFunction
        cls._backward_cls = op.node = type(
            op.title, (base,), {"__slots__": (), "__module__": base.__module__, "_forward_cls": cls}
        )
        if "vjp" in body:
            cls.backward = staticmethod(_refuse_both) if _given(cls, "backward") else staticmethod(body["vjp"].__func__)
        cls._splits = any("setup_context" in k.__dict__ for k in cls.__mro__ if k.__dict__.get("_is_base") is None)
        cls._kit = (cls._backward_cls, op, cls._splits)  # what a call needs, in one look-up


def _is_setup_context_defined(function: Any) -> bool:
    return function is not _SingleLevelFunction.setup_context


def _given(cls: Any, name: str) -> bool:
    """Return whether a custom function, or a base of it that is one too, has a method of its own."""
    return any(name in k.__dict__ for k in cls.__mro__ if k.__dict__.get("_is_base") is None and k is not object)


def _refuse_both(ctx: Any, *grads: Any) -> Any:
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of "
        "them."
    )


class _SingleLevelFunction(FunctionCtx, metaclass=FunctionMeta):
    """What a custom function has for a program to define."""

    _is_base = True
    _op: Any
    _backward_cls: Any
    _splits: bool
    _kit: tuple[Any, Any, bool]
    clear_saved_tensors_on_access = False  # whether `saved_tensors` may be read once, and holds nothing afterwards
    boxed_grads_call = False  # whether `backward` gets its gradients as one list, which it may empty

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


class Function(_SingleLevelFunction):
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
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
            "should invoke them on the class itself. Instantiating an autograd function will raise an error in a "
            "future version.",
            DeprecationWarning,
            stacklevel=2,
        )
        # What torch shows of a context that no call has filled.
        self.__dict__.update(
            saved_tensors=(), needs_input_grad=None, next_functions=(), metadata={}, to_save=None, dirty_tensors=None,
            non_differentiable=None, saved_for_forward=None, requires_grad=True, _raw_saved_tensors=(),
        )  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: functions are applied through their class."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            f"function with static forward method. (Define it with @staticmethod, and call {type(self).__name__}.apply)"
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Compute the function on a batch: return the output and where its batch dimension is."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function and record the call."""
        if modes.unusual or modes.transforms:
            return _apply_watched(cls, args, kwargs)
        return _apply(cls, args, kwargs)


def _apply_watched(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function where something unusual is on, or a transform."""
    splits = cls._splits
    if not splits and not cls.__module__.startswith("adjoint.") and transforming():
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod: give {cls.__name__} a forward without ctx and a "
            "setup_context(ctx, inputs, output) staticmethod."
        )
    if kwargs or splits:
        args, kwargs = _bound(cls, args, kwargs), {}
    if modes.unusual:
        if top_payload(args) is not None:
            from ..payloads.functions import apply_function

            return apply_function(cls, args, kwargs)
        if modes.local.checked_functions is not None:
            from .debugging import check_function

            check_function(cls, args, kwargs)
        if modes.local.observer is not None:
            return modes.local.observer.function(cls.__name__, lambda: _apply(cls, args, kwargs))
    return _apply(cls, args, kwargs)


def _bound(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments of `forward` by position: each needs a gradient, or None, from `backward`.

    Where there is a `setup_context`, its ``inputs`` have the defaults of `forward`, too.
    """
    code = getattr(cls.forward, "__code__", None)
    if not cls._splits:
        return _by_position(code, args, dict(kwargs))
    if code is not None and not kwargs and len(args) == code.co_argcount and not code.co_kwonlyargcount:
        return args
    from inspect import signature

    found = signature(cls.forward).bind(*args, **kwargs)
    found.apply_defaults()
    return _by_position(None, found.args, found.kwargs)


def _by_position(code: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    names = () if code is None else code.co_varnames[1 : code.co_argcount]  # the first is ctx
    for name in named:
        if name not in names:
            raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
        if name in names[: len(args)]:
            raise TypeError(f"forward() got multiple values for argument '{name}'")
    placed = list(args)
    for name in names[len(args) :]:
        if not named:
            break
        if name not in named:
            raise TypeError(f"forward() missing required argument: '{name}' (position {len(placed)})")
        placed.append(named.pop(name))
    return tuple(placed)


def _apply(
    cls: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    context: list[Any] | None = None,
    forward: Any = None,
    constants: list[Any] | None = None,
) -> Any:
    node_class, op, splits = cls._kit
    if forward is None:
        forward = cls.forward
        if kwargs or splits:
            args, kwargs = _bound(cls, args, kwargs), {}
    ctx: Any = node_class()
    if context is not None:
        context.append(ctx)
    edges: list[Any] = []
    forms: list[Any] = []
    recording = False
    for a in args:
        if isinstance(a, TensorBase):
            e = a.node
            if e is STALE and (not modes.off or modes.local.grad):  # else nobody asks what it has become
                e = edge_of(a)
            edges.append(e)
            array = a.array
            forms.append((array.shape, array.dtype))
            if e is not None:
                recording = True
        else:
            forms.append(None)
    local, off = modes.local, modes.off
    grad = not off or local.grad
    recording = recording and grad
    ctx.function = cls
    ctx.op = op
    ctx.forms = forms
    if recording:
        ctx.edges = ahead = tuple(edges)
        ctx._needs = None
    else:
        ctx.edges = ahead = (None,) * len(edges)
        ctx._needs = None if grad else _needs(forms, edges)
    ctx.to_save = ctx.saved = ctx.targets = ctx.extra = ctx.code = ctx.single = ctx.metas = ctx._named = None
    ctx.dirty_tensors = ctx.non_differentiable = ()
    if grad:  # modes.set_grad(False), without its call
        switches = local.__dict__
        key = switches["key"]
        off[key] = None
        switches["grad"] = False
    try:
        if splits:
            raw = forward(*args, **kwargs)
            cls.setup_context(ctx, args, raw)
        elif kwargs:
            raw = forward(ctx, *args, **kwargs)
        elif len(args) == 2:  # without the star, which costs 0.06 µs
            raw = forward(ctx, args[0], args[1])
        else:
            raw = forward(ctx, *args)
    finally:
        if grad:
            switches["grad"] = True
            if key in off:
                del off[key]
    if not (
        ctx.op is op and ctx.targets is ctx.extra is ctx.code is ctx.single is ctx.metas is None
        and ctx.edges is ahead and ctx.function is cls and ctx.forms is forms
    ):  # fmt: skip
        _set_apart(ctx, {"op": op, "edges": ahead, "function": cls, "forms": forms})
    # The usual case, inlined: one fresh tensor of real numbers that nobody holds besides what was saved.
    if (
        recording
        and isinstance(raw, TensorBase)
        and raw.node is None
        and raw.lineage is None
        and not modes.unusual
        and ((d := raw.array.dtype) is f32 or d is f64)
        and not ctx.dirty_tensors
        and not ctx.non_differentiable
        and ((references := getrefcount(raw)) <= _UNSHARED or _is_only_saved(raw, references, ctx.to_save))
    ):
        array = raw.array
        shape, form = array.shape, forms[0]
        ctx.single = True
        if form is not None and form[0] == shape and form[1] is d and type(array) is ndarray:
            ctx.metas = (form,)  # fewer objects for the garbage collector
        else:
            ctx.metas = ((shape, d, type(array)),)
        frame = getframe(2)
        code = frame.f_code
        if code is recorders.program:
            ctx.code = code
            ctx.lasti = frame.f_lasti
        else:
            ctx.code, ctx.lasti = recorders.outside(frame)
        ctx.stamp = tick()
        raw.node = ctx
        if to_save := ctx.to_save:
            inferred = modes.inferred
            for t in to_save:
                if t is raw or inferred or not isinstance(t, TensorBase):  # else it is no output of this call
                    to_save = _saved(ctx, to_save)
                    break
            ctx.saved = to_save
            ctx.to_save = None
        return raw
    if constants is not None:
        constants += ctx.non_differentiable
    several = isinstance(raw, tuple)
    outputs = _Outputs(ctx, args, raw if several else (raw,), several)
    outputs.attach(recording)
    return tuple(outputs.values) if several else outputs.values[0]


_OURS = ("op", "edges", "function", "forms", "targets", "extra", "code", "single", "metas")


def _set_apart(ctx: Any, ours: dict[str, Any]) -> None:
    """Keep what the program has stored on ctx under names that the node itself uses; `backward` finds it there."""
    named = {}
    for name in _OURS:
        value, wanted = getattr(ctx, name), ours.get(name)
        if value is not wanted and type(value) is not Extra:  # which hooks registered in forward have made
            named[name] = value
            setattr(ctx, name, wanted)
    ctx._named = named or None


def _call_backward(node: Any, tensors: Any) -> Any:
    """Call the user's backward with its own values on ctx, where their names are those of a node's slots."""
    backward, named = node.function.backward, node._named
    if node.function.boxed_grads_call:
        tensors = ([*tensors],)
    if named is None:
        return backward(node, *tensors)
    ours = {name: getattr(node, name) for name in named}
    for name, value in named.items():
        setattr(node, name, value)
    try:
        return backward(node, *tensors)
    finally:
        for name, value in ours.items():
            setattr(node, name, value)


def _references_to_local() -> int:
    value = object()
    return getrefcount(value)


_UNSHARED = _references_to_local()  # of what only a local variable holds; interpreters count differently


def _is_only_saved(raw: Any, references: int, to_save: tuple[Any, ...] | None) -> bool:
    """Return whether all references to an output but the caller's are from what was saved for backward."""
    return references - sum(t is raw for t in to_save or ()) <= _UNSHARED


def _saved(ctx: Any, tensors: tuple[Any, ...]) -> tuple[Any, ...] | list[Any]:
    """Return what to store of saved tensors: as they are, or a list where some must be made again.

    The node's own outputs are stored as what it takes to make them again.
    """
    own = False
    for position, t in enumerate(tensors):
        if isinstance(t, TensorBase):
            if modes.inferred and type(t.memory) is InferenceStorage and not is_captured(t):
                raise RuntimeError(
                    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
                    "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
                    "normal tensor and use it in autograd, or use `adjoint.no_grad()` instead of "
                    "`adjoint.inference_mode()`."
                )
            node = t.node
            if node is ctx or node is STALE or type(node) is Output:
                own = True
        elif t is not None:
            raise TypeError(
                f"save_for_backward can only save variables, but argument {position} is of type {type(t).__name__}; "
                "assign other values to ctx itself"
            )
    return [_without_cycle(ctx, t) for t in tensors] if own else tensors


def _without_cycle(ctx: Any, t: Any) -> Any:
    output = None if t is None else _output_index(ctx, t)
    return t if output is None else _keep(t, None, output)


def _keep(t: Any, edge: Any, output: int | None) -> _Kept:
    kept = _Kept()
    kept.array, kept.edge, kept.memory, kept.output, kept.unpack = t.array, edge, storage_of(t), output, None
    kept.tensor = t if output is None else None
    return kept


def _output_index(ctx: Any, t: Any) -> int | None:
    """Return which output of the node `t` is, or None."""
    node = t.node
    if node is ctx:
        return 0
    if type(node) is Output and node.edges[0] is ctx:
        return node.index
    if node is STALE and any(t is d for d in ctx.dirty_tensors):
        return 0
    return None


class _Outputs:
    """The results of one call, being given their history."""

    __slots__ = ("args", "constant", "ctx", "dirty", "places", "several", "values")

    def __init__(self, ctx: BackwardCFunction, args: tuple[Any, ...], values: tuple[Any, ...], several: bool) -> None:
        self.ctx, self.args, self.several = ctx, args, several
        self.values = list(values)
        self.places: dict[int, int] | None = None
        self.dirty: Any = {id(t) for t in ctx.dirty_tensors} if ctx.dirty_tensors else ()
        self.constant: Any = {id(t) for t in ctx.non_differentiable} if ctx.non_differentiable else ()

    def place(self, value: Any) -> int | None:
        """Return which argument a tensor is, if one."""
        if len(self.args) < 16:
            for i, a in enumerate(self.args):
                if a is value:
                    return i
            return None
        if self.places is None:
            last_first = zip(reversed(self.args), range(len(self.args) - 1, -1, -1), strict=True)
            self.places = {id(a): i for a, i in last_first}  # so that of an argument's places the first stays
        return self.places.get(id(value))

    def attach(self, recording: bool) -> None:
        """Connect the outputs to the node and let it keep what was saved."""
        ctx, values = self.ctx, self.values
        attributes = ctx.__dict__
        dirty = ctx.dirty_tensors
        returned = {id(v) for v in values} if dirty else set()
        for t in dirty:
            self._check_dirty(t, recording, id(t) in returned)
            note_write(t, ctx.op.title)
        for t in ctx.non_differentiable:
            if not isinstance(t, TensorBase):
                raise RuntimeError(
                    f"mark_non_differentiable only accepts variable arguments, but got {type(t).__name__}"
                )
        if not recording:
            self.values = [v if self.place(v) is None else self._unrecorded(v) for v in values]
            return
        ctx.single = not self.several
        ctx.metas = tuple(
            [(v.array.shape, v.array.dtype, type(v.array)) if isinstance(v, TensorBase) else None for v in values]
        )
        ctx.code, ctx.lasti = recorders.outside(getframe(2))
        ctx.stamp = tick()
        plain = not dirty and not ctx.non_differentiable
        for i, v in enumerate(values):
            if isinstance(v, TensorBase):
                usual = plain and v.node is None and v.lineage is None and v.array.dtype.kind == "f"
                if usual and self.place(v) is None:
                    v.node = output_node(ctx, i) if self.several else ctx
                else:
                    values[i] = self._attach_one(v, i)
        if self.several:
            own = [v.node for v in values if isinstance(v, TensorBase) and type(v.node) is Output]
            first_is_newest([node for node in own if node.edges[0] is ctx])
        if ctx.non_differentiable and not ctx._materialize_non_diff_grads:
            ctx.metas = tuple([None if id(v) in self.constant else m for v, m in zip(values, ctx.metas, strict=True)])
        self._keep(attributes)
        if modes.unusual and modes.local.anomaly_stack:
            extra_of(ctx).traceback = Trail.now()

    def _check_dirty(self, t: Any, recording: bool, returned: bool) -> None:
        ctx = self.ctx
        if not isinstance(t, TensorBase):
            raise RuntimeError(
                f"mark_dirty can only accept variables, but argument is of type {type(t).__name__} ({ctx.op.title})"
            )
        if not returned:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                "that are modified inplace must all be outputs of the Function."
            )
        if self.place(t) is None:
            warnings.warn(
                "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
                "should be passed to ctx.mark_dirty().",
                stacklevel=5,
            )
        if recording and t.lineage is None and is_leaf_node(t.node):
            raise RuntimeError(
                f"a leaf Variable that requires grad has been used in an in-place operation. {ctx.op.title} marked it "
                "as dirty: give the function a clone()."
            )
        check_writable(t, recording)

    def _unrecorded(self, v: Any) -> Any:
        """Return an input that `forward` gave back, where nothing is recorded: as another tensor."""
        if not isinstance(v, TensorBase):
            return v
        if v.node is not None and not modes.is_grad_enabled():
            return v.detach()  # type: ignore[attr-defined]
        return v if id(v) in self.dirty else self._returned(v, None, 0)

    def _kind(self) -> Any:
        count = sum(meta is not None for meta in self.ctx.metas or ()) - len(self.constant)
        return View.MULTIPLE if count > 1 else View.CUSTOM

    def _returned(self, v: Any, node: Any, index: int) -> Any:
        """Return an input that `forward` gave back as a view of it, with the history of this call."""
        out = wrap(v.array, node, storage_of(v))
        out.lineage = View(v if v.lineage is None else v.lineage.base, None, self._kind())
        if node is not None:
            out.lineage.maker = f"Output {index} of {self.ctx.op.title.removesuffix('Backward')}"
        watch_base(out)
        return out

    def _attach_one(self, v: Any, i: int) -> Any:
        ctx = self.ctx
        position = self.place(v)
        if id(v) in self.constant or not differentiable(v.array.dtype):
            return v if position is None else v.detach()
        node: Any = ctx if ctx.single else output_node(ctx, i)
        if id(v) in self.dirty and position is not None:
            if v.lineage is not None and not ctx.single:
                raise RuntimeError(
                    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                    "return more than one Tensor. This is not supported by the current autograd engine: clone the input"
                )
            rebase(v, ctx, ctx.positions.index(position) if v.lineage is not None else 0, node)
            return v
        if position is not None:
            return self._returned(v, node, i)
        if v.lineage is not None and any(v.lineage.base is a or self._shares_base(v, a) for a in self.args):
            v.lineage.kind = self._kind()
            v.lineage.maker = f"Output {i} of {ctx.op.title.removesuffix('Backward')}"
        v.node = node
        return v

    def _shares_base(self, v: Any, a: Any) -> bool:
        return isinstance(a, TensorBase) and a.lineage is not None and a.lineage.base is v.lineage.base

    def _keep(self, attributes: dict[str, Any]) -> None:
        """Store the saved tensors without holding outputs, and take outputs off ctx."""
        ctx = self.ctx
        if ctx.to_save:
            ctx.saved = _saved(ctx, ctx.to_save)
            ctx.to_save = None
            if modes.unusual:
                self._pack_saved()
        for name, value in attributes.items():
            if isinstance(value, TensorBase) and _output_index(ctx, value) is not None:
                attributes[name] = _without_cycle(ctx, value)
                if not isinstance(type(ctx).__dict__.get(name), _OwnOutput):
                    setattr(type(ctx), name, _OwnOutput(name))
        ctx.dirty_tensors = ctx.non_differentiable = ()

    def _pack_saved(self) -> None:
        ctx = self.ctx
        if modes.local.pack_hooks:
            for saved in ctx._raw_saved_tensors:
                if saved._kept is not None:
                    saved.register_hooks(*modes.local.pack_hooks[-1])


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` as impossible to differentiate again: doing so raises instead of being wrong."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        was = modes.local.grad
        modes.set_grad(False)
        try:
            outputs = function(ctx, *args)
        finally:  # by stores: see modes.py
            modes.off[modes.local.key], modes.local.grad = None, was
            if was:
                modes.off.pop(modes.local.key, None)
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
    node.op, node.edges, node.saved = _error_op, edges, None
    node.targets, node.extra, node.code, node.lasti, node.stamp = None, None, None, 0, tick()
    out.node = node
    return out


class InplaceFunction(Function):
    """Torch's base for functions with an ``inplace`` option."""

    _is_base = True

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Torch's base for functions of nested inputs; kept for its name."""

    _is_base = True

    def forward_extended(self, *input: Any) -> Any:
        """Compute the outputs; to be defined by subclasses."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> Any:
        """Compute the gradients; to be defined by subclasses."""
        raise NotImplementedError
