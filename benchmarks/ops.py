"""The speed of ops: adjoint beside torch eager, forward and backward, in one run.

    python benchmarks/ops.py                     # the table with whatever providers are installed
    python benchmarks/ops.py --provider numpy    # with NumPy alone
    python benchmarks/ops.py --only softmax --quick
    python benchmarks/ops.py --device cuda       # arrays of a million elements and more, on a GPU

A row is a name, its bars (NumPy alone, with the extra fast) and a function of `T`, the module under test, that
prepares a program and returns it: both sides run the very same code. Add rows with `row` or `rows`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import expressions
from sides import Side, serve, sides

Program = Callable[[], object]
Builder = Callable[[Any], Program]


@dataclass
class Row:
    name: str
    bars: tuple[float, float]  # NumPy alone, with the extra fast
    build: Builder
    group: str


ROWS: list[Row] = []
GROUPS = {  # bars per group of the table
    "small": (0.6, 0.6),
    "overhead": (1.0, 1.0),  # small, but no arithmetic: factories, questions, views, writes; no bar of the table
    "elementwise": (1.5, 0.9),
    "moved": (1.5, 1.0),  # copies and indexing of large arrays; no bar of the table
    "matmul": (1.3, 1.05),
    "transformer": (2.0, 0.9),
    "vision": (2.5, 0.9),
    "extra": (2.5, 1.0),  # not in the table of bars; known to be slow once
}

LARGE, GPU_BAR = ("10000x1000", "8x1024x768", "2048x2048", "16x64x32x32", "2x12x512x64"), 1.2


def row(group: str, name: str, build: Builder) -> None:
    """Add a row to a group, whose bars it takes."""
    ROWS.append(Row(name, GROUPS[group], build, group))


def leaf(T: Any, *shape: int, seed: int = 0, scale: float = 1.0, grad: bool = True) -> Any:
    """Return the same normal numbers for both sides, as a leaf."""
    import numpy as np

    values = np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)
    return T.tensor(values).requires_grad_(grad)


def differentiated(function: Callable[..., Any], T: Any, *leaves: Any) -> Program:
    """Return the program ``y = function(*leaves); y.backward(g)`` with a cotangent made once."""
    g = T.ones_like(function(*leaves).detach())

    def program() -> None:
        for x in leaves:
            x.grad = None
        function(*leaves).backward(g)

    return program


def rows(group: str, name: str, sizes: Any, function: Callable[..., Any], leaves: int = 1) -> None:
    """Add a row per size of a function ``function(T, *leaves)`` whose leaves all have that size."""
    for size in sizes:

        def build(T: Any, size: Any = size) -> Program:
            inputs = [leaf(T, *size, seed=i) for i in range(leaves)]
            return differentiated(lambda *xs: function(T, *xs), T, *inputs)

        row(group, f"{name} {'x'.join(map(str, size))}", build)


# --- One op each: see expressions.py ------------------------------------------------------------------


def _expression(text: str, rows: int, columns: int) -> Builder:
    return lambda T: expressions.program(T, text, rows, columns)


for _kind, _table in expressions.SMALL.items():
    for _text in expressions.expressions(_table):
        _group = "overhead" if _text[0] in "!@" or _kind in ("views", "indexing", "joining", "scatter") else "small"
        row(_group, f"{_text}  8x8", _expression(_text, 8, 8))
for _rows, _columns in ((316, 316), (1000, 1000), (10000, 1000)):
    for _kind, _table in expressions.LARGE.items():
        for _text in expressions.expressions(_table):
            _group = "moved" if _kind == "moved" else "elementwise"
            row(_group, f"{_text}  {_rows}x{_columns}", _expression(_text, _rows, _columns))

# --- Matrix products --------------------------------------------------------------------------------

rows("matmul", "matmul", [(n, n) for n in (128, 256, 512, 1024, 2048)], lambda T, x, y: T.matmul(x, y), 2)
rows("matmul", "bmm", [(16, 64, 64), (64, 128, 128), (8, 512, 512)], lambda T, x, y: T.bmm(x, y), 2)


def _linear(T: Any) -> Program:
    x, w, b = leaf(T, 8, 1024, 768), leaf(T, 768, 768, seed=1, scale=0.03), leaf(T, 768, seed=2)
    return differentiated(T.nn.functional.linear, T, x, w, b)


row("matmul", "linear 8x1024x768 -> 768", _linear)

# --- What transformers do ---------------------------------------------------------------------------

SEQUENCES = [(16, 64, 128), (8, 1024, 768)]

rows("transformer", "softmax", SEQUENCES, lambda T, x: T.softmax(x, -1))
rows("transformer", "log_softmax", SEQUENCES, lambda T, x: T.log_softmax(x, -1))
rows("transformer", "gelu", SEQUENCES, lambda T, x: T.nn.functional.gelu(x))
rows("transformer", "gelu tanh", SEQUENCES, lambda T, x: T.nn.functional.gelu(x, approximate="tanh"))


def _layer_norm(n: int, m: int, k: int) -> Builder:
    def build(T: Any) -> Program:
        x, w, b = leaf(T, n, m, k), leaf(T, k, seed=1), leaf(T, k, seed=2)
        return differentiated(lambda x, w, b: T.nn.functional.layer_norm(x, (k,), w, b), T, x, w, b)

    return build


def _cross_entropy(n: int, m: int, k: int) -> Builder:
    def build(T: Any) -> Program:
        import numpy as np

        x = leaf(T, n * m, k)
        labels = T.tensor(np.random.default_rng(1).integers(0, k, n * m))
        return differentiated(lambda x: T.nn.functional.cross_entropy(x, labels), T, x)

    return build


def _attention(shape: tuple[int, ...], causal: bool) -> Builder:
    def build(T: Any) -> Program:
        leaves = [leaf(T, *shape, seed=i) for i in range(3)]
        attend = T.nn.functional.scaled_dot_product_attention
        return differentiated(lambda q, k, v: attend(q, k, v, is_causal=causal), T, *leaves)

    return build


for _size in SEQUENCES:
    _shown = "x".join(map(str, _size))
    row("transformer", f"layer_norm {_shown}", _layer_norm(*_size))
    row("transformer", f"cross_entropy {_shown}", _cross_entropy(*_size))
    row("transformer", f"sdpa {_shown}", _attention(_size, False))
    row("transformer", f"sdpa causal {_shown}", _attention(_size, True))
row("transformer", "sdpa 2x12x512x64", _attention((2, 12, 512, 64), False))
row("transformer", "sdpa causal 2x12x512x64", _attention((2, 12, 512, 64), True))

# --- What networks for images do --------------------------------------------------------------------


def _conv2d(channels: int = 64, groups: int = 1, stride: int = 1) -> Builder:
    def build(T: Any) -> Program:
        x, w = leaf(T, 16, channels, 32, 32), leaf(T, 64, channels // groups, 3, 3, seed=1, scale=0.05)
        b = leaf(T, 64, seed=2)
        conv = T.nn.functional.conv2d
        return differentiated(lambda x, w, b: conv(x, w, b, stride, padding=1, groups=groups), T, x, w, b)

    return build


def _batch_norm(T: Any) -> Program:
    x, w, b = leaf(T, 16, 64, 32, 32), leaf(T, 64, seed=1), leaf(T, 64, seed=2)
    mean, var = T.zeros(64), T.ones(64)
    norm = T.nn.functional.batch_norm
    return differentiated(lambda x, w, b: norm(x, mean, var, w, b, training=True), T, x, w, b)


def _group_norm(T: Any) -> Program:
    x, w, b = leaf(T, 16, 64, 32, 32), leaf(T, 64, seed=1), leaf(T, 64, seed=2)
    return differentiated(lambda x, w, b: T.nn.functional.group_norm(x, 8, w, b), T, x, w, b)


IMAGES = [(16, 64, 32, 32)]

row("vision", "conv2d 16x64x32x32 3x3", _conv2d())
rows("vision", "max_pool2d 2x2", IMAGES, lambda T, x: T.nn.functional.max_pool2d(x, 2))
rows("vision", "max_pool2d 3x3/2", IMAGES, lambda T, x: T.nn.functional.max_pool2d(x, 3, 2, 1))
row("vision", "batch_norm 16x64x32x32", _batch_norm)

# --- Found to be slow once --------------------------------------------------------------------------


def _grid_sample(T: Any) -> Program:
    x, grid = leaf(T, 16, 16, 32, 32), leaf(T, 16, 32, 32, 2, seed=1, scale=0.5)
    return differentiated(lambda x, g: T.nn.functional.grid_sample(x, g, align_corners=False), T, x, grid)


row("extra", "conv2d depthwise 16x64x32x32 3x3", _conv2d(64, 64))
row("extra", "conv2d stride 2 16x64x32x32 3x3", _conv2d(64, 1, 2))
row("extra", "group_norm 16x64x32x32", _group_norm)
rows("extra", "avg_pool2d 2x2", IMAGES, lambda T, x: T.nn.functional.avg_pool2d(x, 2))
row("extra", "grid_sample 16x16x32x32", _grid_sample)
rows("extra", "smooth_l1_loss", [(1000, 1000)], lambda T, x, y: T.nn.functional.smooth_l1_loss(x, y), 2)
rows("extra", "huber_loss", [(1000, 1000)], lambda T, x, y: T.nn.functional.huber_loss(x, y), 2)

# --- Measuring --------------------------------------------------------------------------------------


now = time.perf_counter


def interleaved(programs: list[Side], target: float, repeats: int) -> list[list[float]]:
    """Return seconds per call of each program: samples taken in turn, so that noise falls on all alike."""
    loops = []
    for program in programs:
        program()
        loops.append(max(1, round(target / max(program(), 1e-7))))
    samples: list[list[float]] = [[] for _ in programs]
    for _ in range(repeats):
        for i, program in enumerate(programs):
            samples[i].append(program.clock(loops[i]) / loops[i])
    return samples


def measured(row: Row, started: list[Side], quick: bool) -> dict[str, float]:
    """Return the best times in ms of both sides, their ratio, and the median of the paired ratios."""
    programs = [side.open(row.name) for side in started]
    ours, theirs = interleaved(programs, *((0.002, 15) if quick else (0.02, 25)))
    return {
        "ours": min(ours) * 1e3,
        "theirs": min(theirs) * 1e3,
        "ratio": min(ours) / min(theirs),
        "median": statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
    }


def main() -> int:
    """Print one line per row; exit 1 with --check when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--provider", choices=("numpy", "fast"), default="fast")
    parser.add_argument("--only", default="", help="rows or groups whose name contains this")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="write the rows there as well")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--cpu", action="store_true", help="processor time of one thread: for a busy machine")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    global now
    if options.cpu:
        now, options.threads = time.process_time, 1

    os.environ["ADJOINT_PROVIDER"] = options.provider
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    if options.serve:
        module = importlib.import_module(options.serve)
        module.set_num_threads(options.threads)
        if options.device == "cuda":
            module.set_default_device("cuda")
            now = lambda: (module.cuda.synchronize(), time.perf_counter())[1]
        serve(lambda name: next(row for row in ROWS if row.name == name).build(module), now)
        return 0
    same = ["--provider", options.provider, "--threads", str(options.threads), "--device", options.device]
    same += ["--cpu"] if options.cpu else []
    with sides(*([__file__, "--serve", name, *same] for name in ("adjoint", "torch"))) as started:
        return table(options, started)


