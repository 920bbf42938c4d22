"""The names of ``torch.distributed.elastic`` that programs use; ``torchrun`` and ``adjoint launch`` do the work."""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from typing import Any

from .._paths import lead_to

__all__ = ["ChildFailedError", "record"]


class ChildFailedError(Exception):
    """A process of a job failed."""


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """Return a function that writes its error to the file that ``torchrun`` reads."""

    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            path = os.environ.get("TORCHELASTIC_ERROR_FILE")
            if path:
                told = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
                message = {"message": f"{type(error).__name__}: {error}", "extraInfo": told}
                with open(path, "w") as file:
                    json.dump({"message": message}, file)
            raise

    return recorded


lead_to("adjoint.distributed", {"elastic": "elastic.multiprocessing elastic.multiprocessing.errors"})
