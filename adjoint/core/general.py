"""The general recorder: the complete, slow path of calling a primitive.

It runs whenever a call may be off the fast path: a transform, a mode, a subclass. The recorders (fast_path.py) are
its fast special cases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._typing import Params
from ..errors import describe, place
from ..scalar.symbol import Symbol
from . import device, modes, primitive
from .anomaly import Trail, has_nan
from .dtypes import default, dtype, floating, of_number
from .nodes import MultipleNode, Node, attach_outputs, differentiable, extra_of, registry, wrap
from .overrides import has_handler, overridden, plain
from .payload import Payload, grad_at, inside, payload_of, top_payload
from .primitive import Op
from .promotion import holds_numpy, promote_all, promote_some, python_scalars
from .saved import pack, refuse_inference
from .tensor import STALE, InferenceStorage, TensorBase, View, caller
from .views import edge_of, note_view, shares, unrecorded_view

ndarray = np.ndarray

fill: Callable[..., Any] = None  # type: ignore[assignment]  # set once by the recorders


def general(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive by the slow path, with every transform and mode taken into account."""
    for v in inputs:
        if type(v) is Symbol:  # a formula is being printed, whatever else is on
            return op.kernel(*inputs, *params)
    if params and holds_numpy(params):
        params = python_scalars(params)
    if modes.unusual:
        if modes.local.observer is not None:
            return modes.local.observer.call(op, inputs, params, unobserved)
        if modes.unusual == 1 and modes.local.autocast is not None:
            return lowered(op, modes.local.autocast(op, inputs), params)
    try:
        return unobserved(op, inputs, params)
    except (TypeError, AttributeError) as error:
        if not modes.local.subclasses_off and has_handler(inputs):
            return overridden(op, inputs, params)
        refuse_strangers(op, inputs, error)
        raise


def lowered(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], **options: Any) -> Any:
    """Call a primitive on inputs that autocast has converted. If nothing else is on, its recorder runs."""
    modes.note_unusual(-1)
    try:
        return op.call(*inputs, *params, **options)
    finally:  # by a store: see modes.py
        modes.unusual += 1
        modes.note_unusual(0)


