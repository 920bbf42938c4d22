"""Signal processing: ``adjoint.signal``."""

from . import windows

__all__ = ["windows"]
