"""Steps of optimizers as functions: parameters, gradients and what is remembered come as lists of tensors.

PyTorch has each of them beside its class, ``torch.optim.adam.adam``, and all of them in this module. They are the
updates of the classes, which are written there once.
"""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import set_grad_enabled
from ..core.interrupts import whole
from ..core.tensor import TensorBase
from . import adam as averaging
from . import descent
from .elementwise import Elementwise

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd",
    "sparse_adam",
]  # fmt: skip

Tensors = list[Any]


def _step(
    kind: type[Elementwise],
    params: Tensors,
    grads: Tensors,
    remembered: dict[str, Any],
    options: dict[str, Any],
    scale: Any = None,
    found_inf: Any = None,
) -> None:
    """Make one step of an optimizer whose state is in lists, a name for each.

    `scale` and `found_inf` are a gradient scaler's: gradients are divided by the one, and not used if the other is set.
    """
    if not params or (found_inf is not None and found_inf.item()):
        return
    if scale is not None:
        grads = [g / scale for g in grads]
    if not all(isinstance(step, TensorBase) for step in remembered.get("step", ())):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    optimizer = kind.__new__(kind)
    given = [{name: values[at] for name, values in remembered.items() if values} for at in range(len(params))]
    made: Any = {p: dict(state) for p, state in zip(params, given)}
    optimizer.state = made
    whole(kind._apply)(optimizer, params, grads, {"differentiable": False, **options})
    for at, (p, state) in enumerate(zip(params, given)):
        for name, value in made[p].items():
            if state.get(name) is None:
                remembered[name][at] = value  # a buffer that did not exist yet
            elif value is not state[name]:  # a new tensor, of a step that is differentiated
                with set_grad_enabled(True):
                    state[name].copy_(value)


def adam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Make one step of `Adam`."""
    remembered = {
        "step": state_steps,
        "exp_avg": exp_avgs,
        "exp_avg_sq": exp_avg_sqs,
        "max_exp_avg_sq": max_exp_avg_sqs,
    }
    options = {
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "amsgrad": amsgrad,
        "maximize": maximize,
        "differentiable": differentiable,
        "decoupled_weight_decay": decoupled_weight_decay,
        "betas": (beta1, beta2),
    }
    _step(averaging.Adam, params, grads, remembered, options, grad_scale, found_inf)


def adamw(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    has_complex: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Make one step of `AdamW`."""
    adam(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        state_steps,
        differentiable=differentiable,
        grad_scale=grad_scale,
        found_inf=found_inf,
        decoupled_weight_decay=True,
        amsgrad=amsgrad,
        beta1=beta1,
        beta2=beta2,
        lr=lr,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
    )


def adamax(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_infs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: Any,
    weight_decay: float,
) -> None:
    """Make one step of `Adamax`."""
    remembered = {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}
    options = {
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "maximize": maximize,
        "differentiable": differentiable,
        "betas": (beta1, beta2),
    }
    _step(averaging.Adamax, params, grads, remembered, options)


def nadam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    mu_products: Tensors,
    state_steps: Tensors,
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: Any,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """Make one step of `NAdam`."""
    remembered = {"step": state_steps, "mu_product": mu_products, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    options = {
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "momentum_decay": momentum_decay,
        "decoupled_weight_decay": decoupled_weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
        "betas": (beta1, beta2),
    }
    _step(averaging.NAdam, params, grads, remembered, options)


def radam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state_steps: Tensors,
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: Any,
    weight_decay: float,
    eps: float,
) -> None:
    """Make one step of `RAdam`."""
    remembered = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    options = {
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "decoupled_weight_decay": decoupled_weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
        "betas": (beta1, beta2),
    }
    _step(averaging.RAdam, params, grads, remembered, options)


def sgd(
    params: Tensors,
    d_p_list: Tensors,
    momentum_buffer_list: Tensors,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Make one step of `SGD`."""
    remembered = {"momentum_buffer": momentum_buffer_list}
    options = {
        "lr": lr,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "dampening": dampening,
        "nesterov": nesterov,
        "maximize": maximize,
    }
    _step(descent.SGD, params, d_p_list, remembered, options, grad_scale, found_inf)


def asgd(
    params: Tensors,
    grads: Tensors,
    axs: Tensors,
    mus: Tensors,
    etas: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: Any,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """Make one step of `ASGD`."""
    remembered = {"step": state_steps, "ax": axs, "mu": mus, "eta": etas}
    options = {
        "lr": lr,
        "weight_decay": weight_decay,
        "lambd": lambd,
        "t0": t0,
        "alpha": alpha,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step(descent.ASGD, params, grads, remembered, options)


def adagrad(
    params: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: Any,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Make one step of `Adagrad`."""
    remembered = {"step": state_steps, "sum": state_sums}
    options = {
        "lr": lr,
        "weight_decay": weight_decay,
        "lr_decay": lr_decay,
        "eps": eps,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step(descent.Adagrad, params, grads, remembered, options, grad_scale, found_inf)


def adadelta(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    acc_deltas: Tensors,
    state_steps: Tensors,
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: Any,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Make one step of `Adadelta`."""
    remembered = {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}
    options = {
        "lr": lr,
        "rho": rho,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step(descent.Adadelta, params, grads, remembered, options)


def rmsprop(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    grad_avgs: Tensors,
    momentum_buffer_list: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: Any,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """Make one step of `RMSprop`."""
    remembered = {
        "step": state_steps,
        "square_avg": square_avgs,
        "grad_avg": grad_avgs,
        "momentum_buffer": momentum_buffer_list,
    }
    options = {
        "lr": lr,
        "alpha": alpha,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": centered,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step(descent.RMSprop, params, grads, remembered, options)


def rprop(
    params: Tensors,
    grads: Tensors,
    prevs: Tensors,
    step_sizes: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """Make one step of `Rprop`."""
    remembered = {"step": state_steps, "prev": prevs, "step_size": step_sizes}
    options = {
        "maximize": maximize,
        "differentiable": differentiable,
        "lr": 0.0,
        "etas": (etaminus, etaplus),
        "step_sizes": (step_size_min, step_size_max),
    }
    _step(descent.Rprop, params, grads, remembered, options)


def sparse_adam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """Make one step of `SparseAdam`, `state_steps` being those after it."""
    group = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "maximize": maximize}
    for p, grad, mean, square, step in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps):
        averaging.update_rows(p, grad, {"step": step, "exp_avg": mean, "exp_avg_sq": square}, group)


vars(averaging).update({step.__name__: step for step in (adam, adamax, adamw, nadam, radam)})
vars(descent).update({step.__name__: step for step in (adadelta, adagrad, asgd, rmsprop, rprop, sgd)})
