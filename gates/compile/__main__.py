"""The command line: ``python -m gates.compile --minutes 5 --seed 0``."""

from __future__ import annotations

import argparse
import collections
import gc
import sys
import time

import adjoint as torch

from ..summary import summary
from .cases import FAMILIES, run_case

GPU_EVERY = 40  # how many cases come to one on the simulated GPU, whose kernels g++ compiles one by one
NUMBA_EVERY = 8  # and to one whose loops Numba compiles, which takes three times as long as NumPy's
FREEZE_EVERY = 25  # cases after which what has stayed is set aside: capturing looks at every object that is not


def gpu_missing() -> str:
    """Return why there is no GPU, not even a simulated one; or nothing."""
    if torch.cuda.is_available():
        return ""
    try:
        from tests.gpu import simulated
    except ImportError as error:
        return str(error)
    if not simulated.why_not():
        simulated.install()
    return simulated.why_not()


def settings(number: int, seed: int) -> tuple[str, str | None, str]:
    """Return a case's family, backend and device."""
    family = "training" if number % 3 == 2 else "program"
    if number % GPU_EVERY == 10:
        return family, None, "cuda"
    return family, None if seed % NUMBA_EVERY == 3 else "numpy", "cpu"  # None: Numba


def main(argv: list[str] | None = None) -> int:
    """Run cases until the time is over, and print how many had which verdict."""
    parser = argparse.ArgumentParser(prog="python -m gates.compile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="cases; 0: as many as the time allows")
    parser.add_argument("--family", choices=tuple(FAMILIES))
    parser.add_argument("--backend", choices=("numpy", "numba"), help="NumPy for most unless given")
    parser.add_argument("--device", choices=("cpu", "cuda"), help=f"cuda for one case of {GPU_EVERY} unless given")
    parser.add_argument("--verbose", action="store_true", help="print every case that is not compiled, with the reason")
    chosen = parser.parse_args(argv)
    if missing := gpu_missing():
        print(f"no cases on a GPU: {missing}")
    verdicts: collections.Counter[str] = collections.Counter()
    end, number = time.monotonic() + 60 * chosen.minutes, 0
    while (not chosen.count or number < chosen.count) and time.monotonic() < end:
        seed = chosen.seed * 1_000_003 + number
        family, backend, device = settings(number, seed)
        family = chosen.family or family
        backend = {None: backend, "numpy": "numpy", "numba": None}[chosen.backend]
        device = chosen.device or ("cpu" if missing else device)
        if number % FREEZE_EVERY == 0:
            gc.collect()
            gc.freeze()
        number += 1
        verdict, why = run_case(family, seed, backend, device)
        if number % 1000 == 0:
            print(f"{number} cases", flush=True)
        verdicts[verdict] += 1
        verdicts[device] += 1
        if verdict in ("wrong", "crashed") or (chosen.verbose and verdict != "right"):
            print(f"{verdict}: run_case({family!r}, {seed}, {backend!r}, {device!r}): {why}")
            print(FAMILIES[family](seed), flush=True)
    shown = ("wrong", "crashed", "eager", "unused", "right", "alike", "n/a", "cpu", "cuda")
    print(f"{number} cases: " + ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in shown))
    print(summary("compile", number, wrong=verdicts["wrong"], crashed=verdicts["crashed"]))
    return 1 if verdicts["wrong"] or verdicts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
