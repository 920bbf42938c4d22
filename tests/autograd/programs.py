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


def attempt(function: Callable[[], Any]) -> Any:
    """Return what a function returns, or the error that it raises."""
    try:
        return function()
    except Exception as error:
        return error


def custom(T: Any, forward: Any = None, backward: Any = None, name: str = "Fn", **rest: Any) -> Any:
    """Return a custom function made of functions; what else is given and callable is a static method, too."""
    members = {"forward": forward, "backward": backward} | rest
    body = {k: staticmethod(v) if callable(v) else v for k, v in members.items() if v is not None}
    return type(name, (T.autograd.Function,), body)


def saving_square(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def squared_gradient(ctx: Any, g: Any) -> Any:
    return 2 * ctx.saved_tensors[0] * g


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
