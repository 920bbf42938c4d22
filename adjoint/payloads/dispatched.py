"""Dispatched: the value of a tensor whose class handles ops itself, by ``__torch_dispatch__``.

Such a tensor holds, instead of an array, its shape, dtype and device, and has elements only if its class gives it
some. Every primitive with such an operand is passed to the handler of its class, below autograd: nothing that
the handler computes is recorded; what it returns is the result of the op, whose node is recorded as always.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from ..core import dtypes, modes, nodes
from ..core.device import CPU, as_device, device
from ..core.device import of as place_of
from ..core.layout import strides_of
from ..core.nodes import wrap
from ..core.primitive import Op
from ..core.tensor import TensorBase
from .meta import Meta

__all__ = ["Dispatched", "HandlersOff", "hold"]


def named(op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], writes: bool) -> Any:
    """Return the operator that a handler gets for a primitive, or for a function of a name."""
    from ..utils._python_dispatch import operator_of  # ATen's names stand there

    return operator_of(op, inputs, params, writes)


class _Local(threading.local):
    """Whether handlers are called in this thread."""

    off = False


_local = _Local()


class HandlersOff:
    """A context in which tensors are what they hold, whatever their class has to say."""

    def __enter__(self) -> None:
        self.before, _local.off = _local.off, True

    def __exit__(self, *error: object) -> None:
        _local.off = self.before


class Dispatched(Meta):
    """What a tensor of such a class holds."""

    __slots__ = ("attributes", "data", "fresh", "kind", "owner", "place", "slots")

    attributes: dict[str, Any]
    data: Any
    fresh: Any
    kind: Any
    owner: Any
    slots: dict[str, Any]

    whole = True  # ops come here with the operands that the program gave

    @classmethod
    def apply(cls, op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Hand an op to the handlers of the classes among its operands."""
        if _local.off:
            return _value(op.call(*(_bare(v, op.name) for v in values), *params))
        operands = tuple(held_by(v) for v in values)
        return _value(asked(named(op, operands, params, False), operands, params, {}))

    def detached(self) -> Any:
        """Return what the handler makes of ``detach``."""
        if _local.off:
            return self
        tensor = held_by(self)
        return _value(asked(named("detach", (tensor,), (), False), (tensor,), (), {}))

    def ones(self) -> Any:
        """Return what the handler makes of ``ones_like``."""
        return self.made("ones_like", ())

    def made(self, name: str, args: tuple[Any, ...], **options: Any) -> Any:
        """Return what the handler makes of a function that makes a value like this one."""
        tensor = held_by(self)
        return _value(asked(named(name, (tensor, *args), (), False), (tensor,), args, options))

    def write(self, op: Op, rest: tuple[Any, ...], params: tuple[Any, ...]) -> None:
        """Let the handler compute an op in place."""
        operands = tuple(held_by(v) for v in (self, *rest))
        asked(named(op, operands, params, True), operands, params, {})

    def note_holder(self, tensor: TensorBase) -> None:
        """Give a tensor that has got this value what the one that it came with holds."""
        if isinstance(tensor, self.kind) and tensor is not self.owner():
            self._dress(tensor)

    def _dress(self, tensor: Any) -> None:
        self._look()
        if tensor is not self.owner():
            tensor.__dict__.update({k: v for k, v in self.attributes.items() if k != "_is_param"})
        for name, value in self.slots.items():
            setattr(tensor, name, value)

    def _look(self) -> Any:
        """Note what is in the slots of the tensor, while it is there, and return the tensor."""
        owner = self.owner()
        if owner is not None:
            self.slots = {name: getattr(owner, name) for name in _slots_of(self.kind) if hasattr(owner, name)}
        return owner

    def __getitem__(self, index: Any) -> Any:
        return held_by(self)[index].array

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what the handler makes of a conversion."""
        return nodes.registry["cast"].call(self, np.dtype(dtype))

    def memory(self) -> Any:
        """Return the elements, where there are any; else memory that nothing shares."""
        return np.empty(0, self.dtype) if self.data is None else self.data

    def concrete(self, what: str) -> Any:
        """Return the elements, or what the handler says that the only one is."""
        if self.data is not None:
            return self.data
        if what in ("item()", "bool()", "float()", "int()", "complex()", "index()"):
            tensor = held_by(self)
            return np.asarray(asked(named("_local_scalar_dense", (tensor,), (), False), (tensor,), (), {}))
        return super().concrete(what) if what == "repr()" else _refuse(what, self.kind)


def _refuse(what: str, kind: type) -> Any:
    raise RuntimeError(f"{what} needs the elements of a tensor, and one of class {kind.__name__} has none of its own")


def _slots_of(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        if base.__module__ != "adjoint" and not issubclass(TensorBase, base):
            given = vars(base).get("__slots__", ())
            found += [given] if isinstance(given, str) else list(given)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def held_by(value: Any) -> Any:
    """Return the tensor of a value as handlers get it; anything else as it is."""
    if type(value) is Dispatched:
        owner, value.fresh = value._look(), False
        return dressed(value) if owner is None else owner
    if isinstance(value, np.ndarray | np.generic):
        return wrap(value)
    return value


def _bare(value: Any, what: str) -> Any:
    array = value.array if isinstance(value, TensorBase) else value
    if type(array) is not Dispatched:
        return value
    return wrap(array.concrete(what))


def _value(result: Any) -> Any:
    """Return the value of a handler's result, marked as one whose tensor is not recorded yet."""
    if isinstance(result, tuple | list):
        return tuple(map(_value, result))
    if not isinstance(result, TensorBase):
        return result
    if type(result.array) is Dispatched:
        result.array._look()
        result.array.fresh = result.node is None and result
    return result.array


