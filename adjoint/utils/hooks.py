"""What code that registers hooks imports from here: `RemovableHandle`, `unserializable_hook`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..core.handles import RemovableHandle, warn_if_has_hooks

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

_F = TypeVar("_F", bound=Callable[..., Any])


def unserializable_hook(f: _F) -> _F:
    """Mark a hook as one that is meant to be lost when its tensor is saved: saving does not warn about it.

    Examples
    --------
    >>> from adjoint.utils.hooks import unserializable_hook
    >>> @unserializable_hook
    ... def double(g):
    ...     return 2 * g
    >>> double.__torch_unserializable__
    True
    """
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f
