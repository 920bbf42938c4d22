"""Public functions that autocast knows by name: it converts their arguments before they check anything."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..core import modes
from ..core.tensor import TensorBase

F = TypeVar("F", bound=Callable[..., Any])


def autocasting(function: F) -> F:
    """Let autocast convert the arguments of a function first; calls inside the function are not converted again.

    Its dtype is in the tables of `adjoint.amp`, by the function's name.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if modes.unusual and modes.local.autocast is not None:
            return _cast_first(function, name, args, kwargs)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _cast_first(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    policy: Any = modes.local.autocast
    out = kwargs.pop("out", None)  # which is written into as it is
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        found += [v for v in (value if isinstance(value, list | tuple) else (value,)) if isinstance(v, TensorBase)]
    made = policy(name, tuple(found))
    if out is not None:
        kwargs["out"] = out
    if made is None:  # not on these devices
        return function(*args, **kwargs)
    converted = iter(made)

    def taken(value: Any) -> Any:
        if isinstance(value, TensorBase):
            return next(converted)
        if type(value) in (list, tuple):
            return type(value)([next(converted) if isinstance(v, TensorBase) else v for v in value])
        return value

    args = tuple([taken(value) for value in args])
    kwargs = {key: value if key == "out" else taken(value) for key, value in kwargs.items()}
    modes.local.autocast = None
    try:
        return function(*args, **kwargs)
    finally:
        modes.local.autocast = policy
