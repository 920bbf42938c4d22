"""Custom functions: a forward and a backward written by the user, as one node of the graph."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from ..core import fast_path, modes, nodes
from ..core.nodes import (
    Cotangents,
    Extra,
    Special,
    new_node,
    wrap,
)
from ..core.observation import literal
from ..core.payload import Payload, top_payload, transforming
from ..core.primitive import fit
from ..core.tensor import (
    STALE,
    TensorBase,
    tick,
)
from ..core.views import edge_of
from ..devices.contract import by_class
from .context import BackwardCFunction, ClearingNode, FunctionCtx, call_backward, needs, saved_of
from .outputs import Outputs

__all__ = [
    "BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "NestedIOFunction",
    "once_differentiable",
]  # fmt: skip


ndarray, f32, f64 = np.ndarray, np.dtype(np.float32), np.dtype(np.float64)


def _run_function(node: Any, g: Any, edges: tuple[Any, ...], saved: Any, boxed: bool = False) -> list[Any]:
    """Call the user's backward and convert its gradients to the shapes and dtypes of the inputs."""
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
    return call_backward(node, tensors), lift


def _zeros(meta: Any) -> Any:
    shape, dtype, kind = meta if len(meta) > 2 else (*meta, ndarray)
    module = np if issubclass(kind, Payload) else by_class[kind].module
    return wrap(literal(module.zeros(shape, dtype)))


def _counted(node: Any, answers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one gradient per argument of `forward`, or raise."""
    expected = len(node.forms)
    if len(answers) > expected and all(a is None for a in answers[expected:]):
        return answers[:expected]
    raise RuntimeError(
        f"function {node.op.title} returned an incorrect number of gradients (expected {expected}, got {len(answers)})"
    )


def _of_tensors(node: Any, answers: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return the gradients for arguments that were tensors, and their forms; the others have no gradient."""
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
        run = _run_boxed if cls.boxed_grads_call else _run_function
        base = ClearingNode if cls.clear_saved_tensors_on_access else BackwardCFunction
        shown = {"__module__": base.__module__, "_forward_cls": cls}
        cls._op = op = Special(f"{name}Backward", run, base, shown, takes_undefined=True)
        cls._backward_cls = op.node
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
    """Call a function off the fast path: under a transform, an observer or another mode."""
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
            if e is STALE and (not modes.off or modes.local.grad):  # else its new value is not needed
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
        ctx._needs = None if grad else needs(forms, edges)
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
    # The fast path, inlined: one fresh real tensor that only the saved values refer to.
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
        frame = sys._getframe(2)
        code = frame.f_code
        if code is fast_path.program:
            ctx.code = code
            ctx.lasti = frame.f_lasti
        else:
            ctx.code, ctx.lasti = fast_path.outside(frame)
        ctx.stamp = tick()
        raw.node = ctx
        if to_save := ctx.to_save:
            inferred = modes.inferred
            for t in to_save:
                if t is raw or inferred or not isinstance(t, TensorBase):  # else it is no output of this call
                    to_save = saved_of(ctx, to_save)
                    break
            ctx.saved = to_save
            ctx.to_save = None
        return raw
    if constants is not None:
        constants += ctx.non_differentiable
    several = isinstance(raw, tuple)
    outputs = Outputs(ctx, args, raw if several else (raw,), several)
    outputs.attach(recording)
    return tuple(outputs.values) if several else outputs.values[0]


_OURS = ("op", "edges", "function", "forms", "targets", "extra", "code", "single", "metas")


def _set_apart(ctx: Any, ours: dict[str, Any]) -> None:
    """Move attributes set on ctx under names that the node itself uses aside; `backward` still finds them."""
    named = {}
    for name in _OURS:
        value, wanted = getattr(ctx, name), ours.get(name)
        if value is not wanted and type(value) is not Extra:  # which hooks registered in forward have made
            named[name] = value
            setattr(ctx, name, wanted)
    ctx._named = named or None


def _references_to_local() -> int:
    value = object()
    return getrefcount(value)


_UNSHARED = _references_to_local()  # of what only a local variable holds; interpreters count differently


def _is_only_saved(raw: Any, references: int, to_save: tuple[Any, ...] | None) -> bool:
    """Return whether all references to an output but the caller's are from what was saved for backward."""
    return references - sum(t is raw for t in to_save or ()) <= _UNSHARED


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the `backward` of a custom function as impossible to differentiate again.

    Recording is off inside it. A second derivative through it raises instead of being wrong.

    Parameters
    ----------
    function : callable
        The static method ``backward(ctx, *grads)``.

    Returns
    -------
    callable
        The method, to be decorated with ``staticmethod``.

    Examples
    --------
    >>> class Square(adjoint.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     @adjoint.autograd.function.once_differentiable
    ...     def backward(ctx, g):
    ...         return adjoint.from_numpy(g.numpy() * 2 * ctx.saved_tensors[0].numpy())
    >>> x = adjoint.tensor([3.0], requires_grad=True)
    >>> (dx,) = adjoint.autograd.grad(Square.apply(x) ** 2, x, create_graph=True)
    >>> try:
    ...     dx.backward()
    ... except RuntimeError as error:
    ...     print(error)
    trying to differentiate twice a function that was marked with @once_differentiable
    """

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


_error_op = Special("Error", _refuse, takes_undefined=True)


def _failing(tensor: Any, edges: tuple[Any, ...]) -> Any:
    out = tensor.detach()
    out.node = new_node(_error_op, edges)
    return out


class InplaceFunction(Function):
    """Torch's base for functions with an ``inplace`` option."""

    _is_base = True

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Torch's base for functions of nested inputs; here for its name only."""

    _is_base = True

    def forward_extended(self, *input: Any) -> Any:
        """Compute the outputs; to be defined by subclasses."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> Any:
        """Compute the gradients; to be defined by subclasses."""
        raise NotImplementedError
