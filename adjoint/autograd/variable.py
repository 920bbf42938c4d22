"""`Variable`, torch's old name for a tensor, and the handle on the engine that some programs use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core import tasks
from ..core.tensor import TensorBase
from ..ops import create


class _ImperativeEngine:
    """What ``Variable._execution_engine`` offers."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call `callback` when the backward pass that is running now has ended."""
        task = tasks.current_task()
        if task is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        task.callbacks.append(callback)


class _VariableMeta(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, TensorBase)


class Variable(metaclass=_VariableMeta):
    """A tensor; ``Variable(x, requires_grad=True)`` returns one that shares the memory of `x`."""

    _execution_engine = _ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        """Return a tensor that shares the memory of `data`."""
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with adjoint.no_grad():` instead.", stacklevel=2
            )
        out = create.tensor([]) if data is None else data.detach()
        if requires_grad:
            create.require_grad(out)
        return out


__all__ = ["Variable"]
