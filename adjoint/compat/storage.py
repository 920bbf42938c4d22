"""Storages by dtype, the older names: ``FloatStorage(3)``, ``isinstance(x.storage(), LongStorage)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.nodes import wrap
from ..ops.memory import TypedStorage, UntypedStorage, typed_storage

__all__ = ["TypedStorage", "UntypedStorage", "_LegacyStorage"]


class _storagetype(type):
    """The class of `FloatStorage` and its like: they make typed storages and recognise them."""

    __module__ = "adjoint"

    dtype: dtypes.dtype

    def __call__(cls, *args: Any) -> Any:
        """Make a storage, of a size or from a sequence."""
        given = args[0] if args else 0
        array = np.zeros(given, cls.dtype.np) if isinstance(given, int) else np.array(given, cls.dtype.np)
        return typed_storage(wrap(array))

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, TypedStorage) and value.dtype is cls.dtype


def _made() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for dtype in dtypes.ALL:
        name = f"{dtype.title}Storage"
        made[name] = _storagetype(name, (), {"dtype": dtype, "__module__": "adjoint", "__doc__": f"Of {dtype.name}."})
    return made


_LegacyStorage = TypedStorage
host = _made()
globals().update(host)
