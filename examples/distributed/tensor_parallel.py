"""A pair of linear layers whose weights are spread over the processes: columns of the first, rows of the second.

    adjoint launch --nproc 2 examples/distributed/tensor_parallel.py

Each process holds a share of the hidden features and computes with those alone. Two collectives tie the shares
together, one in each direction: what enters the pair is shared, so its gradients are summed; what leaves it is a sum
of the processes' shares, so its gradient is everybody's (Shoeybi et al., "Megatron-LM", 2019).
"""

from __future__ import annotations

from typing import Any

import adjoint as torch
import adjoint.distributed as dist
from adjoint import nn


class Shared(torch.autograd.Function):
    """Every process has the same value; the gradient is the sum of what they send back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        g = g.clone()
        dist.all_reduce(g)
        return g


class Summed(torch.autograd.Function):
    """The value is the sum over the processes; each gets the gradient of the sum."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


class ParallelPair(nn.Module):
    """``down(relu(up(x)))`` with `hidden` features, of which this process holds its share."""

    def __init__(self, up: nn.Linear, down: nn.Linear) -> None:
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        share = up.out_features // size
        mine = slice(rank * share, (rank + 1) * share)
        self.up = nn.Linear(up.in_features, share)
        self.down = nn.Linear(share, down.out_features, bias=False)
        self.bias = nn.Parameter(down.bias.detach().clone())  # added once, after the sum
        with torch.no_grad():
            self.up.weight.copy_(up.weight[mine])
            self.up.bias.copy_(up.bias[mine])
            self.down.weight.copy_(down.weight[:, mine])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.up(Shared.apply(x)))
        return Summed.apply(self.down(hidden)) + self.bias


def main() -> None:
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same whole layers everywhere
    up, down = nn.Linear(16, 8 * size), nn.Linear(8 * size, 16)
    pair = ParallelPair(up, down)
    x = torch.randn(4, 16)
    (pair(x) ** 2).sum().backward()
    (down(torch.relu(up(x))) ** 2).sum().backward()
    mine = slice(8 * rank, 8 * (rank + 1))
    error = max(
        (pair.up.weight.grad - up.weight.grad[mine]).abs().max().item(),
        (pair.down.weight.grad - down.weight.grad[:, mine]).abs().max().item(),
        (pair.bias.grad - down.bias.grad).abs().max().item(),
    )
    assert error < 1e-3, error
    print(f"rank {rank} of {size}: {sum(p.numel() for p in pair.parameters())} parameters here, gradients agree")


if __name__ == "__main__":
    main()
