"""Checks with a custom message: ``torch._check`` and its variants, and ``torch._assert``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "_assert", "_assert_async", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
    "_check_tensor_all", "_check_type", "_check_value", "_check_with",
]  # fmt: skip

Message = str | Callable[[], object] | None


def _assert(condition: Any, message: str) -> Any:
    """Raise an AssertionError unless a condition holds."""
    kind = type(condition)
    if kind is not bool and hasattr(kind, "__torch_function__") and not hasattr(kind, "requires_grad"):
        return kind.__torch_function__(_assert, (kind,), (condition, message), {})  # a value that is not there yet
    assert condition, message


def _assert_async(condition: Any, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise unless a tensor of one element is not zero; there is nothing to wait for here."""
    if not condition:
        raise RuntimeError(message)


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error unless a condition holds; the message is computed only then."""
    if not cond:
        said = message() if callable(message) else message
        raise error_type(str(said) if said is not None else "Expected cond to be True, but got False.")


def _check(cond: Any, message: Message = None) -> None:
    """Raise a RuntimeError unless a condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raise a ValueError unless a condition holds."""
    _check_with(ValueError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raise an IndexError unless a condition holds."""
    _check_with(IndexError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raise a TypeError unless a condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raise a NotImplementedError unless a condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise a RuntimeError unless a condition holds of every element."""
    _check_with(RuntimeError, bool(cond.all()), message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raise a RuntimeError unless a number can be a size."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)
