"""CuPy's arrays and ufuncs over NumPy's, by CuPy's rules: nothing goes to or comes from the host unasked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from . import runtime

BF16 = np.dtype(ml_dtypes.bfloat16)
_SCALARS = (bool, int, float, complex, np.generic)
_REDUCING = {"sum", "prod", "mean", "var", "std", "cumsum", "cumprod"}  # accumulated in float32 if of 16 bits


def unsupported(value: Any) -> TypeError:
    """Return what CuPy raises for an operand that is not on the GPU."""
    return TypeError(f"Unsupported type {type(value)}")


def check_dtype(dtype: Any) -> np.dtype:
    """Return a dtype that CuPy knows, or raise."""
    dtype = np.dtype(dtype)
    if dtype == BF16 or (dtype.kind in "biufc" and dtype.char not in "gG"):
        return dtype
    raise ValueError(f"Unsupported dtype {dtype}")


def _half(dtype: Any) -> bool:
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def host(value: Any) -> Any:
    """Return nested containers with the memory of simulated arrays in place of the arrays."""
    if isinstance(value, ndarray):
        return value._a
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(host(v) for v in value)
    if isinstance(value, slice):
        return slice(host(value.start), host(value.stop), host(value.step))
    return value


def fresh(result: Any, again: Callable[[], Any] | None = None, kind: Any = None, order: str = "K") -> Any:
    """Return a new array on the GPU with the values of one on the host; `again` computes them anew."""
    result = np.asarray(result)
    strides = None if result.flags.c_contiguous or order == "C" else np.empty_like(result).strides
    out = (kind or ndarray)(result.shape, result.dtype, strides=strides)
    out._a[...] = result
    if again is not None:
        runtime.made(out._a, again)
    return out


def _part(again: Callable[[], Any], i: int) -> Callable[[], Any]:
    return lambda: again()[i]


def give(result: Any, sources: list[Any], again: Callable[[], Any], kind: Any = None) -> Any:
    """Return what a NumPy function gave as arrays on the GPU: views stay views of the memory that they look at."""
    if isinstance(result, list | tuple):
        parts = [give(r, sources, _part(again, i), kind) for i, r in enumerate(result)]
        return parts if isinstance(result, list) else tuple(parts)
    if isinstance(result, np.ndarray):
        for source in sources:
            if result.size and np.may_share_memory(result, source._a):
                return source._view(result, kind or ndarray)
        return fresh(result, again, kind)
    return fresh(result, again, kind) if isinstance(result, np.generic) else result


class ndarray:
    """An array on the simulated GPU."""

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> None:
        shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
        dtype = check_dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        if strides is not None and memptr is None and size:
            size = sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
        self._memptr = runtime.alloc(size) if memptr is None else memptr
        mem = self._memptr.mem
        offset = self._memptr.ptr - mem.ptr
        self.base: Any = None
        if not size:
            self._a = np.empty(shape, dtype)
        else:
            self._a = np.ndarray(shape, dtype, mem.bytes, offset, strides, order or "C")

    def _view(self, array: Any, kind: Any = None) -> Any:
        out = object.__new__(kind or type(self))
        out._a, out._memptr, out.base = array, self._memptr, self if self.base is None else self.base
        finalize = getattr(kind or type(self), "__array_finalize__", None)
        if finalize is not None and finalize is not ndarray.__array_finalize__:
            out.__array_finalize__(self)
        return out

    def __array_finalize__(self, obj: Any) -> None:
        pass

    # --- what it is ---

    dtype = property(lambda self: self._a.dtype)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    itemsize = property(lambda self: self._a.itemsize)
    nbytes = property(lambda self: self._a.nbytes)
    strides = property(lambda self: self._a.strides)
    flags = property(lambda self: self._a.flags)
    _c_contiguous = property(lambda self: self._a.flags.c_contiguous)
    _f_contiguous = property(lambda self: self._a.flags.f_contiguous)
    T = property(lambda self: self._view(self._a.T))
    mT = property(lambda self: self._view(self._a.mT))
    real = property(
        lambda self: self._view(self._a.real) if self._a.dtype.kind == "c" else self,
        lambda self, value: self.real.__setitem__(Ellipsis, value),
    )
    device = property(lambda self: runtime.Device(0))
    flat = property(lambda self: self.ravel())

    @property
    def shape(self) -> tuple[int, ...]:
        return self._a.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._a.shape = shape

    @property
    def imag(self) -> Any:
        if self._a.dtype.kind != "c":
            return fresh(np.zeros(self._a.shape, self._a.dtype))
        return self._view(self._a.imag)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    @property
    def data(self) -> Any:
        start = self._a.ctypes.data if self._a.size else self._memptr.mem.ptr
        if start == self._memptr.ptr:
            return self._memptr  # the same object every time, and that of views: who refers to it is counted
        return runtime.MemoryPointer(self._memptr.mem, start - self._memptr.mem.ptr)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._a.__array_interface__, "version": 3, "stream": 1}

    def _set_shape_and_strides(self, shape: Any, strides: Any, c_contiguity: bool, f_contiguity: bool) -> None:
        self._a = np.lib.stride_tricks.as_strided(self._a, tuple(shape), tuple(strides))

    # --- to and from the host ---

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        runtime.transfer()
        if out is None:
            return np.array(self._a, order="C" if order == "K" else order)  # type: ignore[call-overload]
        np.copyto(out, self._a)
        return out

    def set(self, arr: Any, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self._a.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self._a.dtype} array")
        if arr.shape != self._a.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self._a.shape}, new shape: {arr.shape}")
        if not (self._c_contiguous or self._f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        runtime.write([self], lambda: np.copyto(self._a, arr))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def item(self, *args: Any) -> Any:
        return self.get().item(*args)

    def tolist(self) -> Any:
        return self.get().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return self.get().tobytes(order)

    __bool__ = lambda self: bool(self.get())
    __int__ = lambda self: int(self.get())
    __float__ = lambda self: float(self.get())
    __complex__ = lambda self: complex(self.get())
    __repr__ = lambda self: repr(self.get())
    __str__ = lambda self: str(self.get())
    __format__ = lambda self, spec: format(self.get(), spec)
    __len__ = lambda self: len(self._a)
    __copy__ = lambda self: self.copy()
    __deepcopy__ = lambda self, memo: self.copy()

    def __iter__(self) -> Any:
        if not self._a.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self._a)))

    def __reduce__(self) -> Any:
        return _unpickled, (self.get(),)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        return self._a.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    # --- other layouts of the same values ---

    def view(self, dtype: Any = None, array_class: Any = None, *, type: Any = None) -> Any:
        if isinstance(dtype, builtins_type) and issubclass(dtype, ndarray):
            dtype, array_class = None, dtype
        return self._view(self._a.view() if dtype is None else self._a.view(dtype), type or array_class)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        shape = shape[0] if len(shape) == 1 else shape
        return self._laid(lambda a: a.reshape(host(shape), order=order))

    def _laid(self, f: Callable[[Any], Any]) -> Any:
        return give(f(self._a), [self], lambda: f(self._a), type(self))

    def ravel(self, order: str = "C") -> Any:
        return self._laid(lambda a: a.ravel(order))

    def flatten(self, order: str = "C") -> Any:
        return fresh(self._a.flatten(order), lambda: self._a.flatten(order), type(self))

    def transpose(self, *axes: Any) -> Any:
        return self._view(self._a.transpose(*axes))

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return self._view(self._a.swapaxes(axis1, axis2))

    def squeeze(self, axis: Any = None) -> Any:
        return self._view(self._a.squeeze(axis))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        found = self._a.diagonal(offset, axis1, axis2)
        found.flags.writeable = True
        return self._view(found)

    def astype(self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True) -> Any:
        dtype = check_dtype(dtype)
        if not copy and dtype == self._a.dtype and (order == "K" or self._c_contiguous):
            return self
        return fresh(_cast(self._a, dtype, order), lambda: _cast(self._a, dtype, order), type(self))

    def copy(self, order: str = "C") -> Any:
        return fresh(self._a.copy(order), lambda: self._a, type(self))  # type: ignore[arg-type]

    # --- elements ---

    def __getitem__(self, key: Any) -> Any:
        if _masks(key):
            runtime.transfer()
        found = _take(self._a, host(key))
        if isinstance(found, np.ndarray) and found.size and np.may_share_memory(found, self._a):
            return self._view(found)
        if isinstance(found, np.ndarray) and not found.size and not _advanced(key):
            return self._view(found)
        if not isinstance(found, np.ndarray):  # one element: a view of it, as in CuPy
            key = key if isinstance(key, tuple) else (key,)
            if not _advanced(key):
                return self._view(self._a[(*key, *(() if Ellipsis in key else (Ellipsis,)))])
        return fresh(found, lambda: _take(self._a, host(key)), type(self))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            whole = key is Ellipsis or key == slice(None) if not _advanced(key) else False
            if whole and value.dtype == self._a.dtype and value.shape == self._a.shape:
                return self.set(value)
            if whole:
                raise ValueError(
                    "copying a numpy.ndarray to a cupy.ndarray by empty slice assignment must ensure arrays have "
                    "same shape and dtype"
                )
            if not _advanced(key):
                raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        if _masks(key):
            runtime.transfer()
        key, value = host(key), host(value)
        runtime.write([self], lambda: _put(self._a, key, value))
        return None

    def fill(self, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        value = host(value)
        runtime.write([self], lambda: np.copyto(self._a, value, casting="unsafe"))

    def nonzero(self) -> Any:
        runtime.transfer()
        return tuple(fresh(i) for i in self._a.nonzero())

    def take(self, indices: Any, axis: Any = None, out: Any = None) -> Any:
        def compute() -> Any:
            return np.take(self._a, host(indices), axis, mode="wrap")

        return _into(out, compute) if out is not None else fresh(compute(), compute, type(self))

    def scatter_add(self, slices: Any, value: Any) -> None:
        runtime.write([self], lambda: np.add.at(self._a, host(slices), host(value)))

    def scatter_max(self, slices: Any, value: Any) -> None:
        runtime.write([self], lambda: np.maximum.at(self._a, host(slices), host(value)))

    def scatter_min(self, slices: Any, value: Any) -> None:
        runtime.write([self], lambda: np.minimum.at(self._a, host(slices), host(value)))

    def sort(self, axis: int = -1, *, kind: Any = None) -> None:
        _sortable(self)
        runtime.write([self], lambda: self._a.sort(axis))

    def partition(self, kth: Any, axis: int = -1) -> None:
        self.sort(axis)

    # --- NumPy's protocols ---

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        import cupy

        outs = kwargs.get("out", ())
        if outs:
            if len(outs) != 1:
                raise ValueError("The 'out' parameter must have exactly one array value")
            kwargs["out"] = outs[0]
        found = getattr(cupy, ufunc.__name__, None)
        if found is None or method not in ("__call__", "outer", "at", "reduce", "accumulate", "reduceat"):
            return NotImplemented
        for x in (*inputs, *outs):
            if method == "__call__" and not isinstance(x, (ndarray, np.ndarray, *_SCALARS)):
                return NotImplemented
        if ufunc.__name__ in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"):
            inputs = tuple([x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in inputs])
        return found(*inputs, **kwargs) if method == "__call__" else getattr(found, method)(*inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        import cupy

        room: Any = cupy
        for part in [*func.__module__.split(".")[1:], func.__name__]:
            room = getattr(room, part, None)
        if room is None or room is func or not all(issubclass(t, ndarray | np.ndarray) for t in types):
            return NotImplemented
        return room(*args, **kwargs)


builtins_type = type


def _unpickled(values: Any) -> Any:
    import cupy

    return cupy.asarray(values)


def _cast(a: Any, dtype: Any, order: Any = "K") -> Any:
    if a.dtype.kind == "c" and dtype.kind not in "cb":
        a = a.real
    with np.errstate(all="ignore"):
        return a.astype(dtype, order=order)


def _parts(key: Any) -> Any:
    return key if isinstance(key, tuple) else (key,)


def _is_mask(k: Any) -> bool:
    return isinstance(k, ndarray | np.ndarray) and k.dtype.kind == "b"


def _masks(key: Any) -> bool:
    return any(_is_mask(k) and k.ndim for k in _parts(key))


def _advanced(key: Any) -> bool:
    return any(isinstance(k, ndarray | np.ndarray | list) for k in _parts(key))


def _wrapped(a: Any, key: Any) -> Any:
    """Return an index whose arrays of integers are taken modulo the axis' size, as CuPy does without a word."""
    out, axis = [], 0
    parts = _parts(key)
    used = sum(k.ndim if _is_mask(k) else 1 for k in parts if k is not None and k is not Ellipsis)
    for k in parts:
        if k is Ellipsis:
            axis += a.ndim - used
        elif isinstance(k, np.ndarray | list) and np.asarray(k).dtype.kind in "iu" and np.size(k):
            k = np.asarray(k) % max(a.shape[axis], 1)
            axis += 1
        elif k is not None:
            axis += k.ndim if _is_mask(k) else 1
        out.append(k)
    return tuple(out)


