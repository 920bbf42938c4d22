"""Products that cuBLAS finishes itself: with a bias added, or with the sum of an operand's columns beside them.

The interface is cuBLASLt's. A kind of product is described, and the best algorithm for it queried, once.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from ..._typing import Array
from .. import forks
from . import arrays, products, reductions
from .table import override

__all__ = ["linear", "weigh_and_sum"]

_BIAS, _SUMS = 4, 512  # CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADB
_TRANSPOSED_A, _TRANSPOSED_B, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
_WORKSPACE = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
_ALIGNED = 256  # bytes, that the ways cuBLASLt names are good for
_SINGLE = 0  # CUDA_R_32F


class _Way(ctypes.Structure):
    """A way to compute a product (cublasLtMatmulHeuristicResult_t)."""

    _fields_ = (
        ("algo", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
        ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    )  # fmt: skip


@functools.cache
def _functions() -> Any:
    """Return the library, or None where it cannot be found."""
    try:
        with open("/proc/self/maps") as maps:
            path = next(line.split()[-1] for line in maps if "libcublasLt.so" in line)
        library = ctypes.PyDLL(path)
    except (OSError, StopIteration):
        return None
    pointer = ctypes.c_void_p
    library.cublasLtMatmul.argtypes = (*(pointer,) * 14, ctypes.c_size_t, pointer)
    library.cublasLtMatmulDescSetAttribute.argtypes = (pointer, ctypes.c_int, pointer, ctypes.c_size_t)
    wide, narrow = ctypes.c_uint64, ctypes.c_int64
    library.cublasLtMatrixLayoutCreate.argtypes = (pointer, ctypes.c_int, wide, wide, narrow)
    library.cublasLtMatmulAlgoGetHeuristic.argtypes = (*(pointer,) * 7, ctypes.c_int, pointer, pointer)
    return library


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLASLt answered {status}")


class Plan:
    """A product d = op(a) @ op(b), columns first, with an epilogue: described, and with the way to compute it."""

    def __init__(
        self, handle: Any, kind: Any, compute: int, m: int, n: int, k: int, ta: int, la: int, tb: int, lb: int,
        epilogue: int,
    ) -> None:  # fmt: skip
        library = _functions()
        self.described, preference = ctypes.c_void_p(), ctypes.c_void_p()
        scale = _SINGLE if kind.scalar is ctypes.c_float else kind.number
        _check(library.cublasLtMatmulDescCreate(ctypes.byref(self.described), compute, scale))
        for name, value in ((_TRANSPOSED_A, ta), (_TRANSPOSED_B, tb), (_EPILOGUE, epilogue)):
            number = ctypes.c_int32(value)
            _check(library.cublasLtMatmulDescSetAttribute(self.described, name, ctypes.byref(number), 4))
        shapes = ((k, m, la) if ta else (m, k, la)), ((n, k, lb) if tb else (k, n, lb)), (m, n, m)
        self.layouts = [ctypes.c_void_p() for _ in shapes]
        for layout, (rows, columns, apart) in zip(self.layouts, shapes, strict=True):
            _check(library.cublasLtMatrixLayoutCreate(ctypes.byref(layout), kind.number, rows, columns, apart))
        _check(library.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
        most = ctypes.c_size_t(products.WORKSPACE)
        _check(
            library.cublasLtMatmulPreferenceSetAttribute(
                preference, ctypes.c_int(_WORKSPACE), ctypes.byref(most), ctypes.c_size_t(8)
            )
        )
        self.way, count = _Way(), ctypes.c_int()
        a, b, d = self.layouts
        # The bias is described by its address; any address will do for the query.
        self.bias = ctypes.c_void_p(_ALIGNED)
        self._set_bias(_ALIGNED)
        _check(
            library.cublasLtMatmulAlgoGetHeuristic(
                handle, self.described, a, b, d, d, preference, 1, ctypes.byref(self.way), ctypes.byref(count)
            )
        )
        _check(0 if count.value and not self.way.state else 15)
        self.kind = kind

    def _set_bias(self, address: int) -> None:
        self.bias.value = address
        _functions().cublasLtMatmulDescSetAttribute(self.described, _BIAS_POINTER, ctypes.byref(self.bias), 8)

    def run(self, library: Any, a: int, b: int, d: int, bias: int) -> bool:
        """Compute the product; return whether that could be done."""
        la, lb, ld = self.layouts
        one, zero = ctypes.byref(self.kind.one), ctypes.byref(self.kind.zero)
        with _lock:  # the address of the bias is part of the description
            self._set_bias(bias)
            status = _functions().cublasLtMatmul(
                library.handle, self.described, one, a, la, b, lb, zero, d, ld, d, ld, ctypes.byref(self.way),
                library.memory.ptr, products.WORKSPACE, library.stream,
            )  # fmt: skip
        return status == 0


_lock = forks.lock()
_plans: dict[Any, Plan | None] = {}


def _plan(library: Any, key: tuple[Any, ...]) -> Plan | None:
    """Return the plan of a product, None if cuBLASLt has none for it."""
    try:
        return _plans[key]
    except KeyError:
        pass
    (dtype, *numbers, _) = key
    kind = products.kind_of(dtype)
    try:
        made = Plan(library.handle, kind, *numbers)
    except RuntimeError:
        made = None
    _plans[key] = made
    return made


def _is_ready(*values: Any) -> bool:
    """Return whether cuBLASLt is available, and arrays are aligned as it requires."""
    return _functions() is not None and not any(v.data.ptr % _ALIGNED for v in values)


def _run(x: Any, epilogue: int, numbers: tuple[int, ...], a: Any, b: Any, out: Any, bias: Any) -> bool:
    library = products.library_for(x)
    dtype = x.dtype
    kind: Any = products.kind_of(dtype)
    compute = kind.tf32 if products.host.precision.tf32 else kind.compute
    plan = _plan(library, (dtype, compute, *numbers, epilogue, x.data.device_id))
    if plan is None:
        return False
    return plan.run(library, a.data.ptr, b.data.ptr, out.data.ptr, bias.data.ptr)


@override("linear", when=lambda x, weight, bias: x.dtype.kind != "b")
def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """Return ``x @ weight.T + bias``."""
    found = _with_bias(x, weight, bias)
    if found is not None:
        return found
    out = products.project(x, weight)
    if out.ndim == 0:
        return out + bias
    out += bias
    return out


def _with_bias(x: Any, weight: Any, bias: Any) -> Any:
    """Return it by one call, None if that cannot be."""
    dtype = x.dtype
    if not (dtype == weight.dtype == bias.dtype and dtype.kind != "c" and weight.ndim == 2 and bias.ndim == 1):
        return None
    if not (weight._c_contiguous and bias._c_contiguous and x.size and weight.size and products.kind_of(dtype)):
        return None
    (n, k), item = weight.shape, dtype.itemsize
    plan = products.plan_for(x.shape, x.strides, (k, n), (item, k * item), item)
    if not plan.is_single or len(bias) != n or bias.data.ptr % 16 or products.is_odd(plan, n, item):
        return None
    out = arrays.new(plan.shape, dtype)
    if not _is_ready(x, weight, out):
        return None
    numbers = (n, plan.m, k, plan.ty, plan.ly, plan.tx, plan.lx)
    return out if _run(x, _BIAS, numbers, weight, x, out, bias) else None


def linear_into(x: Any, weight: Any, bias: Any, out: Any) -> None:
    """Write ``x @ weight.T + bias`` into `out`, all of them matrices but the bias, without memory of its own."""
    (n, k), item = weight.shape, x.dtype.itemsize
    plan = products.plan_for(x.shape, x.strides, (k, n), (item, k * item), item)
    if plan.is_single and out._c_contiguous and weight._c_contiguous and _is_ready(x, weight, out, bias):
        if _run(x, _BIAS, (n, plan.m, k, plan.ty, plan.ly, plan.tx, plan.lx), weight, x, out, bias):
            return
    products.multiply(x, weight.T, out)
    out += bias


def weigh_and_sum(g: Any, x: Any) -> tuple[Array, Array] | None:
    """Return `products.weigh` of two arrays, and the sum of the rows of the first; None if cuBLAS cannot."""
    if not (g._c_contiguous and x._c_contiguous and g.dtype == x.dtype and g.size and x.size):
        return None
    if x.dtype.kind == "c" or products.kind_of(x.dtype) is None:
        return None
    outs, ins = g.shape[-1], x.shape[-1]
    if products.is_odd(products.weighing(g, x), ins, x.dtype.itemsize):
        return None
    rows = x.size // ins
    out, sums = arrays.new((outs, ins), x.dtype), arrays.new((outs,), x.dtype)
    if not _is_ready(g, x, out) or sums.data.ptr % 16:
        return None
    numbers = (ins, outs, rows, 0, ins, 1, outs)
    return (out, sums) if _run(x, _SUMS, numbers, x, g, out, sums) else None


@override("linear", gradient="joint", when=lambda g, x, weight: g.ndim == x.ndim > 1 and weight.ndim == 2)
def linear_backward(g: Array, x: Array, weight: Array, needs: tuple[bool, ...]) -> tuple[Array | None, ...]:
    """Return the gradients for what was multiplied, the matrix and the bias; the latter two by one call if possible."""
    gx = products.matmul(g, weight) if needs[0] else None
    both = weigh_and_sum(g, x) if needs[1] and needs[2] else None
    if both is not None:
        return gx, *both
    gw = products.weigh(g, x) if needs[1] else None
    return gx, gw, reductions.sum_over_axes(g, tuple(range(g.ndim - 1)), False) if needs[2] else None
