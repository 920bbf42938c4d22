"""What row-wise kernels share, and the cross entropy of rows: an override, which reads the logits once each way.

Its value is logsumexp's statement less the label's element, its gradient softmax's less one at the label; a pass over
rows of a vocabulary's size is what takes time (benchmarks/gpu.py, cross_entropy). Functions take `out=` arrays made
before, and none asks the GPU for a value: all may be captured in a CUDA graph. 16-bit numbers are computed with as
float. NaN, and rows of infinities, give what torch gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import bounds
from .launching import Kernels, aligned, dense, empty, is_float, made
from .table import override

__all__ = ["WALK", "cross_entropy", "cross_entropy_back", "pack_of", "shape_of_blocks"]

_F32 = np.dtype(np.float32)

# Rows that begin anywhere: single elements up to the first whole pack, packs, single elements again.
WALK = r"""
template <int N, typename A, typename B> __device__ __forceinline__ void walk(i64 start, i64 n, A many, B one) {
    i64 head = (N - start % N) % N;
    if (head > n) head = n;
    if (threadIdx.x < head) one(threadIdx.x);
    i64 packs = (n - head) / N;
    #pragma unroll 4
    for (i64 p = threadIdx.x; p < packs; p += blockDim.x) many(head + p * N);
    i64 i = head + packs * N + threadIdx.x;
    if (i < n) one(i);
}
#define INFINITE ((W)__uint_as_float(0x7f800000u))
// In 16 bits nobody can tell the quick exponential from the exact one.
__device__ __forceinline__ W power(W x) { return sizeof(T) == 2 ? (W)__expf((float)x) : exp(x); }
"""


def shape_of_blocks(n: int, pack: int, apart: bool) -> tuple[int, int, int]:
    """Return the elements of a pack, the packs that a thread holds (0: too many for registers) and the threads.

    `apart` says that arrays do not begin on the borders of packs.
    """
    if apart:
        pack = 1
    packs = -(-n // pack)
    if n % pack or packs > 4096:
        return pack, 0, 128 if n <= 1024 else 512 if n <= 1 << 14 else 1024
    held = 1 if packs <= 64 else 2 if packs <= 256 else 4
    return pack, held, max(32, (-(-packs // held) + 31) // 32 * 32)


def pack_of(*arrays: Any) -> int:
    """Return how many elements are read at once: 16 bytes of the smallest."""
    return 16 // min([a.itemsize for a in arrays])


# --- Cross entropy ----------------------------------------------------------------------------------

_ENTROPY = Kernels(
    "typedef wide_of<T>::type W;\n"
    + bounds.NOTE
    + WALK
    + r"""
