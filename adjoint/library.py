"""Operators of a program's own: `custom_op`, `Library` and what is registered for them, on `autograd.Function`."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from types import NoneType, UnionType
from typing import Any, Union

from .autograd.function import Function
from .core.device import device
from .core.dtypes import dtype
from .core.modes import is_grad_enabled
from .core.tensor import TensorBase
from .core.views import has_history
from .ops import overloads
from .tensor import Tensor

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract",
    "infer_schema", "opcheck", "register_autocast", "register_autograd", "register_fake", "register_kernel",
    "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

Kernel = Callable[..., Any]


class CustomOpDef:
    """An operator of a program's own, which runs as one piece: its gradient is what `register_autograd` says.

    Examples
    --------
    >>> @adjoint.library.custom_op("docs::double", mutates_args=())
    ... def double(x: adjoint.Tensor) -> adjoint.Tensor:
    ...     return x * 2
    >>> double.register_autograd(lambda ctx, g: g * 2)
    >>> x = adjoint.ones(1, requires_grad=True)
    >>> double(x).backward()
    >>> x.grad
    tensor([2.])
    """

    def __init__(self, namespace: str, name: str, schema: str, fn: Kernel | None = None) -> None:
        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn = fn
        self._kernels: dict[str, Kernel] = {}
        self._fake: Kernel | None = None
        self._backward: Kernel | None = None
        self._setup_context: Kernel | None = None
        self._composite = False
        self._functions: dict[Spans, Any] = {}
        self._opoverload = overloads.register(namespace, name, self, schema).default
        if fn is not None:
            functools.update_wrapper(self, fn)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    # --- What is registered ---------------------------------------------------------------------------

    def register_kernel(self, device_types: Any, func: Kernel | None = None, /) -> Any:
        """Register how to compute on some kinds of device."""
        kinds = (device_types,) if isinstance(device_types, str) or device_types is None else tuple(device_types)

        def put(fn: Kernel) -> Kernel:
            self._kernels.update(dict.fromkeys((kind or "default" for kind in kinds), fn))
            return fn

        return put if func is None else put(func)

    def register_fake(self, fn: Kernel, /) -> Kernel:
        """Register how shapes come out, for tensors without values."""
        self._fake = fn
        return fn

    def register_autograd(self, backward: Kernel, /, *, setup_context: Kernel | None = None) -> None:
        """Register the gradient: ``backward(ctx, *grads)``, after ``setup_context(ctx, inputs, output)``."""
        self._backward, self._setup_context = backward, setup_context

    def register_vmap(self, func: Kernel | None = None, /) -> Any:
        """Note a batching rule; batches run by the rule of `autograd.Function`."""
        return (lambda fn: fn) if func is None else func

    register_torch_dispatch = register_autocast = register_vmap

    # --- Running --------------------------------------------------------------------------------------

    def _kernel(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        kinds = {t.device.type for t in _tensors((*args, *kwargs.values()))}
        if "meta" in kinds:
            if self._fake is None:
                raise RuntimeError(
                    f"There was no fake impl registered for {self}. This is necessary for tensors on the meta "
                    f"device. Please use `{self._name}.register_fake` to add one."
                )
            return self._fake(*args, **kwargs)
        for kind in (*kinds, "cpu", "default"):
            if kind in self._kernels:
                return self._kernels[kind](*args, **kwargs)
        if self._init_fn is None:
            lost = f"; {overloads.refused[-1]}, which adjoint cannot load, may have one" if overloads.refused else ""
            raise NotImplementedError(f"{self._qualname}: no implementation was registered{lost}")
        return self._init_fn(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        if kwargs and self._init_fn is not None:
            bound = inspect.signature(self._init_fn).bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        recorded = is_grad_enabled() and any(has_history(t) for t in _tensors(args))
        if self._composite or not recorded:
            return self._kernel(args, kwargs)
        return _recorded(self, args, kwargs)


def _tensors(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, TensorBase):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


Spans = tuple[int | None, ...]  # for each argument that is a list, its length


def _recorded(op: CustomOpDef, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator as one node of the graph."""
    spans: Spans = tuple(len(a) if isinstance(a, list | tuple) else None for a in args)
    function = op._functions.get(spans)
    if function is None:
        function = op._functions[spans] = _function_for(op, spans)
    return function.apply(kwargs, *_flat(args, spans))


