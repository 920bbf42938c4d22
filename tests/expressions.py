"""Expressions in the word ``torch``, evaluated with adjoint and with torch, and compared as a user sees them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import adjoint

from .oracle import torch


class Seen(NamedTuple):
    """What evaluating an expression showed: its text, or the class of the error."""

    text: str
    warned: tuple[str, ...]


def evaluate(expression: str, module: Any, names: Mapping[str, Any] = {}) -> Seen:
    """Evaluate an expression with a module in the place of ``torch``."""
    module.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of overflow, which adjoint's own filter hides
        try:
            value = eval(expression, {"torch": module, "np": np, **names})
            text = f"{value!r} {getattr(value, 'dtype', '') if not isinstance(value, type) else ''}"
        except Exception as error:
            text = f"raised {type(error).__name__}"
    text = re.sub(r"0x[0-9a-f]+", "0x", text.replace("adjoint.", "torch.")).strip()
    return Seen(text, tuple(w.category.__name__ for w in caught))


def agree(expression: str, names: Mapping[str, Any] = {}) -> None:
    """Assert that an expression shows the same with adjoint as with torch: text, dtype, error class, warnings."""
    mine, theirs = evaluate(expression, adjoint, names), evaluate(expression, torch, names)
    assert mine == theirs, f"{expression}\nadjoint: {mine}\ntorch:   {theirs}"


def lines(text: str) -> list[str]:
    """Return the expressions of a table, one per line."""
    return [line.strip() for line in text.strip().splitlines() if line.strip()]
