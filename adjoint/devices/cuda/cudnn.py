"""cuDNN, where its library is installed (the wheel ``nvidia-cudnn-cu13``): its C functions, and convolutions."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path
from typing import Any, NamedTuple

import cupy

from ..._typing import Array
from . import arrays
from .cudnn_graph import Graph
from .settings import cudnn as settings
from .sizes import CUDNN_WORKSPACE

__all__ = [
    "TYPES", "Geometry", "call", "convolve", "create", "handle_of", "ints", "is_available", "library", "version",
]  # fmt: skip

Ints = tuple[int, ...]
_NAME = "libcudnn.so.9"
_ASKED = 8  # algorithms that cuDNN is queried for
# By dtype: cuDNN's number of it, and of what is computed in.
TYPES = {"float32": (0, 0), "float64": (1, 1), "float16": (2, 0), "bfloat16": (9, 0)}
_RUN = (
    *(ctypes.c_void_p,) * 7, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_void_p,) * 3
)  # fmt: skip
_MATH, _MATH_WITH_TENSOR_CORES, _MATH_IN_FULL = 0, 1, 3


class _Way(ctypes.Structure):
    """One way to compute a convolution, as cuDNN describes it (cudnnConvolutionFwdAlgoPerf_t and its like)."""

    _fields_ = (
        ("algo", ctypes.c_int), ("status", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int), ("math", ctypes.c_int), ("reserved", ctypes.c_int * 3),
    )  # fmt: skip


class Geometry(NamedTuple):
    """A convolution: the shapes of its three arrays, and the geometry of its windows."""

    x: Ints
    w: Ints
    y: Ints
    stride: Ints
    before: Ints
    dilation: Ints
    groups: int
    dtype: str


@functools.cache
def library() -> Any:
    """Return the library, or None where there is none."""
    # Wheels put it into a folder that they share, wherever packages are; else the system may know it.
    places = [Path(folder) / "nvidia" / "cudnn" / "lib" / _NAME for folder in sys.path if folder]
    for name in (*(str(place) for place in places if place.exists()), _NAME):
        try:
            return ctypes.PyDLL(name)
        except OSError:
            continue
    return None


def is_available() -> bool:
    """Return whether cuDNN can be used."""
    return library() is not None


def version() -> int | None:
    """Return cuDNN's version as a number, None where it is not installed."""
    found = library()
    if found is None:
        return None
    found.cudnnGetVersion.restype = ctypes.c_size_t
    return int(found.cudnnGetVersion())


def call(name: str, *arguments: Any) -> None:
    """Call a function of the library; RuntimeError where it fails."""
    status = getattr(library(), name)(*arguments)
    if status:
        raise RuntimeError(f"cuDNN error: {name} answered {status}")


def create(kind: str) -> Any:
    """Return a new description of a kind."""
    made = ctypes.c_void_p()
    call(f"cudnnCreate{kind}", ctypes.byref(made))
    return made


def ints(values: Any) -> Any:
    """Return numbers as an array of C's."""
    values = [int(v) for v in values]
    return (ctypes.c_int * len(values))(*values)


_handles: dict[tuple[int, int], Any] = {}


def handle_of(device: int) -> Any:
    """Return the library's handle for the current stream of a device."""
    stream = cupy.cuda.get_current_stream().ptr
    found = _handles.get((device, stream))
    if found is None:
        found = ctypes.c_void_p()
        call("cudnnCreate", ctypes.byref(found))
        call("cudnnSetStream", found, ctypes.c_void_p(stream))
        _handles[device, stream] = found
    return found


