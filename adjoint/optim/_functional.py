"""Steps of optimizers as functions: parameters, gradients and state come as lists of tensors.

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


# Arguments that are no options of an update: what is updated, and how torch would compute it.
_NOT_OPTIONS = {"foreach", "capturable", "fused", "has_complex", "has_sparse_grad", "grad_scale", "found_inf"}


def _step(
    kind: type[Elementwise], params: Tensors, grads: Tensors, arguments: dict[str, Any], **state: Tensors
) -> None:
    """Make one step of an optimizer.

    `arguments` are those of the caller, named as the options of the optimizer. `state` has its state in lists by name.
    """
    scale, found_inf = arguments.get("grad_scale"), arguments.get("found_inf")
    if not params or (found_inf is not None and found_inf.item()):
        return
    if scale is not None:
        grads = [g / scale for g in grads]
    if not all(isinstance(step, TensorBase) for step in state.get("step", ())):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    options = {k: v for k, v in arguments.items() if k not in _NOT_OPTIONS and not isinstance(v, list)}
    if "beta1" in options:
        options["betas"] = options.pop("beta1"), options.pop("beta2")
    optimizer = kind.__new__(kind)
    given = [{name: values[at] for name, values in state.items() if values} for at in range(len(params))]
    made: Any = {p: dict(saved) for p, saved in zip(params, given)}
    optimizer.state = made
    whole(kind._apply)(optimizer, params, grads, {"differentiable": False, **options})
    for at, (p, saved) in enumerate(zip(params, given)):
        for name, value in made[p].items():
            if saved.get(name) is None:
                state[name][at] = value  # a buffer that did not exist yet
            elif value is not saved[name]:  # a new tensor, of a step that is differentiated
                with set_grad_enabled(True):
                    saved[name].copy_(value)


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
    _step(
        averaging.Adam, params, grads, locals(), step=state_steps, exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs,
        max_exp_avg_sq=max_exp_avg_sqs,
    )  # fmt: skip


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
    adam(**locals(), decoupled_weight_decay=True)


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
    _step(averaging.Adamax, params, grads, locals(), step=state_steps, exp_avg=exp_avgs, exp_inf=exp_infs)


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
    _step(
        averaging.NAdam, params, grads, locals(), step=state_steps, mu_product=mu_products, exp_avg=exp_avgs,
        exp_avg_sq=exp_avg_sqs,
    )  # fmt: skip


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
    _step(averaging.RAdam, params, grads, locals(), step=state_steps, exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs)


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
    _step(descent.SGD, params, d_p_list, locals(), momentum_buffer=momentum_buffer_list)


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
    _step(descent.ASGD, params, grads, locals(), step=state_steps, ax=axs, mu=mus, eta=etas)


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
    _step(descent.Adagrad, params, grads, locals(), step=state_steps, sum=state_sums)


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
    _step(descent.Adadelta, params, grads, locals(), step=state_steps, square_avg=square_avgs, acc_delta=acc_deltas)


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
    _step(
        descent.RMSprop, params, grads, locals(), step=state_steps, square_avg=square_avgs, grad_avg=grad_avgs,
        momentum_buffer=momentum_buffer_list,
    )  # fmt: skip


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
    options = {
        "lr": 0.0, "etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max), "maximize": maximize,
        "differentiable": differentiable,
    }  # fmt: skip
    _step(descent.Rprop, params, grads, options, step=state_steps, prev=prevs, step_size=step_sizes)


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
