"""GradScaler: a loss made large, so that half-precision gradients do not vanish, and steps that are skipped."""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ..autograd.grad_mode import no_grad
from ..core import dtypes, modes
from ..core.device import module_of
from ..core.interrupts import whole
from ..core.observation import lifting
from ..core.tensor import TensorBase, note_write
from ..cuda.devices import is_available as has_gpu
from ..devices.contract import multi_tensor
from ..ops.compare import isfinite, logical_and, logical_not, logical_or
from ..ops.create import full
from ..ops.piecewise import where

__all__ = ["GradScaler"]

_LARGEST = float(dtypes.finfo(dtypes.float32).max)

READY, UNSCALED, STEPPED = range(3)


class GradScaler:
    """Scales the loss, so that float16 gradients do not vanish, and skips steps whose gradients overflow.

    `scale` multiplies the loss. `step` divides the gradients by the scale, and steps unless one of them is infinite or
    NaN. `update` multiplies the scale by `backoff_factor` after a skipped step, and by `growth_factor` after
    `growth_interval` good steps in a row.

    The scale never falls below `min_scale`, ``2**-24``. If gradients are not finite even there, `step` raises
    FloatingPointError and names the parameters.

    Parameters
    ----------
    device : str, default "cuda"
        Where the model is. With ``"cuda"`` and no GPU, the scaler warns and does nothing.
    init_scale : float, default 65536.0
        The first scale.
    growth_factor : float, default 2.0
        More than 1.
    backoff_factor : float, default 0.5
        Less than 1.
    growth_interval : int, default 2000
        How many good steps in a row let the scale grow.
    enabled : bool, default True
        False makes `scale` return the loss as it is, and `step` always step.

    Examples
    --------
    >>> w = adjoint.ones(2, requires_grad=True)
    >>> optimizer = adjoint.optim.SGD([w], lr=0.5)
    >>> scaler = adjoint.amp.GradScaler("cpu")
    >>> scaler.scale((w**2).sum()).backward()
    >>> w.grad
    tensor([131072., 131072.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """

    min_scale = 2.0**-24  # the smallest float16 above zero: a scale below that cures no overflow

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not has_gpu():
            warnings.warn(
                "adjoint.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                UserWarning,
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        assert growth_factor > 1.0, "The growth factor must be > 1.0."
        assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale = init_scale
        # Tensors of one element, on the CPU: a captured program reads them on every run.
        self._scale: Any = None
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._init_growth_tracker = 0
        self._growth_tracker: Any = None
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_fresh)

    # --- Scaling -----------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Return a loss, or every loss of a nest of them, times the scale."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = full((), float(self._init_scale), dtype=dtypes.float32, device="cpu")
            self._growth_tracker = full((), self._init_growth_tracker, dtype=dtypes.int32, device="cpu")
        if isinstance(outputs, TensorBase):
            place = outputs.device  # type: ignore[attr-defined]
            if place.type == "cpu":
                return outputs * self._scale
            return outputs * full((), self.get_scale(), device=place, dtype=dtypes.float32)  # type: ignore[operator]
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    @whole
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, and note which are not finite.

        `step` does this by itself; call it to clip gradients before.
        """
        if not self._enabled:
            return
        scale = self._checked_scale("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] == UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] == STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        if _is_captured(optimizer):
            self._unscale_seen(optimizer, state)
        else:  # the scale is a power of two as a rule, and its inverse exact
            self._unscale_grads_(optimizer, 1.0 / scale, state, allow_fp16=False)
        state["stage"] = UNSCALED

    def _unscale_grads_(self, optimizer: Any, inverse: float, state: dict[str, Any], allow_fp16: bool) -> None:
        on_gpu: dict[Any, list[tuple[Any, str]]] = defaultdict(list)
        named = list(_named(optimizer))
        grads = [p.grad for _, p in named]
        arrays = [(g.coalesce().values() if g.is_sparse else g).array for g in grads]
        if not allow_fp16 and dtypes.float16.np in [a.dtype for a in arrays]:
            raise ValueError("Attempting to unscale FP16 gradients.")
        for (name, p), grad, array in zip(named, grads, arrays, strict=True):
            state["checked"] = True
            if array.size and multi_tensor([array]):
                on_gpu[array.dtype, p.device].append((array, name))
            else:
                if not bool(module_of(array).isfinite(array).all()):
                    state["broken"].append(name)
                array *= array.dtype.type(inverse)
            note_write(grad, "GradScaler.unscale_")
        for rows in on_gpu.values():
            mine = [array for array, _ in rows]
            flags = multi_tensor(mine).unscale(mine, inverse)
            state["flags"].append((flags, [name for _, name in rows]))

    # --- Stepping ----------------------------------------------------------------------------------

    @whole
    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients if that is still to do, and step unless one of them is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale = self._checked_scale("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] == STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] == READY:
            self.unscale_(optimizer)
        assert state["checked"], "No inf checks were recorded for this optimizer."
        state["stage"] = STEPPED
        if "found" in state and not bool(self._scale <= self.min_scale):  # there Python must look, and may raise
            return _step_unless(state["found"], optimizer, args, kwargs)
        if not _broken(state):
            return optimizer.step(*args, **kwargs)
        if scale <= self.min_scale:
            broken = state["broken"]
            more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
            raise FloatingPointError(
                f"the gradients are not finite at the smallest loss scale ({scale:g}), so it is not the scale that "
                f"makes them overflow: first of {'; '.join(broken[:3])}{more}. Look for the op with "
                "adjoint.autograd.detect_anomaly()."
            )
        return None

    @whole
    def update(self, new_scale: Any = None) -> None:
        """Grow the scale, or shrink it if a step since the last update met infinities or NaN; or set it."""
        if not self._enabled:
            return
        scale = self._checked_scale("update")
        states = self._per_optimizer_states.values()
        if new_scale is not None:
            self._scale.fill_(float(new_scale))
        else:
            assert any(s["checked"] for s in states), "No inf checks were recorded prior to update."
            found = [s["found"] for s in states if "found" in s]
            if found:
                self._adjust_seen(functools.reduce(logical_or, found))
            else:
                self._adjust(scale, any(_broken(s) for s in states))
        self._per_optimizer_states.clear()

    def _adjust(self, scale: float, broken: bool) -> None:
        good = 0 if broken else self._get_growth_tracker() + 1
        if broken:
            scale = max(scale * self._backoff_factor, self.min_scale)
        elif good == self._growth_interval:
            good, grown = 0, scale * self._growth_factor
            scale = grown if grown < _LARGEST else scale
        self._scale.fill_(scale)
        self._growth_tracker.fill_(good)

    # --- While a program is captured ---------------------------------------------------------------

    def _unscale_seen(self, optimizer: Any, state: dict[str, Any]) -> None:
        """Unscale by primitives; what is not finite stays a tensor, and Python does not look at it."""
        inverse, finite = self._scale.reciprocal(), []
        for name, p in _named(optimizer):
            if p.grad.dtype == dtypes.float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            finite.append((name, isfinite(p.grad).all()))
            p.grad.mul_(inverse)
        if finite:
            state["checked"], state["finite"] = True, finite
            state["found"] = logical_not(functools.reduce(logical_and, [flag for _, flag in finite]))

    def _adjust_seen(self, found: Any) -> None:
        """Let the scale grow or shrink, whatever `found` is."""
        scale, good = self._scale, self._growth_tracker + 1
        grows = good == self._growth_interval
        grown = scale * self._growth_factor
        grown = where(logical_and(grows, grown < _LARGEST), grown, scale)
        shrunk = (scale * self._backoff_factor).clamp(min=self.min_scale)
        self._growth_tracker.copy_(where(logical_or(grows, found), good * 0, good))
        scale.copy_(where(found, shrunk, grown))

    def _checked_scale(self, name: str) -> float:
        assert self._scale is not None, (
            f"Attempted {name} but _scale is None.  This may indicate your script did not use scaler.scale(loss or "
            "outputs) earlier in the iteration."
        )
        return self.get_scale()

    # --- What it holds -----------------------------------------------------------------------------

    def get_scale(self) -> float:
        """Return the scale: 1 if this scaler is switched off."""
        if not self._enabled:
            return 1.0
        return float(self._init_scale if self._scale is None else self._scale.array)

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many consecutive finite steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many consecutive finite steps the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.array)

    def is_enabled(self) -> bool:
        """Return whether this scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale, its factors and its growth counter."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker(),
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(float(self._init_scale))
            self._growth_tracker.fill_(self._init_growth_tracker)


