"""Schedules of learning rates: each changes the ``"lr"`` of an optimizer's groups, step by step."""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal, SupportsFloat
from weakref import ref

from ..core.interrupts import whole
from ..core.tensor import TensorBase
from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available."
)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, TensorBase) else value  # type: ignore[attr-defined]


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, TensorBase) else value  # type: ignore[attr-defined]


def _values(optimizer: Optimizer, key: str) -> list[Any]:
    return [v if type(v := group[key]) is float else _copied(v) for group in optimizer.param_groups]


def _set(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; a tensor there keeps its identity."""
    if isinstance(group[key], TensorBase):
        group[key].fill_(_number(value))  # type: ignore[attr-defined]
    else:
        group[key] = value


def _per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return one value for each group: the given list, or the given value again and again."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}."
        )
    return [_copied(v) for v in value]


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Base of schedules: `get_lr` gives the learning rates of a step, which `step` sets."""

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0. Load the optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs: list[Any] = _values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_step(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the learning rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates that were set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this step."""
        raise NotImplementedError

    @whole
    def step(self, epoch: int | None = None) -> None:
        """Go on by one step and set its learning rates."""
        if self._step_count == 1:
            _warn_of_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=3)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = self.get_lr() if closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            if type(group["lr"]) is float:
                group["lr"] = lr
            else:
                _set(group, "lr", lr)
        self._last_lr: list[Any] = _values(self.optimizer, "lr")

    # --- For subclasses ---

    def _warn_unless_stepping(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _current(self) -> list[Any]:
        return _values(self.optimizer, "lr")

    def _scaled(self, factor: float) -> list[Any]:
        return [lr * factor for lr in self._current()]


class _LRScheduler(LRScheduler):
    """The name of `LRScheduler` in older programs."""


def _watch_step(optimizer: Any) -> None:
    """Let the optimizer remember whether it has stepped."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function = optimizer.step.__func__
    itself = ref(optimizer)  # a method here would keep the optimizer alive, for it would hold itself

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        self: Any = itself()
        self._opt_called = True
        return function(self, *args, **kwargs)

    wrapper._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = wrapper


_MORE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _warn_of_order(optimizer: Any) -> None:
    if not hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        warnings.warn(
            "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, "
            f"make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_MORE}",
            UserWarning,
            stacklevel=4,
        )
    elif not getattr(optimizer, "_opt_called", False):
        warnings.warn(
            "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should "
            "call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. Otherwise the first "
            f"value of the learning rate schedule is skipped. {_MORE}",
            UserWarning,
            stacklevel=4,
        )


# --- By a function -------------------------------------------------------------------------------------


class _ByFunctions(LRScheduler):
    """A schedule given by a function of the epoch, or one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
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
        """Take over what `state_dict` gave."""
        saved = state_dict["lr_lambdas"]
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, saved):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_ByFunctions):
    """The first learning rate times a function of the epoch."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this epoch."""
        self._warn_unless_stepping()
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunctions):
    """The last learning rate times a function of the epoch."""

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
    """Decay by `gamma` every `step_size` epochs."""

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
    """Decay by `gamma` at each of the milestones."""

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
    """A smaller learning rate for the first `total_iters` epochs."""

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
    """A factor that goes from `start_factor` to `end_factor` in `total_iters` epochs."""

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
    """Decay by `gamma` every epoch."""

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
    """Decay to zero in `total_iters` epochs, along a power of what is left."""

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
    """Half a cosine from the first learning rate to `eta_min` in `T_max` epochs, and back."""

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
    """Cosine annealing that starts anew after `T_0` epochs, then after `T_mult` times as many, and so on."""

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
        """Go on by one epoch, or to `epoch`, which may be a fraction within one."""
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
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            _set(group, "lr", lr)
        self._last_lr = _values(self.optimizer, "lr")

    def _place(self, epoch: Any) -> None:
        """Find the period in which an epoch lies."""
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
        """Take over what `state_dict` gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class SequentialLR(_OfSchedulers):
    """One schedule after the other, each from its milestone on."""

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
        """Take back the first step of every schedule, also of those within schedules."""
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for inner in sched._schedulers:
                self.recursive_undo(inner)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    @whole
    def step(self) -> None:  # type: ignore[override]
        """Go on by one step, with the schedule whose turn it is."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_OfSchedulers):
    """Several schedules at once, each changing what the one before has set."""

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
        """Go on by one step with every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self.optimizer, "lr")


# --- By what is measured -------------------------------------------------------------------------------


class ReduceLROnPlateau(LRScheduler):
    """Decay by `factor` when a measured value has not improved for `patience` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        self.default_min_lr: float | None
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != count:
                raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
            self.default_min_lr, self.min_lrs = None, list(min_lr)
        else:
            self.default_min_lr, self.min_lrs = min_lr, [min_lr] * count
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = _values(optimizer, "lr")
        if mode not in {"min", "max"}:
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in {"rel", "abs"}:
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    @whole
    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take an epoch's measured value, and decay if it is time."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=3)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = _values(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _set(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether the learning rate was reduced a short while ago."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if self.threshold_mode == "rel":
            return sign * a > sign * best * (1.0 + sign * self.threshold)
        return sign * a > sign * best + self.threshold

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)


