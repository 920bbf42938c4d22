"""Measure overrides against definitions around the sizes from which on they apply, and print a table.

    python benchmarks/sizes.py [--device cpu] [--only TEXT] [--seconds 0.1]

Every row of a device's override table that has a `least` size is timed with and without it: the sample inputs of the
primitive (tests/ops/samples.py) are repeated along their first axis to a half, one, two and four times that size. The
number in `adjoint/devices/*/sizes.py` is right where the ratio crosses 1: from "x1" on the override should not lose.
The script writes nothing: thread counts and memory differ between machines, and a person decides. Rows whose samples
cannot be repeated (several shapes that depend on one another, linear algebra) are listed as not measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import adjoint
import adjoint.ops.attention
from adjoint.core.nodes import registry
from adjoint.devices import contract
from tests.ops.samples import SAMPLES

FACTORS = (0.5, 1, 2, 4)


def enlarged(row: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    """Return a primitive's arguments with arrays of the first one's rank and length repeated to a size, as float32."""
    first = row[0]
    times = max(1, round(size / max(first.size, 1)))

    def larger(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if value.ndim == first.ndim and value.ndim and value.shape[0] == first.shape[0]:
            value = np.concatenate([value] * times)
        return value.astype(np.float32) if value.dtype == np.float64 else value

    return tuple(map(larger, row))


def seconds(function: Callable[[], Any], budget: float) -> float:
    """Return the least time of a call, among as many as fit into the budget."""
    function()
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def measured(device: contract.Device, name: str, size: int, budget: float) -> str:
    """Return the ratios of the definition's time to the override's around a size, or why there are none."""
    op, row = registry[name], next((r for r in SAMPLES.get(name, ()) if type(r) is tuple), None)
    if row is None or not isinstance(row[0], np.ndarray) or not row[0].ndim:
        return "not measured: no sample that can be repeated"
    kernel = op.form_for([device.from_host(row[0])]).whole
    plain = kernel
    while hasattr(plain, "__wrapped__"):
        plain = plain.__wrapped__
    ratios = []
    for factor in FACTORS:
        args = [device.from_host(a) if isinstance(a, np.ndarray) else a for a in enlarged(row, int(size * factor))]
        try:
            times = [seconds(lambda f=f, args=args: (f(*args), device.synchronize()), budget) for f in (plain, kernel)]
        except Exception as error:
            return f"not measured: {type(error).__name__}: {str(error).splitlines()[0][:60]}"
        ratios.append(f"x{factor:g} {times[0] / times[1]:5.2f}")
    return "  ".join(ratios)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=sorted(contract.by_name))
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each of eight timings of a row")
    options = parser.parse_args()
    device = contract.loaded(options.device)
    print(f"adjoint {adjoint.__version__}, {options.device}; time of the definition over time with overrides")
    for (name, gradient), rows in sorted(device.override.rows.items()):
        size = min((row.least for row in rows if row.least), default=0)
        if size and not gradient and options.only in name:
            print(f"{name:<24} {size:>9}  {measured(device, name, size, options.seconds)}", flush=True)


if __name__ == "__main__":
    main()
