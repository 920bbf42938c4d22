"""Learning-rate schedules: each changes the ``"lr"`` of an optimizer's groups, step by step."""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.interrupts import whole
from .cycles import CyclicLR, OneCycleLR
from .optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .scheduler import (
    LRScheduler,
    _per_group,
    _set,
    _values,
)

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

# --- By a function -------------------------------------------------------------------------------------


class _ByFunctions(LRScheduler):
    """A schedule given by a function of the epoch, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = optimizer
        if isinstance(lr_lambda, list | tuple):
            if len(lr_lambda) != len(optimizer.param_groups):
                raise ValueError(f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * len(optimizer.param_groups)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and the functions; of callable objects, their attributes."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        saved = state_dict["lr_lambdas"]
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, saved):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_ByFunctions):
    """The first learning rate times a function of the epoch: ``lr = base_lr * lr_lambda(epoch)``.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    lr_lambda : callable or list of callable
        Takes the epoch, from 0, and returns a factor; or one function for each group.
    last_epoch : int, default -1
        The epoch to resume after; the groups must then have ``"initial_lr"``. -1 starts from the beginning.

    Raises
    ------
    ValueError
        If the number of functions is not that of the groups.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1))
    >>> for epoch in range(3):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 0.5
    2 0.3333
    """

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunctions):
    """Multiply the last learning rate by a function of the epoch.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    lr_lambda : callable or list of callable
        Called with the epoch, returns a factor; or one such function per group.
    last_epoch : int, default -1
        Go on after this epoch: then the groups must have ``"initial_lr"``. -1 starts anew.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> for epoch in range(3):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 0.5
    2 0.25
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        for function in lr_lambda if isinstance(lr_lambda, list | tuple) else (lr_lambda,):
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        if self._is_initial:
            return self._current()
        return [lr * function(self.last_epoch) for function, lr in zip(self.lr_lambdas, self._current(), strict=True)]


# --- By a factor ---------------------------------------------------------------------------------------


class StepLR(LRScheduler):
    """Decay by a factor every few epochs: ``lr = base_lr * gamma ** (epoch // step_size)``.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    step_size : int
        After how many epochs the learning rate decays.
    gamma : float, default 0.1
        The factor.
    last_epoch : int, default -1
        The epoch to resume after; the groups must then have ``"initial_lr"``. -1 starts from the beginning.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    >>> for epoch in range(4):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 1.0
    2 0.1
    3 0.1
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if due else self._current()

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Decay by a factor at given epochs: ``lr = base_lr * gamma ** (number of milestones passed)``.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    milestones : iterable of int
        The epochs at which the learning rate decays.
    gamma : float, default 0.1
        The factor.
    last_epoch : int, default -1
        The epoch to resume after; the groups must then have ``"initial_lr"``. -1 starts from the beginning.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3])
    >>> for epoch in range(4):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 0.1
    2 0.1
    3 0.01
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        if self.last_epoch not in self.milestones:
            return self._current()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiply the learning rate by `factor` for the first `total_iters` epochs.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    factor : float, default 0.3333333333333333
        The factor.
    total_iters : int, default 5
        Number of epochs.
    last_epoch : int, default -1
        Go on after this epoch: then the groups must have ``"initial_lr"``. -1 starts anew.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> for epoch in range(4):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 0.5
    1 0.5
    2 1.0
    3 1.0
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else self._current()

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiply the learning rate by a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    start_factor : float, default 0.3333333333333333
        The first factor.
    end_factor : float, default 1.0
        The last factor.
    total_iters : int, default 5
        Number of epochs.
    last_epoch : int, default -1
        Go on after this epoch: then the groups must have ``"initial_lr"``. -1 starts anew.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> for epoch in range(4):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 0.5
    1 0.75
    2 1.0
    3 1.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Decay by a factor every epoch: ``lr = base_lr * gamma ** epoch``.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    gamma : float
        The factor.
    last_epoch : int, default -1
        The epoch to resume after; the groups must then have ``"initial_lr"``. -1 starts from the beginning.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> for epoch in range(4):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 0.5
    2 0.25
    3 0.125
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        return self._current() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Decay to zero in `total_iters` epochs: ``lr = base_lr * (1 - epoch / total_iters) ** power``.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    total_iters : int, default 5
        Number of epochs.
    power : float, default 1.0
        The power.
    last_epoch : int, default -1
        Go on after this epoch: then the groups must have ``"initial_lr"``. -1 starts anew.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
    >>> for epoch in range(5):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 0.5625
    2 0.25
    3 0.0625
    4 0.0
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left = (self.total_iters - self.last_epoch) / (self.total_iters - (self.last_epoch - 1))
        return self._scaled(left**self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate to `eta_min` in `T_max` epochs (Loshchilov and Hutter, 2017).

    ``lr = eta_min + (base_lr - eta_min) * (1 + cos(π * epoch / T_max)) / 2``. After `T_max` epochs it rises again.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    T_max : int
        How many epochs the way down takes.
    eta_min : float, default 0.0
        The least learning rate.
    last_epoch : int, default -1
        The epoch to resume after; the groups must then have ``"initial_lr"``. -1 starts from the beginning.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> for epoch in range(5):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 0.8536
    2 0.5
    3 0.1464
    4 0.0
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        epoch, period, least = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and epoch > 0:
            return [least + (base - least) * (1 + math.cos(epoch * math.pi / period)) / 2 for base in self.base_lrs]
        if (epoch - 1 - period) % (2 * period) == 0:
            rise = (1 - math.cos(math.pi / period)) / 2
            return [lr + (base - least) * rise for base, lr in zip(self.base_lrs, self._current())]
        ratio = (1 + math.cos(math.pi * epoch / period)) / (1 + math.cos(math.pi * (epoch - 1) / period))
        return [ratio * (lr - least) + least for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that restarts after `T_0` epochs, then after `T_mult` times as many, and so on.

    ``lr = eta_min + (base_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2``, T_cur epochs after the last restart.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    T_0 : int
        Epochs until the first restart.
    T_mult : int, default 1
        Factor by which each period is longer than the one before.
    eta_min : float, default 0.0
        The least learning rate.
    last_epoch : int, default -1
        Go on after this epoch: then the groups must have ``"initial_lr"``. -1 starts anew.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for epoch in range(5):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 1.0
    1 0.5
    2 1.0
    3 0.5
    4 1.0
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min, self.T_cur = T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    @whole
    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or to `epoch`, which may be fractional."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._set_lrs(self.get_lr)

    def _place(self, epoch: Any) -> None:
        """Find the period that contains an epoch."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