# --- Cycles --------------------------------------------------------------------------------------------


def _momentum_key(optimizer: Optimizer) -> str:
    for key in ("momentum", "betas"):
        if key in optimizer.defaults:
            return key
    raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")


def _set_momentum(group: dict[str, Any], use_beta1: bool, value: Any) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """The learning rate goes up and down between two bounds (Smith 2017), the momentum down and up."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = _per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs):
                _set(group, "lr", lr)
        self.max_lrs = _per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size, self.step_ratio = up + down, up / (up + down)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        by_cycle = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = by_cycle
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _prepare_momentum(self, base: Any, largest: Any, last_epoch: int) -> None:
        self.use_beta1 = _momentum_key(self.optimizer) == "betas"
        self.base_momentums = _per_group("base_momentum", self.optimizer, base)
        self.max_momentums = _per_group("max_momentum", self.optimizer, largest)
        if last_epoch != -1:
            return
        for group, high, low in zip(self.optimizer.param_groups, self.max_momentums, self.base_momentums):
            _set_momentum(group, self.use_beta1, high)
            group["max_momentum"], group["base_momentum"] = high, low

    def scale_fn(self, x: float) -> float:
        """Return how high the cycle, or iteration, `x` goes."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this iteration, and set its momentum."""
        self._warn_unless_stepping()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        share *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums)
            for group, low, high in bounds:
                _set_momentum(group, self.use_beta1, high - (high - low) * share)
        return [low + (high - low) * share for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer; of a scaling function only what a callable object holds."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        plain = function is None or isinstance(function, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        attributes = state_dict.get("_scale_fn_custom")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(LRScheduler):
    """One rise to `max_lr` and one long fall (Smith & Topin 2018), the momentum the other way round."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, _per_group("max_lr", optimizer, max_lr)):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_key(optimizer) == "betas"
            if last_epoch == -1:
                lows = _per_group("base_momentum", optimizer, base_momentum)
                highs = _per_group("max_momentum", optimizer, max_momentum)
                for group, low, high in zip(optimizer.param_groups, lows, highs):
                    _set_momentum(group, self.use_beta1, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this step, and set its momentum."""
        self._warn_unless_stepping()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                done = (step - start) / (phase["end_step"] - start)
                break
            start = phase["end_step"]
        values = []
        for group in self.optimizer.param_groups:
            values.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                momentum = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], done)
                _set_momentum(group, self.use_beta1, momentum)
        return values

    def _between(self, start: Any, end: Any, done: float) -> Any:
        return anneal(self._anneal_func_type, start, end, done)


def anneal(strategy: str, start: Any, end: Any, done: float) -> Any:
    """Return the value at a share `done` of the way from `start` to `end`, by a cosine or a line."""
    if strategy == "cos":
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
    return (end - start) * done + start


def _total_steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    if total_steps is not None:
        _check_positive("total_steps", total_steps)
        return int(total_steps)
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    _check_positive("epochs", epochs)
    _check_positive("steps_per_epoch", steps_per_epoch)
    return int(epochs * steps_per_epoch)


def _check_positive(name: str, value: Any) -> None:
    if value <= 0 or not isinstance(value, int):
        raise ValueError(f"Expected positive integer {name}, but got {value}")


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """Return the phases of one cycle: up and down, or up, down and further down."""

    def phase(end: float, lrs: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end, "start_lr": lrs[0], "end_lr": lrs[1],
            "start_momentum": momenta[0], "end_momentum": momenta[1],
        }  # fmt: skip

    up = phase(share * total - 1, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum"))
    if not three:
        return [up, phase(total - 1, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))]
    return [
        up,
        phase(2 * share * total - 2, ("max_lr", "initial_lr"), ("base_momentum", "max_momentum")),
        phase(total - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
    ]


# --- Names that packages import from torch's module though they are private there ---------------------

_format_param, _param_groups_val_list, _update_param_group_val = _per_group, _values, _set


@contextmanager
def _enable_get_lr_call(scheduler: LRScheduler) -> Iterator[LRScheduler]:
    """Let a schedule's `get_lr` be called inside the context, as its `step` does."""
    scheduler._get_lr_called_within_step = True
    try:
        yield scheduler
    finally:
        scheduler._get_lr_called_within_step = False


def _warn_get_lr_called_within_step(scheduler: LRScheduler) -> None:
    scheduler._warn_unless_stepping()
