"""What recording costs: adjoint against torch, side by side in one run.

    python benchmarks/overhead.py [--quick] [--json FILE] [--only TEXT] [--check]

A row is one decorated function. `@ratio` takes a function of `T`, the module under test (adjoint or
torch), that prepares a program and returns it as a callable; both sides run the very same code.
`@figure` takes a function that measures something by itself and returns a `Result`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sides import Side, serve, sides

ROOT = Path(__file__).resolve().parent.parent
Program = Callable[[], object]


@dataclass
class Result:
    """What a row measured. `value` is what the bar judges; None: it could not be measured."""

    value: float | None = None
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    note: str = ""


@dataclass
class Bench:
    """The two modules and how patiently to measure them."""

    ours: ModuleType
    theirs: ModuleType | None
    quick: bool

    @property
    def sides(self) -> list[ModuleType]:
        return [self.ours] if self.theirs is None else [self.ours, self.theirs]

    def interleaved(self, *programs: Program) -> list[list[float]]:
        """Seconds per call of each program: samples taken in turn, so that noise falls on all alike."""
        target, repeats = (0.01, 7) if self.quick else (0.03, 25)
        loops = []
        for program in programs:
            program()
            n = 1
            while (elapsed := clock(program, n)) < target / 4:
                n *= 2
            loops.append(max(1, round(n * target / elapsed)))
        samples: list[list[float]] = [[] for _ in programs]
        for _ in range(repeats):
            for i, program in enumerate(programs):
                gc.collect()
                samples[i].append(clock(program, loops[i]) / loops[i])
        return samples

    def subprocesses(self, *jobs: list[str], repeats: int) -> list[list[dict[str, float]]]:
        """JSON answers of each job, run in a process of its own, in turn."""
        answers: list[list[dict[str, float]]] = [[] for _ in jobs]
        for _ in range(repeats):
            for i, job in enumerate(jobs):
                # With compiled files, as users have it: some machines switch writing them off.
                place = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
                run = subprocess.run([sys.executable, *job], capture_output=True, text=True, cwd=ROOT, env=place)
                if run.returncode != 0:
                    raise RuntimeError(f"{' '.join(job)[:80]}: {run.stderr.strip()[-600:]}")
                answers[i].append(json.loads(run.stdout.splitlines()[-1]))
        return answers


@dataclass
class Row:
    name: str
    bar: float
    bar_unit: str
    measure: Callable[[Bench], Result]


ROWS: list[Row] = []
PREPARE: dict[str, Callable[[Any], Program]] = {}


now = time.perf_counter


def clock(program: Program, loops: int) -> float:
    """Seconds for `loops` calls; the collector stays on, as in a user's program."""
    if isinstance(program, Side):
        return program.clock(loops)
    start = now()
    for _ in range(loops):
        program()
    return now() - start


def figure(name: str, *, bar: float, unit: str) -> Callable[..., Any]:
    """Declare a row that measures by itself: `def measure(bench) -> Result`."""

    def declare(measure: Callable[[Bench], Result]) -> Callable[[Bench], Result]:
        ROWS.append(Row(name, bar, unit, measure))
        return measure

    return declare


def ratio(name: str, *, bar: float, per: int = 1, apart: bool = False) -> Callable[..., Any]:
    """Declare a row that compares one program: `def prepare(T) -> program`; `per` is its number of ops.

    Programs with threads run `apart`, each library in a process of its own.
    """

    def declare(prepare: Callable[[Any], Program]) -> Callable[[Any], Program]:
        PREPARE[name] = prepare

        def measure(bench: Bench) -> Result:
            if apart:
                script = str(Path(sys.argv[0]).resolve())
                options = ["--cpu"] if now is time.process_time else []
                with sides(*([script, "--serve", side.__name__, *options] for side in bench.sides)) as programs:
                    samples = bench.interleaved(*(side.open(name) for side in programs))
            else:
                samples = bench.interleaved(*map(prepare, bench.sides))
            best = [min(s) / per * 1e6 for s in samples]
            if bench.theirs is None:
                return Result(None, best[0], None, "µs", "no torch to compare with")
            paired = statistics.median(a / b for a, b in zip(*samples))
            return Result(best[0] / best[1], *best, "µs", f"median {paired:.2f}")

        ROWS.append(Row(name, bar, "of torch", measure))
        return prepare

    return declare


