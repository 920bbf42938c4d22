"""Small networks whose layers write in place, trained with the step, the model or the loss compiled: as eagerly."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as T
from adjoint import nn

F = nn.functional


class Mobile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.spread, self.norm = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.depthwise, self.out = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Linear(4, 3)
        self.first, self.second = nn.ReLU6(inplace=True), nn.SiLU(inplace=True)

    def forward(self, x: Any) -> Any:
        x = self.first(self.norm(self.spread(x.view(-1, 1, 4, 4))))
        return self.out(self.second(self.depthwise(x)).mean((2, 3)))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer, self.norm = nn.Linear(16, 8), nn.Linear(8, 3), nn.LayerNorm(8)


class Hard(Layers):
    def forward(self, x: Any) -> Any:
        return F.elu(self.outer(F.hardswish(self.inner(x), inplace=True)), inplace=True)


class Waves(Layers):
    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        y.sin_().clamp_(-0.9, 0.9)
        y = y * 1
        y.square_()
        z = self.outer(y)
        z.atan_()
        return F.leaky_relu(z, 0.1, inplace=True)


class Bounded(Layers):
    def forward(self, x: Any) -> Any:
        y = F.hardtanh(self.inner(x), -0.5, 0.5, inplace=True) + 1.1
        y.log1p_()
        y.erf_()
        y.abs_()
        return self.outer(y)


class Powers(Layers):
    def forward(self, x: Any) -> Any:
        y = self.norm(self.inner(x))
        y.cos_()
        y = y.sigmoid() * 1
        y.logit_(1e-3)
        y.mul_(0.5).pow_(3)
        y[:, :4].mul_(2)
        return self.outer(y)


OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: T.optim.SGD(p, lr=0.05, momentum=0.9),
    "AdamW": lambda p: T.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: T.optim.RMSprop(p, lr=0.005),
}


def trained(kind: type[nn.Module], optimizer: str, compiled: str) -> tuple[list[float], list[Any]]:
    """Return the losses of eight steps, each with new data, and the parameters after them."""
    T.manual_seed(0)
    model = kind()
    steps = OPTIMIZERS[optimizer](model.parameters())
    forward = T.compile(model) if compiled == "model" else model
    loss_of = lambda x, y: F.cross_entropy(forward(x), y)
    loss_of = T.compile(loss_of) if compiled == "loss" else loss_of

    def step(x: Any, y: Any) -> Any:
        steps.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        steps.step()
        return loss

    step = T.compile(step) if compiled == "step" else step
    dice = np.random.default_rng(1)
    losses = []
    for _ in range(8):
        x, y = dice.normal(size=(6, 16)).astype(np.float32), dice.integers(0, 3, 6)
        losses.append(step(T.tensor(x), T.tensor(y)).item())
    return losses, [p.detach().numpy() for p in model.parameters()]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", [Mobile, Hard, Waves, Bounded, Powers])
def test_layers_that_write_in_place_train_as_eagerly(kind: type[nn.Module], optimizer: str) -> None:
    losses, parameters = trained(kind, optimizer, "nothing")
    for compiled in ("step", "model", "loss"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # none of them runs uncompiled
            found, moved = trained(kind, optimizer, compiled)
        np.testing.assert_allclose(found, losses, rtol=1e-3, atol=1e-4, err_msg=compiled)
        for mine, expected in zip(moved, parameters, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-2, atol=1e-3, err_msg=compiled)


@pytest.mark.parametrize("made", [lambda x: x, lambda x: x * 1.0 + 0.0], ids=["an argument", "computed"])
def test_norms_of_nearly_equal_numbers_are_exact(made: Any) -> None:
    """Statistics are measured from a row's first element, wherever in the program the row is made."""
    x = (1e4 + np.random.default_rng(0).normal(size=(8, 512)) * 1e-2).astype(np.float32)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    step = T.compile(lambda x: nn.functional.layer_norm(made(x), (512,)) * 2)
    for _ in range(3):
        found = step(T.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, 2 * exact, atol=1e-4)


def test_the_cross_entropy_of_large_logits_is_exact() -> None:
    x = (1e5 + np.random.default_rng(0).normal(size=(64, 10))).astype(np.float32)
    labels = np.arange(64) % 10
    rows = x.astype(np.float64) - x.max(1, keepdims=True)
    exact = (np.log(np.exp(rows).sum(1)) - rows[np.arange(64), labels]).mean()
    step = T.compile(lambda x, y: nn.functional.cross_entropy(x, y))
    for _ in range(3):
        found = step(T.from_numpy(x), T.from_numpy(labels))
    np.testing.assert_allclose(found.item(), exact, rtol=1e-6)


def test_a_compiled_loss_of_probabilities_refuses_what_eager_mode_refuses() -> None:
    w = T.zeros(3, requires_grad=True)

    def step(x: Any, y: Any) -> Any:
        w.grad = None
        loss = nn.functional.binary_cross_entropy(x + T.sigmoid(w), y)
        loss.backward()
        return loss.detach()

    compiled = T.compile(step, fullgraph=True)
    y = T.tensor([0.0, 1.0, 0.5])
    for _ in range(4):
        expected = step(T.full((3,), 0.25), y), w.grad
        assert compiled(T.full((3,), 0.25), y).item() == pytest.approx(expected[0].item())
        T.testing.assert_close(w.grad, expected[1])
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        compiled(T.ones(3), y)
