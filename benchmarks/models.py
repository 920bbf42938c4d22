"""Models of many kinds, adjoint beside torch: eager, the model compiled, the whole step compiled.

    python benchmarks/models.py [--quick] [--only TEXT] [--json FILE] [--threads N] [--cpu]

The models are those of `model_zoo.py`. Each way to run one has a process of its own (`sides.py`); samples alternate.
A column is the best time of a step, its ratio to torch eager in brackets; then the peak memory of each process
(libraries included), the loss of the twentieth step, and the largest relative difference from torch's loss. `--cpu`
takes the processor time of one thread, for a busy machine. `--torch-compile` also times torch's compiled model, where
a C++ compiler is installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.model_zoo import MODELS  # noqa: E402
from benchmarks.sides import Side, serve, sides  # noqa: E402

STEPS = 20
WAYS = ("torch eager", "adjoint eager", "adjoint model", "adjoint step")


def peak_memory() -> float:
    """Return the most MiB that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def prepared(name: str, way: str, threads: int) -> Callable[[], Any]:
    """Take the first steps of a model, say what they left, and return the step."""
    side, what = way.split()
    T = importlib.import_module(side)
    T.set_num_threads(threads)
    T.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        case = MODELS[name](T)
        step = case.compiled(T, what)
        losses = [step().item() for _ in range(STEPS)]
    found = {"loss": losses[-1], "MiB": peak_memory()}
    found["warnings"] = [str(w.message) for w in caught if "uncompiled" in str(w.message)]
    print("found", json.dumps(found), flush=True)
    return step


def opened(side: Side, name: str) -> dict[str, Any]:
    """Let a side prepare a model; return what it says of it."""
    found: dict[str, Any] = {}
    side.open(name, lambda line: found.update(json.loads(line[6:])) if line.startswith("found ") else None)
    return found


def clock(side: Side, seconds: float) -> float:
    loops, elapsed = 1, 0.0
    while elapsed < seconds:
        elapsed = side.clock(loops)
        loops *= 2
    return elapsed / (loops // 2)


def measure(name: str, ways: list[str], flags: list[str], quick: bool) -> dict[str, dict[str, Any]]:
    """Return for each way the best time of a step, memory, the loss, and what went wrong."""
    rows: dict[str, dict[str, Any]] = {way: {} for way in ways}
    with sides(*([__file__, "--serve", way, *flags] for way in ways)) as started:
        for way, side in zip(ways, started, strict=True):
            try:
                rows[way] = {**opened(side, name), "seconds": float("inf")}
            except RuntimeError as error:
                rows[way]["error"] = str(error)
        for _ in range(3 if quick else 8):
            for way, side in zip(ways, started, strict=True):
                if "error" not in rows[way]:
                    rows[way]["seconds"] = min(rows[way]["seconds"], clock(side, 0.05 if quick else 0.2))
    return rows


def shown(name: str, rows: dict[str, dict[str, Any]]) -> str:
    """Return one line of the table, and lines for what went wrong."""
    first = next(iter(rows.values()))
    cells, notes = [], []
    for way, row in rows.items():
        if "error" in row:
            cells.append(f"{'fails':>16}")
            notes.append(f"    {way}: {row['error']}")
            continue
        ratio = f" ({row['seconds'] / first['seconds']:.2f})" if row is not first and "seconds" in first else ""
        cells.append(f"{row['seconds'] * 1e3:.2f}{ratio}".rjust(16))
        notes += [f"    {way}: {text}" for text in row["warnings"]]
    done = [row for row in rows.values() if "error" not in row]
    expected = first.get("loss", float("nan"))
    worst = max((abs(row["loss"] - expected) / max(abs(expected), 1e-3) for row in done), default=float("nan"))
    sizes = "/".join(f"{row['MiB']:.0f}" for row in done)
    line = f"{name:<26}{''.join(cells)}  {sizes:>16}  {expected:>9.5f} {worst:>8.0e}"
    return "\n".join([line, *notes])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--torch-compile", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        clock = time.process_time if chosen.cpu else time.perf_counter
        serve(lambda name: prepared(name, chosen.serve, 1 if chosen.cpu else chosen.threads), clock)
        return
    flags = ["--threads", str(chosen.threads), *(["--cpu"] if chosen.cpu else [])]
    ways = [*WAYS, *(["torch model"] if chosen.torch_compile else [])]
    print(f"{'ms a step (of torch)':<26}{''.join(w.rjust(16) for w in ways)}  {'MiB':>16}  {'loss':>9} {'differs':>8}")
    found = {}
    for name in MODELS:
        if chosen.only.lower() in name.lower():
            found[name] = measure(name, ways, flags, chosen.quick)
            print(shown(name, found[name]), flush=True)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
