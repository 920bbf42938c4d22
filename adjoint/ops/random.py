"""Random tensors and the generators they come from; the same seed gives torch's numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..core import device as devices
from ..core import dtypes
from ..core.dtypes import as_dtype, default
from ..core.inplace import check_writable
from ..core.tensor import TensorBase, note_write
from ..kernels.random import Stream
from .arguments import shape_from
from .create import finish, into, like

Tensor = Any


class Generator:
    """A source of random numbers with a state of its own.

    Examples
    --------
    >>> g = adjoint.Generator().manual_seed(0)
    >>> adjoint.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = devices.as_device(device)
        self.stream = Stream(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start over from `seed`."""
        self.stream.seed(int(seed))
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
        return finish(self.stream.state())

    def set_state(self, new_state: Tensor) -> None:
        """Go on from a state that `get_state` returned."""
        if not isinstance(new_state, TensorBase) or new_state.array.dtype != np.uint8:
            raise TypeError("expected a ByteTensor with the state, as get_state returns it")
        self.stream.set_state(new_state.array)

    def clone_state(self) -> Generator:
        """Return a generator that will give the same numbers."""
        clone = Generator(self.device)
        clone.stream = self.stream.copy()
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore_generator, (str(self.device), self.stream.state().tobytes()))


def _restore_generator(device: str, state: bytes) -> Generator:
    generator = Generator(device)
    generator.stream.set_state(np.frombuffer(state, np.uint8).copy())
    return generator


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.randn(2)
    tensor([ 1.5410, -0.2934])
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the state of the default generator."""
    default_generator.set_state(new_state)


def stream_of(generator: Generator | None) -> Stream:
    """Return the stream to draw from."""
    return default_generator.stream if generator is None else generator.stream


def _made(array: Any, device: Any, requires_grad: bool, out: Any) -> Tensor:
    return into(out, finish(devices.place_array(array, devices.as_device(device)), requires_grad))


def _floating(dtype: Any) -> dtypes.dtype:
    return default() if dtype is None else as_dtype(dtype)


def rand(
    *args: Any, size: Any = None, generator: Generator | None = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Draw from the uniform distribution on [0, 1)."""
    shape = shape_from(args if size is None else (size,))
    return _made(stream_of(generator).uniform(shape, _floating(dtype).np), device, requires_grad, out)


def randn(
    *args: Any, size: Any = None, generator: Generator | None = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Draw from the normal distribution of mean 0 and variance 1."""
    shape = shape_from(args if size is None else (size,))
    return _made(stream_of(generator).normal(shape, _floating(dtype).np), device, requires_grad, out)


def randint(
    *args: Any, low: int | None = None, high: int | None = None, size: Any = None,
    generator: Generator | None = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Draw integers from [low, high); called as ``randint(high, size)`` or ``randint(low, high, size)``."""
    rest = list(args)
    if size is None:
        size = rest.pop()
    bounds = [*rest, *(b for b in (low, high) if b is not None)]
    if low is not None and rest:
        bounds = [low, *rest]
    begin, end = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    if begin >= end:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={begin} >= to={end}")
    wanted = dtypes.int64 if dtype is None else as_dtype(dtype)
    return _made(
        stream_of(generator).integers(shape_from((size,)), wanted.np, int(begin), int(end)), device, requires_grad, out
    )


def randperm(
    n: int, *, generator: Generator | None = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Draw a permutation of 0 to n-1."""
    wanted = dtypes.int64 if dtype is None else as_dtype(dtype)
    return _made(stream_of(generator).permutation(n, wanted.np), device, requires_grad, out)


def rand_like(input: Tensor, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Draw uniform numbers in the shape of `input`."""
    wanted, place = like(input, dtype, device)
    return rand(tuple(input.array.shape), generator=generator, dtype=wanted, device=place, requires_grad=requires_grad)


def randn_like(input: Tensor, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Draw normal numbers in the shape of `input`."""
    wanted, place = like(input, dtype, device)
    return randn(tuple(input.array.shape), generator=generator, dtype=wanted, device=place, requires_grad=requires_grad)


def randint_like(input: Tensor, *bounds: int, low: int | None = None, high: int | None = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Draw integers in the shape of `input`."""
    wanted, place = like(input, dtype, device)
    return randint(*bounds, low=low, high=high, size=tuple(input.array.shape), dtype=wanted, device=place, requires_grad=requires_grad)


# --- In place ---------------------------------------------------------------------------------------


def _fill(x: Tensor, draw: Any, name: str) -> Tensor:
    """Overwrite a tensor with fresh numbers; what it was computed from no longer matters."""
    from .elementwise import zero_

    if x.node is not None:
        zero_(x)  # records that the old value is gone; raises where a write is refused
    else:
        check_writable(x, False)
    x.array[...] = devices.place_array(draw, devices.of(x.array))
    note_write(x, name)
    return x


def uniform_(input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **kwargs: float) -> Tensor:
    """Fill with uniform numbers from [from, to)."""
    low = kwargs.get("from", from_)
    return _fill(input, stream_of(generator).uniform(input.array.shape, input.array.dtype, low, to), "uniform_")


def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return _fill(input, stream_of(generator).normal(input.array.shape, input.array.dtype, mean, std), "normal_")


def random_(input: Tensor, from_: int | None = None, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """Fill with integers."""
    low, high = (None, from_) if to is None and from_ is not None else (from_, to)
    return _fill(input, stream_of(generator).random(input.array.shape, input.array.dtype, low, high), "random_")


def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with ones drawn with probability `p`, zeros otherwise."""
    chance = p.array if isinstance(p, TensorBase) else p
    return _fill(input, stream_of(generator).bernoulli(chance, input.array.shape, input.array.dtype), "bernoulli_")


def bernoulli(input: Tensor, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """Draw zeros and ones, with the probabilities in `input`."""
    array = stream_of(generator).bernoulli(input.array, input.array.shape, input.array.dtype)
    return into(out, finish(array))
