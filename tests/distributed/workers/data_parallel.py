"""DistributedDataParallel against one process with the whole batch, and the ranks against each other."""

from __future__ import annotations

import copy
import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

import adjoint as torch
import adjoint.distributed as dist
from adjoint import nn
from adjoint.distributed.algorithms.ddp_comm_hooks import default_hooks
from adjoint.nn.parallel import DistributedDataParallel as DDP
from adjoint.utils.checkpoint import checkpoint

ROWS, WIDTH = 12, 6  # rows of a batch: as many for 2 ranks, 3 and 4


def mlp(width: int = 16, dtype: Any = None) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, width, dtype=dtype), nn.Tanh(), nn.Linear(width, 3, dtype=dtype))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.b.weight = self.a.weight

    def forward(self, x: Any) -> Any:
        return self.b(torch.relu(self.a(x)))


class Idle(nn.Module):
    """Has parameters that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = mlp(), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.used(x)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x: Any) -> Any:
        return self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


class Recomputed(Twice):
    def forward(self, x: Any) -> Any:
        return self.head(checkpoint(lambda y: torch.tanh(self.layer(y)), self.layer(x), use_reentrant=False))


class Sequence(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.kind = kind
        self.body = (
            nn.LSTM(8, 8, batch_first=True)
            if kind == "lstm"
            else nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        )

    def forward(self, x: Any) -> Any:
        out = self.body(self.embedding((x.abs() * 3).long().clamp(max=9)))
        return out[0] if self.kind == "lstm" else out


class Image(nn.Module):
    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.conv, self.norm, self.head = (
            nn.Conv1d(1, 4, 3),
            nn.BatchNorm1d(4) if norm else nn.Identity(),
            nn.Linear(16, 2),
        )

    def forward(self, x: Any) -> Any:
        return self.head(torch.relu(self.norm(self.conv(x[:, None]))).flatten(1))


@dataclasses.dataclass
class Answer:
    value: Any
    other: Any


class Several(nn.Module):
    """Returns more than the loss uses."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.a, self.b, self.kind = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 2), kind

    def forward(self, x: Any) -> Any:
        a, b = self.a(x), self.b(x)
        return {"tuple": (a, b), "dict": {"a": a, "b": [b]}, "dataclass": Answer(a, b)}[self.kind]


def first_of(out: Any) -> Any:
    if isinstance(out, Answer):
        return out.value
    return out["a"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 4), nn.Linear(4, 2, dtype=torch.float64)

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x).double())


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * g


class Cubed(Twice):
    def forward(self, x: Any) -> Any:
        return self.head(Custom.apply(self.layer(x)))


def frozen() -> nn.Module:
    model = mlp()
    model[0].weight.requires_grad_(False)
    return model


def synced_norm() -> nn.Module:
    return nn.SyncBatchNorm.convert_sync_batchnorm(Image(True))


