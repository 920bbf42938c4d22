"""What row-wise kernels share: how a block walks over a row, and finds a maximum with the exponentials below it."""

from __future__ import annotations

__all__ = ["LEVEL", "WALK", "shape_of_blocks"]

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

# The maximum of elements, and the sum of the exponentials of what they are less than that, found in one loop.
LEVEL = r"""
struct Level { W top, sum; };
template <int N> __device__ __forceinline__ void add(Level& s, const W* v) {
    W top = v[0];
    #pragma unroll
    for (int j = 1; j < N; ++j) top = v[j] > top ? v[j] : top;
    if (top > s.top) { s.sum *= power(s.top - top); s.top = top; }
    W level = s.top > -INFINITE ? s.top : W(0);
    #pragma unroll
    for (int j = 0; j < N; ++j) s.sum += power(v[j] - level);
}
__device__ __forceinline__ Level join(Level a, Level b) {
    W top = a.top > b.top ? a.top : b.top;
    return Level{top, (a.top == top ? a.sum : a.sum * power(a.top - top)) + (b.top == top ?
            b.sum : b.sum * power(b.top - top))};
}
__device__ __forceinline__ Level warp_level(Level s) {
    for (int k = 16; k > 0; k >>= 1) s = join(s, Level{__shfl_xor_sync(0xffffffff, s.top, k),
            __shfl_xor_sync(0xffffffff, s.sum, k)});
    return s;
}
__device__ Level block_level(Level s) {
    __shared__ Level part[32];
    int lane = threadIdx.x & 31, warps = (blockDim.x + 31) >> 5;
    s = warp_level(s);
    if (warps == 1) return s;
    __syncthreads();
    if (lane == 0) part[threadIdx.x >> 5] = s;
    __syncthreads();
    return warp_level(lane < warps ? part[lane] : Level{-INFINITE, 0});
}
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
