"""Values at levels: what a tensor is one level down, how one is lifted, and looking through transforms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..core import modes
from ..core.nodes import wrap
from ..core.observation import lifting
from ..core.payload import Level, Payload, inside, payload_of
from ..core.tensor import TensorBase
from ..core.views import edge_of


def as_tensor(value: Any) -> Any:
    """Return a value of some level as a tensor of that level."""
    return value if isinstance(value, TensorBase) else wrap(value)


def value_of(tensor: Any) -> Any:
    """Return what a payload made of a tensor holds: the tensor if it has a history, else its bare value.

    While a program is captured it holds the tensor, so that every op of the transform is seen as a primitive.
    """
    return tensor.array if edge_of(tensor) is None and lifting(False) is False else tensor


def level_of(tensor: Any) -> int:
    """Return the number of a tensor's level; 0 for an ordinary one."""
    payload = payload_of(tensor)
    return 0 if payload is None else payload.level


def detached(tensor: Any) -> Any:
    """Return a tensor without its history at its own level."""
    return tensor if not isinstance(tensor, TensorBase) or edge_of(tensor) is None else wrap(tensor.array)


def is_recorded(value: Any) -> bool:
    """Return whether a tensor, or anything that its payload is made of, has a history."""
    if isinstance(value, TensorBase):
        return edge_of(value) is not None or is_recorded(value.array)
    if not isinstance(value, Payload):
        return False
    return is_recorded(value.below()) or is_recorded(getattr(value, "tangent", None))


@contextmanager
def recording(floor: int | None = None) -> Iterator[None]:
    """Switch recording on, whatever it was outside, and let levels below `floor` go on as they were.

    That is the level at which values are recorded, the innermost unless given.
    """
    was = modes.local.grad
    level = Level(recording=True) if inside.levels else None
    if level is not None:
        level.__enter__()
        level.floor = level.floor if floor is None else floor
    modes.set_grad(True)
    try:
        yield
    finally:
        modes.set_grad(was)
        if level is not None:
            level.__exit__()


def shown(items: Any) -> str:
    """Return the type of a value, as messages name it."""
    return str(type(items))


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """Return the tensor behind a tensor inside a transform: the whole batch, the value without its tangent.

    With `recurse` all transforms are looked through, otherwise the innermost only. For printing and debugging:
    what is computed from the result is no longer part of the transform.
    """
    if not isinstance(tensor, TensorBase):
        raise ValueError(f"debug_unwrap takes a Tensor, not {type(tensor).__name__}")
    while isinstance(tensor.array, Payload):
        tensor = as_tensor(getattr(tensor.array, "primal" if hasattr(tensor.array, "primal") else "value"))
        if not recurse:
            break
    return tensor


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that does as `func` does.

    In torch this rewrites in-place ops into others before tracing; here a trace already has none, because
    values inside transforms never change: a write gives the tensor another value.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "'mutations' and 'mutations_and_views'"
        )

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper
