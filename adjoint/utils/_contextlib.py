"""Contexts that decorate functions too, generators among them: the base of `no_grad` under torch's names."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import _DecoratorContextManager, _NoParamDecoratorContextManager

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]


class _Made(_DecoratorContextManager):
    """A context that a function makes for each call."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def clone(self) -> Any:
        """Return a fresh context."""
        return self.make()


def context_decorator(ctx: Any, func: Any) -> Any:
    """Return a function that runs inside a context: `ctx` makes one, or is one that can be entered again."""
    makes = isinstance(ctx, type) or not hasattr(ctx, "__enter__")
    return _Made(ctx if makes else lambda: ctx)(func)
