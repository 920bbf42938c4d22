"""Optimizers with elementwise updates, and how such an update is run.

An update is one pure function of elements: parameter, gradient, state, scalars. It is written
with operators and NumPy's ufuncs, and changes its arguments by augmented assignment, so the same text runs

- on arrays, in place: large parameters block by block, so that a block stays in the cache from the first pass
  to the last, and many small ones packed into one array;
- on tensors, when the step itself is to be differentiated (``differentiable=True``);
- on scalars, compiled by Numba into one loop (the extra ``fast``): therefore it also returns what it changed;
- on symbols, which write down what it does as C: on a GPU one kernel updates all parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ..autograd.grad_mode import set_grad_enabled
from ..core import modes
from ..core.device import module_of
from ..core.observation import lifting, number, pattern, unseen
from ..core.payload import Payload
from ..core.tensor import TensorBase
from ..devices.cpu import threads
from ..ops.kinds import view_as_complex, view_as_real
from ..scalar.symbol import Symbol
from . import compiled
from .optimizer import ByGroup, _device_dtype_check_for_fused, note_written, scalar, zeros_like

ndarray = np.ndarray
COMPILED_ELEMENTS = 32_768  # from this size on a compiled loop is faster
BLOCK_ELEMENTS = 131_072  # a few arrays of that size stay in the cache, and threads seldom wait for the GIL
PACKED_ELEMENTS = 8_192  # smaller arrays are concatenated, so that each does not pay for every pass
PACKED_PARAMETERS = 6  # up to so many parameters, packing costs what it saves

_PLAIN = frozenset((float, int, bool, list, type(None)))
Row = tuple[Any, ...]  # the arrays of one parameter: its values, gradient, and state


class Elementwise(ByGroup):
    """Base of optimizers that define `_update`, a parameter's state and the scalars."""

    _update: Callable[..., Any]
    _buffers: tuple[str, ...] = ()  # the tensors in a parameter's state that the update takes after the gradient
    _written: ClassVar[str] = "params and state_steps"
    _compilable: tuple[Callable[..., Any], ...] = ()  # updates that Numba understands, which has no arrays in them
    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _counts: ClassVar[tuple[str, ...]] = ("step",)

    def _update_for(self, group: dict[str, Any]) -> Callable[..., Any]:
        """Return the update that the options of a group call for."""
        return type(self)._update

    def _buffer_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """Return the buffers that the options of a group need."""
        return self._buffers

    def _begin(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> None:
        """Make the state of a parameter before its first step."""
        state["step"] = scalar(0.0)
        for name in self._buffer_names(group):
            state[name] = zeros_like(p)

    def _advance(self, state: dict[str, Any], p: Any, group: dict[str, Any]) -> Any:
        """Begin or advance a parameter's state; parameters for which this returns the same take the same scalars."""
        if not state:
            self._begin(state, p, group)
        return advanced(state["step"])

    def _scalars(self, group: dict[str, Any], stage: Any) -> tuple[Any, ...]:
        """Return the scalars that the update takes last."""
        raise NotImplementedError

    def _l2_decay(self, group: dict[str, Any]) -> Any:
        """Return the factor by which the parameter is added to its gradient (the L2 penalty)."""
        return group["weight_decay"]

    def _check_loaded(self, state: dict[Any, Any]) -> None:
        for p, values in state.items():
            for name, value in values.items() if isinstance(p, TensorBase) else ():
                if isinstance(value, TensorBase) and value.array.ndim and value.array.shape != p.array.shape:
                    raise ValueError(
                        f"loaded state dict: '{name}' has shape {list(value.array.shape)}, but its parameter "
                        f"{list(p.array.shape)}. Parameters are matched by their order: give them in the order in "
                        "which they were saved, or with names (model.named_parameters()) on both sides."
                    )

    def _apply(self, params: list[Any], grads: list[Any], group: dict[str, Any]) -> None:
        """Update parameters by the gradients given, and their state."""
        if group["differentiable"] or group.get("capturable") or group.get("fused"):
            _check_kind_of_step(params, group, self._written)
        for g in grads:
            if g.is_sparse:
                if group.get("fused"):
                    raise RuntimeError(f"`_fused_{type(self).__name__.lower()}` does not support sparse gradients")
                self._check_sparse(group)
                grads = [g.to_dense() if g.is_sparse else g for g in grads]
                break
        if group["differentiable"] or (modes.unusual and _seen_through(params)):
            with set_grad_enabled(group["differentiable"]):
                self._step_tensors(params, grads, group, {k: number(group, k, k == "lr") for k in group})
        else:
            self._step_arrays(params, grads, group)

    def _check_sparse(self, group: dict[str, Any]) -> None:
        """Raise for sparse gradients, unless the update treats a missing gradient like zero."""
        name = type(self).__name__.replace("AdamW", "Adam")
        raise RuntimeError(f"{name} does not support sparse gradients, please consider SparseAdam instead")

    def _step_tensors(self, params: list[Any], grads: list[Any], group: dict[str, Any], read: dict[str, Any]) -> None:
        """Update tensor by tensor, recording the update where grad mode is on.

        `read` has the options of the group too, as tensors those that a captured program reads on every run.
        """
        names = self._buffer_names(group)
        patterns: dict[Any, Any] = {}
        alike: list[tuple[Any, Any]] = []
        for p, grad in zip(params, grads):
            state = self.state[p] if names else {}
            touched = [p, grad, *(v for v in state.values() if isinstance(v, TensorBase))]
            kind = None if group["differentiable"] or (names and not state) else _kind(touched, state)
            if kind in patterns and patterns[kind].repeat(touched):
                alike.append((p, grad))
                continue
            noted = None if kind is None else pattern(touched)
            self._step_tensor(p, grad, state, group, read)
            if noted is not None and noted.end(touched):
                patterns[kind] = noted
        if alike:  # written down already; now it is done
            with unseen():
                self._step_arrays([p for p, _ in alike], [grad for _, grad in alike], group)

    def _step_tensor(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], read: Any) -> None:
        names = self._buffer_names(group)
        scalars = self._scalars(read, self._advance(state, p, {**group, "lr": read["lr"]}))
        # Rules save the values that they have seen, so these are not written: the next step gets new ones.
        values = [grad, p.clone(), *(state[name].clone() for name in names)]
        if p.is_complex():
            values = [view_as_real(v) for v in values]
        g, *given = values
        decay = self._l2_decay(read)
        seen = given[0].clone() if isinstance(decay, TensorBase) else given[0]  # the gradient of `decay` needs it
        changed = self._update_for(group)(given[0], _adjusted(seen, g, group["maximize"], decay), *given[1:], *scalars)
        results = changed if isinstance(changed, tuple) else (changed,)
        if p.is_complex():
            results = tuple(view_as_complex(v) for v in results)
        p.copy_(results[0])
        if group["differentiable"] or isinstance(p.array, Payload):
            state.update(zip(names, results[1:], strict=True))
        else:  # captured: the next run finds its state in the same tensors
            for name, value in zip(names, results[1:], strict=True):
                state[name].copy_(value)

    def _step_arrays(self, params: list[Any], grads: list[Any], group: dict[str, Any]) -> None:
        names, states, advance = self._buffer_names(group), self.state, self._advance
        rows_by_key: dict[Any, list[Row]] = {}
        stage = None
        for p, grad in zip(params, grads):
            array = p.array
            if names:
                state = states[p]
                stage = advance(state, p, group)
                row = (array, grad.array, *[state[name].array for name in names])
            else:
                row = (array, grad.array)
            key = (array.dtype, stage, type(array) is ndarray or getattr(array.data, "device_id", None))
            same_key = rows_by_key.get(key)
            if same_key is None:
                rows_by_key[key] = [row]
            else:
                same_key.append(row)
        plain = without_tensors(group)
        update, maximize, decay = self._update_for(plain), plain["maximize"], self._l2_decay(plain)
        for (_, stage, _), rows in rows_by_key.items():
            Pass(update, self._scalars(plain, stage), maximize, decay, update in self._compilable).run(rows)
        note_written(params, f"{type(self).__name__}.step")


