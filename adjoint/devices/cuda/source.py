"""The C that every kernel of ours begins with: numbers of 16 bits, mathematics by dtype, sums over a block.

16-bit numbers are read as float, computed with as float, and rounded when they are written; no header of CUDA's is
needed, so that NVRTC alone compiles all of it. Outside of CUDA (`tests/gpu/simulated`) plain C++ does the same.
"""

from __future__ import annotations

from typing import Any

__all__ = ["HEAD", "TYPES", "type_name"]

# The C type of each dtype; computed with as float where it has 16 bits.
TYPES = {
    "float32": "float", "float64": "double", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "int64": "i64",
    "int32": "int", "int16": "short", "int8": "signed char", "uint8": "unsigned char",
}  # fmt: skip

HEAD = r"""
typedef long long i64;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned short to_bf16(float x) {
    unsigned short u; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(u) : "f"(x)); return u; }
#else
__device__ __forceinline__ unsigned short to_bf16(float x) {
    if (x != x) return 0x7fc0;
    unsigned int b = __float_as_uint(x);
    return (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16); }
#endif
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ unsigned short to_f16(float x) {
    unsigned short u; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(u) : "f"(x)); return u; }
__device__ __forceinline__ float from_f16(unsigned short u) {
    float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(u)); return x; }
#else
__device__ __forceinline__ unsigned short to_f16(float x) {
    unsigned int b = __float_as_uint(x), s = (b >> 16) & 0x8000, m = b & 0x7fffffff;
    if (m > 0x7f800000) return s | 0x7e00;
    if (m >= 0x477ff000) return s | 0x7c00;
    if (m < 0x38800000) {
        float shifted = __uint_as_float(m) + 0.5f;
        return s | (unsigned short)(__float_as_uint(shifted) - 0x3f000000); }
    return s | (unsigned short)((m - 0x38000000 + 0xfff + ((m >> 13) & 1)) >> 13); }
__device__ __forceinline__ float from_f16(unsigned short u) {
    unsigned int s = (unsigned int)(u & 0x8000) << 16, m = u & 0x7fff;
    if (m >= 0x7c00) return __uint_as_float(s | 0x7f800000 | (m & 0x3ff) << 13);
    if (m < 0x400) return (s ? -1.0f : 1.0f) * (float)m * 5.9604644775390625e-8f;
    return __uint_as_float(s | ((m << 13) + 0x38000000)); }
#endif
struct bf16 {
    unsigned short u;
    bf16() = default;
    __device__ __forceinline__ bf16(float x) : u(to_bf16(x)) {}
    __device__ __forceinline__ operator float() const { return __uint_as_float((unsigned int)u << 16); }
};
struct f16 {
    unsigned short u;
    f16() = default;
    __device__ __forceinline__ f16(float x) : u(to_f16(x)) {}
    __device__ __forceinline__ operator float() const { return from_f16(u); }
};
// What a number is computed as.
template <typename T> struct wide_of { typedef T type; };
template <> struct wide_of<bf16> { typedef float type; };
template <> struct wide_of<f16> { typedef float type; };
// Neighbours that are read and written at once.
template <typename T, int N> struct __align__(sizeof(T) * N) Pack { T v[N]; };
template <typename T> __device__ __forceinline__ T join_sum(T a, T b) { return a + b; }
template <typename T> __device__ __forceinline__ T join_prod(T a, T b) { return a * b; }
template <typename T> __device__ __forceinline__ T join_amax(T a, T b) { return (a > b || a != a) ? a : b; }
template <typename T> __device__ __forceinline__ T join_amin(T a, T b) { return (a < b || a != a) ? a : b; }
// Every thread of the block gives one value, and all get what they join to.
#define BLOCK(op) \
template <typename T> __device__ T warp_##op(T x) { \
    for (int k = 16; k > 0; k >>= 1) x = join_##op(x, __shfl_xor_sync(0xffffffff, x, k)); \
    return x; \
} \
template <typename T> __device__ T block_##op(T x) { \
    __shared__ T part[32]; \
    x = warp_##op(x); \
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5; \
    __syncthreads(); \
    if (lane == 0) part[warp] = x; \
    __syncthreads(); \
    x = part[0]; \
    for (int k = 1; k < warps; ++k) x = join_##op(x, part[k]); \
    return x; \
}
BLOCK(sum) BLOCK(prod) BLOCK(amax) BLOCK(amin)
// What adjoint/scalar/functions.py calls.
template <typename W> __device__ __forceinline__ W log1p_exp(W x) { return (x > 0 ? x : W(0)) + log1p(exp(-fabs(x))); }
__device__ __forceinline__ double normal_cdf(double x) { return 0.5 * erfc(x * -0.7071067811865476); }
__device__ __forceinline__ float normal_cdf(float x) {  // the polynomial of devices/cpu/special.py
    float z = x * x, p = z * -3.51238322e-09f;
    p = (p + 2.64527794e-07f) * z; p = (p - 7.92949804e-06f) * z; p = (p + 1.106124106e-04f) * z;
    p = (p + 6.51899664e-05f) * z; p = (p - 0.0726661692f) * z;
    return 1.0f / (exp((p - 1.595769882f) * x) + 1.0f); }
template <typename W> __device__ __forceinline__ W larger_of(W x, W y) {
    return x != x ? x : y != y ? y : x > y ? x : y; }
template <typename W> __device__ __forceinline__ W smaller_of(W x, W y) {
    return x != x ? x : y != y ? y : x < y ? x : y; }
template <typename W> __device__ __forceinline__ W remainder_of(W x, W y) {
    W m = fmod(x, y);
    return m != 0 && (y < 0) != (m < 0) ? m + y : m == 0 ? copysign(W(0), y) : m; }
template <typename W> __device__ __forceinline__ W floor_of(W x, W y) {
    if (y == 0) return x / y;
    W m = fmod(x, y), q = (x - m) / y;
    if (m != 0 && (y < 0) != (m < 0)) q -= 1;
    if (q == 0) return copysign(W(0), x / y);
    W f = floor(q);
    return q - f > W(0.5) ? f + 1 : f; }
"""


def type_name(dtype: Any) -> str:
    """Return the C type of a dtype."""
    return TYPES[dtype.name]