SGD = lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9)
ADAM = lambda ps: torch.optim.Adam(ps, lr=0.01)
SMALL = {"bucket_cap_mb": 0.0005}
VIEW = {"gradient_as_bucket_view": True}
FIND = {"find_unused_parameters": True}
STATIC = {"static_graph": True}
# name: (model, options of DDP, optimizer, options of the training below)
CASES: dict[str, tuple[Callable[[], nn.Module], dict[str, Any], Any, dict[str, Any]]] = {
    "mlp": (mlp, {}, SGD, {}),
    "mlp adam": (mlp, {}, ADAM, {}),
    "mlp float64": (lambda: mlp(dtype=torch.float64), {}, SGD, {"dtype": torch.float64}),
    "small buckets": (lambda: mlp(64), SMALL, SGD, {}),
    "views": (mlp, VIEW, SGD, {}),
    "views kept": (mlp, VIEW, SGD, {"set_to_none": False}),
    "views, small buckets": (lambda: mlp(64), {**VIEW, **SMALL}, ADAM, {}),
    "zeroed": (mlp, {}, SGD, {"set_to_none": False}),
    "tied": (Tied, {}, SGD, {}),
    "tied, small buckets": (Tied, SMALL, SGD, {}),
    "tied, find": (Tied, FIND, SGD, {}),
    "idle": (Idle, {}, SGD, {}),
    "idle, find": (Idle, FIND, SGD, {}),
    "idle, find, views": (Idle, {**FIND, **VIEW}, SGD, {}),
    "idle, static": (Idle, STATIC, SGD, {}),
    "frozen": (frozen, {}, SGD, {}),
    "frozen, find": (frozen, FIND, ADAM, {}),
    "twice": (Twice, {}, SGD, {}),
    "twice, static": (Twice, STATIC, SGD, {}),
    "recomputed": (Recomputed, {}, SGD, {}),
    "recomputed, small buckets": (Recomputed, SMALL, SGD, {}),
    "custom function": (Cubed, {}, SGD, {}),
    "lstm": (lambda: Sequence("lstm"), {}, SGD, {}),
    "transformer": (lambda: Sequence("transformer"), SMALL, SGD, {}),
    "transformer, views": (lambda: Sequence("transformer"), VIEW, SGD, {}),
    "convolution": (lambda: Image(False), {}, SGD, {}),
    "norm in eval": (lambda: Image(True).eval(), {}, SGD, {}),
    "synchronised norm": (synced_norm, {}, SGD, {"alone": lambda: Image(True)}),
    "synchronised norm, views": (synced_norm, VIEW, SGD, {"alone": lambda: Image(True)}),
    "tuple": (lambda: Several("tuple"), {}, SGD, {}),
    "dict": (lambda: Several("dict"), FIND, SGD, {}),
    "dataclass": (lambda: Several("dataclass"), SMALL, SGD, {}),
    "mixed dtypes": (Mixed, {}, SGD, {}),
    "accumulated": (mlp, {}, SGD, {"accumulate": "no_sync"}),
    "accumulated, views": (mlp, VIEW, SGD, {"accumulate": "no_sync"}),
    "accumulated, synced": (mlp, {}, SGD, {"accumulate": "sync"}),
    "two forwards": (mlp, {}, SGD, {"accumulate": "joint"}),
    "two forwards, find": (Idle, FIND, SGD, {"accumulate": "joint"}),
    "plain hook": (lambda: mlp(64), {}, SGD, {"hook": default_hooks.allreduce_hook}),
    "plain hook, small buckets": (lambda: mlp(64), SMALL, ADAM, {"hook": default_hooks.allreduce_hook}),
    "bf16 hook": (mlp, {}, SGD, {"hook": default_hooks.bf16_compress_hook, "close": 2e-2}),
    "fp16 hook": (mlp, VIEW, SGD, {"hook": default_hooks.fp16_compress_hook, "close": 2e-3}),
    "no init sync": (mlp, {"init_sync": False}, SGD, {"seed_alike": True}),
}  # fmt: skip


def loss_of(model: Any, x: Any) -> Any:
    return (first_of(model(x)) ** 2).mean()


def train(model: Any, optimizer: Any, x: Any, kind: str | None, set_to_none: bool) -> None:
    optimizer.zero_grad(set_to_none)
    half = x.shape[0] // 2
    if kind is None:
        loss_of(model, x).backward()
    elif kind == "joint":
        (loss_of(model, x[:half]) + loss_of(model, x[half:])).backward()
    else:
        if kind == "no_sync" and isinstance(model, DDP):
            with model.no_sync():
                loss_of(model, x[:half]).backward()
        else:
            loss_of(model, x[:half]).backward()
        loss_of(model, x[half:]).backward()
    optimizer.step()


def check(name: str, rank: int, size: int) -> None:
    make, options, optimizer, how = CASES[name]
    torch.manual_seed(0 if how.get("seed_alike") else rank)
    model = make()
    wrapped = DDP(model, **options)
    if how.get("hook"):
        wrapped.register_comm_hook(None, how["hook"])
    alone = how.get("alone", lambda: copy.deepcopy(model))()
    alone.load_state_dict(model.state_dict())
    ours, theirs = optimizer(wrapped.parameters()), optimizer(alone.parameters())
    torch.manual_seed(5)
    kind, rows = how.get("accumulate"), ROWS * (2 if how.get("accumulate") else 1)
    for step in range(3):
        x = torch.randn(rows, WIDTH, dtype=how.get("dtype") or torch.float32)
        part = x.reshape(2, -1, size, WIDTH)[:, :, rank].reshape(-1, WIDTH) if kind else x[rank::size]
        train(wrapped, ours, part, kind, how.get("set_to_none", True))
        train(alone, theirs, x, kind, how.get("set_to_none", True))
    close = how.get("close", 1e-6)
    for (label, p), q in zip(model.named_parameters(), alone.parameters()):
        assert (p.grad is None) == (q.grad is None) or how.get("set_to_none") is False, f"{name}: {label}"
        for a, b in [(p, q)] + ([(p.grad, q.grad)] if p.grad is not None and q.grad is not None else []):
            error = (a - b).abs().max().item() / max(1.0, b.abs().max().item())
            assert error <= close, f"{name}: {label} differs by {error}"
            every = [torch.empty_like(a) for _ in range(size)]
            dist.all_gather(every, a.detach())
            assert all(torch.equal(e, every[0]) for e in every), f"{name}: {label} differs between ranks"
    for (label, a), b in zip(model.named_buffers(), alone.buffers()):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6), f"{name}: buffer {label}"
    wrapped.reducer.remove()


