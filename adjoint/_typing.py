"""What type checkers know and the running program need not: the rooms before `tensor` speak of its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tensor import Tensor
else:
    Tensor = Any

__all__ = ["Tensor"]
