"""Programs that are compared with torch: the table that a file keeps of them, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Program = Callable[[Any], Any]


class Programs(list[Program]):
    """The programs of a file; called with one, as a decorator, it keeps it."""

    def __call__(self, function: Program) -> Program:
        self.append(function)
        return function


def leaf(T: Any, *values: float) -> Any:
    return T.tensor(list(values) or [1.0, 2.0, 3.0], dtype=T.float64, requires_grad=True)


def about(v: Any) -> Any:
    return v.requires_grad, v.is_leaf, v.grad_fn is not None and v.grad_fn.name(), v._is_view(), v._version


def refusal(function: Callable[[], Any]) -> Any:
    try:
        function()
    except Exception as error:
        return type(error).__mro__[-3].__name__, str(error).split(".")[0]
    return None


def square(T):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    return Square
