"""Measure from which sizes on a device's kernels beat the definitions; print a table, and write the device's sizes.

    python benchmarks/sizes.py [--device cpu] [--only TEXT] [--seconds 0.1] [--write]

The one table of a device is `adjoint/devices/<device>/sizes.py`. Two kinds of its numbers are measured: the `least` of
overrides, which are timed with and without on sample inputs (tests/ops/samples.py) repeated along their first axis to
a half, one, two and four times the size; and those that a row of `PROGRAMS` stands for (copies, random numbers), whose
program is timed with the number at 0 and beyond every size. A number is right where the ratio crosses 1: from "x1" on
the kernel should not lose. `--write` puts the size of the crossing into the table where it is another: thread counts
and memory differ between machines, so look at the difference before you commit it. Rows whose samples cannot be
repeated (several shapes that depend on one another, linear algebra) are listed as not measured.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import statistics
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


def measured(device: contract.Device, name: str, size: int, budget: float) -> list[float] | str:
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
        ratios.append(times[0] / times[1])
    return ratios


# --- Numbers that are no override's -----------------------------------------------------------------


def _rolled(device: str, count: int) -> Callable[[], Any]:
    side = math.isqrt(count)
    x = adjoint.ones(side, side, device=device)
    return lambda: x.roll(1, 0)


def _normal(device: str, count: int) -> Callable[[], Any]:
    return lambda: adjoint.randn(count, device=device)


# By a device, a number of its table and what makes a program of so many elements that consults it at each call.
PROGRAMS: dict[str, dict[str, Callable[[str, int], Callable[[], Any]]]] = {
    "cpu": {"COPY": _rolled, "THREAD_COPY": _rolled},
    "cuda": {"RANDOM": _normal},
}


def varied(device: contract.Device, table: Any, name: str, budget: float) -> list[float]:
    """Return the ratios of a program's time with a number of the table beyond every size to that with it at 0."""
    present, ratios = getattr(table, name), []
    try:
        for factor in FACTORS:
            program, times = PROGRAMS[device.name][name](device.name, int(present * factor)), []
            for value in (1 << 60, 0 if "THREAD" not in name else max(int(present * factor) // 2, 1)):
                setattr(table, name, value)
                times.append(seconds(lambda program=program: (program(), device.synchronize()), budget))
            ratios.append(times[0] / times[1])
    finally:
        setattr(table, name, present)
    return ratios


# --- The table --------------------------------------------------------------------------------------


def names_of(device: str) -> dict[str, str]:
    """Return the number of the table that each override of a device has as its `least`, by the primitive's name."""
    folder = Path(adjoint.__file__).parent / "devices" / device
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.py")):
        found |= re.findall(r'override\("(\w+)", (?:gradient="\w+", )?least=sizes\.(\w+)', path.read_text())
    return found


def crossing(size: int, rows: list[list[float]]) -> int:
    """Return the size from which on no kernel loses, of those measured, as a power of two; the present one if it is."""
    typical = [statistics.median(ratios) for ratios in zip(*rows, strict=True)]
    losing = [i for i, ratio in enumerate(typical) if ratio < 1]
    at = losing[-1] + 1 if losing else 0
    wanted = size * (FACTORS[at] if at < len(FACTORS) else 2 * FACTORS[-1])
    return size if wanted == size else 1 << round(math.log2(wanted))


def write(path: Path, sizes: dict[str, int]) -> list[str]:
    """Put sizes into a table, each into its own line, and return the lines that have changed."""
    lines, changed = path.read_text().splitlines(), []
    for i, line in enumerate(lines):
        found = re.match(r"(\w+) = ([^#]*?)(  #.*)?$", line)
        if found and found[1] in sizes:
            value = sizes[found[1]]
            said = f"1 << {value.bit_length() - 1}" if value & (value - 1) == 0 else str(value)
            lines[i] = f"{found[1]} = {said}{found[3] or ''}"
            changed.append(lines[i])
    path.write_text("\n".join(lines) + "\n")
    return changed


def main() -> None:
    """Print the table, and write what has moved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=sorted(contract.by_name))
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each of eight timings of a row")
    parser.add_argument("--write", action="store_true", help="put the measured sizes into the device's table")
    options = parser.parse_args()
    device = contract.loaded(options.device)
    table = importlib.import_module(f"adjoint.devices.{options.device}.sizes")
    print(f"adjoint {adjoint.__version__}, {options.device}; time without a kernel over time with it")
    rows: dict[str, list[list[float]]] = {}

    def show(name: str, size: int, number: str, found: list[float] | str) -> None:
        said = found if isinstance(found, str) else "  ".join(f"x{f:g} {r:5.2f}" for f, r in zip(FACTORS, found))
        print(f"{name:<24} {number:<14} {size:>9}  {said}", flush=True)
        if number and not isinstance(found, str):
            rows.setdefault(number, []).append(found)

    numbers = names_of(options.device)
    for (name, gradient), overrides in sorted(device.override.rows.items()):
        size = min((row.least for row in overrides if row.least), default=0)
        if size and not gradient and options.only in name:
            show(name, size, numbers.get(name, ""), measured(device, name, size, options.seconds))
    for number in PROGRAMS.get(options.device, {}):
        if options.only in number.lower():
            size = getattr(table, number)
            show(number.lower(), size, number, varied(device, table, number, options.seconds))
    moved = {n: crossing(getattr(table, n), found) for n, found in rows.items()}
    moved = {n: size for n, size in moved.items() if size != getattr(table, n)}
    for number, size in moved.items():
        print(f"{number}: {getattr(table, number)} -> {size}")
    if options.write and moved:
        write(Path(str(table.__file__)), moved)


if __name__ == "__main__":
    main()
