"""Whole recurrent layers by cuDNN's C functions, where it is installed: LSTM and GRU, forward and both gradients.

A layer of one direction is one call of cuDNN's. What it leaves for its gradient, the reserve, takes the place of the
gates in the primitive's last result. Weights are copied into one piece of memory, where cuDNN wants them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import cupy
import numpy as np

from ..._typing import DType, Kernel
from . import arrays, cudnn
from .copies import contiguous, copy_into
from .launching import dense
from .settings import cudnn as settings
from .table import override

Gpu: TypeAlias = Any  # an array on a GPU, which CuPy has no types for
Weights: TypeAlias = tuple[Gpu, ...]
Lengths: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]

_LSTM, _GRU = 2, 3
_GATES = {_LSTM: 4, _GRU: 3}
_TRAINING, _PACKED, _ADD = 1, 1, 0
_pointer, _int, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_STATES = (_pointer,) * 8
_SPACES = (_size, _pointer) * 3
_ARGUMENTS = {
    "cudnnRNNForward": (_pointer, _pointer, _int, *(_pointer,) * 5, *(_pointer,) * 6, *_SPACES),
    "cudnnRNNBackwardData_v8": (*(_pointer,) * 16, *_SPACES),
    "cudnnRNNBackwardWeights_v8": (_pointer, _pointer, _int, *(_pointer,) * 7, *_SPACES),
}  # fmt: skip


class _Form(NamedTuple):
    """What a layer is: which cells, for how many steps, samples and features, and of which dtype."""

    cells: int
    steps: int
    batch: int
    given: int
    width: int
    biased: bool
    dtype: str


def _function(name: str) -> Any:
    function = getattr(cudnn.library(), name)
    function.argtypes = _ARGUMENTS[name]
    return function


class _Plan:
    """What cuDNN knows of one layer: its descriptions, the sizes of its memory, and where in it weights are.

    Raises RuntimeError where cuDNN cannot.
    """

    def __init__(self, form: _Form, tf32: bool, handle: object) -> None:
        self.form, (number, compute) = form, cudnn.TYPES[form.dtype]
        self.item = np.dtype(form.dtype).itemsize if form.dtype != "bfloat16" else 2
        self.calls = {name: _function(name) for name in _ARGUMENTS}
        dropout = cudnn.create("DropoutDescriptor")
        nothing = ctypes.c_ulonglong(0)
        cudnn.call("cudnnSetDropoutDescriptor", dropout, handle, ctypes.c_float(0), None, _size(0), nothing)
        math = 1 if self.item == 2 else 0 if tf32 or form.dtype != "float32" else 3
        self.rnn = cudnn.create("RNNDescriptor")
        cudnn.call(
            "cudnnSetRNNDescriptor_v8", self.rnn, 0, form.cells, 2 if form.biased else 0, 0, 0, number, compute, math,
            form.given, form.width, form.width, 1, dropout, 0,
        )  # fmt: skip
        self.keeping = dropout
        lengths = np.full(form.batch, form.steps, np.int32)
        self.lengths = cupy.asarray(lengths)
        self.x, self.y = (self._sequence(number, width, lengths) for width in (form.given, form.width))
        self.state = cudnn.create("TensorDescriptor")
        sizes, strides = (1, form.batch, form.width), (form.batch * form.width, form.width, 1)
        cudnn.call("cudnnSetTensorNdDescriptor", self.state, number, 3, cudnn.ints(sizes), cudnn.ints(strides))
        work, reserve, weights = _size(), _size(), _size()
        cudnn.call(
            "cudnnGetRNNTempSpaceSizes", handle, self.rnn, _TRAINING, self.x, ctypes.byref(work), ctypes.byref(reserve)
        )
        cudnn.call("cudnnGetRNNWeightSpaceSize", handle, self.rnn, ctypes.byref(weights))
        self.work, self.reserve, self.weights = work.value, reserve.value, weights.value
        self.places = self._places(handle)

    def _sequence(self, number: int, width: int, lengths: Lengths) -> Any:
        made = cudnn.create("RNNDataDescriptor")
        form, place = self.form, lengths.ctypes.data_as(_pointer)
        cudnn.call("cudnnSetRNNDataDescriptor", made, number, _PACKED, form.steps, form.batch, width, place, None)
        return made

    def _places(self, handle: object) -> list[int]:
        """Return at which element each weight begins, of the input, of the state, and the biases of both.

        The parts of a weight, one for each gate, must be adjacent, in the order that programs have.
        """
        form, gates = self.form, _GATES[self.form.cells]
        matrix, bias = cudnn.create("TensorDescriptor"), cudnn.create("TensorDescriptor")
        found: list[int] = []
        start = 1 << 20  # a made up address: only differences count
        sizes = (form.width * form.given, form.width * form.width)
        offsets: list[tuple[int, int]] = []
        for layer in range(2 * gates):
            at, beside = _pointer(), _pointer()
            cudnn.call(
                "cudnnGetRNNWeightParams", handle, self.rnn, 0, _size(self.weights), _pointer(start), layer, matrix,
                ctypes.byref(at), bias, ctypes.byref(beside),
            )  # fmt: skip
            offsets.append((((at.value or 0) - start) // self.item, ((beside.value or 0) - start) // self.item))
        for half in range(2):
            first = offsets[half * gates][0]
            if any(offsets[half * gates + k][0] != first + k * sizes[half] for k in range(gates)):
                raise RuntimeError("cuDNN has the weights of a layer in another order")
            found.append(first)
        if form.biased:
            for half in range(2):
                first = offsets[half * gates][1]
                if any(offsets[half * gates + k][1] != first + k * form.width for k in range(gates)):
                    raise RuntimeError("cuDNN has the biases of a layer in another order")
                found.append(first)
        return found

    def gathered(self, weights: Weights, dtype: DType) -> Any:
        """Return the weights in one piece of memory."""
        space = arrays.new((self.weights // self.item,), dtype)
        for w, place in zip(weights, self.places, strict=False):
            w = dense(w).reshape(-1)
            if not copy_into(space[place : place + w.size], w):
                raise RuntimeError("weights could not be copied")
        return space

    def forward(self, handle: object, x: Gpu, h: Gpu, c: Gpu | None, weights: Weights) -> tuple[Gpu, Gpu, Gpu] | None:
        """Return outputs, the last cell states (None of a GRU) and the reserve; None where cuDNN fails."""
        form, dtype = self.form, x.dtype
        out = arrays.new((form.steps, form.batch, form.width), dtype)
        last = None if c is None else arrays.new((1, form.batch, form.width), dtype)
        reserve = arrays.new((-(-self.reserve // self.item),), dtype)
        space, work = self.gathered(weights, dtype), cupy.cuda.alloc(max(self.work, 1))
        failed = self.calls["cudnnRNNForward"](
            handle, self.rnn, _TRAINING, self.lengths.data.ptr, self.x, x.data.ptr, self.y, out.data.ptr, self.state,
            h.data.ptr, None, self.state, _at(c), _at(last), self.weights, space.data.ptr, self.work, work.ptr,
            self.reserve, reserve.data.ptr,
        )  # fmt: skip
        return None if failed else (out, last, reserve)

    def backward(
        self, handle: object, g: Gpu, g_last: Gpu | None, x: Gpu, h: Gpu, c: Gpu | None, weights: Weights, out: Gpu,
        reserve: Gpu, weighs: bool,
    ) -> list[Any]:  # fmt: skip
        """Return the gradients of x, h, c and, if wanted, the weights."""
        dtype = x.dtype
        gx, gh = arrays.new(x.shape, dtype), arrays.new(h.shape, dtype)
        gc = None if c is None else arrays.new(c.shape, dtype)
        space, work = self.gathered(weights, dtype), cupy.cuda.alloc(max(self.work, 1))
        reserve = reserve.copy()  # it is written, and a graph that is run backward again needs it as it was
        spaces = self.work, work.ptr, self.reserve, reserve.data.ptr
        status = self.calls["cudnnRNNBackwardData_v8"](
            handle, self.rnn, self.lengths.data.ptr, self.y, out.data.ptr, g.data.ptr, self.x, gx.data.ptr,
            self.state, h.data.ptr, None, gh.data.ptr, self.state, _at(c), _at(g_last), _at(gc), self.weights,
            space.data.ptr, *spaces,
        )  # fmt: skip
        if not status and weighs:
            space = arrays.new(space.shape, dtype)
            space.data.memset_async(0, space.nbytes)
            status = self.calls["cudnnRNNBackwardWeights_v8"](
                handle, self.rnn, _ADD, self.lengths.data.ptr, self.x, x.data.ptr, self.state, h.data.ptr, self.y,
                out.data.ptr, self.weights, space.data.ptr, *spaces,
            )  # fmt: skip
        if status:
            raise RuntimeError(f"cuDNN error: the gradient of a recurrent layer answered {status}")
        found = [gx, gh, gc] if c is not None else [gx, gh]
        if not weighs:
            return [*found, *[None] * len(weights)]
        return found + [
            space[place : place + w.size].reshape(w.shape) for w, place in zip(weights, self.places, strict=False)
        ]


def _at(array: Gpu | None) -> int | None:
    return None if array is None else array.data.ptr


@functools.lru_cache(256)
def _plan(form: _Form, tf32: bool, device: int) -> _Plan | None:
    try:
        return _Plan(form, tf32, cudnn.handle_of(device))
    except (RuntimeError, AttributeError):
        return None


def _plan_of(cells: int, x: Gpu, h: Gpu, w_ih: Gpu, b_ih: Gpu | None) -> _Plan | None:
    steps, batch, given = x.shape
    form = _Form(cells, steps, batch, given, h.shape[1], b_ih is not None, x.dtype.name)
    return _plan(form, settings.tf32, x.data.device_id)


def _is_layer(x: Gpu, *rest: Any) -> bool:
    """Return whether cuDNN may be used for a layer: all arrays are of one dtype that it has, and none is empty."""
    if not settings.enabled or not cudnn.is_available() or x.dtype.name not in cudnn.TYPES or not x.size:
        return False
    given = [v for v in rest if type(v) is not bool]  # the direction, a bool, is no array
    if any(v is not None and (not isinstance(v, cupy.ndarray) or v.dtype != x.dtype or not v.size) for v in given):
        return False
    return (given[-2] is None) is (given[-1] is None)


def _turned(x: Gpu, reverse: bool) -> Any:
    """Return steps in the order in which they are taken, in one piece of memory."""
    return contiguous(x[::-1]) if reverse else dense(x)


def _weights(w_ih: Gpu, w_hh: Gpu, b_ih: Gpu | None, b_hh: Gpu | None) -> Weights:
    return (w_ih, w_hh) if b_ih is None else (w_ih, w_hh, b_ih, b_hh)


@override("lstm_layer", when=_is_layer)
def lstm(
    x: Gpu, h: Gpu, c: Gpu, w_ih: Gpu, w_hh: Gpu, b_ih: Gpu | None, b_hh: Gpu | None, reverse: bool
) -> tuple[Gpu, Gpu, Gpu]:
    """Return hidden states of all steps, the last cell states (1, N, H) and the reserve."""
    plan = _plan_of(_LSTM, x, h, w_ih, b_ih)
    found = plan and plan.forward(
        cudnn.handle_of(x.data.device_id),
        _turned(x, reverse),
        dense(h),
        dense(c),
        _weights(w_ih, w_hh, b_ih, b_hh),
    )
    if not found:
        return NotImplemented
    return _turned(found[0], reverse), found[1], found[2]


@override("gru_layer", when=_is_layer)
def gru(x: Gpu, h: Gpu, w_ih: Gpu, w_hh: Gpu, b_ih: Gpu | None, b_hh: Gpu | None, reverse: bool) -> tuple[Gpu, Gpu]:
    """Return hidden states of all steps and the reserve."""
    plan = _plan_of(_GRU, x, h, w_ih, b_ih)
    found = plan and plan.forward(
        cudnn.handle_of(x.data.device_id),
        _turned(x, reverse),
        dense(h),
        None,
        _weights(w_ih, w_hh, b_ih, b_hh),
    )
    return (_turned(found[0], reverse), found[2]) if found else NotImplemented


def _gradients(
    cells: int, g: Sequence[Any], x: Gpu, h: Gpu, c: Gpu | None, weights: Weights, biased: bool, out: Sequence[Gpu],
    reverse: bool, needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    plan: Any = _plan_of(cells, x, h, weights[0], weights[-1] if biased else None)
    first = g[0]
    if first is None:
        first = arrays.new(out[0].shape, x.dtype)
        first.data.memset_async(0, first.nbytes)
    g_last = None if c is None or g[1] is None else dense(g[1])
    found = plan.backward(
        cudnn.handle_of(x.data.device_id), _turned(first, reverse), g_last, _turned(x, reverse), dense(h),
        None if c is None else dense(c), weights, _turned(out[0], reverse), out[-1], any(needs[len(needs) - 4 :]),
    )  # fmt: skip
    found[0] = _turned(found[0], reverse)
    return (*found, *[None] * (0 if biased else 2))


def _is_plain(g: Sequence[object], x: object, reserve: object) -> bool:
    """Return whether a gradient is one of arrays, of a layer that cuDNN has computed."""
    arrays_ = all(v is None or isinstance(v, cupy.ndarray) for v in (*g[:2], x))
    return arrays_ and isinstance(reserve, cupy.ndarray) and bool(reserve.size)


@override.around("lstm_layer", gradient="joint")
def _lstm_layer_joint(rule: Kernel) -> Kernel:
    def joint(
        g: Any, x: Gpu, h: Gpu, c: Gpu, w_ih: Gpu, w_hh: Gpu, b_ih: Gpu | None, b_hh: Gpu | None, out: Any,
        reverse: bool, needs: Sequence[bool],
    ) -> Any:  # fmt: skip
        if not _is_plain(g, x, out[2]):
            return rule(g, x, h, c, w_ih, w_hh, b_ih, b_hh, out, reverse, needs=needs)
        weights = _weights(w_ih, w_hh, b_ih, b_hh)
        return _gradients(_LSTM, g, x, h, c, weights, b_ih is not None, out, reverse, needs)

    return joint


@override.around("gru_layer", gradient="joint")
def _gru_layer_joint(rule: Kernel) -> Kernel:
    def joint(
        g: Any, x: Gpu, h: Gpu, w_ih: Gpu, w_hh: Gpu, b_ih: Gpu | None, b_hh: Gpu | None, out: Any, reverse: bool,
        needs: Sequence[bool],
    ) -> Any:  # fmt: skip
        if not _is_plain(g[:1], x, out[1]):
            return rule(g, x, h, w_ih, w_hh, b_ih, b_hh, out, reverse, needs=needs)
        weights = _weights(w_ih, w_hh, b_ih, b_hh)
        return _gradients(_GRU, g, x, h, None, weights, b_ih is not None, out, reverse, needs)

    return joint
