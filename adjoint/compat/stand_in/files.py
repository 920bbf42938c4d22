"""``torch.save`` and ``torch.load`` as programs for torch call them: whole objects too, if the caller trusts them."""

from __future__ import annotations

import io
import pickle
from typing import Any

from ...serialization import files, whole
from ...serialization.sources import FileFormatError, replacing

__all__ = ["load", "save"]


def save(obj: Any, f: Any, pickle_module: Any = None, *args: Any, **kwargs: Any) -> None:
    """Save in torch's format: plain data as `adjoint.save` does; what that refuses, such as a module, by its class."""
    if pickle_module not in (None, pickle):
        files.save(obj, f, pickle_module, *args, **kwargs)
        return
    start = f.tell() if isinstance(f, io.IOBase) and f.seekable() else None
    try:
        files.save(obj, f, None, *args, **{"format": "pt", **kwargs})
    except TypeError:
        if start is not None:
            f.seek(start)
            f.truncate()
        with replacing(f) as stream:
            whole.write(obj, stream)


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, **kwargs: Any
) -> Any:
    """Load as `adjoint.load` does; pickles of whole objects require ``weights_only=False``."""
    start = f.tell() if hasattr(f, "tell") else None
    try:
        return files.load(f, map_location, weights_only=True, **kwargs)
    except FileFormatError as error:
        if weights_only is not False:
            reason = str(error).removeprefix("Weights only load failed: ")
            raise FileFormatError(
                f"Weights only load failed: {reason}. Re-running `torch.load` with `weights_only` set to `False` will "
                "likely succeed, but it can result in arbitrary code execution. Do it only if you got the file from a "
                "trusted source."
            ) from error
        if start is not None:
            f.seek(start)
        return files.load(f, map_location, pickle_module or pickle, weights_only=False)
