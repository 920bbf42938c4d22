"""Random training runs: a model, a loss, an optimizer, a schedule, and events between steps."""
# ruff: noqa: D102 - described in `World`

from __future__ import annotations

import random
import weakref
from typing import Any

import adjoint as torch

from . import models
from .world import CALLS, World

nn = torch.nn
WAYS = ("step", "model", "loss", "model.compile", "method", "fullgraph", "dynamic")
EVENTS = (
    "eval", "freeze", "lr", "reload", "weights", "write", "data", "gain", "replace", "decay", "clear", "hook", "state"
)  # fmt: skip
_schedulers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # not where a program looks


class Training(World):
    """A random model, loss, optimizer and schedule, and a step that trains."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        torch.manual_seed(seed)
        self.seed, self.way = seed, rng.choice(WAYS)
        self.model = models.model(rng)
        self.optimizer = models.optimizer(rng, self.model.parameters())
        self.closure = isinstance(self.optimizer, torch.optim.LBFGS)
        self.criterion = rng.choice(models.LOSSES)
        self.clip = rng.choice((None, None, "norm", "value"))
        self.none = rng.random() < 0.7
        self.accumulate = rng.random() < 0.15
        self.twice = rng.random() < 0.1
        self.logged = rng.random() < 0.3
        self._schedule(rng)
        eventful, sized = rng.random() < 0.5, rng.random() < 0.2
        self.sizes = [rng.choice((5, 5, 3)) if sized else 5 for _ in range(CALLS)]
        self.events = [rng.choice(EVENTS) if eventful and rng.random() < 0.3 else "none" for _ in range(CALLS)]
        self.run: Any = self._step
        self.predict, self.lose = self.model, self._loss

    def _schedule(self, rng: random.Random) -> None:
        """Make a scheduler, stepped inside of the training step or outside, and a scaler; or neither."""
        scheduled, inside = rng.random() < 0.5 and not self.closure, rng.random() < 0.2
        scheduler = rng.choice(models.SCHEDULERS)(self.optimizer) if scheduled else None
        self.inside = scheduler if inside else None
        _schedulers[self] = None if inside else scheduler
        scaled = rng.random() < 0.1 and not self.closure
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0) if scaled else None

    def __str__(self) -> str:
        settings = {k: v for k, v in vars(self).items() if isinstance(v, int | str | list | None)}
        return f"{self.model}\n{self.optimizer}\n{_schedulers[self]}, {settings}"

    def _loss(self, out: Any, y: Any) -> Any:
        return self.criterion(out, y)

    def _step(self, x: Any, y: Any) -> Any:
        if self.closure:
            return self.optimizer.step(lambda: self._gradients(x, y))
        loss = self._gradients(x, y)
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.clip == "norm":
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        elif self.clip == "value":
            nn.utils.clip_grad_value_(self.model.parameters(), 0.05)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if self.inside is not None:
            self.inside.step()
        return loss.item() if self.logged else loss.detach()

    def _gradients(self, x: Any, y: Any) -> Any:
        if not self.accumulate:
            self.optimizer.zero_grad(set_to_none=self.none)
        loss = self.lose(self.predict(x), y)
        if self.twice:
            loss = loss + self.lose(self.predict(x * 0.5), y)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        return loss

    def compile(self, **options: Any) -> Any:
        way = self.way
        if way in ("step", "fullgraph", "dynamic"):
            if way != "step":
                options[way] = True
            self.run = torch.compile(self._step, **options)
            return self.run
        if way == "model":
            self.predict = torch.compile(self.model, **options)
            return self.predict
        if way == "loss":
            self.lose = torch.compile(self._loss, **options)
            return self.lose
        if way == "model.compile":
            self.model.compile(**options)
            return self.model
        own = self

        class Trainer:
            @torch.compile(**options)
            def fit(self, x: Any, y: Any) -> Any:
                return own._step(x, y)

        self.run = Trainer().fit
        return Trainer.fit

    def call(self, number: int) -> dict[str, Any]:
        torch.manual_seed(11 * self.seed + number)
        self._event(self.events[number], number)
        torch.manual_seed(1000 * self.seed + number)
        n = self.sizes[number]
        x, y = torch.randn(n, 6), torch.randn(n, 6)
        torch.manual_seed(7 * self.seed + number)
        result = self.run(x, y)
        if _schedulers[self] is not None:
            _schedulers[self].step()
        return {"result": result}

    def _event(self, what: str, number: int) -> None:
        first = next(iter(self.model.parameters()))
        if what == "eval":
            self.model.train(not self.model.training)
        elif what == "freeze":
            first.requires_grad_(not first.requires_grad)
        elif what == "lr":
            for group in self.optimizer.param_groups:
                group["lr"] *= 0.5
        elif what == "reload":
            self.optimizer.load_state_dict(self.optimizer.state_dict())
        elif what == "weights":
            self.model.load_state_dict({k: v.clone() * 0.9 for k, v in self.model.state_dict().items()})
        elif what == "write":
            with torch.no_grad():
                first.mul_(0.9)
        elif what == "data":
            first.data = first.data.clone() * 0.9
        elif what == "gain":
            for m in self.model.modules():
                if isinstance(m, models.Residual):
                    m.gain = 1.0 + 0.1 * number
        elif what == "replace":
            self.model[-1] = nn.Linear(6, 6)
        elif what == "decay":
            for group in self.optimizer.param_groups:
                if "weight_decay" in group:
                    group["weight_decay"] = 0.01 * number
        elif what == "clear":
            self.optimizer.zero_grad(set_to_none=number % 2 == 0)
        elif what == "hook":
            self.model[0].register_forward_hook(lambda m, a, out: out * 0.9)
        elif what == "state":
            self.optimizer.state.clear()

    def state(self) -> dict[str, Any]:
        named = dict(self.model.named_parameters())
        return {
            **named,
            **{f"{k}.grad": p.grad for k, p in named.items()},
            **dict(self.model.named_buffers()),
            "optimizer": self.optimizer.state_dict(),
        }
