"""Random functions of two matrices and of attributes that may change between calls."""
# ruff: noqa: D102 - described in `World`

from __future__ import annotations

import random
from typing import Any

import numpy as np

import adjoint as torch

from .instructions import choose
from .world import CALLS, World

WAYS = ("step", "joint", "forward")
CHANGES = ("gain", "tensor", "list", "array", "slots", "class", "write")


class Settings:
    """Numbers that a program finds as class attributes, and that change."""

    gain = 1.0


class Slotted:
    """Numbers in slots."""

    __slots__ = ("gain",)

    def __init__(self) -> None:
        self.gain = 1.0


class Program(World):
    """A random function, compiled as a training step, as the forward of one ("joint"), or without gradients."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        torch.manual_seed(seed)
        self.seed, self.way = seed, rng.choice(WAYS)
        self._surround(rng)
        self.plan = [(choose(rng), rng.randrange(997)) for _ in range(rng.randint(1, 7))]
        self.uses = {name for name in (*CHANGES[:-1], "buffer", "branch", "pair") if rng.random() < 0.2}
        self.argument_grad = self.way != "forward" and rng.random() < 0.5
        changing = rng.random() < 0.4
        self.changes = [rng.choice(CHANGES) if changing and rng.random() < 0.4 else "none" for _ in range(CALLS)]
        self.function: Any = {"step": self._step, "joint": self._joint, "forward": self._forward}[self.way]

    def _surround(self, rng: random.Random) -> None:
        """Create the attributes that the function reads."""
        self.weight = torch.randn(4, 4, requires_grad=self.way != "forward" or rng.random() < 0.5)
        self.buffer = torch.randn(4, 4)
        self.box: dict[str, Any] = {"gain": 1.0, "tensor": torch.randn(4, 4)}
        self.box["list"] = [torch.randn(4, 4), torch.randn(4, 4)]
        self.array = np.ones((4, 4))
        self.slots = Slotted()
        self.settings: Any = type("Own", (Settings,), {"gain": 1.0})

    def __str__(self) -> str:
        lines = [
            f"x = {instruction.text}, o = value {other % (i + 3)}" for i, (instruction, other) in enumerate(self.plan)
        ]
        return "\n".join([f"{self.way}, uses {sorted(self.uses)}, changes {self.changes}", "x = x * weight", *lines])

    def _body(self, x: Any, y: Any) -> Any:
        h = x * self.weight
        values = [x, y, h]
        for instruction, other in self.plan:
            h = torch.clamp(instruction.run(h, values[other % len(values)]), -20, 20)
            values.append(h)
        return self._surrounded(h)

    def _surrounded(self, h: Any) -> Any:
        """Return a value that depends on attributes that change between calls."""
        uses = self.uses
        if "gain" in uses:
            h = h * self.box["gain"]
        if "tensor" in uses:
            h = h + self.box["tensor"]
        if "list" in uses:
            h = h * self.box["list"][0] + sum(self.box["list"]) * 0.1
        if "array" in uses:
            h = h * torch.from_numpy(self.array).to(h.device) + float(self.array.mean())
        if "slots" in uses:
            h = h * self.slots.gain
        if "class" in uses:
            h = h * self.settings.gain
        if "buffer" in uses:
            with torch.no_grad():
                self.buffer.mul_(0.9).add_(h.detach(), alpha=0.1)
            h = h + self.buffer
        if "branch" in uses:
            h = h * 2 if h[0, 0] > 0.123 else h - 1
        return h

    def _step(self, x: Any, y: Any) -> Any:
        self.weight.grad = None
        h = self._body(x, y)
        loss = (h * h).mean()
        if loss.requires_grad:
            loss.backward()
            with torch.no_grad():
                if self.weight.grad is not None:
                    self.weight.sub_(self.weight.grad * 0.01)
        return loss.detach(), h.detach()

    def _joint(self, x: Any, y: Any) -> Any:
        out = self._body(x, y)
        return {"a": out, "b": [x, 1.5]} if "pair" in self.uses else out

    def _forward(self, x: Any, y: Any) -> Any:
        with torch.no_grad():
            return self._body(x, y)

    def compile(self, **options: Any) -> Any:
        method = self.function
        function = method if self.seed % 2 else lambda x, y: method(x, y)
        self.function = torch.compile(function, **options)
        return self.function

    def call(self, number: int) -> dict[str, Any]:
        self._change(self.changes[number], number)
        torch.manual_seed(1000 * self.seed + number)
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        if self.argument_grad:
            x.requires_grad_()
        torch.manual_seed(7 * self.seed + number)
        out = self.function(x, y)
        if self.way == "joint":
            self.weight.grad = None
            flat = out["a"] if isinstance(out, dict) else out
            if flat.requires_grad:
                (flat * flat).mean().backward()
        return {"out": out, "x": x, "y": y, "x.grad": x.grad}

    def _change(self, what: str, number: int) -> None:
        value = 1.0 + 0.25 * number
        if what == "gain":
            self.box["gain"] = value
        elif what == "tensor":
            self.box["tensor"] = torch.full((4, 4), value)
        elif what == "list":
            self.box["list"][number % 2] = torch.full((4, 4), value)
        elif what == "array":
            self.array[number % 4] = value
        elif what == "slots":
            self.slots.gain = value
        elif what == "class":
            self.settings.gain = value
        elif what == "write":
            self.box["tensor"].add_(0.5)

    def state(self) -> dict[str, Any]:
        return {"weight": self.weight, "weight.grad": self.weight.grad, "buffer": self.buffer}