struct S { W top, sum; };
__device__ __forceinline__ void add(S& s, W x) {
    if (x > s.top) { s.sum = s.sum * power(s.top - x) + (1 + (x - x)); s.top = x; }
    else if (!(x == -INFINITE)) s.sum += power(x - s.top);
}
__device__ __forceinline__ S join(S a, S b) {
    W top = a.top > b.top ? a.top : b.top;
    return S{top, (a.top == top ? a.sum : a.sum * power(a.top - top)) + (b.top == top ?
            b.sum : b.sum * power(b.top - top))};
}
// A label that is no class, and not the one to be ignored, makes the loss NaN, and is noted.
extern "C" __global__ void forward(const T* x, const i64* labels, W* losses, W* logs, i64 n, i64 ignored, NOTED) {
    __shared__ S part[32];
    i64 start = blockIdx.x * n;
    const T* row = x + start;
    S s{-INFINITE, 0};
    walk<P>(start, n, [&](i64 i) {
        Pack<T, P> v = *(const Pack<T, P>*)(row + i);
        W top = (W)v.v[0];
        #pragma unroll
        for (int j = 1; j < P; ++j) top = (W)v.v[j] > top ? (W)v.v[j] : top;
        if (top > s.top) { s.sum *= power(s.top - top); s.top = top; }
        if (s.top > -INFINITE || !(top == top)) {
            #pragma unroll
            for (int j = 0; j < P; ++j) s.sum += power((W)v.v[j] - s.top);
        }
    }, [&](i64 i) { add(s, (W)row[i]); });
    for (int k = 16; k > 0; k >>= 1) s = join(s, S{__shfl_xor_sync(0xffffffff, s.top, k),
            __shfl_xor_sync(0xffffffff, s.sum, k)});
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x) return;
    for (int k = 1; k < (blockDim.x >> 5); ++k) s = join(s, part[k]);
    W found = s.top + log(s.sum);
    i64 label = labels[blockIdx.x];
    logs[blockIdx.x] = found;
    if (label != ignored) CHECK(label, n)
    losses[blockIdx.x] = label == ignored ? (W)0 : label < 0 || label >= n ?
            INFINITE - INFINITE : found - (W)row[label];
}
// One block: the sum of the losses, over how many there are; and that number.
extern "C" __global__ void reduce(const W* losses, const i64* labels, L* loss, W* count, i64 rows, i64 ignored,
        i64 mean) {
    W sum = 0, there = 0;
    for (i64 i = threadIdx.x; i < rows; i += blockDim.x) { sum += losses[i]; there += labels[i] == ignored ? 0 : 1; }
    sum = block_sum(sum);
    there = block_sum(there);
    if (threadIdx.x == 0) { loss[0] = (L)(mean ? sum / there : sum); count[0] = mean ? there : (W)1; }
}
extern "C" __global__ void back(const T* x, const L* g, const i64* labels, const W* logs, const W* count, O* y, i64 n,
                                i64 ignored, i64 each) {
    i64 start = blockIdx.x * n, label = labels[blockIdx.x];
    const T* row = x + start;
    O* to = y + start;
    W level = logs[blockIdx.x], share = (W)g[each ? blockIdx.x : 0], own = 0;
    if (count) share /= count[0];
    if (label == ignored) {
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) to[i] = (O)(W)0;
        return;
    }
    bool there = threadIdx.x == 0 && label >= 0 && label < n;
    if (there) own = (W)row[label];  // before it is written over, where the gradient takes the place of the logits
    __syncthreads();
    i64 head = (P - start % P) % P;
    if (head > n) head = n;
    i64 packs = (n - head) / P, i = head + packs * P + threadIdx.x;
    if (threadIdx.x < head) to[threadIdx.x] = (O)(power((W)row[threadIdx.x] - level) * share);
    if (i < n) to[i] = (O)(power((W)row[i] - level) * share);
    const Pack<T, P>* from = (const Pack<T, P>*)(row + head);
    Pack<O, P>* into = (Pack<O, P>*)(to + head);
    // Several packs are read before the first is written: the two may be one memory, which keeps compilers from it.
    for (i64 p = threadIdx.x; p < packs; p += 4 * blockDim.x) {
        Pack<T, P> v[4];
        #pragma unroll
        for (int u = 0; u < 4; ++u) if (p + u * blockDim.x < packs) v[u] = from[p + u * blockDim.x];
        #pragma unroll
        for (int u = 0; u < 4; ++u) if (p + u * blockDim.x < packs) {
            Pack<O, P> w;
            #pragma unroll
            for (int j = 0; j < P; ++j) w.v[j] = (O)(power((W)v[u].v[j] - level) * share);
            into[p + u * blockDim.x] = w;
        }
    }
    __syncthreads();
    if (there) to[label] = (O)((power(own - level) - 1) * share);
}
""",
    "T",
    "L",
    "O",
    "P",
)


def _threads(n: int, pack: int) -> int:
    packs = -(-n // pack)
    return 64 if packs <= 128 else 128 if packs <= 512 else 256 if packs <= 2048 else 512


def cross_entropy(
    x: Any, labels: Any, ignored: int, reduction: int, logs: Any = None, losses: Any = None, loss: Any = None,
    count: Any = None,
) -> tuple[Any, Any, Any] | None:  # fmt: skip
    """Return the loss of rows of logits (0: one for each row, 1: their mean, 2: their sum), logsumexps and the count.

    The count is what the sum was divided by, on the GPU; None for a loss for each row. Labels are int64.
    """
    if not is_float(x) or not x.size or labels.dtype.char not in "lq":
        return None
    x, labels = dense(x), dense(labels)
    (rows, n), wide = x.shape, x.dtype if x.dtype.char == "d" else _F32
    logs, losses = made(logs, (rows,), wide), made(losses, (rows,), wide)
    pack = pack_of(x) if aligned(x) else 1
    char = x.dtype.char
    whole = char if loss is None else loss.dtype.char
    key = (char, whole, char, pack)
    args = (x, labels, losses, logs, n, ignored, *bounds.noted("cross_entropy", n))
    _ENTROPY.launch("forward", key, rows, _threads(n, pack), args)
    if reduction == 0:
        return losses if losses.dtype == x.dtype else losses.astype(x.dtype), logs, None
    loss, count = made(loss, (), x.dtype), made(count, (), wide)
    _ENTROPY.launch("reduce", key, 1, 1024, (losses, labels, loss, count, rows, ignored, int(reduction == 1)))
    return loss, logs, count


def cross_entropy_back(g: Any, x: Any, labels: Any, ignored: int, logs: Any, count: Any, out: Any = None) -> Any:
    """Return the gradient of the logits in one pass; `g` is one number, or one for each row."""
    x, out = dense(x), made(out, x.shape, x.dtype)
    pack = pack_of(x, out) if aligned(x, out) else 1
    key = (x.dtype.char, g.dtype.char, out.dtype.char, pack)
    args = (x, dense(g), dense(labels), logs, 0 if count is None else count, out, x.shape[1], ignored, int(g.size > 1))
    _ENTROPY.launch("back", key, x.shape[0], _threads(x.shape[1], pack), args)
    return out


@override("cross_entropy")
def _forward(x: Any, target: Any, ignored: int, reduction: int, wide: bool) -> Any:
    loss = empty((), _F32) if wide and reduction else None
    found = cross_entropy(x, target.astype(np.int64, copy=False), ignored, reduction, loss=loss)
    return NotImplemented if found is None else (*found, None)


@override("cross_entropy", gradient="x")
def _backward(
    g: Any, x: Any, target: Any, logs: Any, count: Any, at: Any, ignored: int, reduction: int, wide: bool
) -> Any:
    if logs is None:
        return NotImplemented
    return cross_entropy_back(g, x, target.astype(np.int64, copy=False), ignored, logs, count)
