"""The command line: ``python -m gates.ops --minutes 5 --seed 0``."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

import adjoint

from ..summary import summary
from .calls import random_call, sample_call
from .drawing import Rng
from .judging import Difference, judged, without_torch
from .running import Case, Hung, function

SECONDS = 30  # for one case
FEWEST = 100  # cases, however short a run: the first wait for what torch imports
SAMPLES_FROM = 2000  # torch's table takes a while to load: a short run does without it


def is_there(name: str) -> bool:
    """Return whether adjoint has an operator."""
    try:
        return callable(function(adjoint, name))
    except AttributeError:
        return False


UNDIFFERENTIABLE = ("logical", "eq", "ne", "lt", "le", "gt", "ge", "bitwise")


def random_case(seed: Any, T: Any) -> Case:
    """Return a case; every case has its value checked, a fraction of the cases each of the other checks."""
    rng: Rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        sampled = T is not None and seed[-1] >= SAMPLES_FROM and rng.random() < 0.06
        call = sample_call(rng, T, is_there) if sampled else None
        call = call or random_call(rng)
    checks = ["value", "gradient"]
    checks += [c for c, share in (("second", 0.3), ("tangent", 0.25), ("vmap", 0.2)) if rng.random() < share]
    if "Tensor" not in call.name and "functional" not in call.name:
        checks += [c for c in ("out", "inplace") if rng.random() < 0.12]
        if call.name.startswith(
            UNDIFFERENTIABLE
        ):  # torch takes the gradient through their in-place forms for the identity's
            checks = [c for c in checks if c != "inplace"]
    return Case(call, int(rng.integers(1 << 30)), tuple(checks))


def _too_long(*_: Any) -> None:
    raise Hung


def tried(case: Case, T: Any) -> list[Difference]:
    """Return what differs in a case; one that takes too long is hung."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        return judged(case, T) if T is not None else without_torch(case)
    except Hung:
        return [Difference("hung", "value", f"longer than {SECONDS} s")]
    finally:
        signal.alarm(0)


def oracle() -> Any:
    """Return torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        print("torch is not installed: finite differences judge gradients in double precision, nothing else")
        return None
    torch.set_num_threads(1)
    return torch


def main(argv: list[str] | None = None) -> int:
    """Run cases until the time is over, and print a table of what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one alone")
    parser.add_argument("--show", type=int, default=20, help="how many kinds of difference are printed")
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    T = oracle()
    cases: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    table: Counter[tuple[str, str]] = Counter()
    end, number = time.monotonic() + 60 * given.minutes, given.case or 0
    while time.monotonic() < end or cases.total() < FEWEST:
        case = random_case([given.seed, number], T)
        found = tried(case, T)
        cases[case.call.family] += 1
        for d in found[:1]:
            table[case.call.family, d.kind] += 1
            kinds[f"{case.call.name} {d.check} {d.kind}"] += 1
            fresh = kinds[f"{case.call.name} {d.check} {d.kind}"] == 1
            if (fresh and len(kinds) <= given.show) or given.case is not None:
                print(f"--- {d.kind}: --seed {given.seed} --case {number}")
                print(
                    f"    {case.call.name}{case.call.args} {case.call.kwargs or ''}\n    {d.check} {d.text}", flush=True
                )
        if given.case is not None:
            break
        number += 1
    _print_table(cases, table)
    for kind, count in kinds.most_common():
        print(f"    {count:5} {kind}")
    total = {k: sum(n for (_, kind), n in table.items() if kind == k) for k in ("wrong", "hung", "crashed")}
    print(summary("ops", cases.total(), **total))
    return int(any(total.values()))


def _print_table(cases: Counter[str], table: Counter[tuple[str, str]]) -> None:
    print(f"{'family':12} {'cases':>8} {'wrong':>8} {'crashed':>8} {'hung':>8}")
    for family, count in sorted(cases.items()):
        print(f"{family:12} {count:>8} " + " ".join(f"{table[family, k]:>8}" for k in ("wrong", "crashed", "hung")))


if __name__ == "__main__":
    sys.exit(main())