# ---------------------------------------------------------------------------------------------- rows


def square_data(seed: int) -> list[list[float]]:
    import numpy as np

    return np.random.default_rng(seed).uniform(0.5, 1.5, (8, 8)).tolist()


@figure("x * y, 8x8, recorded, above np.multiply", bar=1.3, unit="µs")
def multiply(bench: Bench) -> Result:
    import numpy as np

    a, b = (np.array(square_data(seed), np.float32) for seed in (0, 1))

    def prepare(T: Any) -> Program:
        x, y = (T.tensor(square_data(seed), requires_grad=True) for seed in (0, 1))
        return lambda: x * y

    samples = bench.interleaved(lambda: np.multiply(a, b), *map(prepare, bench.sides))
    floor, *sides = (min(s) * 1e6 for s in samples)
    above = [side - floor for side in sides]
    return Result(above[0], above[0], above[1] if len(above) > 1 else None, "µs", f"np.multiply {floor:.2f} µs")


def chain(T: Any, x: Any, w: Any, b: Any, c: Any) -> Any:
    """A hundred ops on 8x8; ten rounds of ten, and values stay near 1."""
    h = x
    for _ in range(10):
        h = h * w
        h = h + b
        h = T.tanh(h)
        h = h - c
        h = -h
        h = T.exp(h)
        h = h / 1.5
        h = h * h
        h = T.tanh(h)
        h = h + x
    return h


def chain_inputs(T: Any) -> tuple[Any, Any, Any, Any]:
    x, w, b = (T.tensor(square_data(seed), requires_grad=True) for seed in range(3))
    return x, w, b, T.tensor(square_data(3))


@ratio("100-op chain, 8x8, forward+backward, per op", bar=0.45, per=100)
def chain_forward_backward(T: Any) -> Program:
    x, w, b, c = chain_inputs(T)

    def program() -> None:
        x.grad = w.grad = b.grad = None
        chain(T, x, w, b, c).sum().backward()

    return program


@ratio("1000-node scalar expression, forward+backward, per node", bar=0.5, per=1000)
def scalar_expression(T: Any) -> Program:
    a, b = T.tensor(0.8, requires_grad=True), T.tensor(-0.4, requires_grad=True)

    def program() -> None:
        a.grad = b.grad = None
        y = a
        for _ in range(200):
            y = y * b
            y = y + a
            y = T.tanh(y)
            y = y - b
            y = y * 0.5
        y.backward()

    return program


@ratio("custom Function, 100 applications, forward+backward, each", bar=0.5, per=100)
def custom_function(T: Any) -> Program:
    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y, g * x

    x, y = T.tensor(square_data(0), requires_grad=True), T.ones(8, 8, requires_grad=True)

    def program() -> None:
        x.grad = y.grad = None
        h = x
        for _ in range(100):
            h = Product.apply(h, y)
        h.sum().backward()

    return program


@ratio("no_grad forward of the chain, per op", bar=0.5, per=100)
def chain_no_grad(T: Any) -> Program:
    inputs = chain_inputs(T)

    def program() -> None:
        with T.no_grad():
            chain(T, *inputs)

    return program


