"""CuPy's module functions: NumPy's and SciPy's on the memory of simulated arrays, where CuPy has them at all."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import runtime
from .arrays import BF16, _half, _into, _sortable, check_dtype, fresh, give, host, ndarray, ufunc, unsupported

_SCATTERS = {"add", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "subtract"}
# Functions that take what is on the host.
_FROM_HOST = {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite", "full"}
# Functions that must know values on the host.
_TRANSFERRING = {"unique", "nonzero", "flatnonzero", "argwhere", "array_equal", "compress", "extract", "setdiff1d"}
# Names of parameters that NumPy calls otherwise.
_RENAMED = {"tup": "arrays", "newshape": "shape"}
# Functions that return words, not arrays.
_WORDS = {
    "ndim", "shape", "size", "result_type", "can_cast", "isscalar", "iscomplexobj", "isrealobj", "issubdtype",
    "promote_types", "min_scalar_type", "isdtype", "broadcast_shapes", "iterable", "common_type", "may_share_memory",
    "shares_memory", "isfortran", "get_printoptions", "set_printoptions", "printoptions", "base_repr", "binary_repr",
}  # fmt: skip


def _signature(text: str) -> inspect.Signature:
    kinds, found = inspect.Parameter, []
    kind = kinds.POSITIONAL_OR_KEYWORD
    for word in text.split():
        if word == "/":
            found = [p.replace(kind=kinds.POSITIONAL_ONLY) for p in found]
        elif word == "*":
            kind = kinds.KEYWORD_ONLY
        elif word.startswith("**"):
            found.append(kinds(word[2:], kinds.VAR_KEYWORD))
        elif word.startswith("*"):
            found.append(kinds(word[1:], kinds.VAR_POSITIONAL))
            kind = kinds.KEYWORD_ONLY
        else:
            found.append(kinds(word.rstrip("="), kind, default=None if word.endswith("=") else kinds.empty))
    return inspect.Signature(found)


def arrays_in(value: Any) -> list[Any]:
    """Return the simulated arrays in nested containers."""
    if isinstance(value, ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [a for v in value for a in arrays_in(v)] if isinstance(value, list | tuple) else []


def _check_operands(name: str, args: Any, kwargs: Any) -> None:
    """Refuse arrays of the host beside arrays of the GPU."""
    if name in _FROM_HOST:
        return
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, np.ndarray) and item.ndim and not isinstance(item, np.generic):
                raise unsupported(item)


def function(name: str, text: str, numpy_function: Callable[..., Any]) -> Callable[..., Any]:
    """Return one of CuPy's functions, made of NumPy's."""
    signature = _signature(text)

    def call(*args: Any, **kwargs: Any) -> Any:
        signature.bind(*args, **kwargs)
        _check_operands(name, args, kwargs)
        if name in _TRANSFERRING:
            runtime.transfer()
        kwargs = {_RENAMED.get(k, k): v for k, v in kwargs.items()}
        out = kwargs.pop("out", None)
        sources = arrays_in([args, kwargs])

        def compute() -> Any:
            with np.errstate(all="ignore"):
                return numpy_function(*host(args), **{k: host(v) for k, v in kwargs.items()})

        if out is not None:
            return _into(out, compute)
        result = compute()
        if name in _WORDS:
            return result
        if isinstance(result, tuple) and type(result) is not tuple:
            result = tuple(result)
        if isinstance(result, bool):
            result = np.asarray(result)
        return give(result, sources, compute)

    call.__name__ = call.__qualname__ = name
    call.__module__ = "cupy"
    return call


# --- Functions that are not NumPy's -----------------------------------------------------------------


def array(
    obj: Any, dtype: Any = None, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0,
    *, blocking: bool = False,
) -> Any:  # fmt: skip
    """Return an array on the GPU with given values."""
    if isinstance(obj, ndarray):
        if not copy and (dtype is None or np.dtype(dtype) == obj.dtype):
            if order in (None, "K", "A") or (order == "C" and obj._c_contiguous):
                return obj if ndmin <= obj.ndim else obj.reshape((1,) * (ndmin - obj.ndim) + obj.shape)
        source = obj
        return fresh(
            np.array(obj._a, dtype, order=order or "K", ndmin=ndmin),
            lambda: np.array(source._a, dtype, ndmin=ndmin),
        )
    if hasattr(obj, "__cuda_array_interface__"):
        raise NotImplementedError("__cuda_array_interface__ of others")
    sources = arrays_in(obj)
    values = np.array(host(obj), order="C" if order in (None, "K", "A") and not isinstance(obj, np.ndarray) else order,
                      ndmin=ndmin)  # fmt: skip
    if dtype is not None:
        values = values.astype(dtype)
    check_dtype(values.dtype)
    again = (lambda: np.array(host(obj), ndmin=ndmin)) if sources else None
    return fresh(values, again)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> Any:
    """Return an array on the GPU with given values, itself where it is one."""
    return array(a, dtype, bool(copy), order or "K")


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """Return an array in C order."""
    return array(a, dtype, False, "C", ndmin=1)


def asfortranarray(a: Any, dtype: Any = None) -> Any:
    """Return an array in Fortran's order."""
    return fresh(np.asfortranarray(host(a), dtype))


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
    """Return an array of the host."""
    return a.get(order=order, out=out) if isinstance(a, ndarray) else np.asarray(a, order=order)  # type: ignore[call-overload]


