"""What the program calls a tensor: a variable of the caller, or a parameter of a module that it can see."""

from __future__ import annotations

from types import FrameType
from typing import Any

from ..core.tensor import TensorBase
from ..errors import describe

__all__ = ["Names"]


class Names:
    """The names of tensors in a frame and at its module's level, at one moment."""

    def __init__(self, frame: FrameType | None) -> None:
        self.found: dict[int, str] = {}
        if frame is None:
            return
        for space in (frame.f_locals, frame.f_globals):
            modules = []
            for name, value in space.items():
                if name.startswith("_") or not name.isidentifier():
                    continue
                if isinstance(value, TensorBase):
                    self.found.setdefault(id(value), name)
                elif hasattr(type(value), "named_parameters"):
                    modules.append((name, value))
            for name, module in modules:
                for path, parameter in module.named_parameters():
                    self.found.setdefault(id(parameter), f"{name}.{path}")

    def of(self, x: Any) -> str:
        """Return a tensor's name and what it is, as ``w (float32[3])``; without a name only that."""
        name = self.found.get(id(x))
        return f"{name} ({describe(x)})" if name else describe(x)
