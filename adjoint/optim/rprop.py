"""Rprop: every element has a step of its own, which grows while its gradient keeps its sign."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import TensorBase
from ..ops.piecewise import where_p
from .elementwise import Elementwise, advanced, stored
from .optimizer import ParamsT, check, check_lr, scalar, zeros_like

__all__ = ["Rprop"]


def _update(p: Any, g: Any, before: Any, size: Any, shrink: Any, grow: Any, smallest: Any, largest: Any) -> Any:
    agreement = g * before
    turned = agreement < 0
    changed = where_p(agreement > 0, size * grow, where_p(turned, size * shrink, size))
    size = stored(size, np.minimum(np.maximum(changed, smallest), largest))
    g = where_p(turned, 0.0, g)
    p -= np.sign(g) * size
    before = stored(before, g)
    return p, before, size


class Rprop(Elementwise):
    """Resilient backpropagation (Riedmiller & Braun 1993), for full batches."""

    update = staticmethod(_update)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("prev", "step_size")

    def _pull(self, group: dict[str, Any]) -> Any:
        return None

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:
            lr = group["lr"]
            lr = lr.item() if isinstance(lr, TensorBase) else lr  # type: ignore[attr-defined]
            state.update(step=scalar(0.0), prev=zeros_like(p), step_size=zeros_like(p))
            state["step_size"].array[...] = complex(lr, lr) if p.is_complex() else lr
        return advanced(state["step"]) and None

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        return (*group["etas"], *group["step_sizes"])
