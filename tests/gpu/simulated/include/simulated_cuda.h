// CUDA's language as plain C++: the threads of a block are fibers of one host thread, which take turns at barriers.
#pragma once
// C's headers only: those of C++ would take most of the time that a kernel takes to compile.
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#undef isnan
#undef isinf
#undef isfinite
#undef signbit

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __maxnreg__(...)
#define assert(x) ((x) ? (void)0 : __simulated_fail("assert(" #x ")"))

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;
static char __simulated_dynamic[1 << 18] __attribute__((aligned(1024)));
static char __simulated_error[256];

namespace simulated {

// --- fibers -----------------------------------------------------------------------------------------

enum { RUNNING, AT_BLOCK, AT_WARP, DONE };
struct Fiber {
    void* stack = nullptr;
#if defined(__x86_64__)
    void* sp;
#else
    ucontext_t context;
#endif
    uint3 index;
    int state;
    unsigned mask;  // lanes it waits for
};
static const size_t STACK = 128 << 10;
static Fiber fibers[1024];
static int count, current, alive, at_block, votes[3], results[3];
static char lanes[1024][16];  // what each thread shows to its warp
static void (*body)();
#if defined(__x86_64__)
static void* scheduler;
extern "C" void __simulated_switch(void** from, void* to);
asm(".text\n.local __simulated_switch\n__simulated_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
static void leave() { __simulated_switch(&fibers[current].sp, scheduler); }
static void enter(Fiber& f) { __simulated_switch(&scheduler, f.sp); }
#else
static ucontext_t scheduler;
static void leave() { swapcontext(&fibers[current].context, &scheduler); }
static void enter(Fiber& f) { swapcontext(&scheduler, &f.context); }
#endif

__attribute__((noinline)) static void yield() {
    int me = current;
    leave();
    current = me;
    threadIdx = fibers[me].index;
}

static void finish() {
    body();
    fibers[current].state = DONE;
    --alive;
    for (;;) leave();
}

static void prepare(Fiber& f) {
    if (!f.stack) f.stack = malloc(STACK);
#if defined(__x86_64__)
    void** top = (void**)((char*)f.stack + STACK);
    *--top = nullptr;  // where finish() would return to: the stack is aligned as after a call
    *--top = (void*)finish;
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    f.sp = top;
#else
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = STACK;
    makecontext(&f.context, finish, 0);
#endif
    f.state = RUNNING;
}

// The two barriers are not inlined: that their names are in a library says that its kernels need fibers.
// A warp is released when each lane of the mask that is still alive waits with the same mask.
static bool release_warp(int me) {
    int first = me & ~31;
    unsigned mask = fibers[me].mask;
    for (int i = 0; i < 32 && first + i < count; ++i) {
        Fiber& f = fibers[first + i];
        if (mask >> i & 1 && f.state != DONE && !(f.state == AT_WARP && f.mask == mask)) return false;
    }
    for (int i = 0; i < 32 && first + i < count; ++i)
        if (mask >> i & 1 && fibers[first + i].state != DONE) fibers[first + i].state = RUNNING;
    return true;
}

__attribute__((noinline)) static void warp_barrier(unsigned mask) {
    Fiber& f = fibers[current];
    if (!(mask >> (current & 31) & 1)) {
        snprintf(__simulated_error, sizeof __simulated_error, "thread %d is not in its own mask %08x", current, mask);
        return;
    }
    f.state = AT_WARP;
    f.mask = mask;
    if (!release_warp(current)) while (fibers[current].state != RUNNING) yield();
}

__attribute__((noinline)) static void block_barrier() {
    fibers[current].state = AT_BLOCK;
    ++at_block;
    while (fibers[current].state != RUNNING) yield();
}

static void run_block() {
    alive = count;
    at_block = 0;
    for (int i = 0; i < count; ++i) prepare(fibers[i]);
    while (alive) {
        bool moved = false;
        for (int i = 0; i < count; ++i) {
            Fiber& f = fibers[i];
            if (f.state == AT_WARP) release_warp(i);
            if (f.state != RUNNING) continue;
            moved = true;
            current = i;
            threadIdx = f.index;
            enter(f);
        }
        if (alive && at_block == alive) {
            at_block = 0;
            for (int k = 0; k < 3; ++k) results[k] = votes[k], votes[k] = k == 1;
            for (int i = 0; i < count; ++i) if (fibers[i].state == AT_BLOCK) fibers[i].state = RUNNING;
        } else if (!moved) {
            snprintf(__simulated_error, sizeof __simulated_error,
                     "deadlock: %d of %d threads wait at __syncthreads, the others at a warp's barrier", at_block, alive);
            return;
        }
    }
}

template <size_t... I> struct Places {};
template <size_t N, size_t... I> struct Count : Count<N - 1, N - 1, I...> {};
template <size_t... I> struct Count<0, I...> { typedef Places<I...> type; };
template <typename T> struct Plain { typedef T type; };
template <typename T> struct Plain<const T> { typedef T type; };
template <typename T> struct Plain<T&> : Plain<T> {};

static void** arguments;
template <typename... P, size_t... I> void unpack(void (*f)(P...), Places<I...>) {
    f(*(typename Plain<P>::type*)arguments[I]...);
}

// With -ftz=true denormal floats are zeros.
struct Denormals {
#if defined(SIMULATED_FLUSHES) && defined(__x86_64__)
    unsigned before = __builtin_ia32_stmxcsr();
    Denormals() { __builtin_ia32_ldmxcsr(before | 0x8040); }
    ~Denormals() { __builtin_ia32_ldmxcsr(before); }
#else
    Denormals() {}
#endif
};

// Returns null, or what went wrong.
template <typename... P>
const char* launch(void (*f)(P...), bool barriers, const unsigned* grid, const unsigned* block, void** given, int n) {
    static void (*kernel)(P...);
    kernel = f;
    if (n != (int)sizeof...(P)) {
        snprintf(__simulated_error, sizeof __simulated_error, "the kernel has %d parameters, and was given %d",
                 (int)sizeof...(P), n);
        return __simulated_error;
    }
    arguments = given;
    __simulated_error[0] = 0;
    body = [] { unpack(kernel, typename Count<sizeof...(P)>::type{}); };
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    count = block[0] * block[1] * block[2];
    votes[0] = votes[2] = 0, votes[1] = 1;
    for (int i = 0; i < count; ++i)
        fibers[i].index = {i % block[0], i / block[0] % block[1], i / (block[0] * block[1])};
    for (unsigned z = 0; z < grid[2]; ++z) for (unsigned y = 0; y < grid[1]; ++y) for (unsigned x = 0; x < grid[0]; ++x) {
        blockIdx = {x, y, z};
        Denormals mode;
        if (barriers) run_block();
        else for (current = 0; current < count; ++current) { threadIdx = fibers[current].index; body(); }
        if (__simulated_error[0]) return __simulated_error;
    }
    return nullptr;
}

template <typename T> T shuffle(unsigned mask, T value, int source) {
    static_assert(sizeof(T) <= 16, "a shuffle moves at most 16 bytes");
    memcpy(lanes[current], &value, sizeof(T));
    warp_barrier(mask);
    T found;
    int at = (current & ~31) + (source & 31);
    memcpy(&found, lanes[at < count ? at : current], sizeof(T));
    warp_barrier(mask);
    return found;
}
template <typename T, typename F> auto gather(unsigned mask, T value, F join) {
    memcpy(lanes[current], &value, sizeof(T));
    warp_barrier(mask);
    int first = current & ~31;
    auto found = join(first);
    warp_barrier(mask);
    return found;
}
}  // namespace simulated

static void __simulated_fail(const char* what) { snprintf(__simulated_error, sizeof __simulated_error, "%s", what); }

// --- barriers, shuffles and votes -------------------------------------------------------------------

static inline void __syncthreads() { simulated::block_barrier(); }
static inline int __syncthreads_count(int p) { simulated::votes[0] += !!p; simulated::block_barrier(); return simulated::results[0]; }
static inline int __syncthreads_and(int p) { simulated::votes[1] &= !!p; simulated::block_barrier(); return simulated::results[1]; }
static inline int __syncthreads_or(int p) { simulated::votes[2] |= !!p; simulated::block_barrier(); return simulated::results[2]; }
static inline void __syncwarp(unsigned mask = 0xffffffff) { simulated::warp_barrier(mask); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) {}
static inline unsigned __activemask() {
    unsigned m = 0;
    for (int i = 0, first = simulated::current & ~31; i < 32 && first + i < simulated::count; ++i)
        if (simulated::fibers[first + i].state != simulated::DONE) m |= 1u << i;
    return m;
}
template <typename T> T __shfl_sync(unsigned m, T v, int s, int w = 32) {
    int lane = simulated::current & 31; return simulated::shuffle(m, v, (lane & ~(w - 1)) + (s & (w - 1))); }
template <typename T> T __shfl_xor_sync(unsigned m, T v, int k, int w = 32) {
    int lane = simulated::current & 31, s = lane ^ k; return simulated::shuffle(m, v, s < (lane & ~(w - 1)) + w ? s : lane); }
template <typename T> T __shfl_down_sync(unsigned m, T v, unsigned k, int w = 32) {
    int lane = simulated::current & 31, s = lane + k; return simulated::shuffle(m, v, s < (lane & ~(w - 1)) + w ? s : lane); }
template <typename T> T __shfl_up_sync(unsigned m, T v, unsigned k, int w = 32) {
    int lane = simulated::current & 31, s = lane - (int)k; return simulated::shuffle(m, v, s >= (lane & ~(w - 1)) ? s : lane); }
static inline unsigned __ballot_sync(unsigned m, int p) {
    return simulated::gather(m, p, [=](int first) { unsigned r = 0; for (int i = 0; i < 32 && first + i < simulated::count; ++i)
        if (m >> i & 1) { int q; memcpy(&q, simulated::lanes[first + i], 4); r |= (unsigned)!!q << i; } return r; }); }
static inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
static inline int __all_sync(unsigned m, int p) { return !__ballot_sync(m, !p); }
template <typename T> unsigned __match_any_sync(unsigned m, T v) {
    return simulated::gather(m, v, [=](int first) { unsigned r = 0; for (int i = 0; i < 32 && first + i < simulated::count; ++i)
        if (m >> i & 1 && !memcmp(&v, simulated::lanes[first + i], sizeof(T))) r |= 1u << i; return r; }); }
#define __SIMULATED_REDUCE(name, start, step) \
template <typename T> T name(unsigned m, T v) { return simulated::gather(m, v, [=](int first) { T r = start, q; \
    for (int i = 0; i < 32 && first + i < simulated::count; ++i) if (m >> i & 1) { \
        memcpy(&q, simulated::lanes[first + i], sizeof(T)); step; } return r; }); }
__SIMULATED_REDUCE(__reduce_add_sync, 0, r += q)
__SIMULATED_REDUCE(__reduce_max_sync, v, r = q > r ? q : r)
__SIMULATED_REDUCE(__reduce_min_sync, v, r = q < r ? q : r)
__SIMULATED_REDUCE(__reduce_or_sync, 0, r |= q)
__SIMULATED_REDUCE(__reduce_and_sync, v, r &= q)

// --- atomics: one host thread, so that plain writes will do -----------------------------------------

#define __SIMULATED_ATOMIC(name, expression) \
template <typename T, typename U> T name(T* p, U u) { T v = (T)u, old = *p; *p = (T)(expression); return old; } \
template <typename T, typename U> T name##_block(T* p, U u) { return name(p, u); }
__SIMULATED_ATOMIC(atomicAdd, old + v)
__SIMULATED_ATOMIC(atomicSub, old - v)
__SIMULATED_ATOMIC(atomicExch, v)
__SIMULATED_ATOMIC(atomicMax, v > old ? v : old)
__SIMULATED_ATOMIC(atomicMin, v < old ? v : old)
__SIMULATED_ATOMIC(atomicAnd, old & v)
__SIMULATED_ATOMIC(atomicOr, old | v)
__SIMULATED_ATOMIC(atomicXor, old ^ v)
__SIMULATED_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
template <typename T, typename U, typename V> T atomicCAS(T* p, U expected, V v) {
    T old = *p; if (old == (T)expected) *p = (T)v; return old; }

// --- numbers ----------------------------------------------------------------------------------------

template <typename T> T __ldg(const T* p) { return *p; }
template <typename T> T __ldcs(const T* p) { return *p; }
template <typename T> T __ldcg(const T* p) { return *p; }
template <typename T> void __stcs(T* p, T v) { *p = v; }
template <typename T> void __stcg(T* p, T v) { *p = v; }
template <typename To, typename From> static inline To __simulated_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
static inline unsigned __float_as_uint(float x) { return __simulated_bits<unsigned>(x); }
static inline int __float_as_int(float x) { return __simulated_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return __simulated_bits<float>(x); }
static inline float __int_as_float(int x) { return __simulated_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return __simulated_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return __simulated_bits<double>(x); }
#define __expf expf
#define __exp2f exp2f
#define __logf logf
#define __log2f log2f
#define __sinf sinf
#define __cosf cosf
#define __powf powf
#define __log10f log10f
#define __tanf tanf
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fadd_rn(float x, float y) { volatile float r = x + y; return r; }
static inline float __fmul_rn(float x, float y) { volatile float r = x * y; return r; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __dadd_rn(double x, double y) { volatile double r = x + y; return r; }
static inline double __dmul_rn(double x, double y) { volatile double r = x * y; return r; }
static inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678f); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.7071067811865476); }
static inline float sinpif(float x) { return sinf(x * 3.14159265358979323846f); }
static inline double sinpi(double x) { return sin(x * 3.14159265358979323846); }
static inline float cospif(float x) { return cosf(x * 3.14159265358979323846f); }
static inline double cospi(double x) { return cos(x * 3.14159265358979323846); }
static inline float erfcxf(float x) { return expf(x * x) * erfcf(x); }
static inline double erfcx(double x) { return exp(x * x) * erfc(x); }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline long long __float2ll_rn(float x) { return (long long)rintf(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) { unsigned r = 0; for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i); return r; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    unsigned long long both = (unsigned long long)y << 32 | x; unsigned r = 0;
    for (int i = 0; i < 4; ++i) r |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
    return r; }
