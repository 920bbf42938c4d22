"""What type checkers know and the running program need not: the rooms before `tensor` speak of its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tensor import Tensor

    method: Callable[[Tensor], Tensor]  # a primitive of one input, and one of two, as users call them
    operator: Callable[[Tensor, Any], Tensor]
else:
    Tensor = Any

Number = Any  # of Python or NumPy, or a tensor without dimensions

__all__ = ["Number", "Tensor"]
