"""LBFGS: a quasi-Newton method with the curvature estimated from the last steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..autograd.grad_mode import enable_grad
from ..core.device import module_of
from ..core.interrupts import apart, came, deliver, whole
from ..core.nodes import wrap
from ..core.tensor import TensorBase
from .optimizer import Optimizer, ParamsT, check, check_lr, note_written

__all__ = ["LBFGS"]


class Point(NamedTuple):
    """A place on the line that is searched: how far, the loss, its gradient, and its slope along the line.

    The loss is a Python number. The slope, and a distance that was computed from slopes, are scalars in the
    parameters' dtype, so that the search rounds as the losses do: one that was more exact would find differences
    between losses where there are none.
    """

    t: Any
    loss: float
    gradient: Any
    slope: Any


def _cubic_minimum(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Return where the cubic through two points, by loss and slope, is least (Nocedal & Wright, eq. 3.59)."""
    if a.t > b.t:
        a, b = b, a
    low, high = bounds or (a.t, b.t)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:  # not a number, where the points coincide
        return (low + high) / 2.0
    d2 = np.sqrt(square)
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(t, low), high)


class WolfeSearch:
    """A line search that ends where the strong Wolfe conditions hold (Nocedal & Wright, algorithms 3.5 and 3.6)."""

    def __init__(
        self, at: Callable[[Any], Point], start: Point, span: Any, patience: int, tolerance: float = 1e-9,
        decrease: float = 1e-4, curvature: float = 0.9,
    ) -> None:  # fmt: skip
        self.at, self.start = at, start
        self.span, self.patience = span, patience  # span: the largest element of the direction
        self.tolerance, self.decrease, self.curvature = tolerance, decrease, curvature
        self.evaluations = 0

    def look(self, t: Any) -> Point:
        """Evaluate the loss at distance `t`."""
        self.evaluations += 1
        return self.at(t)

    def too_high(self, point: Point) -> bool:
        """Return whether the loss has not decreased as it should."""
        return bool(point.loss > self.start.loss + self.decrease * point.t * self.start.slope)

    def flat(self, point: Point) -> bool:
        """Return whether the slope has decreased as it should."""
        return bool(abs(point.slope) <= -self.curvature * self.start.slope)

    def run(self, t: Any) -> Point:
        """Return an acceptable point, the first guess being distance `t`."""
        with np.errstate(all="ignore"):  # a bracket may collapse, and a loss overflow
            tried, ends = self.bracket(t)
            return ends[0] if len(ends) == 1 else self.zoom(ends, tried)

    def bracket(self, t: Any) -> tuple[int, list[Point]]:
        """Return two points that bracket an acceptable one, or one that is acceptable."""
        before, point = self.start, self.look(t)
        for tried in range(self.patience):
            if self.too_high(point) or (tried > 1 and point.loss >= before.loss):
                return tried, [before, point]
            if self.flat(point):
                return tried, [point]
            if point.slope >= 0:
                return tried, [before, point]
            bounds = (point.t + 0.01 * (point.t - before.t), point.t * 10)
            t = _cubic_minimum(before, point, bounds)
            before, point = point, self.look(t)
        return self.patience, [self.start, point]

    def zoom(self, ends: list[Point], tried: int) -> Point:
        """Narrow a bracket until a point in it is acceptable, or nothing is left of it."""
        low = _lower(ends)
        stuck = False
        while tried < self.patience and not abs(ends[1].t - ends[0].t) * self.span < self.tolerance:
            t, stuck = _guess(ends, stuck)
            point = self.look(t)
            tried += 1
            if self.too_high(point) or point.loss >= ends[low].loss:
                ends[1 - low] = point
                low = _lower(ends)
                continue
            if self.flat(point):
                return point
            if point.slope * (ends[1 - low].t - ends[low].t) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
        return ends[low]


def _lower(ends: list[Point]) -> int:
    return 0 if ends[0].loss <= ends[1].loss else 1


def _guess(ends: list[Point], stuck: bool) -> tuple[Any, bool]:
    """Return a point inside of a bracket, and whether it is suspiciously close to an end."""
    t = _cubic_minimum(ends[0], ends[1])
    left, right = min(ends[0].t, ends[1].t), max(ends[0].t, ends[1].t)
    margin = 0.1 * (right - left)
    if not min(right - t, t - left) < margin:
        return t, False
    if not stuck and left < t < right:
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False


# --- The optimizer -----------------------------------------------------------------------------------


