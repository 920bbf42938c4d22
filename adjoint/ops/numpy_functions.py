"""NumPy's functions on tensors: ``np.sum(t)``, ``np.concatenate([t, u])`` record as adjoint's own do.

Each function here has the signature of the NumPy function it stands for. Where no op has the meaning, or a
parameter has no counterpart, NumPy computes on plain arrays; a tensor that requires grad is then refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._typing import Dims, Ints, Kernel, Value
from ..core.dtypes import of
from ..core.nodes import wrap
from ..core.payload import Payload
from ..core.tensor import TensorBase, note_write
from ..core.writable import check_writable
from . import namespace
from .convert import as_numpy, copy_
from .interop import wrapped

__all__: list[str] = []

ops: Any = namespace
_table: dict[Kernel, Kernel] = {}
_MISSING: Any = np._NoValue  # what NumPy passes for a parameter that was not given


class _Unsupported(Exception):
    """A parameter has no counterpart: NumPy itself must compute."""


def call(func: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a NumPy function gives for arguments of which some are tensors."""
    function = _table.get(func)
    if function is not None:
        try:
            return function(*args, **{k: v for k, v in kwargs.items() if v is not _MISSING})
        except (_Unsupported, AttributeError) as error:
            if isinstance(error, AttributeError) and getattr(error, "obj", None) is not namespace:
                raise
    return _on_arrays(func, args, kwargs)


