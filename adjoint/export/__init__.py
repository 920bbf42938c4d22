"""Programs as fixed lists of primitives: ``export`` runs a module once, and what it did can be read, saved and run."""

from .exported import ExportedProgram, ExportGraphSignature, export
from .files import load, save
from .program import ExportError
from .sizes import Dim

__all__ = ["Dim", "ExportError", "ExportGraphSignature", "ExportedProgram", "export", "load", "save"]
