"""Calls with reproducible random numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..ops.random import get_rng_state, manual_seed, set_rng_state

__all__ = ["freeze_rng_state", "wrapper_set_seed"]


@contextlib.contextmanager
def freeze_rng_state(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Restore the state of the random number generators after a block."""
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def wrapper_set_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `op` with the same random numbers every time."""
    with freeze_rng_state():
        manual_seed(42)
        return op(*args, **kwargs)
