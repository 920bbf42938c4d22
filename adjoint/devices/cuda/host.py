"""Where ops find `through_host` until they import it from the contract."""

from __future__ import annotations

from ..contract import through_host as through_host
from ..contract import through_host_names as names

__all__ = ["names", "through_host"]