def _on_arrays(func: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return wrapped(func(*_plain(args), **_plain(kwargs)))
    except RuntimeError as error:
        if "requires grad" in str(error):
            error.add_note(f"np.{func.__name__} has no counterpart that records gradients; call it on x.detach()")
        raise


def _plain(value: Any) -> Any:
    """Return arguments with every tensor replaced by its array."""
    if isinstance(value, TensorBase):
        return as_numpy(value, False)
    if type(value) in (list, tuple):
        return type(value)(_plain(v) for v in value)
    if type(value) is dict:
        return {k: _plain(v) for k, v in value.items()}
    return value


def implements(*functions: Kernel) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the implementation of a NumPy function."""

    def register(answer: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            _table[function] = answer
        return answer

    return register


def _tensor(value: object) -> Any:
    if isinstance(value, TensorBase | Payload):
        return value
    return wrap(value) if isinstance(value, np.ndarray) else ops.as_tensor(value)


def _tensors(values: Any) -> Any:
    return values if isinstance(values, TensorBase) else [_tensor(v) for v in values]


def _put(out: Value | None, result: Any) -> Any:
    if out is None:
        return result
    if isinstance(out, TensorBase):
        return copy_(cast(Any, out), result)
    out[...] = as_numpy(result, False)
    return out


def _cast(x: Any, dtype: DTypeLike | None) -> Any:
    return x if dtype is None else x.to(of(np.dtype(dtype)))


def _dims(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return tuple(axis) if isinstance(axis, tuple | list) else (int(axis),)


@implements(np.copyto)
def _copyto(dst: ArrayLike, src: ArrayLike, casting: str = "same_kind", where: object = True) -> Any:
    if isinstance(dst, TensorBase) and where is True:
        copy_(cast(Any, dst), src)
        return None
    return _writing(np.copyto, dst, src, casting=casting, where=where)


def _writing(function: Kernel, target: object, *args: object, **kwargs: Any) -> Any:
    """Let NumPy write into a tensor's memory, and count that as a write."""
    if isinstance(target, TensorBase):
        check_writable(target, target.node is not None)
    result = function(_plain(target), *_plain(args), **_plain(kwargs))
    if isinstance(target, TensorBase):
        note_write(target, f"np.{function.__name__}")
    return result


for _function in (np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal):
    _table[_function] = partial(_writing, _function)


# --- Reductions -------------------------------------------------------------------------------------


def _reduction(name: str, *functions: Kernel) -> None:
    @implements(*functions)
    def reduce(
        a: ArrayLike, axis: Dims = None, dtype: DTypeLike | None = None, out: Value | None = None,
        keepdims: bool = False,
    ) -> Any:  # fmt: skip
        x = _cast(_tensor(a), dtype)
        return _put(out, getattr(ops, name)(x, _dims(axis, x.ndim), bool(keepdims)) if x.ndim else x)


_reduction("sum", np.sum)
_reduction("nansum", np.nansum)
_reduction("mean", np.mean)
_reduction("nanmean", np.nanmean)


def _extreme(name: str, *functions: Kernel) -> None:
    @implements(*functions)
    def reduce(a: ArrayLike, axis: Dims = None, out: Value | None = None, keepdims: bool = False) -> Any:
        x = _tensor(a)
        return _put(out, getattr(ops, name)(x, _dims(axis, x.ndim), bool(keepdims)) if x.ndim else x)


_extreme("amax", np.max, np.amax)
_extreme("amin", np.min, np.amin)


def _one_by_one(name: str, *functions: Kernel) -> None:
    @implements(*functions)
    def reduce(
        a: ArrayLike, axis: Dims = None, dtype: DTypeLike | None = None, out: Value | None = None,
        keepdims: bool = False,
    ) -> Any:  # fmt: skip
        x = _cast(_tensor(a), dtype)
        for dim in sorted((d % max(x.ndim, 1) for d in _dims(axis, x.ndim)), reverse=True):
            x = getattr(ops, name)(x, dim, bool(keepdims))
        return _put(out, x)


_one_by_one("prod", np.prod)


def _truth(name: str, *functions: Kernel) -> None:
    @implements(*functions)
    def reduce(a: ArrayLike, axis: Dims = None, out: Value | None = None, keepdims: bool = False) -> Any:
        x = _tensor(a)
        for dim in sorted((d % max(x.ndim, 1) for d in _dims(axis, x.ndim)), reverse=True):
            x = getattr(ops, name)(x, dim, bool(keepdims))
        return _put(out, x if x.ndim or axis is not None else x != 0)


_truth("all", np.all)
_truth("any", np.any)


def _spread(name: str, *functions: Kernel) -> None:
    @implements(*functions)
    def reduce(
        a: ArrayLike, axis: Dims = None, dtype: DTypeLike | None = None, out: Value | None = None, ddof: int = 0,
        keepdims: bool = False, correction: Any = None,
    ) -> Any:  # fmt: skip
        x = _cast(_tensor(a), dtype)
        by = ddof if correction is None else correction
        return _put(out, getattr(ops, name)(x, _dims(axis, x.ndim), correction=by, keepdim=bool(keepdims)))


_spread("var", np.var)
_spread("std", np.std)


def _place(name: str, *functions: Kernel) -> None:
    @implements(*functions)
    def reduce(a: ArrayLike, axis: Dims = None, out: Value | None = None, *, keepdims: bool = False) -> Any:
        return _put(out, getattr(ops, name)(_tensor(a), axis, bool(keepdims)))


_place("argmax", np.argmax)
_place("argmin", np.argmin)


def _running(name: str, *functions: Kernel) -> None:
    @implements(*functions)
    def scan(a: ArrayLike, axis: Dims = None, dtype: DTypeLike | None = None, out: Value | None = None) -> Any:
        x = _cast(_tensor(a), dtype)
        return _put(out, getattr(ops, name)(x.reshape(-1) if axis is None else x, 0 if axis is None else axis))


_running("cumsum", np.cumsum)
_running("cumprod", np.cumprod)


@implements(np.median)
def _median(
    a: ArrayLike, axis: Dims = None, out: Value | None = None, overwrite_input: bool = False, keepdims: bool = False,
) -> Any:  # fmt: skip
    # torch's median is the lower of the two in the middle; NumPy's is their mean.
    return _quantile(a, 0.5, axis, out, overwrite_input, keepdims=keepdims)


@implements(np.quantile)
def _quantile(
    a: ArrayLike, q: ArrayLike, axis: Dims = None, out: Value | None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False,
) -> Any:  # fmt: skip
    if isinstance(axis, tuple | list) or method not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise _Unsupported
    x = _tensor(a)
    if not x.is_floating_point():
        x = x.to(of(np.dtype(np.float64)))
    q = _tensor(q).to(x.dtype) if not isinstance(q, float) else q
    return _put(out, ops.quantile(x, q, axis, bool(keepdims), interpolation=method))


@implements(np.count_nonzero)
def _count_nonzero(a: ArrayLike, axis: Dims = None, *, keepdims: bool = False) -> Any:
    if keepdims:
        raise _Unsupported
    return ops.count_nonzero(_tensor(a), axis)


@implements(np.average)
def _average(
    a: ArrayLike, axis: Dims = None, weights: ArrayLike | None = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    if returned:
        raise _Unsupported
    x = _tensor(a)
    if weights is None:
        return _table[np.mean](x, axis, keepdims=keepdims)
    w = _tensor(weights)
    if w.ndim == 1 and x.ndim > 1 and isinstance(axis, int):
        w = w.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])
    w = ops.broadcast_to(w, x.shape)
    dims = _dims(axis, x.ndim)
    return ops.sum(x * w, dims, keepdims) / ops.sum(w, dims, keepdims)


