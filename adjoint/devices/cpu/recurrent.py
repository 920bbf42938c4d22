"""Recurrent layers over whole sequences (T, N, E), and backwards through time.

A layer multiplies the inputs of all steps by the weights at once; each step adds what the state before gives.
Backwards, whatever does not depend on later steps is computed for all steps at once, and the gradients of the
weights are one product over all steps. `reverse` runs from the last step to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ..._typing import DType, Kernel
from .table import override

ndarray = np.ndarray
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
f32, f64 = np.dtype("float32"), np.dtype("float64")


def _are_floats(x: Array, *rest: object) -> bool:
    """Return whether all arrays among the arguments are NumPy's, of one floating point type."""
    dtype = x.dtype
    if dtype is not f32 and dtype is not f64:
        return False
    for v in rest:
        if type(v) is ndarray:
            if v.dtype is not dtype:
                return False
        elif v is not None and type(v) is not bool:
            return False
    return True


def _in_batch(*gradients: Array | None) -> bool:
    """Return whether gradients are no arrays, but a batch of them or tensors."""
    return any([g is not None and type(g) is not ndarray for g in gradients])  # noqa: C419 - no generator


def _given(x: Array, w_ih: Array, bias: Array | None) -> Array:
    """Return what the inputs give to the gates, for all steps."""
    steps, batch, width = x.shape
    out = x.reshape(steps * batch, width) @ w_ih.T
    if bias is not None:
        out += bias
    return out.reshape(steps, batch, -1)


