"""`Functional`: the base of layers without parameters, which are a function of their input and of a few options."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from .. import functional as F
from .module import Module


class Functional(Module):
    """A layer that calls one function of ``nn.functional``.

    `_function` names it, `_options` the attributes that it takes after the input, `_shown` those of the layer's text.
    """

    _function: str
    _options: list[str] = []
    _shown: list[str] | None = None  # all options

    def forward(self, input: Tensor) -> Any:
        """Return the function of `input`."""
        return getattr(F, self._function)(input, *[getattr(self, name) for name in self._options])

    def extra_repr(self) -> str:
        """Return the options; working in place is shown only where it is on."""
        names = self._options if self._shown is None else self._shown
        parts = [f"{name}={getattr(self, name)}" for name in names if name != "inplace"]
        return ", ".join([*parts, *(["inplace=True"] if getattr(self, "inplace", False) else [])])
