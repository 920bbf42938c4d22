"""Modules and training."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from .features import cyclic, feature, leaf, model_of


@feature
def modules(T: Any) -> None:
    """Containers, and what one does to a model."""
    nn = T.nn
    m = nn.ModuleDict({"a": nn.ModuleList([nn.Linear(3, 3)]), "b": nn.Sequential(nn.Linear(3, 3), nn.Tanh())})
    m["b"](m["a"][0](T.ones(2, 3))).sum().backward()
    m.to(T.float64).float().train().eval().zero_grad()
    m.apply(lambda x: None)
    list(m.named_modules()), list(m.named_parameters()), repr(m)
    nn.ParameterList([leaf(T)]), nn.ParameterDict({"a": leaf(T)})
    m.load_state_dict(copy.deepcopy(m).state_dict())


@feature
def layers(T: Any) -> None:
    """Layers with state, attention, recurrent ones."""
    nn = T.nn
    x = leaf(T, 2, 4, 8)
    y = nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0]
    y = nn.LSTM(8, 4, batch_first=True)(y)[0]
    y = nn.Conv1d(4, 4, 1)(nn.BatchNorm1d(4)(y))
    nn.LayerNorm(4)(y).sum().backward()
    nn.Embedding(4, 3)(T.tensor([1, 2])).sum().backward()
    nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)(x).sum().backward()


@cyclic
def parametrizations(T: Any) -> None:
    """Parametrized weights: each module gets a class of its own, and a class refers to itself."""
    utils = T.nn.utils
    m = utils.parametrizations.weight_norm(T.nn.Linear(3, 3))
    m(T.ones(2, 3)).sum().backward()
    m = utils.parametrizations.spectral_norm(T.nn.Linear(3, 3))
    m(T.ones(2, 3)).sum().backward()
    utils.parametrize.remove_parametrizations(m, "weight")
    utils.prune.l1_unstructured(T.nn.Linear(3, 3), "weight", 0.5)(T.ones(2, 3))


OPTIMIZERS = [
    "SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "LBFGS",
    "Adafactor", "SparseAdam", "Muon",
]  # fmt: skip


@feature
def optimizers(T: Any) -> None:
    """A step of every optimizer."""
    for name in OPTIMIZERS:
        w = T.nn.Parameter(T.ones(2, 2))
        optimizer = getattr(T.optim, name)([w], lr=0.1)

        def closure() -> Any:
            optimizer.zero_grad()  # noqa: B023
            loss = (w * w).sum()  # noqa: B023
            loss.backward()
            return loss

        closure()
        if name == "SparseAdam":
            w.grad = T.ones(2, 2).to_sparse()
            optimizer.step()
        else:
            optimizer.step(closure)
        optimizer.load_state_dict(optimizer.state_dict())
        closure.__closure__ and optimizer.zero_grad()
        repr(optimizer)
        del closure


@feature
def optimizer_hooks(T: Any) -> None:
    """Hooks of an optimizer."""
    w = leaf(T)
    optimizer = T.optim.Adam([w])
    optimizer.register_step_pre_hook(lambda *a: None)
    optimizer.register_step_post_hook(lambda *a: None)
    optimizer.register_state_dict_post_hook(lambda *a: None)
    w.sum().backward()
    optimizer.step()
    optimizer.state_dict()
    optimizer.add_param_group({"params": [leaf(T)]})


def schedulers_of(T: Any, optimizer: Any) -> Iterator[Any]:
    """Return one scheduler of each kind."""
    s = T.optim.lr_scheduler
    yield s.LambdaLR(optimizer, lambda e: 0.9**e)
    yield s.MultiplicativeLR(optimizer, lambda e: 0.9)
    yield s.StepLR(optimizer, 1)
    yield s.MultiStepLR(optimizer, [1, 2])
    yield s.ConstantLR(optimizer)
    yield s.LinearLR(optimizer)
    yield s.ExponentialLR(optimizer, 0.9)
    yield s.PolynomialLR(optimizer)
    yield s.CosineAnnealingLR(optimizer, 3)
    yield s.CosineAnnealingWarmRestarts(optimizer, 3)
    yield s.CyclicLR(optimizer, 0.1, 0.2)
    yield s.OneCycleLR(optimizer, 0.1, 10)
    yield s.ReduceLROnPlateau(optimizer)
    yield s.SequentialLR(optimizer, [s.StepLR(optimizer, 1), s.StepLR(optimizer, 2)], [2])
    yield s.ChainedScheduler([s.StepLR(optimizer, 1)])
    yield T.optim.swa_utils.SWALR(optimizer, 0.1)


@feature
def schedulers(T: Any) -> None:
    """Every scheduler, dropped."""
    for i in range(16):
        optimizer = T.optim.SGD([leaf(T)], lr=0.1, momentum=0.9)
        scheduler = next(s for j, s in enumerate(schedulers_of(T, optimizer)) if j == i)
        for _ in range(2):
            optimizer.step()
            scheduler.step(*((1.0,) if type(scheduler).__name__ == "ReduceLROnPlateau" else ()))
        scheduler.load_state_dict(scheduler.state_dict())
        scheduler.get_last_lr()


@feature
def scaled(T: Any) -> None:
    """A gradient scaler."""
    w = leaf(T)
    optimizer, scaler = T.optim.SGD([w], lr=0.1), T.amp.GradScaler("cpu")
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    T.nn.utils.clip_grad_norm_([w], 1.0)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict(scaler.state_dict())


@feature
def averaged(T: Any) -> None:
    """Averages of weights."""
    m, utils = model_of(T), T.optim.swa_utils
    for average in (utils.AveragedModel(m), utils.AveragedModel(m, multi_avg_fn=utils.get_ema_multi_avg_fn(0.9))):
        average.update_parameters(m)
        average.update_parameters(m)
        average(T.ones(2, 3))
    utils.update_bn([T.ones(2, 3)], average)


@feature
def training(T: Any) -> None:
    """A loop as programs have it."""
    m = model_of(T)
    optimizer = T.optim.AdamW(m.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss = T.nn.functional.mse_loss(m(T.randn(4, 3)), T.zeros(4, 1))
        loss.backward()
        optimizer.step()


@feature
def compiled(T: Any) -> None:
    """A compiled function, dropped, with its graph and its gradients."""
    w = leaf(T)
    f = T.compile(lambda x: (x * w).sin().sum())
    f(T.ones(3)).backward()
    f(T.ones(3)).backward()
    m = T.compile(T.nn.Linear(3, 1))
    m(T.ones(2, 3)).sum().backward()