def _check_kind_of_step(params: list[Any], group: dict[str, Any], written: str) -> None:
    """Raise for options that PyTorch does not support; `written` names what a step writes."""
    if group["differentiable"] and group.get("foreach"):
        raise AssertionError("_foreach ops don't support autograd: leave out foreach=True, or differentiable=True")
    if group.get("capturable") and not (group.get("fused") or is_captured()) and any(p.is_cpu for p in params):
        devices = ["cuda", "xpu", "hpu", "privateuseone", *([] if group.get("foreach") else ["xla"])]
        raise AssertionError(
            f"If capturable=True, {written} must be on supported devices: {devices}. On a CPU there are no graphs to "
            "capture: leave it out."
        )
    for p in params if group.get("fused") else ():
        _device_dtype_check_for_fused(p)


def _seen_through(params: list[Any]) -> bool:
    """Return whether each op of the update must be a primitive: inside a transform, or while it is captured."""
    return lifting(False) is not False or any(isinstance(p.array, Payload) for p in params)


def _kind(touched: list[Any], state: dict[str, Any]) -> Any:
    """Return the key of parameters that are updated by the same ops."""
    arrays = [t.array for t in touched]
    if any(isinstance(a, Payload) for a in arrays):
        return None
    plain = tuple((k, v) for k, v in state.items() if not isinstance(v, TensorBase))
    return (*((a.shape, a.strides, a.dtype, type(a)) for a in arrays), repr(plain), tuple(state))


