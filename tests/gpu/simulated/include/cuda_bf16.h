// bfloat16: read as float, computed with as float, rounded when it is written.
#pragma once
struct __nv_bfloat16 {
    unsigned short u;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) {
        unsigned b = __float_as_uint(x);
        u = x != x ? 0x7fc0 : (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
    }
    operator float() const { return __uint_as_float((unsigned)u << 16); }
};
struct __nv_bfloat162 { __nv_bfloat16 x, y; };
static inline float __bfloat162float(__nv_bfloat16 h) { return h; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
static inline float2 __bfloat1622float2(__nv_bfloat162 h) { return {h.x, h.y}; }
static inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {a, b}; }
