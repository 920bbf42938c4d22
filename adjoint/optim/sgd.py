"""SGD: gradient descent, with momentum if one wants."""

from __future__ import annotations

from typing import Any

from .elementwise import Elementwise
from .optimizer import ParamsT, check, check_fused, check_lr, zeros_like

__all__ = ["SGD"]


def _sgd(p: Any, g: Any, lr: Any) -> Any:
    p -= g * lr
    return p


def _momentum(p: Any, g: Any, buffer: Any, lr: Any, momentum: float, fresh_share: float, nesterov: bool) -> Any:
    buffer *= momentum
    buffer += g * fresh_share
    if nesterov:
        p -= (g + buffer * momentum) * lr
    else:
        p -= buffer * lr
    return p, buffer


class SGD(Elementwise):
    """Gradient descent with momentum, Nesterov's as well.

    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.SGD([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    compilable = (_sgd, _momentum)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check(momentum >= 0.0, f"Invalid momentum value: {momentum}")
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in (
                ("nesterov", False), ("maximize", False), ("foreach", None), ("differentiable", False), ("fused", None)
            ):  # fmt: skip
                group.setdefault(name, value)

    def _update_for(self, group: dict[str, Any]) -> Any:
        return _sgd if group["momentum"] == 0 else _momentum

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if group["momentum"] == 0:
            return None
        fresh = state.get("momentum_buffer") is None
        if fresh:
            state["momentum_buffer"] = zeros_like(p)
        return fresh

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        if stage is None:
            return (group["lr"],)
        # The first gradient enters whole, whatever the dampening.
        return group["lr"], group["momentum"], 1.0 if stage else 1.0 - group["dampening"], group["nesterov"]

    def _step_sparse(self, params: list[Any], group: dict[str, Any]) -> list[Any]:
        """Make gradients dense where they are not: few elements or many, the update is the same."""
        for p in params:
            if p._grad.is_sparse:
                p._grad = p._grad.to_dense()
        return params
