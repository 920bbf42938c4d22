"""Muon: momentum whose steps are made orthogonal, for the matrices of a network."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..core import dtypes
from ..core.observation import number
from ..core.tensor import TensorBase
from .elementwise import is_captured, without_tensors
from .optimizer import ByGroup, ParamsT, check, check_lr, note_written, zeros_like

__all__ = ["Muon"]


def _rounded(x: Any) -> Any:
    """Return single-precision values rounded to bfloat16."""
    if isinstance(x, TensorBase):
        return x.bfloat16().float()  # type: ignore[attr-defined]
    return x.astype(dtypes.bfloat16.np).astype(np.float32)


def _orthogonal(x: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """Return nearly the orthogonal factor of `x`, by Newton and Schulz's iteration in bfloat16."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = _rounded(x.float() if isinstance(x, TensorBase) else x.astype(np.float32))  # type: ignore[attr-defined]
    x = _rounded(x / np.maximum(_rounded(np.sqrt((x * x).sum())), np.float32(eps)))
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        x = _rounded(a * x + _rounded(b * gram + c * (gram @ gram)) @ x)
    return x.T if tall else x


def _rate(lr: Any, rule: str | None, shape: tuple[int, ...]) -> Any:
    """Return the learning rate for a matrix of the given shape."""
    rows, columns = shape
    if rule == "match_rms_adamw":
        return lr * (0.2 * float(max(rows, columns)) ** 0.5)
    return lr * float(max(1, rows / columns)) ** 0.5


def _update(p: Any, g: Any, buffer: Any, group: dict[str, Any]) -> None:
    lr, momentum = group["lr"], group["momentum"]
    buffer += (g - buffer) * (1 - momentum)
    ahead = g + (buffer - g) * momentum if group["nesterov"] else buffer
    step = _orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
    p *= 1 - lr * group["weight_decay"]
    step = step.to(p.dtype) if isinstance(p, TensorBase) else step.astype(p.dtype)  # type: ignore[attr-defined]
    p -= step * _rate(lr, group["adjust_lr_fn"], p.shape)


class Muon(ByGroup):
    """Momentum orthogonalized by Newton-Schulz (Jordan et al. 2024); for matrices only.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and options of its own.
    lr : float or Tensor, default 0.001
        The learning rate.
    weight_decay : float, default 0.1
        The factor by which parameters decay, independently of the gradient.
    momentum : float, default 0.95
        The decay rate of the average of gradients.
    nesterov : bool, default True
        Use Nesterov momentum.
    ns_coefficients : tuple of float, default (3.4445, -4.775, 2.0315)
        The coefficients of the Newton-Schulz polynomial.
    eps : float, default 1e-07
        Least norm by which an update is divided.
    ns_steps : int, default 5
        Number of Newton-Schulz iterations.
    adjust_lr_fn : str, optional
        "original" scales the learning rate by the ratio of rows to columns, "match_rms_adamw" to the size of the
        updates of AdamW.

    Raises
    ------
    ValueError
        If a parameter is not a matrix.

    Examples
    --------
    >>> layer = adjoint.nn.Linear(4, 2, bias=False)
    >>> optimizer = adjoint.optim.Muon(layer.parameters(), lr=0.02)
    >>> layer(adjoint.ones(1, 4)).sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        check(momentum >= 0.0, f"momentum should be >= 0 but is: {momentum}")
        check(weight_decay >= 0.0, f"weight decay should be >= 0 but is: {weight_decay}")
        known = (None, "original", "match_rms_adamw")
        check(adjust_lr_fn in known, f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                check(
                    p.ndim == 2, f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}"
                )

    def _apply(self, params: list[Any], grads: list[Any], group: dict[str, Any]) -> None:
        if any(p.is_complex() for p in params):
            raise RuntimeError("Muon does not support complex parameters")
        if any(g.is_sparse for g in grads):
            raise RuntimeError("Muon does not support sparse gradients")
        captured = is_captured()
        plain = group if captured else without_tensors(group)
        check(plain["ns_steps"] < 100, "Number of steps must be less than 100 for computational efficiency")
        check(len(plain["ns_coefficients"]) == 3, "Coefficients must be a tuple of exactly 3 values")
        for p in params:
            state = self.state[p]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = zeros_like(p._grad)
            if captured:
                with no_grad():
                    _update(p, p._grad, state["momentum_buffer"], {**group, "lr": number(group, "lr")})
            else:
                _update(p.array, p._grad.array, state["momentum_buffer"].array, plain)
        if not captured:
            note_written(params, "Muon.step")
