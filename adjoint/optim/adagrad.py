"""Adagrad: steps scaled by all the gradients there have been."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import Elementwise, advanced
from .optimizer import ParamsT, check, check_fused, check_lr, scalar, zeros_like

__all__ = ["Adagrad"]


def _update(p: Any, g: Any, total: Any, lr: Any, eps: Any) -> Any:
    total += g * g
    p -= g / (np.sqrt(total) + eps) * lr
    return p, total


class Adagrad(Elementwise):
    """Adaptive subgradients (Duchi, Hazan & Singer 2011)."""

    update = staticmethod(_update)
    compilable = (_update,)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check(lr_decay >= 0.0, f"Invalid lr_decay value: {lr_decay}")
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        initial = initial_accumulator_value
        check(initial >= 0.0, f"Invalid initial_accumulator_value value: {initial}")
        check(eps >= 0.0, f"Invalid epsilon value: {eps}")
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self._begin(self.state[p], p, group)

    def _begin(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> None:
        initial = group["initial_accumulator_value"]
        state.update(step=scalar(0.0), sum=zeros_like(p))
        state["sum"].array[...] = complex(initial, initial) if p.is_complex() else initial

    def share_memory(self) -> None:
        """Move the state to memory that processes share."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:  # of a group that was added later
            self._begin(state, p, group)
        return advanced(state["step"])

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        return group["lr"] / (1 + (stage - 1) * group["lr_decay"]), group["eps"]

    def _step_sparse(self, params: list[Any], group: dict[str, Any]) -> list[Any]:
        """Make gradients dense where they are not: an element without a gradient stays as it is."""
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        for p in params:
            if p._grad.is_sparse:
                p._grad = p._grad.to_dense()
        return params
