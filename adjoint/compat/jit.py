"""``torch.jit`` for programs that script themselves: functions and modules run as the Python they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeVar

from ..nn import Module

__all__ = [
    "Attribute", "Final", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "annotate", "enable_onednn_fusion",
    "export", "fork", "freeze", "fuser", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "optimize_for_inference", "optimized_execution", "save", "script", "script_if_tracing", "script_method",
    "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

_T = TypeVar("_T")
_isinstance = isinstance


def script(obj: _T, *args: Any, **kwargs: Any) -> _T:
    """Return the function or module as it is: it runs as Python.

    Examples
    --------
    >>> adjoint.jit.script(len) is len
    True
    """
    return obj


def trace(func: _T, example_inputs: Any = None, *args: Any, **kwargs: Any) -> _T:
    """Return the function or module as it is: no trace is taken."""
    return func


def trace_module(mod: _T, inputs: Any = None, *args: Any, **kwargs: Any) -> _T:
    """Return the module as it is."""
    return mod


def freeze(mod: _T, *args: Any, **kwargs: Any) -> _T:
    """Return the module as it is."""
    return mod


def _same(fn: _T) -> _T:
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return a function as it is; also as ``@ignore(drop=True)``."""
    return drop if callable(drop) else _same


def annotate(the_type: Any, the_value: _T) -> _T:
    """Return the value: the type is for a compiler."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether an object is of a type."""
    return _isinstance(obj, target_type)


def is_scripting() -> bool:
    """Return False: everything runs as Python."""
    return False


def is_tracing() -> bool:
    """Return False: nothing is being traced."""
    return False


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function now, and return what it returns, for `wait`."""
    return func(*args, **kwargs)


def wait(future: _T) -> _T:
    """Return what `fork` returned."""
    return future


def save(m: Any, f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there are no script archives here."""
    raise NotImplementedError("jit.save writes programs for C++; save(model.state_dict(), f) keeps what was learnt")


def load(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise: a script archive holds a program."""
    raise NotImplementedError(
        "jit.load reads programs for C++, which adjoint does not run; save the model's state_dict() and load that"
    )


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Enclose a block, and do nothing else."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """Enclose a block, and do nothing else."""
    yield


@contextlib.contextmanager
def strict_fusion() -> Iterator[None]:
    """Enclose a block, and do nothing else."""
    yield


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Do nothing; return the strategy before, which is none."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing."""


script_if_tracing = export = unused = interface = script_method = _same
optimize_for_inference = freeze
_overload = _overload_method = _script_if_tracing = _same


class ScriptModule(Module):
    """A module; that it is scripted changes nothing."""


class RecursiveScriptModule(ScriptModule):
    """A class that no module has: for ``isinstance``."""


class ScriptFunction:
    """A class that no function has: for ``isinstance``."""


class Attribute:
    """A value and its type, for a compiler."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type
