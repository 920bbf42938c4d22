"""Row-wise statements as CUDA kernels: the loops here, the formulas in them printed from the statement.

A block for each row, which stays in registers where it fits (`held`); else every stage reads it again (`walked`), which
the second level cache answers. Along an axis that is not the last, a thread takes a row (`columns`). Rows of planes
(batch, group and instance norm) are a block each (`planes`), or, where these would be too few for a GPU, several
blocks with a launch for each stage (`split`). Sums across rows are sums of columns or channels in two launches, in an
order that depends on the shape alone. 16-bit numbers are computed with as float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ...scalar import cuda
from ...scalar.rows import (
    ACROSS,
    COUNT,
    ELEMENT,
    MAX,
    NUMBER,
    ROW,
    SUM,
    WEIGHT,
    Layout,
    Program,
    Stage,
    Statement,
    layout_of,
)  # fmt: skip
from ...scalar.symbol import Symbol, apply
from .launching import Kernels, aligned, dense, empty, is_float
from .rows import WALK, pack_of, shape_of_blocks
from .table import override

_F32 = np.dtype(np.float32)
_CHANNELS = 32  # rows of planes from which on a block for each keeps a GPU busy
_PLANES = 1 << 17  # elements of a row of planes up to which one block takes it
_PIECES = 1056  # blocks that keep a GPU busy: eight for each multiprocessor
_LONGEST = 1 << 31

_HEAD = (
    "typedef wide_of<T>::type W;\n"
    + WALK
    + "__device__ __forceinline__ W exp_below(W x) { return power(x); }\n"
)


class _Text:
    """The C of one program: what its kernels declare, read and compute."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = [n for n in program.names if n != COUNT]
        kinds = program.kinds
        self.arrays = [n for n in self.names if kinds[n] != NUMBER]
        self.elements = [n for n in self.names if kinds[n] == ELEMENT]
        self.weights = [n for n in self.names if kinds[n] == WEIGHT]
        self.of_rows = [n for n in self.names if kinds[n] == ROW]
        self.numbers = [n for n in self.names if kinds[n] == NUMBER]
        self.outs = [i for i, role in enumerate(program.roles) if role != ACROSS]
        self.open_names = ("T", *[f"T_{n}" for n in self.arrays], *[f"O_{i}" for i in range(len(program.roles))], "P", "K")
        self._fresh = 0

    def parameters(self, outs: str = "") -> str:
        """Return the parameters that all kernels have."""
        given = [f"const T_{n}* p_{n}" for n in self.arrays] + [f"double n_{n}" for n in self.numbers]
        return ", ".join([*given, outs or ", ".join(f"O_{i}* o_{i}" for i in self.outs)])

    def row(self, row: str, start: str) -> str:
        """Return what is read of a row before its first loop."""
        lines = [f"const W {n} = (W)n_{n};" for n in self.numbers]
        lines += [f"const W {n} = (W)p_{n}[{row}];" for n in self.of_rows]
        return " ".join([*lines, *[f"const W first_{n} = (W)p_{n}[{start}];" for n in self.program.firsts]])

    def computed(self, value: Symbol) -> tuple[str, str]:
        """Return statements that compute an expression, and the expression."""
        self._fresh += 1
        steps, said = cuda.lines(value, "W", prefix=f"t{self._fresh}_")
        return "".join(f"{step}; " for step in steps), said

    def scalars(self, stage: Stage) -> str:
        """Return what is computed of a row before a loop."""
        text = ""
        for name, value in stage.scalars:
            steps, said = self.computed(value)
            text += f"{steps}const W {name} = {said}; "
        return text

    def accumulators(self, stage: Stage) -> str:
        """Return the declarations of what a loop reduces to."""
        return " ".join(f"W a_{r.name} = {'-INFINITE' if r.function is MAX else '0'};" for r in stage.reductions)

    def joined(self, stage: Stage, block: bool = True) -> str:
        """Return how a loop's reductions become numbers of the row."""
        ops = {r.name: "block_amax" if r.function is MAX else "block_sum" for r in stage.reductions}
        return " ".join(f"const W {n} = {f'{op}(a_{n})' if block else f'a_{n}'};" for n, op in ops.items())

    def element(self, stage: Stage, target: Callable[[int], str], kept: Callable[[int], str] | None = None) -> str:
        """Return what a loop does with one element, whose operands are declared."""
        text = ""
        for r in stage.reductions:
            steps, said = self.computed(r.value)
            add = f"a_{r.name} = join_amax(a_{r.name}, {said});" if r.function is MAX else f"a_{r.name} += {said};"
            text += f"{{ {steps}{add} }} "
        for i, value in stage.kept:
            steps, said = self.computed(value)
            assert kept is not None
            text += f"{{ {steps}{kept(i)} = {said}; }} "
        for i, value in stage.elements:
            steps, said = self.computed(value)
            text += f"{{ {steps}{target(i)} = (O_{i})({said}); }} "
        return text

    def finished(self, row: str) -> str:
        """Return how numbers of the row are written."""
        return " ".join(f"o_{i}[{row}] = (O_{i}){name};" for i, name in self.program.scalars.items())

    def loops(self) -> list[Stage]:
        """Return the stages that have loops."""
        return [s for s in self.program.stages if s.reductions or s.elements]

    def walked(self) -> str:
        """Return a kernel of rows that are read again for each stage, by packs."""
        body = ""
        for stage in self.program.stages:
            body += self.scalars(stage) + "\n    "
            if not (stage.reductions or stage.elements):
                continue
            weights = " ".join(f"const W {n} = (W)p_{n}[AT];" for n in self.weights)
            many = " ".join(f"Pack<T_{n}, P> q_{n} = *(const Pack<T_{n}, P>*)(p_{n} + start + i);" for n in self.elements)
            many += " ".join(f" Pack<O_{i}, P> w_{i};" for i, _ in stage.elements)
            one = " ".join(f"const W {n} = (W)q_{n}.v[j];" for n in self.elements) + weights.replace("AT", "i + j")
            many += f" for (int j = 0; j < P; ++j) {{ {one} {self.element(stage, lambda i: f'w_{i}.v[j]')} }}"
            many += " ".join(f" *(Pack<O_{i}, P>*)(o_{i} + start + i) = w_{i};" for i, _ in stage.elements)
            single = " ".join(f"const W {n} = (W)p_{n}[start + i];" for n in self.elements) + weights.replace("AT", "i")
            single += " " + self.element(stage, lambda i: f"o_{i}[start + i]")
            body += f"{self.accumulators(stage)}\n    walk<P>(start, n, [&](i64 i) {{ {many} }},\n        [&](i64 i) {{ {single} }});"
            body += f"\n    {self.joined(stage)}\n    "
        return f"""extern "C" __global__ void walked({self.parameters()}, i64 n) {{
    i64 row = blockIdx.x, start = row * n;
    const W {COUNT} = (W)n; {self.row("row", "start")}
    {body}if (threadIdx.x == 0) {{ {self.finished("row")} }}
}}
"""

    def held(self) -> str:
        """Return a kernel of rows that stay in registers: K packs of P elements in each thread."""
        each = "for (int k = 0; k < K; ++k) { int i = threadIdx.x + k * blockDim.x; if (i < packs) {"
        body = " ".join(f"Pack<T_{n}, P> h_{n}[K];" for n in self.elements)
        body += f"\n    #pragma unroll\n    {each} "
        body += " ".join(f"h_{n}[k] = ((const Pack<T_{n}, P>*)(p_{n} + start))[i];" for n in self.elements) + " } }\n    "
        kept = {i for stage in self.program.stages for i, _ in stage.kept}
        body += " ".join(f"W h_kept_{i}[K * P];" for i in kept)
        read = " ".join(f"const W {n} = (W)h_{n}[k].v[j];" for n in self.elements)
        for stage in self.program.stages:
            body += self.scalars(stage) + "\n    "
            if not (stage.reductions or stage.elements):
                continue
            inner = read + " ".join(f" const W {n} = (W)q_{n}.v[j];" for n in self.weights)
            if stage.elements:
                inner += " ".join(f" const W kept_{i} = h_kept_{i}[k * P + j];" for i in kept)
            inner += " " + self.element(stage, lambda i: f"w_{i}.v[j]", lambda i: f"h_kept_{i}[k * P + j]")
            body += f"{self.accumulators(stage)}\n    #pragma unroll\n    {each} "
            body += " ".join(f"Pack<T_{n}, P> q_{n} = ((const Pack<T_{n}, P>*)p_{n})[i];" for n in self.weights)
            body += " ".join(f"Pack<O_{i}, P> w_{i};" for i, _ in stage.elements)
            body += f"\n        #pragma unroll\n        for (int j = 0; j < P; ++j) {{ {inner} }}\n        "
            body += " ".join(f"((Pack<O_{i}, P>*)(o_{i} + start))[i] = w_{i};" for i, _ in stage.elements) + " } }"
            body += f"\n    {self.joined(stage)}\n    "
        return f"""extern "C" __global__ void held({self.parameters()}, i64 n) {{
    i64 row = blockIdx.x, start = row * n;
    int packs = n / P;
    const W {COUNT} = (W)n; {self.row("row", "start")}
    {body}if (threadIdx.x == 0) {{ {self.finished("row")} }}
}}
"""

    def columns(self) -> str:
        """Return a kernel of rows that lie across memory, (A, n, B): a thread for each of A and B."""
        body = ""
        for stage in self.program.stages:
            body += self.scalars(stage) + "\n    "
            if stage.reductions or stage.elements:
                one = " ".join(f"const W {n} = (W)p_{n}[at];" for n in self.elements)
                one += " ".join(f" const W {n} = (W)p_{n}[i];" for n in self.weights)
                one += " " + self.element(stage, lambda i: f"o_{i}[at]")
                body += f"{self.accumulators(stage)}\n    for (i64 i = 0; i < n; ++i) {{ i64 at = start + i * B; {one} }}"
                body += f"\n    {self.joined(stage, block=False)}\n    "
        return f"""extern "C" __global__ void columns({self.parameters()}, i64 count, i64 n, i64 B) {{
    i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (row >= count) return;
    i64 start = row / B * n * B + row % B;
    const W {COUNT} = (W)n; {self.row("row", "start")}
    {body}{self.finished("row")}
}}
"""

    def _plane_element(self) -> str:
        one = "unsigned int k = e / size; i64 plane = row * first + k * step, at = plane * n + (e - k * size);"
        one += " ".join(f" const W {n} = (W)p_{n}[at];" for n in self.elements)
        return one + " ".join(f" const W {n} = (W)p_{n}[plane % channels];" for n in self.weights)

    def planes(self) -> str:
        """Return a kernel of rows of planes: a block for each row."""
        body = ""
        for stage in self.program.stages:
            body += self.scalars(stage) + "\n    "
            if stage.reductions or stage.elements:
                one = f"{self._plane_element()} {self.element(stage, lambda i: f'o_{i}[at]')}"
                body += f"{self.accumulators(stage)}\n    #pragma unroll 4\n    "
                body += f"for (unsigned int e = threadIdx.x; e < all; e += blockDim.x) {{ {one} }}"
                body += f"\n    {self.joined(stage)}\n    "
        return f"""extern "C" __global__ void planes({self.parameters()}, i64 planes, i64 n, i64 first, i64 step,
        i64 channels) {{
    const unsigned int size = (unsigned int)n, all = (unsigned int)(planes * n);
    i64 row = blockIdx.x;
    const W {COUNT} = (W)planes * (W)n; {self.row("row", "row * first * n")}
    {body}if (threadIdx.x == 0) {{ {self.finished("row")} }}
}}
"""

    def split(self) -> str:
        """Return kernels of rows of planes, several blocks for each: `stage_0`, `join_0`, ... `finish`.

        Stages leave what their pieces reduce to in `parts`; joins, a warp for each row, what that is in all in `found`.
        """
        names = [r.name for s in self.program.stages for r in s.reductions]
        place = {n: i for i, n in enumerate(names)}
        head = f"const W {COUNT} = (W)planes * (W)n; "
        text, known = "", ""
        more = "const W* found, W* parts, i64 planes, i64 n, i64 first, i64 step, i64 channels, i64 pieces, i64 length"
        for number, stage in enumerate(self.program.stages):
            before = known + self.scalars(stage)
            last = stage is self.program.stages[-1]
            if stage.reductions or stage.elements:
                one = f"{self._plane_element()} {self.element(stage, lambda i: f'o_{i}[at]')}"
                left = " ".join(
                    f"parts[({place[r.name]} * gridDim.x) + blockIdx.x] = {r.name};" for r in stage.reductions
                )
                text += f"""extern "C" __global__ void stage_{number}({self.parameters()}, {more}) {{
    const unsigned int size = (unsigned int)n;
    i64 row = blockIdx.x / pieces, from = blockIdx.x % pieces * length, to = from + length;
    if (to > planes * n) to = planes * n;
    {head}{self.row("row", "row * first * n")} {before}
    {self.accumulators(stage)}
    for (i64 e = from + threadIdx.x; e < to; e += blockDim.x) {{ {one} }}
    {self.joined(stage)}
    if (threadIdx.x == 0) {{ {left} }}
}}
"""
                sums = ""
                for r in stage.reductions:
                    join = "join_amax" if r.function is MAX else "join_sum"
                    at = f"parts[({place[r.name]} * rows + row) * pieces + k]"
                    sums += f"W a_{r.name} = {'-INFINITE' if r.function is MAX else '0'}; "
                    sums += f"for (i64 k = threadIdx.x; k < pieces; k += 32) a_{r.name} = {join}(a_{r.name}, {at}); "
                    sums += f"a_{r.name} = warp_{'amax' if r.function is MAX else 'sum'}(a_{r.name}); "
                    sums += f"if (threadIdx.x == 0) found[row * {len(names)} + {place[r.name]}] = a_{r.name}; "
                text += f"""extern "C" __global__ void join_{number}(const W* parts, W* found, i64 rows, i64 pieces) {{
    i64 row = blockIdx.x;
    {sums}
}}
"""
            known = before + " ".join(
                f"const W {r.name} = found[row * {len(names)} + {place[r.name]}];" for r in stage.reductions
            )
            if last:
                text += f"""extern "C" __global__ void finish({self.parameters()}, const W* found, i64 rows, i64 planes,
        i64 n, i64 first) {{
    i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    {head}{self.row("row", "row * first * n")} {known}
    {self.finished("row")}
}}
"""
        return text

    def sums(self) -> str:
        """Return kernels that sum across rows, to columns (`scales`) or channels (`plane_sums`), in two launches."""
        many = [i for i, role in enumerate(self.program.roles) if role == ACROSS]
        count = len(many)
        (stage,) = [s for s in self.program.stages if s.across]
        add = ""
        for number, (_, value) in enumerate(stage.across):
            steps, said = self.computed(value)
            add += f"{{ {steps}a[{number}]ANY += {said}; }} "
        packs = " ".join(f"Pack<T_{n}, P> q_{n} = *(const Pack<T_{n}, P>*)(p_{n} + r * n + column);" for n in self.elements)
        each = " ".join(f"const W {n} = (W)q_{n}.v[j];" for n in self.elements)
        rows = self.row("r", "0") + " "
        weights = " ".join(f"const W {n} = (W)p_{n}[column + j];" for n in self.weights)
        targets = " ".join(f"if (which == {k}) o_{i}[at] = (O_{i})sum;" for k, i in enumerate(many))
        outs = ", ".join(f"O_{i}* o_{i}" for i in many)
        return f"""extern "C" __global__ void scales({self.parameters("W* parts")}, i64 rows, i64 n, i64 length) {{
    __shared__ W kept[8][{count}][32 * P + 1];
    i64 tiles = (n + 32 * P - 1) / (32 * P), tile = blockIdx.x % tiles, piece = blockIdx.x / tiles;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    i64 column = tile * 32 * P + lane * P, to = (piece + 1) * length < rows ? (piece + 1) * length : rows;
    const W {COUNT} = (W)n;
    W a[{count}][P];
    #pragma unroll
    for (int c = 0; c < {count}; ++c) for (int j = 0; j < P; ++j) a[c][j] = 0;
    if (column < n) {{
        #pragma unroll 2
        for (i64 r = piece * length + warp; r < to; r += 8) {{
            {packs} {rows}
            #pragma unroll
            for (int j = 0; j < P; ++j) {{ {each} {weights} {add.replace("ANY", "[j]")} }}
        }}
    }}
    for (int c = 0; c < {count}; ++c) for (int j = 0; j < P; ++j) kept[warp][c][lane * P + j] = a[c][j];
    __syncthreads();
    for (int c = threadIdx.x; c < {count} * 32 * P; c += blockDim.x) {{
        int which = c / (32 * P), place = c % (32 * P);
        i64 at = tile * 32 * P + place;
        if (at >= n) continue;
        W sum = 0;
        for (int k = 0; k < 8; ++k) sum += kept[k][which][place];
        parts[(piece * {count} + which) * n + at] = sum;
    }}
}}
extern "C" __global__ void plane_sums({self.parameters("W* parts")}, i64 n, i64 planes, i64 rows, i64 contiguous,
        i64 channels) {{
    i64 plane = blockIdx.x, r = contiguous ? plane / planes : plane % rows;
    const W {COUNT} = (W)planes * (W)n; {rows}
    {" ".join(f"const W {n} = (W)p_{n}[plane % channels];" for n in self.weights)}
    W a[{count}];
    for (int c = 0; c < {count}; ++c) a[c] = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {{
        {" ".join(f"const W {n} = (W)p_{n}[plane * n + i];" for n in self.elements)} {add.replace("ANY", "")}
    }}
    for (int c = 0; c < {count}; ++c) {{
        W sum = block_sum(a[c]);
        if (threadIdx.x == 0) parts[(plane / channels * {count} + c) * channels + plane % channels] = sum;
    }}
}}
// The pieces added up: blocks of 32 columns (or channels) for each result.
extern "C" __global__ void sums_of_pieces(const W* parts, {outs}, i64 pieces, i64 n) {{
    __shared__ W kept[8][33];
    i64 tiles = (n + 31) / 32, which = blockIdx.x / tiles, at = blockIdx.x % tiles * 32 + (threadIdx.x & 31);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    W sum = 0;
    if (at < n) for (i64 k = warp; k < pieces; k += 8) sum += parts[(k * {count} + which) * n + at];
    kept[warp][lane] = sum;
    __syncthreads();
    if (warp || at >= n) return;
    for (int k = 1; k < 8; ++k) sum += kept[k][lane];
    {targets}
}}
"""


