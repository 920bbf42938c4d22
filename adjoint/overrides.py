"""Helpers for classes with ``__torch_function__``, as ``torch.overrides`` has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from .core import modes
from .core.overrides import SubclassesOff, ask, disabled_torch_function, is_subclass, overloaded
from .core.tensor import TensorBase
from .tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "get_default_nowrap_functions",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

DisableTorchFunctionSubclass = SubclassesOff
_disabled_torch_function_impl = disabled_torch_function


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether the class of some argument must be asked before a function runs."""
    return not modes.local.subclasses_off and bool(overloaded(tuple(relevant_args)))


def has_torch_function_unary(input: Any) -> bool:
    """Return whether the class of one argument must be asked."""
    return not modes.local.subclasses_off and is_subclass(input)


def has_torch_function_variadic(*args: Any) -> bool:
    """Return whether the class of some argument must be asked."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the classes of `relevant_args` answer a call of `public_api`."""
    return ask(public_api, overloaded(tuple(relevant_args)), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function ask the classes of those arguments that `dispatcher` returns."""

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
    if any(v is f for v in vars(Tensor).values()):
        return f"adjoint.Tensor.{f.__name__}"
    module, name = getattr(f, "__module__", None), getattr(f, "__name__", None)
    return None if name is None else f"{module or 'adjoint'}.{name}"


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the functions whose results keep their class."""
    return {vars(Tensor)[name].__get__ for name in ("grad", "_base")}


class BaseTorchFunctionMode:
    """A mode that changes nothing: functions run as they are."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> BaseTorchFunctionMode:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""
