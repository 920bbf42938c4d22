"""Row-wise primitives: declared by a statement of reductions and elementwise parts over rows.

A statement takes a `row` and operands. Run here, on values of any kind, it is the definition; devices print their
kernels from it (adjoint/scalar/rows.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._typing import Array, Axes, DType, Shape, Value
from ..core.device import module_of
from ..core.dtypes import of
from ..core.payload import Payload
from ..core.primitive import Primitive, parameters_of
from ..core.recorders import nary, parametric
from ..core.tensor import TensorBase
from ..scalar.rows import EXP_BELOW as exp_below
from ..scalar.rows import LABEL, NUMBER, ROW, WEIGHT, Statement
from .arguments import dtype_of
from .extremes import amax_p
from .index import slice_p
from .piecewise import where_p
from .reduce import count_of, is_half, kept, mean_p, shifted, sum_p
from .shape import cast_p, reshape_p, sum_to_p

__all__ = ["Row", "exp_below", "rowwise", "where_p"]

_single = np.dtype("float32")


def _is_class(target: Array, classes: int) -> Array:
    """Return of each class, along the last axis, whether it is that of the target, whose last axis has size 1."""
    return target == module_of(target).arange(classes)


is_class_p: Primitive = parametric(_is_class, batch="same")


class Row:
    """The rows of values of any kind, along axes: what `scalar.rows.Row` promises, by primitives."""

    def __init__(self, axes: Axes, shape: Shape | None = None) -> None:
        self.axes, self.shape = axes, shape

    def sum(self, v: Array) -> Array:
        """Add up."""
        return sum_p(v, self.axes, True)  # type: ignore[return-value]

    def mean(self, v: Array) -> Array:
        """Average."""
        return mean_p(v, self.axes, True)  # type: ignore[return-value]

    def max(self, v: Array) -> Array:
        """Return the largest, of complex numbers the largest real part; of nothing, zero."""
        if not count_of(v.shape, self.axes):
            return sum_p(v, self.axes, True)  # type: ignore[return-value]
        dtype = dtype_of(v)
        real = cast_p(v, of(dtype).to_real().np) if dtype.kind == "c" else v
        return amax_p(real, self.axes, True)  # type: ignore[return-value]

    def first(self, v: Array) -> Array:
        """Return the first element."""
        return slice_p(v, tuple([slice(0, 1) if i in self.axes else slice(None) for i in range(v.ndim)]))  # type: ignore[return-value]

    def at(self, v: Array, label: Array) -> Array:
        """Return the element at a label; 0 of a row without such an element."""
        return self.sum(where_p(self._is_class(v, label), v, 0))  # type: ignore[arg-type]

    def less_one_at(self, v: Array, label: Array) -> Array:
        """Subtract one from the element at a label."""
        return v - cast_p(self._is_class(v, label), dtype_of(v))

    def _is_class(self, v: Array, label: Array) -> Array:
        if self.axes != (v.ndim - 1,):
            raise TypeError("labels are places along the last axis")
        return is_class_p(label, v.shape[-1])  # type: ignore[return-value]

    def across(self, v: Array) -> Array:
        """Add up across rows, to the shape of weights."""
        return sum_to_p(v, self.shape)  # type: ignore[return-value]


class _Definition:
    """A statement run on values of any kind; `again` is the whole kernel or rule, which runs a device's if it can."""

    def __init__(self, statement: Statement, inputs: Sequence[str], value: Statement | None = None) -> None:
        self.statement, self.inputs, self.value = statement, inputs, value
        self.again: Callable[..., Any] = self
        self.base = statement.places.get("x", 0)  # a value with all axes

    def __call__(self, *args: Any, **needs: Any) -> Any:
        s = self.statement
        dtype = dtype_of(args[self.base])
        if is_half(dtype):
            return self._in_single(args, needs, dtype)
        row = Row(s.axes(args), s.shape(args))
        given, keeps = dict(zip(s.arguments, args)), s.keeps(args)
        if self.value is not None:
            given = self._completed(self.value, row, given, len(args[self.base].shape), keeps)
        found = s.function(row, *[given[n] for n in s.names])
        if self.value is None and not keeps:
            return reshape_p(found, tuple([n for i, n in enumerate(found.shape) if i not in row.axes]))
        if needs and needs["needs"] is not None:
            return tuple([r if n else None for r, n in zip(found, needs["needs"], strict=True)])
        return found

    def _in_single(self, args: tuple[Any, ...], needs: dict[str, Any], dtype: DType) -> Any:
        """Return what 16-bit floats give, computed in single precision; hidden results stay in that."""
        found = self.again(*[cast_p(v, _single) if _is_half(v) else v for v in args], **needs)
        if not self.statement.several:
            return cast_p(found, dtype)
        if self.value is None:
            return cast_p(found[0], dtype), *found[1:]
        given, results = dict(zip(self.statement.arguments, args)), []
        for name, r in zip(self.inputs, found, strict=True):
            dtype = dtype if given.get(name) is None else dtype_of(given[name])  # a bias is not saved: as the weight
            results.append(None if r is None else cast_p(r, dtype))
        return tuple(results)

    def _completed(self, value: Statement, row: Row, given: dict[str, Any], rank: int, keeps: bool) -> dict[str, Any]:
        """Return the operands of a gradient: numbers of rows with all axes; hidden results that can be differentiated.

        What a kernel has found is no function of the inputs for the next derivative, and missing where a transform ran.
        """
        s = self.statement
        if not keeps:
            names = [n for n in s.operands if s.kinds[n] == ROW and n not in s.hidden]
            given = {**given, **{n: kept(given[n], rank, row.axes, False) for n in names}}
        if s.hidden:
            there = [given[n] for n in s.operands]
            if None in [v if v is None else 0 for v in (given[n] for n in s.hidden)] or any(map(_is_traced, there)):
                found = value.function(row, *[given.get(n) for n in value.names])
                given = {**given, **dict(zip(value.hidden, found[1:], strict=True))}
        return given


