"""Every primitive gives up in time when the other side does not come, and says so."""

from __future__ import annotations

from datetime import timedelta

import adjoint as torch
import adjoint.distributed as dist

x = torch.ones
TIMEOUT = 0.2

# What rank 0 waits for in vain; `g` is a group of its own.
CASES = {
    "all_reduce": lambda g: dist.all_reduce(x(4), group=g),
    "all_reduce of bfloat16": lambda g: dist.all_reduce(x(4).bfloat16(), group=g),
    "reduce": lambda g: dist.reduce(x(4), 0, group=g),
    "broadcast": lambda g: dist.broadcast(x(4), 1, group=g),
    "all_gather": lambda g: dist.all_gather([x(4), x(4)], x(4), group=g),
    "all_gather_into_tensor": lambda g: dist.all_gather_into_tensor(x(8), x(4), group=g),
    "gather": lambda g: dist.gather(x(4), [x(4), x(4)], 0, group=g),
    "scatter": lambda g: dist.scatter(x(4), None, 1, group=g),
    "reduce_scatter": lambda g: dist.reduce_scatter(x(4), [x(4), x(4)], group=g),
    "reduce_scatter_tensor": lambda g: dist.reduce_scatter_tensor(x(4), x(8), group=g),
    "all_to_all": lambda g: dist.all_to_all([x(2), x(2)], [x(2), x(2)], group=g),
    "all_to_all_single": lambda g: dist.all_to_all_single(x(4), x(4), group=g),
    "send": lambda g: dist.send(x(1 << 20), 1, group=g),
    "recv": lambda g: dist.recv(x(4), 1, group=g),
    "recv from any rank": lambda g: dist.recv(x(4), group=g),
    "irecv": lambda g: dist.irecv(x(4), 1, group=g).wait(),
    "async all_reduce": lambda g: dist.all_reduce(x(4), group=g, async_op=True).wait(),
    "barrier": lambda g: dist.barrier(g),
    "barrier with a timeout": lambda g: dist.barrier(g, timeout=timedelta(seconds=TIMEOUT)),
    "all_gather_object": lambda g: dist.all_gather_object([0, 0], 1, g),
    "broadcast_object_list": lambda g: dist.broadcast_object_list([0], 1, g),
}


def main() -> None:
    dist.init_process_group(timeout=timedelta(seconds=600))
    rank = dist.get_rank()
    if dist.get_backend() == "gloo":
        del CASES["send"]  # by TCP a message leaves before anybody asks for it
    for name, call in CASES.items():
        group = dist.new_group([0, 1], timeout=timedelta(seconds=TIMEOUT))
        if rank == 0:
            try:
                call(group)
            except dist.DistBackendError as error:
                assert "timed out after 0.2 s" in str(error) and "rank 1" in str(error), error
            else:
                raise AssertionError(f"{name} came to an end without rank 1")
        dist.barrier()
    if rank == 0:
        print(f"{len(CASES)} primitives")


if __name__ == "__main__":
    main()
