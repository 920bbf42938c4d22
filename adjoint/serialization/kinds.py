"""What a checkpoint may hold besides tensors, and the classes that a program adds to that."""

from __future__ import annotations

from typing import Any

from .._paths import home_of

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

_added: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` make instances of these classes, and call these functions, where a file names them.

    An element is a class or function, or one with the name it has in files: ``(Config, "old.module.Config")``.
    """
    for entry in safe_globals:
        if entry not in _added:
            _added.append(entry)


def get_safe_globals() -> list[Any]:
    """Return what was added."""
    return list(_added)


def clear_safe_globals() -> None:
    """Forget what was added."""
    _added.clear()


class safe_globals:
    """Let `load` make objects of more classes within a ``with`` block.

    Parameters
    ----------
    safe_globals : list
        The classes, or pairs of a class and the name that files give it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> with adjoint.serialization.safe_globals([Fraction]):
    ...     Fraction in adjoint.serialization.get_safe_globals()
    True
    >>> Fraction in adjoint.serialization.get_safe_globals()
    False
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self._entries = safe_globals

    def __enter__(self) -> None:
        self._before = list(_added)
        add_safe_globals(self._entries)

    def __exit__(self, *error: Any) -> None:
        _added[:] = self._before


def added_by_name() -> dict[tuple[str, str], Any]:
    """Return what was added under the module and name that files have for it."""
    found: dict[tuple[str, str], Any] = {}
    for entry in _added:
        value, name = entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
        module, _, last = name.rpartition(".")
        found[module, last] = value
        if module.split(".")[0] == "adjoint":  # as torch's files call it
            found["torch" + module.removeprefix("adjoint"), last] = value
            found[home_of(module, last), last] = value
    return found
