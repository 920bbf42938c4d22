"""Schedules that go up and down again: cycles of learning rate and momentum."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, Literal

from .optimizer import Optimizer
from .scheduler import LRScheduler, _check_optimizer, _per_group, _set


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


def _begin_momentum(optimizer: Optimizer, use_beta1: bool, lows: list[Any], highs: list[Any]) -> None:
    for group, low, high in zip(optimizer.param_groups, lows, highs):
        _set_momentum(group, use_beta1, high)
        group["max_momentum"], group["base_momentum"] = high, low


class CyclicLR(LRScheduler):
    """Move the learning rate up and down between two bounds (Smith 2017), the momentum down and up.

    Call ``step`` after every batch.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    base_lr : float or list of float
        The lower bound, of all groups or a list of one per group.
    max_lr : float or list of float
        The upper bound.
    step_size_up : int, default 2000
        Steps from the lower bound to the upper one.
    step_size_down : int, optional
        Steps back; `step_size_up` by default.
    mode : {"triangular", "triangular2", "exp_range"}, default "triangular"
        The height of the cycles: constant, halved each time, or scaled by ``gamma ** step``.
    gamma : float, default 1.0
        The factor of "exp_range".
    scale_fn : callable, optional
        Called with the number of the cycle or the step, returns the height; in place of `mode`.
    scale_mode : {"cycle", "iterations"}, default "cycle"
        What `scale_fn` is called with.
    cycle_momentum : bool, default True
        Whether to change the momentum, too.
    base_momentum : float, default 0.8
        Its lower bound.
    max_momentum : float, default 0.9
        Its upper bound.
    last_epoch : int, default -1
        Go on after this step: then the groups must have ``"initial_lr"``. -1 starts anew.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=0.1)
    >>> schedule = adjoint.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, step_size_up=2, cycle_momentum=False)
    >>> for epoch in range(6):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 0.1
    1 0.55
    2 1.0
    3 0.55
    4 0.1
    5 0.55
    """

    __module__ = "adjoint.optim.lr_scheduler"

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
            self.use_beta1 = _momentum_key(optimizer) == "betas"
            self.base_momentums = _per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = _per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                _begin_momentum(optimizer, self.use_beta1, self.base_momentums, self.max_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

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
        """Return everything but the optimizer; of a scaling function only the attributes of a callable object."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        plain = function is None or isinstance(function, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        attributes = state_dict.get("_scale_fn_custom")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(LRScheduler):
    """Raise the learning rate to `max_lr` once, then lower it for long (Smith & Topin 2018); the momentum inversely.

    Call ``step`` after every batch.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` are set.
    max_lr : float or list of float
        The largest learning rate, of all groups or a list of one per group.
    total_steps : int, optional
        Number of steps in all; by default ``epochs * steps_per_epoch``.
    epochs : int, optional
        Number of epochs.
    steps_per_epoch : int, optional
        Steps in an epoch.
    pct_start : float, default 0.3
        Fraction of the steps that the rise takes.
    anneal_strategy : {"cos", "linear"}, default "cos"
        Along a cosine or a line.
    cycle_momentum : bool, default True
        Whether to change the momentum, too.
    base_momentum : float or list of float, default 0.85
        Its lower bound.
    max_momentum : float or list of float, default 0.95
        Its upper bound.
    div_factor : float, default 25.0
        The first learning rate is ``max_lr / div_factor``.
    final_div_factor : float, default 10000.0
        The last one is the first one divided by this.
    three_phase : bool, default False
        Whether the fall first mirrors the rise and then goes on to the last learning rate.
    last_epoch : int, default -1
        Go on after this step: then the groups must have ``"initial_lr"``. -1 starts anew.

    Raises
    ------
    ValueError
        If neither `total_steps` nor `epochs` and `steps_per_epoch` are given.

    Examples
    --------
    >>> optimizer = adjoint.optim.SGD([adjoint.ones(2, requires_grad=True)], lr=0.1)
    >>> schedule = adjoint.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=6, cycle_momentum=False)
    >>> for epoch in range(5):
    ...     print(epoch, round(optimizer.param_groups[0]["lr"], 4))
    ...     optimizer.step()
    ...     schedule.step()
    0 0.04
    1 0.9944
    2 0.8117
    3 0.4626
    4 0.1335
    """

    __module__ = "adjoint.optim.lr_scheduler"

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
                _begin_momentum(optimizer, self.use_beta1, lows, highs)
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
    """Interpolate between `start` and `end` at the fraction `done`, by a cosine or linearly."""
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
