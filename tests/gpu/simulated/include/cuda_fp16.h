// Half precision: read as float, computed with as float, rounded when it is written.
#pragma once
struct __half {
    unsigned short u;
    __half() = default;
    __half(float x) { _Float16 h = (_Float16)x; memcpy(&u, &h, 2); }
    operator float() const { _Float16 h; memcpy(&h, &u, 2); return (float)h; }
};
typedef __half half;
struct __half2 { __half x, y; };
typedef __half2 half2;
static inline float __half2float(__half h) { return h; }
static inline __half __float2half(float x) { return x; }
static inline __half __float2half_rn(float x) { return x; }
static inline float2 __half22float2(__half2 h) { return {h.x, h.y}; }
static inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
static inline __half2 __floats2half2_rn(float a, float b) { return {a, b}; }
