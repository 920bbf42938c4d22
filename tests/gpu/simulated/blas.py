"""A library that looks like cuBLAS to `ctypes`, whose products NumPy computes."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from . import kernels, runtime

_SOURCE = """
typedef long long ll;
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT int (*simulated_product)(const ll*) = 0;
EXPORT int cublasCreate_v2(void** handle) { *handle = (void*)1; return 0; }
EXPORT int cublasDestroy_v2(void*) { return 0; }
EXPORT int cublasSetStream_v2(void*, void*) { return 0; }
EXPORT int cublasSetWorkspace_v2(void*, void*, size_t) { return 0; }
EXPORT int cublasSetMathMode(void*, int) { return 0; }
EXPORT int cublasGemmStridedBatchedEx(void*, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
    int at, int la, ll sa, const void* b, int bt, int lb, ll sb, const void* beta, void* c, int ct, int lc, ll sc,
    int count, int compute, int) {
    const ll given[] = {ta, tb, m, n, k, (ll)alpha, (ll)a, at, la, sa, (ll)b, bt, lb, sb, (ll)beta, (ll)c, ct, lc, sc,
                        count, compute};
    return simulated_product(given);
}
EXPORT int cublasGemmEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int la,
    const void* b, int bt, int lb, const void* beta, void* c, int ct, int lc, int compute, int algorithm) {
    return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, at, la, 0, b, bt, lb, 0, beta, c, ct, lc, 0, 1,
                                      compute, algorithm);
}
"""
_TYPES: dict[int, Any] = {
    0: np.float32, 1: np.float64, 2: np.float16, 4: np.complex64, 5: np.complex128, 14: ml_dtypes.bfloat16
}  # fmt: skip
_INVALID_VALUE, _NOT_SUPPORTED = 7, 15
_kept: list[Any] = []


def _matrices(address: int, dtype: Any, lead: int, rows: int, columns: int, apart: int, count: int) -> Any:
    """Return matrices in memory, columns first."""
    dtype = np.dtype(dtype)
    size = (count - 1) * apart + (columns - 1) * lead + rows
    memory = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
    item = dtype.itemsize
    return np.ndarray((count, rows, columns), dtype, memory, 0, (apart * item, item, lead * item))


def _number(address: int, compute: int, dtype: Any) -> Any:
    wide = ctypes.c_double if compute == 70 else ctypes.c_float
    parts = 2 if np.dtype(dtype).kind == "c" else 1
    found = (wide * parts).from_address(address)
    return complex(*found) if parts == 2 else found[0]


def _product(given: Any) -> int:
    ta, tb, m, n, k, alpha, a, at, la, sa, b, bt, lb, sb, beta, c, ct, lc, sc, count, compute = given[:21]
    if at != bt or at not in _TYPES or ct not in _TYPES:
        return _NOT_SUPPORTED
    if la < max(k if ta else m, 1) or lb < max(n if tb else k, 1) or lc < max(m, 1) or min(m, n, k, count) < 0:
        return _INVALID_VALUE
    kind = _TYPES[at]
    alpha, beta = _number(alpha, compute, kind), _number(beta, compute, kind)
    wide = np.float32 if np.dtype(kind).itemsize == 2 else kind

    def compute_it() -> None:
        x = _matrices(a, kind, la, k if ta else m, m if ta else k, sa, count)
        y = _matrices(b, kind, lb, n if tb else k, k if tb else n, sb, count)
        out = _matrices(c, _TYPES[ct], lc, m, n, sc, count)
        x, y = x.swapaxes(1, 2) if ta else x, y.swapaxes(1, 2) if tb else y
        x, y = (v.conj() if t == 2 else v for v, t in ((x, ta), (y, tb)))
        with np.errstate(all="ignore"):
            result = np.matmul(x.astype(wide), y.astype(wide)) * np.asarray(alpha, wide)
            out[...] = result if beta == 0 else result + np.asarray(beta, wide) * out.astype(wide)

    runtime.write([runtime.memory_at(c)], compute_it)
    return 0


def load() -> int:
    """Load the library, so that who looks for cuBLAS in this process finds it; return a handle."""
    if not _kept:
        hook = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_longlong))(_product)
        library = kernels.built(_SOURCE, (), "libcublas.so")
        ctypes.c_void_p.in_dll(library, "simulated_product").value = ctypes.cast(hook, ctypes.c_void_p).value
        _kept.extend([hook, library])
    return 1
