"""Run every gate, one after the other: ``python -m gates --minutes 5 --seed 0``; each prints its own table."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    """Run the gates; return how many of them failed."""
    parser = argparse.ArgumentParser(prog="python -m gates", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for each gate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", nargs="*", help="which gates; all unless said")
    given = parser.parse_args()
    found = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    failed = []
    for name in given.names or found:
        print(f"=== {name}", flush=True)
        start = time.monotonic()
        command = [sys.executable, "-m", f"gates.{name}", "--minutes", str(given.minutes), "--seed", str(given.seed)]
        if subprocess.run(command).returncode:
            failed.append(name)
        print(f"=== {name}: {time.monotonic() - start:.0f} s", flush=True)
    print(f"failed: {', '.join(failed) or 'none'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
