"""Names that programs import from torch's module of this name: collation."""

from __future__ import annotations

from . import collate

__all__ = ["collate"]
