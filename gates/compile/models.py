"""Random models, losses, optimizers and schedulers."""
# ruff: noqa: D102 - forward is forward

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import adjoint as torch

nn, F, lr = torch.nn, torch.nn.functional, torch.optim.lr_scheduler


class Residual(nn.Module):
    """Two layers, one written into the other, a buffer and an attribute."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.act = nn.SiLU(inplace=inplace)
        self.register_buffer("seen", torch.zeros(6))
        self.gain = 1.0

    def scaled(self, x: Any) -> Any:
        return x * self.gain

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.seen.mul_(0.9).add_(x.mean(0), alpha=0.1)
        h = self.act(self.first(x))
        h += self.second(x)
        return self.scaled(h) + self.seen


class Recurrent(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(3, 6, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.cell(x.view(x.shape[0], 2, 3))[0][:, -1]


# Biases whose gradient is nothing but rounding (of attention's keys, before a batch norm) are left out: Rprop and its
# like would take the rounding for a gradient.
class Attention(nn.Module):
    """Attention over the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(6, 2, bias=False)

    def forward(self, x: Any) -> Any:
        return self.attend(x, x, x)[0] + x


class Convolution(nn.Module):
    """Convolutions with a batch norm between them."""

    def __init__(self, act: Any) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 3, 3, padding=1, bias=False), nn.BatchNorm1d(3), act, nn.Conv1d(3, 1, 1, bias=False)
        )

    def forward(self, x: Any) -> Any:
        return self.net(x[:, None])[:, 0]


ACTIVATIONS: list[Callable[[], Any]] = [
    *(lambda kind=kind: kind(inplace=True) for kind in (
        nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish, nn.ELU, nn.LeakyReLU, nn.Hardtanh, nn.Mish, nn.Hardsigmoid, nn.SELU,
        nn.CELU, nn.RReLU,
    )),
    nn.GELU, nn.Tanh, nn.PReLU, nn.Softplus, lambda: nn.Dropout(0.3), lambda: nn.Dropout(0.3, inplace=True),
    lambda: nn.Threshold(0.1, 0.2, inplace=True), lambda: nn.AlphaDropout(0.2),
]  # fmt: skip
LAYERS: list[Callable[[random.Random], Any]] = [
    lambda rng: nn.Sequential(nn.Linear(6, 6), rng.choice(ACTIVATIONS)()),
    lambda rng: nn.Sequential(nn.Linear(6, 6), rng.choice(ACTIVATIONS)()),
    lambda rng: nn.Sequential(nn.Tanh(), nn.BatchNorm1d(6), rng.choice(ACTIVATIONS)()),
    lambda rng: nn.LayerNorm(6),
    lambda rng: nn.GroupNorm(2, 6),
    lambda rng: nn.RMSNorm(6),
    lambda rng: Residual(rng.random() < 0.7),
    lambda rng: Convolution(rng.choice(ACTIVATIONS)()),
    lambda rng: Attention(),
    lambda rng: Recurrent(rng.choice(("RNN", "LSTM", "GRU"))),
    lambda rng: nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
    lambda rng: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)),
]
LOSSES: list[Callable[[Any, Any], Any]] = [
    F.mse_loss,
    F.smooth_l1_loss,
    F.huber_loss,
    lambda out, y: F.cross_entropy(out, y.argmax(1)),
    lambda out, y: F.binary_cross_entropy_with_logits(out, y.sigmoid()),
    lambda out, y: F.kl_div(out.log_softmax(1), y.softmax(1), reduction="batchmean"),
    lambda out, y: (out - y).abs().mean(),
]
OPTIMIZERS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.1}, {"maximize": True}],
    "Adam": [{}, {"amsgrad": True}, {"weight_decay": 0.1}, {"betas": (0.5, 0.9)}, {"foreach": True}],
    "AdamW": [{}, {"amsgrad": True}, {"foreach": False}],
    "RMSprop": [{}, {"centered": True, "momentum": 0.5}],
    "Adagrad": [{}, {"lr_decay": 0.1}],
    **{name: [{}] for name in ("Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "Adafactor")},
    "LBFGS": [{"max_iter": 2}],
}
SCHEDULERS: list[Callable[[Any], Any]] = [
    lambda o: lr.StepLR(o, 2, 0.5),
    lambda o: lr.ExponentialLR(o, 0.8),
    lambda o: lr.CosineAnnealingLR(o, 4),
    lambda o: lr.LambdaLR(o, lambda e: 1 / (e + 1)),
    lambda o: lr.LinearLR(o, 0.5, total_iters=3),
    lambda o: lr.PolynomialLR(o, 4),
    lambda o: lr.OneCycleLR(
        o, 0.1, total_steps=20, cycle_momentum="betas" in o.defaults or o.defaults.get("momentum", 0) > 0
    ),
    lambda o: lr.CosineAnnealingWarmRestarts(o, 2),
]


def model(rng: random.Random) -> Any:
    """Return a model at random, from six features to six."""
    return nn.Sequential(*(rng.choice(LAYERS)(rng) for _ in range(rng.randint(1, 3))), nn.Linear(6, 6))


def optimizer(rng: random.Random, parameters: Any) -> Any:
    """Return an optimizer at random."""
    name = rng.choice(list(OPTIMIZERS))
    return getattr(torch.optim, name)(parameters, lr=rng.choice((0.01, 0.05)), **rng.choice(OPTIMIZERS[name]))
