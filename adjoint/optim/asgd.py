"""ASGD: gradient descent that also averages where it has been."""

from __future__ import annotations

from typing import Any

from ..core.tensor import TensorBase
from .elementwise import Elementwise, advanced, is_captured
from .optimizer import ParamsT, check, check_lr, scalar, zeros_like

__all__ = ["ASGD"]


def _update(p: Any, g: Any, average: Any, eta: Any, keep: Any, share: Any) -> Any:
    p *= keep
    p -= g * eta
    average += (p - average) * share
    return p, average


def _number(lr: Any) -> Any:
    return lr.item() if isinstance(lr, TensorBase) else lr  # type: ignore[attr-defined]


class ASGD(Elementwise):
    """Averaged gradient descent (Polyak & Juditsky 1992); the average is in ``state[p]["ax"]``."""

    update = staticmethod(_update)
    compilable = (_update,)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("ax",)

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        lr = group["lr"]
        if not state:
            state.update(step=scalar(0.0), eta=scalar(_number(lr)), mu=scalar(1.0), ax=zeros_like(p))
        step = advanced(state["step"])
        if is_captured():
            now = state["eta"].double().clone(), state["mu"].double().clone()
            state["eta"].copy_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
            state["mu"].copy_(1 / (step - group["t0"]).clamp(min=1))
            return now
        lr = _number(lr)
        eta, mu = state["eta"].array, state["mu"].array
        now = float(eta), float(mu)
        # What the next step will use.
        eta.fill(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        mu.fill(1 / max(1, step - group["t0"]))
        return now

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        eta, mu = stage
        return eta, 1 - group["lambd"] * eta, mu