class Forms:
    """The kernels of one statement, made when they are first needed."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._made: dict[Any, tuple[Kernels, _Text]] = {}

    def kernels(self, form: str, results: Any, key: Any) -> tuple[Kernels, _Text]:
        """Return the kernels of a form, for some of the results."""
        found = self._made.get((form, key))
        if found is None:
            text = _Text(Program(results, self.statement.kinds, keeps=form == "held"))
            found = self._made[form, key] = Kernels(_HEAD + getattr(text, form)(), *text.open_names), text
        return found


def _wide(dtype: Any) -> Any:
    return dtype if dtype.char == "d" else _F32


@override.rowwise
def kernel_of(statement: Statement, definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel or rule with a statement's arguments that runs its forms on arrays of a GPU."""
    forms, places = Forms(statement), statement.places
    base = places.get("x", places.get("out", 0))
    needed = [places[n] for n in statement.hidden if n in places]
    arrays = [n for n in statement.operands if statement.kinds[n] != NUMBER]

    def kernel(*args: Any, **needs: Any) -> Any:
        x = args[base]
        given = [args[places[n]] for n in arrays]
        plain = all([a is None or (isinstance(a, cupy.ndarray) and is_float(a)) for a in given])  # noqa: C419
        if not plain or not isinstance(x, cupy.ndarray) or not x.size or any([args[i] is None for i in needed]):  # noqa: C419
            return definition(*args, **needs)
        found = Call(forms, args, x, needs.get("needs")).results()
        return definition(*args, **needs) if found is None else found

    return kernel


