"""The overrides of the CPU: NumPy's definitions are replaced by what is attached here."""

from __future__ import annotations

from ..overrides import Overrides

override = Overrides()
