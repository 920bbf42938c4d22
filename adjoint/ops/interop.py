"""Other array libraries: NumPy's ufunc and function protocols, and DLPack both ways."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .._typing import Array, DeviceLike, Kernel, Tensor, Value
from ..core import device as devices
from ..core.dtypes import of, of_number
from ..core.nodes import wrap
from ..core.payload import Payload
from ..core.primitive import by_ufunc
from ..core.tensor import TensorBase, note_write, storage_of
from ..core.writable import check_writable
from . import create
from .convert import as_numpy, converted, copy_
from .literals import array_from
from .memory import address_of

__all__ = ["from_dlpack", "to_dlpack"]

# --- Ufuncs -----------------------------------------------------------------------------------------

# Ufuncs that are no primitive's kernel, and the public function of the same meaning.
_NAMES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "ceil": "ceil", "conjugate": "conj", "copysign": "copysign", "deg2rad": "deg2rad",
    "degrees": "rad2deg", "divide": "div", "equal": "eq", "exp2": "exp2", "expm1": "expm1", "fabs": "abs",
    "float_power": "float_power", "floor": "floor", "floor_divide": "floor_divide", "fmax": "fmax", "fmin": "fmin",
    "fmod": "fmod", "gcd": "gcd", "greater": "gt", "greater_equal": "ge", "heaviside": "heaviside", "hypot": "hypot",
    "invert": "bitwise_not", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "lcm": "lcm", "ldexp": "ldexp",
    "left_shift": "bitwise_left_shift", "less": "lt", "less_equal": "le", "log10": "log10", "log1p": "log1p",
    "log2": "log2", "logaddexp": "logaddexp", "logaddexp2": "logaddexp2", "logical_and": "logical_and",
    "logical_not": "logical_not", "logical_or": "logical_or", "logical_xor": "logical_xor", "matmul": "matmul",
    "matvec": "matmul", "maximum": "maximum", "minimum": "minimum", "negative": "neg", "nextafter": "nextafter",
    "not_equal": "ne", "positive": "positive", "power": "pow", "rad2deg": "rad2deg", "radians": "deg2rad",
    "reciprocal": "reciprocal", "remainder": "remainder", "right_shift": "bitwise_right_shift", "rint": "round",
    "sign": "sign", "signbit": "signbit", "sqrt": "sqrt", "square": "square", "trunc": "trunc",
}  # fmt: skip
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_NUMBER_FIRST = {"pow", "float_power"}
_TENSORS_ONLY = {
    "atan2", "copysign", "fmax", "fmin", "gcd", "heaviside", "hypot", "lcm", "ldexp", "logaddexp", "logaddexp2",
    "maximum", "minimum", "nextafter",
}  # fmt: skip
_ACCUMULATIONS = {"add": "cumsum", "multiply": "cumprod"}


def _public(name: str) -> Callable[..., Any] | None:
    # The namespace gathers all modules, this one included.
    from . import namespace

    found: Callable[..., Any] | None = getattr(namespace, name, None)
    return found


def from_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Implement NumPy's ufunc protocol: ``np.sin(t)`` and ``ndarray * t`` record as ``sin(t)`` does.

    Parameters
    ----------
    ufunc, method, inputs, kwargs
        As NumPy gives them to ``__array_ufunc__``.
    """
    if any(_is_foreign(v) for v in inputs):
        return NotImplemented
    kwargs = {k: v for k, v in kwargs.items() if v is not None or k == "axis"}
    out = kwargs.pop("out", None)
    call = by_ufunc.get(ufunc) if method == "__call__" and not kwargs else None
    if call is not None:
        result = call(*(_operand(v) for v in inputs))
    else:
        result = _less_common(ufunc, method, inputs, kwargs)
    if out is None or all(o is None for o in out):
        return result
    results = result if isinstance(result, tuple) else (result,)
    placed = tuple(r if o is None else _into_out(o, r) for o, r in zip(out, results, strict=True))
    return placed if isinstance(result, tuple) else placed[0]


