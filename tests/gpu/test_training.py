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
OPTIONS = {"SGD": {"momentum": 0.9}, "RMSprop": {"momentum": 0.9, "centered": True}}


def path(name: str, device: str) -> list[Any]:
    rng = np.random.default_rng(0)
    ps = [
        adjoint.tensor(rng.normal(size=s), dtype=adjoint.float64, device=device, requires_grad=True)
        for s in [(3, 4), (5,), (), (210, 160)]
    ]
    o = getattr(adjoint.optim, name)(ps, **OPTIONS.get(name, {}))

    def closure() -> Any:
        o.zero_grad()
        loss = sum(((p - 0.5) ** 2).sum() for p in ps)
        loss.backward()
        return loss

    for _ in range(5):
        o.step(closure)
    states = [v for state in o.state.values() for v in state.values() if isinstance(v, adjoint.Tensor)]
    return [t.detach().cpu().numpy() for t in [*ps, *states]]


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


def test_scaler_names_what_is_not_finite() -> None:
    ps = [adjoint.ones(n, device="cuda", requires_grad=True) for n in (3, 70_000, 5)]
    o = adjoint.optim.SGD([(f"p{i}", p) for i, p in enumerate(ps)], lr=0.5)
    scaler = adjoint.amp.GradScaler("cuda", init_scale=4.0)
    for bad in (float("inf"), float("nan")):
        scaler.scale(sum((p * p).sum() for p in ps)).backward()
        ps[1].grad[69_999] = bad
        before = scaler.get_scale()
        scaler.step(o)
        scaler.update()
        assert scaler.get_scale() == before / 2 and ps[0].tolist() == [1.0] * 3
        o.zero_grad()
    scaler.min_scale = scaler.get_scale()
    scaler.scale(sum((p * p).sum() for p in ps)).backward()
    ps[2].grad[0] = float("inf")
    with pytest.raises(FloatingPointError, match="'p2', \\[5\\]"):
        scaler.step(o)
    scaler.update()
    o.zero_grad()
    scaler.scale(sum((p * p).sum() for p in ps)).backward()
    scaler.unscale_(o)
    assert ps[1].grad[:2].tolist() == [2.0, 2.0]
    scaler.step(o)
    assert ps[0].tolist() == [0.0] * 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_steps_in_other_layouts_and_dtypes(dtype: str) -> None:
    """Parameters that lie transposed or in parts, gradients that lie differently, and decay of weights."""

    def run(device: str) -> list[Any]:
        rng = np.random.default_rng(0)
        kind = getattr(adjoint, dtype)

        def made(*shape: int) -> Any:
            return adjoint.tensor(rng.normal(size=shape)).to(kind).to(device)

        ps = [made(5, 7).t().requires_grad_(), made(40, 9)[::2, 1:].requires_grad_(), made(3).requires_grad_(),
              made(0).requires_grad_(), made(300, 70).requires_grad_()]  # fmt: skip
        o = adjoint.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1, maximize=True)
        for _ in range(3):
            for p in ps:
                p.grad = made(*p.shape[::-1]).t() if p.dim() > 1 else made(*p.shape)
            o.step()
        return [p.detach().float().cpu().numpy() for p in ps]

    tolerance = 1e-5 if dtype == "float32" else 2e-2
    for here, there in zip(run("cpu"), run("cuda"), strict=True):
        np.testing.assert_allclose(there, here, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss_of_half_precision_under_autocast(reduction: str) -> None:
    """Rows of logits are not converted: the loss is in single precision, their gradient in half."""
    F = adjoint.nn.functional
    x = (3 * adjoint.randn(7, 30)).bfloat16().to("cuda").requires_grad_()
    y = adjoint.tensor([3, 29, -100, 0, 5, 7, 7])
    with adjoint.autocast("cuda", dtype=adjoint.bfloat16):
        loss = F.cross_entropy(x, y.to("cuda"), reduction=reduction)
        (again,) = adjoint.autograd.grad(loss.sum(), x, create_graph=True)
    loss.sum().backward()
    here = x.detach().cpu().float().requires_grad_()
    wanted = F.cross_entropy(here, y, reduction=reduction)
    wanted.sum().backward()
    assert loss.dtype is adjoint.float32 and x.grad.dtype is again.dtype is adjoint.bfloat16
    np.testing.assert_allclose(loss.detach().cpu().numpy(), wanted.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(x.grad.float().cpu().numpy(), here.grad.numpy(), rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(again.detach().float().cpu().numpy(), here.grad.numpy(), rtol=2e-2, atol=4e-3)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("most", [0.5, 1e9])
def test_clipping(most: float, dtype: str) -> None:
    rng = np.random.default_rng(0)
    ps = [adjoint.zeros(n, 3, device="cuda", dtype=getattr(adjoint, dtype), requires_grad=True) for n in (3, 0, 9000)]
    for p in ps:
        p.grad = adjoint.tensor(rng.normal(size=p.shape)).to(p.dtype).to("cuda")
    before = np.concatenate([p.grad.double().cpu().numpy().ravel() for p in ps])
    total = adjoint.nn.utils.clip_grad_norm_(ps, most)
    norm = np.linalg.norm(before)
    tolerance = 1e-2 if dtype == "bfloat16" else 1e-5
    assert total.device.type == "cuda" and total.item() == pytest.approx(norm, rel=tolerance)
    after = np.concatenate([p.grad.double().cpu().numpy().ravel() for p in ps])
    np.testing.assert_allclose(after, before * min(1, most / norm), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5), (3, 4, 40)], ids=str)
def test_batch_norm(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=s) for s in (shape, (4,), (4,), shape)]

    def run(device: str) -> list[Any]:
        *leaves, g = (adjoint.tensor(v, device=device) for v in values)
        leaves = [leaf.requires_grad_() for leaf in leaves]
        adjoint.nn.functional.batch_norm(leaves[0], None, None, *leaves[1:], training=True).backward(g)
        return [leaf.grad.cpu().numpy() for leaf in leaves]

    for here, there in zip(run("cpu"), run("cuda"), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-12)
