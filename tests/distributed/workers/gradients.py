"""Gradients through collectives, against the same computation in one process; meshes; a tensor-parallel pair."""

from __future__ import annotations

from typing import Any

import adjoint as torch
import adjoint.distributed as dist
import adjoint.distributed.nn as dnn


def inputs(size: int, *shape: int) -> list[Any]:
    torch.manual_seed(3)
    return [torch.randn(*shape, dtype=torch.float64).requires_grad_() for _ in range(size)]


def weights(size: int, *shape: int) -> list[Any]:
    torch.manual_seed(4)
    return [torch.randn(*shape, dtype=torch.float64) for _ in range(size)]


def check(rank: int, size: int, name: str, ours: Any, theirs: Any) -> None:
    """`ours` maps this rank's input to its output; `theirs` all inputs to all outputs."""
    xs, ws = inputs(size, size, 2), weights(size, 8 * size, 2)
    mine = xs[rank].detach().clone().requires_grad_()
    out = ours(mine)
    (out**2 * ws[rank][: out.shape[0]]).sum().backward()
    loss = sum((o**2 * w[: o.shape[0]]).sum() for o, w in zip(theirs(xs), ws))
    loss.backward()
    expected = torch.zeros(size, 2, dtype=torch.float64) if xs[rank].grad is None else xs[rank].grad
    assert torch.allclose(mine.grad, expected), (name, mine.grad, expected)


def collectives(rank: int, size: int) -> None:
    cases = {
        "all_reduce": (dnn.all_reduce, lambda xs: [sum(xs)] * size),
        "broadcast": (lambda x: dnn.broadcast(x, 1), lambda xs: [xs[1]] * size),
        "all_gather": (lambda x: torch.cat(dnn.all_gather(x)), lambda xs: [torch.cat(xs)] * size),
        "reduce": (
            lambda x: dnn.reduce(x, 0) * float(rank == 0), lambda xs: [sum(xs)] + [xs[0] * 0] * (size - 1),
        ),
        "gather": (
            lambda x: torch.cat(dnn.gather(x, 1)),
            lambda xs: [torch.cat(xs) if r == 1 else torch.cat(xs) * 0 for r in range(size)],
        ),
        "scatter": (
            lambda x: dnn.scatter(list(x.unsqueeze(1).unbind(0)), 0),
            lambda xs: [xs[0][r : r + 1] for r in range(size)],
        ),
        "reduce_scatter": (
            lambda x: dnn.reduce_scatter(torch.empty(1, 2), list(x.unsqueeze(1).unbind(0))),
            lambda xs: [sum(xs)[r : r + 1] for r in range(size)],
        ),
        "all_to_all": (
            lambda x: torch.cat(dnn.all_to_all([torch.empty(1, 2)] * size, list(x.unsqueeze(1).unbind(0)))),
            lambda xs: [torch.cat([x[r : r + 1] for x in xs]) for r in range(size)],
        ),
        "all_to_all_single": (
            lambda x: dnn.all_to_all_single(torch.empty(size, 2), x),
            lambda xs: [torch.cat([x[r : r + 1] for x in xs]) for r in range(size)],
        ),
    }  # fmt: skip
    for name, (ours, theirs) in cases.items():
        check(rank, size, name, ours, theirs)


def tensor_parallel(rank: int, size: int) -> None:
    """The pair of linear layers of docs/distributed.md: columns, then rows."""
    torch.manual_seed(0)
    up, down = torch.nn.Linear(6, 12).double(), torch.nn.Linear(12, 6, bias=False).double()
    x = torch.randn(5, 6).double().requires_grad_()
    whole = down(torch.relu(up(x)))
    (whole**2).sum().backward()
    rows = slice(rank * 12 // size, (rank + 1) * 12 // size)
    w1, b1, w2 = (t.detach().clone().requires_grad_() for t in (up.weight[rows], up.bias[rows], down.weight[:, rows]))
    mine = x.detach().clone().requires_grad_()
    hidden = torch.relu(torch.nn.functional.linear(shared(mine), w1, b1))
    out = summed(torch.nn.functional.linear(hidden, w2))
    (out**2).sum().backward()
    assert torch.allclose(out, whole)
    assert torch.allclose(mine.grad, x.grad)
    assert torch.allclose(w1.grad, up.weight.grad[rows]) and torch.allclose(w2.grad, down.weight.grad[:, rows])


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        g = g.clone()
        dist.all_reduce(g)
        return g


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


shared, summed = _Shared.apply, _Summed.apply


def meshes(rank: int, size: int) -> None:
    mesh = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "model"))
    place = mesh.get_coordinate()
    assert place == [rank // (size // 2), rank % (size // 2)] and mesh["model"].size() == size // 2
    x = torch.ones(1) * rank
    dist.all_reduce(x, group=mesh.get_group("data"))
    assert x.item() == 2 * (rank % (size // 2)) + size // 2
    assert mesh.get_local_rank("model") == place[1]


if __name__ == "__main__":
    dist.init_process_group()
    collectives(dist.get_rank(), dist.get_world_size())
    tensor_parallel(dist.get_rank(), dist.get_world_size())
    meshes(dist.get_rank(), dist.get_world_size())