def _order(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _before(first: Array, states: Array, reverse: bool) -> Array:
    """Return the state before each step."""
    if len(states) == 1:
        return first[None]
    return np.concatenate((states[1:], first[None]) if reverse else (first[None], states[:-1]))


def _weight_gradients(
    slopes: Array, by_state: Array, x: Array, before: Array, w_ih: Array, needs: Sequence[bool], biased: bool
) -> tuple[Any, ...]:
    """Return the gradients of x, w_ih, w_hh, b_ih and b_hh from those of the gates at all steps."""
    flat, flat_state = slopes.reshape(-1, slopes.shape[-1]), by_state.reshape(-1, by_state.shape[-1])
    of_x, of_w_ih, of_w_hh, of_b_ih, of_b_hh = needs
    bias = flat.sum(0) if biased and (of_b_ih or of_b_hh) else None
    return (
        (flat @ w_ih).reshape(x.shape) if of_x else None,
        _columns_times(flat, x) if of_w_ih else None,
        _columns_times(flat_state, before) if of_w_hh else None,
        bias,
        bias if slopes is by_state or bias is None else flat_state.sum(0),
    )


def _columns_times(slopes: Array, values: Array) -> Array:
    """Return the product of slopes, turned, and values over all steps and samples."""
    return np.dot(slopes.T, values.reshape(-1, values.shape[-1]))  # matmul is slow where there is one row only


def _turned(weight: Array, steps: int) -> Array:
    """Return the transpose of a weight, laid out anew where many products with it repay that."""
    return np.ascontiguousarray(weight.T) if steps > 2 else weight.T


def _sum(a: Array | None, b: Array | None) -> Any:
    return b if a is None else a if b is None else a + b


# --- LSTM -------------------------------------------------------------------------------------------

_gate_constants: dict[tuple[int, DType], tuple[Array, Array]] = {}


def _logistic_by_tanh(width: int, dtype: DType) -> tuple[Array, Array]:
    """Return scale and offset by which one tanh serves all four gates: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2."""
    key = (width, dtype)
    if key not in _gate_constants:
        scale, offset = np.full(4 * width, 0.5, dtype), np.full(4 * width, 0.5, dtype)
        scale[2 * width : 3 * width], offset[2 * width : 3 * width] = 1, 0
        _gate_constants[key] = (scale, offset)
    return _gate_constants[key]


@override("lstm_layer", when=_are_floats)
def lstm(
    x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, reverse: bool
) -> tuple[Array, Array, Array]:
    """Return hidden states, cell states and gates of all steps."""
    steps, batch, _ = x.shape
    width = c.shape[1]
    gates = _given(x, w_ih, None if b_ih is None else b_ih + b_hh)
    out, cells = np.empty((2, steps, batch, width), gates.dtype)
    scale, offset = _logistic_by_tanh(width, gates.dtype)
    turned = _turned(w_hh, steps)
    for t in _order(steps, reverse):
        a = gates[t]
        a += h @ turned
        a *= scale
        np.tanh(a, out=a)
        a *= scale
        a += offset
        enter, forget, new, leave = (
            a[:, :width],
            a[:, width : 2 * width],
            a[:, 2 * width : 3 * width],
            a[:, 3 * width :],
        )
        cell, h = cells[t], out[t]
        np.multiply(forget, c, out=cell)
        cell += enter * new
        np.tanh(cell, out=h)
        h *= leave
        c = cell
    return out, cells, gates


def lstm_backward(
    g_out: Array | None, g_cells: Array | None, x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, out: Array,
    cells: Array, gates: Array, reverse: bool, needs: Sequence[bool], biased: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients of x, h, c, w_ih, w_hh, b_ih and b_hh."""
    steps, batch, width = cells.shape
    four = gates.reshape(steps, batch, 4, width)
    slopes = gates * (1 - gates)
    by = slopes.reshape(four.shape)
    new = four[:, :, 2]
    np.multiply(new, new, out=by[:, :, 2])
    np.subtract(1, by[:, :, 2], out=by[:, :, 2])
    squashed = np.tanh(cells)
    by[:, :, 0] *= new
    by[:, :, 1] *= _before(c, cells, reverse)
    by[:, :, 2] *= four[:, :, 0]
    by[:, :, 3] *= squashed
    to_cell = four[:, :, 3] * (1 - squashed * squashed)
    g_h: Any = None
    g_c: Any = None
    for t in reversed(_order(steps, reverse)):
        g_h = _sum(g_h, None if g_out is None else g_out[t])
        g_c = _sum(g_c, None if g_cells is None else g_cells[t])
        if g_h is not None:
            g_c = _sum(g_c, g_h * to_cell[t])
            by[t, :, 3] *= g_h
        else:
            by[t, :, 3] = 0
        by[t, :, :3] *= g_c[:, None]
        g_h = slopes[t] @ w_hh
        g_c = g_c * four[t, :, 1]
    rest = _weight_gradients(slopes, slopes, x, _before(h, out, reverse), w_ih, (needs[0], *needs[3:]), biased)
    return (rest[0], g_h, g_c, *rest[1:])


@override.around("lstm_layer", gradient="joint")
def _lstm_layer_joint(rule: Kernel) -> Kernel:
    def joint(
        g: Sequence[Array | None],
        x: Array,
        h: Array,
        c: Array,
        w_ih: Array,
        w_hh: Array,
        b_ih: Array,
        b_hh: Array,
        out: Array,
        reverse: bool,
        needs: Sequence[bool],
    ) -> tuple[Array | None, ...]:
        if type(x) is not ndarray or _in_batch(*g) or not out[2].size:
            return rule(g, x, h, c, w_ih, w_hh, b_ih, b_hh, out, reverse, needs=needs)
        return lstm_backward(g[0], g[1], x, h, c, w_ih, w_hh, out[0], out[1], out[2], reverse, needs, b_ih is not None)

    return joint


# --- One step of an LSTM ----------------------------------------------------------------------------
# Here gates are rows and samples are columns, (4 E, N): a weight is then the left factor untransposed, which takes BLAS
# half the time of its transpose as the right one, and every gate is one piece of memory.


@override("lstm_cell", when=_are_floats)
def lstm_cell(
    x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None
) -> tuple[Array, Array, Array]:
    """Return the hidden state and the cell state after a step, and its gates."""
    batch, width = c.shape
    gates = w_ih.dot(np.ascontiguousarray(x.T))
    gates += w_hh.dot(np.ascontiguousarray(h.T))
    if b_ih is not None:
        gates += (b_ih + b_hh)[:, None]
    scale, offset = _whole_constants(width, batch, gates.dtype)
    gates *= scale
    np.tanh(gates, gates)
    gates *= scale
    gates += offset
    enter, forget, new, leave = _four(gates, width)
    cell = forget * c.T
    cell += enter * new
    out = np.tanh(cell)
    out *= leave
    return np.ascontiguousarray(out.T), np.ascontiguousarray(cell.T), gates


def lstm_cell_backward(
    g_h: Array | None, g_c: Array | None, x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, cell: Array,
    gates: Array, needs: Sequence[bool], biased: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients of x, h, c, w_ih, w_hh, b_ih and b_hh."""
    batch, width = c.shape
    enter, forget, new, leave = _four(gates, width)
    slopes = 1 - gates
    slopes *= gates
    by_enter, by_forget, by_new, by_leave = _four(slopes, width)
    by_enter *= new
    by_forget *= c.T
    np.multiply(new, new, by_new)
    np.subtract(1, by_new, by_new)
    by_new *= enter
    to_cell = None if g_c is None else g_c.T
    if g_h is None:
        by_leave[...] = 0
    else:
        g = np.ascontiguousarray(g_h.T)
        squashed = np.tanh(np.ascontiguousarray(cell.T))
        by_leave *= squashed
        by_leave *= g
        squashed *= squashed
        np.subtract(1, squashed, squashed)
        squashed *= leave
        squashed *= g
        if to_cell is not None:
            squashed += to_cell
        to_cell = squashed
    slopes[: 3 * width].reshape(3, width, batch)[...] *= to_cell
    of_x, of_h, of_c, of_w_ih, of_w_hh, of_b_ih, of_b_hh = needs
    bias = np.add.reduce(slopes, 1) if biased and (of_b_ih or of_b_hh) else None
    return (
        slopes.T.dot(w_ih) if of_x else None,
        slopes.T.dot(w_hh) if of_h else None,
        np.ascontiguousarray((to_cell * forget).T) if of_c else None,
        slopes.dot(x) if of_w_ih else None,
        slopes.dot(h) if of_w_hh else None,
        bias,
        bias,
    )


@override.around("lstm_cell")
def _lstm_cell(definition: Kernel) -> Kernel:
    """Choose by the first array alone: the caller has checked that the row above applies."""

    def cell(x: Any, *rest: Any) -> Any:
        return lstm_cell(x, *rest) if type(x) is ndarray and x.dtype in (f32, f64) else definition(x, *rest)

    return cell


@override.around("lstm_cell", gradient="joint")
def _lstm_cell_joint(rule: Kernel) -> Kernel:
    def joint(
        g: Sequence[Array | None],
        x: Array,
        h: Array,
        c: Array,
        w_ih: Array,
        w_hh: Array,
        b_ih: Array,
        b_hh: Array,
        out: Array,
        needs: Sequence[bool],
    ) -> tuple[Array | None, ...]:
        if type(x) is not ndarray or _in_batch(*g) or not out[2].size:
            return rule(g, x, h, c, w_ih, w_hh, b_ih, b_hh, out, needs=needs)
        return lstm_cell_backward(g[0], g[1], x, h, c, w_ih, w_hh, out[1], out[2], needs, b_ih is not None)

    return joint


def _four(gates: Array, width: int) -> tuple[Array, ...]:
    return gates[:width], gates[width : 2 * width], gates[2 * width : 3 * width], gates[3 * width :]


@lru_cache(8)
def _whole_constants(width: int, batch: int, dtype: DType) -> tuple[Array, Array]:
    """Return the constants of `_logistic_by_tanh` for each sample: short rows cost more than the numbers in them."""
    return tuple([np.repeat(row[:, None], batch, 1) for row in _logistic_by_tanh(width, dtype)])  # type: ignore[return-value]


# --- GRU --------------------------------------------------------------------------------------------


@override("gru_layer", when=_are_floats)
def gru(
    x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, reverse: bool
) -> tuple[Array, Array]:
    """Return hidden states of all steps, and the three gates with what the state gave to the last of them."""
    steps, batch, _ = x.shape
    width = h.shape[1]
    given = _given(x, w_ih, b_ih)
    out = np.empty((steps, batch, width), given.dtype)
    gates = np.empty((steps, batch, 4 * width), given.dtype)
    turned = _turned(w_hh, steps)
    for t in _order(steps, reverse):
        by_state = h @ turned
        if b_hh is not None:
            by_state += b_hh
        a, two = gates[t], gates[t, :, : 2 * width]
        np.add(given[t, :, : 2 * width], by_state[:, : 2 * width], out=two)
        two *= 0.5  # the logistic function by tanh: one call, and no overflow
        np.tanh(two, out=two)
        two *= 0.5
        two += 0.5
        reset, update, new = a[:, :width], a[:, width : 2 * width], a[:, 2 * width : 3 * width]
        a[:, 3 * width :] = by_state[:, 2 * width :]
        np.multiply(reset, a[:, 3 * width :], out=new)
        new += given[t, :, 2 * width :]
        np.tanh(new, out=new)
        step = out[t]
        np.subtract(h, new, out=step)
        step *= update
        step += new
        h = step
    return out, gates


def gru_backward(
    g_out: Array, x: Array, h: Array, w_ih: Array, w_hh: Array, out: Array, gates: Array, reverse: bool, needs: Any,
    biased: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients of x, h, w_ih, w_hh, b_ih and b_hh."""
    steps, batch, width = out.shape
    four = gates.reshape(steps, batch, 4, width)
    reset, update, new, by_new = four[:, :, 0], four[:, :, 1], four[:, :, 2], four[:, :, 3]
    before = _before(h, out, reverse)
    to_new = (1 - update) * (1 - new * new)
    slopes = np.empty((steps, batch, 3, width), out.dtype)
    slopes[:, :, 0] = to_new * by_new * reset * (1 - reset)
    slopes[:, :, 1] = (before - new) * update * (1 - update)
    slopes[:, :, 2] = to_new
    by_state = slopes.copy()
    by_state[:, :, 2] *= reset
    flat_state = by_state.reshape(steps, batch, 3 * width)
    g_h: Any = None
    for t in reversed(_order(steps, reverse)):
        g_h = _sum(g_h, g_out[t])
        slopes[t] *= g_h[:, None]
        by_state[t] *= g_h[:, None]
        g_h = g_h * update[t]
        g_h += flat_state[t] @ w_hh
    flat = slopes.reshape(flat_state.shape)
    rest = _weight_gradients(flat, flat_state, x, before, w_ih, (needs[0], *needs[2:]), biased)
    return (rest[0], g_h, *rest[1:])


@override.around("gru_layer", gradient="joint")
def _gru_layer_joint(rule: Kernel) -> Kernel:
    def joint(
        g: Sequence[Any],
        x: Array,
        h: Array,
        w_ih: Array,
        w_hh: Array,
        b_ih: Array,
        b_hh: Array,
        out: Array,
        reverse: bool,
        needs: Sequence[bool],
    ) -> tuple[Array | None, ...]:
        if type(x) is not ndarray or _in_batch(*g) or not out[1].size:
            return rule(g, x, h, w_ih, w_hh, b_ih, b_hh, out, reverse, needs=needs)
        return gru_backward(g[0], x, h, w_ih, w_hh, out[0], out[1], reverse, needs, b_ih is not None)

    return joint


@override("gru_cell", when=_are_floats)
def gru_cell(
    x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None
) -> tuple[Array, Array]:
    """Return the hidden state after a step, and its gates."""
    out, gates = gru(x[None], h, w_ih, w_hh, b_ih, b_hh, False)
    return out[0], gates


@override.around("gru_cell", gradient="joint")
def _gru_cell_joint(rule: Kernel) -> Kernel:
    def joint(
        g: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, out: Any, needs: Any
    ) -> tuple[Array | None, ...]:
        if type(x) is not ndarray or _in_batch(*g) or not out[1].size:
            return rule(g, x, h, w_ih, w_hh, b_ih, b_hh, out, needs=needs)
        found = gru_backward(g[0][None], x[None], h, w_ih, w_hh, out[0][None], out[1], False, needs, b_ih is not None)
        return (None if found[0] is None else found[0][0], *found[1:])

    return joint


# --- Plain ------------------------------------------------------------------------------------------


@override("rnn_layer", when=_are_floats)
def rnn(
    x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, reverse: bool, relu: bool
) -> Array:
    """Return hidden states of all steps."""
    out = _given(x, w_ih, None if b_ih is None else b_ih + b_hh)
    turned = _turned(w_hh, len(x))
    for t in _order(len(x), reverse):
        step = out[t]
        step += h @ turned
        if relu:
            np.maximum(step, 0, out=step)
        else:
            np.tanh(step, out=step)
        h = step
    return out


def rnn_backward(
    g_out: Array, x: Array, h: Array, w_ih: Array, w_hh: Array, out: Array, reverse: bool, relu: bool,
    needs: Sequence[bool], biased: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients of x, h, w_ih, w_hh, b_ih and b_hh."""
    slopes = (out > 0).astype(out.dtype) if relu else 1 - out * out
    g_h: Any = None
    for t in reversed(_order(len(x), reverse)):
        slopes[t] *= _sum(g_h, g_out[t])
        g_h = slopes[t] @ w_hh
    before = _before(h, out, reverse)
    rest = _weight_gradients(slopes, slopes, x, before, w_ih, (needs[0], *needs[2:]), biased)
    return (rest[0], g_h, *rest[1:])


@override.around("rnn_layer", gradient="joint")
def _rnn_layer_joint(rule: Kernel) -> Kernel:
    def joint(
        g: Array, x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array, out: Array, reverse: bool,
        relu: bool, needs: Sequence[bool],
    ) -> tuple[Array | None, ...]:  # fmt: skip
        if type(x) is not ndarray or _in_batch(g):
            return rule(g, x, h, w_ih, w_hh, b_ih, b_hh, out, reverse, relu, needs=needs)
        return rnn_backward(g, x, h, w_ih, w_hh, out, reverse, relu, needs, b_ih is not None)

    return joint
