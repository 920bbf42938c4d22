"""Elementwise kernels on a GPU, launched with less ado than CuPy's own.

A CuPy ufunc spends most of its time deciding what to launch. `Array` is a CuPy array whose operators and
ufuncs decide by one dictionary look-up when operands are plain (same shape and dtype, contiguous, or a
Python number), and leave everything else to CuPy. Large arrays are read and written 16 bytes at a time,
which CuPy's kernels are not.

Only imported when a tensor is put on a GPU.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from . import products

_TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
_BINARY = {
    np.add: "a + b",
    np.subtract: "a - b",
    np.multiply: "a * b",
    np.divide: "a / b",
}
_UNARY = {
    np.negative: "-a",
    np.exp: "exp(a)",
    np.log: "log(a)",
    np.log1p: "log1p(a)",
    np.expm1: "expm1(a)",
    np.sqrt: "sqrt(a)",
    np.square: "a * a",
    np.reciprocal: "(T)1 / a",
    np.sin: "sin(a)",
    np.cos: "cos(a)",
    np.tanh: "tanh(a)",
    np.arctan: "atan(a)",
    np.absolute: "fabs(a)",
}

_SOURCE = """
typedef TYPE T;
struct __align__(16) Pack { T v[16 / sizeof(T)]; };
__device__ __forceinline__ T f(T a, T b) { return EXPRESSION; }
extern "C" __global__ void one(PARAMETERS, T* out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = f(A, B);
}
extern "C" __global__ void packed(PARAMETERS, T* out, long long n) {
    const int W = 16 / sizeof(T);
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n / W) return;
    Pack pa, pb, po;
    LOADS
    #pragma unroll
    for (int j = 0; j < W; ++j) po.v[j] = f(pa.v[j], pb.v[j]);
    ((Pack*)out)[i] = po;
}
"""
# How each operand arrives: a vector is loaded, a number is the same everywhere.
_FORMS = {
    "v": ("const T* a", "a[i]", "(T)0", "pa = ((const Pack*)a)[i]; pb = pa;"),
    "vv": ("const T* a, const T* b", "a[i]", "b[i]", "pa = ((const Pack*)a)[i]; pb = ((const Pack*)b)[i];"),
    "vs": (
        "const T* a, T b", "a[i]", "b",
        "pa = ((const Pack*)a)[i]; for (int j = 0; j < W; ++j) pb.v[j] = b;",
    ),
    "sv": (
        "T a, const T* b", "a", "b[i]",
        "pb = ((const Pack*)b)[i]; for (int j = 0; j < W; ++j) pa.v[j] = a;",
    ),
}  # fmt: skip
_PACKED_FROM = 1 << 16
_F32 = np.dtype(np.float32)
# By dtype, then by ufunc and form: the launch of one element per thread, that of a pack per thread, the
# elements in a pack, and the type of a number argument. Functions belong to the device they were loaded on.
_kernels: dict[bool, dict[Any, Any]] = {True: {}, False: {}}


def _build(ufunc: Any, dtype: Any, form: str) -> tuple[Any, Any, int, Any]:
    """Compile the kernels of one op: element by element, and in packs of 16 bytes."""
    parameters, a, b, loads = _FORMS[form]
    source = (
        _SOURCE.replace("TYPE", _TYPES[dtype])
        .replace("EXPRESSION", _BINARY.get(ufunc) or _UNARY[ufunc])
        .replace("PARAMETERS", parameters)
        .replace("f(A, B)", f"f({a}, {b})")
        .replace("LOADS", loads)
    )
    found = (*_launches(source), 16 // dtype.itemsize, dtype.type)
    _kernels[dtype is _F32][(ufunc, form)] = found
    return found


def _launches(source: str) -> tuple[Any, Any]:
    module = cupy.RawModule(code=source)
    return tuple(module.get_function(name).kernel.linear_launch for name in ("one", "packed"))


def _run(ufunc: Any, form: str, like: Any, operands: tuple[Any, ...]) -> Any:
    dtype = like.dtype
    one, packed, width, number = _kernels[dtype is _F32].get((ufunc, form)) or _build(ufunc, dtype, form)
    if form == "vs":
        operands = (operands[0], number(operands[1]))
    elif form == "sv":
        operands = (number(operands[0]), operands[1])
    out = Array(like.shape, dtype)
    n = like.size
    if n < _PACKED_FROM or n % width or any(_address(v) & 15 for v in operands):
        if n:
            one(n, (*operands, out, n))
    else:
        packed(n // width, (*operands, out, n))
    return out


def _address(value: Any) -> int:
    return int(value.data.ptr) if isinstance(value, cupy.ndarray) else 0


_F64 = np.dtype(np.float64)


def _plain(a: Any) -> bool:
    d = a.dtype
    return (d is _F32 or d is _F64) and a._c_contiguous


def binary(ufunc: Any, a: Any, b: Any) -> Any:
    """Return the result of a two-operand ufunc on plain operands, or None if they are not."""
    ta, tb = type(a), type(b)
    if ta is Array and tb is Array:
        if a.dtype is b.dtype and a.shape == b.shape and _plain(a) and b._c_contiguous:
            return _run(ufunc, "vv", a, (a, b))
    elif ta is Array and (tb is float or tb is int):
        if _plain(a):
            return _run(ufunc, "vs", a, (a, b))
    elif tb is Array and (ta is float or ta is int) and _plain(b):
        return _run(ufunc, "sv", b, (a, b))
    return None


def _operator(ufunc: Any, reflected: bool) -> Any:
    name = {np.add: "add", np.subtract: "sub", np.multiply: "mul", np.divide: "truediv"}[ufunc]
    usual = getattr(cupy.ndarray, f"__{'r' if reflected else ''}{name}__")

    def method(self: Any, other: Any) -> Any:
        out = binary(ufunc, other, self) if reflected else binary(ufunc, self, other)
        return usual(self, other) if out is None else out

    return method


class Array(cupy.ndarray):  # type: ignore[misc]
    """A CuPy array with short launches for plain operands."""

    __add__, __radd__ = _operator(np.add, False), _operator(np.add, True)
    __sub__, __rsub__ = _operator(np.subtract, False), _operator(np.subtract, True)
    __mul__, __rmul__ = _operator(np.multiply, False), _operator(np.multiply, True)
    __truediv__, __rtruediv__ = _operator(np.divide, False), _operator(np.divide, True)

    def __neg__(self) -> Any:
        return _run(np.negative, "v", self, (self,)) if _plain(self) else cupy.ndarray.__neg__(self)

    def __matmul__(self, other: Any) -> Any:
        return products.matmul(self, other)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs:
            if ufunc in _BINARY:
                out = binary(ufunc, *inputs)
                if out is not None:
                    return out
            elif ufunc in _UNARY and _plain(self):
                return _run(ufunc, "v", self, inputs)
            elif ufunc is np.matmul and isinstance(inputs[0], cupy.ndarray):
                return products.matmul(*inputs)
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)


_FUSED = """
typedef TYPE T;
struct __align__(16) Pack { T v[16 / sizeof(T)]; };
extern "C" __global__ void one(PARAMETERS, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    ELEMENTS
}
extern "C" __global__ void packed(PARAMETERS, long long n) {
    const int W = 16 / sizeof(T);
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n / W) return;
    PACKS
}
"""


class Fused:
    """Several expressions over the same arrays in one launch: what a backward rule computes."""

    def __init__(self, names: tuple[str, ...], expressions: tuple[str, ...]) -> None:
        self.names, self.expressions = names, expressions
        self._built: dict[Any, Any] = {}

    def _build(self, dtype: Any) -> Any:
        outs = [f"o{i}" for i in range(len(self.expressions))]
        parameters = ", ".join([f"const T* p_{n}" for n in self.names] + [f"T* {o}" for o in outs])
        loads = "".join(f"const T {n} = p_{n}[i]; " for n in self.names)
        stores = "".join(f"{o}[i] = {e}; " for o, e in zip(outs, self.expressions, strict=True))
        packs = "".join(f"Pack k_{n} = ((const Pack*)p_{n})[i]; " for n in self.names)
        packs += "".join(f"Pack k_{o}; " for o in outs)
        body = "".join(f"const T {n} = k_{n}.v[j]; " for n in self.names)
        body += "".join(f"k_{o}.v[j] = {e}; " for o, e in zip(outs, self.expressions, strict=True))
        packs += f"for (int j = 0; j < W; ++j) {{ {body} }} "
        packs += "".join(f"((Pack*){o})[i] = k_{o}; " for o in outs)
        source = (
            _FUSED.replace("TYPE", _TYPES[dtype])
            .replace("PARAMETERS", parameters)
            .replace("ELEMENTS", loads + stores)
            .replace("PACKS", packs)
        )
        self._built[dtype is _F32] = found = (*_launches(source), 16 // dtype.itemsize)
        return found

    def __call__(self, *arrays: Any) -> tuple[Any, ...] | None:
        """Return one array per expression, or None if the operands are not plain."""
        g = arrays[0]
        dtype, shape = g.dtype, g.shape
        if dtype is not _F32 and dtype is not _F64:
            return None
        for a in arrays:
            if type(a) is not Array or a.dtype is not dtype or not a._c_contiguous or a.shape != shape:
                return None
        one, packed, width = self._built.get(dtype is _F32) or self._build(dtype)
        outs = tuple([Array(shape, dtype) for _ in self.expressions])
        n = g.size
        if n < _PACKED_FROM or n % width or any(_address(v) & 15 for v in arrays):
            if n:
                one(n, (*arrays, *outs, n))
        else:
            packed(n // width, (*arrays, *outs, n))
        return outs


def fused_run(run: Any, names: tuple[tuple[str, ...], ...], expressions: tuple[str, ...]) -> Any:
    """Return a node's `run` that computes all its gradients in one launch where the operands are plain.

    `names` are what each rule keeps, `expressions` the rules in C; `run` is what to fall back on.
    """
    union = tuple(dict.fromkeys(n for kept in names for n in kept))
    joint = Fused(("g", *union), expressions)
    alone = [Fused(("g", *kept), (e,)) for kept, e in zip(names, expressions, strict=True)]

    single = tuple(len(kept) == 1 for kept in names)
    # Where each value of the joint kernel is: (rule, position among what that rule keeps).
    found_at = [next((i, kept.index(n)) for i, kept in enumerate(names) if n in kept) for n in union]

    def fused(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        if type(g) is not Array or node.targets is not None or type(saved) is not tuple:
            return run(node, g, edges, saved)
        if None in edges or len(edges) == 1:
            only = next(i for i, e in enumerate(edges) if e is not None)
            found = alone[only](g, saved[only]) if single[only] else alone[only](g, *saved[only])
            if found is not None:
                return [found[0] if i == only else None for i in range(len(edges))]
        else:
            found = joint(g, *[saved[i] if single[i] else saved[i][j] for i, j in found_at])
            if found is not None:
                return found
        return run(node, g, edges, saved)

    return fused


def adopt(value: Any) -> Any:
    """Return a CuPy array as an `Array` that looks at the same memory; other values as they are."""
    return value.view(type=Array) if type(value) is cupy.ndarray else value
