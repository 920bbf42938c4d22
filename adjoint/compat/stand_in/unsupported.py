"""What stands for a name of torch that adjoint does not offer: it can be imported and mentioned, not used."""

from __future__ import annotations

import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Unsupported", "UnsupportedModule", "unsupported"]


class Unsupported:
    """A name that is not offered: calling it raises; as a type it has no instances, as a base class no effect."""

    __all__: tuple[str, ...] = ()  # as a module, nothing is in it

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self.__module__ = name.rpartition(".")[0]
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: there is nothing to call; but a check for its presence returns False."""
        if self.__name__.startswith(("has_", "is_")) and not args:
            return False
        raise NotImplementedError(
            f"{self._name} is not offered by adjoint, which runs this program in torch's place; "
            "the program can import the name, but not use it"
        )

    def __getattr__(self, name: str) -> Unsupported:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unsupported(f"{self._name}.{name}")

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (_Base,)

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __subclasscheck__(self, cls: Any) -> bool:
        return False

    def __getitem__(self, item: Any) -> Unsupported:
        return self

    def __iter__(self) -> Iterator[Any]:
        if ".testing._internal." in self._name:  # a table of cases, which has none here
            return iter(())
        raise NotImplementedError(f"{self._name} is not offered by adjoint: there is nothing in it to go over")

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __bool__(self) -> bool:
        return False  # as a flag, what is not offered is off

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unsupported) and other._name == self._name

    def __repr__(self) -> str:
        return f"<{self._name}, which adjoint does not offer>"


class UnsupportedDecorator(Unsupported):
    """A decorator of tests that is not offered: it skips tests of what is not here, and leaves others as they are."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the test, skipped or not, or what does that to the test that comes next."""
        if len(args) == 1 and not kwargs and isinstance(args[0], type | types.FunctionType):
            wanting = self.__name__.startswith(_WANTING)
            return unittest.skip(f"{self._name} is not offered by adjoint")(args[0]) if wanting else args[0]
        return self


_WANTING = ("skipIfNo", "skipUnless", "requires", "skip_if_no", "skip_unless", "require_", "skip_but_pass")
_DECORATING = (*_WANTING, "skip", "xfail", "expectedFailure", "only", "with_", "unMark", "slow", "serial", "dont")


def unsupported(name: str) -> Unsupported:
    """Return what stands for a name: torch's helpers for tests have decorators, which are used when a file is read."""
    word = name.rpartition(".")[2]
    tests = ".testing._internal." in name
    return UnsupportedDecorator(name) if tests and word.startswith(_DECORATING) else Unsupported(name)


class _Base:
    """The base class that stands for one that is unsupported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} is based on a class of torch that adjoint does not offer")


class UnsupportedModule(types.ModuleType):
    """A module that is not offered: every name in it is `Unsupported`, apart from those that do no harm."""

    def __init__(
        self, name: str, offered: dict[str, Any], inside: Callable[[str], types.ModuleType | None] | None = None
    ) -> None:
        super().__init__(name, f"What programs import of {name}, which adjoint does not offer.")
        self.__path__: list[str] = []  # so that it may have modules in it
        self.__dict__.update(offered)
        self.__all__ = [word for word in offered if not word.startswith("_")]
        self._inside = inside

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module = self._inside(f"{self.__name__}.{name}") if self._inside is not None else None
        if module is not None:
            return module
        return unsupported(f"{self.__name__}.{name}")
