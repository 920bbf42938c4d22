"""The command line: ``python -m gates.files --minutes 1 --seed 0``."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from ..summary import COUNTS, summary
from .reading import case, read_attacks, read_cases, read_large
from .valid import corpus
from .writing import forbidden, full, full_stream, interrupted, killed, write_cases

BATCH, KILLS = 400, 25  # cases of one child; kills between two of them


def main(argv: list[str] | None = None) -> int:
    """Run all kinds of cases for some minutes, print the table, return whether something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m gates.files", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="repeat one case")
    given = parser.parse_args(argv)
    end, pool = time.monotonic() + 60 * given.minutes, corpus()
    table: Counter[str] = Counter(cases=0, wrong=0, lost=0, hung=0, crashed=0)
    if given.case is not None:
        with open(f"/tmp/case-{given.case}", "wb") as file:
            file.write(case(given.case, pool)[1])
        read_cases(given.case, 1, pool, table)
        return bool(table["wrong"] + table["hung"] + table["crashed"])
    rng, seed = random.Random(given.seed), given.seed << 32
    write_cases(rng, given.seed, KILLS, table)
    read_cases(seed, BATCH, pool, table)
    read_large(table)
    read_attacks(end, table)
    while time.monotonic() < end:
        seed += BATCH
        read_cases(seed, BATCH, pool, table)
        write_cases(rng, given.seed, KILLS // 5, table)
        print(f"{table['cases']} cases", flush=True)
    print(", ".join(f"{f.__name__} {table[f.__name__]}" for f in (killed, interrupted, full, full_stream, forbidden)))
    print(summary("files", **{kind: table[kind] for kind in COUNTS}))
    return bool(table["wrong"] + table["lost"] + table["hung"] + table["crashed"])


if __name__ == "__main__":
    sys.exit(main())
