"""The CPU as a device: NumPy for everything, compiled loops and oneDNN as overrides."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import Array
from ..contract import Device, register
from .memory import place_of
from .table import override

if TYPE_CHECKING:
    from ...compiler.graph import Graph

__all__ = ["CPU", "cpu"]


class CPU(Device):
    """NumPy's arrays; what `attached` imports are its overrides."""

    name = "cpu"
    frontend = "adjoint.cpu"
    classes = (np.ndarray,)
    module = np
    is_host = has_programs = True

    def __init__(self) -> None:
        self.override = override

    def index_of(self, array: Array) -> None:
        """Return None: there is one, and its name has no number."""

    def from_host(self, array: Array, index: int | None = None) -> Array:
        """Return the array itself."""
        return array

    def to_host(self, array: Array) -> np.ndarray:
        """Return the array itself."""
        return array  # type: ignore[return-value]

    def address_of(self, array: Array) -> int:
        """Return the address of an array's first element."""
        return place_of(array)

    @property
    def special(self) -> ModuleType:
        """SciPy's, if it is installed."""
        from scipy import special

        return special

    def program(self, graph: Graph, kernels: Any) -> object:
        """Return a graph as fused loops and library calls."""
        from ...compiler.program import Program  # the compiler targets devices, and stands below them

        return Program(graph, kernels)


cpu = register(CPU())
