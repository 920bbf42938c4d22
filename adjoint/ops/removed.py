"""Functions that torch once had: calling one says what to call instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._typing import Tensor

__all__ = ["eig", "lstsq", "matrix_rank", "solve", "symeig"]


def _gone(name: str, instead: str) -> Callable[..., Any]:
    def function(*args: object, **kwargs: Any) -> Tensor:
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed: call {instead} in place of {name}"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raise: torch removed `{name}`; there is {instead}."
    return function


eig = _gone("eig", "adjoint.linalg.eig(A), whose result is complex")
lstsq = _gone("lstsq", "adjoint.linalg.lstsq(A, B), whose arguments are in the other order")
matrix_rank = _gone("matrix_rank", "adjoint.linalg.matrix_rank(A)")
solve = _gone("solve", "adjoint.linalg.solve(A, B), whose arguments are in the other order")
symeig = _gone("symeig", "adjoint.linalg.eigh(A)")