def _function_for(op: CustomOpDef, spans: Spans) -> Any:
    """Return the autograd function of an operator whose arguments are lists of these lengths."""

    def inflated(flat: Sequence[Any]) -> tuple[Any, ...]:
        rest = iter(flat)
        return tuple(next(rest) if n is None else [next(rest) for _ in range(n)] for n in spans)

    def forward(kwargs: dict[str, Any], *flat: Any) -> Any:
        result = op._kernel(inflated(flat), kwargs)
        return tuple(result) if isinstance(result, list) else result

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        if op._setup_context is not None:
            more = {"keyword_only_inputs": inputs[0]} if inputs[0] else {}
            op._setup_context(ctx=ctx, inputs=inflated(inputs[1:]), output=output, **more)

    def backward(ctx: Any, *grads: Any) -> Any:
        if op._backward is None:
            raise RuntimeError(
                f"Trying to backward through {op._opoverload} but no autograd formula was registered. "
                "Please use register_autograd to add one."
            )
        return None, *_flat(op._backward(ctx, *grads), spans)

    parts: dict[str, Any] = {"forward": forward, "setup_context": setup_context, "backward": backward}
    name = f"GeneratedBackwardFor_{op._namespace}_{op._name}_default"
    return type(name, (Function,), {word: staticmethod(part) for word, part in parts.items()})


def _flat(values: Any, spans: Spans) -> tuple[Any, ...]:
    """Return values, of which some are lists, one after the other."""
    if len(spans) == 1 and (not isinstance(values, tuple) or len(values) != 1):
        values = (values,)
    found: list[Any] = []
    for value, count in zip(values, spans, strict=True):
        if count is None:
            found.append(value)
        else:
            found += [None] * count if value is None else list(value)
    return tuple(found)


# --- Making one ---------------------------------------------------------------------------------------


def _split(qualname: str) -> tuple[str, str]:
    space, colons, name = qualname.partition("::")
    if not colons or not space or not name:
        raise ValueError(f"Expected `qualname` to be of the form 'namespace::name', got {qualname!r}")
    return space, name.partition(".")[0]


