"""Dual: a value with its tangent, which every primitive carries along (forward mode)."""

from __future__ import annotations

import inspect
import weakref
from typing import Any

import numpy as np

from ..core import modes
from ..core.device import module_of
from ..core.inplace import fitted
from ..core.nodes import differentiable, wrap
from ..core.observation import literal
from ..core.payload import Level, Payload, inside, payload_of, top_payload
from ..core.primitive import Op
from ..core.tensor import STALE, TensorBase, ledger_of, storage_of
from ..core.views import edge_of, replayed, replayed_all, way_from_base
from ..ops.compare import zeros_p
from ..ops.shape import copy_strided_p, expand_p
from .speech import Speaking

# The tensors that hold dual values of a level that the program has entered (`autograd.forward_ad`); at its end they
# become their primals.
holders: dict[int, list[weakref.ref[TensorBase]]] = {}


def forget_tangents(level: int) -> None:
    """Make every tensor of a level that ends its primal."""
    for ref in holders.pop(level):
        tensor = ref()
        if tensor is not None and isinstance(tensor.array, Dual) and tensor.array.level == level:
            primal = tensor.array.primal
            tensor.array = _array(primal)
            if isinstance(primal, TensorBase):
                tensor.node, tensor.memory, tensor.lineage = edge_of(primal), primal.memory, None


