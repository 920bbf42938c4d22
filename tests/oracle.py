"""Running one program on adjoint and on torch, and comparing everything a user would notice."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint

try:
    import torch
except ImportError:  # the oracle is optional: without it, differential tests are skipped
    torch = None  # type: ignore[assignment]

needs_torch = pytest.mark.skipif(torch is None, reason="torch 2.13.0, the oracle, is not installed")


def outcome(program: Callable[[Any], Any], module: Any) -> tuple[str, Any]:
    """Return what a program did: ("value", plain values) or ("error", class name, message)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "value", plain(program(module))
        except Exception as error:
            return "error", (_class_name(error), str(error))


def _class_name(error: Exception) -> str:
    """Return the nearest built-in class of an error: adjoint's own classes derive from torch's."""
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins":
            return kind.__name__
    return type(error).__name__


def plain(value: Any) -> Any:
    """Return a value in words that both modules share."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "detach") and hasattr(value, "requires_grad"):
        return np.array(value.detach().tolist()), list(value.shape), str(value.dtype).rpartition(".")[2]
    if isinstance(value, Exception):
        return _class_name(value), key_phrase(str(value))
    if isinstance(value, str):
        return re.sub(r"0x[0-9a-f]+", "", value).replace("torch.", "adjoint.")
    return value


def same(program: Callable[[Any], Any], tolerance: float = 1e-6) -> None:
    """Assert that a program does on adjoint what it does on torch; key phrases of errors included."""
    if torch is None:  # a test whose decorator was forgotten must not fail on a machine without the oracle
        pytest.skip("torch 2.13.0, the oracle, is not installed")
    kind, mine = outcome(program, adjoint)
    expected_kind, theirs = outcome(program, torch)
    assert kind == expected_kind, f"adjoint: {kind} {mine}; torch: {expected_kind} {theirs}"
    if kind == "error":
        assert mine[0] == theirs[0], f"adjoint raised {mine}, torch {theirs}"
        return
    close(mine, theirs, tolerance)


def key_phrase(message: str) -> str:
    """Return the first sentence of a message, which users match on; what follows is adjoint's own."""
    message = re.sub(r"0x[0-9a-f]+", "", message.strip().replace("torch", "adjoint"))
    return re.split(r"\n|(?<=[a-z)'])[.:;](?=[ A-Z(]|$)", message)[0][:110]


def alike(program: Callable[[Any], Any], tolerance: float = 1e-6) -> None:
    """Assert what `same` does, and that key phrases of errors and warnings are torch's."""
    (mine, warned), (theirs, expected) = (_watched(program, module) for module in (adjoint, torch))
    assert mine[0] == theirs[0], f"adjoint: {mine}; torch: {theirs}"
    close(mine[1], theirs[1], tolerance)
    assert warned == expected, f"adjoint warned of {warned}, torch of {expected}"


def _watched(program: Callable[[Any], Any], module: Any) -> tuple[tuple[str, Any], Any]:
    found: tuple[str, Any]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")  # torch imports what does so
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's
        try:
            found = "value", plain(program(module))
        except Exception as error:
            found = "error", plain(error)
        finally:
            module.set_grad_enabled(True)
    return found, sorted({(w.category.__name__, key_phrase(str(w.message))) for w in told})


def close(mine: Any, theirs: Any, tolerance: float) -> None:
    """Assert that two plain values are equal, numbers to a tolerance."""
    if isinstance(mine, dict):
        assert mine.keys() == theirs.keys()
        for key in mine:
            close(mine[key], theirs[key], tolerance)
    elif isinstance(mine, list | tuple):
        assert len(mine) == len(theirs), f"{mine} against {theirs}"
        for a, b in zip(mine, theirs, strict=True):
            close(a, b, tolerance)
    elif isinstance(mine, np.ndarray):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    elif isinstance(mine, float):
        assert mine == pytest.approx(theirs, rel=tolerance, abs=tolerance, nan_ok=True)
    else:
        assert mine == theirs, f"adjoint: {mine!r}; torch: {theirs!r}"
