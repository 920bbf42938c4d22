"""Random tensors and the generators they come from; the same seed gives torch's numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .._typing import (
    Array,
    DeviceLike,
    DType,
    DTypeArg,
    GeneratorArg,
    Ints,
    Kernel,
    LayoutArg,
    MemoryFormat,
    Out,
    Tensor,
    Value,
)
from ..core import device as devices
from ..core import dtypes, modes
from ..core.dtypes import as_dtype, default
from ..core.failures import not_implemented
from ..core.generator import (
    Generator,
    Stream,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from ..core.inplace import unrecorded, write
from ..core.layout import check_layout, contiguous_format, dense_order, empty_ordered, strides_of
from ..core.nodes import wrap
from ..core.observation import note_read, opaque
from ..core.payload import Payload, inside
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase, note_write
from .arguments import count_of, is_int, require_tensor, shape_from
from .compare import zeros_p
from .create import finish, into
from .create_like import empty_like, like, order_like
from .draws import batch_stream, batches, checked, refill, refuse_out, sampled, sampled_like
from .shape import expand_p

__all__ = [
    "Generator", "bernoulli", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "multinomial",
    "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed",
    "set_rng_state",
]  # fmt: skip


ndarray = np.ndarray


class _ObservedStream:
    """A stream whose samples are reported to an observer."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __getattr__(self, kind: str) -> Kernel:
        return lambda *args: opaque(f"random.{kind}", getattr(self.stream, kind), *args)


def stream_of(generator: Generator | None) -> Any:
    """Return the stream to sample from."""
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be adjoint.Generator, not {type(generator).__name__}")
    stream = default_generator.stream if generator is None else generator.stream
    if modes.transforms and inside.levels:
        stream = batch_stream(stream)
    return _ObservedStream(stream) if modes.unusual and modes.local.observer is not None else stream


# --- Fresh tensors ----------------------------------------------------------------------------------


def _made(array: Value, device: DeviceLike, requires_grad: bool, out: Out) -> Tensor:
    place = devices.as_device(device)
    return into(out, finish(_placed(array, place), requires_grad))


def _placed(array: Value, place: Any) -> Any:
    """Return numbers where they are wanted, if they were not drawn there."""
    if place is devices.CPU:
        return array
    if not isinstance(array, np.ndarray):
        return devices.place_array(array, place) if hasattr(array, "moved") else array
    return opaque("place", devices.place_array, array, place)


def _drawn(
    kind: str, shape: tuple[int, ...], dtype: DType | Tensor | dtypes.dtype | None, place: Any, generator: Any,
    *params: object,
) -> Any:  # fmt: skip
    """Return an array of random numbers of one kind; many of them where they are wanted."""
    if shape and min(shape) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    wanted = _floating(dtype, kind).np
    if place.type == "meta":  # without elements, numbers need not be drawn
        return devices.array_module(place).empty(shape, wanted)
    if not inside.levels and wanted.kind != "c" and devices.sampled(place, kind, shape, wanted):
        seed = stream_of(generator).random((1,), np.int64)
        return opaque("many", _drawn_there, seed, kind, shape, wanted, place, *params)
    return getattr(stream_of(generator), kind)(shape, wanted, *params)


def _drawn_there(seed: Any, kind: str, shape: tuple[int, ...], dtype: DType, place: Any, *params: Any) -> Array:
    """Sample on another device, by a seed from the CPU's stream."""
    return devices.random(place, kind, shape, dtype, int(seed[0]), *params)


def _floating(dtype: DType | Tensor | dtypes.dtype | None, kind: str) -> dtypes.dtype:
    wanted = default() if dtype is None else as_dtype(dtype)
    if wanted.category < 2:
        raise NotImplementedError(
            f"\"{kind}_cpu\" not implemented for '{wanted.title}': it samples floating-point numbers"
        )
    return wanted


