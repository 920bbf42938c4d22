"""oneDNN through ctypes: cached primitives that read and write NumPy's memory.

The library is the wheel ``onednn-cpu-gomp``'s or the system's ``libdnnl.so.3``; it is loaded when first
needed. `Plan` is one of its primitives for given shapes and layouts, with the reorders into the layouts
that the primitive prefers; plans are stored in bounded caches and called with arrays. After a fork the child does
without, because OpenMP's threads do not survive a fork.

Names and numbers are those of oneDNN's C interface, version 3.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from ctypes import Structure, byref, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from ..._typing import Array
from .. import forks
from .memory import place_of

Ints = tuple[int, ...]

# --- The C interface --------------------------------------------------------------------------------

_TRAINING = 64
_CONVOLUTION_DIRECT, _POOLING_MAX = 1, 0x1FF
_DTYPES = {"float32": 3}
_EXEC_ARG_MD, _SCRATCHPAD_MD = 255, 136  # queries for the layout of an argument, and of working memory
_FORMAT_ANY = 1

# Arguments of primitives.
SRC, DST, WEIGHTS, BIAS = 1, 17, 33, 41
WORKSPACE, SCRATCHPAD = 64, 80
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 129, 145, 161

_LETTERS = {"p": c_void_p, "i": c_int, "f": c_float, "u": c_uint}
_FUNCTIONS = {  # the types of arguments
    "engine_create": "pip",
    "stream_create": "ppu",
    "memory_desc_create_with_strides": "pipip",
    "memory_desc_create_with_tag": "pipii",
    "memory_desc_equal": "pp",
    "memory_desc_destroy": "p",
    "memory_create": "pppp",
    "memory_set_data_handle": "pp",
    "memory_destroy": "p",
    "primitive_attr_create": "p",
    "primitive_attr_set_scratchpad_mode": "pi",
    "primitive_create": "pp",
    "primitive_destroy": "p",
    "primitive_desc_destroy": "p",
    "primitive_execute": "ppip",
    "reorder_primitive_desc_create": "pppppp",
    "matmul_primitive_desc_create": "ppppppp",
    "convolution_forward_primitive_desc_create": "ppiippppppppp",
    "convolution_backward_data_primitive_desc_create": "ppippppppppp",
    "convolution_backward_weights_primitive_desc_create": "ppipppppppppp",
    "pooling_forward_primitive_desc_create": "ppiipppppppp",
    "pooling_backward_primitive_desc_create": "ppippppppppp",
}


class _Argument(Structure):
    _fields_ = [("number", c_int), ("memory", c_void_p)]


class Unsupported(Exception):
    """oneDNN has no such primitive."""


class Library:
    """The loaded library with its engine and stream."""

    def __init__(self, path: str) -> None:
        # Threads that wait for work by spinning would take the cores from NumPy's.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        self.dll = ctypes.CDLL(path)
        for name, letters in _FUNCTIONS.items():
            getattr(self.dll, f"dnnl_{name}").argtypes = [_LETTERS[c] for c in letters]
        self.dll.dnnl_primitive_desc_query_md.argtypes = [c_void_p, c_int, c_int]
        self.dll.dnnl_primitive_desc_query_md.restype = c_void_p
        self.dll.dnnl_memory_desc_get_size.argtypes = [c_void_p]
        self.dll.dnnl_memory_desc_get_size.restype = c_size_t
        self.engine = self.made("engine_create", 1, 0)
        self.stream = self.made("stream_create", self.engine, 1)
        self.attributes = self.made("primitive_attr_create")
        self.call("primitive_attr_set_scratchpad_mode", self.attributes, 1)  # we give it memory

    def call(self, name: str, *args: object) -> None:
        """Call a function; raise if it does not succeed."""
        status = getattr(self.dll, f"dnnl_{name}")(*args)
        if status:
            raise Unsupported(f"dnnl_{name} answered {status}")

    def made(self, name: str, *args: object) -> c_void_p:
        """Return the handle that a function leaves in its first argument."""
        handle = c_void_p()
        self.call(name, byref(handle), *args)
        return handle


def _candidates() -> list[str]:
    places = [Path(sys.prefix, "lib"), *(Path(p).parent.parent for p in sys.path if p.endswith("site-packages"))]
    return [*(str(p / "libdnnl.so.3") for p in dict.fromkeys(places) if (p / "libdnnl.so.3").exists()), "libdnnl.so.3"]


_opening = forks.lock()


def library() -> Library | None:
    """Return the library, or None where there is none."""
    with _opening:  # threads that come at once must find one: memory of one engine is refused by another's stream
        return _opened()


@functools.cache
def _opened() -> Library | None:
    for path in _candidates():
        try:
            return Library(path)
        except (OSError, AttributeError, Unsupported):
            continue
    return None


def address_of(name: str) -> int:
    """Return where a function of the library is, for machine code to call."""
    return ctypes.cast(getattr(_loaded().dll, f"dnnl_{name}"), c_void_p).value or 0


def _loaded() -> Library:
    found = library()
    assert found is not None
    return found


# --- Memory -----------------------------------------------------------------------------------------


def _dims(values: Sequence[int]) -> ctypes.Array[c_int64]:
    return (c_int64 * 12)(*values)


class Layout:
    """The shape and strides of an argument, or its shape alone where oneDNN may choose."""

    __slots__ = ("dll", "handle", "shape")

    def __init__(self, shape: Ints, strides: Ints | None = None, dtype: str = "float32") -> None:
        self.shape, self.dll = shape, _loaded().dll
        if strides is None:
            self.handle = _loaded().made(
                "memory_desc_create_with_tag", len(shape), _dims(shape), _DTYPES[dtype], _FORMAT_ANY
            )
        else:
            self.handle = _loaded().made(
                "memory_desc_create_with_strides", len(shape), _dims(shape), _DTYPES[dtype], _dims(strides)
            )

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.dll.dnnl_memory_desc_destroy(self.handle)


def strides_of(shape: Ints) -> Ints:
    """Return the strides, in elements, of an array in C order."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