# --- Of several schedules ------------------------------------------------------------------------------


def _check_schedulers(kind: str, schedulers: Any, optimizer: Any) -> None:
    for index, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{kind} at index {index} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{kind} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                f"specified when calling `step`, but got one at index {index} in the given schedulers sequence."
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{kind} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {index} has {scheduler.optimizer}, which is different from "
                f"{type(optimizer).__name__}."
            )


class _OfSchedulers(LRScheduler):
    """A schedule made of others, which its state dict carries."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer, and the state dicts of the schedules."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class SequentialLR(_OfSchedulers):
    """Use one schedule after the other, each from its milestone on.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    schedulers : sequence of LRScheduler
        The schedules, of `optimizer`.
    milestones : sequence of int
        The epochs at which the second, the third and so on begin.
    last_epoch : int, default -1
        Go on after this epoch: then the groups must have ``"initial_lr"``. -1 starts anew.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> warm = adjoint.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> decay = adjoint.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = adjoint.optim.lr_scheduler.SequentialLR(optimizer, [warm, decay], milestones=[2])
    >>> for epoch in range(5):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 0.1
    1 0.1
    2 1.0
    3 0.5
    4 0.25
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        _check_schedulers(type(self).__name__, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every schedule took its first step when it was made; only that of the one whose turn it is counts.
        for group in optimizer.param_groups:
            _set(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Undo the first step of every schedule, nested ones included."""
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for inner in sched._schedulers:
                self.recursive_undo(inner)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    @whole
    def step(self) -> None:  # type: ignore[override]
        """Advance the current schedule by one step."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_OfSchedulers):
    """Apply several schedules at once, each changing what the one before has set.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        The schedules, of one optimizer.
    optimizer : Optimizer, optional
        Their optimizer; taken from them by default.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> warm = adjoint.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> decay = adjoint.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = adjoint.optim.lr_scheduler.ChainedScheduler([warm, decay])
    >>> for epoch in range(4):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 0.1
    1 0.05
    2 0.25
    3 0.125
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        _check_schedulers(type(self).__name__, schedulers, optimizer)
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = _values(optimizer, "lr")

    @whole
    def step(self) -> None:  # type: ignore[override]
        """Advance every schedule by one step."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self.optimizer, "lr")


# --- Names that packages import from torch's module though they are private there ---------------------

_format_param, _param_groups_val_list, _update_param_group_val = _per_group, _values, _set


@contextmanager
def _enable_get_lr_call(scheduler: LRScheduler) -> Iterator[LRScheduler]:
    """Permit calls of a schedule's `get_lr` inside the context, as in its `step`."""
    scheduler._get_lr_called_within_step = True
    try:
        yield scheduler
    finally:
        scheduler._get_lr_called_within_step = False


def _warn_get_lr_called_within_step(scheduler: LRScheduler) -> None:
    scheduler._warn_unless_stepping()