class LBFGS(Optimizer):
    """Quasi-Newton steps from a limited memory of gradients (Liu and Nocedal, 1989), for full batches.

    Each step moves along ``-H @ g``, where H approximates the inverse of the Hessian from the last steps and changes of
    the gradient. `step` takes up to `max_iter` of them. It needs a closure that clears the gradients, computes the
    loss, calls `backward` and returns the loss.

    Parameters
    ----------
    params : iterable
        The parameters, in one group.
    lr : float or Tensor, default 1
        The length of a step, or the first length that a line search tries. The
        very first is multiplied by ``min(1, 1 / |g|)``, with the sum of absolute values as the norm.
    max_iter : int, default 20
        How many steps a call takes at most.
    max_eval : int, optional
        How often a call evaluates the closure at most. Defaults to ``max_iter * 5 // 4``.
    tolerance_grad : float, default 1e-7
        End when no element of the gradient is larger.
    tolerance_change : float, default 1e-9
        End when a step changes no parameter by more, or the loss by less.
    history_size : int, default 100
        How many steps are remembered.
    line_search_fn : {"strong_wolfe"}, optional
        Search along each direction for a point that meets the strong Wolfe conditions.

    Raises
    ------
    ValueError
        If an option is out of its range, or there are several groups.


    Examples
    --------
    >>> x = adjoint.tensor([-1.0, 2.0], dtype=adjoint.float64, requires_grad=True)
    >>> optimizer = adjoint.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(3):
    ...     _ = optimizer.step(closure)
    >>> adjoint.allclose(x.detach(), adjoint.ones(2, dtype=x.dtype), atol=1e-4)
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        check(len(self.param_groups) == 1, "LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # --- Parameters and gradients as one vector ---

    def _gradient(self) -> Any:
        """Return all gradients in one array; a parameter without one has zeros."""
        parts = []
        for p in self._params:
            part = p.array if p._grad is None else p._grad.to_dense().array
            part = part.reshape(-1)
            if part.dtype.kind == "c":
                part = part.view(part.real.dtype)
            parts.append(part if p._grad is not None else part * 0)
        return module_of(parts[0]).concatenate(parts)

    def _move(self, t: Any, direction: Any) -> None:
        """Add `t` times a direction to the parameters."""
        start = 0
        for p in self._params:
            array = p.array
            if array.dtype.kind == "c":
                end = start + 2 * array.size
                part = direction[start:end].view(array.dtype)
            else:
                end = start + array.size
                part = direction[start:end]
            array += (part.reshape(array.shape) * t).astype(array.dtype, copy=False)
            start = end
        note_written(self._params, "LBFGS.step")

    def _restore(self, saved: list[Any]) -> None:
        for p, array in zip(self._params, saved):
            p.array[...] = array

    # --- Stepping ---

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Take up to `max_iter` steps; `closure` clears the gradients, computes the loss and returns it."""
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = self._evaluate(closure)
        state["func_evals"] += 1
        loss, gradient = float(first_loss), self._gradient()
        if _largest(gradient) <= group["tolerance_grad"]:
            return first_loss
        memory = _Memory(state, group["history_size"])
        self._minimize(closure, memory, state, gradient, loss)
        return first_loss

    @whole
    def _minimize(self, closure: Any, memory: _Memory, state: dict[str, Any], gradient: Any, loss: float) -> None:
        # An interrupt comes inside the closure; what was learned until then goes with the parameters.
        try:
            self._iterate(closure, memory, state, gradient, loss)
        finally:
            memory.save(state)

    def _iterate(self, closure: Any, memory: _Memory, state: dict[str, Any], gradient: Any, loss: float) -> None:
        group, evaluations = self.param_groups[0], 1
        lr = _number(group["lr"])
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = memory.direction(gradient, state["n_iter"] == 1)
            memory.gradient, memory.loss = gradient, loss
            t = min(1.0, 1.0 / _scalar(abs(gradient).sum())) * lr if state["n_iter"] == 1 else lr
            memory.direction_taken, memory.distance = direction, t
            slope = _scalar(gradient.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            before = loss
            if group["line_search_fn"] is not None:
                start = Point(0, loss, gradient, slope)
                point, used = self._search(closure, start, direction, t, group["max_eval"] - evaluations)
                self._move(point.t, direction)
                loss, gradient, t = point.loss, point.gradient, point.t
                memory.distance = t
            else:
                used = 0
                self._move(t, direction)
                if iteration != group["max_iter"]:
                    loss, gradient, used = float(self._evaluate(closure)), self._gradient(), 1
            evaluations += used
            state["func_evals"] += used
            if (
                evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction * t) <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break

    @apart
    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        if came:
            deliver()
        with enable_grad():
            return closure()

    def _search(self, closure: Any, start: Point, direction: Any, t: Any, patience: int) -> tuple[Point, int]:
        if self.param_groups[0]["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        origin = [p.array.copy() for p in self._params]

        def at(t: Any) -> Point:
            self._move(t, direction)
            try:
                loss, gradient = float(self._evaluate(closure)), self._gradient()
            finally:
                self._restore(origin)
            return Point(t, loss, gradient, _scalar(gradient.dot(direction)))

        search = WolfeSearch(at, start, _largest(direction), patience)
        return search.run(t), search.evaluations


def _largest(x: Any) -> Any:
    return _scalar(abs(x).max())


def _scalar(x: Any) -> Any:
    """Return an array of one element as a scalar of its dtype, on the CPU."""
    return x if isinstance(x, np.generic) else x.dtype.type(x.item())


def _number(lr: Any) -> Any:
    """Return a learning rate; of a tensor, its element in the dtype it has."""
    return _scalar(lr.array.reshape(())) if isinstance(lr, TensorBase) else lr


class _Memory:
    """The last steps and changes of the gradient, from which the curvature is estimated."""

    def __init__(self, state: dict[str, Any], size: int) -> None:
        self.size = size
        self.changes, self.steps, self.inverses = (
            [v.array for v in state.get(name) or ()] for name in ("old_dirs", "old_stps", "ro")
        )
        self.scale = _raw(state.get("H_diag", 1))
        self.direction_taken, self.gradient = _raw(state.get("d")), _raw(state.get("prev_flat_grad"))
        self.distance, self.loss = _number(state.get("t")), state.get("prev_loss")
        self.weights: list[Any] = state.get("al") or []

    def direction(self, gradient: Any, first: bool) -> Any:
        """Return the search direction: minus the gradient, times the inverse Hessian estimate."""
        if first:
            self.changes, self.steps, self.inverses, self.scale = [], [], [], 1
            return -gradient
        self._learn(gradient - self.gradient, self.direction_taken * self.distance)
        q = -gradient
        weights = []
        for change, step, inverse in zip(self.changes[::-1], self.steps[::-1], self.inverses[::-1]):
            weight = step.dot(q) * inverse
            weights.append(weight)
            q = q - change * weight
        q = q * self.scale
        for change, step, inverse, weight in zip(self.changes, self.steps, self.inverses, weights[::-1]):
            q = q + step * (weight - change.dot(q) * inverse)
        self.weights = [wrap(module_of(q).asarray(w)) for w in weights[::-1]]
        return q

    def _learn(self, change: Any, step: Any) -> None:
        curvature = change.dot(step)
        if not curvature > 1e-10:
            return
        if len(self.changes) == self.size:
            del self.changes[0], self.steps[0], self.inverses[0]
        self.changes.append(change)
        self.steps.append(step)
        self.inverses.append(module_of(change).asarray(1.0 / curvature))
        self.scale = curvature / change.dot(change)

    def save(self, state: dict[str, Any]) -> None:
        """Write everything into an optimizer's state, as tensors."""
        if self.gradient is None:  # not one step was allowed
            return
        module = module_of(self.gradient)
        if self.weights:
            state["al"] = [*self.weights, *[None] * (self.size - len(self.weights))]
        state["d"] = wrap(self.direction_taken)
        state["t"] = _outside(self.distance)
        state["old_dirs"], state["old_stps"] = [[wrap(v) for v in vs] for vs in (self.changes, self.steps)]
        state["ro"] = [wrap(v) for v in self.inverses]
        state["H_diag"] = self.scale if isinstance(self.scale, int) else wrap(module.asarray(self.scale))
        state["prev_flat_grad"], state["prev_loss"] = wrap(self.gradient), self.loss


def _raw(value: Any) -> Any:
    return value.array if isinstance(value, TensorBase) else value


# --- Names that packages import from torch's module though they are private there ---------------------


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> Any:
    """Return where the cubic through two points, given by place, loss and slope, is least."""
    x1, f1, g1, x2, f2, g2 = (_number(value) for value in (x1, f1, g1, x2, f2, g2))
    limits = None if bounds is None else (_number(bounds[0]), _number(bounds[1]))
    with np.errstate(all="ignore"):
        return _outside(_cubic_minimum(Point(x1, f1, None, g1), Point(x2, f2, None, g2), limits))


def _strong_wolfe(
    obj_func: Callable[..., Any], x: Any, t: Any, d: Any, f: Any, g: Any, gtd: Any, c1: float = 1e-4, c2: float = 0.9,
    tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[Any, Any, Any, int]:  # fmt: skip
    """Search along `d` from `x`; return loss, gradient, distance and how often ``obj_func(x, t, d)`` was called."""

    def at(t: Any) -> Point:
        loss, gradient = obj_func(x, _outside(t), d)
        return Point(t, _number(loss), gradient.clone(), _number(gradient.dot(d)))

    start = Point(0, _number(f), g, _number(gtd))
    search = WolfeSearch(at, start, _number(d.abs().max()), max_ls, tolerance_change, c1, c2)
    found = search.run(_number(t))
    return _outside(found.loss), found.gradient, _outside(found.t), search.evaluations


def _outside(x: Any) -> Any:
    """Return a scalar of a dtype as the tensor that a program expects."""
    return wrap(np.asarray(x)) if isinstance(x, np.generic) else x
