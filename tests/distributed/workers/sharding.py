"""fully_shard and ZeroRedundancyOptimizer against one process with the whole batch."""

from __future__ import annotations

import copy
import sys
from typing import Any

import adjoint as torch
import adjoint.distributed as dist
from adjoint import nn
from adjoint.distributed.algorithms.join import Join
from adjoint.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from adjoint.distributed.optim import ZeroRedundancyOptimizer
from adjoint.nn.parallel import DistributedDataParallel as DDP
from adjoint.utils.checkpoint import checkpoint

ROWS, WIDTH = 12, 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 11), nn.Linear(11, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, tied: bool = False, frozen: bool = False, idle: bool = False, again: bool = False) -> None:
        super().__init__()
        self.first, self.blocks = nn.Linear(WIDTH, WIDTH), nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, WIDTH)
        self.again = again
        if tied:
            self.head.weight = self.first.weight
        if frozen:
            self.blocks[1].up.weight.requires_grad_(False)
        if idle:
            self.idle = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.head(x)


def shard(model: Any, **options: Any) -> Any:
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def loss_of(model: Any, x: Any) -> Any:
    return (model(x).float() ** 2).mean()


def whole(model: Any) -> dict[str, Any]:
    return {name: p.full_tensor() for name, p in model.named_parameters()}


SGD = lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9)
ADAMW = lambda ps: torch.optim.AdamW(ps, lr=0.01)
# name: (options of the model, of fully_shard, optimizer, of the training)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Any, dict[str, Any]]] = {
    "plain": ({}, {}, SGD, {}),
    "adamw": ({}, {}, ADAMW, {}),
    "kept after forward": ({}, {"reshard_after_forward": False}, SGD, {}),
    "parted after forward": ({}, {"reshard_after_forward": True}, ADAMW, {}),
    "tied": ({"tied": True}, {}, SGD, {}),
    "frozen": ({"frozen": True}, {}, SGD, {}),
    "idle": ({"idle": True}, {}, SGD, {}),
    "recomputed": ({"again": True}, {}, SGD, {}),
    "accumulated": ({}, {}, SGD, {"accumulate": True}),
    "clipped": ({}, {}, SGD, {"clip": 0.05}),
    "reduced in float64": ({}, {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float64)}, SGD, {}),
    "bfloat16": (
        {}, {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)}, SGD, {"close": 3e-2},
    ),
}  # fmt: skip


def check(name: str, rank: int, size: int) -> None:
    model_options, options, optimizer, how = CASES[name]
    torch.manual_seed(rank)
    model = Model(**model_options)
    given = [copy.deepcopy(model.state_dict())]
    dist.broadcast_object_list(given, src=0)
    alone = Model(**model_options)
    alone.load_state_dict(given[0])
    shard(model, **options)
    assert isinstance(model, FSDPModule) and isinstance(model, Model)
    held = sum(p.numel() for p in model.parameters())
    every = sum(p.numel() for p in alone.parameters())
    assert held <= every / size + 8 * size, (held, every)
    ours, theirs = optimizer(model.parameters()), optimizer(alone.parameters())
    torch.manual_seed(5)
    for step in range(3):
        x = torch.randn(ROWS, WIDTH)
        ours.zero_grad()
        theirs.zero_grad()
        if how.get("accumulate"):
            model.set_requires_gradient_sync(False)
            loss_of(model, x[rank::size]).backward()
            loss_of(alone, x).backward()
            model.set_requires_gradient_sync(True)
        loss_of(model, x[rank::size]).backward()
        loss_of(alone, x).backward()
        assert not any(flat.resident for unit in [model._unit, *(b._unit for b in model.blocks)] for flat in unit.flats)
        if how.get("clip"):
            norm = model.clip_grad_norm_(how["clip"])
            assert abs(norm - nn.utils.clip_grad_norm_(alone.parameters(), how["clip"])) < 1e-5
        ours.step()
        theirs.step()
    with torch.no_grad():
        x = torch.randn(4, WIDTH)
        assert torch.allclose(model(x).float(), alone(x), atol=how.get("close", 2e-6) * 3), name
    found = whole(model)
    for label, q in alone.named_parameters():
        error = (found[label] - q).abs().max().item()
        assert error <= how.get("close", 1e-6), f"{name}: {label} differs by {error}"


def zero(rank: int, size: int) -> None:
    for cls, options in ((torch.optim.Adam, {"lr": 0.01}), (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})):
        torch.manual_seed(0)
        model = Model()
        wrapped = DDP(model)
        alone = copy.deepcopy(model)
        ours = ZeroRedundancyOptimizer(model.parameters(), cls, **options)
        theirs = cls(alone.parameters(), **options)
        schedule = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (ours, theirs)]
        for step in range(4):
            x = torch.randn(ROWS, WIDTH)
            for m, o, part in ((wrapped, ours, x[rank::size]), (alone, theirs, x)):
                o.zero_grad()
                loss_of(m, part).backward()
                o.step()
            for s in schedule:
                s.step()
        for p, q in zip(model.parameters(), alone.parameters()):
            assert torch.allclose(p, q, atol=1e-6), (p - q).abs().max()
        held = sum(v.numel() for s in ours._local.state.values() for v in s.values() if torch.is_tensor(v))
        full = sum(v.numel() for s in theirs.state.values() for v in s.values() if torch.is_tensor(v))
        assert held < 0.8 * full
        ours.consolidate_state_dict(to=0)
        told = [ours.state_dict() if rank == 0 else None]
        dist.broadcast_object_list(told, src=0)
        expected = theirs.state_dict()
        for n, state in expected["state"].items():
            for key, value in state.items():
                if value is not None:
                    assert torch.allclose(torch.as_tensor(told[0]["state"][n][key]), torch.as_tensor(value), atol=1e-6)
        fresh = ZeroRedundancyOptimizer(model.parameters(), cls, **options)
        fresh.load_state_dict(told[0])
        assert fresh.param_groups[0]["lr"] == expected["param_groups"][0]["lr"]
        wrapped.reducer.remove()


def zero_uneven(rank: int, size: int) -> None:
    """With `Join`, ranks without data go on updating their shares."""
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    wrapped = DDP(model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([wrapped, optimizer]):
        for _ in range(rank + 1):
            optimizer.zero_grad()
            wrapped(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    every: list[Any] = [None] * size
    dist.all_gather_object(every, model.weight)
    assert all(torch.equal(e, every[0]) for e in every)


def main() -> None:
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    for name in CASES:
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            check(name, rank, size)
    zero(rank, size)
    zero_uneven(rank, size)
    if rank == 0:
        print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
