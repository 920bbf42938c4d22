"""Formulas in C of the elements of arrays, in one launch whatever the arrays' layout.

A `Formula` names its operands and says what is computed of them. Operands are arrays of one dtype (masks are of
booleans) or numbers, and broadcast. Which kernel that takes is worked out once for each combination of layouts: axes
that can be walked as one are joined, an array laid out as the result is read by the same index, one number that is
repeated is read once, and large arrays are read and written 16 bytes at a time. Kernels are compiled when they are
first needed.

A formula is written in C++: ``"t = tanh(x); g * (1 - t * t)"`` names `t` on the way. `W` is the type computed in, and
numbers with a point in them are of that type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
from ml_dtypes import bfloat16

from ..._typing import DType
from .arrays import Array, adopt, new, several
from .compilation import compiled
from .sizes import BLOCKS, PLANS
from .sizes import PACKED as PACKED_FROM
from .source import HEAD, TYPES

__all__ = ["FLOATS", "PACKED_FROM", "Formula", "Total"]

_RANK = 6  # axes, joined, up to which an index is worked out; arrays with more are copied first
_THREADS = 256
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = {"float32", "float64", "float16", "bfloat16"}
_BOOL = np.dtype(np.bool_)
_LITERAL = re.compile(r"(?<![\w.])(\d+\.\d*(?:e[-+]?\d+)?)")


def _is_number(kind: Any) -> bool:
    if not issubclass(kind, np.generic):
        return False
    dtype = np.dtype(kind)
    return dtype.kind in "iu" or dtype.name in FLOATS


# NumPy does not count bfloat16, which a number beside such an array has become, among the floats.
_numbers: dict[Any, bool] = {float: True, int: True, bfloat16: True, bool: False, type(None): False}


class _Plan:
    """How one combination of layouts is computed."""

    __slots__ = ("aligned", "back", "count", "dtype", "extra", "one", "packed", "shape", "single", "size", "spread")

    size: int
    dtype: Any
    extra: tuple[int, ...]  # sizes and steps, for kernels that work out an index
    count: int  # of packs
    one: Any  # the launch of one element per thread, None until it is needed
    single: tuple[Any, ...]  # what that kernel is made of
    packed: Any  # that of a pack per thread, or None
    aligned: tuple[tuple[int, int], ...]  # the operands whose addresses packs need to be multiples, and of what
    shape: tuple[int, ...]  # of the results' memory
    spread: tuple[int, ...] | None  # the shape to which one number is repeated
    back: tuple[int, ...] | None  # how its axes become those of the result, if they are in another order


class Formula:
    """Expressions of the same operands, computed in one launch; a call returns a list of results, or None."""

    __slots__ = ("expressions", "launches", "masks", "names", "plans", "quick", "result", "wide")

    def __init__(self, names: str, *expressions: str, masks: str = "", result: str = "") -> None:
        self.names, self.expressions = tuple(names.split()), expressions
        self.masks, self.result = frozenset(masks.split()), result
        self.plans: dict[Any, _Plan | None] = {}
        self.launches: dict[Any, Any] = {}
        # By dtype, once it was needed: the launch on contiguous arrays of one shape; on large ones by packs,
        # and how many elements these have.
        self.quick: dict[Any, Any] = {}
        self.wide: dict[Any, Any] = {}

    def __call__(self, *operands: Any) -> list[Any] | None:
        """Return the results as arrays, or None where operands are not what kernels are made for."""
        first = operands[0]
        if type(first) is Array and first._c_contiguous and (n := first.size):
            dtype, shape = first.dtype, first.shape
            launch, width = (self.quick.get(dtype), 1) if n < PACKED_FROM else self.wide.get(dtype, (None, 1))
            if launch is not None:
                for v in operands:  # as in most programs: contiguous arrays of one shape
                    if type(v) is not Array or v.dtype is not dtype or not v._c_contiguous or v.shape != shape:
                        break
                    if width > 1 and v.data.ptr & 15:
                        break
                else:
                    outs = [new(shape, dtype) for _ in self.expressions]
                    launch(-(-n // width), (*operands, *outs, n))
                    return outs
        plan, values = self._find(operands)
        if plan is None:
            return None
        outs = [new(plan.shape, plan.dtype) for _ in self.expressions]
        self._run(plan, values, outs)
        if plan.spread is not None:
            return [adopt(cupy.broadcast_to(out, plan.spread)) for out in outs]
        return outs if plan.back is None else [adopt(out.transpose(plan.back)) for out in outs]

    def into(self, out: Array, *operands: Array) -> bool:
        """Write the one result to `out`, or return False where another way must be found."""
        plan, values = self._find(operands)
        if (
            plan is None
            or plan.back is not None
            or plan.spread is not None
            or plan.dtype != out.dtype
            or plan.shape != out.shape
        ):
            return False
        if not out._c_contiguous or out.data.ptr % 16:
            return False
        for v in values:  # an element may be written when it has been read, but no other before
            if type(v) is Array and v is not out and v.data.mem is out.data.mem:
                if v.data.ptr != out.data.ptr or v.shape != out.shape or not v._c_contiguous:
                    return False
        self._run(plan, values, [out])
        return True

    def _find(self, operands: Any) -> tuple[_Plan | None, Any]:
        """Return the plan for operands, and these with numbers as floats."""
        key: list[Any] = []
        values, plain = operands, True
        for v in operands:
            kind = type(v)
            if kind is Array:
                key += (v.dtype, v.shape, v.strides)
            else:
                known = _numbers.get(kind)
                if known is None:
                    known = _numbers[kind] = _is_number(kind)
                if not known:
                    if kind is not cupy.ndarray:
                        return None, None
                    return self._find(tuple([adopt(v) for v in operands]))
                key.append(None)
                plain = plain and kind is float
        if not plain:
            values = tuple([v if type(v) is Array else float(v) for v in operands])
        if several:
            key.append(next((v.data.device_id for v in operands if type(v) is Array), None))
        found = tuple(key)
        try:
            return self.plans[found], values
        except KeyError:
            return self._plan(found, values), values

    def _run(self, plan: _Plan, operands: Sequence[Array], outs: list[Any]) -> None:
        n = plan.size
        if n:
            arguments = (*operands, *outs, n, *plan.extra)
            if plan.packed is not None and not any(operands[i].data.ptr % m for i, m in plan.aligned):
                plan.packed(plan.count, arguments)
            else:
                if plan.one is None:
                    plan.one = self._launch(*plan.single)
                plan.one(n, arguments)

    # --- Layouts ----------------------------------------------------------------------------------------

    def _plan(self, key: tuple[Any, ...], operands: Sequence[Array]) -> _Plan | None:
        if len(self.plans) >= PLANS:
            self.plans.clear()
        plan = self.plans[key] = self._planned(operands)
        return plan

    def _kind(self, operands: Sequence[Array]) -> Any:
        """Return the dtype of all operands but masks, None if they have not one that kernels are made for."""
        kind = None
        for name, v in zip(self.names, operands, strict=True):
            if type(v) is not Array:
                if name in self.masks:
                    return None
            elif name in self.masks:
                if v.dtype != _BOOL:
                    return None
            elif kind is None:
                kind = v.dtype
            elif v.dtype != kind:
                return None
        if kind is None and self.masks:
            return _SINGLE
        return kind if kind is not None and kind.name in FLOATS else None

    def _planned(self, operands: Sequence[Array]) -> _Plan | None:
        kind = self._kind(operands)
        if kind is None:
            return None
        arrays = [v for v in operands if type(v) is Array]
        try:
            shape = np.broadcast_shapes(*[v.shape for v in arrays])
        except ValueError:  # the next candidate reports what is wrong
            return None
        spread = None
        if math.prod(shape) > 1 and not any(any(_steps(v, shape, tuple(range(len(shape))))) for v in arrays):
            shape, spread = (), shape  # one number, repeated
            arrays = [v[(0,) * v.ndim] for v in arrays]
        order = _order(arrays, shape)
        sizes = [shape[k] for k in order]
        steps = [_steps(v, shape, order) for v in arrays]
        dense = _dense(sizes)
        joined, parts = _joined(sizes, [*steps, dense])
        plan = _Plan()
        plan.shape, plan.size = tuple(sizes), math.prod(shape)
        plan.back = None if order == tuple(range(len(shape))) else tuple(int(k) for k in np.argsort(order))
        plan.spread = spread
        plan.dtype = kind if self.result == "" else np.dtype(self.result)
        plan.one = plan.packed = None
        plan.extra = plan.aligned = ()
        if plan.size and not self._choose(plan, kind, operands, joined, parts[:-1], parts[-1]):
            return None
        return plan

    def _choose(
        self, plan: _Plan, kind: Any, operands: Sequence[Array], sizes: list[int], parts: Any, dense: Sequence[int]
    ) -> bool:
        """Say by which kernel a plan is run, and with which numbers beside the operands; False: by none of these."""
        given = iter(parts)
        steps = [next(given) if type(v) is Array else None for v in operands]
        forms = [_form(s, dense) for s in steps]
        flat = "g" not in forms
        if not flat and (len(sizes) > _RANK or plan.size >= 1 << 31):
            return False
        rank = 0 if flat else len(sizes)
        plan.extra = tuple(
            _extra(sizes, [s for s in steps if s is not None and _form(s, dense) == "g"]) if rank else ()
        )
        plan.single = (kind, plan.dtype, "".join(forms), rank, 1)
        width = 16 // max(kind.itemsize, plan.dtype.itemsize)
        if plan.size >= PACKED_FROM and (flat or sizes[-1] % width == 0):
            for i, s in enumerate(steps):
                if forms[i] == "g":
                    forms[i] = _form_of_packs(s, width)
            near = [i for i, f in enumerate(forms) if f in "vp"]
            plan.aligned = tuple((i, width * operands[i].itemsize) for i in near)
            plan.count = -(-plan.size // width)
            plan.packed = self._launch(kind, plan.dtype, "".join(forms), rank, width)
            if set(forms) == {"v"} and not self.masks and not self.result and not several and plan.back is None:
                self.wide[kind] = plan.packed, width
        elif set(forms) == {"v"} and not self.masks and not self.result and not several and plan.back is None:
            plan.one = self.quick[kind] = self._launch(*plan.single)
        return True

    # --- Kernels ----------------------------------------------------------------------------------------

    def _launch(self, kind: Any, result: DType, forms: str, rank: int, width: int) -> Any:
        key = (kind, forms, rank, width, cupy.cuda.runtime.getDevice() if several else 0)
        found = self.launches.get(key)
        if found is None:
            source = self.source(kind, result, forms, rank, width)
            # Rounded as compiled programs are, and NumPy.
            found = self.launches[key] = compiled(source, contract=False).get_function("formula").linear_launch
        return found

    def small(self, kind: Any, forms: str) -> Any:
        """Return the launch on arrays with the result's layout (v) and scalars (s); None where there is none."""
        if kind.name not in FLOATS:
            return None
        return self._launch(kind, kind if self.result == "" else np.dtype(self.result), forms, 0, 1)

    def large(self, kind: Any, forms: str) -> Any:
        """Return the same for packs of 16 bytes, and how many elements these have; None where there is none."""
        if kind.name not in FLOATS:
            return None
        result = kind if self.result == "" else np.dtype(self.result)
        width = 16 // max(kind.itemsize, result.itemsize)
        return self._launch(kind, result, forms, 0, width), width

    def source(self, kind: Any, result: DType, forms: str, rank: int, width: int) -> str:
        """Return the kernel in C: `forms` says of each operand how it is read.

        v: where the result is written; c: one number in memory; s: a number; g: by its own steps; and of packs, p: by
        its own steps, but neighbours at once; b: by its own steps, one number for a pack.
        """
        types = [TYPES[(_BOOL if n in self.masks else kind).name] for n in self.names]
        out = TYPES[result.name]
        given = list(zip(self.names, types, forms, strict=True))
        parameters = [f"double s_{n}" if f == "s" else f"const {t}* p_{n}" for n, t, f in given]
        parameters += [f"{out}* o{i}" for i in range(len(self.expressions))] + ["i64 n"]
        strided = [n for n, _, f in given if f in "gpb"]
        parameters += [f"i64 d_{k}" for k in range(1, rank)] + [f"i64 at_{n}_{k}" for n in strided for k in range(rank)]
        body = _packed(given, out, len(self.expressions), rank, width) if width > 1 else _element(
            given, out, len(self.expressions), rank
        )  # fmt: skip
        return (
            f"{HEAD}typedef {'double' if kind.name == 'float64' else 'float'} W;\n"
            f"{self._functions(out)}"
            f'extern "C" __global__ void formula({", ".join(parameters)}) {{\n{body}}}\n'
        )

    def _functions(self, out: str) -> str:
        arguments = ", ".join(f"{'bool' if n in self.masks else 'W'} {n}" for n in self.names)
        text = ""
        for i, expression in enumerate(self.expressions):
            *steps, last = _LITERAL.sub(r"W(\1)", expression).split(";")
            named = "".join(
                f"{step if step.startswith('const ') else f'const W {step}'}; " for step in map(str.strip, steps)
            )
            returned = "bool" if out == "bool" else "W"
            text += f"__device__ __forceinline__ {returned} e{i}({arguments}) {{ {named}return {last.strip()}; }}\n"
        return text