def unobserved(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive without its observers."""
    if not modes.unusual and not any(isinstance(v, TensorBase) for v in inputs):
        if type(inputs[0]) in NUMBERS and all(type(v) in NUMBERS for v in inputs):
            return _of_numbers(op, inputs, params)
        top = top_payload(inputs)
        if top is not None and top.level:
            return escaped(op, inputs, params, top)
        if inputs and _is_stranger(inputs[0]):  # NumPy would take a list
            raise _no_tensor(op.name, inputs[0])
        return run_raw(op, inputs, params)
    if modes.unusual and modes.local.autocast is not None:
        inputs = modes.local.autocast(op, inputs)
    if inputs and not hasattr(inputs[0], "shape") and not any(isinstance(v, TensorBase) for v in inputs):
        if _is_stranger(inputs[0]):
            raise _no_tensor(op.name, inputs[0])
        if not inside.levels and len(inputs) == 1:
            return _of_numbers(op, inputs, params)
    top = None
    bare = True
    for v in inputs:
        if type(v) is not ndarray:
            if isinstance(v, TensorBase):
                bare, v = False, v.array
            if isinstance(v, Payload) and (top is None or v.level > top.level):
                top = v
    if not inside.levels:
        return _at_level(op, inputs, params, top) if top is None or not top.level else escaped(op, inputs, params, top)
    if bare:
        return run_raw(op, inputs, params) if top is None else _on_payloads(op, inputs, params, top)
    if (wanted := grad_at(0 if top is None else top.level)) is not modes.local.grad:
        modes.set_grad(wanted)
        try:
            return _at_level(op, inputs, params, top)
        finally:  # by stores: see modes.py
            modes.off[modes.local.key], modes.local.grad = None, not wanted
            if not wanted:
                modes.off.pop(modes.local.key, None)
    return _at_level(op, inputs, params, top)


def escaped(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], top: Payload) -> Any:
    """Call a primitive on a value of a transform that is over: what it holds, or an error."""
    freed = tuple([_outside(v, op) for v in inputs])
    if any(isinstance(payload_of(v), type(top)) for v in freed):
        return _at_level(op, inputs, params, top)
    return op.call(*freed, *params)


def _outside(value: object, op: Op) -> Any:
    payload = payload_of(value)
    while payload is not None and payload.level:
        below = payload.outside(op.name)
        value = below if isinstance(below, TensorBase) or not isinstance(value, TensorBase) else wrap(below)
        if below is payload:
            break
        payload = payload_of(value)
    return value


NUMBERS = frozenset((int, float, complex, bool))
_PLACES = ("input", "other")


def _is_stranger(value: object) -> bool:
    """Return whether a kernel cannot compute with a value: it is no array, tensor or number."""
    return type(value) not in NUMBERS and not hasattr(value, "shape") and not isinstance(value, int | float | complex)


def refuse_strangers(op: Op, inputs: tuple[Any, ...], error: Exception | None = None) -> None:
    """Raise TypeError for the first input that is no array, tensor or number, unless `error` has named one."""
    if isinstance(error, TypeError) and "not " in str(error) and "not support" not in str(error):
        return
    for at, value in enumerate(inputs):
        if _is_stranger(value):
            raise _no_tensor(op.name, value, at) from error


def _no_tensor(name: str, value: object, at: int = 0) -> TypeError:
    word = _PLACES[at] if at < len(_PLACES) else f"tensor{at}"
    found = "torch.dtype" if isinstance(value, dtype) else type(value).__name__
    return TypeError(
        f"{name.removesuffix('_all')}(): argument '{word}' (position {at + 1}) must be Tensor, not {found}; "
        "convert it with adjoint.tensor(...)"
    )


_TAKES_NUMBERS = frozenset(("add", "sub", "mul", "div", "div_floor"))


def _of_numbers(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive on Python numbers alone, which only arithmetic ops accept; else raise."""
    first = inputs[0]
    if op.name not in _TAKES_NUMBERS:
        raise _no_tensor(op.name, first)
    return op.call(wrap(np.asarray(first, of_number(first).np)), *inputs[1:], *params)


def _at_level(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], top: Payload | None) -> Any:
    """Call a primitive at the level of `top`, in the grad mode of that level."""
    level = 0 if top is None else top.level
    values, mine = _values_at(inputs, level)
    if mine is None:
        return overridden(op, inputs, params)
    if top is not None and top.whole:
        c = type(top).apply(op, level, inputs, params)
        params = (*(None,) * len(op.saves.hidden), *params)
        return _record_outputs(op, inputs, mine, values, params, c) if any(mine) else c
    if op.promotes:
        values = promote_all(values) if op.promotes is True else promote_some(values, op.promotes or ())
    if op.floating:
        values = tuple([as_floating(v) for v in values])
    hidden: Sequence[Any] = (None,) * len(op.saves.hidden)
    try:
        if top is not None:
            c = type(top).apply(op, level, values, params)
        elif hidden:
            c, *hidden = op.form_for(values).whole(*values, *params)
        else:
            c = op.kernel_for(values)(*values, *params)
    except RuntimeWarning:
        if top is not None:
            raise
        c = quietly(op.kernel, *values, *params)
    except Exception as error:
        if top is not None:
            raise explained(op, error, (*inputs, *params)) from error.__cause__
        c = recovered(op, error, (*inputs, *params), values, params)
    if modes.unusual and modes.local.anomaly_forward and top is None:
        refuse_new_nan(op.name, values, c)
    if not any(mine):
        return c
    return _record_outputs(op, inputs, mine, values, (*hidden, *params), c)


def _on_payloads(op: Op, values: tuple[Any, ...], params: tuple[Any, ...], top: Payload) -> Any:
    """Call a primitive on bare payloads, as rules inside a transform do: nothing is recorded at their level."""
    if op.promotes:
        values = promote_all(values) if op.promotes is True else promote_some(values, op.promotes or ())
    if op.floating:
        values = tuple([as_floating(v) for v in values])
    try:
        return type(top).apply(op, top.level, values, params)
    except RuntimeWarning:
        raise
    except Exception as error:
        raise explained(op, error, (*values, *params)) from error.__cause__


