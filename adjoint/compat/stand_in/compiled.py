"""torch's other tables of its functions, compiled (``torch._C._VariableFunctions``) or in Python (``torch._refs``).

All lead to adjoint's own functions: there is one of each here.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

from .unsupported import Unsupported

__all__ = ["REFERENCES", "TABLES_OF_FUNCTIONS", "VARIABLE_FUNCTIONS"]


class Functions(types.ModuleType):
    """Functions of some of adjoint's modules, under the names of torch's compiled ones."""

    def __init__(self, name: str, modules: tuple[str, ...], prefix: str = "", methods: bool = False) -> None:
        super().__init__(f"torch.{name}")
        self.__dict__.update(_modules=modules, _prefix=prefix, _methods=methods, __path__=[])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not name.startswith(self._prefix):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        short = name.removeprefix(self._prefix)
        for module_name in self._modules:
            found = getattr(importlib.import_module(module_name), short, None)
            if callable(found) and not isinstance(found, Unsupported):
                return found
        method = getattr(importlib.import_module("adjoint").Tensor, short, None) if self._methods else None
        if callable(method):
            return method
        if name.startswith("_") or self.__name__.startswith("torch._refs"):
            return Unsupported(f"{self.__name__}.{name}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        names: set[str] = set()
        for module_name in self._modules:
            module = importlib.import_module(module_name)
            names |= {n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n, None))}
        return sorted(self._prefix + name for name in names)


VARIABLE_FUNCTIONS = Functions("_C._VariableFunctions", ("adjoint", "adjoint.nn.functional"))
TABLES_OF_FUNCTIONS: dict[str, Any] = {
    "_VariableFunctions": VARIABLE_FUNCTIONS,
    "_VariableFunctionsClass": VARIABLE_FUNCTIONS,
    "_linalg": Functions("_C._linalg", ("adjoint.linalg",), "linalg_"),
    "_fft": Functions("_C._fft", ("adjoint.fft",), "fft_"),
    "_special": Functions("_C._special", ("adjoint.special",), "special_"),
    "_sparse": Functions("_C._sparse", ("adjoint.sparse",), "_sparse_"),
    "_nn": Functions("_C._nn", ("adjoint.nn.functional", "adjoint")),
}

REFERENCES: dict[str, Functions] = {
    "_refs": Functions("_refs", ("adjoint", "adjoint.nn.functional"), methods=True),
    "_refs.nn": Functions("_refs.nn", ()),
    "_refs.nn.functional": Functions("_refs.nn.functional", ("adjoint.nn.functional", "adjoint")),
    "_refs.linalg": Functions("_refs.linalg", ("adjoint.linalg",)),
    "_refs.fft": Functions("_refs.fft", ("adjoint.fft",)),
    "_refs.special": Functions("_refs.special", ("adjoint.special",)),
    "_refs._conversions": Functions("_refs._conversions", ("adjoint",), methods=True),
}
for _name, _table in REFERENCES.items():
    _home, _, _word = _name.rpartition(".")
    if _home:
        setattr(REFERENCES[_home], _word, _table)
