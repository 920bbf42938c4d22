"""Ranks call different things, and nothing asks for checks: the job must end with an error that has both lines."""

from __future__ import annotations

import sys

import adjoint as torch
import adjoint.distributed as dist

x = torch.ones
R = dist.ReduceOp


def known() -> None:
    """Make calls of two kinds so often that they are compared no more."""
    for _ in range(5):
        dist.all_reduce(x(4))
        dist.all_reduce(x(4), R.MAX)


def many() -> None:
    """Make many calls of a kind, so that the calls before are compared with them."""
    for _ in range(70):
        dist.all_reduce(x(4))


# What rank 0 calls, and what rank 1 calls.
CASES = {
    "count": (lambda: dist.all_reduce(x(4)),
              lambda: dist.all_reduce(x(6))),
    "dtype": (lambda: dist.all_reduce(x(4)),
              lambda: dist.all_reduce(x(4).double())),
    "reduction": (lambda: dist.all_reduce(x(4)),
                  lambda: dist.all_reduce(x(4), R.MAX)),
    "root": (lambda: dist.broadcast(x(4), 0),
             lambda: dist.broadcast(x(4), 1)),
    "op": (lambda: dist.all_reduce(x(4)),
           lambda: dist.barrier()),
    "async": (lambda: dist.all_reduce(x(4), async_op=True).wait(),
              lambda: dist.all_reduce(x(4), R.MAX, async_op=True).wait()),
    "new-after-known": (lambda: (known(), dist.all_reduce(x(4))),
                        lambda: (known(), dist.all_reduce(x(5)))),
    "new-async": (lambda: (known(), dist.all_reduce(x(4))),
                  lambda: (known(), dist.all_reduce(x(5), async_op=True).wait())),
    "new-both-async": (lambda: (known(), dist.all_reduce(x(4), async_op=True).wait()),
                       lambda: (known(), dist.all_reduce(x(5), async_op=True).wait())),
    "new-unwaited": (lambda: (known(), dist.all_reduce(x(4), async_op=True)),
                     lambda: (known(), dist.all_reduce(x(4).double(), async_op=True).wait())),
    "known-against-new": (lambda: (known(), dist.broadcast(x(4), 0, async_op=True).wait(), dist.all_reduce(x(4))),
                          lambda: (known(), dist.all_reduce(x(4)), dist.broadcast(x(4), 0, async_op=True).wait())),
    "extra": (lambda: known(),
              lambda: (known(), dist.all_reduce(x(4)))),
    "extra-async": (lambda: known(),
                    lambda: (known(), dist.all_reduce(x(7), async_op=True).wait())),
    "both-known": (lambda: (known(), dist.all_reduce(x(4)), many()),
                   lambda: (known(), dist.all_reduce(x(4), R.MAX), many())),
    "swapped-known": (lambda: (known(), dist.all_reduce(x(4)), dist.all_reduce(x(4), R.MAX), many()),
                      lambda: (known(), dist.all_reduce(x(4), R.MAX), dist.all_reduce(x(4)), many())),
}  # fmt: skip


def fine() -> None:
    """Make calls that match, in ways that a check could get wrong; nothing may be said of them."""
    rank = dist.get_rank()
    dist.all_reduce(x(2, 3) if rank else x(6))  # shapes are a rank's own affair
    work = dist.all_reduce(x(3), async_op=True) if rank == 0 else None
    if rank == 0:
        dist.send(x(1), 1)  # rank 1 takes it before it joins the call that rank 0 has begun
        work.wait()
    else:
        dist.recv(x(1), 0)
        dist.all_reduce(x(3))
    for size in range(1, 200):
        dist.all_reduce(x(size % 90))
    dist.barrier()
    print("fine", flush=True)


if __name__ == "__main__":
    dist.init_process_group()
    if sys.argv[1] == "fine":
        fine()
    else:
        CASES[sys.argv[1]][dist.get_rank()]()
        print("silent", flush=True)
    dist.destroy_process_group()
