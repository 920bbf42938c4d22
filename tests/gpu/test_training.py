"""Optimizers and mixed precision on a GPU do what they do on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not adjoint.cuda.is_available(), reason="no GPU that CuPy can use"),
]

NAMES = ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD",
         "Adafactor", "LBFGS"]  # fmt: skip


def path(name: str, device: str) -> list[Any]:
    rng = np.random.default_rng(0)
    ps = [
        adjoint.tensor(rng.normal(size=s), dtype=adjoint.float64, device=device, requires_grad=True)
        for s in [(3, 4), (5,), (), (210, 160)]
    ]
    options = {"momentum": 0.9} if name == "SGD" else {}
    o = getattr(adjoint.optim, name)(ps, **options)

    def closure() -> Any:
        o.zero_grad()
        loss = sum(((p - 0.5) ** 2).sum() for p in ps)
        loss.backward()
        return loss

    for _ in range(5):
        o.step(closure)
    return [p.detach().cpu().numpy() for p in ps]


@pytest.mark.parametrize("name", NAMES)
def test_optimizers(name: str) -> None:
    for here, there in zip(path(name, "cpu"), path(name, "cuda"), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_autocast(dtype: str) -> None:
    model = adjoint.nn.Sequential(adjoint.nn.Linear(8, 16), adjoint.nn.GELU(), adjoint.nn.Linear(16, 4)).cuda()
    o = adjoint.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = adjoint.amp.GradScaler("cuda")
    x = adjoint.randn(32, 8, device="cuda")
    y = adjoint.randint(0, 4, (32,), device="cuda")
    losses = []
    for _ in range(30):
        o.zero_grad()
        with adjoint.autocast("cuda", dtype=getattr(adjoint, dtype)):
            out = model(x)
            loss = adjoint.nn.functional.cross_entropy(out, y)
        assert out.dtype is getattr(adjoint, dtype) and loss.dtype is adjoint.float32
        scaler.scale(loss).backward()
        scaler.step(o)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
