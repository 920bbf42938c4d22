"""Tensors of evenly spaced numbers, and the identity matrix."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any, NoReturn

import numpy as np

from .._typing import DeviceLike, DTypeArg, Operand, Out, Tensor, Value
from ..core import device as devices
from ..core import dtypes
from ..core.dtypes import as_dtype, default
from ..core.layout import check_layout
from ..core.observation import literal
from ..core.tensor import TensorBase
from .create import dtype_of_out, finish, put
from .literals import depth_outside, scalar_of
from .looping import looped

__all__ = ["arange", "eye", "linspace", "logspace", "range"]

_HALVES = (dtypes.float16, dtypes.bfloat16)


def _refuse(dtype: dtypes.dtype, op: str) -> NotImplementedError:
    return NotImplementedError(f"\"{op}_cpu\" not implemented for '{dtype.title}'")


def _made(array: Value, device: DeviceLike, requires_grad: bool) -> Tensor:
    place = devices.as_device(device)
    return finish(literal(array if place.type == "cpu" else devices.place_array(array, place)), requires_grad)


def arange(
    *args: Any, start: Operand | None = None, end: Operand | None = None, step: Operand | None = None,
    out: Tensor | None = None, dtype: object = None, layout: object = None, device: DeviceLike = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make the numbers from `start` up to, not including, `end`.

    There are ``ceil((end - start) / step)`` of them. Call it as ``arange(end)``, ``arange(start, end)`` or
    ``arange(start, end, step)``.

    Parameters
    ----------
    start : number, default 0
        The first number.
    end : number
        Where they end; not included.
    step : number, default 1
        The distance of neighbours, not zero; it may be negative.
    out : Tensor, optional
        Written to, and returned.
    dtype : dtype, optional
        int64 if all three are integers, otherwise the default dtype.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        The default device if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A vector. With a float step rounding may add or miss an element at the end: `linspace` has a fixed length.

    Raises
    ------
    RuntimeError
        If `step` is zero or leads away from `end`.

    Examples
    --------
    >>> adjoint.arange(3)
    tensor([0, 1, 2])
    >>> adjoint.arange(1, 2, 0.5)
    tensor([1.0000, 1.5000])
    >>> adjoint.arange(5, 0, -2)
    tensor([5, 3, 1])
    """
    check_layout(layout)
    plain = len(args) == 1 and type(args[0]) is int and start is end is step is out is dtype is None
    if plain and 0 <= args[0] < 2**63:
        return _made(np.arange(args[0]), device, requires_grad)
    begin, stop, by = _bounds(args, start, end, step)
    whole = all(isinstance(v, int) for v in (begin, stop, by))
    if any(v is None or (isinstance(v, TensorBase) and v.array.ndim) for v in args):
        given = ", ".join("Tensor" if isinstance(v, TensorBase) else type(v).__name__ for v in args)
        raise TypeError(f"arange() received an invalid combination of arguments - got ({given}); give numbers")
    wanted = dtype_of_out(out, dtype)
    if wanted is None:
        wanted = dtypes.int64 if whole else default()
    values = _arange(begin, stop, by, as_dtype(wanted), whole)
    return put(_noted(out, values.size), _made(values, device, requires_grad))


def _noted(out: Out, count: int) -> Tensor | None:
    if out is not None and out.array.size not in (0, count):
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.array.shape)} is {out.array.size} "
            "which does not "
            f"match the computed number of elements {count}. The out tensor will be resized.",
            UserWarning,
            stacklevel=depth_outside(),
        )
    return out


