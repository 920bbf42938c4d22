"""Functions that torch once had: calling one says what to call instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["eig", "lstsq", "matrix_rank", "solve", "symeig"]


def _gone(name: str, instead: str, example: str) -> Callable[..., NoReturn]:
    def function(*args: object, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed: call {instead} in place of {name}"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Raise: torch removed `{name}`; there is {instead}.

    Raises
    ------
    RuntimeError
        Always; the message names the function to call.

    Examples
    --------
    >>> A = adjoint.tensor([[2.0, 0.0], [0.0, 4.0]])
    {example}
    """
    return function


eig = _gone(
    "eig",
    "adjoint.linalg.eig(A), whose result is complex",
    """>>> adjoint.linalg.eig(A).eigenvalues
    tensor([2.+0.j, 4.+0.j])""",
)
lstsq = _gone(
    "lstsq",
    "adjoint.linalg.lstsq(A, B), whose arguments are in the other order",
    """>>> adjoint.linalg.lstsq(A, adjoint.tensor([[2.0], [2.0]])).solution
    tensor([[1.0000],
            [0.5000]])""",
)
matrix_rank = _gone(
    "matrix_rank",
    "adjoint.linalg.matrix_rank(A)",
    """>>> adjoint.linalg.matrix_rank(A)
    tensor(2)""",
)
solve = _gone(
    "solve",
    "adjoint.linalg.solve(A, B), whose arguments are in the other order",
    """>>> adjoint.linalg.solve(A, adjoint.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])""",
)
symeig = _gone(
    "symeig",
    "adjoint.linalg.eigh(A)",
    """>>> adjoint.linalg.eigh(A).eigenvalues
    tensor([2., 4.])""",
)