def _is_traced(v: Value) -> bool:
    return isinstance(v, TensorBase | Payload)


def _is_half(v: object) -> bool:
    dtype = getattr(v.array if isinstance(v, TensorBase) else v, "dtype", None)
    return dtype is not None and is_half(dtype)


def rowwise(
    name: str, value: Callable[..., Any], *, over: str = "axes", weights: str = "", labels: str = "", numbers: str = "",
    static: str = "", hidden: Sequence[str] = (), joint: Callable[..., Any] | None = None, of_rows: bool = False,
    **options: Any,
) -> Primitive:  # fmt: skip
    """Declare a primitive by a statement over rows: kernels for every device are printed from it.

    `value` and the rules are functions of a `row` and operands, written with its reductions, operators, NumPy's ufuncs
    and other primitives. The parameters of `value` are the inputs, then `numbers` (Python's) and `static` parameters,
    by whose value it may branch. Inputs that are `weights` are the same for all rows, and may be None; `labels` are the
    place of an element in each row, an int64. The primitive takes the inputs, then what says where rows are (`over`:
    "axis" or "axes", and "keepdims" if the value is one number per row, "shape" for that of weights), then the others.
    A value that is `of_rows` is one number for each row, with the reduced axes. A `value` that returns more than one
    result names the others in `hidden`: rules may take them, programs do not see them. The `joint` rule returns the
    gradients of all inputs.
    """
    parameters = parameters_of(value)[1:]
    beside = [*numbers.split(), *static.split()]
    inputs = tuple([n for n in parameters if n not in beside])
    params = (*over.split(), *beside)
    kinds = {**dict.fromkeys(weights.split(), WEIGHT), **dict.fromkeys(numbers.split(), NUMBER)}
    kinds |= {**dict.fromkeys(hidden, ROW), **dict.fromkeys(labels.split(), LABEL)}
    if "keepdims" in params or of_rows:
        kinds |= {"g": ROW, "out": ROW}

    def declared(definition: _Definition, arguments: Sequence[str]) -> Callable[..., Any]:
        def run(*args: object, **needs: Any) -> Any:
            return definition(*args, **needs)

        run.statement, run.parameters = definition.statement, tuple(arguments)  # type: ignore[attr-defined]
        run.__name__ = name
        return run

    of_value = Statement(
        name,
        value,
        (*inputs, *params),
        kinds,
        several=bool(hidden),
        hidden=hidden,
        static=static.split(),
        of_rows=of_rows,
    )
    defined = [_Definition(of_value, inputs)]

    def rule_of(function: Callable[..., Any], several: bool) -> Callable[..., Any]:
        wanted = [n for n in parameters_of(function)[1:] if n not in beside and n != "g"]
        found = [n for n in hidden if n in wanted]
        if found:  # to find them again
            wanted = list(dict.fromkeys([*wanted, *[n for n in inputs if n not in weights.split()]]))
        if "x" not in wanted and "out" not in wanted:
            wanted.append("x")
        statement = Statement(
            name, function, ("g", *wanted, *params), kinds, several=several, hidden=found, static=static.split()
        )
        defined.append(_Definition(statement, inputs, of_value))
        return declared(defined[-1], (*statement.arguments, *(["needs"] if several else [])))

    rules: dict[str, Any] = {n: rule_of(options.pop(n), False) for n in inputs if n in options}
    if joint is not None:
        rules["joint"] = rule_of(joint, True)
    at = len(inputs) + params.index("axes" if "axes" in params else "axis")
    options = {"jvp": "statement", "hidden": tuple(hidden), **options}
    if len(inputs) == 1:
        options.setdefault("batch", lambda *args: made(*args[:at], _shifted(args[at]), *args[at + 1 :]))
    kernel = declared(defined[0], (*inputs, *params))
    recorder: Any = parametric if len(inputs) == 1 else functools.partial(nary, inputs=len(inputs))
    made: Primitive = recorder(kernel, name=name, **rules, **options)
    for definition, again in zip(defined, (made.op.whole, *[made.op.joint or r for r in made.op.rules if r])):
        definition.again = again
    return made


def _shifted(axes: int | Axes) -> int | tuple[int, ...]:
    return axes + 1 if isinstance(axes, int) else shifted(axes)
