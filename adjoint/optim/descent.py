"""Gradient descent, plain or averaged, and with steps scaled by past gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.literals import scalar_of
from ..ops.piecewise import where_p
from .elementwise import Elementwise, advanced, is_captured, item_of, stored
from .optimizer import ParamsT, check, check_fused, check_lr, check_positive, scalar, zeros_like

__all__ = ["ASGD", "SGD", "Adadelta", "Adagrad", "RMSprop", "Rprop"]


def _sgd(p: Any, g: Any, lr: Any) -> Any:
    p -= g * lr
    return p


def _with_momentum(p: Any, g: Any, buffer: Any, lr: Any, momentum: float, fresh_share: float, nesterov: bool) -> Any:
    buffer *= momentum
    buffer += g * fresh_share
    if nesterov:
        p -= (g + buffer * momentum) * lr
    else:
        p -= buffer * lr
    return p, buffer


def _as_gradient(p: Any) -> Any:
    """Return zeros in the memory layout of a parameter's gradient."""
    return zeros_like(p if p._grad is None or p._grad.is_sparse else p._grad)


class SGD(Elementwise):
    """Stochastic gradient descent, with momentum if wanted: ``p = p - lr * g``.

    With a weight decay λ, ``g = g + λ * p`` first. With momentum μ and dampening τ, ``b = μ * b + (1 - τ) * g`` (at
    first ``b = g``) takes the place of g; with Nesterov's, ``g + μ * b`` does.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    lr : float or Tensor, default 1e-3
        The learning rate.
    momentum : float, default 0
        The factor μ of the steps so far.
    dampening : float, default 0
        The factor τ.
    weight_decay : float, default 0
        The factor λ of an L2 penalty, added to the gradient.
    nesterov : bool, default False
        Use Nesterov's momentum. It needs a momentum and no dampening.
    maximize : bool, default False
        Go up the gradient, not down.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    fused : bool, optional
        Accepted and not used: an update is one loop in any case.

    Raises
    ------
    ValueError
        If an option is out of its range, `nesterov` lacks a momentum, or there are no parameters.


    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    >>> optimizer.zero_grad()
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.4600, 0.9200], requires_grad=True)
    """

    _compilable = (_sgd, _with_momentum)
    _later_options = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}
    _counts = ()

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
        check_positive(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _update_for(self, group: dict[str, Any]) -> Any:
        return _sgd if group["momentum"] == 0 else _with_momentum

    def _buffer_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        if group["momentum"] == 0:
            return None
        fresh = state.get("momentum_buffer") is None
        if fresh:
            state["momentum_buffer"] = _as_gradient(p)
        return fresh

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        if stage is None:
            return (group["lr"],)
        # The first gradient enters whole, whatever the dampening.
        return group["lr"], group["momentum"], 1.0 if stage else 1.0 - group["dampening"], group["nesterov"]

    def _check_sparse(self, group: dict[str, Any]) -> None:
        """Accept sparse gradients: missing elements get the update for zeros."""


def _asgd(p: Any, g: Any, average: Any, eta: Any, keep: Any, share: Any) -> Any:
    p *= keep
    p -= g * eta
    average += (p - average) * share
    return p, average


class ASGD(Elementwise):
    """Averaged gradient descent (Polyak & Juditsky 1992); the average is in ``state[p]["ax"]``.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and options of its own.
    lr : float or Tensor, default 0.01
        The learning rate.
    lambd : float, default 0.0001
        Decay of the learning rate, and of the parameters towards zero.
    alpha : float, default 0.75
        Power by which the learning rate decays.
    t0 : float, default 1000000.0
        Step from which parameters are averaged.
    weight_decay : float, default 0
        The factor of an L2 penalty, added to the gradient.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.

    Examples
    --------
    >>> w = adjoint.tensor([[1.0, 2.0]], requires_grad=True)
    >>> optimizer = adjoint.optim.ASGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([[0.8000, 1.6000]])
    """

    _update = staticmethod(_asgd)
    _written = "params, mus, etas, and state_steps"
    _buffers = ("ax",)
    _compilable = (_asgd,)
    _counts = ("step", "eta", "mu")

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
        check_positive(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        lr = group["lr"]
        if not state:
            state.update(step=scalar(0.0), eta=scalar(item_of(lr)), mu=scalar(1.0))
            self._begin(state, p, group)
        step = advanced(state["step"])
        if is_captured():
            now = state["eta"].double().clone(), state["mu"].double().clone()
            state["eta"].copy_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
            state["mu"].copy_(1 / (step - group["t0"]).clamp(min=1))
            return now
        lr = item_of(lr)
        eta, mu = state["eta"].array, state["mu"].array
        now = float(eta), float(mu)
        # What the next step will use.
        eta.fill(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        mu.fill(1 / max(1, step - group["t0"]))
        return now

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        eta, mu = stage
        return eta, 1 - group["lambd"] * eta, mu


def _adagrad(p: Any, g: Any, total: Any, lr: Any, eps: Any) -> Any:
    total += g * g
    p -= g / (np.sqrt(total) + eps) * lr
    return p, total


class Adagrad(Elementwise):
    """Steps scaled by all gradients so far (Duchi, Hazan and Singer, 2011).

    ``s = s + g**2``, and at step t ``p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)``.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    lr : float or Tensor, default 1e-2
        The learning rate.
    lr_decay : float, default 0
        How fast the learning rate decreases.
    weight_decay : float, default 0
        The factor λ of an L2 penalty, added to the gradient.
    initial_accumulator_value : float, default 0
        What s begins with.
    eps : float, default 1e-10
        Added to the denominator.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.
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
    >>> optimizer = adjoint.optim.Adagrad([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    _update = staticmethod(_adagrad)
    _buffers = ("sum",)
    _compilable = (_adagrad,)
    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

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
        initial = initial_accumulator_value
        check_positive(lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial, epsilon=eps)
        scalar_of(initial, "fill_value", "full_like")
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
        super()._begin(state, p, group)
        initial = group["initial_accumulator_value"]
        state["sum"].array[...] = complex(initial, initial) if p.is_complex() else initial

    def share_memory(self) -> None:
        """Move the state to shared memory."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        return group["lr"] / (1 + (stage - 1) * group["lr_decay"]), group["eps"]

    def _check_sparse(self, group: dict[str, Any]) -> None:
        """Accept sparse gradients if an element without a gradient stays unchanged."""
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")


def _adadelta(p: Any, g: Any, square: Any, moved: Any, lr: Any, rho: Any, fresh: Any, eps: Any) -> Any:
    square *= rho
    square += g * g * fresh
    delta = np.sqrt(moved + eps) / np.sqrt(square + eps) * g
    moved *= rho
    moved += delta * delta * fresh
    p -= delta * lr
    return p, square, moved


class Adadelta(Elementwise):
    """Steps scaled by running averages of gradients and of steps (Zeiler, 2012).

    ``v = rho * v + (1 - rho) * g**2``, ``d = sqrt(u + eps) / sqrt(v + eps) * g``,
    ``u = rho * u + (1 - rho) * d**2``, and ``p = p - lr * d``.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    lr : float or Tensor, default 1.0
        The learning rate.
    rho : float, default 0.9
        The decay rate of the averages, from 0 to 1.
    eps : float, default 1e-6
        Added under the roots.
    weight_decay : float, default 0
        The factor λ of an L2 penalty, added to the gradient.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.
    maximize : bool, default False
        Go up the gradient, not down.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.

    Raises
    ------
    ValueError
        If an option is out of its range, or there are no parameters.


    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.Adadelta([w])
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9968, 1.9968], requires_grad=True)
    """

    _update = staticmethod(_adadelta)
    _buffers = ("square_avg", "acc_delta")
    _compilable = (_adadelta,)

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        check_positive(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        return super()._advance(state, p, group) and None

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        return group["lr"], group["rho"], 1 - group["rho"], group["eps"]


def _rmsprop(p: Any, g: Any, square: Any, *rest: Any) -> Any:
    *kept, lr, alpha, fresh, eps, momentum, centered = rest
    square *= alpha
    square += g * g * fresh
    if centered:
        mean = kept[-1]
        mean += (g - mean) * fresh
        kept[-1] = mean  # another object where the update is traced
        scale = np.sqrt(square - mean * mean) + eps
    else:
        scale = np.sqrt(square) + eps
    if momentum is None:
        p -= g / scale * lr
    else:
        buffer = kept[0]
        buffer *= momentum
        buffer += g / scale
        kept[0] = buffer
        p -= buffer * lr
    return p, square, *kept


class RMSprop(Elementwise):
    """Steps scaled by a running average of squared gradients (Tieleman and Hinton, 2012).

    ``v = alpha * v + (1 - alpha) * g**2``, and ``p = p - lr * g / (sqrt(v) + eps)``. With `centered`, the square of the
    gradient's running average is subtracted from v. With momentum μ, ``b = μ * b + g / (sqrt(v) + eps)``, and
    ``p = p - lr * b``.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and its options.
    lr : float or Tensor, default 1e-2
        The learning rate.
    alpha : float, default 0.99
        The decay rate of the average.
    eps : float, default 1e-8
        Added to the denominator.
    weight_decay : float, default 0
        The factor λ of an L2 penalty, added to the gradient.
    momentum : float, default 0
        The factor μ of the steps so far.
    centered : bool, default False
        Divide by an estimate of the standard deviation of the gradient.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.

    Raises
    ------
    ValueError
        If an option is out of its range, or there are no parameters.


    Examples
    --------
    >>> w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = adjoint.optim.RMSprop([w], lr=0.01)
    >>> (w**2).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    _update = staticmethod(_rmsprop)
    _later_options = {"momentum": 0, "centered": False, **Elementwise._later_options}

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_positive(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _buffer_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        return super()._advance(state, p, group) and None

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        alpha, momentum = group["alpha"], group["momentum"]
        return group["lr"], alpha, 1 - alpha, group["eps"], momentum if momentum > 0 else None, group["centered"]


def _rprop(p: Any, g: Any, before: Any, size: Any, shrink: Any, grow: Any, smallest: Any, largest: Any) -> Any:
    agreement = g * before
    turned = agreement < 0
    changed = where_p(agreement > 0, size * grow, where_p(turned, size * shrink, size))
    size = stored(size, np.minimum(np.maximum(changed, smallest), largest))
    g = where_p(turned, 0.0, g)
    p -= where_p(np.abs(g) >= 0, np.sign(g), 0.0) * size  # NaN has no sign
    before = stored(before, g)
    return p, before, size


class Rprop(Elementwise):
    """Resilient backpropagation (Riedmiller & Braun 1993), for full batches.

    Only the sign of a gradient counts. Each element has a step size of its own, which grows while the sign stays the
    same and shrinks when it changes.

    Parameters
    ----------
    params : iterable
        The parameters; or pairs of name and parameter; or dicts, each with ``"params"`` and options of its own.
    lr : float or Tensor, default 0.01
        The first step size.
    etas : tuple of float, default (0.5, 1.2)
        The factors by which a step size shrinks and grows.
    step_sizes : tuple of float, default (1e-06, 50)
        The least and the largest step size.
    capturable : bool, default False
        Accepted for parameters on a GPU, and changes nothing there.
    foreach : bool, optional
        Accepted and not used: all parameters are updated together in any case.
    maximize : bool, default False
        Go up the gradient, not down.
    differentiable : bool, default False
        Record the step, so that gradients flow through it.

    Examples
    --------
    >>> w = adjoint.tensor([[1.0, 2.0]], requires_grad=True)
    >>> optimizer = adjoint.optim.Rprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([[0.9000, 1.9000]])
    """

    _update = staticmethod(_rprop)
    _buffers = ("prev", "step_size")

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _l2_decay(self, group: dict[str, Any]) -> Any:
        return None

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        return super()._advance(state, p, group) and None

    def _begin(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> None:
        super()._begin(state, p, group)
        lr = item_of(group["lr"])
        state["step_size"] = _as_gradient(p)
        state["step_size"].array[...] = complex(lr, lr) if p.is_complex() else lr

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        return (*group["etas"], *group["step_sizes"])
