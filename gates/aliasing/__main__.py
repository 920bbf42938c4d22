"""The command line: ``python -m gates.aliasing --minutes 5 --seed 0``."""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter

import numpy as np

from ..summary import summary
from .judging import judge, shortened
from .programs import generate


def main(argv: list[str] | None = None) -> int:
    """Run programs until the time is over, and print a table of what came of them."""
    parser = argparse.ArgumentParser(description="Random programs of views and writes, compared with torch.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--show", type=int, default=10, help="how many of the programs that differ are printed")
    given = parser.parse_args(argv)
    try:
        import torch
    except ImportError:
        print("torch, which judges here, is not installed")
        return 0
    warnings.simplefilter("ignore")
    table, shown = Counter[str](), Counter[str]()
    end = time.monotonic() + 60 * given.minutes
    while time.monotonic() < end:
        seed = given.seed * 1_000_003 + table.total()
        rng = np.random.default_rng(seed)
        program = generate(rng, torch, int(rng.integers(2, given.length + 1)))
        verdict, found = judge(program, torch)
        table[verdict] += 1
        if verdict != "same":
            kind = f"{verdict} {re.sub('[0-9]+', 'n', str(found[0]))[:150]}"
            shown[kind] += 1
            if shown[kind] <= 1 and (verdict != "differs" or len(shown) <= given.show):
                program = shortened(program, torch, verdict)
                print(f"--- {verdict}, seed {seed}")
                for line in program:
                    print("   ", line)
                for where, a, b in judge(program, torch)[1][:4]:
                    print(f"    {where}\n        adjoint {a}\n        torch   {b}")
                sys.stdout.flush()
    print(f"{'cases':>8} {'wrong':>8} {'differs':>8} {'crashed':>8}")
    print(f"{table.total():>8} {table['wrong']:>8} {table['differs']:>8} {table['crashed']:>8}")
    print(summary("aliasing", table.total(), wrong=table["wrong"], crashed=table["crashed"]))
    return int(table["wrong"] + table["crashed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
