"""The C of fused kernels: mathematics by dtype, random numbers, and the types of values."""

from __future__ import annotations

from ..._typing import DType
from ...devices.cuda.source import HEAD as TYPES_AND_SUMS

__all__ = ["HEAD", "computed_as", "wide"]

_MATHEMATICS = r"""
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ float join_amax<float>(float a, float b) {
    float x; asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b)); return x; }
template <> __device__ __forceinline__ float join_amin<float>(float a, float b) {
    float x; asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b)); return x; }
#endif
"""
# Philox 4x32-10 (Salmon et al. 2011): the random number of element `e` for one of the seeds, the same as outside of
# programs (`devices/cuda/draws.py`): four elements have a counter.
_RANDOM = r"""
__device__ __forceinline__ float draw32(const i64* seeds, int number, i64 e) {
    const i64 seed = seeds[number];
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)((unsigned long long)seed >> 32);
    unsigned int a = (unsigned int)(e >> 2), b = (unsigned int)(e >> 34), c = 0, d = 0;
    for (int round = 0; round < 10; ++round) {
        unsigned long long x = 0xD2511F53ull * a, y = 0xCD9E8D57ull * c;
        a = (unsigned int)(y >> 32) ^ b ^ k0; b = (unsigned int)y;
        c = (unsigned int)(x >> 32) ^ d ^ k1; d = (unsigned int)x;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    const int turn = (int)e & 3;
    return (float)((turn == 0 ? a : turn == 1 ? b : turn == 2 ? c : d) >> 8) * 5.9604644775390625e-8f;
}
"""
# Joins the parts that blocks have left: one number, or a number for each column.
_JOINS = r"""
#define JOIN(op) \
template <typename T, typename O> __device__ void number_##op(const T* parts, O* out, i64 count) { \
    __shared__ T seen[256]; \
    if (threadIdx.x < count) { \
        T x = parts[threadIdx.x]; \
        for (i64 k = threadIdx.x + 256; k < count; k += 256) x = join_##op(x, parts[k]); \
        seen[threadIdx.x] = x; \
    } \
    __syncthreads(); \
    for (int half = 128; half > 0; half >>= 1) { \
        if (threadIdx.x < half && threadIdx.x + half < count) \
            seen[threadIdx.x] = join_##op(seen[threadIdx.x], seen[threadIdx.x + half]); \
        __syncthreads(); \
    } \
    if (threadIdx.x == 0) out[0] = (O)seen[0]; \
} \
template <typename T, typename O> __device__ void columns_##op(const T* parts, O* out, i64 count, i64 columns) { \
    __shared__ T seen[32][33]; \
    const i64 c = (i64)blockIdx.x * 32 + threadIdx.x; \
    if (c < columns && threadIdx.y < count) { \
        T x = parts[threadIdx.y * columns + c]; \
        for (i64 k = threadIdx.y + 32; k < count; k += 32) x = join_##op(x, parts[k * columns + c]); \
        seen[threadIdx.y][threadIdx.x] = x; \
    } \
    __syncthreads(); \
    if (threadIdx.y == 0 && c < columns) { \
        T x = seen[0][threadIdx.x]; \
        for (int k = 1; k < 32 && k < count; ++k) x = join_##op(x, seen[k][threadIdx.x]); \
        out[c] = (O)x; \
    } \
}
JOIN(sum) JOIN(amax) JOIN(amin)
"""
# Neighbours that a thread takes at once, 16 bytes at a time where they are more.
_SPAN = """
template <typename T, int N> struct __align__(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Span { T v[N]; };
"""
HEAD = TYPES_AND_SUMS + _SPAN + _JOINS + _MATHEMATICS + _RANDOM

# What a number is computed as, by its dtype's name.
_COMPUTED = {
    "float32": "float", "float64": "double", "float16": "float", "bfloat16": "float", "bool": "bool", "int64": "i64",
    "int32": "int", "int16": "short", "int8": "signed char", "uint8": "unsigned char",
}  # fmt: skip


def computed_as(dtype: DType) -> str:
    """Return the C type in which numbers of a dtype are computed."""
    return _COMPUTED[dtype.name]


def wide(name: str) -> str:
    """Return the name of the dtype in which numbers of another are computed."""
    return "float32" if name in ("float16", "bfloat16") else name
