"""What is rewritten before a program is written: constants computed once, and what ONNX has one operator for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiler.graph import Step, Value
from ..core.nodes import wrap
from ..export.program import Call, Program, is_step
from ..export.sizes import Varying

__all__ = ["BATCH_NORM", "fold_constants", "gather_batch_norms"]

_MOST_FOLDED = 1 << 20  # bytes
BATCH_NORM = Step("batch_normalization", lambda *_: None)


def fold_constants(program: Program) -> None:
    """Compute lines whose operands are constants of one size."""
    left = []
    for call in program.calls:
        if not _is_foldable(program, call):
            left.append(call)
            continue
        arrays = [program.constants[o] if isinstance(o, Value) else o for o in call.operands]
        if is_step(call.op):
            found = call.op.function(*arrays, *call.params)
        else:  # of tensors: an op brings these to one dtype, and bare arrays not
            operands = [wrap(a) if isinstance(o, Value) else a for a, o in zip(arrays, call.operands, strict=True)]
            found = call.op.call(*operands, *call.params)
        for value, result in zip(call.outputs, found if call.op.outputs else (found,), strict=True):
            program.constants[value] = np.asarray(result if is_step(call.op) else result.array)
    program.calls = left


def _is_foldable(program: Program, call: Call) -> bool:
    if not call.inputs or (is_step(call.op) and call.op.random):
        return False
    if any(not isinstance(program.constants.get(v), np.ndarray) for v in call.inputs):
        return False
    if any(math.prod(v.shape) * v.dtype.itemsize > _MOST_FOLDED for v in call.outputs):
        return False
    return not any(map(_varies, (*call.operands, *call.params)))


def _varies(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_varies, value))
    if isinstance(value, slice):
        return _varies((value.start, value.stop, value.step))
    return isinstance(value, Varying)


def gather_batch_norms(program: Program) -> None:
    """Write ``(x - mean) * rsqrt(var + eps) * weight + bias``, by channel, as one line."""
    makers = {v: c for c in program.calls for v in c.outputs}
    for at, call in enumerate(program.calls):
        found = _batch_norm(call, makers)
        if found is not None:
            program.calls[at] = Call(BATCH_NORM, found[:5], found[5:], call.outputs, call.place, call.scope)
    program.prune()


def _batch_norm(call: Call, makers: dict[Value, Call]) -> tuple[Any, ...] | None:
    if call.name != "add" or len(call.outputs[0].shape) < 2:
        return None
    parts: list[Any] = []
    step: Any = call
    for name in ("add", "mul", "mul", "sub"):
        if step is None or step.name != name or len(step.inputs) != 2:
            return None
        parts.append(step.operands[1])
        x = step.operands[0]
        step = makers.get(x)
    shift, scale, rate, mean = parts
    root = makers.get(rate)
    if root is None or root.name != "rsqrt":
        return None
    spread = makers.get(root.operands[0])
    if spread is None or spread.name != "add" or type(spread.operands[1]) is not float:
        return None
    channels = [_channel(v, makers, call.outputs[0].shape) for v in (scale, shift, mean, spread.operands[0])]
    if None in channels or x.dtype != call.outputs[0].dtype or any(c.dtype != x.dtype for c in channels if c):
        return None
    return (x, *channels, spread.operands[1])


def _channel(value: Any, makers: dict[Value, Call], shape: Any) -> Any:
    """Return the vector that was reshaped to stand at the second axis, or None."""
    maker = makers.get(value)
    if maker is None or maker.name != "reshape":
        return None
    source = maker.operands[0]
    expected = (1, shape[1], *(1,) * (len(shape) - 2))
    return source if source.shape == (shape[1],) and value.shape == expected else None