def _is_foreign(value: object) -> bool:
    if isinstance(value, TensorBase | np.ndarray | np.generic | Payload | int | float | complex):
        return False
    return hasattr(type(value), "__array_ufunc__")


def _operand(value: object) -> Any:
    return wrap(value) if isinstance(value, np.ndarray) else value


def _less_common(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Handle a ufunc that is no primitive's kernel, or a method other than the call."""
    operands = [_operand(v) for v in inputs]
    dtype = kwargs.pop("dtype", None) if set(kwargs) <= {"dtype", "axis", "keepdims"} else None
    if dtype is not None:
        wanted = of(np.dtype(dtype))
        operands = [converted(v, wanted, None, False, None) if isinstance(v, TensorBase) else v for v in operands]
    result: Any = None
    if method == "__call__" and not kwargs:
        result = _called(ufunc, operands)
    elif method == "reduce" and ufunc.__name__ in _REDUCTIONS and set(kwargs) <= {"axis", "keepdims"}:
        result = _reduced(_REDUCTIONS[ufunc.__name__], operands[0], kwargs)
    elif method == "accumulate" and ufunc.__name__ in _ACCUMULATIONS and set(kwargs) <= {"axis"}:
        function = _public(_ACCUMULATIONS[ufunc.__name__])
        result = None if function is None else function(operands[0], kwargs.get("axis", 0))
    elif method == "outer" and not kwargs:
        a, b = operands
        result = from_ufunc(ufunc, "__call__", (a.reshape((*a.shape, *(1,) * b.ndim)), b), {})
    if result is None:
        if dtype is not None:
            kwargs["dtype"] = dtype
        return _on_arrays(ufunc, method, inputs, kwargs)
    return result


def _called(ufunc: np.ufunc, operands: list[Any]) -> Any:
    call = by_ufunc.get(ufunc)
    if call is not None:
        return call(*operands)
    name = _NAMES.get(ufunc.__name__)
    function = None if name is None else _public(name)
    if function is None:
        return None
    # A public function takes its first operand as a tensor, some take only tensors.
    like = next(v for v in operands if isinstance(v, TensorBase | Payload))
    for i, value in enumerate(operands):
        if (i == 0 and name not in _NUMBER_FIRST) or name in _TENSORS_ONLY:
            if not isinstance(value, TensorBase | Payload):
                operands[i] = create.finish(array_from(value, _category_of(value, like), copy=False))
    return function(*operands)


def _category_of(number: Any, like: Any) -> Any:
    """Return the dtype in which a number beside a tensor takes part: the tensor's, if it can hold it."""
    mine = of(like.array.dtype if isinstance(like, TensorBase) else like.dtype)
    own = of_number(number)
    return mine if mine.category >= own.category else own


def _reduced(name: str, x: Any, kwargs: dict[str, Any]) -> Any:
    function = _public(name)
    if function is None:
        return None
    axis, keep = kwargs.get("axis", 0), bool(kwargs.get("keepdims", False))
    dims = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if name == "sum":
        return function(x, dims, keep) if dims else x
    if name in ("max", "min"):
        whole = _public(f"a{name}")
        return whole(x, dims, keep) if whole is not None and dims else x
    for dim in sorted((d % x.ndim for d in dims), reverse=True):
        x = function(x, dim, keep)
    return x


def _on_arrays(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute on plain arrays what no op records; a tensor that requires grad is refused."""
    if method == "at":
        _at(ufunc, inputs)
        return None
    plain = [as_numpy(v, False) if isinstance(v, TensorBase) else v for v in inputs]
    return wrapped(getattr(ufunc, method)(*plain, **kwargs))


def _at(ufunc: Any, inputs: tuple[Any, ...]) -> None:
    target, rest = inputs[0], [as_numpy(v, False) if isinstance(v, TensorBase) else v for v in inputs[1:]]
    if isinstance(target, TensorBase):
        check_writable(target, target.node is not None)
        ufunc.at(as_numpy(target, False), *rest)
        note_write(target, f"{ufunc.__name__}.at")
    else:
        ufunc.at(target, *rest)


def wrapped(result: Any) -> Any:
    """Return what NumPy computed with its arrays as tensors."""
    if isinstance(result, np.ndarray):
        return create.finish(result.view(np.ndarray)) if result.dtype.kind in "biufc" else result
    if isinstance(result, np.generic) and not isinstance(result, np.bool_):
        return create.finish(np.asarray(result)) if result.dtype.kind in "iufc" else result
    if type(result) in (tuple, list):
        return type(result)(wrapped(r) for r in result)
    return result


def _into_out(out: Value, result: Value) -> Value:
    if isinstance(out, TensorBase):
        return copy_(cast(Any, out), result)
    out[...] = as_numpy(result, False) if isinstance(result, TensorBase) else result
    return out


def from_function(func: Kernel, args: Any, kwargs: Any) -> Any:
    """Implement NumPy's function protocol by the recording op of the same meaning, or on plain arrays."""
    # Imported late: it imports all modules, and only a small part of programs needs it.
    from . import numpy_functions

    return numpy_functions.call(func, args, kwargs)


# --- DLPack -----------------------------------------------------------------------------------------


def export(x: TensorBase, **kwargs: Any) -> Any:
    """Return the tensor's memory as a DLPack capsule."""
    if x.node is not None:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    array = x.array
    if isinstance(array, Payload):
        raise BufferError("a tensor inside a transform has no memory to export")
    if array.dtype.kind not in "biufc":
        raise BufferError(f"NumPy cannot export {of(array.dtype).name} through DLPack; convert with .float() first")
    return array.__dlpack__(**kwargs)


def to_dlpack(tensor: Tensor) -> Any:
    """Return the tensor's memory as a DLPack capsule; libraries that support DLPack need no capsule."""
    return export(tensor)


class _Capsule:
    """A capsule to be passed to NumPy or CuPy, which require an object that makes one."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> Any:
        return self.device


def from_dlpack(ext_tensor: Any, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """Make a tensor that shares the memory of any object that supports DLPack.

    Memory that the producer marks as read-only refuses writes here too.

    Examples
    --------
    >>> adjoint.from_dlpack(np.arange(3.0))
    tensor([0., 1., 2.], dtype=adjoint.float64)
    """
    if isinstance(ext_tensor, TensorBase):
        source: Any = ext_tensor
        if source.node is not None:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        out = wrap(source.array, None, storage_of(source))
    else:
        out = create.from_memory(_imported(ext_tensor))
    moved = out if device is None else out.to(devices.as_device(device))
    if moved is not out and copy is False:
        raise ValueError(f"cannot move a tensor to {device} without a copy")
    return create.finish(moved.array.copy()) if copy and moved is out else moved


def _imported(source: Any) -> Any:
    if not hasattr(source, "__dlpack__"):
        if type(source).__name__ != "PyCapsule":
            raise TypeError(f"from_dlpack: expected an object with __dlpack__, not {type(source).__name__}")
        return _adopted(np.from_dlpack(_Capsule(source, (1, 0))), source)
    place = source.__dlpack_device__()
    if int(place[0]) != 1:
        return devices.array_module(devices.device("cuda")).from_dlpack(source)
    try:
        capsule = source.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before DLPack 1.0
        capsule = source.__dlpack__()
    versioned = "dltensor_versioned" in repr(capsule)
    array = np.from_dlpack(_Capsule(capsule, (1, 0)))
    return array if versioned else _adopted(array, source)


def _adopted(array: Array, source: object) -> Array:
    """Return memory that came without a word on whether it may be written, as writable."""
    # Before DLPack 1.0 producers could not mark memory as read-only, and NumPy takes all of theirs for
    # that; torch and CuPy write to it. NumPy's own read-only arrays never come this way.
    if array.flags.writeable or array.size == 0:
        return array
    extent = sum(abs(s) * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)) + array.itemsize
    memory = (ctypes.c_char * extent).from_address(address_of(array))
    memory._keeps = array
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)
