"""PyTorch's distributed tutorials in one program: it starts its own processes, and writes down what each computed."""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def begin(rank, size, how, folder, port):
    if how == "env":
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", str(port)
        dist.init_process_group("gloo", rank=rank, world_size=size)
    elif how == "tcp":
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    elif how == "query":
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}?rank={rank}&world_size={size}")
    elif how == "file":
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    else:
        store = dist.FileStore(f"{folder}/store", size)
        dist.init_process_group(store=dist.PrefixStore("mine", store), rank=rank, world_size=size)


def collectives(rank, size, told):
    x = torch.arange(4.0) + rank
    for name in ("SUM", "PRODUCT", "MIN", "MAX"):
        y = x.clone()
        dist.all_reduce(y, op=getattr(dist.ReduceOp, name))
        told(name, y)
    y = x.clone()
    dist.reduce(y, dst=1)
    told("reduce", y if rank == 1 else None)
    y = x.clone() if rank == 1 else torch.zeros(4)
    dist.broadcast(y, src=1)
    told("broadcast", y)
    parts = [torch.zeros(4) for _ in range(size)]
    dist.all_gather(parts, x)
    told("all_gather", parts)
    dist.gather(x, parts if rank == 0 else None, dst=0)
    told("gather", parts)
    y = torch.zeros(2)
    dist.scatter(y, [torch.full((2,), float(i)) for i in range(size)] if rank == 0 else None, src=0)
    told("scatter", y)
    y = torch.zeros(size * 2)
    dist.all_gather_into_tensor(y, torch.full((2,), float(rank)))
    told("all_gather_into_tensor", y)
    y = torch.zeros(size)
    dist.all_to_all_single(y, torch.arange(float(size)) + 10 * rank)
    told("all_to_all_single", y)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "words": ["a"] * rank})
    told("objects", objects)
    objects = [rank, "from"] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, src=0)
    told("object list", objects)
    y = torch.ones(1 << 16) * (rank + 1)  # more than one message's worth
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    told("large", [work.is_completed(), y.sum()])
    pair = dist.new_group([0, 1])
    if rank < 2:
        y = torch.ones(1)
        dist.all_reduce(y, group=pair)
        told("group", [y, dist.get_rank(pair), dist.get_world_size(pair)])
    told("facts", [dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.is_initialized()])


def ring(rank, size, told):
    """Pass a number around, blocking and not."""
    token = torch.zeros(1)
    if rank == 0:
        token += 1
        dist.send(token, dst=1)
        dist.recv(token, src=size - 1)
    else:
        told("came from", dist.recv(token, src=rank - 1))
        token += 1
        dist.send(token, dst=(rank + 1) % size)
    sent, got = torch.full((3,), float(rank)), torch.zeros(3)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, sent, (rank + 1) % size), dist.P2POp(dist.irecv, got, (rank - 1) % size)
    ])  # fmt: skip
    for work in works:
        work.wait()
    told("ring", [token, got])


def average_by_hand(model):
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= dist.get_world_size()


def training(rank, size, folder, told):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(26, 6), torch.randn(26, 2))
    for kind in ("ddp", "by hand"):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
        wrapped = DDP(model) if kind == "ddp" else model
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9)
        sampler = DistributedSampler(data, num_replicas=size, rank=rank, shuffle=True, seed=3)
        loader, losses = DataLoader(data, batch_size=5, sampler=sampler), []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(wrapped(x), y)
                loss.backward()
                if kind == "by hand":
                    average_by_hand(model)
                optimizer.step()
                losses.append(loss)
        told(kind, [losses, list(model.parameters()), list(sampler)])
    path = os.path.join(folder, "model.pt")
    if rank == 0:
        torch.save(wrapped.state_dict(), path)
    dist.barrier()
    fresh = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    fresh.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    told("loaded", all(bool((a == b).all()) for a, b in zip(fresh.parameters(), model.parameters())))


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def worker(rank, size, folder, ports):
    result = {}
    for at, how in enumerate(("env", "tcp", "query", "file", "store")):
        begin(rank, size, how, folder, ports[min(at, 2)])
        told = lambda name, value, how=how: result.update({f"{how}: {name}": plain(value)})
        x = torch.ones(1) * rank
        dist.all_reduce(x)
        told("sum", x)
        if how == "env":
            collectives(rank, size, told)
            ring(rank, size, told)
            training(rank, size, folder, told)
        dist.barrier()
        dist.destroy_process_group()
        told("after", dist.is_initialized())
    with open(os.path.join(folder, f"rank{rank}.json"), "w") as file:
        json.dump(result, file)


def failing(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    if rank == 1:
        raise ValueError("what rank 1 cannot do")
    dist.barrier()  # raises, for rank 1 is gone


if __name__ == "__main__":
    size, folder, ports = 3, sys.argv[1], sys.argv[2:]
    mp.spawn(worker, args=(size, folder, ports), nprocs=size, join=True)
    try:
        mp.spawn(failing, args=(ports[3],), nprocs=2)
    except mp.ProcessRaisedException as error:  # of rank 1, or of rank 0, which misses it
        text = "what rank 1 cannot do" if error.error_index == 1 else "losed by peer"
        print(type(error).__name__, text in str(error))
