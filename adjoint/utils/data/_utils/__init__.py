"""What torch keeps under this name and programs import: collation."""

from __future__ import annotations

from . import collate

__all__ = ["collate"]
