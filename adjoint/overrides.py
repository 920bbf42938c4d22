"""Helpers for classes with ``__torch_function__``, as ``torch.overrides`` has them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from .core import modes
from .core.overrides import SubclassesOff, ask, disabled_torch_function, is_subclass, overloaded
from .core.tensor import TensorBase
from .subclasses import MODULES, NOT_ASKED, UNTOUCHED, Dispatching, enter_mode, leave_mode
from .tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip

DisableTorchFunctionSubclass = SubclassesOff
_disabled_torch_function_impl = disabled_torch_function


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether a mode, or the class of some argument, may intercept a function."""
    if modes.local.function_modes:
        return True
    return not modes.local.subclasses_off and bool(overloaded(tuple(relevant_args)))


def has_torch_function_unary(input: Any) -> bool:
    """Return whether a mode, or the class of one argument, may intercept a function."""
    if modes.local.function_modes:
        return True
    return not modes.local.subclasses_off and is_subclass(input)


def has_torch_function_variadic(*args: Any) -> bool:
    """Return whether the class of some argument may intercept a function."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the classes of `relevant_args` handle a call of `public_api`."""
    found = [] if modes.local.subclasses_off else overloaded(tuple(relevant_args))
    return ask(public_api, found, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function check the classes of those arguments that `dispatcher` returns."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Return whether a value is a tensor or has ``__torch_function__``.

    Examples
    --------
    >>> adjoint.overrides.is_tensor_like(adjoint.ones(1))
    True
    """
    return isinstance(inp, TensorBase) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether a function that ``__torch_function__`` was given is a method or attribute of Tensor."""
    return func.__name__ in ("__get__", "__set__", "__delete__") or any(v is func for v in vars(Tensor).values())


def resolve_name(f: Any) -> str | None:
    """Return the full name of a function that ``__torch_function__`` was given."""
    if isinstance(f, str):
        return f
    package = sys.modules["adjoint"].__name__  # torch's, where adjoint stands in its place
    owner = getattr(f, "__self__", None)
    for key, value in vars(Tensor).items():
        if value is f or (isinstance(value, Dispatching) and value == f):
            return f"{package}.Tensor.{f.__name__}"
        if value is owner and isinstance(value, property):
            return f"{package}.Tensor.{key}.{f.__name__}"
    found, name = getattr(f, "__module__", None), getattr(f, "__name__", None)
    return None if name is None else f"{package}{(found or '').removeprefix('adjoint')}.{name}"


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the functions whose results are not converted to the class of their argument."""
    return {vars(Tensor)[name].__get__ for name in ("grad", "_base")}


# --- Modes --------------------------------------------------------------------------------------------


class TorchFunctionMode:
    """A context in which ``__torch_function__`` of this object answers every public function and method.

    What the handler calls is seen by the modes around this one. Outside of such contexts nothing is slower.

    Examples
    --------
    >>> class Count(adjoint.overrides.TorchFunctionMode):
    ...     calls = 0
    ...
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as count:
    ...     x = adjoint.ones(2) + 1
    >>> count.calls
    2
    """

    inner: Any

    def __init__(self) -> None:
        """Do nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle a call of `func`."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        _push_mode(self)
        return self

    def __exit__(self, *error: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a mode of this class; the same as calling the class."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing: functions run as they are."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function."""
        return func(*args, **(kwargs or {}))


def _push_mode(mode: Any) -> None:
    enter_mode(Tensor)
    modes.local.function_modes = (*modes.local.function_modes, mode)


def _pop_mode() -> Any:
    stack = modes.local.function_modes
    modes.local.function_modes = stack[:-1]
    leave_mode(Tensor)
    return stack[-1]


def _get_current_function_mode() -> Any:
    """Return the innermost mode of this thread, or None."""
    stack = modes.local.function_modes
    return stack[-1] if stack else None


def _get_current_function_mode_stack() -> list[Any]:
    """Return the modes of this thread, innermost last."""
    return list(modes.local.function_modes)


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Any:
    """Enclose a block; a mode may call any function here at any time."""
    yield


# --- What can be overridden ---------------------------------------------------------------------------


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return functions that are never dispatched to a class."""
    return {vars(sys.modules["adjoint"])[name] for name in NOT_ASKED}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return, for each module and for Tensor, the functions that classes and modes can override."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for name in MODULES:
        module = sys.modules.get(name)
        if module is not None:
            known = [v for k, v in vars(module).items() if not k.startswith("_") and _overridable(k, v)]
            found[module] = known
    found[Tensor] = [v for k, v in vars(Tensor).items() if isinstance(v, types.FunctionType) and k not in UNTOUCHED]
    return found


def _overridable(name: str, value: Any) -> bool:
    return isinstance(value, types.FunctionType | Dispatching) and name not in NOT_ASKED


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return, for each function that can be overridden, one that takes any arguments and returns -1."""
    return {f: _override_of(f) for functions in get_overridable_functions().values() for f in functions}


def _override_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the same signature that returns -1."""

    def override(*args: Any, **kwargs: Any) -> Any:
        return -1

    with contextlib.suppress(TypeError, ValueError):  # a function that has none to show
        override.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return override


def redispatch_function(func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Call a function past the class whose handler runs; what it calls inside is dispatched again."""
    inner = getattr(func, "_function", func)
    first = next((base for base in Tensor.__mro__ if getattr(func, "__name__", "") in vars(base)), None)
    if first is not None and inner is func:
        with SubclassesOff():
            return func(*args, **(kwargs or {}))
    return inner(*args, **(kwargs or {}))
