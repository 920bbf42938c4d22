"""Adamax: Adam scaled by the largest recent gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import Elementwise, advanced, stored
from .optimizer import ParamsT, check, check_betas, check_lr, scalar, zeros_like

__all__ = ["Adamax"]


def _update(p: Any, g: Any, mean: Any, largest: Any, step: Any, eps: Any, fresh1: Any, beta2: Any) -> Any:
    mean += (g - mean) * fresh1
    largest = stored(largest, np.maximum(largest * beta2, np.abs(g) + eps))
    p -= mean / largest * step
    return p, mean, largest


class Adamax(Elementwise):
    """Adam by the infinity norm (Kingma & Ba 2015)."""

    update = staticmethod(_update)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check(eps >= 0.0, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:
            state.update(step=scalar(0.0), exp_avg=zeros_like(p), exp_inf=zeros_like(p))
        return advanced(state["step"])

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        beta1, beta2 = group["betas"]
        return group["lr"] / (1 - beta1**stage), group["eps"], 1 - beta1, beta2
