"""The C of row-wise statements: the loops over rows here, the formulas in them printed from the statement.

A block for each row, which stays in registers where it fits (`held`); else every stage reads it again (`walked`), from
the second level cache. Along an axis that is not the last, a thread takes a row (`columns`). Rows of planes
(batch, group and instance norm) are a block each (`planes`), or, where these would be too few for a GPU, several
blocks with a launch for each loop (`split`). Sums across rows are sums of columns or channels in two launches, in an
order that depends on the shape alone. 16-bit numbers are computed with as float.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

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
    Program,
    Reduced,
    Stage,
)  # fmt: skip
from ...scalar.symbol import Symbol, apply, by_name, variable
from .rows import LEVEL, WALK

__all__ = ["HEAD", "Text"]

# K: packs of a row that a thread holds; of rows of planes, 2 where places in one need 64 bits.
_PLACES = "#if K == 2\ntypedef i64 E;\n#else\ntypedef unsigned int E;  // is divided much faster\n#endif\n"
_EXP = "__device__ __forceinline__ W exp_below(W x) { return power(x); }\n"
HEAD = "typedef wide_of<T>::type W;\n" + _PLACES + WALK + LEVEL + _EXP


class Text:
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
        """Return a kernel of rows that are strided in memory, (A, n, B): a thread for each of A and B."""
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