def without_tensors(group: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a group with Python scalars in place of tensors of one element."""
    found = {}
    for name, value in group.items():
        if type(value) in _PLAIN:
            continue
        if isinstance(value, TensorBase) or (type(value) is tuple and any(isinstance(v, TensorBase) for v in value)):
            found[name] = item_of(value)
    return {**group, **found} if found else group


def item_of(value: Any) -> Any:
    """Return the scalar in a tensor of one element, the scalars of a tuple, or what is a scalar already."""
    if isinstance(value, tuple):
        return tuple(item_of(v) for v in value)
    return value.item() if isinstance(value, TensorBase) else value  # type: ignore[attr-defined]


def _adjusted(p: Any, g: Any, maximize: bool, decay: Any) -> Any:
    """Return the gradient that an update sees."""
    if maximize:
        g = -g
    if decay is None or (isinstance(decay, int | float) and decay == 0):
        return g
    return g + p * decay


@cache
def _adjusting(update: Callable[..., Any], maximize: bool) -> Callable[..., Any]:
    """Return an update that takes the gradient as it is, with the L2 decay as its last scalar."""

    def whole(p: Any, g: Any, *rest: Any) -> Any:
        return update(p, _adjusted(p, g, maximize, rest[-1]), *rest[:-1])

    return whole


class Pass:
    """One application of an update to the arrays of parameters that take the same scalars."""

    __slots__ = ("blocks", "compilable", "decay", "maximize", "scalars", "update")

    def __init__(self, update: Any, scalars: tuple[Any, ...], maximize: bool, decay: Any, compilable: bool) -> None:
        self.update, self.scalars, self.maximize, self.decay = update, scalars, maximize, decay
        self.compilable = compilable
        self.blocks: list[Row] = []  # of large parameters: all of them at once are split among threads

    def run(self, rows: list[Row]) -> None:
        """Update the arrays of each row in place."""
        first = rows[0][0]
        if type(first) is not ndarray and first.dtype.kind != "c":
            rows = self.on_gpu(rows)
            if not rows:
                return
        fast_path = type(first) is ndarray and first.dtype.kind == "f" and first.dtype.itemsize > 2
        if fast_path:
            # A ufunc takes an array of its own dtype faster than a Python scalar, whose dtype it must find.
            self.scalars = tuple([np.array(n, first.dtype) if type(n) is float else n for n in self.scalars])
        if len(rows[0]) > 2 and len(rows) > 1:
            # (Without state, packing costs what it saves.)
            small = [row for row in rows if row[0].size <= PACKED_ELEMENTS]
            if len(small) > PACKED_PARAMETERS:
                self.pack(small)
                rows = [row for row in rows if row[0].size > PACKED_ELEMENTS]
        if fast_path and not self.maximize and not self.decay:
            for row in rows:
                if row[0].size <= COMPILED_ELEMENTS:
                    self.update(*row, *self.scalars)
                else:
                    self.apply(row)
        else:
            for row in rows:
                self.apply(row)
        self.finish()

    def on_gpu(self, rows: list[Row]) -> list[Row]:
        """Update the rows that one kernel launch can handle; return the others."""
        if not self.maximize and not self.decay:
            return compiled.run_on_gpu(self.update, rows, self.scalars)
        scalars = (*self.scalars, self.decay or None)
        return compiled.run_on_gpu(_adjusting(self.update, self.maximize), rows, scalars)

    def pack(self, rows: list[Row]) -> None:
        """Update small parameters as if they were one."""
        module = module_of(rows[0][0])
        columns = list(zip(*rows))
        packed = [module.concatenate(column, axis=None) for column in columns]
        self.apply(tuple(packed))
        self.finish()
        for column, source in zip((columns[0], *columns[2:]), (packed[0], *packed[2:])):
            start = 0
            for array in column:
                end = start + array.size
                array[...] = source[start:end].reshape(array.shape)
                start = end

    def apply(self, row: Row) -> None:
        """Update one parameter in place; of one that is large, blocks are left for `finish` to update."""
        if row[0].dtype.kind != "f" or row[0].dtype.itemsize < 4:
            self.apply_converted(row)
        elif type(row[0]) is not ndarray or row[0].size <= COMPILED_ELEMENTS:
            self.apply_whole(row)
        elif all(array.flags.c_contiguous for array in (row[0], *row[2:])):
            flat = tuple([array.reshape(-1) for array in row])  # a gradient that is not contiguous is copied here
            adjusted = self.maximize or self.decay
            if not self.compilable or adjusted or not compiled.run(self.update, flat, self.scalars):
                starts = range(0, flat[0].size, BLOCK_ELEMENTS)
                self.blocks += [tuple([a[at : at + BLOCK_ELEMENTS] for a in flat]) for at in starts]
        else:
            self.apply_whole(row)

    def finish(self) -> None:
        """Update the blocks of large parameters."""
        blocks, self.blocks = self.blocks, []

        def some(start: int, stop: int) -> None:
            for block in blocks[start:stop]:
                self.apply_whole(block)

        if blocks:
            threads.share(some, len(blocks))

    def apply_whole(self, row: Any) -> None:
        """Update one parameter, or a block of it, in as many passes over it as the update has operations."""
        p, g, *state = row
        if self.maximize or self.decay:
            g = _adjusted(p, g, self.maximize, self.decay)
        self.update(p, g, *state, *self.scalars)

    def apply_converted(self, row: Row) -> None:
        """Update complex values as pairs of real ones, and half precision in single."""
        module = module_of(row[0])
        if row[0].dtype.kind == "c":
            real = "f4" if row[0].dtype.itemsize == 8 else "f8"
            whole = [module.ascontiguousarray(array).reshape(-1) for array in row]
            converted = [array.view(real) for array in whole]
        else:
            whole = converted = [array.astype("f4").reshape(-1) for array in row]
        self.apply(tuple(converted))
        self.finish()
        for array, source in zip((row[0], *row[2:]), (whole[0], *whole[2:])):
            array[...] = source.reshape(array.shape)


def stored(buffer: Any, value: Any) -> Any:
    """Return `value` where an update goes on with it: written into the buffer, if that is an array."""
    if isinstance(buffer, TensorBase | Symbol):
        return value
    buffer[...] = value
    return buffer


def is_captured() -> bool:
    """Return whether each op of a step must be a primitive, because a program is being captured."""
    return bool(modes.unusual) and lifting(False) is not False


def advanced(step: Any) -> Any:
    """Add one to a step count, and return it."""
    if is_captured():  # a number would be the same on every run
        step += 1
        return step.double()
    now = float(step.array) + 1.0
    step.array.fill(now)
    return now
