"""The public functions of all op rooms, as ``adjoint.NAME``."""

from __future__ import annotations

from typing import Any

from . import convert, create, elementwise, index, linalg, random, reduce, shape

_ROOMS = (create, random, elementwise, reduce, shape, index, linalg)


def _is_public(room: Any, name: str) -> bool:
    value = getattr(room, name)
    return not name.startswith("_") and not name.endswith("_p") and getattr(value, "__module__", None) == room.__name__


_names = {name: getattr(room, name) for room in _ROOMS for name in vars(room) if _is_public(room, name)}
globals().update(_names)
__all__ = list(_names)
from_dlpack = convert.from_dlpack
