"""The one error that a damaged, foreign or hostile file raises."""

from __future__ import annotations

import pickle

__all__ = ["FileFormatError"]


class FileFormatError(pickle.UnpicklingError, RuntimeError):
    """A file is damaged, of an unknown kind, or asks for what loading never does; nothing of it was run.

    It is both of what ``torch.load`` raises for such files, `pickle.UnpicklingError` and `RuntimeError`.
    """
