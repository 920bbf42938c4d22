"""Random programs, compiled and eager, as many as one likes.

python -m tests.compiler.fuzz [--start N] [--count N] [--backend numpy]
"""

from __future__ import annotations

import argparse
import traceback

from tests.compiler.test_compile import run_random


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--backend", default=None)
    chosen = parser.parse_args()
    wrong = []
    for seed in range(chosen.start, chosen.start + chosen.count):
        try:
            run_random(seed, chosen.backend)
        except Exception as error:
            wrong.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error).strip()[:300]}", flush=True)
            if len(wrong) <= 3:
                traceback.print_exc(limit=-3)
    print(f"{chosen.count} programs, {len(wrong)} wrong: {wrong}")


if __name__ == "__main__":
    main()