def million(module: str, nodes: int) -> dict[str, float]:
    """Build, run and free one deep chain; each product keeps its input for the backward pass."""
    T = importlib.import_module(module)
    if module == "torch":
        T.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    x, w = T.tensor(1.0, requires_grad=True), T.tensor(1.0, requires_grad=True)
    (x * w + 1e-6).backward()  # whatever starts up lazily does so now
    x.grad = w.grad = None
    before = memory("VmRSS")
    marks = [time.perf_counter()]
    y = x
    for _ in range(nodes // 2):
        y = y * w
        y = y + 1e-6
    marks.append(time.perf_counter())
    y.backward()
    marks.append(time.perf_counter())
    del y
    marks.append(time.perf_counter())
    assert abs(x.grad.item() - 1) < 1e-6
    build, backward, free = (b - a for a, b in itertools.pairwise(marks))
    peak = memory("VmHWM")
    return {
        "build": build,
        "backward": backward,
        "free": free,
        "total": build + backward + free,
        "growth": peak - before,
        "peak": peak,
    }


def memory(field: str) -> float:
    """VmRSS (now) or VmHWM (peak) of this process, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


_million: dict[str, list[dict[str, float]]] = {}


def million_answers(bench: Bench) -> list[dict[str, float]]:
    """The fastest run of each side; time and memory are two rows of the same runs."""
    nodes = 100_000 if bench.quick else 1_000_000
    names = [side.__name__ for side in bench.sides]
    if str(names) not in _million:
        jobs = [[str(Path(__file__).resolve()), "--million", name, str(nodes)] for name in names]
        answers = bench.subprocesses(*jobs, repeats=1 if bench.quick else 3)
        _million[str(names)] = [min(side, key=lambda answer: answer["total"]) for side in answers]
    return _million[str(names)]


@figure("1e6-node chain: build, backward, free", bar=1.0, unit="of torch")
def million_time(bench: Bench) -> Result:
    ours, *theirs = million_answers(bench)
    note = "build {build:.2f}, backward {backward:.2f}, free {free:.2f} s".format(**ours)
    if not theirs:
        return Result(None, ours["total"], None, "s", note)
    return Result(ours["total"] / theirs[0]["total"], ours["total"], theirs[0]["total"], "s", note)


@figure("1e6-node chain: peak memory above the start", bar=1.0, unit="of torch")
def million_memory(bench: Bench) -> Result:
    ours, *theirs = million_answers(bench)
    note = "whole process " + " against ".join(f"{side['peak']:.0f}" for side in (ours, *theirs)) + " MiB"
    if not theirs:
        return Result(None, ours["growth"], None, "MiB", note)
    return Result(ours["growth"] / theirs[0]["growth"], ours["growth"], theirs[0]["growth"], "MiB", note)


HEAVY = ("numba", "cupy", "scipy", "triton", "torch")


@figure("import beyond numpy", bar=0.15, unit="s")
def import_time(bench: Bench) -> Result:
    def job(name: str) -> list[str]:
        code = (
            "import time, sys, json, numpy; start = time.perf_counter(); "
            f"import {name}; seconds = time.perf_counter() - start; "
            f"print(json.dumps(dict(seconds=seconds, heavy=[m for m in {HEAVY!r} if m in sys.modules])))"
        )
        return ["-c", code]

    answers = bench.subprocesses(*(job(side.__name__) for side in bench.sides), repeats=3 if bench.quick else 7)
    best = [min(answer["seconds"] for answer in side) for side in answers]
    heavy = answers[0][0]["heavy"]
    note = f"imports {', '.join(heavy)}" if heavy else "nothing heavy imported"
    return Result(float("inf") if heavy else best[0], best[0], best[1] if len(best) > 1 else None, "s", note)


@figure("wheel, pure Python", bar=2.0, unit="MB")
def wheel_size(bench: Bench) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
        if importlib.util.find_spec("hatchling"):
            command.insert(4, "--no-build-isolation")
        run = subprocess.run(command, capture_output=True, text=True)
        wheels = list(Path(folder).glob("*.whl"))
        if run.returncode or len(wheels) != 1:
            return Result(note=f"not built: {(run.stderr.strip().splitlines() or ['no wheel'])[-1][:60]}")
        size = wheels[0].stat().st_size / 1e6
        pure = wheels[0].name.endswith("-py3-none-any.whl")
        return Result(size if pure else float("inf"), size, None, "MB", "pure" if pure else "NOT pure")


# --------------------------------------------------------------------------------------------- table


def number(x: float | None, unit: str = "") -> str:
    return "-" if x is None else f"{x:.3g} {unit}".rstrip() if x < 1000 else f"{x:.0f} {unit}".rstrip()


def verdict(row: Row, result: Result) -> str:
    if result.value is None:
        return "-"
    return "ok" if result.value <= row.bar else "MISSED"


def line(cells: list[str]) -> str:
    widths = (57, 9, 9, 9, 16, 6, 0)
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description="adjoint against torch: the cost of recording")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, 1e5 nodes instead of 1e6")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the table there, too")
    parser.add_argument("--only", metavar="TEXT", help="only the rows whose name contains TEXT")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--threads", type=int, default=2, help="threads for torch and BLAS (default 2)")
    parser.add_argument("--cpu", action="store_true", help="processor time of one thread: for a busy machine")
    parser.add_argument("--candidate", default="adjoint", help="module to measure (torch: against itself)")
    parser.add_argument("--serve", metavar="MODULE", help=argparse.SUPPRESS)
    parser.add_argument("--million", nargs=2, metavar=("MODULE", "NODES"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cpu:
        global now
        now, args.threads = time.process_time, 1

    sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    if args.million:
        print(json.dumps(million(args.million[0], int(args.million[1]))))
        return 0

    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(args.threads)
    if args.serve:
        module = importlib.import_module(args.serve)
        module.set_num_threads(args.threads)
        serve(lambda name: PREPARE[name](module), now)
        return 0
    ours = importlib.import_module(args.candidate)
    if not hasattr(ours, "tensor"):
        print(f"{args.candidate} at {ours.__path__} has no `tensor`: is it installed?", file=sys.stderr)
        return 2
    theirs = None
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: adjoint is measured alone, without ratios. For the comparison:")
        print(f"    {sys.executable} -m pip install torch==2.13.0\n")
    else:
        theirs = importlib.import_module("torch")
        theirs.set_num_threads(args.threads)

    import numpy as np

    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        ours.__name__: getattr(ours, "__version__", "?"),
        "torch": getattr(theirs, "__version__", "absent"),
        "threads": args.threads,
    }
    print(", ".join(f"{name} {version}" for name, version in versions.items()), flush=True)
    print("best of interleaved repeats; 'median' is the median of paired ratios\n")
    header = line(["measure", args.candidate, "torch", "value", "bar", "", "note"])
    print(header, "-" * len(header), sep="\n", flush=True)

    bench, table = Bench(ours, theirs, args.quick), []
    broken = missed = False
    for row in ROWS:
        if args.only and args.only not in row.name:
            continue
        try:
            result = row.measure(bench)
            word = verdict(row, result)
        except Exception as error:  # one broken row must not hide the others
            result, word = Result(note=f"{type(error).__name__}: {error}".splitlines()[-1]), "FAILED"
        broken |= word == "FAILED"
        missed |= word == "MISSED"
        value = number(result.value, "" if row.bar_unit == "of torch" else row.bar_unit)
        cells = [row.name, number(result.ours, result.unit), number(result.theirs, result.unit), value]
        print(line([*cells, f"<= {row.bar} {row.bar_unit}", word, result.note]), flush=True)
        table.append({"name": row.name, "bar": row.bar, "bar_unit": row.bar_unit, "verdict": word} | asdict(result))
    if args.json:
        args.json.write_text(json.dumps({"versions": versions, "quick": args.quick, "rows": table}, indent=2) + "\n")
    return int(broken or (missed and args.check))


if __name__ == "__main__":
    raise SystemExit(main())