def rows(shape: Ints) -> Layout:
    """Return the layout of an array in C order."""
    return Layout(shape, strides_of(shape))


class _Arena(threading.local):
    """Memory of each thread for what a primitive needs only while it runs."""

    memory: Any = np.empty(0, np.uint8)

    def address(self, size: int) -> int:
        if size > self.memory.size:
            self.memory = np.empty(size + 64, np.uint8)
        return int(self.memory.ctypes.data + 63) & ~63


_arena = _Arena()


class Plan:
    """A primitive with its memories: call it with one array per argument, in the order they were given.

    `layouts` gives the memory layouts of the caller's arrays; where oneDNN chose another one, data is reordered through
    memory of the arena.
    """

    def __init__(self, descriptor: c_void_p, layouts: dict[int, Layout], outputs: Ints) -> None:
        library = _loaded()
        self.lock, self.dll, self.stream = forks.lock(), library.dll, library.stream
        self.primitive = library.made("primitive_create", descriptor)
        self.memories: list[c_void_p] = []  # the caller's
        self.places: list[int] = []  # where their data was last time
        self.inner: list[tuple[c_void_p, int]] = []  # of the arena, with offsets
        self.before: list[tuple[c_void_p, Any]] = []
        self.after: list[tuple[c_void_p, Any]] = []
        self.size = 0
        arguments = []
        for number, layout in layouts.items():
            mine = self._memory(layout.handle)
            self.memories.append(mine)
            wanted = library.dll.dnnl_primitive_desc_query_md(descriptor, _EXEC_ARG_MD, number)
            if not wanted or library.dll.dnnl_memory_desc_equal(layout.handle, wanted):
                arguments.append((number, mine))
                continue
            theirs = self._scratch(wanted)
            arguments.append((number, theirs))
            if number in outputs:
                self.after.append(self._reorder(wanted, layout.handle, theirs, mine))
            else:
                self.before.append(self._reorder(layout.handle, wanted, mine, theirs))
        scratchpad = library.dll.dnnl_primitive_desc_query_md(descriptor, _SCRATCHPAD_MD, 0)
        if scratchpad and library.dll.dnnl_memory_desc_get_size(scratchpad):
            arguments.append((SCRATCHPAD, self._scratch(scratchpad)))
        # What the forward call hands to the backward call is the caller's.
        self.workspace = library.dll.dnnl_primitive_desc_query_md(descriptor, _EXEC_ARG_MD, WORKSPACE)
        if self.workspace and library.dll.dnnl_memory_desc_get_size(self.workspace):
            memory = self._memory(self.workspace)
            self.memories.append(memory)
            arguments.append((WORKSPACE, memory))
        self.count, self.places = len(arguments), [0] * len(self.memories)
        self.arguments = _packed(arguments)
        self.descriptor = descriptor

    def _memory(self, layout: Any) -> c_void_p:
        return _loaded().made("memory_create", layout, _loaded().engine, None)

    def _scratch(self, layout: Any) -> c_void_p:
        memory = self._memory(layout)
        self.inner.append((memory, self.size))
        self.size += -(-_loaded().dll.dnnl_memory_desc_get_size(layout) // 64) * 64
        return memory

    def _reorder(self, source: Any, target: Any, read: c_void_p, written: c_void_p) -> tuple[c_void_p, Any]:
        library = _loaded()
        descriptor = library.made(
            "reorder_primitive_desc_create", source, library.engine, target, library.engine, library.attributes
        )
        try:
            arguments = [(SRC, read), (DST, written)]
            scratchpad = library.dll.dnnl_primitive_desc_query_md(descriptor, _SCRATCHPAD_MD, 0)
            if scratchpad and library.dll.dnnl_memory_desc_get_size(scratchpad):
                arguments.append((SCRATCHPAD, self._scratch(scratchpad)))
            return library.made("primitive_create", descriptor), _packed(arguments)
        finally:
            library.dll.dnnl_primitive_desc_destroy(descriptor)

    def __call__(self, *arrays: Array) -> None:
        """Run the primitive on arrays in these layouts."""
        dll, stream, places = self.dll, self.stream, self.places
        point, execute = dll.dnnl_memory_set_data_handle, dll.dnnl_primitive_execute
        with self.lock:
            for i, array in enumerate(arrays):
                place = place_of(array)
                if place != places[i]:
                    places[i] = place
                    point(self.memories[i], place)
            if self.inner:
                base = _arena.address(self.size)
                for memory, offset in self.inner:
                    point(memory, base + offset)
            for primitive, arguments in self.before:
                execute(primitive, stream, len(arguments), arguments)
            status = execute(self.primitive, stream, self.count, self.arguments)
            for primitive, arguments in self.after:
                execute(primitive, stream, len(arguments), arguments)
        if status:
            raise RuntimeError(f"oneDNN failed to run a primitive: it answered {status}")

    def __del__(self) -> None:
        if not hasattr(self, "descriptor"):  # it was never finished
            return
        dll = self.dll
        for memory in (*self.memories, *(m for m, _ in self.inner)):
            dll.dnnl_memory_destroy(memory)
        for primitive in (self.primitive, *(p for p, _ in (*self.before, *self.after))):
            dll.dnnl_primitive_destroy(primitive)
        dll.dnnl_primitive_desc_destroy(self.descriptor)


def _packed(arguments: list[tuple[int, c_void_p]]) -> Any:
    return (_Argument * len(arguments))(*[_Argument(n, m) for n, m in arguments])


# --- Plans ------------------------------------------------------------------------------------------


_makers: list[Any] = []


def limit(count: int) -> None:
    """Let primitives use so many threads; the cached ones, made for another number, are discarded."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(count)
    for maker in _makers:
        maker.cache_clear()


def _planned(make: Callable[..., Plan | None]) -> Callable[..., Plan | None]:
    """Return a maker of plans that remembers the last ones it made, and None for what oneDNN has not."""

    @functools.lru_cache(maxsize=1024)
    @functools.wraps(make)
    def plan(*key: object) -> Plan | None:
        try:
            return make(*key)
        except Unsupported:
            return None

    _makers.append(plan)
    return plan


def _descriptor(name: str, *args: object) -> c_void_p:
    library = _loaded()
    handles = [a.handle if isinstance(a, Layout) else a for a in args]
    return library.made(f"{name}_primitive_desc_create", library.engine, *handles, library.attributes)


def _contiguous(x: Array) -> Array:
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


# --- Matrix multiplications ---------------------------------------------------------------------------


@_planned
def _matmul_plan(x_shape: Ints, x_bytes: Ints, y_shape: Ints, y_bytes: Ints, biased: bool) -> Plan | None:
    """Return a plan for operands with such strides in bytes, None where neither rows nor columns are contiguous."""
    x_strides, y_strides = (tuple(s // 4 for s in strides) for strides in (x_bytes, y_bytes))
    for shape, strides in ((x_shape, x_strides), (y_shape, y_strides)):
        if min(strides) < 1 or 1 not in strides[-2:] or max(strides[-2:]) < shape[-1 if strides[-1] == 1 else -2]:
            return None
    x, y = Layout(x_shape, x_strides), Layout(y_shape, y_strides)
    out = rows((*x_shape[:-1], y_shape[-1]))
    bias = rows((*(1,) * (len(y_shape) - 1), y_shape[-1])) if biased else None
    layouts = {SRC: x, WEIGHTS: y, **({BIAS: bias} if bias is not None else {}), DST: out}
    return Plan(_descriptor("matmul", x, y, bias, out), layouts, (DST,))


def matmul(x: Array, y: Array, out: Array, bias: Array | None = None) -> bool:
    """Write the product of two matrices or of two batches of them, plus a row; return whether it could be."""
    plan = _matmul_plan(x.shape, x.strides, y.shape, y.strides, bias is not None)
    if plan is None:
        x, y = _contiguous(x), _contiguous(y)
        plan = _matmul_plan(x.shape, x.strides, y.shape, y.strides, bias is not None)
        if plan is None:
            return False
    plan(x, y, out) if bias is None else plan(x, y, bias, out)
    return True


# --- Convolution ------------------------------------------------------------------------------------


class _Geometry:
    """What the three primitives of a convolution share; oneDNN counts dilation from zero and wants both paddings."""

    def __init__(self, x: Ints, w: Ints, out: Ints, stride: Ints, before: Ints, dilation: Ints, groups: int) -> None:
        self.shapes = x, w if groups == 1 else (groups, w[0] // groups, *w[1:]), out
        spatial = zip(x[2:], w[2:], out[2:], stride, before, dilation, strict=True)
        after = [(o - 1) * s + (k - 1) * d + 1 - n - b for n, k, o, s, b, d in spatial]
        self.window = [_dims(stride), _dims([d - 1 for d in dilation]), _dims(before), _dims(after)]

    def forward(self, bias: Layout | None) -> c_void_p:
        x, w, out = (Layout(shape) for shape in self.shapes)
        return _descriptor(
            "convolution_forward", _TRAINING, _CONVOLUTION_DIRECT, x, w, bias, out, *self.window
        )  # fmt: skip


@_planned
def _conv_plan(biased: bool, *geometry: Any) -> Plan:
    where = _Geometry(*geometry)
    x, w, out = (rows(shape) for shape in where.shapes)
    bias = rows((where.shapes[2][1],)) if biased else None
    layouts = {SRC: x, WEIGHTS: w, DST: out} | ({BIAS: bias} if bias else {})
    return Plan(where.forward(bias), layouts, (DST,))


@_planned
def _conv_data_plan(*geometry: Any) -> Plan:
    where = _Geometry(*geometry)
    hint = where.forward(None)
    free = [Layout(shape) for shape in where.shapes]
    back = _descriptor("convolution_backward_data", _CONVOLUTION_DIRECT, *free, *where.window, hint)
    x, w, out = (rows(shape) for shape in where.shapes)
    return Plan(back, {DIFF_DST: out, WEIGHTS: w, DIFF_SRC: x}, (DIFF_SRC,))


@_planned
def _conv_weights_plan(*geometry: Any) -> Plan:
    where = _Geometry(*geometry)
    hint = where.forward(None)
    fx, fw, fo = (Layout(shape) for shape in where.shapes)
    back = _descriptor("convolution_backward_weights", _CONVOLUTION_DIRECT, fx, fw, None, fo, *where.window, hint)
    x, w, out = (rows(shape) for shape in where.shapes)
    return Plan(back, {SRC: x, DIFF_DST: out, DIFF_WEIGHTS: w}, (DIFF_WEIGHTS,))


def convolve(
    x: Array, w: Array, b: Array, stride: Ints, before: Ints, dilation: Ints, groups: int, size: Ints
) -> Array | None:
    """Return (N, O, *size) from x (N, C, ...), w (O, C / groups, ...) and a bias or None."""
    shape = (len(x), len(w), *size)
    plan = _conv_plan(b is not None, x.shape, w.shape, shape, stride, before, dilation, groups)
    if plan is None:
        return None
    out = np.empty(shape, x.dtype)
    plan(_contiguous(x), _contiguous(w), out, *(() if b is None else (_contiguous(b),)))
    return out


def convolve_data(
    g: Array, w: Array, stride: Ints, before: Ints, dilation: Ints, groups: int, size: Ints
) -> Array | None:
    """Return (N, C, *size) from g (N, O, ...) and w (O, C / groups, ...): the transposed convolution."""
    shape = (len(g), w.shape[1] * groups, *size)
    plan = _conv_data_plan(shape, w.shape, g.shape, stride, before, dilation, groups)
    if plan is None:
        return None
    out = np.empty(shape, g.dtype)
    plan(_contiguous(g), _contiguous(w), out)
    return out


def convolve_weights(
    x: Array, g: Array, stride: Ints, before: Ints, dilation: Ints, groups: int, kernel: Ints
) -> Array | None:
    """Return (O, C / groups, *kernel) from x (N, C, ...) and g (N, O, ...)."""
    shape = (g.shape[1], x.shape[1] // groups, *kernel)
    plan = _conv_weights_plan(x.shape, shape, g.shape, stride, before, dilation, groups)
    if plan is None:
        return None
    out = np.empty(shape, x.dtype)
    plan(_contiguous(x), _contiguous(g), out)
    return out


# --- Pooling ----------------------------------------------------------------------------------------


def _pooling_forward(x: Layout, out: Layout, windows: tuple[Ints, ...]) -> tuple[c_void_p, list[Any]]:
    kernel, stride, padding, dilation = zip(*windows, strict=True)
    spatial = zip(x.shape[2:], out.shape[2:], windows, strict=True)
    after = [(o - 1) * s + (k - 1) * d + 1 - n - p for n, o, (k, s, p, d) in spatial]
    window = [_dims(stride), _dims(kernel), _dims([d - 1 for d in dilation]), _dims(padding), _dims(after)]
    return _descriptor("pooling_forward", _TRAINING, _POOLING_MAX, x, out, *window), window


@_planned
def _pool_plan(shape: Ints, windows: tuple[Ints, ...], size: Ints) -> Plan:
    x, out = rows(shape), rows((*shape[:2], *size))
    return Plan(_pooling_forward(x, out, windows)[0], {SRC: x, DST: out}, (DST,))


@_planned
def _pool_backward_plan(shape: Ints, windows: tuple[Ints, ...], size: Ints) -> Plan:
    x, out = rows(shape), rows((*shape[:2], *size))
    forward, window = _pooling_forward(x, out, windows)
    back = _descriptor("pooling_backward", _POOLING_MAX, x, out, *window, forward)
    return Plan(back, {DIFF_DST: out, DIFF_SRC: x}, (DIFF_SRC,))


def _pool(x: Array, windows: tuple[Ints, ...], out: Array) -> Array | None:
    """Write the maxima of windows into `out`; return oneDNN's notes about where they are, None if it cannot."""
    plan = _pool_plan(x.shape, windows, out.shape[2:])
    if plan is None:
        return None
    notes = np.empty(plan.dll.dnnl_memory_desc_get_size(plan.workspace), np.uint8)
    plan(x, out, notes)
    return notes


def max_pool(x: Array, windows: tuple[Ints, ...], out: Array) -> bool:
    """Write the maxima of windows (kernel, stride, padding, dilation) of x (N, C, ...), which has no NaN."""
    return _pool(x, windows, out) is not None


def max_pool_backward(g: Array, x: Array, windows: tuple[Ints, ...], out: Array) -> bool:
    """Write zeros with `g` added where the maxima of the windows are."""
    notes = _pool(x, windows, np.empty_like(g))
    plan = _pool_backward_plan(x.shape, windows, g.shape[2:])
    if notes is None or plan is None:
        return False
    plan(g, out, notes)
    return True
