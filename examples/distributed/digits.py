"""Digits with several processes: data parallel training that goes on from its last checkpoint.

    adjoint launch --nproc 2 --max-restarts 3 examples/distributed/digits.py

Kill one of the processes while it runs: all are started again, and the run ends with the same weights.
"""

from __future__ import annotations

import os
import sys

import adjoint as torch
import adjoint.distributed as dist
import adjoint.distributed.checkpoint as dcp
from adjoint import nn
from adjoint.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from adjoint.nn.parallel import DistributedDataParallel
from adjoint.utils.data import DistributedSampler

EPOCHS, BATCH = 3, 32


def main(folder: str = "checkpoints/digits") -> None:
    dist.init_process_group()
    rank = dist.get_rank()
    torch.manual_seed(0)
    images = torch.rand(1024, 64)  # stands for data
    labels = (images @ torch.randn(64, 10)).argmax(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sampler = DistributedSampler(range(len(images)))
    steps = len(sampler) // BATCH

    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0, f"random{rank}": torch.get_rng_state()}
    if dcp.exists(folder):
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        torch.set_rng_state(state[f"random{rank}"])

    for step in range(state["step"], EPOCHS * steps):
        sampler.set_epoch(step // steps)  # the order of an epoch follows from its number alone
        at = step % steps * BATCH
        chosen = list(sampler)[at : at + BATCH]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        if (step + 1) % steps == 0:
            weights, moments = get_state_dict(model, optimizer)
            told = {"step": step + 1, f"random{rank}": torch.get_rng_state()}
            dcp.save({"model": weights, "optimizer": moments, **told}, checkpoint_id=folder)
            if rank == 0:
                print(f"epoch {(step + 1) // steps}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    if "RANK" not in os.environ:
        sys.exit(f"start this with: adjoint launch --nproc 2 {sys.argv[0]}")
    main(*sys.argv[1:])
