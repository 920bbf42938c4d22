"""Recurrent layers, as ``torch.NAME`` has them: cells, and whole stacks of layers over sequences.

A stack multiplies the inputs of all steps by the weights at once; what is left for each step is the product
with the hidden state and the gates. Sequences are (T, N, E), or packed: rows of all steps below one another,
with the number of sequences still going at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._typing import Array, Kernel, Tensor, Value
from ..core import modes
from ..core.nodes import wrap
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from .activation import relu_p
from .contraction import linear
from .create import require_grad
from .dimensions import transpose_p
from .dropout import dropout
from .elementwise import add_p, mul_p, sigmoid_p, sub_p
from .join import cat, stack
from .trigonometry import tanh_p

Step = Callable[[Tensor, Tensor, Any], Any]

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]

# --- One step ---------------------------------------------------------------------------------------


def _tanh_step(given: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    return tanh_p(add_p(given, recurrent))


def _relu_step(given: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    return relu_p(add_p(given, recurrent))


def _gru_step(given: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    reset, update, new = given.chunk(3, -1)
    by_reset, by_update, by_new = recurrent.chunk(3, -1)
    reset, update = sigmoid_p(add_p(reset, by_reset)), sigmoid_p(add_p(update, by_update))
    new = tanh_p(add_p(new, mul_p(reset, by_new)))
    return add_p(new, mul_p(update, sub_p(state, new)))


def _lstm_step(given: Tensor, recurrent: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    enter, forget, new, leave = add_p(given, recurrent).chunk(4, -1)
    cell = add_p(mul_p(sigmoid_p(forget), state[1]), mul_p(sigmoid_p(enter), tanh_p(new)))
    return mul_p(sigmoid_p(leave), tanh_p(cell)), cell


def _check_cell(input: Tensor, hidden: Tensor, w_ih: Tensor, w_hh: Tensor) -> None:
    if input.array.shape[-1] != w_ih.array.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.array.shape[-1]} expected {w_ih.array.shape[1]}"
        )
    if hidden.array.shape[-1] != w_hh.array.shape[1]:
        raise RuntimeError(
            f"hidden0 has inconsistent hidden_size: got {hidden.array.shape[-1]}, expected {w_hh.array.shape[1]}"
        )
    rows, states = input.array.shape[:-1], hidden.array.shape[:-1]
    if rows != states:
        raise RuntimeError(f"Input batch size {rows[0]} doesn't match hidden0 batch size {states[0]}")


def _cell(step: Step, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any) -> Tensor:
    _check_cell(input, hx, w_ih, w_hh)
    state: Tensor = step(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx)
    return state


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Compute one step of a recurrent layer: the tanh of what input and state give."""
    return _cell(_tanh_step, input, hx, w_ih, w_hh, b_ih, b_hh)


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Compute one step of a recurrent layer: the positive part of what input and state give."""
    return _cell(_relu_step, input, hx, w_ih, w_hh, b_ih, b_hh)


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """Compute one step of a gated recurrent unit."""
    if len(input.array.shape) == 2 and _has_kernel(gru_cell_p, input, hx, w_ih, w_hh, b_ih, b_hh):
        _check_cell(input, hx, w_ih, w_hh)
        state: Tensor = gru_cell_p(input, hx, w_ih, w_hh, b_ih, b_hh)[0]
        return state
    return _cell(_gru_step, input, hx, w_ih, w_hh, b_ih, b_hh)


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute one step of long short-term memory; `hx` and the result are the hidden and the cell state."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    _check_cell(input, hx[0], w_ih, w_hh)
    if len(input.array.shape) == 2 and _has_kernel(lstm_cell_p, input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh):
        hidden, cell, _ = lstm_cell_p(input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh)
        return hidden, cell
    return _lstm_step(linear(input, w_ih, b_ih), linear(hx[0], w_hh, b_hh), (hx[0], hx[1]))


# --- Whole layers and cells as one op -----------------------------------------------------------------
# Where a device has a kernel for a layer or a cell, that is one op; everywhere else (inside a transform, in a recorded
# backward pass) its steps are ops of their own, which are also its definition. The last result of LSTM and GRU kernels,
# the gates, is for their gradient.


def _has_kernel(primitive: Primitive, *tensors: Tensor | None) -> bool:
    return modes.fusing() and primitive.op.is_overridden(*[None if t is None else t.array for t in tensors])


def _by_steps(run: Kernel, *values: Value | None) -> tuple[Array, ...]:
    """Return the arrays that `run` computes, and an empty one: nothing is saved for the gradient."""
    from ..autograd import no_grad  # as in `_recorded`

    with no_grad():
        outs = run(*(None if v is None else wrap(v) for v in values))
    return (*(o.array for o in outs), outs[0].array.reshape(-1)[:0])


def _recorded(run: Kernel, parts: Sequence[Any], g: Sequence[Any], needs: Sequence[bool]) -> tuple[Any, ...]:
    """Return gradients, which can be differentiated again: `run` records the steps anew."""
    lifted = isinstance(parts[0], TensorBase)
    if lifted:
        parts = [None if p is None else p.view_as(p) for p in parts]  # one may have been computed from another
    else:
        g = [None if one is None else wrap(one) for one in g]
        parts = [None if p is None else wrap(p) for p in parts]
        for p, need in zip(parts, needs, strict=True):
            if need:
                require_grad(p)
    # The engine's public interface: a rule computes gradients here as a program would.
    from ..autograd import enable_grad, grad

    with enable_grad():
        outs = run(*parts)
    pairs = [(o, one) for o, one in zip(outs, g, strict=False) if one is not None]
    wanted = [p for p, need in zip(parts, needs, strict=True) if need]
    ends, cotangents = zip(*pairs, strict=True)
    found = iter(grad(ends, wanted, cotangents, create_graph=lifted, allow_unused=True))
    gradients = tuple(next(found) if need else None for need in needs)
    return gradients if lifted else tuple(None if one is None else one.array for one in gradients)


def _lstm_states(reverse: bool, last: bool = False) -> Kernel:
    """Return what computes hidden and cell states; with `last`, of the cell states only the one that is left."""

    def run(x: Tensor, h: Tensor, c: Tensor, *weights: Any) -> list[Tensor]:
        out, cells = _Layer(_lstm_step, *weights).states(x, (h, c), reverse)
        return [out, (cells[:1] if reverse else cells[-1:]) if last else cells]

    return run


def _states(step: Step, reverse: bool) -> Kernel:
    return lambda x, h, *weights: _Layer(step, *weights).states(x, h, reverse)


def _lstm_once(x: Tensor, h: Tensor, c: Tensor, *weights: Any) -> tuple[Tensor, Tensor]:
    return _lstm_step(linear(x, weights[0], weights[2]), linear(h, weights[1], weights[3]), (h, c))


def _gru_once(x: Tensor, h: Tensor, *weights: Any) -> tuple[Tensor]:
    return (_gru_step(linear(x, weights[0], weights[2]), linear(h, weights[1], weights[3]), h),)


def _lstm_layer(
    x: Value, h: Value, c: Value, w_ih: Value, w_hh: Value, b_ih: Value, b_hh: Value, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    return _by_steps(_lstm_states(reverse), x, h, c, w_ih, w_hh, b_ih, b_hh)


def _lstm_layer_joint(
    g: Any, x: Value, h: Value, c: Value, w_ih: Value, w_hh: Value, b_ih: Value, b_hh: Value, out: tuple[Value, ...],
    reverse: bool, needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    last = out[1].shape[0] != x.shape[0]  # of a device whose library returns no more
    return _recorded(_lstm_states(reverse, last), (x, h, c, w_ih, w_hh, b_ih, b_hh), g, needs)


def _gru_layer(
    x: Value, h: Value, w_ih: Value, w_hh: Value, b_ih: Value, b_hh: Value, reverse: bool,
) -> tuple[Array, ...]:  # fmt: skip
    return _by_steps(_states(_gru_step, reverse), x, h, w_ih, w_hh, b_ih, b_hh)


def _gru_layer_joint(
    g: Any, x: Value, h: Value, w_ih: Value, w_hh: Value, b_ih: Value, b_hh: Value, out: tuple[Value, ...],
    reverse: bool, needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    return _recorded(_states(_gru_step, reverse), (x, h, w_ih, w_hh, b_ih, b_hh), g, needs)


def _rnn_layer(
    x: Value, h: Value, w_ih: Value, w_hh: Value, b_ih: Value, b_hh: Value, reverse: bool, relu: bool,
) -> Array:  # fmt: skip
    return _by_steps(_states(_relu_step if relu else _tanh_step, reverse), x, h, w_ih, w_hh, b_ih, b_hh)[0]


def _rnn_layer_joint(
    g: Value, x: Value, h: Value, w_ih: Value, w_hh: Value, b_ih: Value, b_hh: Value, out: Value, reverse: bool,
    relu: bool, needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    return _recorded(_states(_relu_step if relu else _tanh_step, reverse), (x, h, w_ih, w_hh, b_ih, b_hh), [g], needs)


def _lstm_cell(x: Value, h: Value, c: Value, w_ih: Value, w_hh: Value, b_ih: Value, b_hh: Value) -> tuple[Array, ...]:
    return _by_steps(_lstm_once, x, h, c, w_ih, w_hh, b_ih, b_hh)


def _lstm_cell_joint(
    g: Any, x: Value, h: Value, c: Value, w_ih: Value, w_hh: Value, b_ih: Value | None, b_hh: Value | None,
    out: tuple[Value, ...], needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    return _recorded(_lstm_once, (x, h, c, w_ih, w_hh, b_ih, b_hh), g, needs)


def _gru_cell(x: Value, h: Value, w_ih: Value, w_hh: Value, b_ih: Value, b_hh: Value) -> tuple[Array, ...]:
    return _by_steps(_gru_once, x, h, w_ih, w_hh, b_ih, b_hh)


def _gru_cell_joint(
    g: Any, x: Value, h: Value, w_ih: Value, w_hh: Value, b_ih: Value | None, b_hh: Value | None,
    out: tuple[Value, ...], needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    return _recorded(_gru_once, (x, h, w_ih, w_hh, b_ih, b_hh), g, needs)


lstm_layer_p: Any = nary(_lstm_layer, inputs=7, joint=_lstm_layer_joint, outputs=True)
gru_layer_p: Any = nary(_gru_layer, inputs=6, joint=_gru_layer_joint, outputs=True)
rnn_layer_p: Primitive = nary(_rnn_layer, inputs=6, joint=_rnn_layer_joint)
lstm_cell_p: Any = nary(_lstm_cell, inputs=7, joint=_lstm_cell_joint, outputs=True)
gru_cell_p: Any = nary(_gru_cell, inputs=6, joint=_gru_cell_joint, outputs=True)


# --- Sequences --------------------------------------------------------------------------------------


class _Layer:
    """One direction of one layer: its step, its weights, and (for an LSTM) a projection of the hidden state."""

    def __init__(
        self, step: Step, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, w_hr: Any = None,
    ) -> None:  # fmt: skip
        self.step, self.w_ih, self.w_hh, self.b_ih, self.b_hh, self.w_hr = step, w_ih, w_hh, b_ih, b_hh, w_hr

    def advance(self, given: Tensor, state: Any) -> Any:
        hidden = state[0] if isinstance(state, tuple) else state
        state = self.step(given, linear(hidden, self.w_hh, self.b_hh), state)
        if self.w_hr is not None:
            state = (linear(state[0], self.w_hr), state[1])
        return state

    def over(self, x: Tensor, state: Value | tuple[Any, ...], backward: bool) -> tuple[Tensor, Any]:
        """Return the outputs of all steps, and the last state."""
        parts = state if isinstance(state, tuple) else (state,)
        weights = (self.w_ih, self.w_hh, self.b_ih, self.b_hh)
        primitive = lstm_layer_p if self.step is _lstm_step else gru_layer_p if self.step is _gru_step else rnn_layer_p
        if self.w_hr is None and x.array.shape[0] and _has_kernel(primitive, x, *parts, *weights):
            return self._at_once(x, parts, weights, backward)
        out, *rest = self.states(x, state, backward)
        last = 0 if backward else -1
        return out, (out[last], rest[0][last]) if isinstance(state, tuple) else out[last]

    def _at_once(self, x: Tensor, state: Any, weights: Any, backward: bool) -> tuple[Tensor, Any]:
        last = 0 if backward else -1
        if self.step is _lstm_step:
            out, cells, _ = lstm_layer_p(x, *state, *weights, backward)
            return out, (out[last], cells[last])
        if self.step is _gru_step:
            out = gru_layer_p(x, *state, *weights, backward)[0]
        else:
            out = rnn_layer_p(x, *state, *weights, backward, self.step is _relu_step)
        return out, out[last]

    def states(self, x: Tensor, state: Any, backward: bool) -> list[Tensor]:
        """Return the hidden states of all steps, and for an LSTM the cell states, step by step."""
        by_input = linear(x, self.w_ih, self.b_ih)
        if isinstance(state, tuple):  # autocast: an LSTM computes all of it in the lower precision
            state = tuple([s.to(by_input.dtype) for s in state])
        given = by_input.unbind(0)
        outs: list[Any] = [None] * len(given)
        for t in reversed(range(len(given))) if backward else range(len(given)):
            state = outs[t] = self.advance(given[t], state)
        if isinstance(state, tuple):
            return [stack([s[i] for s in outs], 0) for i in (0, 1)]
        return [stack(outs, 0)]

    def over_packed(
        self, x: Tensor, sizes: list[int], state: Value | tuple[Any, ...], backward: bool,
    ) -> tuple[Tensor, Any]:  # fmt: skip
        given = linear(x, self.w_ih, self.b_ih).split(sizes)
        outs: list[Any] = [None] * len(given)
        whole, done = state, []
        going = sizes[-1] if backward else sizes[0]
        state = _rows(whole, 0, going)
        for t in reversed(range(len(given))) if backward else range(len(given)):
            if sizes[t] < going:  # the shortest sequences have ended
                done.append(_rows(state, sizes[t], going))
                state = _rows(state, 0, sizes[t])
            elif sizes[t] > going:  # longer ones were under way; shorter ones begin
                state = _joined([state, _rows(whole, going, sizes[t])])
            going = sizes[t]
            state = self.advance(given[t], state)
            outs[t] = state[0] if isinstance(state, tuple) else state
        return cat(outs), _joined([state, *reversed(done)]) if done else state


def _rows(state: Value | tuple[Any, ...], start: int, stop: int) -> Value | tuple[Any, ...]:
    return tuple(s[start:stop] for s in state) if isinstance(state, tuple) else state[start:stop]


def _joined(states: list[Any]) -> Tensor | tuple[Tensor, ...]:
    if isinstance(states[0], tuple):
        return tuple(cat(list(parts)) for parts in zip(*states, strict=True))
    return cat(states)


def _stacked(
    step: Step, x: Tensor, sizes: list[int] | None, state: Any, params: Sequence[Tensor], has_biases: bool,
    num_layers: int, p: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Any]:  # fmt: skip
    """Run layers one above the other, each in one or two directions; return outputs and last states."""
    two = isinstance(state, tuple)
    projected = two and state[0].array.shape[2] != state[1].array.shape[2]
    each = 2 + 2 * has_biases + projected
    directions = 2 if bidirectional else 1
    if len(params) != each * num_layers * directions:
        raise RuntimeError(f"expected {each * num_layers * directions} weights, got {len(params)}")
    if sizes is None:
        if x.array.ndim != 3:
            raise RuntimeError(f"input must have 3 dimensions, got {x.array.ndim}")
        if batch_first:
            x = transpose_p(x, 0, 1)
    if x.array.shape[-1] != params[0].array.shape[1]:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {params[0].array.shape[1]}, got {x.array.shape[-1]}"
        )
    last: list[Any] = []
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            number = layer * directions + direction
            own = params[number * each : (number + 1) * each]
            b_ih, b_hh = own[2:4] if has_biases else (None, None)
            one = _Layer(step, own[0], own[1], b_ih, b_hh, own[-1] if projected else None)
            begin = tuple(s[number] for s in state) if two else state[number]
            if sizes is None:
                out, end = one.over(x, begin, direction == 1)
            else:
                out, end = one.over_packed(x, sizes, begin, direction == 1)
            outs.append(out)
            last.append(end)
        x = outs[0] if directions == 1 else cat(outs, -1)
        if p and train and layer < num_layers - 1:
            x = dropout(x, p)
    if sizes is None and batch_first:
        x = transpose_p(x, 0, 1)
    ends: Any = tuple(stack(list(parts)) for parts in zip(*last, strict=True)) if two else stack(last)
    return x, ends


def _run(step: Step, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> tuple[Tensor, Any]:
    """Read the arguments of either form: sequences (input, hx, params, ...), or packed (data, batch_sizes, hx, ...)."""
    rest = ("params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
    packed = "batch_sizes" in kwargs or (len(args) > 2 and _is_state(args[2], args[1], name))
    names = ("data", "batch_sizes", "hx", *rest) if packed else ("input", "hx", *rest, "batch_first")
    given = dict(zip(names, args, strict=False)) | kwargs
    missing = [n for n in names if n not in given]
    if missing:
        raise TypeError(f"{name}() missing required arguments: {', '.join(missing)}")
    state = given["hx"]
    state = tuple(state) if name == "lstm" else state
    sizes = [int(n) for n in given["batch_sizes"].array] if packed else None
    return _stacked(
        step, given["data" if packed else "input"], sizes, state, given["params"], given["has_biases"],
        given["num_layers"], given["dropout"], given["train"], given["bidirectional"], given.get("batch_first", False),
    )  # fmt: skip


def _is_state(value: object, before: Any, name: str) -> bool:
    """Return whether the third argument is a state, so that the second must be batch sizes."""
    if isinstance(value, TensorBase):
        return True
    return name == "lstm" and isinstance(value, tuple | list) and isinstance(before, TensorBase)


def rnn_tanh(*args: object, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run recurrent layers with tanh over sequences.

    The arguments are (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or of
    packed sequences (data, batch_sizes, hx, params, ...).
    """
    return _run(_tanh_step, args, kwargs, "rnn_tanh")


def rnn_relu(*args: object, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run recurrent layers with relu over sequences; the arguments are those of `rnn_tanh`."""
    return _run(_relu_step, args, kwargs, "rnn_relu")


def gru(*args: object, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run gated recurrent units over sequences; the arguments are those of `rnn_tanh`."""
    return _run(_gru_step, args, kwargs, "gru")


def lstm(*args: object, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Run long short-term memory over sequences; `hx` is a pair, and so are the last states returned.

    The arguments are those of `rnn_tanh`.
    """
    out, (hidden, cell) = _run(_lstm_step, args, kwargs, "lstm")
    return out, hidden, cell