@implements(np.ptp)
def _ptp(a: ArrayLike, axis: Dims = None, out: Value | None = None, keepdims: bool = False) -> Any:
    return _put(out, _table[np.max](a, axis, None, keepdims) - _table[np.min](a, axis, None, keepdims))


@implements(np.trace)
def _trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None,
    out: Value | None = None,
) -> Any:  # fmt: skip
    return _put(out, ops.sum(ops.diagonal(_cast(_tensor(a), dtype), offset, axis1, axis2), -1))


# --- Shapes -----------------------------------------------------------------------------------------

_table.update(
    {
        np.matrix_transpose: lambda x, /: ops.transpose(_tensor(x), -1, -2),
        np.swapaxes: lambda a, axis1, axis2: ops.transpose(_tensor(a), axis1, axis2),
        np.moveaxis: lambda a, source, destination: ops.movedim(_tensor(a), source, destination),
        np.broadcast_arrays: lambda *args, subok=False: tuple(ops.broadcast_tensors(*_tensors(args))),
        np.flipud: lambda m: ops.flip(_tensor(m), (0,)),
        np.fliplr: lambda m: ops.flip(_tensor(m), (1,)),
        np.rot90: lambda m, k=1, axes=(0, 1): ops.rot90(_tensor(m), k, tuple(axes)),
        np.tile: lambda A, reps: ops.tile(_tensor(A), (reps,) if isinstance(reps, int) else tuple(reps)),
        np.diagonal: lambda a, offset=0, axis1=0, axis2=1: ops.diagonal(_tensor(a), offset, axis1, axis2),
        np.diag: lambda v, k=0: ops.diag(_tensor(v), k),
        np.tril: lambda m, k=0: ops.tril(_tensor(m), k),
        np.triu: lambda m, k=0: ops.triu(_tensor(m), k),
        np.copy: lambda a, order="K", subok=False: ops.clone(_tensor(a)),
    }
)


