"""`make_tensor`: random tensors for tests, the same as torch's for the same seed."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..core import device as devices
from ..core import dtypes
from ..core.dtypes import as_dtype
from ..core.nodes import wrap
from ..ops import create, random
from ..ops.arguments import shape_from


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """Make a tensor of random values, uniform in [low, high).

    Parameters
    ----------
    shape
        Sizes, or one sequence of them.
    low, high
        By default -9 and 9 for floating types, -9 and 10 for integers, 0 and 10 for unsigned ones.
    noncontiguous
        Return every other element of a larger tensor along the last dimension, so that it is not contiguous.
    exclude_zero
        Replace zeros by ones; in floating types by the smallest positive normal number.
    memory_format
        The order of the dimensions in memory; not together with `noncontiguous`.

    Examples
    --------
    >>> _ = adjoint.manual_seed(3)
    >>> adjoint.testing.make_tensor(3, dtype=adjoint.float32, device="cpu")
    tensor([-8.9233, -7.0998, -3.8548])
    """
    sizes, wanted = shape_from(shape), as_dtype(dtype)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    if requires_grad and wanted.category < 2:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={wanted}"
        )
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous else sizes
    array = _drawn(drawn, wanted, low, high)
    if noncontiguous:
        array = array[..., 1::2]
    if exclude_zero:
        array[array == 0] = _smallest(wanted)
    out = wrap(devices.place_array(array, devices.as_device(device)))
    if memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if requires_grad:
        create.require_grad(out)
    return out


def _smallest(wanted: dtypes.dtype) -> Any:
    if wanted.category < 2:
        return 1
    tiny = float(dtypes.finfo(wanted).tiny)
    return complex(tiny, tiny) if wanted.is_complex else tiny


def _drawn(shape: tuple[int, ...], wanted: dtypes.dtype, low: Any, high: Any) -> Any:
    stream = random.default_generator.stream
    if wanted.category == 0:
        begin, end = _bounds(wanted, low, high, 0, 2, 0, 2)
        return stream.integers(shape, np.dtype(np.int64), math.ceil(begin), math.ceil(end)).astype(np.bool_)
    if wanted.category == 1:
        info = np.iinfo(wanted.np)
        least = -9 if wanted.is_signed else 0
        # The largest of all integers cannot be the end of a range that leaves its end out.
        past = int(info.max) + (0 if wanted.itemsize == 8 else 1)
        begin, end = _bounds(wanted, low, high, least, 10, int(info.min), past)
        return stream.integers(shape, wanted.np, math.ceil(begin), math.ceil(end))
    most = float(dtypes.finfo(wanted).max)
    begin, end = _bounds(wanted, low, high, -9, 9, -most, most)
    real = wanted.to_real().np
    count = (*shape, 2) if wanted.is_complex else shape
    if end - begin > most:  # a range that wide is not a number itself
        array = stream.uniform(count, real)
        array = (array * real.type(end) + (1 - array) * real.type(begin)).astype(real)
    else:
        array = stream.uniform(count, real, begin, end)
    return array.view(wanted.np)[..., 0] if wanted.is_complex else array


def _bounds(wanted: dtypes.dtype, low: Any, high: Any, least: int, most: int, first: Any, past: Any) -> tuple[Any, Any]:
    """Return the range of the values: the caller's or the default, clamped to what the dtype can represent."""
    begin, end = least if low is None else low, most if high is None else high
    if any(isinstance(v, float) and math.isnan(v) for v in (begin, end)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={begin} and high={end}")
    if begin == end and wanted.category > 1:
        warnings.warn(
            "Passing `low==high` to `adjoint.testing.make_tensor` for floating or complex types is "
            "deprecated, as it is in torch. Use `adjoint.full(...)` instead.",
            FutureWarning,
            stacklevel=4,
        )
    elif begin >= end:
        raise ValueError(f"`low` must be less than `high`, but got {begin} >= {end}")
    elif end < first or begin >= past:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{begin}, {end}), but {wanted} only "
            f"supports [{first}, {past})"
        )
    return max(begin, first), min(end, past)
