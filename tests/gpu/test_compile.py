"""Compiled programs on a GPU equal eager ones; a training step is replayed as one CUDA graph."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import adjoint as torch

pytestmark = pytest.mark.gpu
nn, F = torch.nn, torch.nn.functional


def close(a: Any, b: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(b.detach().cpu().numpy(), a.detach().cpu().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_training_step(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)).to("cuda")
    twin = copy.deepcopy(model)
    x, y = torch.randn(16, 20).to("cuda"), torch.randint(0, 5, (16,)).to("cuda")

    def make(model: Any) -> Any:
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager, compiled = make(model), torch.compile(make(twin))
    for _ in range(8):
        close(eager(x, y), compiled(x, y))
    for p, q in zip(model.parameters(), twin.parameters()):
        close(p, q, 1e-3)
    assert compiled.traces and not compiled.refused
    assert compiled.traces[0].program.run.graph is not None, compiled.traces[0].program.run.refused


def test_elementwise_and_rows() -> None:
    w = torch.randn(64, 128, device="cuda", requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        y = torch.tanh(x * w + 0.5)
        y = torch.softmax(y, 1) * torch.sigmoid(x) + F.layer_norm(y, (128,))
        loss = (y * y).sum(1).mean()
        loss.backward()
        return loss.detach(), y.detach()

    compiled = torch.compile(step)
    for i in range(5):
        torch.manual_seed(i)
        x = torch.randn(64, 128, device="cuda")
        wanted = step(x)
        gradient = w.grad.clone()
        found = compiled(x)
        for a, b in zip(wanted, found):
            close(a, b)
        close(gradient, w.grad)