def get_array_module(*args: Any) -> Any:
    """Return CuPy if one of the arguments is on the GPU."""
    import cupy

    return cupy if arrays_in(args) else np


def matmul(x1: Any, x2: Any, /, out: Any = None, axes: Any = None, axis: Any = None) -> Any:
    """Multiply matrices; not bfloat16 ones by the batch."""
    for x in (x1, x2):
        if not isinstance(x, ndarray):
            raise unsupported(x)
    dtype = np.result_type(x1.dtype, x2.dtype)
    if dtype == BF16 and max(x1.ndim, x2.ndim) > 2:
        raise TypeError("data type 'E' not understood")
    return _product(np.matmul, x1, x2, out, dtype)


def _product(multiply: Callable[..., Any], x: Any, y: Any, out: Any, dtype: Any, *more: Any) -> Any:
    def compute() -> Any:
        with np.errstate(all="ignore"):
            wide = np.float32 if _half(dtype) else dtype
            return np.asarray(multiply(x._a.astype(wide), y._a.astype(wide), *more)).astype(dtype)

    if out is not None:
        return _into(out, compute)
    return fresh(compute(), compute, next((type(a) for a in (x, y) if type(a) is not ndarray), ndarray), "C")


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return the product of arrays."""
    if not isinstance(a, ndarray) or not isinstance(b, ndarray):
        raise unsupported(b)
    return _product(np.dot, a, b, out, np.result_type(a.dtype, b.dtype))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Return the product of arrays over some axes."""
    return _product(np.tensordot, a, b, None, np.result_type(a.dtype, b.dtype), axes)


def sort(a: Any, axis: Any = -1, kind: Any = None) -> Any:
    """Return an array in order."""
    out = a.ravel().copy() if axis is None else a.copy()
    out.sort(-1 if axis is None else axis)
    return out


def argsort(a: Any, axis: Any = -1, kind: Any = None) -> Any:
    """Return where the elements of an array in order are."""
    _sortable(a)
    return fresh(np.argsort(a._a, axis, kind="stable"), lambda: np.argsort(a._a, axis, kind="stable"))


def from_dlpack(source: Any, **_: Any) -> Any:
    """Return an array that looks at another's memory."""

    class Host:
        __dlpack__ = staticmethod(lambda **_: source.__dlpack__())
        __dlpack_device__ = staticmethod(lambda: (1, 0))

    values = np.from_dlpack(Host())
    memory = runtime.UnownedMemory(values.ctypes.data, max(values.nbytes, 1), values)
    return ndarray(values.shape, values.dtype, runtime.MemoryPointer(memory, 0), values.strides)


def as_strided(x: Any, shape: Any = None, strides: Any = None) -> Any:
    """Return a view of an array with other strides."""
    shape = x.shape if shape is None else shape
    view = x._view(np.lib.stride_tricks.as_strided(x._a, shape, strides), ndarray)
    view.base = None  # so it is in CuPy
    return view


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    """Write an array into another."""
    if isinstance(src, np.ndarray) and src.ndim:
        raise unsupported(src)
    if not np.can_cast(getattr(src, "dtype", np.result_type(src)), dst.dtype, casting) and hasattr(src, "dtype"):
        raise TypeError(f"Cannot cast {src.dtype} to {dst.dtype} in {casting} casting mode")
    mask = True if where is None else host(where)
    runtime.write([dst], lambda: np.copyto(dst._a, host(src), casting="unsafe", where=mask))


def _putting(name: str) -> Any:
    def call(a: Any, *args: Any, **kwargs: Any) -> None:
        runtime.write([a], lambda: getattr(np, name)(a._a, *host(args), **kwargs))

    return call


def fuse(*given: Any, **options: Any) -> Any:
    """Return a function that runs as one kernel on CuPy, and here line by line."""

    def wrap(f: Any) -> Any:
        def fused(*values: Any) -> Any:
            for v in values:
                if getattr(v, "dtype", None) == BF16:
                    from .kernels import CompileException

                    raise CompileException("fusing does not know bfloat16")
                if isinstance(v, np.ndarray) and v.ndim:
                    raise unsupported(v)
            return f(*values)

        return fused

    return wrap(given[0]) if given else wrap