class Dual(Speaking):
    """A primal value and its tangent, None where that is zero.

    Both are arrays, or tensors or payloads of a lower level, whose own recording goes on.
    """

    __slots__ = ("primal", "tangent")

    def __init__(self, primal: Any, tangent: Any, level: int) -> None:
        self.primal, self.tangent, self.level = primal, tangent, level

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.primal.shape)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return _array(self.primal).dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of the primal, in bytes."""
        return tuple(_array(self.primal).strides)

    @property
    def flags(self) -> Any:
        """Memory flags of the primal."""
        return _array(self.primal).flags

    @classmethod
    def apply(cls, op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run `op` on the primals, and its tangent rule on the tangents."""
        primals, tangents, still = [], [], True
        moving = modes.local.forward_grad and not (modes.local.inference and level in holders)
        for v in values:
            if isinstance(v, Dual) and v.level == level:
                primals.append(v.primal)
                tangents.append(v.tangent)
                still = still and (v.tangent is None or not moving)
            else:
                primals.append(v)
                tangents.append(None)
        if op.jvp == "statement" and not still:  # written in primitives that have tangents
            found = inspect.unwrap(op.whole)(*values, *params)
            return found[0] if op.saves.hidden else found
        out = op.call(*primals, *params)
        if still:
            changes: Any = (None,) * len(out) if op.outputs else None
        else:
            changes = tangent_of(op, _raised(tangents, primals), tuple(primals), out, params)
            if level in holders and not op.outputs:
                changes = _own(changes, tangents, out, primals)
        if op.outputs:
            return tuple(
                cls(o, t if differentiable(_array(o).dtype) else None, level) for o, t in zip(out, changes, strict=True)
            )
        return cls(out, changes if differentiable(_array(out).dtype) else None, level)

    @classmethod
    def lifted(cls, value: Any, level: int) -> Dual:
        """Return a value of a lower level as one whose tangent is zero."""
        return cls(value, None, level)

    def below(self) -> Any:
        """Return the primal."""
        return self.primal

    def above(self, value: Any) -> Dual:
        """Return another primal with the same tangent."""
        return Dual(value, self.tangent, self.level)

    def outside(self, operation: str) -> Any:
        """Return the primal."""
        return self.primal

    def detached(self) -> Dual:
        """Return the primal without history and tangent."""
        primal = self.primal
        if isinstance(primal, TensorBase):
            primal = primal.detach()  # type: ignore[attr-defined]
        elif isinstance(primal, Payload):
            primal = primal.detached()
        return Dual(primal, None, self.level)

    def history(self) -> Any:
        """Return the primal if it has a history, and the program itself has made the value dual."""
        primal = self.primal
        return primal if self.level in holders and isinstance(primal, TensorBase) and primal.node is not None else None

    def note_holder(self, tensor: TensorBase) -> None:
        """Remember the tensor until the level ends."""
        found = holders.get(self.level)
        if found is not None:
            found.append(weakref.ref(tensor))

    @property
    def by_value(self) -> bool:
        """Whether there is no memory to write, but a batch's."""
        return not _has_memory(self)

    @classmethod
    def overwrite(cls, op: Op, x: Any, rest: tuple[Any, ...], params: tuple[Any, ...], level: int) -> bool:
        """Write into the primal's memory, which views share; tangents, which are not shared, are made anew."""
        base = x if x.lineage is None else x.lineage.base
        if not (_has_memory(x.array) and _has_memory(base.array)) or x.node is not None or base.node is not None:
            if isinstance(x.array, cls) or isinstance(base.array, cls) or not _has_memory(base.array):
                return False
        _lift(base, level)
        if x is not base and not (_is_at(x.array, level) and isinstance(x.array.primal, TensorBase)):
            x.array, x.node = replayed_all(base, way_from_base(x)).array, None
        dual = x.array
        primal = dual.primal
        result = op.call(wrap(cls(primal.clone(), dual.tangent, level)), *rest, *params)  # both of one kind
        if result.node is not None:
            return False
        result = fitted(op, x, result)
        value = result.array if _is_at(result.array, level) else cls(result, None, level)
        primal.copy_(_tensor(value.primal))
        if value.tangent is not None or dual.tangent is not None:
            _set_tangent(
                x, base, _tensor(value.tangent) if value.tangent is not None else zeros_p(primal.detach()), level
            )
        ledger = ledger_of(storage_of(x))
        if x.memory is not primal.memory:
            ledger.version += 1
        for ref in ledger.fresh:  # views that programs see; those of the primals share memory
            view = ref()
            if view is not None and view is not x and view.lineage is not None and view.lineage.base is base:
                view.lineage.bare, view.node = True, STALE
        return True

    def item(self) -> Any:
        """Return the primal's number."""
        return self.concrete("item()").item()

    def tolist(self) -> Any:
        """Return the primal's numbers."""
        return self.concrete("tolist()").tolist()

    def concrete(self, what: str) -> Any:
        """Return the primal."""
        primal = _array(self.primal)
        return primal.concrete(what) if isinstance(primal, Speaking) else primal

    def __repr__(self) -> str:
        primal, tangent = (
            v if v is None or isinstance(v, TensorBase) else wrap(v) for v in (self.primal, self.tangent)
        )
        return repr(primal) if tangent is None else f"{repr(primal)[:-1]}, tangent={tangent!r})"


def _has_memory(value: Any) -> bool:
    """Return whether there is an array at the bottom with nothing but tensors and duals above it."""
    while isinstance(value, TensorBase | Dual):
        value = value.array if isinstance(value, TensorBase) else value.primal
    return not isinstance(value, Payload)


def _lift(x: Any, level: int) -> None:
    """Make a tensor that is about to be written one of this level, whose primal is a tensor that can have a history."""
    if not _is_at(x.array, level):
        below = wrap(x.array, x.node, storage_of(x))
        x.array, x.node = Dual(below, None, level), None
        x.array.note_holder(x)
    elif not isinstance(x.array.primal, TensorBase):
        tangent = x.array.tangent
        x.array = Dual(wrap(x.array.primal), None if tangent is None else _tensor(tangent), level)


def _is_at(value: Any, level: int) -> bool:
    return isinstance(value, Dual) and value.level == level


