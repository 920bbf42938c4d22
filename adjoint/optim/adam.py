"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import TensorBase
from .elementwise import Elementwise, advanced, stored
from .optimizer import ParamsT, check, check_betas, check_fused, check_lr, scalar, zeros_like

__all__ = ["Adam"]


def _adam(
    p: Any, g: Any, mean: Any, square: Any, step: Any, eps: Any, fresh1: Any, beta2: Any, fresh2: Any, keep: Any
) -> Any:
    if keep is not None:
        p *= keep
    mean += (g - mean) * fresh1
    square *= beta2
    square += g * g * fresh2
    p -= mean / (np.sqrt(square) + eps) * step
    return p, mean, square


def _amsgrad(
    p: Any, g: Any, mean: Any, square: Any, largest: Any, step: Any, eps: Any, fresh1: Any, beta2: Any, fresh2: Any,
    keep: Any,
) -> Any:  # fmt: skip
    if keep is not None:
        p *= keep
    mean += (g - mean) * fresh1
    square *= beta2
    square += g * g * fresh2
    largest = stored(largest, np.maximum(largest, square))
    p -= mean / (np.sqrt(largest) + eps) * step
    return p, mean, square, largest


class Adam(Elementwise):
    """Adaptive moments (Kingma & Ba 2015); with ``decoupled_weight_decay`` it is AdamW.

    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.Adam([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    compilable = (_adam,)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, TensorBase) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_lr(lr)
        check(eps >= 0.0, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        _check_tensor_betas(betas, foreach and not capturable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name in ("amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay"):
                group.setdefault(name, False)
            group.setdefault("foreach", None)
            group.setdefault("fused", None)

    def _update_for(self, group: dict[str, Any]) -> Any:
        return _amsgrad if group["amsgrad"] else _adam

    def _remembers(self, group: dict[str, Any]) -> tuple[str, ...]:
        names = ("exp_avg", "exp_avg_sq")
        return (*names, "max_exp_avg_sq") if group["amsgrad"] else names

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:
            state["step"] = scalar(0.0)
            for name in self._remembers(group):
                state[name] = zeros_like(p)
        return advanced(state["step"])

    def _pull(self, group: dict[str, Any]) -> Any:
        return None if group["decoupled_weight_decay"] else group["weight_decay"]

    def _numbers(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        beta1, beta2 = group["betas"]
        lr = group["lr"]
        # sqrt(square) / correction + eps, the correction being drawn out of the fraction.
        correction = (1 - beta2**stage) ** 0.5
        decay = group["weight_decay"] if group["decoupled_weight_decay"] else 0
        keep = None if isinstance(decay, int | float) and decay == 0 else 1 - lr * decay
        step = lr / (1 - beta1**stage) * correction
        return step, group["eps"] * correction, 1 - beta1, beta2, 1 - beta2, keep


def _check_tensor_betas(betas: tuple[Any, Any], foreach: Any) -> None:
    tensors = [isinstance(beta, TensorBase) for beta in betas]
    check(all(tensors) or not any(tensors), "betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if isinstance(beta, TensorBase):
            check(not foreach, f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
            check(beta.array.size == 1, f"Tensor betas[{i}] must be 1-element")