def _take(a: Any, key: Any) -> Any:
    try:
        return a[key]
    except IndexError:
        if not _advanced(key):
            raise
        return a[_wrapped(a, key)]


def _put(a: Any, key: Any, value: Any) -> None:
    with np.errstate(all="ignore"):
        if isinstance(value, np.ndarray) and value.dtype.kind == "c" and a.dtype.kind != "c":
            value = value.real
        try:
            a[key] = value
        except IndexError:
            if not _advanced(key):
                raise
            a[_wrapped(a, key)] = value


def _into(out: Any, compute: Callable[[], Any]) -> Any:
    runtime.write([out], lambda: np.copyto(out._a, compute(), casting="unsafe"))
    return out


def _sortable(a: Any) -> None:
    if a.dtype == BF16:
        raise TypeError("data type 'E' not understood")


def _reduction(name: str, parameters: str) -> Any:
    """Return a method that reduces; `parameters` are those that CuPy's has, in its order."""
    known = parameters.split()
    widen = name in _REDUCING

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(known, args, strict=False)) | kwargs
        strange = [k for k in given if k not in known]
        if strange or len(args) > len(known):
            raise TypeError(f"{name}() got an unexpected keyword argument '{strange[0] if strange else args}'")
        out = given.pop("out", None)
        if name in ("argmax", "argmin"):
            given.pop("dtype", None)

        def compute() -> Any:
            a, options = self._a, dict(given)
            with np.errstate(all="ignore"):
                if widen and _half(a.dtype) and options.get("dtype") is None:
                    return getattr(a.astype(np.float32), name)(**options).astype(a.dtype)
                if widen and options.get("dtype") is not None and _half(np.dtype(options["dtype"])):
                    wanted = np.dtype(options.pop("dtype"))
                    return getattr(a.astype(np.float32), name)(**options).astype(wanted)
                return getattr(a, name)(**options)

        return _into(out, compute) if out is not None else fresh(compute(), compute, type(self), "C")

    method.__name__ = name
    return method


