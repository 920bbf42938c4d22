"""RMSprop: steps scaled by a running average of the squared gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import Elementwise, advanced
from .optimizer import ParamsT, check, check_lr, scalar, zeros_like

__all__ = ["RMSprop"]


def _update(p: Any, g: Any, square: Any, *rest: Any) -> Any:
    *kept, lr, alpha, fresh, eps, momentum, centered = rest
    square *= alpha
    square += g * g * fresh
    if centered:
        mean = kept[-1]
        mean += (g - mean) * fresh
        scale = np.sqrt(square - mean * mean) + eps
    else:
        scale = np.sqrt(square) + eps
    if momentum is None:
        p -= g / scale * lr
    else:
        buffer = kept[0]
        buffer *= momentum
        buffer += g / scale
        p -= buffer * lr
    return p, square, *kept


class RMSprop(Elementwise):
    """Hinton's RMSprop; `centered` divides by the standard deviation instead."""

    update = staticmethod(_update)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(eps >= 0.0, f"Invalid epsilon value: {eps}")
        check(momentum >= 0.0, f"Invalid momentum value: {momentum}")
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        check(alpha >= 0.0, f"Invalid alpha value: {alpha}")
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:
            state["step"] = scalar(0.0)
            for name in self._remembers(group):
                state[name] = zeros_like(p)
        return advanced(state["step"]) and None

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        alpha, momentum = group["alpha"], group["momentum"]
        return group["lr"], alpha, 1 - alpha, group["eps"], momentum if momentum > 0 else None, group["centered"]
