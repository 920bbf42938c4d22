"""The loss of connectionist temporal classification: a block for each sample, which goes from frame to frame."""

from __future__ import annotations

from typing import Any, Protocol

import cupy
import numpy as np

from ..._typing import Array
from .launching import Kernels, dense, empty
from .table import override

_LONGEST = 2048  # places of a sample's labels, blanks included, that fit into shared memory
_THREADS = 256


class Labels(Protocol):
    """What `ops/ctc.py` knows of the labels of a batch."""

    places: np.ndarray[Any, Any]
    skips: np.ndarray[Any, Any]
    lengths: np.ndarray[Any, Any]
    frames: np.ndarray[Any, Any]


# What `ops/ctc.py` says: alpha is the logarithm of the probability of all ways to have come to a place by a frame, beta
# of all ways to go on from it.
_KERNELS = Kernels(
    r"""
typedef wide_of<T>::type W;
#define NEVER ((W)-1e30)
#define LONGEST 2048
__device__ __forceinline__ W either(W a, W b) {
    W d = a > b ? b - a : a - b;
    return (a > b ? a : b) + log1p_exp(d);
}
__device__ __forceinline__ W emission(const T* x, i64 frame, i64 samples, i64 sample, i64 classes, int label) {
    W e = (W)x[(frame * samples + sample) * classes + label];
    return e < NEVER ? NEVER : e;
}
// Alphas of all frames; those of a sample are in `alphas` one frame after another, if there is such. Returns the loss.
__device__ W forward(const T* x, const int* places, const int* skips, int last, int length, i64 frames, i64 count,
                     i64 samples, i64 sample, i64 classes, int size, W* before, W* here, W* alphas) {
    for (i64 t = 0; t < count; ++t) {
        for (int s = threadIdx.x; s < size; s += blockDim.x) {
            W e = emission(x, t, samples, sample, classes, places[s]), a;
            if (t == 0) a = s < 2 && s <= last ? e : NEVER;
            else if (frames <= t) a = before[s];
            else if (s > last) a = NEVER;
            else a = either(either(before[s], s > 0 ? before[s - 1] : NEVER), skips[s] ? before[s - 2] : NEVER) + e;
            here[s] = a;
            if (alphas) alphas[t * size + s] = a;
        }
        __syncthreads();
        W* swap = before; before = here; here = swap;
    }
    W total = either(before[last], last > 0 ? before[last - 1] : NEVER);
    __syncthreads();
    if (frames == 0) return length == 0 ? (W)0 : (W)INFINITY;
    return total < (W)0.1 * NEVER ? (W)INFINITY : -total;
}
#define SAMPLE \
    __shared__ W one[LONGEST], two[LONGEST]; \
    const i64 sample = blockIdx.x, samples = gridDim.x; \
    const int* places = labels + sample * size; \
    const int* skips = labels + (samples + sample) * size; \
    const int* sizes = labels + 2 * samples * size; \
    const int length = sizes[sample], frames = sizes[samples + sample], last = 2 * length;
extern "C" __global__ void losses(const T* x, const int* labels, T* out, i64 count, i64 classes, i64 size,
                                  i64 zero_infinity) {
    SAMPLE
    W loss = forward(x, places, skips, last, length, frames, count, samples, sample, classes, size, one, two, 0);
    if (threadIdx.x == 0) out[sample] = (T)(zero_infinity && isinf(loss) ? (W)0 : loss);
}
extern "C" __global__ void gradient(const T* x, const int* labels, const T* g, T* out, W* scratch, i64 count,
                                    i64 classes, i64 size, i64 zero_infinity) {
    SAMPLE
    W* alphas = scratch + sample * count * size;
    const W loss = forward(x, places, skips, last, length, frames, count, samples, sample, classes, size, one, two,
                           alphas);
    const W known = isinf(loss) ? (W)0 : loss, by = (W)g[sample];
    W *before = one, *came = two;
    for (i64 t = count - 1; t >= 0; --t) {
        T* row = out + (t * samples + sample) * classes;
        const T* given = x + (t * samples + sample) * classes;
        const W nothing = t >= frames || zero_infinity ? (W)0 : (W)NAN;  // where no alignment fits
        for (i64 c = threadIdx.x; c < classes; c += blockDim.x)
            row[c] = (T)(t >= frames || isinf(loss) ? nothing : exp((W)given[c]) * by);
        if (t >= frames) continue;
        for (int s = threadIdx.x; s < size; s += blockDim.x)
            came[s] = t + 1 < frames ? before[s] + emission(x, t + 1, samples, sample, classes, places[s]) : NEVER;
        __syncthreads();
        for (int s = threadIdx.x; s < size; s += blockDim.x) {
            W b = NEVER;
            if (t + 1 == frames) b = s == last || (s == last - 1 && last > 0) ? (W)0 : NEVER;
            else if (s <= last) {
                b = either(came[s], s + 1 < size ? came[s + 1] : NEVER);
                b = either(b, s + 2 < size && skips[s + 2] ? came[s + 2] : NEVER);
            }
            before[s] = b;
        }
        __syncthreads();
        for (int s = threadIdx.x; s < size; s += blockDim.x) came[s] = exp(alphas[t * size + s] + before[s] + known);
        __syncthreads();
        if (!isinf(loss)) for (int s = threadIdx.x; s < size; s += blockDim.x) {
            // The first place of a label adds up the shares of all its places, in their order.
            const int label = places[s];
            bool first = true;
            for (int k = s & 1; k < s && first; k += (s & 1) ? 2 : s) first = places[k] != label;
            if (s > 0 && label == places[0]) first = false;
            if (!first) continue;
            W sum = 0;
            for (int k = s; k < size; ++k) if (places[k] == label) sum += came[k];
            row[label] = (T)((exp((W)given[label]) - sum) * by);
        }
        __syncthreads();
    }
}
""",
    "T",
)


def _fits(x: Array, labels: Labels, *rest: object) -> bool:
    """Return whether a kernel computes a loss: of floats on a GPU, and labels that are not too long for it."""
    return x.dtype.char in "fd" and x.size > 0 and labels.places.shape[1] <= _LONGEST


def _on_device(labels: Labels) -> Any:
    """Return places, skips, lengths and numbers of frames in one array on the device."""
    parts = (labels.places, labels.skips, labels.lengths, labels.frames)
    return cupy.asarray(np.concatenate([np.asarray(p, np.int32).ravel() for p in parts]))


@override("ctc_loss", when=_fits)
def ctc_loss(x: Array, labels: Labels, zero_infinity: bool) -> Array:
    """Return the loss of each sample."""
    x, (frames, count, classes) = dense(x), x.shape
    out = empty((count,), x.dtype)
    args = (x, _on_device(labels), out, frames, classes, labels.places.shape[1], int(zero_infinity))
    _KERNELS.launch("losses", (x.dtype.char,), count, _THREADS, args)
    return out  # type: ignore[no-any-return]


@override("ctc_loss", gradient="x", when=lambda g, x, *rest: g.dtype == x.dtype and _fits(x, *rest))
def ctc_loss_backward(g: Array, x: Array, labels: Labels, zero_infinity: bool) -> Array:
    """Return the gradient of log-probabilities that stay normalized."""
    x, (frames, count, classes) = dense(x), x.shape
    size = labels.places.shape[1]
    out, scratch = empty(x.shape, x.dtype), empty((count, frames, size), x.dtype)
    args = (x, _on_device(labels), dense(g), out, scratch, frames, classes, size, int(zero_infinity))
    _KERNELS.launch("gradient", (x.dtype.char,), count, _THREADS, args)
    return out  # type: ignore[no-any-return]