static inline long long clock64() { return 0; }
static inline void __trap() { __simulated_fail("__trap()"); }

#define __SIMULATED_MIN_MAX(T) \
static inline T min(T a, T b) { return a < b ? a : b; } static inline T max(T a, T b) { return a > b ? a : b; }
__SIMULATED_MIN_MAX(int) __SIMULATED_MIN_MAX(unsigned) __SIMULATED_MIN_MAX(long) __SIMULATED_MIN_MAX(unsigned long)
__SIMULATED_MIN_MAX(long long) __SIMULATED_MIN_MAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
template <typename A, typename B> auto min(A a, B b) { return true ? (b < a ? b : a) : a; }
template <typename A, typename B> auto max(A a, B b) { return true ? (a < b ? b : a) : a; }
#define __SIMULATED_TEST(name) \
static inline bool name(float x) { return __builtin_##name(x); } static inline bool name(double x) { return __builtin_##name(x); }
__SIMULATED_TEST(isnan) __SIMULATED_TEST(isinf) __SIMULATED_TEST(isfinite) __SIMULATED_TEST(signbit)
#define __SIMULATED_ONE(name) static inline float name(float x) { return __builtin_##name##f(x); }
__SIMULATED_ONE(exp) __SIMULATED_ONE(log) __SIMULATED_ONE(sqrt) __SIMULATED_ONE(tanh) __SIMULATED_ONE(fabs)
__SIMULATED_ONE(floor) __SIMULATED_ONE(ceil) __SIMULATED_ONE(sin) __SIMULATED_ONE(cos) __SIMULATED_ONE(tan)
__SIMULATED_ONE(exp2) __SIMULATED_ONE(log2) __SIMULATED_ONE(log10) __SIMULATED_ONE(log1p) __SIMULATED_ONE(expm1)
__SIMULATED_ONE(erf) __SIMULATED_ONE(erfc) __SIMULATED_ONE(trunc) __SIMULATED_ONE(rint) __SIMULATED_ONE(round)
__SIMULATED_ONE(atan) __SIMULATED_ONE(asin) __SIMULATED_ONE(acos) __SIMULATED_ONE(sinh) __SIMULATED_ONE(cosh)
__SIMULATED_ONE(asinh) __SIMULATED_ONE(acosh) __SIMULATED_ONE(atanh) __SIMULATED_ONE(lgamma) __SIMULATED_ONE(tgamma)
__SIMULATED_ONE(cbrt) __SIMULATED_ONE(nearbyint)
#define __SIMULATED_TWO(name) static inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
static inline double name(float x, double y) { return __builtin_##name(x, y); } \
static inline double name(double x, float y) { return __builtin_##name(x, y); }
__SIMULATED_TWO(pow) __SIMULATED_TWO(atan2) __SIMULATED_TWO(fmod) __SIMULATED_TWO(remainder) __SIMULATED_TWO(hypot)
__SIMULATED_TWO(fmax) __SIMULATED_TWO(fmin) __SIMULATED_TWO(copysign) __SIMULATED_TWO(nextafter) __SIMULATED_TWO(fdim)
static inline float pow(float x, int n) { return __builtin_powf(x, (float)n); }
static inline double pow(double x, int n) { return __builtin_pow(x, (double)n); }
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }
static inline float frexp(float x, int* n) { return __builtin_frexpf(x, n); }
static inline float modf(float x, float* whole) { return __builtin_modff(x, whole); }
static inline float abs(float x) { return __builtin_fabsf(x); }
static inline double abs(double x) { return __builtin_fabs(x); }
static inline long abs(long x) { return x < 0 ? -x : x; }
static inline long long abs(long long x) { return x < 0 ? -x : x; }

#define __SIMULATED_VECTORS(T, N) \
struct __attribute__((aligned(2 * sizeof(T)))) N##2 { T x, y; }; struct N##3 { T x, y, z; }; \
struct __attribute__((aligned(sizeof(T) < 8 ? 4 * sizeof(T) : 16))) N##4 { T x, y, z, w; }; \
static inline N##2 make_##N##2(T x, T y) { return {x, y}; } \
static inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; } \
static inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
__SIMULATED_VECTORS(float, float) __SIMULATED_VECTORS(double, double) __SIMULATED_VECTORS(int, int)
__SIMULATED_VECTORS(unsigned short, ushort) __SIMULATED_VECTORS(short, short) __SIMULATED_VECTORS(char, char)
__SIMULATED_VECTORS(unsigned char, uchar) __SIMULATED_VECTORS(long long, longlong)
struct __attribute__((aligned(8))) uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