@implements(np.reshape)
def _reshape(
    a: ArrayLike, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    if order != "C" or copy:
        raise _Unsupported
    wanted = shape if newshape is None else newshape
    return _tensor(a).reshape((wanted,) if isinstance(wanted, int) else tuple(wanted))


@implements(np.ravel)
def _ravel(a: ArrayLike, order: str = "C") -> Any:
    if order != "C":
        raise _Unsupported
    return _tensor(a).reshape(-1)


@implements(np.transpose, np.permute_dims)
def _transpose(a: ArrayLike, axes: Any = None) -> Any:
    x = _tensor(a)
    return ops.permute(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


@implements(np.squeeze)
def _squeeze(a: ArrayLike, axis: Dims = None) -> Any:
    x = _tensor(a)
    for dim in () if axis is None else _dims(axis, x.ndim):
        if x.shape[dim] != 1:
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return ops.squeeze(x) if axis is None else ops.squeeze(x, _dims(axis, x.ndim))


@implements(np.expand_dims)
def _expand_dims(a: ArrayLike, axis: Dims) -> Any:
    x = _tensor(a)
    dims = _dims(axis, 0)
    rank = x.ndim + len(dims)
    for dim in sorted(d % rank for d in dims):
        x = ops.unsqueeze(x, dim)
    return x


@implements(np.broadcast_to)
def _broadcast_to(array: ArrayLike, shape: Ints, subok: bool = False) -> Any:
    return ops.broadcast_to(_tensor(array), (shape,) if isinstance(shape, int) else tuple(shape))


def _at_least(name: str, function: Kernel) -> None:
    @implements(function)
    def at_least(*arys: ArrayLike) -> Any:
        made = tuple(getattr(ops, name)(_tensor(a)) for a in arys)
        return made[0] if len(made) == 1 else made


_at_least("atleast_1d", np.atleast_1d)
_at_least("atleast_2d", np.atleast_2d)
_at_least("atleast_3d", np.atleast_3d)


@implements(np.flip)
def _flip(m: ArrayLike, axis: Dims = None) -> Any:
    x = _tensor(m)
    return ops.flip(x, _dims(axis, x.ndim))


@implements(np.roll)
def _roll(a: ArrayLike, shift: Any, axis: Dims = None) -> Any:
    return ops.roll(_tensor(a), shift) if axis is None else ops.roll(_tensor(a), shift, axis)


@implements(np.repeat)
def _repeat(a: ArrayLike, repeats: ArrayLike, axis: Dims = None) -> Any:
    counts = repeats if isinstance(repeats, int) else _tensor(repeats)
    return ops.repeat_interleave(_tensor(a), counts, axis)


@implements(np.pad)
def _pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    value = kwargs.get("constant_values", 0)
    if mode != "constant" or not isinstance(value, int | float) or set(kwargs) - {"constant_values"}:
        raise _Unsupported
    x = _tensor(array)
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    for dim, (before, after) in enumerate(widths):
        parts = [x]
        for count, at in ((before, 0), (after, 1)):
            if count:
                shape = tuple(count if d == dim else n for d, n in enumerate(x.shape))
                parts.insert(at * len(parts), x.new_full(shape, value))
        x = ops.cat(parts, dim) if len(parts) > 1 else x
    return x


# --- Joining and splitting --------------------------------------------------------------------------

_table[np.unstack] = lambda x, /, *, axis=0: tuple(ops.unbind(_tensor(x), axis))


@implements(np.concatenate)
def _concatenate(
    arrays: Sequence[ArrayLike], /, axis: Dims = 0, out: Value | None = None, *, dtype: DTypeLike | None = None,
    casting: str | None = None,
) -> Any:  # fmt: skip
    xs = _tensors(arrays)
    if axis is None:
        xs, axis = [x.reshape(-1) for x in xs], 0
    return _put(out, _cast(ops.cat(list(xs), axis), dtype))


@implements(np.stack)
def _stack(
    arrays: Sequence[ArrayLike], axis: int = 0, out: Value | None = None, *, dtype: DTypeLike | None = None,
    casting: str | None = None,
) -> Any:  # fmt: skip
    return _put(out, _cast(ops.stack(list(_tensors(arrays)), axis), dtype))


def _joining(name: str, function: Kernel) -> None:
    @implements(function)
    def join(tup: Any, *, dtype: DTypeLike | None = None, casting: str | None = None) -> Any:
        return _cast(getattr(ops, name)(list(_tensors(tup))), dtype)


_joining("hstack", np.hstack)
_joining("vstack", np.vstack)
_joining("dstack", np.dstack)
_joining("column_stack", np.column_stack)


def _splitting(function: Kernel, exact: bool) -> None:
    @implements(function)
    def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> Any:
        x = _tensor(ary)
        if isinstance(indices_or_sections, int) and exact and x.shape[axis] % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
        where = indices_or_sections
        return list(ops.tensor_split(x, where if isinstance(where, int) else list(where), axis))


_splitting(np.split, True)
_splitting(np.array_split, False)


@implements(np.meshgrid)
def _meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if sparse:
        raise _Unsupported
    return tuple(ops.meshgrid(*_tensors(xi), indexing=indexing))


# --- Elementwise, choice, order ---------------------------------------------------------------------

_table[np.nonzero] = lambda a: tuple(ops.nonzero(_tensor(a), as_tuple=True))


@implements(np.where)
def _where(condition: ArrayLike, x: ArrayLike = _MISSING, y: ArrayLike = _MISSING, /) -> Any:
    if x is _MISSING:
        return tuple(ops.nonzero(_tensor(condition), as_tuple=True))
    return ops.where(_tensor(condition).to(of(np.dtype(bool))), _or_number(x), _or_number(y))


def _or_number(value: object) -> Any:
    return value if isinstance(value, bool | int | float | complex) else _tensor(value)


@implements(np.clip)
def _clip(
    a: ArrayLike, a_min: Any = None, a_max: Any = None, out: Value | None = None, *, min: Any = None, max: Any = None,
) -> Any:  # fmt: skip
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    low, high = (v if v is None else _or_number(v) for v in (low, high))
    x = _tensor(a)
    return _put(out, x if low is None and high is None else ops.clamp(x, low, high))


def _plainly(name: str, *functions: Kernel) -> None:
    """Let an op of one tensor implement NumPy functions of one array."""

    @implements(*functions)
    def answer(a: ArrayLike, out: Value | None = None) -> Any:
        return _put(out, getattr(ops, name)(_tensor(a)))


_plainly("real", np.real)
_plainly("imag", np.imag)
_plainly("fix", np.fix)
_plainly("sinc", np.sinc)
_plainly("isposinf", np.isposinf)
_plainly("isneginf", np.isneginf)
_plainly("isreal", np.isreal)
_plainly("i0", np.i0)


@implements(np.angle)
def _angle(z: ArrayLike, deg: bool = False) -> Any:
    found = ops.angle(_tensor(z))
    return ops.rad2deg(found) if deg else found


@implements(np.round, np.around)
def _round(a: ArrayLike, decimals: int = 0, out: Value | None = None) -> Any:
    x = _tensor(a)
    return _put(out, ops.round(x, decimals=decimals) if decimals else ops.round(x))


@implements(np.nan_to_num)
def _nan_to_num(x: ArrayLike, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return ops.nan_to_num(_tensor(x), nan, posinf, neginf)


@implements(np.sort)
def _sort(
    a: ArrayLike, axis: Dims = -1, kind: str | None = None, order: str | None = None, *, stable: Any = None,
) -> Any:  # fmt: skip
    x = _tensor(a)
    return ops.sort(x.reshape(-1) if axis is None else x, dim=-1 if axis is None else axis, stable=True)[0]


@implements(np.argsort)
def _argsort(
    a: ArrayLike, axis: Dims = -1, kind: str | None = None, order: str | None = None, *, stable: Any = None,
) -> Any:  # fmt: skip
    x = _tensor(a)
    return ops.argsort(x.reshape(-1) if axis is None else x, dim=-1 if axis is None else axis, stable=True)


@implements(np.take)
def _take(a: ArrayLike, indices: ArrayLike, axis: Dims = None, out: Value | None = None, mode: str = "raise") -> Any:
    if mode != "raise":
        raise _Unsupported
    x, where = _tensor(a), _tensor(indices)
    if axis is None:
        return _put(out, x.reshape(-1)[where])
    return _put(out, x[(slice(None),) * (axis % x.ndim) + (where,)])


@implements(np.take_along_axis)
def _take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: Dims = -1) -> Any:
    x, where = _tensor(arr), _tensor(indices)
    return ops.gather(x.reshape(-1) if axis is None else x, 0 if axis is None else axis, where)


@implements(np.compress)
def _compress(condition: ArrayLike, a: ArrayLike, axis: Dims = None, out: Value | None = None) -> Any:
    return _put(out, _take(a, np.flatnonzero(_plain(condition)), axis))


@implements(np.diff)
def _diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None,
) -> Any:  # fmt: skip
    ends = (None if v is None else _tensor(v) for v in (prepend, append))
    return ops.diff(_tensor(a), n, axis, *ends)


# --- Products ---------------------------------------------------------------------------------------

_table[np.vdot] = lambda a, b, /: ops.vdot(_tensor(a).reshape(-1), _tensor(b).reshape(-1))
_table[np.inner] = lambda a, b, /: ops.inner(_tensor(a), _tensor(b))
_table[np.outer] = lambda a, b, out=None: _put(out, ops.outer(_tensor(a).reshape(-1), _tensor(b).reshape(-1)))
_table[np.kron] = lambda a, b: ops.kron(_tensor(a), _tensor(b))


@implements(np.dot)
def _dot(a: ArrayLike, b: ArrayLike, out: Value | None = None) -> Any:
    x, y = _tensor(a), _tensor(b)
    if x.ndim == 0 or y.ndim == 0:
        return _put(out, x * y)
    if y.ndim > 2:
        return _put(out, ops.tensordot(x, y, ([x.ndim - 1], [y.ndim - 2])))
    return _put(out, ops.matmul(x, y))


@implements(np.tensordot)
def _tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        return ops.tensordot(_tensor(a), _tensor(b), axes)
    left, right = ([d] if isinstance(d, int) else list(d) for d in axes)
    return ops.tensordot(_tensor(a), _tensor(b), (left, right))


@implements(np.einsum)
def _einsum(*operands: Any, out: Value | None = None, optimize: Any = False, **kwargs: Any) -> Any:
    if not isinstance(operands[0], str) or kwargs:
        raise _Unsupported
    return _put(out, ops.einsum(operands[0], *_tensors(operands[1:])))


@implements(np.cross)
def _cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Dims = None) -> Any:
    if axis is None and (axisa, axisb, axisc) != (-1, -1, -1):
        raise _Unsupported
    # Broadcasts, as linalg.cross does, and uses the last axis by default.
    x, y = ops.broadcast_tensors(_tensor(a), _tensor(b))
    return ops.cross(x, y, dim=-1 if axis is None else axis)