def asked(func: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Let the handlers of some operands' classes run an op, unrecorded."""
    tensors = [t for v in inputs for t in (v if isinstance(v, list | tuple) else (v,))]
    kinds: list[Any] = []
    for t in tensors:
        if isinstance(t, TensorBase) and type(t.array) is Dispatched and type(t) not in kinds:
            at = next((i for i, k in enumerate(kinds) if issubclass(type(t), k)), len(kinds))
            kinds.insert(at, type(t))
    before = modes.local.grad
    modes.set_grad(False)
    try:
        for kind in kinds:
            result = kind.__torch_dispatch__(func, tuple(kinds), (*inputs, *params), options)
            if result is not NotImplemented:
                return result
    finally:  # by stores: see modes.py
        modes.off[modes.local.key], modes.local.grad = None, before
        if before:
            modes.off.pop(modes.local.key, None)
    raise TypeError(
        f"Multiple dispatch failed for '{func}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
        f"  - tensor subclasses {[k.__qualname__ for k in kinds]}"
    )


def hold(
    kind: Any, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None, place: device, data: Any = None
) -> Any:
    """Return a tensor of a class that has a handler."""
    value = Dispatched(shape, dtype, strides)
    value.kind, value.place, value.data, value.fresh, value.slots = kind, place, data, False, {}
    value.attributes, value.owner = {}, lambda: None
    return dressed(value)


def made_of(kind: Any, size: Any, strides: Any, dtype: Any, place: Any, requires_grad: bool) -> Any:
    """Return a tensor without elements of its own, as ``_make_wrapper_subclass`` makes one."""
    wanted = dtypes.default() if dtype is None else dtype
    steps = None if strides is None else tuple(int(s) * wanted.itemsize for s in strides)
    shape = tuple(int(n) for n in size)
    out = hold(kind, shape, wanted.np, steps, CPU if place is None else as_device(place))
    if requires_grad:
        out.requires_grad_()
    return out


def held_data(kind: Any, tensor: Any) -> Any:
    """Return a tensor of a class that has a handler, and the elements of another tensor."""
    array = tensor.array
    strides = tuple(s * array.dtype.itemsize for s in strides_of(array))
    return hold(kind, tuple(array.shape), array.dtype, strides, place_of(array), array)


def dressed(value: Dispatched, node: Any = None, storage: Any = None) -> Any:
    """Return a tensor of its class that holds a value."""
    fresh, value.fresh = value.fresh, False
    if fresh is not False and fresh.lineage is None:
        fresh.node = node
        return fresh
    out: Any = object.__new__(value.kind)
    out.array, out.node, out.memory, out.lineage, out._grad = value, node, storage, None, None
    value._dress(out)
    if value.owner() is None:
        value.attributes, value.owner = out.__dict__, weakref.ref(out)
    return out


nodes.dressers[Dispatched] = dressed
