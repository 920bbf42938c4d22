"""A schedule by a measured value: the learning rate falls when the value no longer improves."""

from __future__ import annotations

import math
import warnings
from typing import Literal, SupportsFloat

from ..core.interrupts import whole
from .optimizer import Optimizer
from .scheduler import EPOCH_DEPRECATION_WARNING, LRScheduler, _check_optimizer, _set, _values


class ReduceLROnPlateau(LRScheduler):
    """Decay by a factor when a measured value has not improved for more than `patience` epochs.

    Then ``lr = max(lr * factor, min_lr)``. `step` takes the measured value, such as the loss on validation data.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    mode : {"min", "max"}, default "min"
        Whether less is better, or more.
    factor : float, default 0.1
        The factor, less than 1.
    patience : int, default 10
        How many epochs without improvement are tolerated.
    threshold : float, default 1e-4
        By how much a value must be better than the best so far.
    threshold_mode : {"rel", "abs"}, default "rel"
        Whether `threshold` is a share of the best value, or a difference from it.
    cooldown : int, default 0
        How many epochs after a decay are not counted.
    min_lr : float or list of float, default 0
        The least learning rate, for all groups or for each.
    eps : float, default 1e-8
        Learning rates are not changed by less.

    Raises
    ------
    ValueError
        If `factor` is not less than 1, or a mode is unknown.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = adjoint.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in [5.0, 4.0, 4.0, 4.0]:
    ...     optimizer.step()
    ...     schedule.step(loss)
    ...     print(loss, optimizer.param_groups[0]["lr"])
    5.0 1.0
    4.0 1.0
    4.0 1.0
    4.0 0.1
    """

    __module__ = "adjoint.optim.lr_scheduler"

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
        """Record the measured value of an epoch, and decay the learning rate if due."""
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
