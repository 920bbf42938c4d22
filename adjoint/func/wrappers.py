"""Looking through transforms: `debug_unwrap` and `functionalize`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.payload import Payload
from ..core.tensor import TensorBase
from .values import as_tensor


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