def _linalg(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of linear algebra that says nothing of a matrix without an answer."""

    def quiet(*args: Any, **kwargs: Any) -> Any:
        a = args[0]
        if name == "solve" and args[1].ndim > 1 and a.shape[:-1] != args[1].shape[:-1]:
            raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
        if getattr(a, "dtype", None) == BF16 or getattr(a, "dtype", None) == np.float16:
            raise TypeError(f"Dtype must be float32, float64, complex64 or complex128, not {a.dtype}")
        try:
            return compute(*args, **kwargs)
        except np.linalg.LinAlgError as error:
            if (
                runtime.state.raising
                or "square" in str(error)
                or "dimensional" in str(error)
                or name not in ("inv", "solve", "cholesky")
            ):
                raise
            like = args[-1] if name == "solve" else a
            return np.full(np.broadcast_shapes(like.shape[:-2], a.shape[:-2]) + like.shape[-2:], np.nan, like.dtype)

    return quiet


@contextlib.contextmanager
def errstate(*, linalg: Any = None, **_: Any) -> Iterator[None]:
    """Raise inside where a matrix has no answer."""
    before, runtime.state.raising = runtime.state.raising, linalg == "raise"
    try:
        yield
    finally:
        runtime.state.raising = before


def _numpy_twin(module: str, name: str) -> Any:
    if module == "cupyx.scipy.special":
        import scipy.special

        return getattr(scipy.special, name, None)
    room: Any = {"cupy": np, "cupy.linalg": np.linalg, "cupy.fft": np.fft}.get(module)
    found = getattr(room, name, None) or getattr(np, name, None)
    return _linalg(name, found) if module == "cupy.linalg" and found is not None else found


OWN: dict[str, Any] = {
    f.__name__: f
    for f in (array, asarray, ascontiguousarray, asfortranarray, asnumpy, get_array_module, matmul, dot, tensordot,
              sort, argsort, from_dlpack, copyto, fuse)
} | {name: _putting(name) for name in ("put", "putmask", "place", "fill_diagonal", "put_along_axis")}  # fmt: skip
OWN["asanyarray"] = asarray


def tables() -> dict[str, dict[str, Any]]:
    """Return what each of CuPy's modules has, made of what NumPy's have."""
    rooms: dict[str, dict[str, Any]] = {}
    room: dict[str, Any] = {}
    module = ""
    for line in (Path(__file__).parent / "names.txt").read_text().splitlines():
        if line.startswith("["):
            module = line[1:-1]
            room = rooms[module] = {}
            continue
        kind, _, rest = line.partition(" ")
        name, _, more = rest.partition(" ")
        if kind == "ufunc":
            twin = _numpy_twin(module, name) or (lambda x: 1 / np.sqrt(x) if name == "rsqrt" else None)
            room[name] = ufunc(name, more.split(), twin, name in _SCATTERS or None)
        elif kind == "def" and module == "cupy" and name in OWN:
            room[name] = OWN[name]
        elif kind == "def":
            twin = _numpy_twin(module, name)
            room[name] = function(name, more, twin) if twin is not None else _absent(module, name)
        elif kind == "name":
            room.update({n: getattr(np, n) for n in rest.split() if hasattr(np, n)})
    _methods(rooms["cupy"])
    return rooms


def _absent(module: str, name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{module}.{name} is not simulated")

    return call


def _methods(table: dict[str, Any]) -> None:
    """Replace functions that CuPy sends to a method by such, and give arrays the other methods."""
    for name in "sum prod mean var std max min any all argmax argmin cumsum cumprod".split():
        method = getattr(ndarray, name)

        def call(a: Any, *args: Any, method: Any = method, **kwargs: Any) -> Any:
            if not isinstance(a, ndarray):
                raise unsupported(a)
            return method(a, *args, **kwargs)

        call.__name__ = name
        table[name] = call
    table["amax"], table["amin"] = table["max"], table["min"]
    for name in "argsort argpartition clip round repeat searchsorted choose compress dot ptp".split():
        setattr(ndarray, name, table[name])
    ndarray.put = table["put"]  # type: ignore[attr-defined]

    def where(condition: Any, x: Any = None, y: Any = None) -> Any:
        if x is None and y is None:
            return condition.nonzero()
        return chosen(condition if condition.dtype == bool else condition.astype(bool), x, y)

    chosen = ufunc("where", "???->? ?bb->b ?BB->B ?hh->h ?HH->H ?ii->i ?II->I ?ll->l ?LL->L ?qq->q ?QQ->Q ?ee->e "
                   "?ff->f ?dd->d ?FF->F ?DD->D".split(), np.where)  # fmt: skip
    table["where"] = where
