"""Seeds on the GPU: all devices draw from the generator of the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ops import random as host

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def manual_seed(seed: int) -> None:
    """Do nothing: `adjoint.manual_seed` seeds the generator that GPUs draw from too."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: `adjoint.manual_seed` seeds the generator that GPUs draw from too."""


def seed() -> None:
    """Do nothing: `adjoint.seed` seeds the generator that GPUs draw from too."""


def seed_all() -> None:
    """Do nothing: `adjoint.seed` seeds the generator that GPUs draw from too."""


def initial_seed() -> int:
    """Return the seed of the generator that GPUs draw from."""
    return host.initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """Return the state of the generator that GPUs draw from."""
    return host.get_rng_state()


def get_rng_state_all() -> list[Any]:
    """Return the state of the generator that GPUs draw from, once."""
    return [host.get_rng_state()]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Set the state of the generator that GPUs draw from."""
    host.set_rng_state(new_state)


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Set the state of the generator that GPUs draw from."""
    for state in new_states:
        host.set_rng_state(state)
