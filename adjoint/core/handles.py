"""Handles that remove a registered hook, and the warning for saving a tensor with hooks."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

_ids = itertools.count().__next__


class RemovableHandle:
    """The result of registering a hook: `remove` removes the hook, and so does the end of a ``with`` block.

    Parameters
    ----------
    hooks : dict
        Where the hook is registered, by number. It is held weakly where that is possible.
    hook : callable, optional
        Put into `hooks` under the handle's number, `id`.
    extra_dict : dict or list of dict, optional
        Further dicts to take the number out of.

    Raises
    ------
    TypeError
        If `hook` is not callable.

    Examples
    --------
    >>> layer = adjoint.nn.Linear(2, 1)
    >>> handle = layer.register_forward_hook(lambda module, args, output: print("called"))
    >>> _ = layer(adjoint.ones(2))
    called
    >>> handle.remove()
    >>> _ = layer(adjoint.ones(2))
    >>> with layer.register_forward_hook(lambda module, args, output: print("called")):
    ...     _ = layer(adjoint.ones(2))
    called
    """

    def __init__(
        self, hooks: dict[int, Any], hook: Callable[..., Any] | None = None, *, extra_dict: Any = None
    ) -> None:
        self.id = _ids()
        self._hooks: Any = hooks
        # Further dicts that may hold the hook's number, such as those that say how to call it.
        self._extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        if hook is not None:
            if not callable(hook):
                raise TypeError(f"a hook must be callable, not {type(hook).__name__}")
            hooks[self.id] = hook

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        hooks = self._hooks() if isinstance(self._hooks, weakref.ref) else self._hooks
        if hooks is not None:
            hooks.pop(self.id, None)
        for marks in self._extra:
            marks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def warn_if_has_hooks(tensor: object) -> None:
    """Warn about every hook of a tensor that saving it will lose unmarked."""
    hooks: Any = getattr(tensor, "_backward_hooks", None) or {}
    for hook in hooks.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can "
                "decorate it with @adjoint.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=3,
            )