for _name, _parameters in {
    "sum": "axis dtype out keepdims", "prod": "axis dtype out keepdims", "mean": "axis dtype out keepdims",
    "var": "axis dtype out ddof keepdims", "std": "axis dtype out ddof keepdims", "max": "axis out keepdims",
    "min": "axis out keepdims", "any": "axis out keepdims", "all": "axis out keepdims",
    "argmax": "axis out dtype keepdims", "argmin": "axis out dtype keepdims", "cumsum": "axis dtype out",
    "cumprod": "axis dtype out", "trace": "offset axis1 axis2 dtype out",
}.items():  # fmt: skip
    setattr(ndarray, _name, _reduction(_name, _parameters))


# --- Ufuncs -----------------------------------------------------------------------------------------

_ADDED = {"int32", "int64", "float16", "float32", "float64", "uint32", "uint64"}  # where atomics are at work
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}


def _kind(dtype: Any) -> int:
    return 2 if dtype == BF16 else _KINDS[dtype.kind]


def _dtype(char: str) -> Any:
    return BF16 if char == "E" else np.dtype(char)


def _flushed(a: Any) -> Any:
    """Return an array with zeros for denormal floats: CuPy compiles its kernels with -ftz=true."""
    if a.dtype not in (np.float32, BF16):
        return a
    with np.errstate(all="ignore"):
        return np.where(np.abs(a) < np.finfo(np.float32).tiny, np.copysign(a.dtype.type(0), a), a).astype(a.dtype)


