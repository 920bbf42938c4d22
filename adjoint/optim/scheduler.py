"""`LRScheduler`: the base of schedules, which set the ``"lr"`` of an optimizer's groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import ref

from ..core.interrupts import whole
from ..core.tensor import TensorBase
from .optimizer import Optimizer

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
    """Set an option of a group; a tensor is filled in place."""
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
    """Base of schedules of learning rates: `step`, called once an epoch after the optimizer's, sets the next ones.

    A subclass defines `get_lr`, which returns a learning rate for each group. `last_epoch` counts the epochs from 0,
    `base_lrs` has the learning rates of the start, and `get_last_lr` returns those that were set last.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    last_epoch : int, default -1
        The epoch to resume after; the groups must then have ``"initial_lr"``. -1 starts from the beginning.

    Raises
    ------
    KeyError
        If `last_epoch` is not -1 and a group has no ``"initial_lr"``.

    Examples
    --------
    >>> class Halving(adjoint.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base * 0.5**self.last_epoch for base in self.base_lrs]
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=0.8)
    >>> schedule = Halving(optimizer)
    >>> for epoch in range(3):
    ...     print(schedule.last_epoch, schedule.get_last_lr())
    ...     optimizer.step()
    ...     schedule.step()
    0 [0.8]
    1 [0.4]
    2 [0.2]
    """

    __module__ = "adjoint.optim.lr_scheduler"

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
        """Restore the state that `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates that were set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the learning rates of this step."""
        raise NotImplementedError

    @whole
    def step(self, epoch: int | None = None) -> None:
        """Advance by one step and set its learning rates."""
        if self._step_count == 1:
            _warn_of_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=3)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            self._set_lrs(self.get_lr)
        else:
            self.last_epoch = epoch
            self._set_lrs(getattr(self, "_get_closed_form_lr", self.get_lr))

    def _set_lrs(self, compute: Callable[[], list[Any]]) -> None:
        """Set the learning rates that a function computes, which may then call `get_lr`."""
        self._get_lr_called_within_step = True
        try:
            values = compute()
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
    """Wrap `optimizer.step` to record that it was called."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function = optimizer.step.__func__
    itself = ref(optimizer)  # a bound method here would be a reference cycle: the optimizer would stay alive

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
