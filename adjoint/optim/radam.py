"""RAdam: Adam that waits for its averages to mean something before it divides by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.piecewise import where
from .elementwise import Elementwise, advanced, is_captured
from .optimizer import ParamsT, check, check_betas, check_lr, scalar, zeros_like

__all__ = ["RAdam"]


def _update(
    p: Any,
    g: Any,
    mean: Any,
    square: Any,
    step: Any,
    scaled: bool,
    eps: Any,
    fresh1: Any,
    beta2: Any,
    fresh2: Any,
    keep: Any,
) -> Any:
    if keep is not None:
        p *= keep
    mean += (g - mean) * fresh1
    square *= beta2
    square += g * g * fresh2
    if scaled:
        p -= mean / (np.sqrt(square) + eps) * step
    else:
        p -= mean * step
    return p, mean, square


def _either(
    p: Any, g: Any, mean: Any, square: Any, step: Any, scaled: Any, eps: Any, fresh1: Any, beta2: Any, fresh2: Any,
    keep: Any,
) -> Any:  # fmt: skip
    """Update as `_update` does, where `scaled` is a tensor: its value differs from run to run."""
    if keep is not None:
        p *= keep
    mean += (g - mean) * fresh1
    square *= beta2
    square += g * g * fresh2
    p -= mean / where(scaled, np.sqrt(square) + eps, 1.0) * step
    return p, mean, square


class RAdam(Elementwise):
    """Rectified Adam (Liu et al. 2020)."""

    update = staticmethod(_update)
    compilable = (_update,)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _update_for(self, group: dict[str, Any]) -> Any:
        return _either if is_captured() else _update

    def _pull(self, group: dict[str, Any]) -> Any:
        return None if group["decoupled_weight_decay"] else group["weight_decay"]

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:
            state.update(step=scalar(0.0), exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        return advanced(state["step"])

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        step = lr / (1 - beta1**stage)
        correction = 1 - beta2**stage
        # How many gradients the average of squares amounts to, and in the end.
        most = 2 / (1 - beta2) - 1
        length = most - 2 * stage * beta2**stage / correction
        decay = group["weight_decay"] if group["decoupled_weight_decay"] else 0
        kept = group["eps"], 1 - beta1, beta2, 1 - beta2, 1 - lr * decay if decay else None
        if is_captured():
            scaled = length > 5.0
            length = where(scaled, length, 5.0)
            ratio = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            return where(scaled, step * (ratio * correction) ** 0.5, step), scaled, *kept
        scaled = length > 5.0
        if scaled:
            ratio = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            step = step * (ratio * correction) ** 0.5
        return step, scaled, *kept
