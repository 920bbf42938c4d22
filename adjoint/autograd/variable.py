"""`Variable`, torch's old name for a tensor, and the handle on the engine that some programs use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core import tasks
from ..core.tensor import TensorBase
from ..ops import create


class _ImperativeEngine:
    """The API of ``Variable._execution_engine``."""

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
    """The old name of `Tensor`.

    Tensors record by themselves: ``adjoint.tensor(data, requires_grad=True)`` is the form of today. ``isinstance(x,
    Variable)`` is true of every tensor.

    Parameters
    ----------
    data : Tensor, optional
        The returned tensor shares its memory. Without it the tensor is empty.
    requires_grad : bool, default False
        Whether to record what is computed from it.
    volatile : bool, default False
        Ignored, with a warning; use `no_grad`.

    Examples
    --------
    >>> x = adjoint.autograd.Variable(adjoint.ones(2), requires_grad=True)
    >>> (3 * x).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """

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
