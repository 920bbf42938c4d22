"""Every collective, on every rank of a job, against what NumPy says it must give."""

from __future__ import annotations

import numpy as np

import adjoint as torch
import adjoint.distributed as dist


def value(rank: int, shape: tuple[int, ...] = (2, 3), dtype: object = torch.float32) -> torch.Tensor:
    return (torch.arange(int(np.prod(shape))).reshape(shape) + 10 * rank + 1).to(dtype)


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    assert a.dtype == b.dtype and torch.equal(a, b), (a, b)


def reductions(rank: int, size: int) -> None:
    R = dist.ReduceOp
    for dtype in (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bfloat16, torch.float16):
        stacked = torch.stack([value(r, dtype=dtype).double() for r in range(size)])
        expected = {R.SUM: stacked.sum(0), R.MAX: stacked.amax(0), R.MIN: stacked.amin(0)}
        for op, whole in expected.items():
            x = value(rank, dtype=dtype)
            dist.all_reduce(x, op=op)
            same(x, whole.to(dtype))
            x = value(rank, dtype=dtype)
            dist.reduce(x, size - 1, op=op)
            if rank == size - 1:
                same(x, whole.to(dtype))
    x = torch.full((3,), 2.0 + rank)
    dist.all_reduce(x, op=R.AVG)
    same(x, torch.full((3,), 2.0 + (size - 1) / 2))
    x = torch.full((3,), 2)
    dist.all_reduce(x, op=R.PRODUCT)
    same(x, torch.full((3,), 2**size))
    x = torch.tensor([1 << rank], device="cpu")  # NCCL has no such op
    dist.all_reduce(x, op=R.BOR)
    same(x, torch.tensor([(1 << size) - 1], device="cpu"))
    x = torch.tensor([rank == 0, False])
    dist.all_reduce(x)
    same(x, torch.tensor([True, False]))
    x = torch.complex(torch.ones(2), torch.full((2,), float(rank)))
    dist.all_reduce(x)
    same(x, torch.complex(torch.full((2,), float(size)), torch.full((2,), size * (size - 1) / 2)))
    xs = [torch.ones(2), torch.ones(3, 3)]
    dist.all_reduce_coalesced(xs)
    same(xs[1], torch.full((3, 3), float(size)))
    base = torch.ones(4, 4)  # a view with strides of its own
    dist.all_reduce(base[:, 1])
    assert base.sum().item() == 12 + 4 * size and base._version > 0


def copies(rank: int, size: int) -> None:
    x = value(rank)
    dist.broadcast(x, src=1)
    same(x, value(1))
    out = [torch.empty(2, 3) for _ in range(size)]
    dist.all_gather(out, value(rank))
    for r in range(size):
        same(out[r], value(r))
    whole = torch.empty(2 * size, 3)
    work = dist.all_gather_into_tensor(whole, value(rank), async_op=True)
    assert work.wait() and work.is_completed() and work.is_success()
    same(whole, torch.cat([value(r) for r in range(size)]))
    mine = [torch.empty(2, 3) for _ in range(size)] if rank == 1 else None
    dist.gather(value(rank), mine, dst=1)
    if mine:
        for r in range(size):
            same(mine[r], value(r))
    x = torch.empty(2, 3)
    dist.scatter(x, [value(5 * r) for r in range(size)] if rank == 0 else None, src=0)
    same(x, value(5 * rank))
    total = sum(range(1, size + 1))
    x = torch.empty(3)
    dist.reduce_scatter(x, [torch.full((3,), float((rank + 1) * (r + 1))) for r in range(size)])
    same(x, torch.full((3,), float(total * (rank + 1))))
    x = torch.empty(2)
    dist.reduce_scatter_tensor(x, torch.arange(2.0 * size))
    same(x, torch.arange(2.0 * size)[2 * rank : 2 * rank + 2] * size)
    out = [torch.empty(r + 1) for r in range(size)]
    dist.all_to_all(out, [torch.full((rank + 1,), float(10 * rank + r)) for r in range(size)])
    for r in range(size):
        same(out[r], torch.full((r + 1,), float(10 * r + rank)))
    out, given = torch.empty(size, 2), torch.stack([torch.full((2,), float(10 * rank + r)) for r in range(size)])
    dist.all_to_all_single(out, given)
    same(out, torch.stack([torch.full((2,), float(10 * r + rank)) for r in range(size)]))
    out = torch.empty(sum(range(1, size + 1)))
    dist.all_to_all_single(
        out, torch.full(((rank + 1) * size,), float(rank)), list(range(1, size + 1)), [rank + 1] * size
    )
    same(out, torch.cat([torch.full((r + 1,), float(r)) for r in range(size)]))


