"""Matrix multiplications on a GPU, by cuBLAS's own functions.

CuPy's interface to cuBLAS is slow on the CPU, has no batches of bfloat16, and cannot be recorded in a graph. Here
plain, transposed, broadcast and batched matrices are multiplied in place in memory, as a rule by one call. That call
follows from the strides of the two operands; it is planned once, and the plan is cached.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, NamedTuple

import cupy
import numpy as np

from ..._typing import Array, DType
from ..cpu import products as host
from . import arrays
from .launching import Kernels
from .sizes import ALIGNED_MATMUL as _WORTH
from .sizes import ALIGNED_SIDE as _LEAST
from .sizes import BATCH_CALLS as _LOOPS
from .sizes import WORKSPACE
from .table import override

__all__ = ["Library", "kind_of", "matmul", "multiply", "project", "weigh"]

Ints = tuple[int, ...]
_AT_ONCE = ((0, 0, 0),)
_EVEN = (False, False)

# --- cuBLAS ----------------------------------------------------------------------------------------------

# The dtypes of products: cuBLAS's number of the type, what it is computed in, and in what alpha and beta are given.
_R32, _R64, _R16, _C32, _C64, _BF16 = 0, 1, 2, 4, 5, 14
_IN_F32, _IN_TF32, _IN_F64 = 68, 77, 70
_TYPES = {
    "float32": (_R32, _IN_F32, ctypes.c_float),
    "float64": (_R64, _IN_F64, ctypes.c_double),
    "float16": (_R16, _IN_F32, ctypes.c_float),
    "bfloat16": (_BF16, _IN_F32, ctypes.c_float),
    "complex64": (_C32, _IN_F32, ctypes.c_float * 2),
    "complex128": (_C64, _IN_F64, ctypes.c_double * 2),
}
_STATES = {
    1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}  # fmt: skip


class Kind:
    """How a dtype is multiplied: its number, the way to compute, and the factors zero and one."""

    __slots__ = ("compute", "number", "one", "scalar", "tf32", "zero")

    def __init__(self, name: str) -> None:
        scalar: Any
        self.number, self.compute, scalar = _TYPES[name]
        self.scalar = scalar
        self.tf32 = _IN_TF32 if name in ("float32", "complex64") else self.compute
        self.zero, self.one = self.factor(0.0), self.factor(1.0)

    def factor(self, value: float) -> Any:
        """Return alpha or beta as cuBLAS reads it."""
        return self.scalar(value) if self.scalar in (ctypes.c_float, ctypes.c_double) else self.scalar(value, 0.0)


_kinds: dict[Any, Kind | None] = {}


def kind_of(dtype: DType) -> Kind | None:
    """Return how a dtype is multiplied; None where cuBLAS has no product for it."""
    try:
        return _kinds[dtype]
    except KeyError:
        found = _kinds[dtype] = Kind(dtype.name) if dtype.name in _TYPES else None
        return found


class Library:
    """cuBLAS on one stream of a device: a handle with a workspace of its own, so that graphs can record its calls.

    Matrices are as cuBLAS sees them, columns first. Factors are ctypes numbers.
    """

    def __init__(self, stream: int) -> None:
        functions, self.stream = _functions(), stream
        self.handle = handle = ctypes.c_void_p()
        _check(functions.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
        _check(functions.cublasSetStream_v2(handle, stream), "cublasSetStream")
        self.memory = cupy.cuda.memory.MemoryPointer(cupy.cuda.memory.Memory(WORKSPACE), 0)
        _check(functions.cublasSetWorkspace_v2(handle, self.memory.ptr, WORKSPACE), "cublasSetWorkspace")
        self._one, self._many = functions.cublasGemmEx, functions.cublasGemmStridedBatchedEx

    def gemm(
        self, t: int, tc: int, compute: int, ta: int, tb: int, m: int, n: int, k: int, alpha: Any, a: int, la: int,
        b: int, lb: int, beta: Any, c: int, lc: int,
    ) -> None:  # fmt: skip
        """Overwrite c, of type `tc`, with alpha * op(a) @ op(b) + beta * c, where a and b are of type `t`."""
        status = self._one(
            self.handle, ta, tb, m, n, k, ctypes.byref(alpha), a, t, la, b, t, lb, ctypes.byref(beta), c, tc, lc,
            compute, -1,
        )  # fmt: skip
        if status:
            _check(status, "cublasGemmEx")

    def gemm_batched(
        self, t: int, tc: int, compute: int, ta: int, tb: int, m: int, n: int, k: int, alpha: Any, a: int, la: int,
        sa: int, b: int, lb: int, sb: int, beta: Any, c: int, lc: int, sc: int, count: int,
    ) -> None:  # fmt: skip
        """Do as `gemm` with `count` matrices each, which are `sa`, `sb` and `sc` elements apart."""
        status = self._many(
            self.handle, ta, tb, m, n, k, ctypes.byref(alpha), a, t, la, sa, b, t, lb, sb, ctypes.byref(beta), c, tc,
            lc, sc, count, compute, -1,
        )  # fmt: skip
        if status:
            _check(status, "cublasGemmStridedBatchedEx")


def _check(status: int, name: str) -> None:
    if status:
        what = _STATES.get(status, status)
        raise RuntimeError(f"CUDA error: CUBLAS_STATUS_{what} when calling `{name}`")


@functools.cache
def _functions() -> ctypes.CDLL:
    """Return the cuBLAS that CuPy has loaded, with its functions' types."""
    cupy.cuda.Device().cublas_handle  # noqa: B018 - loads it
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libcublas.so" in line)
    library = ctypes.PyDLL(path)  # its calls return at once, so that other threads need not be let in meanwhile
    pointer, integer, wide = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
    head = (pointer, *(integer,) * 5, pointer)
    one, many = (pointer, integer, integer), (pointer, integer, integer, wide)
    library.cublasGemmEx.argtypes = (*head, *one, *one, pointer, *one, integer, integer)
    library.cublasGemmStridedBatchedEx.argtypes = (*head, *many, *many, pointer, *many, *(integer,) * 3)
    library.cublasSetStream_v2.argtypes = (pointer, pointer)
    library.cublasSetWorkspace_v2.argtypes = (pointer, pointer, ctypes.c_size_t)
    return library


