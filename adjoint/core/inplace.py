"""Writing into tensors: the in-place forms of primitives.

An in-place op computes into its first input's array, then takes that input's place in the graph (rebasing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Kernel, Tensor, Value
from ..devices.cpu.attached import override
from ..devices.cpu.constants import float32_constants, float32_integers, float64_constants, float64_integers
from . import modes
from .dtypes import default, of
from .failures import broadcast_error, not_implemented
from .general import NUMBERS, build_node, explained, quietly, refuse_new_nan, refuse_strangers
from .nodes import differentiable, registry, wrap
from .overrides import answered, asked, has_handler, plain
from .payload import Payload, top_payload
from .primitive import Op, Primitive
from .promotion import convert, result_type
from .rebasing import copies_overlapping, rebase, with_part
from .tensor import (
    STALE,
    TensorBase,
    ledger_of,
    mark_stale,
    note_write,
    owner_of,
    storage_of,
)
from .views import edge_of, is_detached, is_detached_itself
from .writable import check_history, check_partial_overlap, check_writable, overlaps_itself

ndarray = np.ndarray
_f32, _f64 = np.dtype("float32"), np.dtype("float64")


def inplace(
    primitive: Primitive, host: Callable[..., None] | None = None, *, summary: str = "", example: str = ""
) -> Callable[..., Tensor]:
    """Return the in-place form of a primitive: writes into its first input and returns it.

    `host` is called as `Op.into` is, of arrays of NumPy's only, where it is quicker than the kernel. The CPU may
    override it, by the name of the in-place form. The docstring names the out-of-place function, or begins with
    `summary`, and ends with `example`.
    """
    op = primitive.op
    arity, name, ufunc = len(op.inputs), f"{op.name}_", isinstance(op.kernel, np.ufunc)
    host = host and override.kernel(name, host, (np.ndarray,))
    alone = arity == 1 and not op.params
    simple = not op.view and not op.outputs and (arity == 1 or op.promotes is True or op.into is not None)

    def call(input: TensorBase, *args: object, other: object = None) -> Any:
        x = input
        if other is not None:
            args = (other, *args)
        if arity > 2 and args:
            _refuse_number(op, args[0])
        if args and alone:
            raise TypeError(f"{name}() takes no arguments ({len(args)} given)")
        if len(args) < arity - 1 or (arity == 2 and args[0] is None):
            raise TypeError(f'{name}() missing {arity - 1} required positional arguments: "other", a Tensor')
        if len(args) > (most := arity - 1 + len(op.params)):
            raise TypeError(f"{name}() takes {most} positional arguments but {len(args)} were given")
        values = unrecorded(x, args[: arity - 1]) if simple and not modes.unusual else None
        if values is None:
            return write(op, x, args[: arity - 1], args[arity - 1 :])
        a = values[0]
        try:
            if ufunc:
                op.kernel(*values, a)
            elif op.into is not None:
                op.into(*values, *args[arity - 1 :])
            else:
                a[...] = op.kernel(*values, *args[arity - 1 :])
        except Exception as error:
            if not (ufunc and isinstance(error, RuntimeWarning)):  # which comes after the last element is written
                return write(op, x, args[: arity - 1], args[arity - 1 :])
            if modes.local.anomaly_forward:
                refuse_new_nan(name, values[1:], a)
        note_write(x, name)
        return x

    if simple and arity < 3:
        call = (_of_one if arity == 1 else _of_two)(op, name, host, call)
    elif host is not None or (op.into is not None and op.promotes is not True and not op.view and not op.outputs):
        call = _of_more(op, name, host or op.into, call)
    if arity == 2 and op.name in _OF_TENSORS:
        call = _of_tensors(op, call)
    call.__name__ = call.__qualname__ = f"{op.name}_"
    call.__doc__ = _described(op, summary, example)
    return call


_PUBLIC = {"conj": "conj_physical", "div_floor": "floor_divide"}  # functions with another name than their op


def _described(op: Op, summary: str, example: str) -> str:
    """Return the docstring of an in-place form."""
    name = _PUBLIC.get(op.name, op.name)
    summary = summary or f"In-place version of `{name}`: the result is written into `input`."
    kind = "Tensor" if op.name in _OF_TENSORS else "Tensor or number"
    other = f"\n    other : {kind}\n        As for `{name}`." if len(op.inputs) == 2 else ""
    examples = f"\n\n    Examples\n    --------\n    {example.strip()}" if example else ""
    return f"""{summary}

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.{other}

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or the result does not fit its shape or dtype.{examples}
    """


# Ops of which a number cannot be the second operand, and what that is called.
_OF_TENSORS = {
    "addcdiv": "tensor1", "addcmul": "tensor1", "atan2": "other", "gcd": "other", "heaviside": "values",
    "hypot": "other", "igamma": "other", "igammac": "other", "lcm": "other", "lerp": "end", "lerp_by": "end",
    "logical_and": "other", "logical_or": "other", "logical_xor": "other", "nextafter": "other",
}  # fmt: skip


def _of_tensors(op: Op, run: Callable[..., Any]) -> Callable[..., Any]:
    def call(input: TensorBase, *args: object, **kwargs: object) -> Any:
        _refuse_number(op, args[0] if args else kwargs.get("other"))
        return run(input, *args, **kwargs)

    return call


def _refuse_number(op: Op, value: Any) -> None:
    if isinstance(value, int | float | complex | str | list | tuple | dict) and op.name in _OF_TENSORS:
        given = f"argument '{_OF_TENSORS[op.name]}' (position 1) must be Tensor, not {type(value).__name__}"
        raise TypeError(f"{op.name}_(): {given}")


def _of_more(op: Op, name: str, run: Any, other_cases: Callable[..., Any]) -> Callable[..., Any]:
    """Return the in-place form of an op of several operands that do not promote, where nothing is recorded."""
    arity, total = len(op.inputs), len(op.inputs) + len(op.params) - 1

    def call(input: TensorBase, *args: Any) -> Any:
        a = input.array if not (modes.unusual or modes.guarded) and type(input) in plain else None
        if type(a) is not ndarray or not a.flags.carray or len(args) != total:
            return other_cases(input, *args)
        n, values = input.node, list(args)
        silent = modes.off and not modes.local.grad
        if (n is not None or input.lineage is not None) and (n is STALE or not silent):
            return other_cases(input, *args)
        for i in range(arity - 1):
            v = args[i]
            if type(v) in plain:
                values[i] = b = v.array
                if (v.node is not None and not silent) or (v.memory is not None and v.memory is input.memory):
                    return other_cases(input, *args)
                if type(b) is not ndarray:
                    return other_cases(input, *args)
            elif isinstance(v, TensorBase):
                return other_cases(input, *args)
            elif i == 0:
                _refuse_number(op, v)
        try:
            run(a, *values)
        except Exception:
            return other_cases(input, *args)
        note_write(input, name)
        return input

    return call


def _writer(op: Op, host: Callable[..., None] | None) -> tuple[Any, bool]:
    """Return how an op writes into its first array, and whether that is a ufunc's way."""
    kernel = op.kernel
    if isinstance(kernel, np.ufunc):
        return kernel, True

    def assign(a: Value, *rest: object) -> None:
        a[...] = kernel(a, *rest)

    return host or op.into or assign, False


