"""What data parallel training costs on 8 to 1,024 ranks: a simulation of buckets on their way behind backward.

The all-reduce is modelled as MPICH runs it: by recursive doubling for short messages, ``log2(p) (a + n b)``, and as a
reduce-scatter with an all-gather for long ones, ``2 log2(p) a + 2 n b (p - 1) / p``, whichever is less. ``a`` (latency)
and ``b`` (time for a byte) are fitted to what ``distributed.py --allreduce --json FILE`` measured on this machine, or
given for a network. ``python benchmarks/scaling.py --measured FILE --steps FILE`` prints the tables of docs/scaling.md,
the steps being what ``distributed.py --json FILE`` measured.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

RANKS = (2, 8, 16, 32, 64, 128, 256, 512, 1024)
MEGABYTE = 2**20


class Link(NamedTuple):
    """How ranks reach each other."""

    latency: float  # seconds for a message of nothing
    per_byte: float  # seconds

    def all_reduce(self, size: float, ranks: int) -> float:
        """Return the seconds of one all-reduce."""
        if ranks == 1:
            return 0.0
        rounds = math.ceil(math.log2(ranks))
        short = rounds * (self.latency + size * self.per_byte)
        long = 2 * rounds * self.latency + 2 * size * self.per_byte * (ranks - 1) / ranks
        return min(short, long)


class Job(NamedTuple):
    """A training step on one rank."""

    name: str
    parameters: int
    forward: float  # seconds
    backward: float
    update: float

    def buckets(self) -> list[int]:
        """Return the sizes of the buckets, in the order in which they are reduced."""
        left, sizes = 4 * self.parameters, []
        cap = min(25 * MEGABYTE, max(MEGABYTE, left // 8))
        while left > 0:
            sizes.append(min(left, cap if sizes else MEGABYTE))
            left -= sizes[-1]
        return sizes


def simulated(job: Job, link: Link, ranks: int, overlapping: bool = True) -> tuple[float, float]:
    """Return the seconds of a step, and the share of communication that the backward pass hides.

    Gradients come at an even pace. A bucket leaves when it is complete and the one before has arrived.
    """
    total = 4 * job.parameters
    done = free = spent = 0.0
    for size in job.buckets():
        done += size
        complete = job.backward * done / total if overlapping else job.backward
        takes = link.all_reduce(size, ranks)
        spent += takes
        free = max(free, complete) + takes
    exposed = max(0.0, free - job.backward)
    hidden = 1 - exposed / spent if spent else 1.0
    return job.forward + job.backward + exposed + job.update, hidden


def fitted(measured: dict[str, float]) -> Link:
    """Return the link that explains measured all-reduces of two ranks best, in relative terms.

    Of two ranks the model says ``a + n b`` up to the size where splitting gains, with the same `b` beyond.
    """
    sizes = np.array([float(size) for size in measured])
    times = np.array(list(measured.values()))
    rows = np.stack([np.ones_like(sizes), sizes], 1) / times[:, None]
    (latency, per_byte), *_ = np.linalg.lstsq(rows, np.ones_like(times), rcond=None)
    return Link(max(float(latency), 1e-7), max(float(per_byte), 1e-12))


NETWORKS = {
    "10 Gbit/s Ethernet, 30 µs": Link(30e-6, 8 / 10e9),
    "100 Gbit/s InfiniBand, 2 µs": Link(2e-6, 8 / 100e9),
    "400 Gbit/s InfiniBand, 2 µs": Link(2e-6, 8 / 400e9),
}
# The first two as benchmarks/distributed.py measured them; `--steps` replaces them by what it measures elsewhere.
JOBS = [
    Job("MNIST MLP, batch 64 a rank", 669_706, 0.0008, 0.0016, 0.0008),
    Job("char-GPT, batch 8 a rank", 818_048, 0.0124, 0.0248, 0.0022),
    Job("GPT-2 small (124 M), 1 s a step", 124_000_000, 0.30, 0.60, 0.10),
    Job("7 G parameters, 20 s a step", 7_000_000_000, 6.4, 12.8, 0.8),
]


def with_steps(jobs: list[Job], rows: list[dict[str, float]]) -> list[Job]:
    """Return the jobs, the first ones with steps that take as long as was measured, in the same proportions."""
    measured = []
    for job, row in zip(jobs, rows, strict=False):
        factor = row["adjoint local ms"] / 1e3 / (job.forward + job.backward + job.update)
        measured.append(Job(*job[:2], job.forward * factor, job.backward * factor, job.update * factor))
    return [*measured, *jobs[len(measured) :]]


def table(link: Link) -> None:
    print("| ranks | " + " | ".join(job.name for job in JOBS) + " |")
    print("|---:" * (len(JOBS) + 1) + "|")
    for ranks in RANKS:
        cells = []
        for job in JOBS:
            alone = job.forward + job.backward + job.update
            step, hidden = simulated(job, link, ranks)
            cells.append(f"{alone / step:.0%} ({hidden:.0%} hidden)")
        print(f"| {ranks:,} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--measured", help="what distributed.py --allreduce --json wrote")
    parser.add_argument("--steps", help="what distributed.py --json wrote")
    said = parser.parse_args()
    if said.steps:
        JOBS[:] = with_steps(JOBS, json.loads(Path(said.steps).read_text()))
    links = dict(NETWORKS)
    if said.measured:
        measured = json.loads(Path(said.measured).read_text())["adjoint"]
        link = fitted(measured)
        print(f"Measured, two ranks in shared memory: latency {link.latency * 1e6:.0f} µs, "
              f"{1 / link.per_byte / 1e9:.2f} GB/s")  # fmt: skip
        print("\n| bytes | measured µs | model µs |\n|---:|---:|---:|")
        for size, took in measured.items():
            print(f"| {int(size):,} | {took * 1e6:.0f} | {link.all_reduce(float(size), 2) * 1e6:.0f} |")
        links = {"the link measured here": link, **links}
    for name, link in links.items():
        print(f"\n### {name}\n")
        table(link)


if __name__ == "__main__":
    main()