def messages(rank: int, size: int) -> None:
    right, left = (rank + 1) % size, (rank - 1) % size
    x = torch.empty(2, 3)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, value(rank), right), dist.P2POp(dist.irecv, x, left)])
    for work in works:
        work.wait()
    same(x, value(left))
    x = torch.empty(2, 3)  # a message to oneself
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, value(rank), rank), dist.P2POp(dist.irecv, x, rank)]):
        work.wait()
    same(x, value(rank))
    if rank == 0:
        dist.send(value(7), 1)
        dist.send(value(8).cpu(), 1, tag=3)  # on the host: NCCL asks who sends, and does not count bytes
        dist.send(torch.ones(3, device="cpu"), 1)
    elif rank == 1:
        x = torch.empty(2, 3)
        assert dist.recv(x, 0) == 0
        same(x, value(7))
        x = torch.empty(2, 3, device="cpu")
        assert dist.recv(x, tag=3) == 0
        same(x, value(8).cpu())
        try:
            dist.recv(torch.ones(4, device="cpu"), 0)
        except RuntimeError as error:
            assert "12 bytes" in str(error)
        else:
            raise AssertionError("a message of another size was taken")


def objects(rank: int, size: int) -> None:
    mine = {"rank": rank, "words": ["a", ("b", None)], "t": torch.ones(rank + 1)}
    found = [None] * size
    dist.all_gather_object(found, mine)
    assert (
        [f["rank"] for f in found] == list(range(size))
        and found[1]["t"].shape == (2,)
        and found[0]["words"][1] == ("b", None)
    )
    told = [mine, 5] if rank == 0 else [None, None]
    dist.broadcast_object_list(told, src=0)
    assert told[1] == 5 and told[0]["rank"] == 0
    found = [None] * size if rank == 0 else None
    dist.gather_object(rank, found, dst=0)
    assert rank or found == list(range(size))
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert out == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list([1, "x"], 1)
    elif rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, 0) == 0 and got == [1, "x"]
    try:
        dist.all_gather_object([None] * size, object())
    except (TypeError, ValueError) as error:
        assert "allow_pickle" in error.__notes__[-1]
    else:
        raise AssertionError("an object of any class was sent")
    found = [None] * size
    dist.all_gather_object(found, range(rank), allow_pickle=True)
    assert found == [range(r) for r in range(size)]


def groups(rank: int, size: int) -> None:
    assert dist.get_rank() == rank and dist.get_world_size() == size and dist.get_backend() in ("mpi", "gloo", "nccl")
    pair = dist.new_group([0, size - 1])
    x = torch.ones(2)
    if rank in (0, size - 1):
        dist.all_reduce(x, group=pair)
        same(x, torch.full((2,), 2.0))
        assert dist.get_global_rank(pair, 1) == size - 1 and dist.get_group_rank(pair, 0) == 0
        dist.broadcast(x, src=size - 1, group=pair)
        dist.destroy_process_group(pair)
    else:
        assert pair is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(pair) == -1
    own, every = dist.new_subgroups(1)
    assert len(every) == size and dist.get_world_size(own) == 1
    dist.barrier()
    dist.monitored_barrier()
    future = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda f: f.value()[0].sum().item())
    assert future.wait() == 2 * size


def refused(rank: int, size: int) -> None:
    for call in (
        lambda: dist.all_reduce(3),
        lambda: dist.all_gather([torch.ones(2)], torch.ones(2)),
        lambda: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(3)),
        lambda: dist.broadcast(torch.ones(2), src=size + 3),
        lambda: dist.send(torch.ones(2), rank),
        lambda: dist.init_process_group(),
    ):
        try:
            call()
        except (TypeError, ValueError):
            continue
        raise AssertionError("a wrong call was taken")


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for check in (reductions, copies, messages, objects, groups, refused):
        check(rank, size)
    dist.destroy_process_group()
    assert not dist.is_initialized()
    dist.init_process_group()  # again, after an end
    dist.barrier()


if __name__ == "__main__":
    main()
