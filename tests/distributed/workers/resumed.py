"""A training program that dies now and then, and goes on from its last checkpoint."""

from __future__ import annotations

import os
import signal
import sys

import adjoint as torch
import adjoint.distributed as dist
import adjoint.distributed.checkpoint as dcp
from adjoint import nn
from adjoint.nn.parallel import DistributedDataParallel as DDP
from adjoint.utils.data import DistributedSampler

SAMPLES, EPOCHS, BATCH = 24, 2, 3


def main() -> None:
    folder, out, deaths = sys.argv[1], sys.argv[2], int(sys.argv[3])
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    assert int(os.environ["RANK"]) == rank and int(os.environ["WORLD_SIZE"]) == size
    torch.manual_seed(1)
    data = torch.randn(SAMPLES, 4)
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    wrapped = DDP(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = DistributedSampler(range(SAMPLES), seed=3)
    steps = len(sampler) // BATCH
    seen: list[int] = []
    state = {
        "model": model,
        "optimizer": optimizer,
        "step": 0,
        f"seen{rank}": seen,
        f"rng{rank}": torch.get_rng_state(),
    }
    if dcp.exists(folder):
        # What an optimizer has not made yet is not there to be filled: one step makes it.
        optimizer.zero_grad()
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        state[f"seen{rank}"] = None
        dcp.load(state, checkpoint_id=folder)
        seen = [int(number) for number in state[f"seen{rank}"].split()]
        torch.set_rng_state(state[f"rng{rank}"])
    for step in range(state["step"], EPOCHS * steps):
        sampler.set_epoch(step // steps)
        at = step % steps * BATCH
        chosen = list(sampler)[at : at + BATCH]
        optimizer.zero_grad()
        (wrapped(data[chosen]) ** 2).mean().backward()
        optimizer.step()
        if attempt < deaths and step == 2 * attempt + 1 and rank == attempt % size:
            os.kill(os.getpid(), signal.SIGKILL)  # after the step, before its checkpoint: it is done again
        seen += chosen
        told = {"step": step + 1, f"seen{rank}": " ".join(map(str, seen)), f"rng{rank}": torch.get_rng_state()}
        dcp.save({"model": model, "optimizer": optimizer, **told}, checkpoint_id=folder)
    every: list[list[int]] = [[] for _ in range(size)]
    dist.all_gather_object(every, seen)
    if rank == 0:
        torch.save({"seen": every, "model": model.state_dict()}, out)


if __name__ == "__main__":
    main()