def _fresh() -> dict[str, Any]:
    return {"stage": READY, "checked": False, "broken": [], "flags": []}


def _named(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that have a gradient, and what they are called in errors."""
    for number, group in enumerate(optimizer.param_groups):
        names = group.get("param_names")
        for i, p in enumerate(group["params"]):
            if p.grad is not None:
                name = f"{names[i]!r}" if names else f"parameter {i} of group {number}"
                yield f"{name}, {list(p.shape)}", p


def _is_captured(optimizer: Any) -> bool:
    """Return whether each op must be a primitive because a program is being captured; on a GPU none is so far."""
    if not modes.unusual or lifting(False) is False:
        return False
    return all(p.device.type == "cpu" for group in optimizer.param_groups for p in group["params"])


def _step_unless(found: Any, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Take a step, and undo its writes if `found` is true."""
    params = [p for _, p in _named(optimizer)]
    states = [v for p in params for v in optimizer.state.get(p, {}).values() if isinstance(v, TensorBase)]
    written = [*params, *states]
    with no_grad():
        before = [t.clone() for t in written]  # type: ignore[attr-defined]
        result = optimizer.step(*args, **kwargs)
        for tensor, old in zip(written, before):
            tensor.copy_(where(found, old, tensor))  # type: ignore[attr-defined]
    return result


def _broken(state: dict[str, Any]) -> list[str]:
    """Return which gradients are not finite; those on a GPU are read here, all at once."""
    state["broken"] += [name for name, finite in state.pop("finite", ()) if not bool(finite)]
    for flags, names in state["flags"]:
        state["broken"] += [name for name, flag in zip(names, flags.get()) if flag]
    state["flags"] = []
    broken: list[str] = state["broken"]
    return broken