def _set_tangent(x: Any, base: Any, tangent: Any, level: int) -> None:
    """Give a tensor, and the base that it is a view of, another tangent."""
    whole, own = (t.array.memory() for t in (base, x))
    old = base.array.tangent
    shared = level in holders and _is_writable(old, whole)
    if x is base:
        if shared:
            old.copy_(tangent)
        else:
            x.array = Dual(x.array.primal, copy_strided_p(tangent, tuple(own.strides)), level)
        return
    if old is None:
        old = zeros_p(_tensor(base.array.primal).detach())
    new = old if shared else copy_strided_p(_tensor(old), tuple(whole.strides))
    part = new
    for op, params in way_from_base(x, memory=(whole, own)):
        part = replayed(op, part, params)
    part.copy_(tangent)
    base.array = Dual(base.array.primal, new, level)
    x.array = Dual(x.array.primal, part, level)
    for t in (base, x):
        t.array.note_holder(t)


def _is_writable(tangent: Any, primal: Any) -> bool:
    """Return whether a tangent is a tensor that the program may hold too, and that can be written as the primal is."""
    if not isinstance(tangent, TensorBase) or tangent.node is not None:
        return False
    array = tangent.array
    return type(array) is np.ndarray and array.strides == primal.strides and not np.may_share_memory(array, primal)


def _own(tangent: Any, given: list[Any], out: Any, primals: list[Any]) -> Any:
    """Return an op's tangent in memory of its own, unless its output, too, is a view of an operand."""
    mine, result = _array(tangent), _array(out)
    if type(mine) is not np.ndarray or type(result) is not np.ndarray:
        return tangent
    for t, p in zip(given, primals, strict=True):
        old, value = _array(t), _array(p)
        if type(old) is np.ndarray and np.may_share_memory(mine, old):
            if type(value) is not np.ndarray or not np.may_share_memory(result, value):
                return _tensor(tangent).clone()
    return tangent


def _tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else wrap(value)


def _array(value: Any) -> Any:
    return value.array if isinstance(value, TensorBase) else value


def _raised(tangents: list[Any], primals: list[Any]) -> tuple[Any, ...]:
    """Return tangents of the primals' kind: rules take a gradient that is an array for a sign that all values are."""
    top, held = None, False
    for p in primals:
        if type(p) is not np.ndarray:
            held = held or isinstance(p, TensorBase)
            payload = payload_of(p)
            if payload is not None and (top is None or payload.level > top.level):
                top = payload
    if not held and top is None:
        return tuple(tangents)
    return tuple(
        t
        if t is None or isinstance(t, TensorBase | Payload)
        else wrap(t)
        if held or top is None
        else type(top).lifted(t, top.level)
        for t in tangents
    )


def tangent_of(op: Op, tangents: tuple[Any, ...], primals: tuple[Any, ...], out: Any, params: tuple[Any, ...]) -> Any:
    """Return the tangent of an op's output, or None if it is zero."""
    rule = op.jvp
    if rule == "elementwise":
        return _elementwise(op, tangents, primals, out, params)
    if rule == "linear":
        filled = tuple(
            t if t is not None else _zeros(p) if len(tangents) > 1 else p
            for t, p in zip(tangents, primals, strict=True)
        )
        return op.call(*filled, *params)
    if rule == "bilinear":
        (dx, dy), (x, y) = tangents, primals
        parts = [op.call(dx, y, *params)] if dx is not None else []
        parts += [op.call(x, dy, *params)] if dy is not None else []
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]
    if callable(rule):
        return rule(tangents, primals, out, params)
    return _by_reverse(op, tangents, primals, params)


def _zeros(value: Any) -> Any:
    return zeros_p(value)


def _promoted(value: Any, out: Any) -> Any:
    """Return a number beside tensors as one of these: its logarithm, in a rule, is then of their precision."""
    if isinstance(value, np.generic) or (type(value) is np.ndarray and value.ndim == 0):
        dtype = _array(out).dtype
        if isinstance(out, TensorBase) and differentiable(dtype) and dtype.kind != "c" and value.dtype.kind not in "bc":
            return wrap(literal(np.asarray(value, dtype)))
    return value