_libraries: dict[tuple[int, int], Library] = {}
current_stream = cupy.cuda.get_current_stream


def library_for(array: Array) -> Library:
    """Return cuBLAS for the device of an array and the current stream."""
    key = array.data.device_id, current_stream().ptr
    found = _libraries.get(key)
    if found is None:
        found = _libraries[key] = Library(key[1])
    return found


# --- Plans -----------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What two operands' shapes and strides say about the call that multiplies them."""

    shape: Ints  # of the result
    m: int
    n: int
    k: int
    tx: int  # whether an operand's rows, not its columns, are contiguous
    lx: int  # how many elements apart the others are
    ty: int
    ly: int
    batch: int  # matrices in the batch, and how many elements apart they are
    sx: int
    sy: int
    so: int
    offsets: tuple[Ints, ...]  # of x and y in bytes, and of the result in elements, for each call
    uneven: tuple[bool, bool]  # operands that must be copied first

    @property
    def is_single(self) -> bool:
        """Whether it is one product of two matrices, without copies."""
        return self.batch == 1 and self.offsets is _AT_ONCE and self.uneven == _EVEN


def _form(rows: int, columns: int, row: int, column: int, item: int) -> tuple[int, int] | None:
    """Return whether BLAS sees a matrix transposed and how far apart its rows (or columns) are; None if it cannot."""
    if (column == item or columns == 1) and (rows == 1 or (row >= columns * item and row % item == 0)):
        return 0, max(columns, row // item if rows > 1 else 1)
    if (row == item or rows == 1) and (columns == 1 or (column >= rows * item and column % item == 0)):
        return 1, max(rows, column // item if columns > 1 else 1)
    return None


def _spread(shape: Ints, strides: Ints, lead: Ints) -> list[int]:
    """Return how far apart the matrices of an operand are along each leading axis of the result."""
    missing = len(lead) - len(shape)
    return [0] * missing + [0 if n == 1 else s for n, s in zip(shape, strides)]


def _groups(sizes: list[int], *steps: list[int]) -> list[tuple[int, ...]]:
    """Return axes as (size, step, ...), joined where all operands go on evenly."""
    found: list[tuple[int, ...]] = []
    for size, *step in zip(sizes, *steps):
        if size == 1:
            continue
        if found and all(outer == inner * size for outer, inner in zip(found[-1][1:], step)):
            found[-1] = (found[-1][0] * size, *step)
        else:
            found.append((size, *step))
    return found


@functools.lru_cache(1 << 14)
def plan_for(xs: Ints, xt: Ints, ys: Ints, yt: Ints, item: int) -> Plan:
    """Return how to multiply operands of these shapes and strides (in bytes)."""
    one_x, one_y = len(xs) == 1, len(ys) == 1
    if one_x:
        xs, xt = (1, *xs), (0, *xt)
    if one_y:
        ys, yt = (*ys, 1), (*yt, 0)
    (m, k), n = xs[-2:], ys[-1]
    if ys[-2] != k:
        raise ValueError(f"shapes {xs} and {ys} cannot be multiplied")
    lead = xs[:-2] if xs[:-2] == ys[:-2] else np.broadcast_shapes(xs[:-2], ys[:-2])
    shape = (*lead, *(() if one_x else (m,)), *(() if one_y else (n,)))
    steps_x, steps_y = _spread(xs[:-2], xt[:-2], lead), _spread(ys[:-2], yt[:-2], lead)
    steps_o = [m * n * item * math.prod(lead[i + 1 :]) for i in range(len(lead))]
    sizes, row = list(lead), xt[-2]
    # Leading axes of x that y does not have are more rows.
    while sizes and (sizes[-1] == 1 or (steps_y[-1] == 0 and (m == 1 or steps_x[-1] == row * m))):
        if sizes[-1] != 1:
            row = steps_x[-1] if m == 1 else row
            m *= sizes[-1]
        for values in (sizes, steps_x, steps_y, steps_o):
            values.pop()
    x, y = _form(m, k, row, xt[-1], item), _form(k, n, yt[-2], yt[-1], item)
    groups = sorted(_groups(sizes, steps_x, steps_y, steps_o))
    calls = math.prod(g[0] for g in groups[:-1])
    crooked = calls > _LOOPS
    uneven = (
        x is None or (crooked and len(_groups(sizes, steps_x)) > 1) or any(s < 0 or s % item for s in steps_x),
        y is None or (crooked and len(_groups(sizes, steps_y)) > 1) or any(s < 0 or s % item for s in steps_y),
    )
    if any(uneven):
        return Plan(shape, m, n, k, 0, 0, 0, 0, 0, 0, 0, 0, (), uneven)
    assert x is not None and y is not None
    offsets = list(_AT_ONCE)
    for size, *step in groups[:-1]:
        offsets = [
            (a + i * step[0], b + i * step[1], c + i * step[2] // item) for a, b, c in offsets for i in range(size)
        ]  # fmt: skip
    count, *apart = groups[-1] if groups else (1, 0, 0, 0)
    calls_at = tuple(offsets) if len(offsets) > 1 else _AT_ONCE
    sx, sy, so = (s // item for s in apart)
    return Plan(shape, m, n, k, *x, *y, count, sx, sy, so, calls_at, uneven)


# --- Products --------------------------------------------------------------------------------------------


def multiply(x: Array, y: Array, out: Array | None = None, alpha: float = 1.0, beta: float = 0.0) -> Array:
    """Return ``alpha * (x @ y)``, written to `out` if that is given, on top of ``beta * out`` if beta is not zero.

    Operands are arrays of one dtype that `kind_of` knows, vectors, matrices or batches of them, with any strides.
    """
    plan = plan_for(x.shape, x.strides, y.shape, y.strides, x.dtype.itemsize)
    if plan.uneven != _EVEN:
        x, y, plan = _evened(x, y, plan)
    return _run(plan, x, y, out, alpha, beta)


def _evened(x: Array, y: Array, plan: Plan) -> tuple[Any, Any, Plan]:
    """Return operands in which no matrix has uneven strides, and their plan."""
    lead = plan.shape[: max(x.ndim, y.ndim) - 2]
    made = []
    for a, uneven in zip((x, y), plan.uneven):
        if uneven:
            whole = a if a.ndim <= 2 or a.shape[:-2] == lead else cupy.broadcast_to(a, (*lead, *a.shape[-2:]))
            a = cupy.array(whole, order="C", copy=True)
        made.append(a)
    x, y = made
    return x, y, plan_for(x.shape, x.strides, y.shape, y.strides, x.dtype.itemsize)


def _run(plan: Plan, x: Any, y: Any, out: Any, alpha: float, beta: float) -> Any:
    shape, m, n, k, tx, lx, ty, ly, count, sx, sy, so, offsets, _ = plan
    dtype = x.dtype
    kind: Any = _kinds.get(dtype) or kind_of(dtype)
    into: Any = kind
    lo = n
    if out is None:
        out = arrays.new(shape, dtype)
    elif not out._c_contiguous or out.dtype != dtype:
        lo, into = _place(kind, plan, out)
        if not lo:
            return _elsewhere(plan, x, y, out, alpha, beta)
    if not (m and n and k and count):
        if out.size and beta == 0.0:
            out.fill(0)  # a new array holds anything, NaNs too
        elif out.size:
            out *= beta
        return out
    a = kind.one if alpha == 1.0 else kind.factor(alpha)
    b = kind.zero if beta == 0.0 else kind.one if beta == 1.0 else kind.factor(beta)
    compute = kind.tf32 if host.precision.tf32 else kind.compute
    library = library_for(x)
    px, py, po = x.data.ptr, y.data.ptr, out.data.ptr
    # What is in rows here is in columns for BLAS: it computes the transpose, from the transposes, in reverse.
    head = kind.number, into.number, compute, ty, tx, n, m, k, a
    if offsets is _AT_ONCE and count == 1:
        if is_odd(plan, lo, dtype.itemsize):
            _through_even_rows(library, head[:3], (a, b), plan, x, y, out, lo)
        else:
            library.gemm(*head, py, ly, px, lx, b, po, lo)
        return out
    item = out.dtype.itemsize
    for ox, oy, oo in offsets:
        if count == 1:
            library.gemm(*head, py + oy, ly, px + ox, lx, b, po + oo * item, lo)
        else:
            library.gemm_batched(*head, py + oy, ly, sy, px + ox, lx, sx, b, po + oo * item, lo, so, count)
    return out


# --- Rows of odd length ----------------------------------------------------------------------------------

_EVEN_ROWS = """
// Copies of matrices, eight elements by each thread: into rows of another length, zeros where there was nothing.
extern "C" __global__ void spread(const T* x, T* out, i64 total, i64 rows, i64 columns, i64 apart, i64 pitch) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i * 8 >= total) return;
    const i64 packs = pitch / 8, row = i / packs, column = i % packs * 8;
    const T* from = x + row * apart + column;
    const i64 there = row < rows ? columns - column : 0;
    Pack<T, 8> p;
    #pragma unroll
    for (int j = 0; j < 8; ++j) p.v[j] = j < there ? from[j] : (T)0;
    ((Pack<T, 8>*)out)[i] = p;
}
// And back, to rows that follow one another.
extern "C" __global__ void gather(const T* x, T* out, i64 total, i64 columns, i64 pitch) {
    i64 i = (blockIdx.x * (i64)blockDim.x + threadIdx.x) * 8;
    if (i >= total) return;
    i64 row = i / columns, column = i - row * columns;
    Pack<T, 8> p;
    const int count = total - i < 8 ? (int)(total - i) : 8;
    #pragma unroll
    for (int j = 0; j < 8; ++j) if (j < count) {
        p.v[j] = x[row * pitch + column];
        if (++column == columns) { column = 0; ++row; }
    }
    if (count == 8) *(Pack<T, 8>*)(out + i) = p;
    else for (int j = 0; j < count; ++j) out[i + j] = p.v[j];
}
"""
_even_rows = Kernels(_EVEN_ROWS, "T")


def _even(x: Array, size: tuple[int, int], apart: int, wanted: tuple[int, int]) -> tuple[Any, int]:
    """Return a matrix (rows, columns) of 16-bit numbers as a larger one, with zeros; itself if it is as wanted."""
    if size == wanted and not apart & 7:
        return x, apart
    pitch = wanted[1]
    out = arrays.new(wanted, x.dtype)
    _even_rows.launch(
        "spread", ("u2",), -(-out.size // 2048), 256, (x, out, out.size, *size, apart, pitch)
    )  # fmt: skip
    return out, pitch


def is_odd(plan: Plan, lo: int, item: int) -> bool:
    """Return whether copies would make a product of 16-bit matrices (`item` is 2) faster.

    Where one of them has rows whose length or distance is no multiple of 16 bytes, cuBLAS takes seven times as long.
    """
    _, m, n, k, _, lx, _, ly = plan[:8]
    return item == 2 and bool((lo | n | k | lx | ly) & 7) and m * n * k >= _WORTH and min(m, n, k) >= _LEAST


def _through_even_rows(
    library: Library, kinds: tuple[int, ...], factors: tuple[Any, Any], plan: Plan, x: Any, y: Any, out: Any, lo: int
) -> None:
    """Multiply matrices for which `is_odd` is true, by copies with longer rows."""
    m, n, k, tx, lx, ty, ly = plan[1:8]
    alpha, beta = factors
    fresh = beta.value == 0.0 and kinds[0] == kinds[1] and lo == n and out.data.ptr % 16 == 0
    depth = -(-k // 8) * 8 if ty or not tx else k  # along which is summed, if that is along rows
    width = -(-n // 8) * 8 if fresh else n
    if tx:
        x, lx = _even(x, (k, m), lx, (depth, -(-m // 8) * 8 if lx & 7 or depth != k else m))
    else:
        x, lx = _even(x, (m, k), lx, (m, depth))
    if ty:
        y, ly = _even(y, (n, k), ly, (width, depth))
    else:
        y, ly = _even(y, (k, n), ly, (depth, -(-n // 8) * 8 if ly & 7 or depth != k else width))
    result = out if width == n else arrays.new((m, width), out.dtype)
    places = y.data.ptr, ly, x.data.ptr, lx, beta, result.data.ptr, lo if width == n else width
    arguments = (*kinds, ty, tx, width, m, depth, alpha, *places)
    library.gemm(*arguments)
    if width != n:
        _even_rows.launch("gather", ("u2",), -(-out.size // 2048), 256, (result, out, out.size, n, width))


def _place(kind: Any, plan: Plan, out: Any) -> tuple[int, Any]:
    """Return how far apart the rows of a given result are and its kind; 0 if it cannot be written in place."""
    shape, n, into = plan.shape, plan.n, kind_of(out.dtype)
    wider = into is kind or (into is not None and out.dtype.name == "float32" and kind.number in (_R16, _BF16))
    if not wider or out.shape != shape or not out.size:
        return 0, into
    if out._c_contiguous:
        return n, into
    rows, item = out.strides[0], out.dtype.itemsize
    even = plan.is_single and shape[1:] == (n,) and out.strides[1] == item and rows >= n * item and rows % item == 0
    return rows // item if even else 0, into


def _elsewhere(plan: Plan, x: Any, y: Any, out: Any, alpha: float, beta: float) -> Any:
    """Write a product where it cannot be computed."""
    product = _run(plan, x, y, None, alpha, 0.0)
    out[...] = product if beta == 0.0 else product + out * beta
    return out


def _fits(x: Array, y: Array) -> bool:
    """Return whether two arrays, or what was given for them, are multiplied here."""
    return (
        isinstance(y, cupy.ndarray)
        and (x.dtype is y.dtype or x.dtype == y.dtype)
        and kind_of(x.dtype) is not None
        and x.ndim > 0 < y.ndim
        and (x.ndim + y.ndim > 2 or x.dtype.itemsize == 2)  # cuBLAS has its own for two vectors, in CuPy's hands
    )


def _are_numbers(x: Array, y: Array) -> bool:
    return isinstance(y, cupy.ndarray) and x.dtype.kind != "b"


@override("mm", when=_are_numbers)
@override("mv", when=_are_numbers)
@override("dot", when=_are_numbers)
@override("bmm", when=_are_numbers)
def matmul(x: Array, y: Array) -> Array:
    """Return ``x @ y`` of an array of ours and another; what cuBLAS does not multiply is left to CuPy."""
    if _fits(x, y):
        return multiply(x, y)
    return arrays.adopt(cupy.ndarray.__matmul__(x, y))


@override("project", when=_are_numbers)
def project(x: Any, weight: Any) -> Array:
    """Return ``x @ weight.T`` for a matrix `weight`."""
    if weight.ndim == 2 and weight._c_contiguous and _fits(x, weight):
        n, k = weight.shape
        item = x.dtype.itemsize
        plan = plan_for(x.shape, x.strides, (k, n), (item, k * item), item)
        if plan.uneven == _EVEN:
            return _run(plan, x, weight, None, 1.0, 0.0)
    return matmul(x, weight.swapaxes(-1, -2) if weight.ndim > 1 else weight)


@override("project", gradient="y", when=lambda g, x: g.ndim == x.ndim)
def weigh(g: Any, x: Any) -> Array:
    """Return the sum over all leading axes of the outer products of the last: ``g.T @ x`` of matrices."""
    if not (x.size and g.size):
        return cupy.zeros((g.shape[-1], x.shape[-1]), g.dtype)
    if not (g._c_contiguous and x._c_contiguous and _fits(g, x)):
        rows = math.prod(x.shape[:-1])
        return matmul(g.reshape(rows, g.shape[-1]).swapaxes(0, 1), x.reshape(rows, x.shape[-1]))
    return _run(weighing(g, x), g, x, None, 1.0, 0.0)


def weighing(g: Array, x: Array) -> Plan:
    """Return the plan of `weigh` for contiguous arrays."""
    outs, ins, item = g.shape[-1], x.shape[-1], x.dtype.itemsize
    rows = x.size // ins
    return plan_for((outs, rows), (item, outs * item), (rows, ins), (ins * item, item), item)


arrays.Array.__matmul__ = matmul
arrays.operators[np.matmul] = lambda x, y: matmul(x, y) if isinstance(x, cupy.ndarray) else None