def _bounds(args: tuple[Any, ...], start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    if len(args) == 1 and end is None and step is None and start is None:
        args = (0, *args)
    if len(args) > 3:
        raise TypeError(f"arange() takes 3 positional arguments but {len(args)} were given")
    given = [*args[:3], *[None] * (3 - len(args))]
    for i, value in enumerate((start, end, step)):
        if value is not None:
            if given[i] is not None or len(args) > 3:
                raise TypeError("arange() received an invalid combination of arguments: one was given twice")
            given[i] = value
    if given[1] is None or (given[0] is None and step is not None):
        raise TypeError("arange() received an invalid combination of arguments: expected (end) or (start, end, step)")
    names = ("start", "end", "step")
    begin, stop, by = (
        scalar_of(fallback if v is None else v, n, "arange")
        for v, n, fallback in zip(given, names, (0, 0, 1), strict=True)
    )
    for value in (begin, stop, by):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            _refuse_huge(value)
        if isinstance(value, complex):
            raise RuntimeError("value cannot be converted to type double without overflow: arange takes real bounds")
    return begin, stop, by


def _refuse_huge(value: int) -> NoReturn:
    if 0 < value < 2**64:
        raise RuntimeError(f"value cannot be converted to type int64_t without overflow: a bound of arange is {value}")
    raise OverflowError(f"int too big to convert: a bound of arange is {value}")


def _arange(begin: Any, stop: Any, by: Any, dtype: dtypes.dtype, whole: bool) -> Any:
    if not (math.isfinite(begin) and math.isfinite(stop)):
        raise RuntimeError(f"unsupported range: {begin} -> {stop}")
    if by == 0 or by != by:
        raise RuntimeError(f"step must be nonzero, but it is {by}")
    if (stop - begin) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype.category not in (1, 2):
        raise _refuse(dtype, "arange")
    if dtype is dtypes.int64:
        if int(by) == 0:
            raise ValueError(f"step must be nonzero, but {by} is 0 as an integer")
        return np.arange(int(begin), int(stop), int(by), dtype=np.int64)
    count = -((begin - stop) // by) if whole else math.ceil((stop - begin) / by)
    if dtype.category == 1:
        return (int(begin) + np.arange(count, dtype=np.int64) * int(by)).astype(dtype.np)
    work = np.float32 if dtype in _HALVES else np.float64
    return (work(begin) + np.arange(count, dtype=work) * work(by)).astype(dtype.np)


def range(
    start: Operand = 0, end: Operand | None = None, step: Operand = 1, *, out: Tensor | None = None,
    dtype: object = None, layout: object = None, device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Make the numbers from `start` to `end`, the end included; `arange` is the modern form."""
    warnings.warn(
        "adjoint.range is deprecated as torch.range is: its end is included, unlike Python's; use adjoint.arange",
        UserWarning,
        stacklevel=depth_outside(),
    )
    if end is None:
        start, end = 0, start
    begin, stop, by = (scalar_of(v, n, "range") for v, n in ((start, "start"), (end, "end"), (step, "step")))
    if by == 0 or (stop - begin) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    wanted = dtype_of_out(out, dtype)
    wanted = default() if wanted is None else as_dtype(wanted)
    values = (begin + np.arange(math.floor((stop - begin) / by) + 1, dtype=np.float64) * by).astype(wanted.np)
    return put(out, _made(values, device, requires_grad))


def _end_of(value: object, name: str, op: str) -> Any:
    if isinstance(value, TensorBase) and value.array.ndim:
        raise RuntimeError(
            f"{op} only supports 0-dimensional start and end tensors, but got {name} with {value.array.ndim} "
            "dimension(s)."
        )
    return scalar_of(value, name, op)


def _spaced(start: Any, end: Any, steps: Any, dtype: DTypeArg, op: str) -> tuple[Any, dtypes.dtype]:
    """Return evenly spaced numbers, computed in the type that torch computes them in; and the result's dtype."""
    first, last = _end_of(start, "start", op), _end_of(end, "end", op)
    try:
        count = operator.index(steps)
    except TypeError:
        kinds = ", ".join(type(x).__name__ for x in (start, end, steps))
        raise TypeError(
            f"{op}() received an invalid combination of arguments - got ({kinds}): argument 'steps' must be int"
        ) from None
    if count < 0:
        raise RuntimeError(f"number of steps must be non-negative, not {count}")
    is_complex = isinstance(first, complex) or isinstance(last, complex)
    wanted = as_dtype(dtype) if dtype is not None else default().to_complex() if is_complex else default()
    if wanted.category == 0:
        raise _refuse(wanted, op)
    if is_complex and wanted.category != 3:
        raise RuntimeError(f"{op}(): inferred dtype complex can't be safely cast to passed dtype {wanted}")
    work = np.dtype(np.float64).type if wanted.category == 1 else wanted.np.type
    begin, stop = work(first), work(last)
    if wanted.category == 1:
        begin, stop = np.trunc(begin), np.trunc(stop)
    if count == 1:
        return np.array([begin], work), wanted
    step = (stop - begin) / work(count - 1) if count else work(0)
    i = np.arange(count).astype(work)
    # From both ends to the middle: so the last number is exactly `end`.
    values = begin + step * i
    values[count // 2 :] = stop - step * i[: count - count // 2][::-1]
    return values.astype(work, copy=False), wanted


@looped
def linspace(
    start: Operand, end: Operand, steps: int, *, out: Tensor | None = None, dtype: object = None, layout: object = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make `steps` numbers evenly spaced from `start` to `end`, both included.

    ``result[k] = start + k (end - start) / (steps - 1)``.

    Parameters
    ----------
    start, end : number or Tensor
        The first and the last number.
    steps : int
        How many; with one, it is `start`.
    out : Tensor, optional
        Written to, and returned.
    dtype : dtype, optional
        The default dtype if not given; complex where a bound is.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        The default device if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A vector of length `steps`.

    Examples
    --------
    >>> adjoint.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    >>> adjoint.linspace(1, -1, 5)
    tensor([ 1.0000,  0.5000,  0.0000, -0.5000, -1.0000])
    """
    check_layout(layout)
    values, wanted = _spaced(start, end, steps, dtype_of_out(out, dtype), "linspace")
    return put(out, _made(values.astype(wanted.np), device, requires_grad))


@looped
def logspace(
    start: Operand, end: Operand, steps: int, base: float = 10.0, *, out: Tensor | None = None, dtype: object = None,
    layout: object = None, device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make `steps` numbers evenly spaced on a logarithmic scale.

    ``result[k] = base ** (start + k (end - start) / (steps - 1))``: from ``base ** start`` to ``base ** end``.

    Parameters
    ----------
    start, end : number or Tensor
        The exponents of the first and the last number.
    steps : int
        How many; with one, it is ``base ** start``.
    base : float, default 10
        The base of the powers.
    out : Tensor, optional
        Written to, and returned.
    dtype : dtype, optional
        The default dtype if not given; complex where a bound is.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        The default device if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A vector of length `steps`.

    Examples
    --------
    >>> adjoint.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    >>> adjoint.logspace(0, 3, 4, base=2)
    tensor([1., 2., 4., 8.])
    """
    check_layout(layout)
    values, wanted = _spaced(start, end, steps, dtype_of_out(out, dtype), "logspace")
    # Powers of a narrow type lose digits that the result still shows.
    wide = values.astype(np.complex128 if wanted.category == 3 else np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        powers = np.power(wide.dtype.type(base), wide)
        return put(out, _made(powers.astype(wanted.np), device, requires_grad))


def eye(
    n: int, m: int | None = None, *, out: Tensor | None = None, dtype: object = None, layout: object = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a matrix with ones on the diagonal and zeros elsewhere.

    Parameters
    ----------
    n : int
        The number of rows.
    m : int, optional
        The number of columns, `n` by default.
    out : Tensor, optional
        Written to, and returned.
    dtype : dtype, optional
        The default dtype, float32, if not given.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        The default device if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        Of shape ``(n, m)``.

    Examples
    --------
    >>> adjoint.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    >>> adjoint.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    check_layout(layout)
    for name, value in (("n", n), ("m", m)):
        if value is not None and operator.index(value) < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    wanted = dtype_of_out(out, dtype)
    wanted = default() if wanted is None else as_dtype(wanted)
    module = devices.array_module(devices.as_device(device))
    return put(out, finish(literal(module.eye(n, m, dtype=wanted.np)), requires_grad))
