"""Generators of random numbers: each is a stream on the CPU, from which other devices get their seeds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._typing import Array, Tensor
from ..devices.cpu.random import Stream
from .device import as_device
from .nodes import wrap
from .observation import opaque
from .tensor import TensorBase

__all__ = [
    "Generator", "Stream", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]  # fmt: skip


class Generator:
    """A source of random numbers with a state of its own.

    For a seed the numbers are PyTorch's. Functions take it as ``generator=``; the default one is `manual_seed`'s.

    Parameters
    ----------
    device : device or str, default "cpu"
        Where the tensors are that it fills.

    Examples
    --------
    >>> g = adjoint.Generator().manual_seed(0)
    >>> adjoint.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    >>> state = g.get_state()
    >>> a = adjoint.rand(2, generator=g)
    >>> adjoint.equal(adjoint.rand(2, generator=g.set_state(state)), a)
    True
    """

    __module__ = "adjoint"

    def __init__(self, device: Any = "cpu") -> None:
        self.device = as_device(device)
        self.stream = Stream(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start over from `seed`."""
        opaque("random.seed", _started, self.stream, _as_seed(seed))
        return self

    def seed(self) -> int:
        """Start over from a seed taken from the operating system, and return it."""
        seed = int.from_bytes(os.urandom(8), "little") >> 1
        self.stream.seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed that the generator was last started from."""
        return self.stream.initial_seed

    def get_state(self) -> Tensor:
        """Return the state as a uint8 tensor."""
        return wrap(self.stream.state())

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from a state that `get_state` returned."""
        if not isinstance(new_state, TensorBase):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.array.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor: the one that get_state returns")
        opaque("random.set_state", _continued, self.stream, new_state)
        return self

    def get_offset(self) -> int:
        """Raise: only generators of a GPU count by an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """Raise: only generators of a GPU count by an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def graphsafe_get_state(self) -> Generator:
        """Raise: a state that is shared with CUDA graphs is one of a GPU's generators."""
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator: use clone_state")

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Raise: a state that is shared with CUDA graphs is one of a GPU's generators."""
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator: use set_state")

    def clone_state(self) -> Generator:
        """Return a generator that will give the same numbers."""
        clone = Generator(self.device)
        clone.stream = self.stream.copy()
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore_generator, (str(self.device), self.stream.state().tobytes()))


def _started(stream: Stream, seed: int) -> Array:
    stream.seed(seed)
    return np.zeros(0)  # an observer expects arrays


def _continued(stream: Stream, state: Array) -> Array:
    stream.set_state(np.ascontiguousarray(state))
    return np.zeros(0)


def _as_seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
    return int(seed)


def _restore_generator(device: str, state: bytes) -> Generator:
    generator = Generator(device)
    generator.stream.set_state(np.frombuffer(state, np.uint8).copy())
    return generator


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: Any) -> Generator:
    """Seed the default generator, so that the same random numbers follow in every run.

    Parameters
    ----------
    seed : int
        From ``-2**63`` to ``2**64 - 1``.

    Returns
    -------
    Generator
        The default generator.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.randn(2)
    tensor([ 1.5410, -0.2934])
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.randn(2)
    tensor([ 1.5410, -0.2934])
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator, which `set_rng_state` takes.

    Returns
    -------
    Tensor
        Bytes: one dimension, of dtype uint8, on the CPU.

    Examples
    --------
    >>> state = adjoint.get_rng_state()
    >>> first = adjoint.rand(3)
    >>> adjoint.set_rng_state(state)
    >>> adjoint.equal(adjoint.rand(3), first)
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Let the default generator go on from a state that `get_rng_state` returned.

    Parameters
    ----------
    new_state : Tensor
        Bytes, of dtype uint8.

    Raises
    ------
    TypeError
        If `new_state` is no tensor of bytes.
    RuntimeError
        If it has another size than a state has.

    Examples
    --------
    >>> state = adjoint.get_rng_state()
    >>> first = adjoint.rand(3)
    >>> adjoint.set_rng_state(state)
    >>> adjoint.equal(adjoint.rand(3), first)
    True
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str = "cuda", **kwargs: object
) -> Iterator[None]:
    """Use random numbers inside the context without changing those that follow after it.

    Parameters
    ----------
    devices : iterable, optional
        Accepted and not used: all devices share one generator.
    enabled : bool, default True
        False makes the context do nothing.
    device_type : str, default "cuda"
        Accepted and not used.

    Yields
    ------
    None
        The state of the default generator is restored at the end.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> with adjoint.random.fork_rng():
    ...     _ = adjoint.rand(10)
    >>> adjoint.rand(1)
    tensor([0.4963])
    """
    # All devices use the one generator on the CPU.
    before = default_generator.stream.state() if enabled else None
    try:
        yield
    finally:
        if before is not None:
            default_generator.stream.set_state(before)