def _form(steps: Sequence[int] | None, dense: Sequence[int]) -> str:
    return "s" if steps is None else "v" if steps == dense else "g" if any(steps) else "c"


def _form_of_packs(steps: Any, width: int) -> str:
    if steps[-1] == 0:
        return "b"
    return "p" if steps[-1] == 1 and not any(k % width for k in steps[:-1]) else "g"


def _order(arrays: list[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of the result from the slowest to the fastest.

    As in PyTorch, what is computed of arrays that are laid out alike is laid out as they are.
    """
    usual = tuple(range(len(shape)))
    full = [v for v in arrays if v.shape == shape and 0 not in v.strides]  # not those that are repeated
    if not full or any(v._c_contiguous for v in full):
        return usual
    steps = [tuple([s // v.itemsize for s in v.strides]) for v in full]
    order = tuple(sorted(usual, key=lambda k: -steps[0][k]))
    inner = 1
    for k in reversed(order):
        if shape[k] != 1 and steps[0][k] != inner:
            return usual
        inner *= shape[k]
    return order if all(s == steps[0] for s in steps) else usual


def _steps(v: Array, shape: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """Return how many elements apart an operand's neighbours along each axis of the result are."""
    lead = len(shape) - v.ndim
    size, sizes, strides = v.itemsize, v.shape, v.strides
    return [0 if k < lead or sizes[k - lead] == 1 else strides[k - lead] // size for k in order]


def _dense(sizes: list[int]) -> list[int]:
    steps, step = [], 1
    for size in reversed(sizes):
        steps.append(0 if size == 1 else step)
        step *= size
    return steps[::-1]


def _joined(sizes: list[int], steps: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Return sizes and steps with axes of one element left out, and axes made one that can be walked as one."""
    kept: list[int] = []
    parts: list[list[int]] = [[] for _ in steps]
    for k, size in enumerate(sizes):
        if size == 1:
            continue
        now = [s[k] for s in steps]
        if kept and all(p[-1] == s * size for p, s in zip(parts, now, strict=True)):
            kept[-1] *= size
            for p, s in zip(parts, now, strict=True):
                p[-1] = s
        else:
            kept.append(size)
            for p, s in zip(parts, now, strict=True):
                p.append(s)
    return kept or [1], [p or [1] for p in parts]


def _extra(sizes: list[int], steps: list[list[int]]) -> list[int]:
    return [*sizes[1:], *[s for step in steps for s in step]]


def _index(strided: list[str], rank: int, width: int) -> str:
    """Return C that finds where strided operands are read for the result's element (or pack) `i`."""
    if not strided:
        return ""
    text = "    unsigned int rest = (unsigned int)i;\n"
    for k in range(rank - 1, 0, -1):
        per_row = f"(unsigned int)d_{k}" if width == 1 or k < rank - 1 else f"((unsigned int)d_{k} / {width}u)"
        text += f"    unsigned int i_{k} = rest % {per_row}; rest /= {per_row};\n"
        if width > 1 and k == rank - 1:
            text += f"    i_{k} *= {width}u;\n"
    text += "    unsigned int i_0 = rest;\n" if rank > 1 or width == 1 else f"    unsigned int i_0 = rest * {width}u;\n"
    for n in strided:
        text += f"    i64 at_{n} = " + " + ".join(f"i_{k} * at_{n}_{k}" for k in range(rank)) + ";\n"
    return text


_START = "    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;\n"
_ALONE = {"s": "s_{n}", "c": "p_{n}[0]", "v": "p_{n}[i]", "g": "p_{n}[at_{n}]", "b": "p_{n}[at_{n}]"}


def _read(name: str, kind: str, place: str) -> str:
    wide = "bool" if kind == "bool" else "W"
    return f"const {wide} {name} = ({wide}){place.format(n=name)}; "


def _written(given: Sequence[tuple[str, str, str]], results: int, text: str) -> str:
    names = ", ".join(n for n, _, _ in given)
    return "".join(text.format(i=i, value=f"e{i}({names})") for i in range(results))


def _element(given: Sequence[tuple[str, str, str]], out: str, results: int, rank: int) -> str:
    text = _START + "    if (i >= n) return;\n" + _index([n for n, _, f in given if f == "g"], rank, 1)
    text += "".join(f"    {_read(n, t, _ALONE[f])}\n" for n, t, f in given)
    return text + _written(given, results, f"    o{{i}}[i] = ({out}){{value}};\n")


def _packed(given: Sequence[tuple[str, str, str]], out: str, results: int, rank: int, width: int) -> str:
    text = _START + f"    if (i * {width} >= n) return;\n"
    if not rank:  # what is left of the last pack
        left = "".join(_read(n, t, _ALONE[f].replace("[i]", "[k]")) for n, t, f in given)
        left += _written(given, results, f"o{{i}}[k] = ({out}){{value}}; ")
        text += f"    if (i * {width} + {width} > n) {{ for (i64 k = i * {width}; k < n; ++k) {{ {left}}} return; }}\n"
    text += _index([n for n, _, f in given if f in "gpb"], rank, width)
    each = ""
    for n, t, f in given:
        if f in "scb":
            text += f"    {_read(n, t, _ALONE[f])}\n"
        elif f == "g":
            each += _read(n, t, f"p_{n}[at_{n} + j * at_{n}_{rank - 1}]")
        else:
            place = f"at_{n}" if f == "p" else f"i * {width}"
            text += f"    const Pack<{t}, {width}> k_{n} = *(const Pack<{t}, {width}>*)(p_{n} + {place});\n"
            each += _read(n, t, f"k_{n}.v[j]")
    each += _written(given, results, f"r{{i}}.v[j] = ({out}){{value}}; ")
    text += "".join(f"    Pack<{out}, {width}> r{i};\n" for i in range(results))
    text += f"    #pragma unroll\n    for (int j = 0; j < {width}; ++j) {{ {each}}}\n"
    for i in range(results):
        text += f"    *(Pack<{out}, {width}>*)(o{i} + i * {width}) = r{i};\n"
    return text


class Total:
    """The sum of a formula of all elements, times a number: nothing but the operands is read."""

    def __init__(self, formula: Formula) -> None:
        self.formula = formula
        self._launches: dict[Any, Any] = {}

    def __call__(self, scale: float, *operands: Array) -> Array | None:
        """Return the sum as a 0-d array, or None where operands are not contiguous arrays of one shape."""
        first, forms = operands[0], ""
        if type(first) is not Array or first.dtype.name not in FLOATS or not first.size:
            return None
        for v in operands:
            if type(v) is not Array:
                forms += "s"
            elif v.dtype is not first.dtype or not v._c_contiguous or v.shape != first.shape:
                return None
            else:
                forms += "v"
        n, width = first.size, 16 // first.itemsize
        packed = n % width == 0 and all(v.data.ptr % 16 == 0 for v in operands if type(v) is Array)
        total, finish = self._found(first.dtype, forms, width if packed else 1)
        values = [v if type(v) is Array else float(v) for v in operands]
        blocks = max(1, min(BLOCKS, n // (_THREADS * 8)))
        out = new((), first.dtype)
        parts = new((blocks,), _DOUBLE if first.itemsize == 8 else _SINGLE)
        total(blocks * _THREADS, (*values, out, parts, n, float(scale)), 0, _THREADS)
        if blocks > 1:
            finish(_THREADS, (parts, out, blocks, float(scale)), 0, _THREADS)
        return out

    def _found(self, kind: Any, forms: str, width: int) -> Any:
        key = (kind, forms, width, cupy.cuda.runtime.getDevice() if several else 0)
        found = self._launches.get(key)
        if found is None:
            module = compiled(self.source(kind, forms, width))
            found = self._launches[key] = tuple(module.get_function(n).linear_launch for n in ("total", "finish"))
        return found

    def source(self, kind: Any, forms: str, width: int) -> str:
        """Return both kernels in C: sums of blocks, and the sum of these."""
        made, kind_name = self.formula, TYPES[kind.name]
        given = list(zip(made.names, forms, strict=True))
        parameters = ", ".join(f"double s_{n}" if f == "s" else f"const T* p_{n}" for n, f in given)
        pack = f"const Pack<T, {width}>"
        loads = "".join(f"{pack} k_{n} = (({pack}*)p_{n})[i]; " for n, f in given if f == "v")
        reads = ", ".join(f"(W)s_{n}" if f == "s" else f"(W)k_{n}.v[j]" for n, f in given)
        return f"""{HEAD}typedef {kind_name} T; typedef {"double" if kind.name == "float64" else "float"} W;
{made._functions(kind_name)}
extern "C" __global__ void total({parameters}, T* out, W* parts, i64 n, double scale) {{
    W sum = 0;
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n / {width}; i += gridDim.x * (i64)blockDim.x) {{
        {loads}
        for (int j = 0; j < {width}; ++j) sum += e0({reads});
    }}
    sum = block_sum(sum);
    if (threadIdx.x == 0) {{ if (gridDim.x == 1) out[0] = (T)(W)(sum * scale); else parts[blockIdx.x] = sum; }}
}}
extern "C" __global__ void finish(const W* parts, T* out, i64 count, double scale) {{
    W sum = 0;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[0] = (T)(W)(sum * scale);
}}
"""