class ufunc:
    """One of CuPy's ufuncs: the dtypes that it knows are written in `names.txt`."""

    def __init__(self, name: str, types: list[str], function: Callable[..., Any], scatter: Any = None) -> None:
        self.name, self.__name__, self.types, self.function = f"cupy_{name}", name, types, function
        ins, _, outs = types[0].partition("->")
        self.nin, self.nout, self.nargs = len(ins), len(outs), len(ins) + len(outs)
        self.loops = [tuple(tuple(map(_dtype, part)) for part in t.split("->")) for t in types]
        self._scatter = scatter

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"

    def _loop(self, inputs: Any, dtype: Any) -> Any:
        """Return the first loop that the operands can be cast to; Python's numbers bend to the others."""
        if dtype is not None:
            for loop in self.loops:
                if loop[1][0] == dtype:
                    return loop
        strong = [x.dtype for x in inputs if hasattr(x, "dtype")]
        most = max([_kind(d) for d in strong], default=-1)
        for loop in self.loops:
            for x, want in zip(inputs, loop[0], strict=True):
                if hasattr(x, "dtype"):
                    if not np.can_cast(x.dtype, want):
                        break
                else:
                    kind = {bool: 0, int: 1, float: 2, complex: 3}[type(x)]
                    need = max(kind, most) if strong else kind
                    if _kind(want) < need or (not strong and kind and want.itemsize < (16 if kind == 3 else 8)):
                        break
                    if kind > most >= 0 and most < 2 and want.itemsize < (16 if kind == 3 else 8):
                        break  # an integer array with a float: double
            else:
                return loop
        raise TypeError(f"Wrong type ({[getattr(x, 'dtype', type(x)) for x in inputs]}) of arguments for {self.name}")

    def __call__(
        self, *args: Any, out: Any = None, where: Any = None, dtype: Any = None, casting: str = "same_kind"
    ) -> Any:
        if not self.nin <= len(args) <= self.nargs:
            raise TypeError(f"Wrong number of arguments for '{self.name}'")
        for x in args:
            if not isinstance(x, (ndarray, *_SCALARS)):
                if isinstance(x, np.ndarray) and x.ndim == 0:
                    continue
                raise unsupported(x)
        inputs = args[: self.nin]
        outs = args[self.nin :] or (out if isinstance(out, tuple) else () if out is None else (out,))
        for o in outs:
            if not isinstance(o, ndarray):
                raise TypeError("Output arguments type must be cupy.ndarray")
        mask = None if where is None or where is True else host(where)
        loop = self._loop(inputs, None if dtype is None else np.dtype(dtype))
        for o, made in zip(outs, loop[1], strict=False):
            if not np.can_cast(made, o.dtype, casting):
                raise TypeError(f"output (typecode '{made.char}') could not be coerced to provided output parameter "
                                f"(typecode '{o.dtype.char}') according to the casting rule \"{casting}\"")  # fmt: skip
        arrays = [host(x) for x in inputs]
        kind = next((type(x) for x in inputs if type(x) is not ndarray and isinstance(x, ndarray)), ndarray)

        def compute() -> Any:
            with np.errstate(all="ignore"):
                ready = [
                    a.astype(want, copy=False) if hasattr(a, "astype") else np.asarray(a).astype(want)
                    for a, want in zip(arrays, loop[0], strict=True)
                ]
                found = self.function(*(ready if "where" in self.name else map(_flushed, ready)))
                found = found if isinstance(found, tuple) else (found,)
                made = [np.asarray(f).astype(want, copy=False) for f, want in zip(found, loop[1], strict=True)]
                return made if "where" in self.name else [_flushed(f) for f in made]  # it only copies

        if not outs:
            found = compute()
            if mask is not None:
                made_all = [np.where(mask, f, f.dtype.type(0)) for f in found]
                given = [fresh(f, None, kind) for f in made_all]
            else:
                given = [fresh(f, _part(compute, i), kind) for i, f in enumerate(found)]
            return given[0] if self.nout == 1 else tuple(given)

        def store() -> None:
            for o, f in zip(outs, compute(), strict=True):
                if o._a.shape != np.broadcast_shapes(o._a.shape, f.shape):
                    raise ValueError(f"non-broadcastable output operand with shape {o.shape}: {f.shape}")
                np.copyto(o._a, f, casting="unsafe", where=True if mask is None else mask)

        runtime.write(list(outs), store)
        return outs[0] if self.nout == 1 else tuple(outs)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        return self(a.reshape(a.shape + (1,) * b.ndim), b, **kwargs)

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        if self._scatter is None:
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        if a.dtype.name not in (_ADDED if self.__name__ in ("add", "subtract") else _ADDED - {"float16"}):
            raise TypeError(f"cupy.{self.__name__}.at only supports {', '.join(sorted(_ADDED))} as data type")
        runtime.write([a], lambda: getattr(np, self.__name__).at(a._a, host(indices), host(b)))

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        if self.__name__ not in ("add", "multiply"):
            raise NotImplementedError(f"`{self.name}.reduce` is not supported yet")
        return getattr(array, "sum" if self.__name__ == "add" else "prod")(axis, dtype, out, keepdims)

    def accumulate(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        if self.__name__ not in ("add", "multiply"):
            raise NotImplementedError(f"`{self.name}.accumulate` is not supported yet")
        return getattr(array, "cumsum" if self.__name__ == "add" else "cumprod")(axis, dtype, out)

    def reduceat(self, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        if self.__name__ != "add":
            raise NotImplementedError(f"`{self.name}.reduceat` is not supported yet")
        return fresh(np.add.reduceat(array._a, host(indices), axis, dtype))


def _defers(other: Any) -> bool:
    """Return whether an operator leaves its work to the other operand: by CuPy's rule, not quite NumPy's."""
    if isinstance(other, (ndarray, np.ndarray, *_SCALARS)):
        return False
    if not hasattr(type(other), "__array_ufunc__"):
        return getattr(other, "__array_priority__", 0) > ndarray.__array_priority__
    return other.__array_ufunc__ is None


def add_operators(table: dict[str, Any]) -> None:
    """Give the class its operators, once the ufuncs are there."""
    names = {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
        "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "lshift": "left_shift", "rshift": "right_shift", "divmod": "divmod", "matmul": "matmul", "eq": "equal",
        "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    }  # fmt: skip
    for short, name in names.items():
        function = table[name]

        def forward(self: Any, other: Any, function: Any = function) -> Any:
            return NotImplemented if _defers(other) else function(self, other)

        def reflected(self: Any, other: Any, function: Any = function) -> Any:
            return NotImplemented if _defers(other) else function(other, self)

        def inplace(self: Any, other: Any, function: Any = function) -> Any:
            return function(self, other, self)

        setattr(ndarray, f"__{short}__", forward)
        if short not in ("eq", "ne", "lt", "le", "gt", "ge"):
            setattr(ndarray, f"__r{short}__", reflected)
            if short not in ("divmod", "matmul"):
                setattr(ndarray, f"__i{short}__", inplace)
    for short, name in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}.items():
        setattr(ndarray, f"__{short}__", lambda self, function=table[name]: function(self))
    ndarray.conj = ndarray.conjugate = lambda self: (  # type: ignore[attr-defined]
        table["conjugate"](self) if self.dtype.kind == "c" else self
    )
