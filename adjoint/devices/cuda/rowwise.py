"""Row-wise statements as CUDA kernels: the loops here, the formulas in them printed from the statement.

A block for each row, which stays in registers where it fits (`held`); else every stage reads it again (`walked`), which
the second level cache answers. Along an axis that is not the last, a thread takes a row (`columns`). Rows of planes
(batch, group and instance norm) are a block each (`planes`), or, where these would be too few for a GPU, several
blocks with a launch for each loop (`split`). Sums across rows are sums of columns or channels in two launches, in an
order that depends on the shape alone. 16-bit numbers are computed with as float.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np

from ..._typing import Array
from ...scalar import cuda
from ...scalar.rows import (
    ACROSS,
    COUNT,
    ELEMENT,
    EXP_BELOW,
    LABEL,
    MAX,
    NUMBER,
    ROW,
    SUM,
    WEIGHT,
    Layout,
    Program,
    Reduced,
    Stage,
    Statement,
    layout_of,
)  # fmt: skip
from ...scalar.symbol import Symbol, apply, by_name, variable
from . import sizes
from .launching import Kernels, aligned, dense, empty, is_float
from .rows import LEVEL, WALK, shape_of_blocks
from .table import override

_F32 = np.dtype(np.float32)
_LONGEST = 1 << 31
_MOST_PLANS = 1 << 12

# K: packs of a row that a thread holds; of rows of planes, 2 where places in one need 64 bits.
_PLACES = "#if K == 2\ntypedef i64 E;\n#else\ntypedef unsigned int E;  // is divided much faster\n#endif\n"
_EXP = "__device__ __forceinline__ W exp_below(W x) { return power(x); }\n"
_HEAD = "typedef wide_of<T>::type W;\n" + _PLACES + WALK + LEVEL + _EXP


class _Text:
    """The C of one program: what its kernels declare, read and compute."""

    def __init__(self, program: Program, single: frozenset[str] = frozenset()) -> None:
        """Print for a program; operands of rows that are `single` have one element for all."""
        self.program, self.single = program, single
        self.names = [n for n in program.names if n != COUNT]
        kinds = program.kinds
        self.arrays = [n for n in self.names if kinds[n] != NUMBER]
        self.elements = [n for n in self.names if kinds[n] == ELEMENT]
        self.weights = [n for n in self.names if kinds[n] == WEIGHT]
        self.of_rows = [n for n in self.names if kinds[n] in (ROW, LABEL)]
        self.numbers = [n for n in self.names if kinds[n] == NUMBER]
        self.outs = [i for i, role in enumerate(program.roles) if role != ACROSS]
        self.open_names = (
            "T",
            *[f"T_{n}" for n in self.arrays],
            *[f"O_{i}" for i in range(len(program.roles))],
            "P",
            "K",
        )
        self._fresh = 0

    def parameters(self, outs: str = "") -> str:
        """Return the parameters that all kernels have."""
        given = [f"const T_{n}* __restrict__ p_{n}" for n in self.arrays] + [f"double n_{n}" for n in self.numbers]
        return ", ".join([*given, outs or ", ".join(f"O_{i}* __restrict__ o_{i}" for i in self.outs)])

    def row(self, row: str, start: str) -> str:
        """Return what is read of a row before its first loop."""
        lines = [f"const W {n} = (W)n_{n};" for n in self.numbers]
        for n in self.of_rows:
            kind, at = "i64" if self.program.kinds[n] == LABEL else "W", "0" if n in self.single else row
            lines.append(f"const {kind} {n} = ({kind})p_{n}[{at}];")
        for n, label in self.program.picks:
            lines.append(f"const W at_{n} = {label} < 0 || {label} >= n ? W(NAN) : (W)p_{n}[{start} + {label}];")
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

    def element(
        self, stage: Stage, target: Callable[[int], str], kept: Callable[[int], str] | None = None, place: str = "i"
    ) -> str:
        """Return what a loop does with one element, whose operands are declared, at a place in its row."""
        hot = self.program.hot
        text = f"const W hot_{hot} = (W)({hot} == {place}); " if hot and stage.elements else ""
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
        body, levels, known = "", self._levels(), ""
        for number, stage in enumerate(self.program.stages):
            body += self.scalars(stage) + "\n    "
            if number in levels:
                known = levels[number]
                body += self._walked_level(stage.reductions[0], known) + "\n    "
                continue
            if not (stage.reductions or stage.elements) or [r.name for r in stage.reductions] == [known]:
                continue
            weights = " ".join(f"const W {n} = (W)p_{n}[AT];" for n in self.weights)
            many = " ".join(
                f"Pack<T_{n}, P> q_{n} = *(const Pack<T_{n}, P>*)(p_{n} + start + i);" for n in self.elements
            )
            many += " ".join(f" Pack<O_{i}, P> w_{i};" for i, _ in stage.elements)
            one = " ".join(f"const W {n} = (W)q_{n}.v[j];" for n in self.elements) + weights.replace("AT", "i + j")
            one += self.element(stage, lambda i: f"w_{i}.v[j]", place="i + j")
            many += f" for (int j = 0; j < P; ++j) {{ {one} }}"
            many += " ".join(f" *(Pack<O_{i}, P>*)(o_{i} + start + i) = w_{i};" for i, _ in stage.elements)
            single = " ".join(f"const W {n} = (W)p_{n}[start + i];" for n in self.elements) + weights.replace("AT", "i")
            single += " " + self.element(stage, lambda i: f"o_{i}[start + i]")
            body += f"{self.accumulators(stage)}\n    "
            body += f"walk<P>(start, n, [&](i64 i) {{ {many} }},\n        [&](i64 i) {{ {single} }});"
            body += f"\n    {self.joined(stage)}\n    "
        return f"""extern "C" __global__ void walked({self.parameters()}, i64 n) {{
    i64 row = blockIdx.x, start = row * n;
    const W {COUNT} = (W)n; {self.row("row", "start")}
    {body}if (threadIdx.x == 0) {{ {self.finished("row")} }}
}}
"""

    def _levels(self) -> dict[int, str]:
        """Return the stages that find a maximum for the next, which adds up exponentials: by number, that sum."""
        found, stages = {}, self.program.stages
        for number, (stage, later) in enumerate(itertools.pairwise(stages)):
            if self.weights or [len(s.reductions) for s in (stage, later)] != [1, 1] or later.scalars:
                continue
            (top,), (total,) = stage.reductions, later.reductions
            below = apply(by_name["subtract"], top.value, variable(top.name))
            exponentials = {repr(apply(f, below)) for f in (EXP_BELOW, by_name["exp"])}
            if top.function is MAX and total.function is SUM and repr(total.value) in exponentials:
                found[number] = total.name
        return found

    def _walked_level(self, top: Reduced, total: str) -> str:
        """Return the loop over a row that finds a maximum and the sum of exponentials below it."""
        steps, said = self.computed(top.value)
        many = " ".join(f"Pack<T_{n}, P> q_{n} = *(const Pack<T_{n}, P>*)(p_{n} + start + i);" for n in self.elements)
        each = " ".join(f"const W {n} = (W)q_{n}.v[j];" for n in self.elements)
        one = " ".join(f"const W {n} = (W)p_{n}[start + i];" for n in self.elements)
        return f"""Level level{{-INFINITE, 0}};
    walk<P>(start, n, [&](i64 i) {{ {many} W v[P];
            for (int j = 0; j < P; ++j) {{ {each} {steps}v[j] = {said}; }} add<P>(level, v); }},
        [&](i64 i) {{ {one} {steps}const W v = {said}; add<1>(level, &v); }});
    level = block_level(level);
    const W {top.name} = level.top, {total} = level.sum;"""

    def held(self) -> str:
        """Return a kernel of rows that stay in registers: K packs of P elements in each thread."""
        each = "for (int k = 0; k < K; ++k) { int i = threadIdx.x + k * blockDim.x; if (i < packs) {"
        body = " ".join(f"Pack<T_{n}, P> h_{n}[K];" for n in self.elements)
        body += f"\n    #pragma unroll\n    {each} "
        body += (
            " ".join(f"h_{n}[k] = ((const Pack<T_{n}, P>*)(p_{n} + start))[i];" for n in self.elements) + " } }\n    "
        )
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
            inner += " " + self.element(stage, lambda i: f"w_{i}.v[j]", lambda i: f"h_kept_{i}[k * P + j]", "i * P + j")
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
                body += (
                    f"{self.accumulators(stage)}\n    for (i64 i = 0; i < n; ++i) {{ i64 at = start + i * B; {one} }}"
                )
                body += f"\n    {self.joined(stage, block=False)}\n    "
        return f"""extern "C" __global__ void columns({self.parameters()}, i64 count, i64 n, i64 B) {{
    i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (row >= count) return;
    i64 start = row / B * n * B + row % B;
    const W {COUNT} = (W)n; {self.row("row", "start")}
    {body}{self.finished("row")}
}}
"""

    def _plane_element(self, stage: Stage) -> str:
        """Return what a stage's loop does with pack `e` of a row of planes."""
        text = "const E k = e / size; i64 plane = row * first + k * step, at = plane * n + (e - k * size) * P;"
        text += " ".join(f" const W {n} = (W)p_{n}[plane % channels];" for n in self.weights)
        text += " ".join(f" const Pack<T_{n}, P> q_{n} = *(const Pack<T_{n}, P>*)(p_{n} + at);" for n in self.elements)
        text += " ".join(f" Pack<O_{i}, P> w_{i};" for i, _ in stage.elements)
        one = " ".join(f"const W {n} = (W)q_{n}.v[j];" for n in self.elements)
        one += " " + self.element(stage, lambda i: f"w_{i}.v[j]")
        text += f"\n        #pragma unroll\n        for (int j = 0; j < P; ++j) {{ {one} }}\n        "
        return text + " ".join(f"*(Pack<O_{i}, P>*)(o_{i} + at) = w_{i};" for i, _ in stage.elements)

    def planes(self) -> str:
        """Return a kernel of rows of planes: a block for each row."""
        body = ""
        for stage in self.program.stages:
            body += self.scalars(stage) + "\n    "
            if stage.reductions or stage.elements:
                body += f"{self.accumulators(stage)}\n    #pragma unroll {2 if stage.elements else 4}\n    "
                body += f"for (E e = threadIdx.x; e < all; e += blockDim.x) {{ {self._plane_element(stage)} }}"
                body += f"\n    {self.joined(stage)}\n    "
        return f"""extern "C" __global__ void planes({self.parameters()}, i64 planes, i64 n, i64 first, i64 step,
        i64 channels) {{
    const E size = (E)(n / P), all = (E)planes * size;
    i64 row = blockIdx.x;
    const W {COUNT} = (W)planes * (W)n; {self.row("row", "row * first * n")}
    {body}if (threadIdx.x == 0) {{ {self.finished("row")} }}
}}
"""

    def split_stages(self) -> list[int]:
        """Return which stages have a launch in `split`; the last of them writes numbers of rows."""
        stages = self.program.stages
        found = [i for i, s in enumerate(stages) if s.reductions or s.elements]
        if self.program.scalars and (not found or stages[found[-1]].reductions):
            found.append(len(stages) - 1 if found[-1:] != [len(stages) - 1] else len(stages))
        return found

    def split(self) -> str:
        """Return kernels of rows of planes, several blocks for each: a launch `stage_0`, `stage_1`, ... for each loop.

        A stage leaves what its pieces reduce to in `parts`, and every block of a later stage joins them for itself.
        """
        stages = self.program.stages
        place = {r.name: i for i, r in enumerate(r for s in stages for r in s.reductions)}
        launched = self.split_stages()
        text, known = "", ""
        for number in range(max(launched, default=-1) + 1):
            stage = stages[number] if number < len(stages) else Stage([], [], [], [], [])
            before = known + self.scalars(stage)
            left = " ".join(f"parts[{place[r.name]} * gridDim.x + blockIdx.x] = {r.name};" for r in stage.reductions)
            done = self.finished("row") if number == launched[-1] and not stage.reductions else ""
            if done:
                done = f"if (threadIdx.x == 0 && from == 0) {{ {done} }}"
            if number in launched:
                loop = ""
                if stage.reductions or stage.elements:
                    loop = f"{self.accumulators(stage)}\n    #pragma unroll {2 if stage.elements else 4}\n    "
                    loop += "for (E e = (E)(from + threadIdx.x); e < to; e += blockDim.x) { "
                    loop += f"{self._plane_element(stage)} }}\n    {self.joined(stage)}\n    "
                    loop += f"if (threadIdx.x == 0) {{ {left} }}" if left else ""
                text += f"""extern "C" __global__ void stage_{number}({self.parameters()}, W* parts, i64 planes, i64 n,
        i64 first, i64 step, i64 channels, i64 pieces, i64 length) {{
    const E size = (E)(n / P);
    i64 row = blockIdx.x / pieces, from = blockIdx.x % pieces * length, to = from + length;
    if (to > planes * size) to = planes * size;
    const W {COUNT} = (W)planes * (W)n; {self.row("row", "row * first * n")}
    {before}
    {loop}
    {done}
}}
"""
            known = before
            for r in stage.reductions:
                join, block = ("join_amax", "block_amax") if r.function is MAX else ("join_sum", "block_sum")
                start = f"parts + ({place[r.name]} * (gridDim.x / pieces) + row) * pieces"
                known += f"""W j_{r.name} = {"-INFINITE" if r.function is MAX else "0"};
    for (i64 k = threadIdx.x; k < pieces; k += blockDim.x) j_{r.name} = {join}(j_{r.name}, ({start})[k]);
    const W {r.name} = {block}(j_{r.name});
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
        packs = " ".join(
            f"Pack<T_{n}, P> q_{n} = *(const Pack<T_{n}, P>*)(p_{n} + r * n + column);" for n in self.elements
        )
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

    def kernels(self, form: str, results: Any, key: Any, single: frozenset[str] = frozenset()) -> tuple[Kernels, _Text]:
        """Return the kernels of a form, for some of the results."""
        found = self._made.get((form, key, single))
        if found is None:
            text = _Text(Program(results, self.statement.kinds, keeps=form == "held"), single)
            found = self._made[form, key, single] = Kernels(_HEAD + getattr(text, form)(), *text.open_names), text
        return found


def _readers(n: int, pack: int) -> int:
    """Return the threads of a block that reads a row of `n` once, in packs."""
    packs = -(-n // pack)
    return 64 if packs <= 128 else 128 if packs <= 512 else 256 if packs <= 2048 else 512


def _wide(dtype: Any) -> Any:
    return dtype if dtype.char == "d" else _F32


def _seen(a: Any) -> Any:
    """Return what a plan depends on of an operand; 0 of what is no array."""
    return (a.dtype, a.size == 1) if isinstance(a, cupy.ndarray) else 0


def _is_taken(a: Any, is_label: bool) -> bool:
    """Return whether kernels take an operand: labels are int64, other arrays of floats."""
    return a is None or (a.dtype.char in "lq" if is_label else is_float(a))


@override.rowwise
def kernel_of(statement: Statement, definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel or rule with a statement's arguments that runs its forms on arrays of a GPU."""
    forms, places = Forms(statement), statement.places
    base = places.get("x", places.get("out", 0))
    needed = [places[n] for n in statement.hidden if n in places]
    arrays = [places[n] for n in statement.operands if statement.kinds[n] != NUMBER]
    labels = [places[n] for n, kind in statement.kinds.items() if kind == LABEL]
    fixed = {"axis", "axes", "keepdims", "shape", *statement.static}
    others = [i for n, i in places.items() if n in fixed or statement.kinds.get(n) == NUMBER]
    plans: dict[Any, Any] = {}

    def kernel(*args: Any, needs: tuple[bool, ...] | None = None) -> Any:
        x = args[base]
        if isinstance(x, cupy.ndarray) and x.size and x.ndim and not [i for i in needed if args[i] is None]:
            given = [args[i] for i in arrays]
            seen = tuple([None if a is None else _seen(a) for a in given])
            key = x.shape, seen, needs, *[args[i] for i in others]
            plan = plans.get(key, False)
            if plan is False:
                fits = 0 not in seen and all([_is_taken(a, n in labels) for a, n in zip(given, arrays)])  # noqa: C419
                if len(plans) >= _MOST_PLANS:
                    plans.clear()
                plan = plans[key] = Plan(forms, args, x, needs) if fits else None
            if plan and plan.there:
                return plan.run(args, x)
        return definition(*args) if needs is None else definition(*args, needs=needs)

    kernel.forms = forms  # type: ignore[attr-defined]
    return kernel


