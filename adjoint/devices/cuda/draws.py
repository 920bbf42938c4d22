"""Random numbers made where they are used: Philox, with a seed from the CPU's stream for each call."""

from __future__ import annotations

import math
from typing import Any

from ..._typing import Array, DType
from .launching import FLOATS, Kernels, empty
from .table import override

__all__ = ["attention_dropout_mask", "drawn", "kept"]

_KERNELS = Kernels(
    r"""
typedef unsigned int u32;
// Ten rounds of Philox 4x32: four words for each counter.
__device__ __forceinline__ void philox(u32 c[4], u32 k0, u32 k1) {
    c[2] = c[3] = 0;
    for (int round = 0; round < 10; ++round) {
        unsigned long long a = (unsigned long long)c[0] * 0xD2511F53u, b = (unsigned long long)c[2] * 0xCD9E8D57u;
        u32 c0 = (u32)(b >> 32) ^ c[1] ^ k0, c2 = (u32)(a >> 32) ^ c[3] ^ k1;
        c[1] = (u32)b;
        c[3] = (u32)a;
        c[0] = c0;
        c[2] = c2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}
// Ones where a number lies below the threshold, zeros elsewhere; four elements for each thread. Compiled programs draw
// the same (`compiler/gpu/text.py`).
extern "C" __global__ void keep(T* y, i64 size, i64 seed, double threshold) {
    i64 quarter = blockIdx.x * (i64)blockDim.x + threadIdx.x, i = quarter * 4;
    if (i >= size) return;
    u32 c[4] = {(u32)quarter, (u32)(quarter >> 32), 0, 0};
    philox(c, (u32)seed, (u32)(seed >> 32));
    Pack<T, 4> v;
    #pragma unroll
    for (int j = 0; j < 4; ++j)
        v.v[j] = (T)((float)(c[j] >> 8) * 5.9604644775390625e-8f < (float)threshold ? 1.0f : 0.0f);
    if (i + 4 <= size) *(Pack<T, 4>*)(y + i) = v;
    else for (int j = 0; i + j < size; ++j) y[i + j] = v.v[j];
}
// Numbers between `a` and `b`, or normal ones of mean `a` and deviation `b`; four for each thread, of 24 bits or 53.
extern "C" __global__ void draw(T* y, i64 size, i64 seed, i64 normal, double a, double b) {
    typedef wide_of<T>::type W;
    i64 quarter = blockIdx.x * (i64)blockDim.x + threadIdx.x, i = quarter * 4;
    if (i >= size) return;
    u32 c[8] = {(u32)quarter, (u32)(quarter >> 32), 0, 0, (u32)quarter, (u32)(quarter >> 32) ^ 0x80000000u, 0, 0};
    philox(c, (u32)seed, (u32)(seed >> 32));
    if (sizeof(W) == 8) philox(c + 4, (u32)seed, (u32)(seed >> 32));
    W v[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (sizeof(W) == 4) v[j] = (W)(c[j] >> 8) * (W)(1.0 / (1 << 24));
        else v[j] = (W)((((unsigned long long)c[j] << 32) | c[4 + j]) >> 11) * (W)(1.0 / ((i64)1 << 53));
    }
    if (normal) {
        #pragma unroll
        for (int j = 0; j < 4; j += 2) {
            W r = sqrt(-2 * log(1 - v[j])), angle = (W)6.283185307179586 * v[j + 1];
            v[j] = r * cos(angle);
            v[j + 1] = r * sin(angle);
        }
    }
    for (int j = 0; j < 4 && i + j < size; ++j) {
        T found = (T)(normal ? v[j] * (W)b + (W)a : v[j] * ((W)b - (W)a) + (W)a);
        y[i + j] = !normal && (W)found >= (W)b ? (T)(W)a : found;  // rounding may reach the end, which does not belong
    }
}
""",
    "T",
)


def drawn(kind: str, shape: tuple[int, ...], dtype: DType, seed: int, *params: float) -> Any:
    """Return numbers that are "uniform" between two bounds, or "normal" of a mean and a deviation; else None."""
    if dtype.char not in FLOATS or kind not in ("uniform", "normal"):
        return None
    out = empty(shape, dtype)
    if out.size:
        a, b = params or (0.0, 1.0)
        blocks = -(-math.prod(shape) // 1024)
        args = (out, out.size, seed, int(kind == "normal"), float(a), float(b))
        _KERNELS.launch("draw", (dtype.char,), blocks, 256, args)
    return out


def kept(shape: tuple[int, ...], dtype: DType, keep: float, seed: int) -> Any:
    """Return ones with probability `keep` and zeros otherwise; None for dtypes that are no floats."""
    if dtype.char not in FLOATS:
        return None
    out = empty(shape, dtype)
    if out.size:
        blocks = -(-math.prod(shape) // 1024)
        _KERNELS.launch("keep", (dtype.char,), blocks, 256, (out, out.size, seed, float(keep)))
    return out


@override("attention_dropout_mask", when=lambda q, *params: q.dtype.char in FLOATS)
def attention_dropout_mask(q: Array, source: int, keep: float, seed: int) -> Array:
    """Return the dropout mask that the kernels of `attention.py` apply to the weights of queries `q`."""
    found: Array = kept((*q.shape[:-1], -(-source // 4) * 4), q.dtype, keep, seed)
    return found[..., :source]  # type: ignore[no-any-return]