def _of_one(op: Op, name: str, host: Any, other_cases: Callable[..., Any]) -> Callable[..., Any]:
    """Return the in-place form of an op of one operand: `inplace` for what optimizers write, in one frame."""
    (run, ufunc), count = _writer(op, host), len(op.params)

    def call(input: TensorBase, *args: object) -> Any:
        a = input.array if not (modes.unusual or modes.guarded) and type(input) in plain else None
        if type(a) is ndarray and (a.dtype is _f32 or a.dtype is _f64) and a.flags.carray:
            n = input.node
            if (n is None and input.lineage is None) or (n is not STALE and modes.off and not modes.local.grad):
                if len(args) != count:
                    return other_cases(input, *args)
                try:
                    if ufunc:
                        run(a, a)
                    else:
                        run(a, *args)
                except Exception as error:
                    if not (ufunc and isinstance(error, RuntimeWarning)):
                        return other_cases(input, *args)
                    if modes.local.anomaly_forward:
                        refuse_new_nan(name, (), a)
                note_write(input, name)
                return input
        return other_cases(input, *args)

    return call


def _of_two(op: Op, name: str, host: Kernel | None, other_cases: Callable[..., Any]) -> Callable[..., Any]:
    """Return the in-place form of an op of two operands: `inplace` for what optimizers write, in one frame."""
    (run, ufunc), count = _writer(op, host), len(op.params)

    def call(input: TensorBase, other: Any = None, *args: Any) -> Any:
        a = input.array if not (modes.unusual or modes.guarded) and type(input) in plain else None
        if type(a) is ndarray and (a.dtype is _f32 or a.dtype is _f64) and a.flags.carray:
            n = input.node
            silent = modes.off and not modes.local.grad
            if (n is None and input.lineage is None) or (n is not STALE and silent):
                t = type(other)
                b: Any = None
                if t is float:
                    b = (float32_constants if a.dtype is _f32 else float64_constants)[other]
                elif t is int:
                    b = (float32_integers if a.dtype is _f32 else float64_integers)[other]
                elif t in plain and (other.node is None or silent):
                    apart = other.memory is None or other.memory is not input.memory
                    b = other.array
                    if not apart or b.dtype is not a.dtype or b.shape != a.shape or type(b) is not ndarray:
                        b = None
                if b is not None and len(args) == count:
                    try:
                        if ufunc:
                            run(a, b, a)
                        else:
                            run(a, b, *args)
                    except Exception as error:
                        if not (ufunc and isinstance(error, RuntimeWarning)):
                            return other_cases(input, other, *args)
                        if modes.local.anomaly_forward:
                            refuse_new_nan(name, (b,), a)
                    note_write(input, name)
                    return input
        return other_cases(input, other, *args) if other is not None else other_cases(input, *args)

    return call


