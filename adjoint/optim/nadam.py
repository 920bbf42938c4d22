"""NAdam: Adam that looks ahead as Nesterov's momentum does."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import Elementwise, advanced, is_captured
from .optimizer import ParamsT, check, check_betas, check_lr, scalar, zeros_like

__all__ = ["NAdam"]


def _update(
    p: Any, g: Any, mean: Any, square: Any, fresh: Any, ahead: Any, correction: Any, eps: Any, fresh1: Any, beta2: Any,
    fresh2: Any, keep: Any,
) -> Any:  # fmt: skip
    if keep is not None:
        p *= keep
    mean += (g - mean) * fresh1
    square *= beta2
    square += g * g * fresh2
    p -= (g * fresh + mean * ahead) / (np.sqrt(square / correction) + eps)
    return p, mean, square


class NAdam(Elementwise):
    """Adam with Nesterov momentum (Dozat 2016)."""

    update = staticmethod(_update)
    compilable = (_update,)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(eps >= 0.0, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        check(momentum_decay >= 0.0, f"Invalid momentum_decay value: {momentum_decay}")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _pull(self, group: dict[str, Any]) -> Any:
        return None if group["decoupled_weight_decay"] else group["weight_decay"]

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:
            state.update(step=scalar(0.0), mu_product=scalar(1.0), exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        step = advanced(state["step"])
        if is_captured():
            state["mu_product"].mul_(_momentum(group, step))
            return step, state["mu_product"].double().clone()
        product = state["mu_product"].array
        product *= _momentum(group, step)
        return step, float(product)

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        step, product = stage
        lr, (beta1, beta2) = group["lr"], group["betas"]
        now, then = _momentum(group, step), _momentum(group, step + 1)
        decay = group["weight_decay"] if group["decoupled_weight_decay"] else 0
        return (
            lr * (1 - now) / (1 - product), lr * then / (1 - product * then), 1 - beta2**step, group["eps"],
            1 - beta1, beta2, 1 - beta2, 1 - lr * decay if decay else None,
        )  # fmt: skip


def _momentum(group: dict[str, Any], step: float) -> Any:
    """Return the momentum of a step: it warms up from half of beta1."""
    return group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
