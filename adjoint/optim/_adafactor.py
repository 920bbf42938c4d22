"""Adafactor: Adam's scale from the sums of rows and columns alone, for little memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..core import dtypes
from ..core.device import module_of
from ..core.nodes import wrap
from ..core.observation import literal, number
from ..core.tensor import TensorBase
from .elementwise import advanced, is_captured, without_tensors
from .optimizer import ByGroup, ParamsT, check, check_lr, note_written, scalar, zeros_like

__all__ = ["Adafactor"]


def _update(p: Any, g: Any, kept: list[Any], step: Any, group: dict[str, Any]) -> None:
    """Update a parameter and its state: the mean squares of rows and columns, or of elements.

    On arrays, and on tensors while a program is captured.
    """
    floor, smallest = group["eps"]
    if floor is None:
        floor = float(dtypes.finfo(p.dtype if _is_tensor(p) else dtypes.of(p.dtype)).eps)
    lr, share = group["lr"], step ** group["beta2_decay"]
    alpha = _larger(smallest, _length(p) / math.prod(p.shape) ** 0.5) * -_larger(-lr, -1 / step**0.5)
    if group["weight_decay"] != 0:
        p *= 1 - lr * group["weight_decay"]
    if len(kept) == 2:
        row, column = kept
        row += (_mean(g * g, -1) - row) * share
        column += (_mean(g * g, -2) - column) * share
        square = row @ column / np.maximum(_mean(row, -2), floor)
    else:
        (square,) = kept
        square += (g * g - square) * share
    change = g / np.sqrt(np.maximum(square, floor * floor))
    p -= change * (alpha / _larger(1.0, _length(change) / (math.prod(change.shape) ** 0.5 * group["d"])))


def _is_tensor(x: Any) -> bool:
    return isinstance(x, TensorBase)


def _length(x: Any) -> Any:
    length: Any = np.sqrt((x * x).sum())
    return length.double() if _is_tensor(x) else float(length)


def _larger(x: Any, y: Any) -> Any:
    if _is_tensor(x):
        return np.maximum(x, y) if _is_tensor(y) else x.clamp(min=y)
    return y.clamp(min=x) if _is_tensor(y) else max(x, y)


def _mean(x: Any, axis: int) -> Any:
    return x.mean(axis, keepdim=True) if _is_tensor(x) else x.mean(axis, keepdims=True)


class Adafactor(ByGroup):
    """Adafactor (Shazeer & Stern 2018): relative steps, factored second moments, clipped updates.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and options of its own.
    lr : float or Tensor, default 0.01
        The learning rate.
    beta2_decay : float, default -0.8
        Power of the step by which the average of squares forgets less and less.
    eps : tuple of float, default (None, 0.001)
        Square root of the least second moment, the machine epsilon for None; and the least root mean square of a
        parameter that its step is scaled by.
    d : float, default 1.0
        Largest root mean square of an update; larger ones are scaled down.
    weight_decay : float, default 0.0
        The factor by which parameters decay, independently of the gradient.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.

    Examples
    --------
    >>> w = adjoint.tensor([[1.0, 2.0]], requires_grad=True)
    >>> optimizer = adjoint.optim.Adafactor([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([[0.8419, 1.8419]])
    """

    _later_options = {"foreach": None}
    _counts = ("step",)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        check(beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        check(eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        check(eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        check(d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}")
        check(weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _apply(self, params: list[Any], grads: list[Any], group: dict[str, Any]) -> None:
        if any(p.is_complex() for p in params):
            raise RuntimeError("Adafactor does not support complex parameters")
        if any(g.is_sparse for g in grads):
            raise RuntimeError("Adafactor does not support sparse gradients")
        captured = is_captured()
        plain = group if captured else without_tensors(group)
        for p in params:
            state = self.state[p]
            if not state:
                self._begin(state, p)
            if captured:
                kept = [state[name] for name in ("row_var", "col_var", "variance") if name in state]
                with no_grad():
                    options = {**group, "lr": number(group, "lr")}
                    _update(p, -p._grad if group["maximize"] else p._grad, kept, advanced(state["step"]), options)
                continue
            g = -p._grad.array if group["maximize"] else p._grad.array
            kept = [state[name].array for name in ("row_var", "col_var", "variance") if name in state]
            _update(p.array, g, kept, advanced(state["step"]), plain)
        if not captured:
            note_written(params, "Adafactor.step")

    @staticmethod
    def _begin(state: dict[str, Any], p: Any) -> None:
        state["step"] = scalar(0.0)
        if p.ndim < 2:
            state["variance"] = zeros_like(p)
            return
        *rest, rows, columns = p.array.shape
        zeros = module_of(p.array).zeros
        state["row_var"] = wrap(literal(zeros((*rest, rows, 1), p.array.dtype)))
        state["col_var"] = wrap(literal(zeros((*rest, 1, columns), p.array.dtype)))