def run_raw(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive on plain values, as rules do: NumPy promotes, and its 0-d scalars do not change dtype."""
    try:
        return op.kernel_for(inputs)(*inputs, *params)
    except RuntimeWarning:
        return unchecked(op.kernel, *inputs, *params)
    except Exception as error:
        raise explained(op, error, (*inputs, *params)) from error.__cause__


def refuse_new_nan(name: str, inputs: Sequence[Any], c: object) -> None:
    """Raise if an op made a NaN out of inputs that have none."""
    results = c if isinstance(c, tuple) else (c,)
    if not any(map(has_nan, results)) or any(map(has_nan, inputs)):
        return
    shown_inputs = ", ".join(describe(v) for v in inputs)
    code, lasti = caller()
    raise RuntimeError(
        f"Function '{name}' returned nan values in its forward: {name}({shown_inputs}) made a NaN out of inputs "
        f"that have none, at {place(code, lasti)}. It was found by anomaly detection; detect_anomaly(forward=False) "
        "checks gradients only."
    )


def _values_at(inputs: tuple[Any, ...], level: int) -> tuple[tuple[Any, ...], tuple[bool, ...] | None]:
    """Return what the kernel sees of each input, and which inputs are tensors of this level.

    None instead of the latter means that an input's class must be checked before anything is computed.
    """
    values, mine = [], []
    for value in inputs:
        if isinstance(value, TensorBase):
            if type(value) not in plain and not modes.local.subclasses_off:
                return (), None
            if level and value.node is STALE:  # a view inside a transform, whose base was written
                edge_of(value)
            array = value.array
            own = (array.level if isinstance(array, Payload) else 0) == level
            # What is of a lower level and has no history there is no more than its value.
            values.append(array if own or value.node is None else value)
            mine.append(own)
        else:
            values.append(value)
            mine.append(False)
    return tuple(values), tuple(mine)


def _record_outputs(
    op: Op, inputs: tuple[Any, ...], mine: tuple[bool, ...], values: Sequence[Any], params: Params, c: Any
) -> Any:
    owned = inputs if all(mine) else tuple([x if own else None for x, own in zip(inputs, mine, strict=True)])
    edges: tuple[Any, ...] = (None,) * len(owned)  # they are not needed, nor is the history of a stale view
    if modes.is_grad_enabled() and not modes.local.inference:
        edges = tuple([edge_of(x) if x is not None and r else None for x, r in zip(owned, op.rules, strict=True)])
    recording = any(e is not None for e in edges)
    if op.outputs:
        return _record_several(op, owned, edges, recording, values, params, c)
    out = _outcome(op, owned, params, c, _kind(View.NORMAL))
    if recording and differentiable(out.array.dtype):
        out.node = build_node(op, edges, owned, values, params, out.array)
    return out


def _record_several(
    op: Op, owned: Any, edges: Any, recording: bool, values: Any, params: Any, c: Sequence[Any]
) -> tuple[Any, ...]:
    kind = _kind(View.MULTIPLE)
    outs = tuple([_outcome(op, owned, (*params, i), array, kind) for i, array in enumerate(c)])
    if recording:
        arrays = tuple([o.array for o in outs])
        node = build_node(op, edges, owned, values, params, arrays)
        node.metas = tuple([(a.shape, a.dtype) for a in arrays])
        attach_outputs(node, outs)
    return outs


def _kind(usual: int) -> int:
    """Return the kind of a view made in the current mode."""
    if modes.is_grad_enabled():
        return usual
    return View.INFERENCE if modes.unusual and modes.local.inference else View.NO_GRAD


def _outcome(op: Op, owned: tuple[Any, ...], params: Any, c: Any, kind: int) -> Any:
    """Return the tensor of a result, as a view of the first input where the op makes views."""
    out = wrap(c)
    if isinstance(out.array, Payload):
        out.array.note_holder(out)
    if op.view and owned[0] is not None and shares(out.array, owned[0].array):
        note_view(out, owned[0], op, params, kind)
        if kind in (View.NO_GRAD, View.INFERENCE) and owned[0].node is not None and op.rules[0] is not None:
            out.node = unrecorded_view(out)
    elif modes.unusual and modes.local.inference:
        out.memory = InferenceStorage()
        out.memory.ledger = None
    return out


def build_node(op: Op, edges: tuple[Any, ...], owned: Any, values: Any, params: Any, out: Any) -> Any:
    """Return the node of a recorded call, with what its rules save."""
    saves, several = op.saves, op.traits.outputs
    first = out[0] if several else out
    if saves.outputs is not None:
        out = tuple([o if i in saves.outputs else None for i, o in enumerate(out)])
    saved = None
    if any(saves.indexes):
        saved = saves.save(edges, (*values, out, *params, *[getattr(values[i], what) for i, what in saves.derived]))
    used = op.variant(first) if op.traits.holomorphic or type(first) is not ndarray else op
    n = fill(
        MultipleNode() if several else Node(), used, edges, saved, _targets(op, owned, values, out), sys._getframe(1)
    )
    if modes.inferred:
        refuse_inference(n, owned)
    if modes.unusual:
        _note_unusual_node(n, owned)
    return n


def _targets(op: Op, owned: Sequence[Any], values: Sequence[Any], out: Any) -> Any:
    if not op.promotes:
        return None
    joined = op.sequence is not None  # inputs of cat and stack do not broadcast
    changed = any(
        x is not None and (v.dtype != x.array.dtype or (v.shape != out.shape and not joined))
        for x, v in zip(owned, values, strict=True)
    )
    return tuple([target_of(x) for x in owned]) if changed else None


def target_of(value: object) -> tuple[Any, Any] | None:
    """Return the shape and dtype of an input that is a tensor."""
    return (value.array.shape, value.array.dtype) if isinstance(value, TensorBase) else None


def _note_unusual_node(node: Node, owned: Sequence[Any]) -> None:
    local = modes.local
    if local.anomaly_stack:
        extra_of(node).traceback = Trail.now()
    if local.pack_hooks and node.saved is not None:
        pack(node, *local.pack_hooks[-1], owned)


def as_floating(value: object) -> Any:
    """Return the value converted to a floating dtype, for ops that make floats of integers."""
    dtype = value.array.dtype if isinstance(value, TensorBase) else getattr(value, "dtype", None)
    if dtype is None:
        return value if isinstance(value, float | complex) else np.asarray(value, default().np)
    wanted = floating(dtype)
    return value if dtype == wanted else primitive.cast(value, wanted)


def quietly(kernel: Callable[..., Any], *args: object) -> Any:
    """Call a kernel that has warned of a NaN or an infinity, which are values like any other."""
    c = unchecked(kernel, *args)
    if modes.local.anomaly_forward:
        op = next((op for op in registry.values() if op.kernel is kernel), kernel)
        refuse_new_nan(getattr(op, "name", getattr(kernel, "__name__", "an op")), args, c)
    return c


def unchecked(kernel: Callable[..., Any], *args: object) -> Any:
    """Call a kernel or a rule without NumPy's warnings, NaN or not."""
    with np.errstate(all="ignore"):
        return kernel(*args)


def recovered(
    op: Op, error: Exception, inputs: tuple[Any, ...], values: tuple[Any, ...], params: tuple[Any, ...]
) -> Any:
    """Return the result after all, where a 0-d value on the CPU met arrays on a GPU; else raise."""
    mixed = any(type(v) is ndarray and v.ndim == 0 for v in values) and any(
        hasattr(v, "ndim") and device.module_of(v) is not np for v in values
    )
    if not mixed:
        raise explained(op, error, inputs) from error.__cause__
    return op.kernel_for(values)(*(v[()] if type(v) is ndarray and v.ndim == 0 else v for v in values), *params)


def explained(op: Op, error: Exception, inputs: tuple[Any, ...]) -> Exception:
    """Return the error a user should see for a kernel's exception."""
    from .failures import translate

    top = None if inside.levels else top_payload(inputs)
    if top is not None and top.level:
        top.outside(op.name)  # which may refuse
    return translate(op, error, inputs)


def rescued(op: Op, error: Exception, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Return what an op on a value of a transform that is over gives after all; else raise what a user should see."""
    top = None if inside.levels else top_payload(inputs)
    if top is not None and top.level:
        return escaped(op, inputs, params, top)
    raise explained(op, error, (*inputs, *params)) from error.__cause__
