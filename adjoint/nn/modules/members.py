"""What a module keeps its members and hooks in: dicts that tell the module when they change.

A parameter, buffer or child lives in `_parameters`, `_buffers` or `_modules`. Reading it through
``__getattr__`` would cost a Python call each time, so `Members` also writes it into the module's
``__dict__``: programs that change `_parameters` directly are seen, and a read costs a dict lookup.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

REGISTRIES = ("_parameters", "_buffers", "_modules")
_MISSING = object()


class Members(dict[str, Any]):
    """The members of one kind of one module; whatever is written here can be read from the module."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any, members: Mapping[str, Any] | None = None) -> None:
        super().__init__(members or {})
        self._owner = weakref.ref(owner)
        owner.__dict__.update(self)

    def belongs_to(self, module: Any) -> bool:
        """Return whether these are the members of `module`, not those of one it was copied from."""
        return self._owner() is module

    def _attributes(self) -> dict[str, Any]:
        owner = self._owner()
        return {} if owner is None else owner.__dict__

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._attributes()[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._attributes().pop(name, None)

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        """Take a member out and return it."""
        if name not in self and default is not _MISSING:
            return default
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last member out."""
        name, value = super().popitem()
        self._attributes().pop(name, None)
        return name, value

    def clear(self) -> None:
        """Take all members out."""
        for name in list(self):
            del self[name]

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a member, put there first if it is missing."""
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, other: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **members: Any) -> None:  # type: ignore[override]
        """Put several members in."""
        for name, value in dict(other, **members).items():
            self[name] = value

    def __ior__(self, other: Any) -> Members:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # copies and pickles are plain; the module that gets one links it


class Hooks(OrderedDict[int, Any]):
    """Hooks by the number of their handle; `on_change` hears of each one that is put in."""

    def __init__(self, on_change: Callable[[], None], hooks: Mapping[int, Any] | None = None) -> None:
        self.on_change = on_change
        super().__init__(hooks or {})

    def __setitem__(self, key: int, hook: Any) -> None:
        super().__setitem__(key, hook)
        self.on_change()

    def __reduce__(self) -> Any:
        return OrderedDict, (list(self.items()),)


def hooks_of(module: Any, hooks: Mapping[int, Any] | None = None) -> Hooks:
    """Return a dict of hooks that marks `module` as having some when it gets one."""
    ref = weakref.ref(module)

    def mark() -> None:
        owner = ref()
        if owner is not None:
            owner.__dict__["_hooked"] = True

    return Hooks(mark, hooks)
