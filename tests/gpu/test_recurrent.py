"""Recurrent layers on a GPU give what the steps of their definition give, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as T

pytestmark = pytest.mark.gpu


class StandIn:
    """What cuDNN does for one layer, computed by the CPU's kernels; for machines without cuDNN."""

    def __init__(self, form: Any) -> None:
        self.form = form

    def forward(self, handle: Any, x: Any, h: Any, c: Any, weights: Any) -> Any:
        import cupy

        from adjoint.devices.cpu import recurrent as cpu
        from adjoint.devices.cuda.arrays import adopt

        given = [v if v is None else cupy.asnumpy(v) for v in (x, h, c, *weights, *(None,) * (4 - len(weights)))]
        if c is None:
            out, gates = cpu.gru(given[0], given[1], *given[3:], False)
            last = None
        else:
            out, cells, gates = cpu.lstm(*given, False)
            self.cells, last = cells, adopt(cupy.asarray(cells[-1:]))
        return adopt(cupy.asarray(out)), last, adopt(cupy.asarray(gates))

    def backward(
        self,
        handle: Any,
        g: Any,
        g_last: Any,
        x: Any,
        h: Any,
        c: Any,
        weights: Any,
        out: Any,
        reserve: Any,
        weighs: Any,
    ) -> Any:
        import cupy

        from adjoint.devices.cpu import recurrent as cpu
        from adjoint.devices.cuda.arrays import adopt

        g, g_last, x, h, c, out, gates = (
            v if v is None else cupy.asnumpy(v) for v in (g, g_last, x, h, c, out, reserve)
        )
        w = [cupy.asnumpy(v) for v in weights[:2]]
        biased = len(weights) == 4
        if c is None:
            found = cpu.gru_backward(g, x, h, *w, out, gates, False, (True,) * 6, biased)
        else:
            g_cells = None if g_last is None else np.concatenate([np.zeros_like(out[1:]), g_last])
            cells = cpu.lstm(
                x, h, c, *w, *(cupy.asnumpy(v) for v in weights[2:]), *(None,) * (4 - len(weights)), False
            )[1]
            found = cpu.lstm_backward(g, g_cells, x, h, c, *w, out, cells, gates, False, (True,) * 7, biased)
        return [None if v is None else adopt(cupy.asarray(v)) for v in found[: 5 if c is not None else 4]] + (
            [adopt(cupy.asarray(v)) for v in found[-2:]] if biased else []
        )


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for cuDNN where it is missing; where it is there, no TF32: compiled programs run step by step."""
    from adjoint.devices.cuda import cudnn, recurrent

    monkeypatch.setattr(T.backends.cudnn, "allow_tf32", False)
    if cudnn.is_available():
        return
    monkeypatch.setattr(cudnn, "is_available", lambda: True)
    monkeypatch.setattr(cudnn, "handle_of", lambda device: None)
    monkeypatch.setattr(recurrent, "_plan", lambda form, tf32, device: StandIn(form))


def trained(kind: str, place: str, options: dict[str, Any], batch_first: bool = False) -> list[np.ndarray[Any, Any]]:
    T.manual_seed(0)
    layer = getattr(T.nn, kind)(5, 8, batch_first=batch_first, **options)
    x = T.randn(7, 3, 5)
    layer, x = layer.to(place), x.to(place).requires_grad_()
    out, state = layer(x)
    ends = state if isinstance(state, tuple) else (state,)
    weight = T.arange(out.numel(), device=place).reshape(out.shape).remainder(7).sub(3.0)
    loss = (out * weight).sum() + sum((k + 1) * e.pow(2).sum() for k, e in enumerate(ends))
    loss.backward()
    return [v.detach().cpu().numpy() for v in (out, *ends, x.grad, *(p.grad for p in layer.parameters()))]


OPTIONS = {
    "plain": {}, "two layers": {"num_layers": 2}, "both directions": {"bidirectional": True, "num_layers": 2},
    "without biases": {"bias": False},
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_layers_equal_the_cpus(kind: str, options: str) -> None:
    """Results, last states and all gradients are those of the CPU."""
    here, there = (trained(kind, place, OPTIONS[options]) for place in ("cpu", "cuda"))
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)


def test_a_layer_is_one_op() -> None:
    """A layer runs as one op, and its gradient may be differentiated again."""
    layer = T.nn.LSTM(5, 8).to("cuda")
    x = T.randn(4, 2, 5).to("cuda").requires_grad_()
    out, (_, c) = layer(x)
    assert "LstmLayer" in type(out.grad_fn).__name__
    (g,) = T.autograd.grad(out.pow(2).sum() + c.sum(), x, create_graph=True)
    (second,) = T.autograd.grad(g.pow(2).sum(), x)
    layer.cpu()
    y = x.detach().cpu().requires_grad_()
    out, (_, c) = layer(y)
    (g,) = T.autograd.grad(out.pow(2).sum() + c.sum(), y, create_graph=True)
    (expected,) = T.autograd.grad(g.pow(2).sum(), y)
    np.testing.assert_allclose(second.cpu().numpy(), expected.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_step_compiles(kind: str) -> None:
    """A compiled step has the losses of the eager one."""
    losses = []
    for compiled in (False, True):
        T.manual_seed(0)
        net = getattr(T.nn, kind)(5, 8, num_layers=2).to("cuda")
        optimizer = T.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = net(x)[0].pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = T.compile(step) if compiled else step
        x = T.randn(6, 3, 5).to("cuda")
        losses.append([float(run(x)) for _ in range(5)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