def table(options: argparse.Namespace, started: list[Side]) -> int:
    """Print one line per row; return 1 with --check when a bar is missed."""
    column = options.provider == "fast"
    print(f"Python {platform.python_version()}, {options.threads} threads, provider {options.provider}")
    print(f"{'forward+backward':42} {'adjoint':>10} {'torch':>10} {'ratio':>6} {'median':>7}  bar")
    results, missed = [], 0
    for row in ROWS:
        if options.only not in row.name and options.only != row.group:
            continue
        if options.device == "cuda" and not any(size in row.name for size in LARGE):
            continue
        try:
            found = measured(row, started, options.quick)
            bar = GPU_BAR if options.device == "cuda" else row.bars[column]
        except Exception as error:  # one broken row must not hide the others
            print(f"{row.name:42} {type(error).__name__}: {str(error)[:80]}")
            missed += 1
            continue
        ok = found["ratio"] <= bar
        missed += not ok
        results.append({"name": row.name, "group": row.group, "bar": bar, **found})
        print(
            f"{row.name:42} {found['ours']:8.3f}ms {found['theirs']:8.3f}ms {found['ratio']:6.2f} "
            f"{found['median']:7.2f}  {bar:<4} {'ok' if ok else 'MISSED'}",
            flush=True,
        )
    print(f"{missed} of {len(results)} missed")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