class Branches(nn.Module):
    """Uses the part that it is told to; -1 uses none."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, 1) for _ in range(5))

    def forward(self, x: Any, which: int) -> Any:
        return self.parts[which](x) if which >= 0 else (x * torch.ones(1, requires_grad=True)).sum(1)


def branches(rank: int, size: int) -> None:
    """Each rank uses another part; the last is used by nobody, and rank 0 once uses nothing at all."""
    for options in ({}, FIND, VIEW, {**FIND, **SMALL}):
        torch.manual_seed(0)
        model = Branches()
        wrapped = DDP(model, **options)
        for which in (rank, (rank + 1) % size, -1 if rank == 0 else rank):
            model.zero_grad()
            x = torch.ones(2, WIDTH) * (rank + 1)
            wrapped(x, which).sum().backward()
            told: list[Any] = [None] * size
            dist.all_gather_object(told, which)
            for number, part in enumerate(model.parts):
                owners = [r for r in range(size) if told[r] == number]
                if not owners:
                    assert part.weight.grad is None, number
                else:
                    expected = sum(2.0 * (r + 1) for r in owners) / size
                    assert torch.allclose(part.weight.grad, torch.full((1, WIDTH), expected)), (
                        number,
                        part.weight.grad,
                    )
        wrapped.reducer.remove()


def looks(rank: int, size: int) -> None:
    """A forward pass without gradients, and autograd.grad, do not disturb the pass that is to come."""
    model = Idle()
    wrapped = DDP(model)
    loss = wrapped(torch.ones(2, WIDTH) * (rank + 1)).sum()
    with torch.no_grad():
        wrapped(torch.ones(2, WIDTH))
    if rank == 0:
        torch.autograd.grad(loss, model.used[0].weight, retain_graph=True)
    loss.backward()
    every: list[Any] = [None] * size
    dist.all_gather_object(every, model.used[0].weight.grad)
    assert all(torch.equal(e, every[0]) for e in every)
    assert wrapped.unused_parameters == ["idle.weight", "idle.bias"]
    wrapped.reducer.remove()


def uneven(rank: int, size: int) -> None:
    """Ranks with 1, 2, ... batches: with zeros for who is through, divided by all or by those that go on."""
    for by_all in (True, False):
        model = nn.Linear(2, 1, bias=False)
        wrapped = DDP(model)
        grads = []
        with wrapped.join(divide_by_initial_world_size=by_all):
            for _ in range(rank + 1):
                model.zero_grad()
                wrapped(torch.ones(1, 2) * (rank + 1)).sum().backward()
                grads.append(model.weight.grad[0, 0].item())
        expected = []
        for step in range(rank + 1):
            active = [r for r in range(size) if r >= step]
            expected.append(sum(r + 1.0 for r in active) / (size if by_all else len(active)))
        assert torch.allclose(torch.tensor(grads), torch.tensor(expected)), (rank, grads, expected)
        wrapped.reducer.remove()


def buffers_and_errors(rank: int, size: int) -> None:
    model = Image(True)
    wrapped = DDP(model)
    model.norm.running_mean.fill_(float(rank))
    wrapped(torch.randn(4, WIDTH))
    every: list[Any] = [None] * size
    dist.all_gather_object(every, model.conv.weight)
    assert all(torch.equal(e, every[0]) for e in every)
    seen: list[Any] = [None] * size
    wrapped.eval()
    wrapped(torch.randn(4, WIDTH))
    try:
        DDP(nn.Linear(2, 2 + (rank == 1)))
    except dist.DistBackendError as error:
        assert "weight: float32[2, 2] / weight: float32[3, 2]" in str(error), error
    else:
        raise AssertionError("models of different shapes were taken")
    try:
        DDP(nn.Tanh())
    except RuntimeError as error:
        assert "require a gradient" in " ".join(str(error).split())
    dist.all_gather_object(seen, list(wrapped.state_dict())[0])
    assert seen == ["module.conv.weight"] * size


def main() -> None:
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    cases = [name for name in CASES if len(sys.argv) < 2 or name in sys.argv[1:]]
    for name in cases:
        started = time.perf_counter()
        check(name, rank, size)
        if rank == 0 and len(sys.argv) > 1:
            print(f"{name}: {time.perf_counter() - started:.2f} s")
    for extra in (branches, looks, uneven, buffers_and_errors):
        extra(rank, size)
    if rank == 0:
        print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