class _Ref(NamedTuple):
    """What an argument of a launch is, call by call: an operand, a result or memory in between, by its number."""

    kind: str
    number: int


class Plan:
    """What is launched for arguments of some shapes and dtypes; `there` is False where a layout has no kernel."""

    def __init__(self, forms: Forms, args: Sequence[Any], x: Array, needs: tuple[bool, ...] | None) -> None:
        s = self.statement = forms.statement
        self.forms, self.x_shape, self.dtype = forms, x.shape, x.dtype
        self.axes, self.shape = s.axes(args), s.shape(args)
        self.kept = tuple([1 if a in self.axes else n for a, n in enumerate(x.shape)])
        self.dtypes = {n: args[s.places[n]].dtype for n in s.operands if hasattr(args[s.places[n]], "dtype")}
        self.single = frozenset([n for n in self.dtypes if s.kinds[n] == ROW and args[s.places[n]].size == 1])
        self.numbers = {n: float(args[s.places[n]]) for n in s.operands if s.kinds[n] == NUMBER}
        self.absent = tuple([n for n in s.operands if args[s.places[n]] is None])
        self.fixed = tuple([args[s.places[n]] for n in s.static])
        self.all = s.traced(self.absent, self.fixed)
        self.needs = (True,) * len(self.all) if needs is None else tuple(needs)
        self.is_value = "g" not in s.places
        self.outs: dict[int, tuple[Any, Any]] = {}  # shapes and dtypes of results, and of memory in between
        self.between: list[tuple[Any, Any]] = []
        self.steps: list[Any] = []
        self.there = self._made()
        self.squeezed = None
        if self.is_value and not s.keeps(args):
            self.squeezed = tuple([n for i, n in enumerate(x.shape) if i not in self.axes])

    def run(self, args: Sequence[Any], x: Array) -> Any:
        """Launch what there is to launch, and return what the kernel or rule returns."""
        outs = {i: empty(*made) for i, made in self.outs.items()}
        between = [empty(*made) for made in self.between]
        operands: dict[int, Any] = {}

        def value(ref: Any) -> Any:
            if type(ref) is not _Ref:
                return ref
            if ref.kind == "out":
                return outs[ref.number]
            if ref.kind == "between":
                return between[ref.number]
            found = operands.get(ref.number)
            if found is None:
                found = operands[ref.number] = dense(args[ref.number])
            return found

        for step in self.steps:
            step(value)
        found: list[Any] = [outs.get(i) for i in range(len(self.all))]
        if self.squeezed is not None:
            found[0] = found[0].reshape(self.squeezed)
        return tuple(found) if self.statement.several else found[0]

    def _made(self) -> bool:
        """Find what to launch; return whether there is something."""
        s, wanted = self.statement, [i for i, need in enumerate(self.needs) if need]
        across = [i for i in wanted if self.all[i][1]]
        rest = [i for i in wanted if not self.all[i][1]]
        weighs = bool(across) or any(kind == WEIGHT and n not in self.absent for n, kind in s.kinds.items())
        layout = layout_of(self.x_shape, self.axes, self.shape if weighs else None)
        if layout is None and (weighs or len(self.axes) > 1):
            return False
        per_channel = layout is not None and layout.channels and layout.rows == layout.channels and layout.step > 1
        if across and rest and per_channel:  # a batch norm: what is summed to a channel is summed over its row
            self._launch(layout, wanted)
            return True
        if across and not self._sum(layout, across):
            return False
        if rest:
            self._launch(layout, rest)
        return True

    def _prepared(self, form: str, which: list[int]) -> tuple[Kernels, _Text, list[Any]]:
        """Return the kernels of a form, their text, and what they are given first: operands, numbers and results."""
        results = [
            (apply(SUM, node), False) if across and form != "sums" else (node, across)
            for node, across in (self.all[i] for i in which)
        ]
        kernels, text = self.forms.kernels(form, results, (self.absent, self.fixed, tuple(which)), self.single)
        for i, role in zip(which, text.program.roles, strict=True):
            self.outs[i] = self._memory(i, role)
        operands = [_Ref("operand", self.statement.places[n]) for n in text.arrays]
        given = [*operands, *[self.numbers[n] for n in text.numbers]]
        return kernels, text, given if form == "sums" else [*given, *[_Ref("out", i) for i in which]]

    def _memory(self, i: int, role: str) -> tuple[Any, Any]:
        """Return the shape and dtype of a result."""
        if self.all[i][1]:
            kinds = self.statement.kinds
            return self.shape, next((d for n, d in self.dtypes.items() if kinds[n] == WEIGHT), self.dtype)
        if role == ELEMENT:
            return self.x_shape, self.dtype
        rounded = self.is_value and i == 0 and not (self.statement.of_rows and self.statement.several)
        return self.kept, self.dtype if rounded else _wide(self.dtype)

    def _key(self, text: _Text, which: list[int], pack: int, held: int) -> tuple[Any, ...]:
        dtypes = [self.dtypes[n] for n in text.arrays] + [self.outs[i][1] for i in which]
        return (self.dtype.char, *[d.char for d in dtypes], pack, held)

    def _add(
        self, kernels: Kernels, name: str, key: tuple[Any, ...], blocks: int, threads: int, given: Sequence[Any]
    ) -> None:
        refs = tuple(given)
        self.steps.append(lambda value: kernels.launch(name, key, blocks, threads, tuple([value(r) for r in refs])))

    def _between(self, shape: tuple[int, ...]) -> _Ref:
        self.between.append((shape, _wide(self.dtype)))
        return _Ref("between", len(self.between) - 1)

    def _launch(self, layout: Layout | None, which: list[int]) -> None:
        if layout is None:
            kernels, text, given = self._prepared("columns", which)
            (axis,) = self.axes
            n, after = self.x_shape[axis], math.prod(self.x_shape[axis + 1 :])
            count = math.prod(self.x_shape) // n
            key = self._key(text, which, 1, 1)
            self._add(kernels, "columns", key, -(-count // 128), 128, (*given, count, n, after))
            return
        if not layout.channels:
            self._launch_rows(layout, which)
            return
        every = layout.planes * layout.width
        many = layout.rows >= (sizes.ROWS_OF_PLANES if every <= sizes.ROWS_PLANES else sizes.BLOCKS // 4)
        if every < _LONGEST and (many or every <= sizes.ROW_OF_PLANES):
            self._launch_planes(layout, which)
        else:
            self._launch_split(layout, which)

    def _packs(self, text: _Text, given: Sequence[Any], which: list[int], n: int) -> tuple[int, list[Any]]:
        """Return how many elements of planes of `n` may be read at once, and what must begin at a pack for that."""
        elements = [ref for ref, name in zip(given, text.arrays) if name in text.elements]
        elements += [_Ref("out", i) for i, role in zip(which, text.program.roles, strict=True) if role == ELEMENT]
        bytes_ = [self.dtypes[name].itemsize for name in text.elements]
        return math.gcd(n, 16 // min([*bytes_, self.dtype.itemsize])), elements

    def _launch_planes(self, layout: Layout, which: list[int]) -> None:
        kernels, text, given = self._prepared("planes", which)
        n, every = layout.width, layout.planes * layout.width
        pack, elements = self._packs(text, given, which, n)
        refs = (*given, layout.planes, n, layout.first, layout.step, layout.channels)
        forms = [(self._key(text, which, p, 1), min(max(32, (every // p + 127) // 128 * 32), 1024)) for p in (1, pack)]

        def launch(value: Callable[[Any], Any]) -> None:
            key, threads = forms[aligned(*[value(r) for r in elements])]
            kernels.launch("planes", key, layout.rows, threads, tuple([value(r) for r in refs]))

        self.steps.append(launch)

    def _launch_rows(self, layout: Layout, which: list[int]) -> None:
        n = layout.width
        forms = {form: self._prepared(form, which) for form in ("walked", "held")}
        _, text, refs = forms["walked"]
        whole = [ref for ref, name in zip(refs, text.arrays) if name not in text.of_rows]
        whole += [_Ref("out", i) for i, role in zip(which, text.program.roles) if role == ELEMENT]
        bytes_ = [self.dtypes[n].itemsize for n in text.arrays if n not in text.of_rows]
        widest = 16 // min([*bytes_, self.dtype.itemsize])
        writes = ELEMENT in text.program.roles
        once = sum(bool(stage.reductions or stage.elements) for stage in text.program.stages) == 1 or not writes

        def launch(value: Callable[[Any], Any]) -> None:
            pack, held, threads = shape_of_blocks(n, widest, not aligned(*[value(r) for r in whole]))
            name = "held" if held and writes else "walked"
            threads = _readers(n, pack) if once and name == "walked" else threads
            kernels, text, given = forms[name]
            key = self._key(text, which, pack, held or 1)
            kernels.launch(name, key, layout.rows, threads, (*[value(r) for r in given], n))

        self.steps.append(launch)

    def _launch_split(self, layout: Layout, which: list[int]) -> None:
        kernels, text, given = self._prepared("split", which)
        n, every = layout.width, layout.planes * layout.width
        pack, elements = self._packs(text, given, which, n)
        pieces = max(min(-(-sizes.BLOCKS // layout.rows), every // 1024), 1)
        count = max(sum(len(s.reductions) for s in text.program.stages), 1)
        parts = self._between((count * layout.rows * pieces,))
        refs = (*given, parts, layout.planes, n, layout.first, layout.step, layout.channels, pieces)
        wide = 1 if every < _LONGEST else 2
        forms = [(self._key(text, which, p, wide), -(-every // (p * pieces))) for p in (1, pack)]
        launched = text.split_stages()

        def launch(value: Callable[[Any], Any]) -> None:
            key, length = forms[aligned(*[value(r) for r in elements])]
            args = (*[value(r) for r in refs], length)
            for number in launched:
                kernels.launch(f"stage_{number}", key, layout.rows * pieces, 512, args)

        self.steps.append(launch)

    def _sum(self, layout: Layout | None, which: list[int]) -> bool:
        """Sum results across rows; return whether that can be done."""
        if layout is None:
            return False
        kernels, text, given = self._prepared("sums", which)
        if text.program.firsts or any(s.reductions for s in text.program.stages):
            return False
        n, count = layout.width, len(which)
        outs = [_Ref("out", i) for i in which]
        if layout.channels:
            number, channels = layout.rows * layout.planes, layout.channels
            parts, key = self._between((number // channels, count, channels)), self._key(text, which, 1, 1)
            threads = min(max(32, (n + 127) // 128 * 32), 512)
            given = [*given, parts, n, layout.planes, layout.rows, int(layout.step == 1), channels]
            self._add(kernels, "plane_sums", key, number, threads, given)
            tiles = count * -(-channels // 32)
            self._add(kernels, "sums_of_pieces", key, tiles, 256, (parts, *outs, number // channels, channels))
            return True
        elements = [ref for ref, name in zip(given, text.arrays) if name in text.elements]
        widest = 16 // min([self.dtypes[k].itemsize for k in text.elements])

        def launch(value: Callable[[Any], Any]) -> None:
            pack = widest if n % widest == 0 and aligned(*[value(r) for r in elements]) else 1
            tiles = -(-n // (32 * pack))
            pieces = max(min(-(-sizes.BLOCKS // tiles), layout.rows // 64), 1)
            length = -(-layout.rows // pieces)
            pieces = -(-layout.rows // length)
            parts, key = empty((pieces, count, n), _wide(self.dtype)), self._key(text, which, pack, 1)
            args = (*[value(r) for r in given], parts, layout.rows, n, length)
            kernels.launch("scales", key, tiles * pieces, 256, args)
            args = (parts, *[value(r) for r in outs], pieces, n)
            kernels.launch("sums_of_pieces", key, count * -(-n // 32), 256, args)

        self.steps.append(launch)
        return True
