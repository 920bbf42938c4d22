"""Averages of a model's weights over its training, and the schedule that goes with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, Literal

from ..autograd.grad_mode import no_grad
from ..core.dtypes import int64
from ..core.interrupts import whole
from ..nn.modules.module import Module
from ..ops.create import zeros
from .cycles import anneal
from .optimizer import Optimizer
from .scheduler import LRScheduler, _per_group

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """Return the function that averages one parameter exponentially.

    Parameters
    ----------
    decay : float, default 0.999
        Weight of the old average.

    Returns
    -------
    callable
        For `AveragedModel`: ``decay * average + (1 - decay) * value``.

    Examples
    --------
    >>> w, new = adjoint.tensor(1.0), adjoint.tensor(2.0)
    >>> adjoint.optim.swa_utils.get_ema_avg_fn(0.9)(w, new, adjoint.tensor(1))
    tensor(1.1000)
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """Return the function that averages one parameter, all values with the same weight.

    Returns
    -------
    callable
        For `AveragedModel`: ``average + (value - average) / (count + 1)``.

    Examples
    --------
    >>> w, new = adjoint.tensor(1.0), adjoint.tensor(2.0)
    >>> adjoint.optim.swa_utils.get_swa_avg_fn()(w, new, adjoint.tensor(1))
    tensor(1.5000)
    """

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Return the function that averages lists of parameters exponentially, in place.

    Parameters
    ----------
    decay : float, default 0.999
        Weight of the old average.

    Returns
    -------
    callable
        For `AveragedModel`: ``decay * average + (1 - decay) * value``, in place.

    Examples
    --------
    >>> w, new = adjoint.tensor(1.0), adjoint.tensor(2.0)
    >>> adjoint.optim.swa_utils.get_ema_multi_avg_fn(0.9)([w], [new], adjoint.tensor(1))
    >>> w
    tensor(1.1000)
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        for average, current in zip(ema_param_list, current_param_list):
            _move(average, current, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Return the function that averages lists of parameters in place, all values with the same weight.

    Returns
    -------
    callable
        For `AveragedModel`: ``average + (value - average) / (count + 1)``, in place.

    Examples
    --------
    >>> w, new = adjoint.tensor(1.0), adjoint.tensor(2.0)
    >>> adjoint.optim.swa_utils.get_swa_multi_avg_fn()([w], [new], adjoint.tensor(1))
    >>> w
    tensor(1.5000)
    """

    @no_grad()
    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        for average, current in zip(averaged_param_list, current_param_list):
            _move(average, current, 1 / (float(num_averaged) + 1))

    return swa_update


def _move(average: Any, current: Any, share: float) -> None:
    """Move an average towards a value; averages of integers are truncated to integers."""
    change = (current - average) * share
    if average.is_floating_point() or average.is_complex():
        average.add_(change)
    else:
        average.copy_(average + change)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's at every `update_parameters`.

    Parameters
    ----------
    model : Module
        The model; it is copied.
    device : device, optional
        Where the averages are; where the model is by default.
    avg_fn : callable, optional
        Called with the average, the new value and the number of averaged models, returns the new average. The mean of
        all by default.
    multi_avg_fn : callable, optional
        The same for lists of parameters, in place.
    use_buffers : bool, default False
        Whether buffers are averaged, too; otherwise they are copied.

    Examples
    --------
    >>> model = adjoint.nn.Linear(2, 1)
    >>> average = adjoint.optim.swa_utils.AveragedModel(model)
    >>> average.update_parameters(model)
    >>> average.n_averaged
    tensor(1)
    """

    n_averaged: Any

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        assert avg_fn is None or multi_avg_fn is None, "Only one of avg_fn and multi_avg_fn should be provided"
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the averaged model."""
        return self.module(*args, **kwargs)

    @whole
    def update_parameters(self, model: Any) -> None:
        """Update the averages with the parameters of `model`."""
        mine, theirs = _averaged(self.module, self.use_buffers), _averaged(model, self.use_buffers)
        pairs = [(a, b.detach().to(a.device)) for a, b in zip(mine, theirs)]
        averages, currents = [a.detach() for a, _ in pairs], [b for _, b in pairs]
        if int(self.n_averaged) == 0:
            for average, current in zip(averages, currents):
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in zip(averages, currents):
                average.copy_(self.avg_fn(average, current, self.n_averaged.to(average.device)))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, currents, self.n_averaged)
        if not self.use_buffers:
            for ours, other in zip(self.module.buffers(), model.buffers()):
                ours.detach().copy_(other.detach().to(ours.device))
        self.n_averaged += 1


def _averaged(model: Any, use_buffers: bool) -> Iterable[Any]:
    return chain(model.parameters(), model.buffers()) if use_buffers else model.parameters()


@no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Compute the running statistics of a model's batch norms anew, from the inputs that `loader` gives.

    Parameters
    ----------
    loader : iterable
        Batches of inputs; of lists or tuples the first item.
    model : Module
        Its batch norms are reset and then run in training mode.
    device : device, optional
        Where to move the inputs first.

    Examples
    --------
    >>> model = adjoint.nn.BatchNorm1d(1)
    >>> adjoint.optim.swa_utils.update_bn([adjoint.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    from ..nn.modules.batchnorm import _BatchNorm

    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        input = batch[0] if isinstance(batch, list | tuple) else batch
        model(input if device is None else input.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Anneal to a constant learning rate, that of the epochs whose weights are averaged.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    swa_lr : float or list of float
        The last learning rate, of all groups or a list of one per group.
    anneal_epochs : int, default 10
        Number of epochs until then.
    anneal_strategy : {"cos", "linear"}, default "cos"
        Along a cosine or a line.
    last_epoch : int, default -1
        Go on after this epoch; -1 starts anew.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.swa_utils.SWALR(optimizer, swa_lr=0.1, anneal_epochs=3, anneal_strategy="linear")
    >>> for epoch in range(5):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 0.7
    2 0.4
    3 0.1
    4 0.1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, lr in zip(optimizer.param_groups, _per_group("swa_lr", optimizer, swa_lr)):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        # The share of the last epoch is taken back out, so that other schedules may act on the same rates.
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = max(0.0, min(1.0, (step - 1) / max(1, self.anneal_epochs)))
        now = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return [
            anneal(self._anneal_strategy, _origin(self._anneal_strategy, group, before), group["swa_lr"], now)
            for group in self.optimizer.param_groups
        ]


def _origin(strategy: str, group: dict[str, Any], done: float) -> Any:
    """Return the learning rate that annealing started from, given the one at the fraction `done`."""
    goal = group["swa_lr"]
    share = anneal(strategy, 0.0, 1.0, done)  # the weight of the goal
    return goal if share == 1 else (group["lr"] - share * goal) / (1 - share)
