"""Constant functions: they return the same value for all arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

__all__ = ["answer", "context", "decorator", "no", "nothing", "same"]


def same(value: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the argument."""
    return value


def decorator(*args: Any, **kwargs: Any) -> Any:
    """Return a function unchanged, also when used as a decorator with arguments."""
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    return same


def nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def no(*args: Any, **kwargs: Any) -> bool:
    """Return False."""
    return False


@contextlib.contextmanager
def context(*args: Any, **kwargs: Any) -> Any:
    """Enclose a block, and do nothing else."""
    yield


def answer(value: Any) -> Callable[..., Any]:
    """Return a function that always returns `value`."""
    return lambda *args, **kwargs: value
