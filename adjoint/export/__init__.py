"""Programs as fixed lists of primitives: ``export`` runs a module once, and the result can be read, saved and run."""

from ..tree import register_dataclass
from .exported import ExportedProgram, export
from .files import load, save
from .graph_signature import ExportGraphSignature
from .program import ExportError
from .shapes import ShapesCollection
from .sizes import Dim, dims

__all__ = [
    "Dim", "ExportError", "ExportGraphSignature", "ExportedProgram", "ShapesCollection", "dims", "export", "load",
    "register_dataclass", "save",
]  # fmt: skip
