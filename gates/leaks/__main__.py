"""The command line, and the judges: ``python -m gates.leaks --minutes 1 --seed 0``."""

from __future__ import annotations

import argparse
import gc
import importlib
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..summary import summary
from . import FEATURES
from .features import CYCLIC

ITERATIONS = 2000
FEWEST = 8  # loops, however short a run
ALLOWED = 0.02  # objects or blocks for each iteration: a leak of one in fifty iterations is found
BYTES = 1024  # of resident memory for each iteration


def resident() -> int:
    """Return the resident memory of the process, in bytes; 0 where that is not known."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


def census() -> Counter[str]:
    """Count the objects that the collector knows, by type."""
    return Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())


def grown(run: Callable[[Any], None], T: Any, iterations: int) -> tuple[list[str], str]:
    """Return what a loop has left behind, and how much of everything."""
    gc.collect()  # which also empties the interpreter's lists of free objects
    blocks = sys.getallocatedblocks()
    for _ in range(5):  # what a collection has taken from a cache is there again
        run(T)
    before, size = census(), resident()
    for _ in range(iterations):
        run(T)
    if run.__name__ in CYCLIC:
        gc.collect()
    size, after = resident() - size, census()
    after.subtract(before)
    objects = sum(after.values())
    most = ", ".join(f"{count} {name}" for name, count in after.most_common(4) if count > 0)
    del before, after
    gc.collect()
    blocks = sys.getallocatedblocks() - blocks
    allowed = 12 + ALLOWED * iterations
    found = [f"{objects} objects ({most})"] if objects > allowed else []
    found += [f"{blocks} blocks"] if blocks > 3 * allowed + 200 else []
    found += [f"{size} bytes of memory"] if size > (4 << 20) + BYTES * iterations else []
    return found, f"{iterations} iterations: {objects:+} objects, {blocks:+} blocks, {size / 2**20:+.1f} MiB"


def judge(run: Callable[[Any], None], T: Any, iterations: int, until: float) -> tuple[str, str]:
    """Return what is wrong with a feature, if anything, and what was measured."""
    start = time.perf_counter()
    for _ in range(3):
        run(T)
    each = (time.perf_counter() - start) / 3
    iterations = max(20, min(iterations, int((until - time.perf_counter()) / each)))
    gc.disable()
    try:
        for _ in range(3):
            found, said = grown(run, T, iterations)
            if not found:
                return "", said
        return "; ".join(found), said
    finally:
        gc.enable()


def main(argv: list[str] | None = None) -> int:
    """Run every loop; return whether one of them leaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the order of the loops")
    parser.add_argument("--iterations", type=int, help="in place of what the minutes allow")
    parser.add_argument("--module", default="adjoint", help="adjoint, or torch for comparison")
    parser.add_argument("names", nargs="*", help="which loops; all unless said")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    T, names = importlib.import_module(options.module), options.names or list(FEATURES)
    random.Random(options.seed).shuffle(names)
    end, cases, wrong, crashed = time.perf_counter() + 60 * options.minutes, 0, 0, 0
    for i, name in enumerate(names):
        now = time.perf_counter()
        if cases >= FEWEST and now > end and not options.iterations:
            break
        slot = now + (1e9 if options.iterations else max(end - now, 0) / (len(names) - i))
        try:
            found, said = judge(FEATURES[name], T, options.iterations or ITERATIONS, slot)
        except Exception:
            crashed += 1
            print(f"{name:18} raised\n{traceback.format_exc(limit=-3)}", flush=True)
            continue
        cases, wrong = cases + 1, wrong + bool(found)
        print(f"{name:18} {'LEAKS ' + found if found else 'ok'}; {said}", flush=True)
        if found:
            print(f"  again: python -m gates.leaks --iterations 200 {name}", flush=True)
    print(summary("leaks", cases, wrong=wrong, crashed=crashed))
    return 1 if wrong or crashed else 0


if __name__ == "__main__":
    sys.exit(main())