class Call:
    """One call: which results are wanted, where rows lie, and what is launched."""

    def __init__(self, forms: Forms, args: Sequence[Any], x: Any, needs: Any) -> None:
        s = self.statement = forms.statement
        self.forms, self.args, self.x = forms, args, x
        self.axes, self.shape = s.axes(args), s.shape(args)
        self.given = {n: args[s.places[n]] for n in s.operands}
        self.absent = tuple([n for n in s.operands if self.given[n] is None])
        self.fixed = tuple([args[s.places[n]] for n in s.static])
        self.all = s.traced(self.absent, self.fixed)
        self.needs = (True,) * len(self.all) if needs is None else tuple(needs)
        self.outs: dict[int, Any] = {}
        self.is_value = "g" not in s.places

    def results(self) -> Any:
        """Return what the kernel or rule returns; None where a layout has no kernel."""
        s, wanted = self.statement, [i for i, need in enumerate(self.needs) if need]
        across = [i for i in wanted if self.all[i][1]]
        rest = [i for i in wanted if not self.all[i][1]]
        weighs = across or any(kind == WEIGHT and n not in self.absent for n, kind in s.kinds.items())
        layout = layout_of(self.x.shape, self.axes, self.shape if weighs else None)
        if layout is None and (weighs or len(self.axes) > 1):
            return None
        per_channel = layout is not None and layout.channels and layout.rows == layout.channels and layout.step > 1
        if across and rest and per_channel:  # a batch norm: what is summed to a channel is summed over its row
            self._launch(layout, wanted)
        else:
            if across and not self._sum(layout, across):
                return None
            if rest:
                self._launch(layout, rest)
        found = [self.outs.get(i) for i in range(len(self.all))]
        if self.is_value and not s.keeps(self.args):
            found[0] = found[0].reshape([n for i, n in enumerate(self.x.shape) if i not in self.axes])
        return tuple(found) if s.several else found[0]

    def _made(self, i: int, role: str) -> Any:
        """Return memory for a result."""
        x, kept = self.x, tuple([1 if a in self.axes else n for a, n in enumerate(self.x.shape)])
        if self.all[i][1]:
            weight = next((a for n, a in self.given.items() if self.statement.kinds[n] == WEIGHT and a is not None), x)
            out = empty(self.shape, weight.dtype)
        elif role == ELEMENT:
            out = empty(x.shape, x.dtype)
        else:
            out = empty(kept, x.dtype if self.is_value and i == 0 else _wide(x.dtype))
        self.outs[i] = out
        return out

    def _prepared(self, form: str, which: list[int]) -> tuple[Kernels, _Text, list[Any], list[Any]]:
        """Return the kernels of a form, its text, the operands and the results."""
        sums = form == "sums"
        results = [
            (apply(SUM, node), False) if across and not sums else (node, across)
            for node, across in (self.all[i] for i in which)
        ]
        kernels, text = self.forms.kernels(form, results, (self.absent, self.fixed, tuple(which)))
        operands = [dense(self.given[n]) for n in text.arrays]
        outs = [self._made(i, role) for i, role in zip(which, text.program.roles, strict=True)]
        return kernels, text, operands, outs

    def _key(self, operands: Sequence[Any], outs: Sequence[Any], pack: int, held: int) -> tuple[Any, ...]:
        return (self.x.dtype.char, *[a.dtype.char for a in (*operands, *outs)], pack, held)

    def _launch(self, layout: Layout | None, which: list[int]) -> None:
        x = self.x
        numbers = lambda text: [float(self.given[n]) for n in text.numbers]
        if layout is None:
            kernels, text, operands, outs = self._prepared("columns", which)
            (axis,) = self.axes
            n, after = x.shape[axis], math.prod(x.shape[axis + 1 :])
            count = x.size // n
            given = (*operands, *numbers(text), *outs, count, n, after)
            kernels.launch("columns", self._key(operands, outs, 1, 1), -(-count // 128), 128, given)
            return
        if not layout.channels:
            self._launch_rows(layout, which)
            return
        n, all_ = layout.width, layout.planes * layout.width
        if all_ < _LONGEST and (layout.rows >= _PIECES // 4 or (layout.rows >= _CHANNELS and all_ <= _PLANES)):
            kernels, text, operands, outs = self._prepared("planes", which)
            given = (*operands, *numbers(text), *outs, layout.planes, n, layout.first, layout.step, layout.channels)
            threads = min(max(32, (all_ + 127) // 128 * 32), 1024)
            kernels.launch("planes", self._key(operands, outs, 1, 1), layout.rows, threads, given)
            return
        self._launch_split(layout, which)

    def _launch_rows(self, layout: Layout, which: list[int]) -> None:
        n = layout.width
        kernels, text, operands, outs = self._prepared("walked", which)
        used = [a for a, name in zip(operands, text.arrays) if name not in text.of_rows]
        used += [a for a, role in zip(outs, text.program.roles) if role == ELEMENT]
        pack, held, threads = shape_of_blocks(n, pack_of(*used), not aligned(*used))
        if held and any(role == ELEMENT for role in text.program.roles):
            kernels, text, operands, outs = self._prepared("held", which)
        name = "held" if "void held" in kernels.text else "walked"
        given = (*operands, *[float(self.given[k]) for k in text.numbers], *outs, n)
        kernels.launch(name, self._key(operands, outs, pack, held or 1), layout.rows, threads, given)

    def _launch_split(self, layout: Layout, which: list[int]) -> None:
        kernels, text, operands, outs = self._prepared("split", which)
        all_ = layout.planes * layout.width
        pieces = max(min(-(-_PIECES // layout.rows), all_ // 1024), 1)
        length = -(-all_ // pieces)
        wide = _wide(self.x.dtype)
        count = max(sum(len(s.reductions) for s in text.program.stages), 1)
        found, parts = empty((layout.rows * count,), wide), empty((count * layout.rows * pieces,), wide)
        key = self._key(operands, outs, 1, 1)
        first = (*operands, *[float(self.given[k]) for k in text.numbers], *outs, found)
        rest = (parts, layout.planes, layout.width, layout.first, layout.step, layout.channels, pieces, length)
        for number, stage in enumerate(text.program.stages):
            if stage.reductions or stage.elements:
                kernels.launch(f"stage_{number}", key, layout.rows * pieces, 512, (*first, *rest))
            if stage.reductions:
                kernels.launch(f"join_{number}", key, layout.rows, 32, (parts, found, layout.rows, pieces))
        if text.program.scalars:
            given = (*first, layout.rows, layout.planes, layout.width, layout.first)
            kernels.launch("finish", key, -(-layout.rows // 128), 128, given)

    def _sum(self, layout: Layout | None, which: list[int]) -> bool:
        """Sum results across rows; return whether that could be done."""
        if layout is None:
            return False
        kernels, text, operands, outs = self._prepared("sums", which)
        if text.program.firsts or any(s.reductions for s in text.program.stages):
            return False
        n, count, wide = layout.width, len(which), _wide(self.x.dtype)
        numbers = [float(self.given[k]) for k in text.numbers]
        used = [a for a, name in zip(operands, text.arrays) if name in text.elements]
        pack = pack_of(*used) if n % pack_of(*used) == 0 and aligned(*used) else 1
        key = self._key(operands, outs, pack, 1)
        if layout.channels:
            number, channels = layout.rows * layout.planes, layout.channels
            parts = empty((number // channels, count, channels), wide)
            given = (*operands, *numbers, parts, n, layout.planes, layout.rows, int(layout.step == 1), channels)
            kernels.launch("plane_sums", key, number, min(max(32, (n + 127) // 128 * 32), 512), given)
            pieces, width = number // channels, channels
        else:
            tiles = -(-n // (32 * pack))
            pieces = max(min(-(-_PIECES // tiles), layout.rows // 64), 1)
            length = -(-layout.rows // pieces)
            pieces, width = -(-layout.rows // length), n
            parts = empty((pieces, count, n), wide)
            kernels.launch(
                "scales", key, tiles * pieces, 256, (*operands, *numbers, parts, layout.rows, n, length)
            )
        kernels.launch("sums_of_pieces", key, count * -(-width // 32), 256, (parts, *outs, pieces, width))
        return True