def custom_op(
    name: str,
    fn: Kernel | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operator of a function: it runs as one piece, and is found under ``torch.ops`` too.

    Parameters
    ----------
    name
        ``"namespace::name"``.
    mutates_args
        The names of the arguments that the function writes to.
    device_types
        The kinds of device that `fn` is for; None: all.
    schema
        The signature, where the annotations of `fn` do not give it.
    """

    def make(function: Kernel) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        op = CustomOpDef(*_split(name), text, function)
        if device_types is not None:
            op.register_kernel(device_types, function)
        return op

    return make if fn is None else make(fn)


def triton_op(name: str, fn: Kernel | None = None, /, *, mutates_args: Any, schema: str | None = None) -> Any:
    """Make an operator of a function, as `custom_op` does."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Kernel, /) -> Kernel:
    """Return a kernel as it is."""
    return triton_kernel


_TYPES: dict[Any, str] = {
    Tensor: "Tensor", TensorBase: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    complex: "complex", dtype: "ScalarType", device: "Device", int | float | bool: "Scalar",
}  # fmt: skip


def _type_name(kind: Any) -> str | None:
    """Return how a schema writes a type."""
    if kind in _TYPES:
        return _TYPES[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, UnionType):
        if NoneType in inner and len(inner) == 2:
            word = _type_name(next(i for i in inner if i is not NoneType))
            return None if word is None else f"{word}?"
        return "Scalar" if set(inner) <= {int, float, bool, complex} else None
    if origin in (list, Sequence) and inner:
        word = _type_name(inner[0])
        return None if word is None else f"{word}[]"
    return None


def _returned(kind: Any) -> str:
    if kind in (None, NoneType, inspect.Signature.empty):
        return "()"
    if typing.get_origin(kind) is tuple:
        return f"({', '.join(str(_type_name(k)) for k in typing.get_args(kind))})"
    return _type_name(kind) or str(kind)


def _shown_default(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}."
    return str(value)


def infer_schema(
    prototype_function: Kernel, /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """Return the schema of a function, from its annotations.

    Examples
    --------
    >>> def scaled(x: adjoint.Tensor, s: float = 2.0) -> adjoint.Tensor: ...
    >>> adjoint.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float s=2.) -> Tensor'
    """
    signature, hints = inspect.signature(prototype_function), _hints(prototype_function)
    everything = mutates_args == "unknown"
    written = set() if everything or isinstance(mutates_args, str) else set(mutates_args)
    parts: list[str] = []
    for name, parameter in signature.parameters.items():
        if name not in hints:
            raise ValueError(
                f"infer_schema(func): Parameter {name} must have a type annotation. "
                f"Got func with signature {signature})"
            )
        word = _type_name(hints[name])
        if word is None:
            raise ValueError(
                f"infer_schema(func): Parameter {name} has unsupported type {hints[name]}. "
                f"Got func with signature {signature})"
            )
        if (name in written or everything) and word.startswith("Tensor"):
            word = f"Tensor(a{len(parts)}!){word.removeprefix('Tensor')}"
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if parameter.default is parameter.empty else f"={_shown_default(parameter.default)}"
        parts.append(f"{word} {name}{default}")
    return f"{op_name or ''}({', '.join(parts)}) -> {_returned(hints.get('return'))}"


def _hints(function: Kernel) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError:  # names that only type checkers know
        return {k: v for k, v in function.__annotations__.items() if not isinstance(v, str)}


# --- By name ------------------------------------------------------------------------------------------


def _found(op: Any) -> CustomOpDef:
    """Return the operator that a name, an overload or a definition means."""
    if isinstance(op, CustomOpDef):
        return op
    if isinstance(op, overloads.OpOverload):
        op = f"{op.namespace}::{op._opname}"
    space, name = _split(op)
    known: Any = vars(overloads.namespace(space)).get(name)
    if (
        known is None and overloads.refused
    ):  # it may be one of a compiled library: what is registered for it stays unused
        return CustomOpDef(space, name, "(...)")
    if known is None:
        raise RuntimeError(f"operator {op} does not exist: define it before registering something for it")
    return known.op  # type: ignore[no-any-return]


class Library:
    """Operators of one namespace, defined by their schemas, with implementations by dispatch key."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by its schema, and return its name."""
        name, _, rest = schema.partition("(")
        CustomOpDef(self.ns, name.strip().partition(".")[0], f"({rest}")
        return name.strip()

    def impl(self, op_name: Any, fn: Kernel, dispatch_key: str = "", *, with_keyset: bool = False,
             allow_override: bool = False) -> None:  # fmt: skip
        """Register an implementation: for a kind of device, for meta tensors, or one made of other functions."""
        name = op_name if isinstance(op_name, str) else op_name._opname
        op = _found(f"{self.ns}::{name.partition('::')[2] or name}")
        _implement(op, dispatch_key or self.dispatch_key, fn)

    def _register_fake(self, op_name: str, fn: Kernel, *args: Any, **kwargs: Any) -> None:
        _found(f"{self.ns}::{op_name}").register_fake(fn)

    def _destroy(self) -> None:
        """Forget nothing: operators stay as long as the program."""


def _implement(op: CustomOpDef, key: str, fn: Kernel) -> None:
    word = key.lower()
    if word == "meta":
        op.register_fake(fn)
    elif word.startswith("composite") or word.startswith("autograd") or word == "":
        op._init_fn = fn
        op._composite = op._composite or "explicit" not in word
    elif word in ("cpu", "cuda", "default"):
        op.register_kernel(word, fn)


def _put(lib: Library, name: str, key: str, fn: Kernel) -> Kernel:
    lib.impl(name, fn, key)
    return fn


def define(qualname: Any, schema: Any, *more: Any, lib: Any = None, tags: Any = ()) -> Any:
    """Define an operator by its name and schema."""
    if isinstance(qualname, Library):  # the older form, a decorator: define(lib, schema)
        return functools.partial(_put, qualname, qualname.define(schema, *more), "")
    CustomOpDef(*_split(qualname), schema)
    return None


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register an implementation for kinds of device; without one, return the decorator that does."""
    if isinstance(qualname, Library):  # the older form: impl(lib, name, dispatch_key)
        return functools.partial(_put, qualname, types, func or "")

    def put(fn: Kernel) -> Kernel:
        for key in (types,) if isinstance(types, str) else types:
            _implement(_found(qualname), key, fn)
        return fn

    return put if func is None else put(func)


def register_kernel(op: Any, device_types: Any, func: Kernel | None = None, /, *, lib: Any = None) -> Any:
    """Register how an operator computes on some kinds of device."""
    return _found(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Kernel | None = None, /, *, lib: Any = None, _stacklevel: int = 1,
                  allow_override: bool = False) -> Any:  # fmt: skip
    """Register how the shapes of an operator come out, for tensors without values."""
    definition = _found(op)
    return definition.register_fake if func is None else definition.register_fake(func)


impl_abstract = register_fake


def register_autograd(op: Any, backward: Kernel, /, *, setup_context: Kernel | None = None, lib: Any = None) -> None:
    """Register the gradient of an operator."""
    _found(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Kernel | None = None, /, *, lib: Any = None) -> Any:
    """Note a batching rule of an operator."""
    return _found(op).register_vmap(func)


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Note what a class does with an operator; classes are dispatched to by ``__torch_function__`` here."""
    return (lambda fn: fn) if func is None else func


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Note that an operator is to be cast; it runs in the precision that it is given."""


def fallthrough_kernel() -> None:
    """Raise: a mark that is passed to `Library.impl`, never called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def get_ctx() -> Any:
    """Raise: sizes that depend on values are plain numbers here."""
    raise RuntimeError("get_ctx() is only for fake implementations that make sizes of unknown value")


def opcheck(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, test_utils: Any = (),
    raise_exception: bool = True, atol: Any = None, rtol: Any = None,
) -> dict[str, str]:  # fmt: skip
    """Check that an operator runs, and that its gradient is what finite differences say."""
    from .autograd.gradcheck import gradcheck

    definition, options = _found(op), kwargs or {}
    definition(*args, **options)
    wanted = [a for a in args if isinstance(a, TensorBase) and a.node is not None]
    if wanted and definition._backward is not None and all(a.array.dtype.itemsize > 4 for a in wanted):
        gradcheck(lambda *given: definition(*given, **options), args)
    return {"test_schema": "SUCCESS", "test_autograd_registration": "SUCCESS"}
