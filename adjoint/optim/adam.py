"""Adam and its variants: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import TensorBase
from ..ops.piecewise import where
from .elementwise import Elementwise, advanced, is_captured, item_of, stored, without_tensors
from .optimizer import (
    ByGroup,
    ParamsT,
    check,
    check_betas,
    check_fused,
    check_lr,
    check_positive,
    note_written,
    scalar,
    zeros_like,
)

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SparseAdam"]


def _moments(p: Any, g: Any, mean: Any, square: Any, fresh1: Any, beta2: Any, fresh2: Any, keep: Any) -> Any:
    """Update the averages of the gradient and of its square, and apply decoupled weight decay."""
    if keep is not None:
        p *= keep
    mean += (g - mean) * fresh1
    square *= beta2
    square += g * g * fresh2
    return p, mean, square


def _adam(
    p: Any, g: Any, mean: Any, square: Any, step: Any, eps: Any, fresh1: Any, beta2: Any, fresh2: Any, keep: Any
) -> Any:
    p, mean, square = _moments(p, g, mean, square, fresh1, beta2, fresh2, keep)
    p -= mean / (np.sqrt(square) + eps) * step
    return p, mean, square


def _amsgrad(
    p: Any, g: Any, mean: Any, square: Any, largest: Any, step: Any, eps: Any, fresh1: Any, beta2: Any, fresh2: Any,
    keep: Any,
) -> Any:  # fmt: skip
    p, mean, square = _moments(p, g, mean, square, fresh1, beta2, fresh2, keep)
    largest = stored(largest, np.maximum(largest, square))
    p -= mean / (np.sqrt(largest) + eps) * step
    return p, mean, square, largest


class _Averaging(Elementwise):
    """Base of optimizers with averages of the gradient and its square; weight decay may be decoupled."""

    _buffers = ("exp_avg", "exp_avg_sq")

    def _l2_decay(self, group: dict[str, Any]) -> Any:
        return None if group["decoupled_weight_decay"] else group["weight_decay"]


class Adam(_Averaging):
    """Adaptive moment estimation (Kingma and Ba, 2015).

    m and v are running averages of the gradient and of its square: ``m = β1 * m + (1 - β1) * g`` and
    ``v = β2 * v + (1 - β2) * g**2``. At step t, ``p = p - lr * (m / (1 - β1**t)) / (sqrt(v / (1 - β2**t)) + eps)``.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    lr : float or Tensor, default 1e-3
        The learning rate.
    betas : tuple of float, default (0.9, 0.999)
        The decay rates β1 and β2 of the averages.
    eps : float, default 1e-8
        Added to the denominator.
    weight_decay : float, default 0
        The factor λ of an L2 penalty, added to the gradient.
    amsgrad : bool, default False
        Use the largest v of all steps so far (Reddi et al., 2018).
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    fused : bool, optional
        Accepted and not used: an update is one loop in any case.
    decoupled_weight_decay : bool, default False
        Decay the parameter itself, ``p = p - lr * λ * p``, and not by way of the gradient: this is `AdamW`.

    Raises
    ------
    ValueError
        If an option is out of its range, or there are no parameters.


    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.Adam([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    _compilable = (_adam,)
    _later_options = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False, "fused": None,
    }  # fmt: skip

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
        check_betas(betas)
        check_positive(epsilon=eps, weight_decay=weight_decay)
        betas = _checked(betas, foreach and not capturable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _update_for(self, group: dict[str, Any]) -> Any:
        return _amsgrad if group["amsgrad"] else _adam

    def _buffer_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return (*self._buffers, "max_exp_avg_sq") if group["amsgrad"] else self._buffers

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        beta1, beta2 = group["betas"]
        lr = group["lr"]
        # sqrt(square) / correction + eps, the correction being drawn out of the fraction.
        correction = (1 - beta2**stage) ** 0.5
        decay = group["weight_decay"] if group["decoupled_weight_decay"] else 0
        keep = None if isinstance(decay, int | float) and decay == 0 else 1 - lr * decay
        step = lr / (1 - beta1**stage) * correction
        return step, group["eps"] * correction, 1 - beta1, beta2, 1 - beta2, keep


def _checked(betas: tuple[Any, Any], foreach: Any) -> tuple[Any, ...]:
    """Return Adam's decay rates: two Python floats, or two tensors of no dimension."""
    same_kind = any(all(isinstance(beta, kind) for beta in betas) for kind in (float, TensorBase))
    check(same_kind, "betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if isinstance(beta, TensorBase):
            check(not foreach, f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
            check(beta.array.size == 1, f"Tensor betas[{i}] must be 1-element")
    return tuple(beta.squeeze() if isinstance(beta, TensorBase) else beta for beta in betas)  # type: ignore[attr-defined]


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    The parameter decays by itself, ``p = p - lr * λ * p``, before it is updated as by `Adam`.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    lr : float or Tensor, default 1e-3
        The learning rate.
    betas : tuple of float, default (0.9, 0.999)
        The decay rates β1 and β2 of the averages.
    eps : float, default 1e-8
        Added to the denominator.
    weight_decay : float, default 1e-2
        The factor λ.
    amsgrad : bool, default False
        Use the largest v of all steps so far (Reddi et al., 2018).
    maximize : bool, default False
        Go up the gradient, not down.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    fused : bool, optional
        Accepted and not used: an update is one loop in any case.

    Raises
    ------
    ValueError
        If an option is out of its range, or there are no parameters.


    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8500, 1.8000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def _nadam(
    p: Any, g: Any, mean: Any, square: Any, fresh: Any, ahead: Any, correction: Any, eps: Any, fresh1: Any, beta2: Any,
    fresh2: Any, keep: Any,
) -> Any:  # fmt: skip
    p, mean, square = _moments(p, g, mean, square, fresh1, beta2, fresh2, keep)
    p -= (g * fresh + mean * ahead) / (np.sqrt(square / correction) + eps)
    return p, mean, square


class NAdam(_Averaging):
    """Adam with Nesterov momentum (Dozat 2016).

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and options of its own.
    lr : float or Tensor, default 0.002
        The learning rate.
    betas : tuple of float, default (0.9, 0.999)
        The decay rates β1 and β2 of the averages.
    eps : float, default 1e-08
        Added to the denominator.
    weight_decay : float, default 0
        The factor λ of an L2 penalty, added to the gradient.
    momentum_decay : float, default 0.004
        How fast β1 approaches its limit.
    decoupled_weight_decay : bool, default False
        Decay the parameter itself, ``p = p - lr * λ * p``, and not by way of the gradient.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.

    Examples
    --------
    >>> w = adjoint.tensor([[1.0, 2.0]], requires_grad=True)
    >>> optimizer = adjoint.optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([[0.8944, 1.8944]])
    """

    _update = staticmethod(_nadam)
    _written = "params, mu_products and state_steps"
    _compilable = (_nadam,)
    _later_options = {
        "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False,
    }  # fmt: skip
    _counts = ("step", "mu_product")

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
        check_betas(betas)
        check_positive(epsilon=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if not state:
            state.update(step=scalar(0.0), mu_product=scalar(1.0))
            self._begin(state, p, group)
        step = advanced(state["step"])
        if is_captured():
            state["mu_product"].mul_(_momentum(group, step))
            return step, state["mu_product"].double().clone()
        if state["mu_product"].requires_grad:  # of a step that is differentiated
            state["mu_product"] = state["mu_product"] * _momentum(group, step)
            return step, state["mu_product"]
        product = state["mu_product"].array
        product *= item_of(_momentum(group, step))
        return step, float(product)

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
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


def _radam(
    p: Any, g: Any, mean: Any, square: Any, step: Any, scaled: bool, eps: Any, fresh1: Any, beta2: Any, fresh2: Any,
    keep: Any,
) -> Any:  # fmt: skip
    p, mean, square = _moments(p, g, mean, square, fresh1, beta2, fresh2, keep)
    if scaled:
        p -= mean / (np.sqrt(square) + eps) * step
    else:
        p -= mean * step
    return p, mean, square


def _either(
    p: Any, g: Any, mean: Any, square: Any, step: Any, scaled: Any, eps: Any, fresh1: Any, beta2: Any, fresh2: Any,
    keep: Any,
) -> Any:  # fmt: skip
    """Update as `_radam` does, where `scaled` is a tensor: its value differs from run to run."""
    p, mean, square = _moments(p, g, mean, square, fresh1, beta2, fresh2, keep)
    p -= mean / where(scaled, np.sqrt(square) + eps, 1.0) * step
    return p, mean, square


class RAdam(_Averaging):
    """Rectified Adam: no adaptive steps before v has settled (Liu et al., 2020).

    m and v are running averages of the gradient and of its square: ``m = β1 * m + (1 - β1) * g`` and
    ``v = β2 * v + (1 - β2) * g**2``. At step t, ``ρ = ρ_max - 2 * t * β2**t / (1 - β2**t)``, with
    ``ρ_max = 2 / (1 - β2) - 1``. Where ``ρ > 5``, the step is that of `Adam` times
    ``sqrt((ρ - 4) * (ρ - 2) * ρ_max / ((ρ_max - 4) * (ρ_max - 2) * ρ))``; else ``p = p - lr * m / (1 - β1**t)``.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    lr : float or Tensor, default 1e-3
        The learning rate.
    betas : tuple of float, default (0.9, 0.999)
        The decay rates β1 and β2 of the averages.
    eps : float, default 1e-8
        Added to the denominator.
    weight_decay : float, default 0
        The factor λ of an L2 penalty, added to the gradient.
    decoupled_weight_decay : bool, default False
        Decay the parameter itself, ``p = p - lr * λ * p``, and not by way of the gradient.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.

    Raises
    ------
    ValueError
        If an option is out of its range, or there are no parameters.


    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.RAdam([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    _update = staticmethod(_radam)
    _compilable = (_radam,)
    _later_options = {
        "foreach": None, "maximize": False, "differentiable": False, "decoupled_weight_decay": False,
        "capturable": False,
    }  # fmt: skip

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
        check_betas(betas)
        check_positive(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_for(self, group: dict[str, Any]) -> Any:
        return _either if is_captured() else _radam

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
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


def _adamax(p: Any, g: Any, mean: Any, largest: Any, step: Any, eps: Any, fresh1: Any, beta2: Any) -> Any:
    mean += (g - mean) * fresh1
    largest = stored(largest, np.maximum(largest * beta2, np.abs(g) + eps))
    p -= mean / largest * step
    return p, mean, largest


class Adamax(Elementwise):
    """Adam by the infinity norm (Kingma and Ba, 2015).

    ``m = β1 * m + (1 - β1) * g``, ``u = max(β2 * u, |g| + eps)``, and at step t ``p = p - lr / (1 - β1**t) * m / u``.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    lr : float or Tensor, default 2e-3
        The learning rate.
    betas : tuple of float, default (0.9, 0.999)
        The decay rates β1 and β2 of the averages.
    eps : float, default 1e-8
        Added to the absolute gradient.
    weight_decay : float, default 0
        The factor λ of an L2 penalty, added to the gradient.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.

    Raises
    ------
    ValueError
        If an option is out of its range, or there are no parameters.


    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.Adamax([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    _update = staticmethod(_adamax)
    _buffers = ("exp_avg", "exp_inf")

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
        check_betas(betas)
        check_positive(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        beta1, beta2 = group["betas"]
        return group["lr"] / (1 - beta1**stage), group["eps"], 1 - beta1, beta2


def update_rows(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Update the rows of a parameter that a sparse gradient has."""
    grad = grad.coalesce()
    g = -grad.values().array if group["maximize"] else grad.values().array
    if not g.size:
        return
    at = tuple(grad.indices().array)
    (beta1, beta2), step = group["betas"], state["step"]
    mean, square = state["exp_avg"].array, state["exp_avg_sq"].array
    first, second = mean[at], square[at]
    first += (g - first) * (1 - beta1)
    second += (g * g - second) * (1 - beta2)
    mean[at], square[at] = first, second
    rate = group["lr"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    p.array[at] -= first / (np.sqrt(second) + group["eps"]) * rate
    note_written([p], "SparseAdam.step")


class SparseAdam(ByGroup):
    """Adam for sparse gradients, such as an embedding's: rows without a gradient stay as they are.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and options of its own.
    lr : float or Tensor, default 0.001
        The learning rate.
    betas : tuple of float, default (0.9, 0.999)
        The decay rates β1 and β2 of the averages.
    eps : float, default 1e-08
        Added to the denominator.
    maximize : bool, default False
        Go up the gradient, not down.

    Raises
    ------
    ValueError
        If a parameter is itself sparse.
    RuntimeError
        When called with a dense gradient.

    Examples
    --------
    >>> table = adjoint.nn.Embedding(3, 2, sparse=True)
    >>> before = table.weight.detach().clone()
    >>> optimizer = adjoint.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(adjoint.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> (table.weight.detach() != before).any(1)
    tensor([False,  True, False])
    """

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

    def _apply(self, params: list[Any], grads: list[Any], group: dict[str, Any]) -> None:
        if not all(g.is_sparse for g in grads):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        plain = without_tensors(group)
        for p, grad in zip(params, grads):
            state = self.state[p]
            if not state:
                state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
            state["step"] += 1
            update_rows(p, grad, state, plain)