# --- Questions and creation -------------------------------------------------------------------------

_table.update(
    {
        np.shape: lambda a: tuple(_tensor(a).shape),
        np.ndim: lambda a: int(_tensor(a).ndim),
        np.iscomplexobj: lambda x: bool(x.is_complex()),
        np.isrealobj: lambda x: not x.is_complex(),
        np.array_equal: lambda a1, a2, equal_nan=False: bool(np.array_equal(_values(a1), _values(a2), equal_nan)),
        np.array_equiv: lambda a1, a2: bool(np.array_equiv(_values(a1), _values(a2))),
    }
)


@implements(np.size)
def _size(a: ArrayLike, axis: Dims = None) -> int:
    shape = _tensor(a).shape
    return math.prod(shape if axis is None else [shape[d] for d in _dims(axis, len(shape))])


@implements(np.allclose)
def _allclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(np.allclose(_values(a), _values(b), rtol, atol, equal_nan))


@implements(np.isclose)
def _isclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    return wrapped(np.isclose(_values(a), _values(b), rtol, atol, equal_nan))


def _values(value: object) -> Any:
    """Return an argument of a comparison, which has no gradient to lose, as an array."""
    return as_numpy(value, True) if isinstance(value, TensorBase) else value


def _making(name: str, function: Kernel) -> None:
    @implements(function)
    def make(
        a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = "K", subok: bool = True,
        shape: Ints | None = None, *, device: Any = None,
    ) -> Any:  # fmt: skip
        if shape is not None:
            raise _Unsupported
        return getattr(ops, name)(a, dtype=None if dtype is None else of(np.dtype(dtype)))


