"""What code that registers hooks imports from here: `RemovableHandle`, `unserializable_hook`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ..hooks import RemovableHandle

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


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn about every hook of a tensor that saving it will lose unmarked."""
    hooks: Any = getattr(tensor, "_backward_hooks", None) or {}
    for hook in hooks.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can "
                "decorate it with @adjoint.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )
