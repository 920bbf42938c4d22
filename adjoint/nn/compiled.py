"""A module that runs compiled: what ``adjoint.compile(module)`` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .modules.module import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """A compiled module: holds the original as `_orig_mod`, and calls its compiled form.

    Parameters, training mode and attributes are those of the module; keys of the state dict start with
    ``_orig_mod.``, as in torch.
    """

    _orig_mod: Module

    def __init__(self, module: Module, compiled: Callable[..., Any]) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["compiled"] = compiled
        self.__dict__["training"] = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled form of the module."""
        return self.compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            return getattr(self._orig_mod, name)