def _elementwise(op: Op, tangents: tuple[Any, ...], primals: tuple[Any, ...], out: Any, params: tuple[Any, ...]) -> Any:
    primals = tuple(_promoted(p, out) for p in primals)
    env = (*primals, out, *params, *(_derived(primals[i], what) for i, what in op.saves.derived))
    total = None
    for t, rule, kept in zip(tangents, op.rules, op.saves.indexes, strict=True):
        if t is None or rule is None:
            continue
        part = rule(t, *(env[i] for i in kept))
        total = part if total is None else total + part
    if total is not None and tuple(total.shape) != tuple(out.shape):
        total = expand_p(total, tuple(out.shape))
    return total


def _derived(value: Any, what: str) -> Any:
    return getattr(_array(value), what)


def _by_reverse(op: Op, tangents: tuple[Any, ...], primals: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Get a tangent from reverse mode alone: the gradient is linear in what comes in; transpose that."""
    # All is recorded at the highest level there is: below it, the values' own history goes on.
    top = top_payload((*primals, *tangents))
    level = Level(recording=True)
    local, was, levels = modes.local, modes.local.grad, inside.levels
    try:
        level.__enter__()
        level.afresh, level.floor = True, 0 if top is None else top.level
        modes.set_grad(True)
        return _transposed(op, tangents, primals, params, top, level.grad)
    finally:  # by stores: see modes.py
        modes.off[local.key], local.grad, inside.levels = None, was, levels
        if was:
            del modes.off[local.key]
        level.__exit__()


def _transposed(op: Op, tangents: Any, primals: Any, params: Any, top: Payload | None, recorded: bool) -> Any:
    from ..core.engine import backward
    from ..core.leaves import end
    from ..ops import create

    leaves = [_leaf(p, top, recorded) if t is not None else p for t, p in zip(tangents, primals, strict=True)]
    result = op.call(*leaves, *params)
    outs = result if op.outputs else (result,)
    live = [o for o in outs if o.node is not None]
    seeds = [wrap(_seed(o.array)) for o in live]
    for seed in seeds:
        create.require_grad(seed)
    wanted = [edge_of(v) for v, t in zip(leaves, tangents, strict=True) if t is not None]
    gs = backward([edge_of(o) for o in live], seeds, True, True, wanted, accumulating=False)
    pairs = [(g, t) for g, t in zip(gs, (t for t in tangents if t is not None), strict=True) if g is not None]
    if not pairs:
        return (None,) * len(outs) if op.outputs else None
    found = backward(
        [edge_of(g) for g, _ in pairs],
        [t if isinstance(t, TensorBase) else wrap(t) for _, t in pairs],
        True, True, [edge_of(s) for s in seeds], accumulating=False,
    )  # fmt: skip
    end((*wanted, *map(edge_of, seeds)))
    kept = recorded and any(_is_recorded(v, top) for v in (*primals, *tangents))
    by_output = iter([f if kept or f is None else f.array for f in found])
    changes = tuple(next(by_output) if o.node is not None else None for o in outs)
    return changes if op.outputs else changes[0]


def _is_recorded(value: Any, top: Payload | None) -> bool:
    """Return whether a tensor has a history at the level of `top`."""
    if not isinstance(value, TensorBase) or edge_of(value) is None:
        return False
    payload = payload_of(value)
    return top is None or (payload is not None and payload.level == top.level)


def _seed(out: Any) -> Any:
    """Return zeros of the level of an output: at a lower one, what is computed from them would be recorded there."""
    zeros = literal(module_of(out).zeros(out.shape, out.dtype))
    return type(out).lifted(zeros, out.level) if isinstance(out, Payload) else zeros


def _leaf(value: Any, top: Payload | None, recorded: bool) -> Any:
    """Return a tensor to differentiate by, at the level of `top`, that goes on from a value."""
    from ..ops import create, shape

    if recorded and _is_recorded(value, top):
        return shape.alias(value)
    payload = payload_of(value)
    if top is not None and (payload is None or payload.level < top.level):
        leaf = wrap(type(top).lifted(value if recorded else _array(value), top.level))
    else:
        leaf = wrap(_array(value))
    create.require_grad(leaf)
    return leaf
