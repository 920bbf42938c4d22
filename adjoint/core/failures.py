"""Errors of kernels as users see them: torch's class and key phrase, the op, its operands, and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Op, Value
from ..errors import FreedGraphError, InPlaceError, describe, place
from . import device, modes
from .anomaly import has_nan, recording
from .nodes import Cotangents, Freed, Node, shown, trail_of
from .tensor import Ledger, TensorBase, depth_outside


def translate(op: Op, error: Exception, inputs: tuple[Any, ...]) -> Exception:
    """Return the exception a user should see when `op` failed on `inputs` with `error`."""
    arrays = [v.array if isinstance(v, TensorBase) else v for v in inputs]
    if op.traits.explain is not None:
        better = op.traits.explain(error, *arrays)
        if better is not None:
            return _noted(better, op, inputs)
    better = _of_devices(arrays) or _of_shapes(op, error, arrays) or _of_dtypes(op, error, arrays)
    if better is not None:
        return _noted(better, op, inputs)
    if isinstance(error, np.linalg.LinAlgError):
        return error
    return _noted(error, op, inputs)


def _noted(error: Exception, op: Op, inputs: tuple[Any, ...]) -> Exception:
    shown = ", ".join(describe(v) for v in inputs)
    note = f"in {op.name}({shown})"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


def _of_devices(arrays: list[Any]) -> Exception | None:
    places = {str(device.of(a)) for a in arrays if hasattr(a, "dtype") and hasattr(a, "shape") and a.ndim}
    if len(places) < 2:
        return None
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{' and '.join(sorted(places))}! Move one with .to(device)."
    )


def broadcast_error(a: tuple[int, ...], b: tuple[int, ...]) -> RuntimeError | None:
    """Return torch's error for two shapes that do not broadcast, or None if they do."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for dim in range(rank - 1, -1, -1):
        if left[dim] != right[dim] and 1 not in (left[dim], right[dim]):
            return RuntimeError(
                f"The size of tensor a ({left[dim]}) must match the size of tensor b ({right[dim]}) "
                f"at non-singleton dimension {dim}; the shapes are {list(a)} and {list(b)}"
            )
    return None


def _of_shapes(op: Op, raised: Exception, arrays: list[Any]) -> Exception | None:
    if not op.promotes and "could not be broadcast" not in str(raised):
        return None
    shapes = [tuple(a.shape) for a in arrays if hasattr(a, "shape")]
    for i, first in enumerate(shapes):
        for second in shapes[i + 1 :]:
            error = broadcast_error(first, second)
            if error is not None:
                return error
    return None


_TITLES = {
    "float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char",
    "uint8": "Byte", "bool": "Bool", "float16": "Half", "bfloat16": "BFloat16", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def title_of(dtype: Any) -> str:
    """Return the name of a dtype in torch's messages."""
    return _TITLES.get(dtype.name, str(dtype.name))


def not_implemented(name: str, x: Value) -> NotImplementedError:
    """Return the error for an op that does not take the dtype of `x`."""
    return NotImplementedError(f"\"{name}\" not implemented for '{title_of(x.dtype)}': convert with .to(dtype) first")


def _of_dtypes(op: Op, error: Exception, arrays: list[Any]) -> Exception | None:
    if not isinstance(error, TypeError):
        return None
    if not ("ufunc" in str(error) or "boolean" in str(error)):
        return None
    kinds = [title_of(a.dtype) for a in arrays if hasattr(a, "dtype")]
    if not kinds and arrays:
        given = type(arrays[0]).__name__
        return TypeError(f"{op.name}(): argument 'input' (position 1) must be Tensor, not {given}")
    return NotImplementedError(
        f"\"{op.name}\" not implemented for '{kinds[0] if kinds else '?'}': the op does not take "
        f"{', '.join(kinds) or 'these operands'}; convert with .to(dtype)"
    )


# --- In a backward pass ------------------------------------------------------------------------------


def freed_error(node: Node, freed: Freed) -> FreedGraphError:
    """Return the error for a second pass over a freed node."""
    message = (
        "Trying to backward through the graph a second time (or directly access saved tensors after they "
        "have already been freed). Saved intermediate values of the graph are freed when you call "
        ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
        "graph a second time or if you need to access saved tensors after calling backward."
    )
    first = place(freed.code, freed.lasti)
    recorded = place(node.code, node.lasti)
    detail = f" The node is {node.op.title}"
    if recorded:
        detail += f", recorded at {recorded}"
    if first:
        detail += f"; its saved values were freed by the backward pass started at {first}"
    return FreedGraphError(
        message + detail + ". If a value is carried from one step to the next, detach() it in between."
    )


def overwritten(node: Node, position: int, ledger: Ledger) -> InPlaceError:
    """Return the error for a saved value that was written after it was saved."""
    names = (*node.op.inputs, "result")
    which = names[position] if position < len(names) else "value"
    saved_at, written_at = place(node.code, node.lasti), place(ledger.code, ledger.lasti)
    return InPlaceError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{node.op.title} saved its {'result' if which in ('out', 'result') else f'input {which!r}'}"
        f"{f' at {saved_at}' if saved_at else ''}, and {ledger.operation or 'an in-place op'} overwrote it"
        f"{f' at {written_at}' if written_at else ''} (it is at version {ledger.version}). Write to a copy "
        "(x.clone()) or use the out-of-place op. Hint: adjoint.autograd.set_detect_anomaly(True) shows "
        "the whole forward traceback."
    )


def refuse_nan(node: Node, edges: Sequence[Any], results: Sequence[Any]) -> None:
    """Raise if a node's rules have returned a NaN."""
    for i, r in enumerate(results):
        if edges[i] is None or r is None or isinstance(r, Cotangents):
            continue
        value = r.array if isinstance(r, TensorBase) else r
        if has_nan(value):
            raise RuntimeError(f"Function '{node.op.title}' returned nan values in its {i}th output.")


def explain_backward(error: Exception, node: Node, freed: Freed | None) -> None:
    """Add to an exception which op's backward it came from and where that op was recorded."""
    if node is None:
        return
    if type(node.saved) is Freed and node.saved is not freed and not isinstance(error, RuntimeError):
        if modes.local.anomaly:
            _warn_of_anomaly(node)
        raise freed_error(node, node.saved) from None
    where = place(node.code, node.lasti)
    note = f"in the backward of {shown(node).op.title}" + (f", recorded at {where}" if where else "")
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    if modes.local.anomaly:
        _warn_of_anomaly(node)


def _warn_of_anomaly(node: Any) -> None:
    """Warn with the forward traceback of the op whose backward failed, and of those that led to it, as torch does."""
    what, told = "Error detected in", "forward call that caused the error"
    while node is not None:
        text, trail, where = f"{what} {shown(node).op.title}. ", trail_of(node), place(node.code, node.lasti)
        if trail is None:
            text += (
                "No forward pass information available. Enable detect anomaly during forward pass for more information."
                f"{f' It was recorded at {where}.' if where else ''}"
            )
        else:
            text += f"Traceback of {told}:\n{''.join(trail.format())}"
        warnings.warn(text, stacklevel=depth_outside())
        node = None if trail is None else recording.parent(node.stamp)
        what, told = "Previous calculation was induced by", "forward call that induced the previous calculation"
