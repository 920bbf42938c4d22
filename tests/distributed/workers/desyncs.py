"""One rank calls something else than the others: the job must end with an error that tells."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta

import adjoint as torch
import adjoint.distributed as dist

x = torch.ones
R = dist.ReduceOp
# What rank 0 calls, and what rank 1 calls.
CASES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "op": (lambda: dist.all_reduce(x(4)), lambda: dist.broadcast(x(4), 0)),
    "op2": (lambda: dist.barrier(), lambda: dist.all_reduce(x(4))),
    "op3": (lambda: dist.all_gather([x(2), x(2)], x(2)), lambda: dist.reduce(x(2), 0)),
    "op4": (lambda: dist.all_gather_into_tensor(x(4), x(2)), lambda: dist.reduce_scatter_tensor(x(2), x(4))),
    "op5": (lambda: dist.gather(x(2), [x(2), x(2)]), lambda: dist.scatter(x(2), src=0)),
    "op6": (lambda: dist.all_to_all_single(x(4), x(4)), lambda: dist.all_reduce(x(4))),
    "op7": (lambda: dist.all_reduce_coalesced([x(4)]), lambda: dist.all_reduce(x(4))),
    "op8": (lambda: dist.all_gather_object([0, 0], 1), lambda: dist.barrier()),
    "shape": (lambda: dist.all_reduce(x(4)), lambda: dist.all_reduce(x(5))),
    "shape2": (lambda: dist.all_reduce(x(4, 1)), lambda: dist.all_reduce(x(1, 4))),
    "shape3": (lambda: dist.broadcast(x(4), 0), lambda: dist.broadcast(x(3), 0)),
    "shape4": (lambda: dist.all_gather_into_tensor(x(4), x(2)), lambda: dist.all_gather_into_tensor(x(6), x(3))),
    "shape5": (lambda: dist.reduce_scatter_tensor(x(2), x(4)), lambda: dist.reduce_scatter_tensor(x(3), x(6))),
    "shape6": (lambda: dist.reduce(x(2), 0), lambda: dist.reduce(x(3), 0)),
    "shape7": (lambda: dist.scatter(x(2), [x(2), x(2)]), lambda: dist.scatter(x(3))),
    "dtype": (lambda: dist.all_reduce(x(4)), lambda: dist.all_reduce(x(4).double())),
    "dtype2": (lambda: dist.all_reduce(x(4).int()), lambda: dist.all_reduce(x(4))),
    "dtype3": (lambda: dist.broadcast(x(4).half(), 0), lambda: dist.broadcast(x(4).bfloat16(), 0)),
    "dtype4": (lambda: dist.all_to_all_single(x(4).long(), x(4).long()), lambda: dist.all_to_all_single(x(4), x(4))),
    "root": (lambda: dist.broadcast(x(4), 0), lambda: dist.broadcast(x(4), 1)),
    "root2": (lambda: dist.reduce(x(4), 0), lambda: dist.reduce(x(4), 1)),
    "reduction": (lambda: dist.all_reduce(x(4), R.SUM), lambda: dist.all_reduce(x(4), R.MAX)),
    "reduction2": (lambda: dist.reduce(x(4), 0, R.MIN), lambda: dist.reduce(x(4), 0, R.MAX)),
    "swapped": (lambda: (dist.all_reduce(x(4)), dist.broadcast(x(4), 0)),
                lambda: (dist.broadcast(x(4), 0), dist.all_reduce(x(4)))),
    "swapped2": (lambda: (dist.all_reduce(x(4)), dist.all_reduce(x(2))),
                 lambda: (dist.all_reduce(x(2)), dist.all_reduce(x(4)))),
    "missing": (lambda: (dist.all_reduce(x(4)), dist.barrier()), lambda: dist.barrier()),
    "missing2": (lambda: dist.all_reduce(x(4)), lambda: None),
    "missing3": (lambda: None, lambda: dist.broadcast(x(4), 1)),
    "uneven": (lambda: [dist.all_reduce(x(4)) for _ in range(3)], lambda: [dist.all_reduce(x(4)) for _ in range(2)]),
    "alike": (lambda: dist.all_reduce(x(4)),
              lambda: dist.all_reduce(x(4))),
}  # fmt: skip

# What one rank does not call at all.
MISSING = ("missing2", "missing3", "uneven")


def main() -> None:
    """Run all cases, each in a fresh pair of groups; every rank must raise (or, for "alike", warn)."""
    silent = []
    for name, calls in CASES.items():
        # Only where somebody is missed the clock must tell.
        dist.init_process_group(timeout=timedelta(seconds=0.4 if name in MISSING else 600))
        rank = dist.get_rank()
        try:
            calls[rank]()
            raised = None
        except (dist.DistBackendError, UserWarning) as error:
            raised = error
        text = str(raised)
        told = [None] * 2
        dist.destroy_process_group()
        dist.init_process_group(timeout=timedelta(seconds=600))
        dist.all_gather_object(told, text)
        both = " ".join(told).count(__file__.rpartition("/")[2]) >= (1 if name in MISSING else 2)
        if told == ["None", "None"] or not both:
            silent.append((name, told))
        if rank == 0 and "-v" in sys.argv:
            print(f"--- {name}\n{told[0]}\n{told[1]}")
        dist.destroy_process_group()
    assert not silent, silent
    if rank == 0:
        print(len(CASES), "desyncs, 0 silent")


if __name__ == "__main__":
    main()
