"""SparseAdam: Adam on those rows alone that have a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import TensorBase
from .elementwise import without_tensors
from .optimizer import Closure, Optimizer, ParamsT, check, check_betas, check_lr, note_written, zeros_like

__all__ = ["SparseAdam"]


def _update(p: Any, g: Any, at: Any, mean: Any, square: Any, step: int, group: dict[str, Any]) -> None:
    """Update the rows of a parameter at the given indices, of which none repeats."""
    beta1, beta2 = group["betas"]
    first, second = mean[at], square[at]
    first += (g - first) * (1 - beta1)
    second += (g * g - second) * (1 - beta2)
    mean[at], square[at] = first, second
    rate = group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    p[at] -= first / (np.sqrt(second) + group["eps"]) * rate


class SparseAdam(Optimizer):
    """Adam for sparse gradients, such as an embedding's: rows without a gradient stay as they are."""

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, TensorBase):
            check(lr.array.size == 1, "Tensor lr must be 1-element")
        check(lr > 0.0, f"Invalid learning rate: {lr}")
        check_lr(lr)
        check(eps > 0.0, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [(i, j, p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])]
        sparse = [[i, j] for i, j, p in places if p.is_sparse]
        check(not sparse, f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        complexes = [[i, j] for i, j, p in places if p.is_complex()]
        check(not complexes, f"Complex params at indices {complexes}: SparseAdam does not support complex parameters")

    def step(self, closure: Closure = None) -> Any:
        """Update every parameter that has a gradient; `closure` computes the loss anew and returns it."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            plain, written = without_tensors(group), []
            for p in group["params"]:
                if p._grad is None:
                    continue
                if not p._grad.is_sparse:
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
                state["step"] += 1
                grad = p._grad.coalesce()
                values = grad.values().array
                if not values.size:
                    continue
                g = -values if group["maximize"] else values
                at = tuple(grad.indices().array)
                _update(p.array, g, at, state["exp_avg"].array, state["exp_avg_sq"].array, state["step"], plain)
                written.append(p)
            if written:
                note_written(written, "SparseAdam.step")
        return loss