def unrecorded(x: TensorBase, rest: tuple[Any, ...]) -> list[Any] | None:
    """Return the operands of a write as optimizers do it: of one float dtype and shape, dense, without a history."""
    silent = modes.off and not modes.local.grad
    if type(x) not in plain or modes.guarded or ((x.node is not None or x.lineage is not None) and not silent):
        return None
    a = x.array
    if type(a) is not np.ndarray or not (a.dtype is _f32 or a.dtype is _f64) or not a.flags.carray or x.node is STALE:
        return None
    dtype, values = a.dtype, [a]
    for v in rest:
        if type(v) in plain:
            b = v.array
            if b.dtype is not dtype or b.shape != a.shape or type(b) is not np.ndarray:
                return None
            if (v.node is not None and not silent) or (v.memory is not None and v.memory is x.memory):
                return None
            values.append(b)
        elif type(v) is float or type(v) is int:
            values.append(float32_constants[v] if dtype is _f32 else float64_constants[v])
        else:
            return None
    return values


def write(op: Op, x: TensorBase, rest: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Compute `op` into the array of `x`, and rebase its history."""
    if not isinstance(x, TensorBase):
        raise TypeError(f"{op.name}_ writes into its first argument, which must be a Tensor, not {type(x).__name__}")
    inputs = (x, *rest)
    if len(inputs) != len(op.inputs):
        raise TypeError(f"{op.name}_() missing {len(op.inputs) - len(inputs)} required positional arguments")
    if len(params) > len(op.params):
        raise TypeError(f"{op.name}_() takes {len(op.inputs) + len(op.params) - 1} positional arguments, not more")
    owned = tuple([v if isinstance(v, TensorBase) else None for v in inputs])
    edges: tuple[Any, ...] = (None,) * len(owned)  # unrecorded: the history of a stale view is not needed
    if not modes.off or modes.local.grad:
        view = x.lineage
        if x.node is STALE and view is not None and view.base.node is not None and not is_detached(view):
            check_history(x)  # before its history is rebuilt, which may be refused with another message
        edges = tuple([edge_of(v) if v is not None and r else None for v, r in zip(owned, op.rules, strict=True)])
        if x.node is not None and edges[0] is None:
            edges = (edge_of(x), *edges[1:])
    recording = edges != (None,) * len(owned)
    overlapping = op.name in ("fill", "zero")  # one value for all, however often written
    check_writable(x, recording, op.name, overlapping)
    if modes.unusual and top_payload(inputs) is not None:
        return _write_payload(op, x, rest, params, recording)
    name = "floor_divide_" if op.name == "div_floor" else f"{op.name}_"
    for other in rest:
        if isinstance(other, TensorBase):
            if type(other) not in plain and not params and not modes.local.subclasses_off:
                result = asked(name, inputs)
                if result is not NotImplemented:
                    return result
            if other.memory is x.memory and x.memory is not None:
                check_partial_overlap(x.array, other.array)
        elif type(other) not in NUMBERS and not has_handler((other,)):
            refuse_strangers(op, inputs)
    try:
        values = _operands(op, inputs)
    except TypeError:
        result = answered(name, inputs)
        if result is NotImplemented:
            raise
        return result
    saved = _saved_before(op, edges, values, x.array) if recording else values
    if modes.unusual and modes.local.observer is not None:
        if recording:
            saved = modes.local.observer.saved_inputs(inputs, saved)
        modes.local.observer.compute_into(op, x, inputs, params, lambda: compute_into(op, x, values, params))
    else:
        compute_into(op, x, values, params)
    note_write(x, f"{op.name}_")
    if recording and differentiable(x.array.dtype):
        rebase(x, build_node(op.in_place(), edges, owned, saved, params, x.array), 0)
        if x.lineage is not None and type(x.array) is ndarray and not x.array.flags.c_contiguous:
            if overlaps_itself(x.array):  # which only a value for all may be written into
                x.lineage.base.node.op = copies_overlapping
    return x


def _saved_before(op: Op, edges: tuple[Any, ...], values: tuple[Any, ...], written: object) -> tuple[Any, ...]:
    """Return the operands as the rules save them: those in the memory about to be written as copies."""
    indexes = op.saves.indexes
    wanted = set(indexes[0]) if op.joint else {i for e, saved in zip(edges, indexes, strict=True) if e for i in saved}
    owner = owner_of(written)
    return tuple(
        v.copy() if i in wanted and hasattr(v, "copy") and (i == 0 or owner_of(v) is owner) else v
        for i, v in enumerate(values)
    )


def _operands(op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    values = tuple([v.array if isinstance(v, TensorBase) else v for v in inputs])
    if op.promotes is not True:
        if op.floating and of(values[0].dtype).category < 2:
            raise _uncastable(op, default(), of(values[0].dtype))
        return values
    dtype = result_type(values)
    target = of(values[0].dtype)
    if op.floating and dtype.category < 2:
        dtype = default()
    if dtype is not target and not can_cast(dtype, target) and op.name not in ("eq", "ne"):  # whose result is a bool
        if op.name in ("ge", "gt", "le", "lt"):  # which no complex number is
            raise not_implemented(f"{op.name}_cpu", convert(values[0], dtype, False))
        raise _uncastable(op, dtype, target)
    hosted = type(values[0]) is np.ndarray
    return tuple([convert(v, dtype, hosted) for v in values])


def _uncastable(op: Op, dtype: Any, target: Any) -> RuntimeError:
    return RuntimeError(
        f"result type {_title(dtype)} can't be cast to the desired output type {_title(target)}: "
        f"{op.name}_ writes its result into a {target.name} tensor; convert that first, or use {op.name}"
    )


_TITLES = {
    "float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char",
    "uint8": "Byte", "bool": "Bool", "float16": "Half", "bfloat16": "BFloat16", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def _title(dtype: Any) -> str:
    return str(_TITLES.get(dtype.name, dtype.name))


def can_cast(source: Any, target: Any) -> bool:
    """Return whether an op's result of dtype `source` may be stored as `target`.

    Examples
    --------
    >>> adjoint.can_cast(adjoint.float32, adjoint.int64)
    False
    """
    if source.category > target.category:
        return False
    return not (target.category == 0 and source.category > 0)


def compute_into(op: Op, x: TensorBase, values: tuple[Any, ...], params: tuple[Any, ...]) -> None:
    """Run the kernel with the array of `x` as its destination."""
    a = x.array
    if type(a) is not np.ndarray:  # a 0-d value on the CPU beside an array on a GPU
        values = tuple(v[()] if type(v) is np.ndarray and v.ndim == 0 else v for v in values)
    try:
        if isinstance(op.kernel, np.ufunc):
            if op.kernel is np.negative and type(a) is ndarray and not a.flags.c_contiguous:
                a[...] = np.negative(values[0])  # NumPy 2.4 misreads some strided inputs where the output is strided
                return
            op.kernel(*values, *params, out=a, casting="unsafe")
            return
        into = op.into if type(a) is ndarray else op.variants[type(a)].into
        if into is not None:
            into(a, *values[1:], *params)
            return
        c = op.kernel_for(values)(*values, *params)
    except RuntimeWarning:  # NumPy warns after the last element, so what a ufunc had to write is written
        if isinstance(op.kernel, np.ufunc):
            if modes.local.anomaly_forward:
                refuse_new_nan(f"{op.name}_", values[1:], a)
            return
        c = quietly(op.kernel, *values, *params)
    except Exception as error:
        shapes = [v.shape for v in values if hasattr(v, "shape")]
        raise _of_output(a.shape, shapes) or explained(op, error, (x, *values[1:])) from None
    shape = getattr(c, "shape", ())
    if shape != a.shape:
        problem = _of_output(a.shape, [shape])
        if problem is not None:
            raise problem
    a[...] = c


def _of_output(shape: tuple[int, ...], operands: list[tuple[int, ...]]) -> RuntimeError | None:
    try:
        full = np.broadcast_shapes(shape, *operands)
    except ValueError:
        for operand in operands:
            error = broadcast_error(tuple(shape), tuple(operand))
            if error is not None:
                return error
        return None
    if full == shape:
        return None
    return RuntimeError(
        f"output with shape {list(shape)} doesn't match the broadcast shape {list(full)}: an in-place op "
        "cannot grow the tensor it writes to; use the out-of-place op"
    )


def _write_payload(
    op: Op, x: TensorBase, rest: tuple[Any, ...], params: tuple[Any, ...], recording: bool = True
) -> Any:
    """Write inside a transform: payloads do not change, so the tensor, or the base it views, gets a new one."""
    top = top_payload((x, *rest))
    assert top is not None
    level = x.array.level if isinstance(x.array, Payload) else 0
    if level < top.level and not top.spreads:
        raise RuntimeError(_unbatched(op, x, rest))
    if not top.level and not isinstance(x.array, Payload):  # a tensor without elements, into one that has them
        top.concrete("to()")  # type: ignore[attr-defined]
    if top.whole and top is x.array and not recording:
        top.write(op, rest, params)
        ledger_of(storage_of(x)).version += 1
        return x
    _refresh_stale(x, *rest)
    if type(top).overwrite(op, x, rest, params, top.level):
        return x
    # What enters the op as a value is saved as it is now: the tensor itself is about to hold something else.
    before = x if level == top.level else wrap(x.array, x.node)
    result = op.call(before, *rest, *params)
    result = fitted(op, x, result)
    result.array.note_holder(x)
    recorded = modes.local.grad
    if x.lineage is None:
        x.array, x.node = (result.array, result.node) if recorded else (_keeping(result.array, x.array, False), x.node)
    else:
        base: Any = x.lineage.base
        if is_detached(x.lineage):
            if _has_history(result):
                _leave_detached(op, x, result)
                return x
            recorded = False
        whole = with_part(base, x.lineage.replay, result)
        if recorded:
            base.array, base.node = whole.array, whole.node
        else:
            base.array = _keeping(whole.array, base.array, is_detached(x.lineage))
        whole.array.note_holder(base)
        x.array, x.node = result.array, STALE
    ledger_of(storage_of(x)).version += 1  # no memory was written: a node that saved the old value still has it
    mark_stale(x, ledger_of(storage_of(x)), transformed=True)
    return x


def _keeping(new: Any, old: Any, tangent: bool) -> Any:
    """Return the value that an unrecorded write gives a tensor, with the history below that the old one had.

    With `tangent` that of the old one stays, too: it was written through a tensor that has none.
    """
    if type(new) is not type(old) or not isinstance(new, Payload) or not new.level or new.level != old.level:
        return new
    value, below = (v.below() for v in (new, old))
    bare = value.array if isinstance(value, TensorBase) else value
    edge = None
    if isinstance(below, TensorBase) and tuple(below.array.shape) == tuple(bare.shape):
        edge = edge_of(below)
    inner = _keeping(bare, below.array if isinstance(below, TensorBase) else below, tangent)
    if edge is None and inner is bare and not tangent:
        return new
    return (old if tangent else new).above(value if edge is None and inner is bare else wrap(inner, edge))


# What torch calls in-place ops where it refuses to write a batch into what is none; "aten::name_" unless said here.
_CALLED = dict.fromkeys(
    (
        "add",
        "sub",
        "mul",
        "div",
        "copy",
        "clamp_min",
        "clamp_max",
        "logical_and",
        "logical_or",
        "logical_xor",
        "where",
        "masked_fill",
    ),
    "inplace arithmetic",
) | {name: f"{name}_" for name in ("fill", "index_add", "index_fill", "index_put", "scatter_add")}


def _unbatched(op: Op, x: TensorBase, rest: tuple[Any, ...]) -> str:
    """Return why a batch cannot be written into a tensor that is the same for all of it."""
    name = {"lerp_by": "lerp", "div_floor": "floor_divide"}.get(op.name, op.name)
    called = "inplace arithmetic" if name.startswith("set_") else _CALLED.get(name, f"aten::{name}_")
    start = ""
    if name in ("add", "atan2"):
        shapes = [r.array.below().shape for r in rest if isinstance(r, TensorBase) and isinstance(r.array, Payload)]
        start = f"output with shape {list(x.array.shape)} doesn't match the broadcast shape {list(shapes[0])}. "
    return (
        f"{start}vmap: {called}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
        "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being "
        f"vmapped over. Please try to use out-of-place operators instead of {called}, or make the tensor from a "
        "batched one (x.new_zeros(...))."
    )


def _has_history(x: TensorBase) -> bool:
    """Return whether a gradient flows to what a tensor inside a transform was computed from, at any level."""
    value: Any = x
    while isinstance(value, TensorBase | Payload):
        if isinstance(value, TensorBase):
            if value.node is not None:
                return True
            value = value.array
        else:
            value = value.below()
    return False


def _leave_detached(op: Op, x: TensorBase, result: Any) -> None:
    """Give a detached tensor a history of its own: it no longer looks at what it was detached from."""
    assert x.lineage is not None
    if not is_detached_itself(x.lineage):
        raise RuntimeError(
            f"{op.name}_ writes values with a history into a view of a detached tensor, which inside a transform is "
            "not defined: clone() the detached tensor first."
        )
    x.array, x.node, x.lineage, x.memory = result.array, result.node, None, None


def fitted(op: Op, x: TensorBase, result: Any) -> Any:
    """Return a result that is about to be written into `x` in its shape and dtype, or raise."""
    shape = tuple(x.array.shape)
    if tuple(result.array.shape) != shape:
        if op.name != "copy":
            raise _of_output(shape, [tuple(result.array.shape)]) or RuntimeError(op.name)
        result = registry["expand"].call(result, shape)
    if op.name == "copy":  # of a broadcast value, whose elements share memory
        result = registry["clone"].call(result)
    if result.array.dtype != x.array.dtype:
        source, target = of(result.array.dtype), of(x.array.dtype)
        if op.name != "copy" and not can_cast(source, target):
            raise _uncastable(op, source, target)
        result = registry["cast"].call(result, x.array.dtype)
    return result


def _refresh_stale(*tensors: object) -> None:
    for t in tensors:
        if isinstance(t, TensorBase) and t.node is STALE:
            edge_of(t)