def _fits(given: Geometry) -> bool:
    """Return whether cuDNN knows a convolution: as much padding after as before, and none of it negative."""
    if given.dtype not in TYPES or len(given.stride) > 3 or any(b < 0 for b in given.before):
        return False
    sizes = zip(given.x[2:], given.w[2:], given.stride, given.before, given.dilation, given.y[2:], strict=True)
    return all((n + 2 * b - (k - 1) * d - 1) // s + 1 == size for n, k, s, b, d, size in sizes)


class Plan:
    """What cuDNN knows of one convolution: descriptions of its arrays, and the best way for each of three functions."""

    # What each is computed from, in the order that cuDNN requires.
    operands = {"y": ("x", "w"), "x": ("w", "y"), "w": ("x", "y")}  # fmt: skip
    names = {
        "y": ("cudnnConvolutionForward", "cudnnGetConvolutionForwardAlgorithm_v7"),
        "x": ("cudnnConvolutionBackwardData", "cudnnGetConvolutionBackwardDataAlgorithm_v7"),
        "w": ("cudnnConvolutionBackwardFilter", "cudnnGetConvolutionBackwardFilterAlgorithm_v7"),
    }

    def __init__(self, given: Geometry, tf32: bool) -> None:
        number, compute = TYPES[given.dtype]
        flat = len(given.stride) == 1  # lines are planes of height one
        arrays_ = {
            name: (*shape[:2], *((1,) if flat else ()), *shape[2:])
            for name, shape in (("x", given.x), ("w", given.w), ("y", given.y))
        }
        self.described = {name: self._described(name, shape, number) for name, shape in arrays_.items()}
        self.convolution = made = create("ConvolutionDescriptor")
        windows: Any = tuple(
            (*((first,) if flat else ()), *values)
            for first, values in ((0, given.before), (1, given.stride), (1, given.dilation))
        )
        self.shapes, self.windows, self.types = arrays_, windows, (number, compute)
        call("cudnnSetConvolutionNdDescriptor", made, len(arrays_["x"]) - 2, *map(ints, windows), 1, compute)
        call("cudnnSetConvolutionGroupCount", made, given.groups)
        half = given.dtype in ("float16", "bfloat16")
        math = _MATH_WITH_TENSOR_CORES if half else _MATH if tf32 else _MATH_IN_FULL
        call("cudnnSetConvolutionMathType", made, math)
        scalar: Any = ctypes.c_double if given.dtype == "float64" else ctypes.c_float
        self.factors = scalar(1), scalar(0)
        self.one, self.zero = (ctypes.byref(f) for f in self.factors)
        # Graphs have no setting that forbids TF32.
        self.graphs: dict[str, Graph | None] = {} if half or tf32 or number == 1 else dict.fromkeys("xwy")
        self.calls: dict[str, Any] = {}  # by what is wanted: the function, its descriptions, and ways to compute it

    @staticmethod
    def _described(name: str, shape: Ints, number: int) -> Any:
        if name == "w":
            made = create("FilterDescriptor")
            call("cudnnSetFilterNdDescriptor", made, number, 0, len(shape), ints(shape))
            return made
        made = create("TensorDescriptor")
        strides = [1]
        for n in reversed(shape[1:]):
            strides.insert(0, strides[0] * n)
        call("cudnnSetTensorNdDescriptor", made, number, len(shape), ints(shape), ints(strides))
        return made

    def _asked(self, handle: Any, wanted: str) -> list[tuple[int, int]]:
        """Return the ways to compute one of the three, the best first: their numbers, and bytes of workspace."""
        count, ways = ctypes.c_int(), (_Way * _ASKED)()
        first, second = self.operands[wanted]
        given = self.described[first], self.described[second], self.convolution, self.described[wanted]
        call(self.names[wanted][1], handle, *given, _ASKED, ctypes.byref(count), ways)
        return [(w.algo, w.memory) for w in ways[: count.value] if w.status == 0 and w.memory <= CUDNN_WORKSPACE]

    def _run_graph(self, handle: Any, wanted: str, first: Array, second: Array, out: Array) -> bool:
        """Compute an array by a graph, in half the CPU time; return whether that was possible."""
        if wanted not in self.graphs:
            try:
                self.graphs[wanted] = Graph(library(), handle, wanted, self.shapes, self.windows, *self.types)
            except RuntimeError:
                self.graphs[wanted] = None
        graph = self.graphs[wanted]
        return graph is not None and graph.run(handle, first, second, out)

    def run(self, wanted: str, first: Array, second: Array, out: Array) -> bool:
        """Compute the array that is `wanted` from the two others; return whether cuDNN could."""
        handle = handle_of(out.data.device_id)
        if self._run_graph(handle, wanted, first, second, out):
            return True
        call = self.calls.get(wanted)
        if call is None:
            left, right = (self.described[name] for name in self.operands[wanted])
            function = getattr(library(), self.names[wanted][0])
            function.argtypes = _RUN
            call = self.calls[wanted] = (function, left, right, self.described[wanted], self._asked(handle, wanted))
        function, left, right, result, ways = call
        x, y, z = first.data.ptr, second.data.ptr, out.data.ptr
        while ways:
            algo, size = ways[0]
            memory = cupy.cuda.alloc(size) if size else None
            place = 0 if memory is None else memory.ptr
            if not function(
                handle, self.one, left, x, right, y, self.convolution, algo, place, size, self.zero, result, z
            ):  # fmt: skip
                return True
            ways.pop(0)
        return False


@functools.lru_cache(1024)
def _plan(given: Geometry, tf32: bool, device: int) -> Plan | None:
    try:
        return Plan(given, tf32) if _fits(given) else None
    except RuntimeError:
        return None


def convolve(wanted: str, first: Array, second: Array, given: Geometry) -> Array | None:
    """Return one of the arrays of a convolution from the two others: y of x and w, x of w and y, w of x and y.

    None is returned where cuDNN is not installed or cannot.
    """
    if not is_available() or not settings.enabled:
        return None
    plan = _plan(given, settings.tf32, first.data.device_id)
    if plan is None:
        return None
    out = arrays.new(getattr(given, wanted), first.dtype)
    return out if plan.run(wanted, first, second, out) else None
