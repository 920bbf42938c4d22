"""The newcomer's command: a small network learns to read digits, and a page shows how."""

from __future__ import annotations

from .digits import digits
from .progress import Progress
from .show import demonstrate

__all__ = ["Progress", "demonstrate", "digits"]