def _size_of(args: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    if not args and size is None:
        raise TypeError("expected a size: received an invalid combination of arguments - got ()")
    shape = shape_from(args if size is None else (size,))
    if shape and max(shape) >= 2**63:
        raise TypeError(f"argument 'size' failed to unpack the object {max(shape)}: Overflow when unpacking long long")
    return shape


def _dtype_of(out: Out, dtype: DType | dtypes.dtype | None) -> dtypes.dtype | DType | None:
    return dtypes.of(out.array.dtype) if dtype is None and out is not None else dtype


def rand(
    *args: Ints, size: Ints | None = None, generator: Generator | None = None, out: Out = None, dtype: DTypeArg = None,
    layout: LayoutArg = None, device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return random numbers from the uniform distribution on [0, 1).

    Parameters
    ----------
    *args, size : ints or tuple of ints
        Shape of the result.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    out : Tensor, optional
        Tensor to write the result to.
    dtype : dtype, optional
        Floating or complex dtype; by default that of `get_default_dtype`.
    layout : layout, optional
        Accepted for compatibility: strided.
    device : device, optional
        Device of the result; by default the current one.
    requires_grad : bool, default False
        Record operations on the result.
    pin_memory : bool, default False
        Accepted for compatibility; without effect.

    Returns
    -------
    Tensor
        Of the given shape. The same seed gives the numbers that torch gives on the CPU.

    Raises
    ------
    NotImplementedError
        If `dtype` is bool or an integer type.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.rand(2, 3)
    tensor([[0.4963, 0.7682, 0.0885],
            [0.1320, 0.3074, 0.6341]])
    """
    check_layout(layout)
    refuse_out(out)
    values = _drawn("uniform", _size_of(args, size), _dtype_of(out, dtype), devices.as_device(device), generator)
    return _made(values, device, requires_grad, out)


def randn(
    *args: Ints, size: Ints | None = None, generator: Generator | None = None, out: Out = None, dtype: DTypeArg = None,
    layout: LayoutArg = None, device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return random numbers from the normal distribution of mean 0 and variance 1.

    Parameters
    ----------
    *args, size : ints or tuple of ints
        Shape of the result.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    out : Tensor, optional
        Tensor to write the result to.
    dtype : dtype, optional
        Floating or complex dtype; by default that of `get_default_dtype`.
    layout : layout, optional
        Accepted for compatibility: strided.
    device : device, optional
        Device of the result; by default the current one.
    requires_grad : bool, default False
        Record operations on the result.
    pin_memory : bool, default False
        Accepted for compatibility; without effect.

    Returns
    -------
    Tensor
        Of the given shape. The same seed gives the numbers that torch gives on the CPU.

    Raises
    ------
    NotImplementedError
        If `dtype` is bool or an integer type.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.randn(2, 3)
    tensor([[ 1.5410, -0.2934, -2.1788],
            [ 0.5684, -1.0845, -1.3986]])
    """
    check_layout(layout)
    refuse_out(out)
    values = _drawn("normal", _size_of(args, size), _dtype_of(out, dtype), devices.as_device(device), generator)
    return _made(values, device, requires_grad, out)


def randint(
    *args: Ints, low: int | None = None, high: int | None = None, size: Ints | None = None,
    generator: Generator | None = None, out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return random integers from [low, high), all equally likely.

    Parameters
    ----------
    *args : ints and a tuple
        ``(high, size)`` or ``(low, high, size)``.
    low : int, default 0
        Smallest integer.
    high : int
        Smallest integer that is not returned.
    size : tuple of ints
        Shape of the result.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    out : Tensor, optional
        Tensor to write the result to.
    dtype : dtype, optional
        int64 by default.
    layout : layout, optional
        Accepted for compatibility: strided.
    device : device, optional
        Device of the result; by default the current one.
    requires_grad : bool, default False
        Record operations on the result.
    pin_memory : bool, default False
        Accepted for compatibility; without effect.

    Returns
    -------
    Tensor
        Of the given shape.

    Raises
    ------
    RuntimeError
        If `low` is not below `high`, or the dtype does not hold them.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.randint(10, (4,))
    tensor([4, 9, 3, 0])
    >>> adjoint.randint(-3, 3, (2, 2))
    tensor([[-2,  0],
            [-2, -2]])
    """
    check_layout(layout)
    begin, end, rest = _range(args, low, high)
    if size is None:
        if len(rest) != 1 or not isinstance(rest[0], list | tuple):
            raise TypeError("randint() received an invalid combination of arguments: expected (low, high, size)")
        size = rest[0]
    refuse_out(out)
    wanted, place = as_dtype(_dtype_of(out, dtype) or dtypes.int64), devices.as_device(device)
    return _made(_integers(begin, end, shape_from((size,)), wanted, place, generator), device, requires_grad, out)


def _range(args: tuple[Any, ...], low: Any, high: Any) -> tuple[int, int, tuple[Any, ...]]:
    """Return the bounds, given by position or name, and what else was given by position."""
    bounds, rest = [], list(args)
    while rest and not isinstance(rest[0], list | tuple):
        bounds.append(_index(rest.pop(0)))
    if high is not None:
        begin = low if low is not None else bounds[0] if bounds else 0
        return _index(begin), _index(high), tuple(rest)
    if low is not None and bounds:
        return _index(low), bounds[0], tuple(rest)
    if not bounds or len(bounds) > 2:
        raise TypeError("expected the bounds as (high) or (low, high)")
    return (0, bounds[0], tuple(rest)) if len(bounds) == 1 else (bounds[0], bounds[1], tuple(rest))


def _index(value: Any) -> int:
    if not is_int(value):
        raise TypeError(
            "randint() received an invalid combination of arguments: expected the bounds as integers, but got "
            f"{type(value).__name__}"
        )
    note_read("int()", value)
    return int(value.array) if isinstance(value, TensorBase) else operator.index(value)


def _scalar_bound(value: object) -> object | int:
    """Return a bound of `randint_like`, which takes 0-d tensors of any dtype, too."""
    if not isinstance(value, TensorBase):
        return value
    if value.array.ndim:
        raise RuntimeError(f"high must be a scalar tensor and on CPU, got one of shape {list(value.array.shape)}")
    return int(value.item())  # type: ignore[attr-defined]


def _integers(begin: int, end: int, shape: tuple[int, ...], dtype: dtypes.dtype, place: Any, generator: Any) -> Any:
    if begin >= end:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={begin} >= to={end}")
    if dtype.category == 1 and (dtype is not dtypes.int64 or not -(1 << 62) < begin < end < 1 << 62):
        info = np.iinfo(dtype.np)
        for name, value in (("from", begin), ("to - 1", end - 1)):
            if not info.min <= value <= info.max:
                raise RuntimeError(f"{name} is out of bounds for {dtype.name}: {value}")
    if place.type == "meta":
        return devices.array_module(place).empty(shape, dtype.np)
    return stream_of(generator).integers(shape, dtype.np, begin, end)


def randperm(
    n: int, *, generator: Generator | None = None, out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return a random permutation of the integers from 0 to n - 1.

    Parameters
    ----------
    n : int
        Number of integers.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    out : Tensor, optional
        Tensor to write the result to.
    dtype : dtype, optional
        int64 by default.
    layout : layout, optional
        Accepted for compatibility: strided.
    device : device, optional
        Device of the result; by default the current one.
    requires_grad : bool, default False
        Record operations on the result.
    pin_memory : bool, default False
        Accepted for compatibility; without effect.

    Returns
    -------
    Tensor
        Of shape (n,).

    Raises
    ------
    RuntimeError
        If `n` is negative, or the dtype does not hold it.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> order = adjoint.randperm(4)
    >>> order
    tensor([0, 1, 3, 2])
    >>> adjoint.tensor([10, 20, 30, 40])[order]
    tensor([10, 20, 40, 30])
    """
    check_layout(layout)
    refuse_out(out)
    count_of(n, "n")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    wanted = as_dtype(_dtype_of(out, dtype) or dtypes.int64)
    if wanted.category == 1 and n - 1 > np.iinfo(wanted.np).max:
        raise RuntimeError(f"value cannot be converted to type {wanted.name} without overflow")
    place = devices.as_device(device)
    if place.type == "meta":
        return finish(devices.array_module(place).empty((n,), wanted.np), requires_grad)
    return _made(stream_of(generator).permutation(n, wanted.np), device, requires_grad, out)


def _made_like(
    input: Tensor, name: str, memory_format: MemoryFormat, dtype: DType | dtypes.dtype | None, device: DeviceLike,
    requires_grad: bool, draw: Callable[..., Any],
) -> Tensor:  # fmt: skip
    """Return a random tensor of the shape of `input`, whose elements have the order in memory that the format says.

    `draw` takes a shape, a dtype, a device and whether the order in memory will differ from row-major.
    """
    require_tensor(input, "input", name)
    wanted, place = like(input, dtype, device)

    def drawn(array: Array) -> Any:
        order = order_like(wrap(array), memory_format)
        shape = tuple(array.shape)
        odd = order is not None and not empty_ordered(np, shape, np.bool_, order).flags.c_contiguous
        values = draw(shape, wanted, place, odd)
        return laid_by(values, order) if odd else values

    array: Any = input.array
    if inside.levels and batches():
        values = sampled_like(drawn, input)
    else:
        values = drawn(array.memory() if isinstance(array, Payload) and array.level else array)
    return _made(values, place, requires_grad, None)


def laid_by(values: Value, order: Any) -> Value:
    """Return samples as an array whose dimensions are in memory in some order, in which they were sampled."""
    if order is None or not isinstance(values, np.ndarray):
        return values
    inverse = np.argsort(order)
    return values.reshape([values.shape[i] for i in order]).transpose(inverse)


def rand_like(
    input: Tensor, *, generator: GeneratorArg = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False, memory_format: MemoryFormat = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return random numbers from the uniform distribution on [0, 1), in the shape of `input`.

    Parameters
    ----------
    input : Tensor
        Gives shape, dtype and device; its values do not matter.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    dtype : dtype, optional
        By default that of `input`.
    layout : layout, optional
        Accepted for compatibility: strided.
    device : device, optional
        By default that of `input`.
    requires_grad : bool, default False
        Record operations on the result.
    memory_format : memory_format, optional
        Order of the elements in memory; by default that of `input`.
    pin_memory : bool, default False
        Accepted for compatibility; without effect.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is bool or an integer type.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.rand_like(adjoint.zeros(3))
    tensor([0.4963, 0.7682, 0.0885])
    """

    def draw(shape: Any, wanted: Any, place: DeviceLike, odd: bool) -> Any:
        return _drawn("uniform", shape, wanted, place, generator)

    return _made_like(input, "rand_like", memory_format, dtype, device, requires_grad, draw)


def randn_like(
    input: Tensor, *, generator: GeneratorArg = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False, memory_format: MemoryFormat = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return random numbers from the standard normal distribution, in the shape of `input`.

    Parameters
    ----------
    input : Tensor
        Gives shape, dtype and device; its values do not matter.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    dtype : dtype, optional
        By default that of `input`.
    layout : layout, optional
        Accepted for compatibility: strided.
    device : device, optional
        By default that of `input`.
    requires_grad : bool, default False
        Record operations on the result.
    memory_format : memory_format, optional
        Order of the elements in memory; by default that of `input`.
    pin_memory : bool, default False
        Accepted for compatibility; without effect.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is bool or an integer type.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> x = adjoint.ones(3)
    >>> x + 0.1 * adjoint.randn_like(x)
    tensor([1.1541, 0.9707, 0.7821])
    """

    def draw(shape: Any, wanted: Any, place: Any, odd: bool) -> Any:
        return _drawn("normal_singly" if odd and place.type == "cpu" else "normal", shape, wanted, place, generator)

    return _made_like(input, "randn_like", memory_format, dtype, device, requires_grad, draw)


def randint_like(
    input: Tensor, *bounds: Any, low: Any = None, high: Any = None, generator: GeneratorArg = None,
    dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None, requires_grad: bool = False,
    memory_format: MemoryFormat = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return random integers from [low, high), in the shape of `input`.

    Parameters
    ----------
    input : Tensor
        Gives shape, dtype and device; its values do not matter.
    *bounds : ints
        ``(high)`` or ``(low, high)``.
    low : int, default 0
        Smallest integer.
    high : int
        Smallest integer that is not returned.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    dtype : dtype, optional
        By default that of `input`.
    layout : layout, optional
        Accepted for compatibility: strided.
    device : device, optional
        By default that of `input`.
    requires_grad : bool, default False
        Record operations on the result.
    memory_format : memory_format, optional
        Order of the elements in memory; by default that of `input`.
    pin_memory : bool, default False
        Accepted for compatibility; without effect.

    Returns
    -------
    Tensor
        Of the shape and, by default, the dtype of `input`.

    Raises
    ------
    RuntimeError
        If `low` is not below `high`, or the dtype does not hold them.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.randint_like(adjoint.zeros(3), 10)
    tensor([4., 9., 3.])
    """
    begin, end, rest = _range(tuple(map(_scalar_bound, bounds)), _scalar_bound(low), _scalar_bound(high))
    if rest:
        raise TypeError("randint_like() received an invalid combination of arguments: expected (high) or (low, high)")

    def draw(shape: Any, wanted: Any, place: DeviceLike, odd: bool) -> Any:
        return _integers(begin, end, shape, as_dtype(wanted), place, generator)

    return _made_like(input, "randint_like", memory_format, dtype, device, requires_grad, draw)


# --- Drawn with parameters that are tensors ---------------------------------------------------------


def _zero_if(g: Value, needs: tuple[bool, ...]) -> tuple[Any, ...]:
    return tuple(zeros_p(g) if need else None for need in needs)


def _sampler(name: str, title: str, inputs: int) -> Primitive:
    """Declare a sampling op: its value, sampled before, is an operand, and the others get zero gradients."""
    kernels: dict[int, Kernel] = {1: lambda x, sample: sample, 2: lambda x, y, sample: sample}
    batches = {
        1: lambda x, sample: expand_p(sample, tuple(x.shape)),
        2: lambda x, y, sample: expand_p(sample, tuple(x.shape)),
    }
    return nary(
        kernels[inputs],
        inputs=inputs + 1,
        joint=lambda g, needs: _zero_if(g, needs),
        name=name,
        node_name=title,
        jvp=lambda tangents, inputs, out, params: zeros_p(out),
        batch=batches[inputs],
    )


bernoulli_p = _sampler("bernoulli", "BernoulliBackward0", 1)
poisson_p = _sampler("poisson", "PoissonBackward0", 1)
_normal_of_mean_p = _sampler("normal_of_mean", "NormalBackward1", 1)
_normal_of_std_p = _sampler("normal_of_std", "NormalBackward2", 1)
_normal_of_both_p = _sampler("normal_of_both", "NormalBackward3", 2)


def on_host(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that samples on the CPU for arrays on any device; empty arrays give their shape."""

    def drawn(*arrays: Value) -> Any:
        place = devices.of(arrays[0])
        if place.type == "meta":
            return devices.array_module(place).empty(np.broadcast_shapes(*(a.shape for a in arrays)), arrays[0].dtype)
        return devices.place_array(draw(*(devices.place_array(a, devices.CPU) for a in arrays)), place)

    return drawn


def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None, out: Out = None) -> Tensor:
    """Return random zeros and ones, with the probabilities of ones in `input`.

    Parameters
    ----------
    input : Tensor
        Probabilities between 0 and 1, of any shape and a float dtype.
    p : float or Tensor, optional
        Probability to use instead; then `input` gives only shape and dtype.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. No gradient flows to the probabilities.

    Raises
    ------
    RuntimeError
        If a probability is not between 0 and 1.
    NotImplementedError
        If `input` holds the probabilities and is not of floats.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.bernoulli(adjoint.tensor([0.0, 0.5, 0.5, 1.0]))
    tensor([0., 0., 1., 1.])
    """
    refuse_out(out)
    if isinstance(p, TensorBase):
        return into(out, bernoulli_(empty_like(input, memory_format=contiguous_format), p, generator=generator))
    title = dtypes.of(input.array.dtype)

    def draw(chances: Any) -> Any:
        _check_probability(chances if p is None else p)
        if p is not None:
            return stream_of(generator).bernoulli(p, chances.shape, chances.dtype)
        if title.category != 2:
            raise NotImplementedError(f"\"bernoulli_tensor_cpu_p_\" not implemented for '{title.title}'")
        return stream_of(generator).bernoulli(chances, chances.shape, chances.dtype)

    return into(out, bernoulli_p(input, sampled(on_host(draw), input)))


def _check_probability(p: Any) -> None:
    if not Stream.probable(p):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false: a probability is outside [0, 1]")


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return samples of Poisson distributions with the rates in `input`."""

    def draw(rates: Any) -> Any:
        if bool((rates < 0).any()):
            raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
        return stream_of(generator).poisson(rates)

    return poisson_p(input, sampled(on_host(draw), input))


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Out = None
) -> Tensor:
    """Return random indices, with probabilities in proportion to the weights in `input`.

    Parameters
    ----------
    input : Tensor
        Weights, not negative and finite, of shape (K,) or (N, K). They need not sum to 1.
    num_samples : int
        Number of indices for each row.
    replacement : bool, default False
        Whether an index may occur more than once in a row.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of int64, and shape (num_samples,) or (N, num_samples).

    Raises
    ------
    RuntimeError
        If the dtype is not floating, a weight is negative or not finite, a row sums to 0, or without `replacement`
        there are fewer than `num_samples` weights.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.multinomial(adjoint.tensor([0.0, 1.0, 3.0]), 5, replacement=True)
    tensor([2, 2, 2, 2, 2])
    >>> adjoint.multinomial(adjoint.tensor([[1.0, 0.0], [0.0, 1.0]]), 1)
    tensor([[0],
            [1]])
    """
    refuse_out(out)
    if inside.levels:
        checked(input)
    if out is not None and out.array.dtype != np.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {dtypes.of(out.array.dtype).title}")
    title = dtypes.of(input.array.dtype)
    if title.category != 2:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {title.title}")
    _check_multinomial(tuple(input.array.shape), num_samples, replacement)

    def draw(weights: Value) -> Any:
        shape = (*weights.shape[:-1], num_samples)
        place = devices.of(weights)
        if place.type == "meta":
            return devices.array_module(place).empty(shape, np.int64)
        host = devices.place_array(weights, devices.CPU)
        rows = host if host.ndim < 3 else host.reshape(-1, host.shape[-1])
        order = None if rows.flags.c_contiguous else dense_order(rows.shape, strides_of(rows))
        drawn = stream_of(generator).multinomial(rows, num_samples, replacement, order)
        return devices.place_array(drawn.reshape(shape), place)

    drawn: Any = sampled(draw, input)
    return into(out, cast("Tensor", drawn) if isinstance(drawn, TensorBase) else finish(drawn))


def _check_multinomial(shape: tuple[int, ...], num_samples: int, replacement: bool) -> None:
    if len(shape) not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")


def normal(
    mean: Tensor | float, std: Any = 1.0, size: Ints | None = None, *, generator: Generator | None = None,
    out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return random numbers from normal distributions of given means and standard deviations.

    Parameters
    ----------
    mean : Tensor or float
        Means; a tensor gives one for each element.
    std : Tensor or float, default 1.0
        Standard deviations, not negative; broadcast with `mean`.
    size : tuple of ints, optional
        Shape of the result, if both are numbers.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.
    out : Tensor, optional
        Tensor to write the result to.
    dtype : dtype, optional
        Floating dtype, if both are numbers.
    layout : layout, optional
        Accepted for compatibility: strided.
    device : device, optional
        Device of the result; by default the current one.
    requires_grad : bool, default False
        Record operations on the result.
    pin_memory : bool, default False
        Accepted for compatibility; without effect.

    Returns
    -------
    Tensor
        Of shape `size`, or the broadcast shape of the tensors. No gradient flows to these.

    Raises
    ------
    TypeError
        If both are numbers and `size` is missing.
    RuntimeError
        If a standard deviation is negative.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.normal(0.0, 1.0, size=(3,))
    tensor([ 1.5410, -0.2934, -2.1788])
    >>> adjoint.normal(adjoint.tensor([0.0, 100.0]), adjoint.tensor([1.0, 0.1]))
    tensor([ 0.5684, 99.8915])
    """
    refuse_out(out)
    of_mean, of_std = isinstance(mean, TensorBase), isinstance(std, TensorBase)
    if not of_mean and not of_std:
        if size is None:
            raise TypeError(
                "normal() received an invalid combination of arguments: give size=, or mean or std as a Tensor"
            )
        _check_std(std)
        shape, place = shape_from((size,)), devices.as_device(device)
        values = _drawn("normal", shape, _dtype_of(out, dtype), place, generator, float(mean), float(std))
        return _made(values, device, requires_grad, out)
    return into(out, _normal_around(mean, std, of_mean, of_std, generator))


def _check_std(std: Value | float) -> None:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


def _moved(standard: Any, width: Any, centre: Any) -> Any:
    return (standard * width + centre).astype(standard.dtype, copy=False)


def _normal_around(mean: Any, std: Any, of_mean: bool, of_std: bool, generator: GeneratorArg) -> Tensor:
    """Sample with a mean or a standard deviation per element."""
    for given, own in ((mean, of_mean), (std, of_std)):
        if not own and not isinstance(given, int | float | np.generic):
            raise TypeError(f"normal() received an invalid combination of arguments - got {type(given).__name__}")
    if of_std and std.array.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if not of_std:
        _check_std(std)
    leading = mean if of_mean else std

    def draw(*arrays: Value) -> Any:
        width = arrays[-1] if of_std else std
        if of_std and bool((width < 0).any()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        standard = _drawn("normal", shape, dtypes.of(leading.array.dtype), devices.CPU, generator)
        return opaque("normal_around", _moved, standard, width, arrays[0] if of_mean else mean)

    given = [t for t, own in ((mean, of_mean), (std, of_std)) if own]
    sample = sampled(on_host(draw), *given)
    if of_mean and of_std:
        shape = np.broadcast_shapes(mean.array.shape, std.array.shape)
        return _normal_of_both_p(_spread(mean, shape), _spread(std, shape), sample)
    return (_normal_of_mean_p if of_mean else _normal_of_std_p)(leading, sample)


def _spread(x: Tensor, shape: tuple[int, ...]) -> Value:
    return x if tuple(x.array.shape) == shape else expand_p(x, shape)


# --- In place ---------------------------------------------------------------------------------------

_WRITES = {
    name: _sampler(name, f"{''.join(part.capitalize() for part in name.split('_'))}Backward0", 1)
    for name in ("uniform", "normal", "exponential", "geometric", "cauchy", "log_normal")
}
_WRITES["bernoulli"] = bernoulli_p
for _number, _name in enumerate(("random_between", "random_below", "random")):
    _WRITES[_name] = _sampler(_name, f"RandomBackward{_number}", 1)


def _fill(x: Any, kind: str, draw: Callable[..., Any], *parameters: Any) -> Tensor:
    """Overwrite a tensor with numbers drawn for its array; what it was computed from no longer matters."""
    require_tensor(x, "self", f"{kind}_")
    array = x.array
    if inside.levels and batches():
        filled = refill(lambda a, *ps: _fill(wrap(a), kind, draw, *map(wrap, ps)), x, *parameters)
        if filled is not None:
            return x.copy_(finish(filled))  # type: ignore[no-any-return]
    if devices.of(array).type == "meta":  # without elements, numbers need not be drawn
        note_write(x, f"{kind}_")
        return x  # type: ignore[no-any-return]
    sample = _as_memory_lies(draw(array, *(p.array for p in parameters)), array)
    if not modes.unusual and unrecorded(x, ()) is not None:
        array[...] = sample
        note_write(x, f"{kind}_")
        return x  # type: ignore[no-any-return]
    return write(_WRITES[kind].op, x, (_placed(sample, devices.of(array)),), ())  # type: ignore[no-any-return]


def _as_memory_lies(sample: Value, array: Array) -> Value:
    """Return samples in the order in which an array's elements are in memory, as torch generates them."""
    if type(sample) is not np.ndarray or type(array) is not np.ndarray or array.flags.c_contiguous:
        return sample
    axes = _axes_in_memory(array)
    return sample.reshape([array.shape[i] for i in axes]).transpose(np.argsort(axes))


def _axes_in_memory(array: Array) -> list[int]:
    return sorted(range(array.ndim), key=lambda i: -abs(array.strides[i]))


def _filled(x: Tensor, kind: str, generator: GeneratorArg, *params: object) -> Tensor:
    def draw(array: Array) -> Any:
        return _drawn(kind, tuple(array.shape), dtypes.of(array.dtype), devices.of(array), generator, *params)

    return _fill(x, kind, draw)


def _from(given: dict[str, Any], other: float | None, op: str) -> Any:
    """Return what was given as ``from``, which Python cannot name in a signature."""
    for name in given:
        if name != "from":
            raise TypeError(f"{op}() got an unexpected keyword argument '{name}'")
    return given.get("from", other)


def uniform_(
    input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **kwargs: float
) -> Tensor:
    """Fill `input` with random numbers from the uniform distribution on [from, to).

    Parameters
    ----------
    input : Tensor
        Of a float dtype; overwritten.
    from_ : float, default 0.0
        Lower bound; by name also ``**{'from': low}``.
    to : float, default 1.0
        Upper bound.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or the lower bound is above the upper one.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.empty(3).uniform_(-1, 1)
    tensor([-0.0075,  0.5364, -0.8230])
    """
    low = _from(kwargs, from_, "uniform_")
    if not low <= to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}")
    return _filled(input, "uniform", generator, float(low), float(to))


def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill `input` with random numbers from a normal distribution.

    Parameters
    ----------
    input : Tensor
        Of a float dtype; overwritten.
    mean : float, default 0.0
        Mean.
    std : float, default 1.0
        Standard deviation, not negative.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or `std` is negative.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.empty(3).normal_(std=0.02)
    tensor([ 0.0308, -0.0059, -0.0436])
    """
    _check_std(std)
    mean, std = float(mean), float(std)

    def draw(array: Array) -> Any:
        odd = type(array) is np.ndarray and not array.flags.c_contiguous and array.size > 15
        kind = "normal_singly" if odd else "normal"
        return _drawn(kind, tuple(array.shape), dtypes.of(array.dtype), devices.of(array), generator, mean, std)

    return _fill(input, "normal", draw)


def log_normal_(input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithm is normal."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return _filled(input, "log_normal", generator, float(mean), float(std))


def cauchy_(input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers from a Cauchy distribution."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return _filled(input, "cauchy", generator, float(median), float(sigma))


def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers from an exponential distribution."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _filled(input, "exponential", generator, float(lambd))


def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials up to the first success, of probability `p`."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _fill(input, "geometric", lambda a: stream_of(generator).geometric(a.shape, a.dtype, float(p)))


def random_(
    input: Tensor, from_: int | None = None, to: int | None = None, *, generator: Generator | None = None,
    **kwargs: int,
) -> Tensor:  # fmt: skip
    """Fill `input` with random integers from [from, to).

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    from_ : int, default 0
        Smallest integer; by name also ``**{'from': low}``. As the only argument, the upper bound.
    to : int, optional
        Smallest integer that is not used; by default, integers go up to the largest that the dtype holds exactly.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or the range is empty.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.empty(4).random_(10)
    tensor([4., 9., 3., 0.])
    >>> adjoint.zeros(4, dtype=adjoint.int64).random_(5, 8)
    tensor([6, 5, 6, 6])
    """
    from_ = _from(kwargs, from_, "random_")
    low, high = (None, from_) if to is None and from_ is not None and "from" not in kwargs else (from_, to)
    if high is not None and (low or 0) >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low or 0} >= to={high}")
    kind = "random" if high is None and low is None else "random_below" if low is None else "random_between"
    return _fill(input, kind, lambda a: stream_of(generator).random(a.shape, a.dtype, low, high))


def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill `input` with random zeros and ones.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    p : float or Tensor, default 0.5
        Probability of ones, between 0 and 1; a tensor is broadcast to the shape of `input`.
    generator : Generator, optional
        Source of random numbers; by default the global one, which `manual_seed` seeds.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or a probability is not between 0 and 1.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> adjoint.empty(5).bernoulli_(0.5)
    tensor([0., 0., 1., 0., 0.])
    """
    if isinstance(p, TensorBase) and p.array.dtype.kind == "b":
        raise not_implemented("bernoulli_tensor_cpu_p_", p.array)
    if not isinstance(p, TensorBase):
        _check_probability(p)
        return _fill(input, "bernoulli", lambda a: stream_of(generator).bernoulli(p, a.shape, a.dtype))

    def draw(array: Any, chances: Any) -> Any:
        chances = devices.place_array(chances, devices.CPU)
        _check_probability(chances)
        if type(array) is np.ndarray and not array.flags.c_contiguous:
            chances = np.broadcast_to(chances, array.shape).transpose(_axes_in_memory(array)).reshape(array.shape)
        return stream_of(generator).bernoulli(chances, array.shape, array.dtype)

    return _fill(input, "bernoulli", draw, p)
