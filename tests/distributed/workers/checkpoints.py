"""A sharded model and its optimizer are saved by some ranks, and loaded by other numbers of ranks."""

from __future__ import annotations

import copy
import os
import sys
from typing import Any

import adjoint as torch
import adjoint.distributed as dist
import adjoint.distributed.checkpoint as dcp
from adjoint import nn
from adjoint.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from adjoint.distributed.fsdp import fully_shard


def made(seed: int, sharded: bool) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    if sharded:
        fully_shard(model[2])
        fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def step(model: Any, optimizer: Any, seed: int) -> None:
    torch.manual_seed(seed)
    optimizer.zero_grad()
    (model(torch.randn(8, 5)) ** 2).mean().backward()
    optimizer.step()


def full(model: Any, optimizer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))


def compare(one: Any, other: Any, path: str = "") -> None:
    if torch.is_tensor(one):
        assert torch.equal(one, other), path
    elif isinstance(one, dict):
        assert set(one) == set(other), path
        for key in one:
            compare(one[key], other[key], f"{path}.{key}")
    else:
        assert one == other, (path, one, other)


def saved(folder: str, rank: int, size: int) -> None:
    model, optimizer = made(rank, sharded=True)
    for n in range(3):
        step(model, optimizer, n)
    for again in range(2):  # the second takes the place of the first
        parts = get_state_dict(model, optimizer)
        state = {"model": parts[0], "optimizer": parts[1], "step": 3, f"rng{rank}": torch.get_rng_state()}
        dcp.save(state, checkpoint_id=folder)
    whole = copy.deepcopy(full(model, optimizer))
    step(model, optimizer, 3)
    later = full(model, optimizer)
    if rank == 0:
        torch.save({"then": whole, "later": later}, folder + ".reference")
        files = os.listdir(folder)
        assert len([f for f in files if f.endswith(".safetensors")]) <= 2 * size, files
        try:
            os.mkdir(folder + ".damaged")
            dcp.load({"x": 1}, checkpoint_id=folder + ".damaged", no_dist=True)
        except FileNotFoundError:
            pass
    bad = {"x": torch.ones(2 + rank)}
    try:
        dcp.save(bad, checkpoint_id=folder)
    except ValueError as error:
        assert "must be the same everywhere" in str(error)
    else:
        assert size == 1


def loaded(folder: str, rank: int, size: int) -> None:
    reference = torch.load(folder + ".reference")
    for sharded in (True, False):
        model, optimizer = made(10 + rank, sharded)
        parts = get_state_dict(model, optimizer)
        state = {"model": parts[0], "optimizer": parts[1], "step": 0}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        assert state["step"] == 3
        for ours, theirs in zip(full(model, optimizer), reference["then"]):
            compare(ours, theirs)
        step(model, optimizer, 3)
        for ours, theirs in zip(full(model, optimizer)[0].items(), reference["later"][0].items()):
            assert torch.allclose(ours[1], theirs[1], atol=1e-6), ours[0]


if __name__ == "__main__":
    dist.init_process_group()
    {"save": saved, "load": loaded}[sys.argv[1]](sys.argv[2], dist.get_rank(), dist.get_world_size())
