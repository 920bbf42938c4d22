"""torch's tables of compiled functions, ``torch._C._VariableFunctions`` and its like: they lead to adjoint's own."""

from __future__ import annotations

import importlib
import types
from typing import Any

from .absent import Absent

__all__ = ["TABLES_OF_FUNCTIONS", "VARIABLE_FUNCTIONS"]


class Functions(types.ModuleType):
    """Functions of some of adjoint's rooms, under the names of torch's compiled ones."""

    def __init__(self, name: str, rooms: tuple[str, ...], prefix: str = "") -> None:
        super().__init__(f"torch._C.{name}")
        self.__dict__.update(_rooms=rooms, _prefix=prefix)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not name.startswith(self._prefix):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        short = name.removeprefix(self._prefix)
        for room in self._rooms:
            found = getattr(importlib.import_module(room), short, None)
            if callable(found) and not isinstance(found, Absent):
                return found
        if name.startswith("_"):
            return Absent(f"{self.__name__}.{name}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        names: set[str] = set()
        for room in self._rooms:
            module = importlib.import_module(room)
            names |= {n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n, None))}
        return sorted(self._prefix + name for name in names)


VARIABLE_FUNCTIONS = Functions("_VariableFunctions", ("adjoint", "adjoint.nn.functional"))
TABLES_OF_FUNCTIONS: dict[str, Any] = {
    "_VariableFunctions": VARIABLE_FUNCTIONS,
    "_VariableFunctionsClass": VARIABLE_FUNCTIONS,
    "_linalg": Functions("_linalg", ("adjoint.linalg",), "linalg_"),
    "_fft": Functions("_fft", ("adjoint.fft",), "fft_"),
    "_special": Functions("_special", ("adjoint.special",), "special_"),
    "_sparse": Functions("_sparse", ("adjoint.sparse",), "_sparse_"),
    "_nn": Functions("_nn", ("adjoint.nn.functional", "adjoint")),
}