_making("zeros_like", np.zeros_like)
_making("ones_like", np.ones_like)
_making("empty_like", np.empty_like)


@implements(np.full_like)
def _full_like(
    a: ArrayLike, fill_value: Any, dtype: DTypeLike | None = None, order: str | None = "K", subok: bool = True,
    shape: Ints | None = None, *, device: Any = None,
) -> Any:  # fmt: skip
    if shape is not None:
        raise _Unsupported
    return ops.full_like(a, fill_value, dtype=None if dtype is None else of(np.dtype(dtype)))


# --- Linear algebra ---------------------------------------------------------------------------------


def _linalg(name: str) -> None:
    function = getattr(np.linalg, name, None)
    if function is None:
        return

    @implements(function)
    def answer(*args: object, **kwargs: Any) -> Any:
        # The public linalg module is below this one in the layout.
        from importlib import import_module

        try:
            op = getattr(import_module("adjoint.linalg"), name)
        except (ImportError, AttributeError):
            raise _Unsupported from None
        return op(*(_tensor(a) if isinstance(a, TensorBase | np.ndarray) else a for a in args), **kwargs)


for _name in ("inv", "pinv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "solve", "matrix_power", "multi_dot"):
    _linalg(_name)


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Dims = None, keepdims: bool = False) -> Any:
    from importlib import import_module  # as above

    try:
        norm = import_module("adjoint.linalg").norm
    except (ImportError, AttributeError):
        if ord not in (None, 2) or (ord == 2 and axis is None and x.ndim != 1):
            raise _Unsupported from None
        return ops.sqrt(ops.sum(ops.abs(_tensor(x)) ** 2, _dims(axis, x.ndim), keepdims))
    return norm(_tensor(x), ord, axis, keepdims)
