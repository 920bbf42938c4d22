"""Adadelta: steps in the unit of the parameters, with hardly a learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import Elementwise, advanced
from .optimizer import ParamsT, check, check_lr, scalar, zeros_like

__all__ = ["Adadelta"]


def _update(p: Any, g: Any, square: Any, moved: Any, lr: Any, rho: Any, fresh: Any, eps: Any) -> Any:
    square *= rho
    square += g * g * fresh
    delta = np.sqrt(moved + eps) / np.sqrt(square + eps) * g
    moved *= rho
    moved += delta * delta * fresh
    p -= delta * lr
    return p, square, moved


class Adadelta(Elementwise):
    """Adadelta (Zeiler 2012)."""

    update = staticmethod(_update)
    compilable = (_update,)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        check(eps >= 0.0, f"Invalid epsilon value: {eps}")
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:
            state.update(step=scalar(0.0), square_avg=zeros_like(p), acc_delta=zeros_like(p))
        return advanced(state["step"]) and None

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        return group["lr"], group["rho"], 1 - group["rho"], group["eps"]
