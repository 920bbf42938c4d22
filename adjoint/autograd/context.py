"""``ctx``: the node of one call of a custom function, and what it saves."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ..core import modes
from ..core.failures import freed_error
from ..core.nodes import Cotangents, Freed, MultipleNode, Output, Own, checked_unpacked, output_node, wrap
from ..core.payload import is_captured
from ..core.saved import check_hooks, freed_hooks_error, packed_by
from ..core.tensor import STALE, InferenceStorage, TensorBase, clock, storage_of, written_ledger
from ..core.views import edge_of
from ..errors import InPlaceError, place


class SavedValue:
    """A tensor given to `save_for_backward`: enough to give it back without holding an output."""

    __slots__ = ("array", "edge", "memory", "output", "packed", "tensor", "unpack")

    array: Any
    tensor: Any  # the tensor itself, if it is no output of the node
    edge: Any
    memory: Any
    output: int | None
    packed: Any
    unpack: Any

    def restore(self, node: BackwardCFunction) -> Any:
        """Return the tensor, if it was not written since."""
        if self.unpack is not None:
            return self.unpack(self.packed)
        ledger = written_ledger(self.array)
        if ledger is not None and ledger.time > node.stamp:
            raise InPlaceError(overwritten(node, ledger))
        edge = self.edge
        if self.output is not None:
            edge = node if node.single else output_node(node, self.output)
        return wrap(self.array, edge, self.memory)


def overwritten(node: BackwardCFunction, ledger: Any) -> str:
    """Return the error message for a saved tensor that was written after it was saved."""
    saved_at, written_at = place(node.code, node.lasti), place(ledger.code, ledger.lasti)
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{node.op.title} saved it{f' at {saved_at}' if saved_at else ''}, and {ledger.operation or 'an in-place op'} "
        f"overwrote it{f' at {written_at}' if written_at else ''} (it is at version {ledger.version}). Save a copy "
        "(x.clone()) or use the out-of-place op."
    )


class OwnOutput:
    """An attribute of ``ctx`` that holds, on some nodes, one of the node's own outputs.

    The node must not hold the output itself, which holds the node: it stores what it takes to make it again.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, node: Any, owner: Any = None) -> Any:
        try:
            value = node.__dict__[self.name]
        except (KeyError, AttributeError):
            raise AttributeError(f"'{owner.__name__}' object has no attribute '{self.name}'") from None
        return value.restore(node) if type(value) is SavedValue else value

    def __set__(self, node: Any, value: Any) -> None:
        node.__dict__[self.name] = value

    def __delete__(self, node: Any) -> None:
        del node.__dict__[self.name]


class FunctionCtx:
    """What `forward`, `setup_context` and `backward` of a custom function may call on ``ctx``.

    Anything else that `backward` needs can be stored as an attribute, ``ctx.dim = dim``.

    Attributes
    ----------
    saved_tensors : tuple of Tensor
        In `backward`: what `save_for_backward` was given. Raises if one of them was written in place since, or if an
        earlier backward pass freed the graph.
    needs_input_grad : tuple of bool
        In `backward`: for each argument of `forward`, whether its gradient is wanted. Return None where it is not.

    Examples
    --------
    >>> class Mul(adjoint.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, y):
    ...         ctx.save_for_backward(x, y)
    ...         return x * y
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         x, y = ctx.saved_tensors
    ...         print(ctx.needs_input_grad)
    ...         return g * y if ctx.needs_input_grad[0] else None, g * x if ctx.needs_input_grad[1] else None
    >>> x = adjoint.tensor(3.0, requires_grad=True)
    >>> Mul.apply(x, adjoint.tensor(2.0)).backward()
    (True, False)
    >>> x.grad
    tensor(2.)
    """

    __module__ = "adjoint.autograd.function"  # where programs find it

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for `backward`, which finds them in ``ctx.saved_tensors``.

        Call it once, in `forward` or `setup_context`. A saved tensor that is written in place before `backward` raises
        there; one that is stored as an attribute of ``ctx`` does not.

        Parameters
        ----------
        *tensors : Tensor or None
            Inputs, outputs or others.

        Examples
        --------
        >>> class Exp(adjoint.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         out = x.exp()
        ...         ctx.save_for_backward(out)
        ...         return out
        ...
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (out,) = ctx.saved_tensors
        ...         return g * out
        >>> x = adjoint.tensor(0.0, requires_grad=True)
        >>> Exp.apply(x).backward()
        >>> x.grad
        tensor(1.)
        """
        self.to_save: tuple[Any, ...] | None = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors for `jvp`."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, TensorBase):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    "on ctx."
                )
        self.saved_for_forward: tuple[Any, ...] | None = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Declare which inputs `forward` has written to."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Declare which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` gets zeros for outputs without a gradient (the default), or None."""
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing; the name exists for old programs, as in torch."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked.",
            FutureWarning,
            stacklevel=2,
        )


class BackwardCFunction(MultipleNode, FunctionCtx):
    """The node of one call of a custom function; the function sees it as ``ctx``."""

    __module__ = "adjoint.autograd.function"

    # A dict for what the function stores; the others are plain slots of a node. `forms` has the shape and dtype of
    # each argument that is a tensor, and None for others. `_needs` is the value of `needs_input_grad` if the edges
    # do not determine it: nothing was recorded, or the program has set it.
    __slots__ = (
        "__dict__", "_named", "_needs", "dirty_tensors", "forms", "function", "non_differentiable", "single", "to_save",
    )  # fmt: skip

    function: Any
    forms: list[Any]
    _needs: Any
    single: bool
    to_save: tuple[Any, ...] | None
    dirty_tensors: tuple[Any, ...]
    non_differentiable: tuple[Any, ...]
    _named: dict[str, Any] | None  # what the program stored under names that are slots of the node

    # Class attributes are the defaults of what `ctx` methods set.
    saved_for_forward: tuple[Any, ...] | None = None
    materialize_grads = True
    _materialize_non_diff_grads = True  # whether that goes for outputs that were marked as not differentiable

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Which inputs require a gradient."""
        if self._needs is not None:
            return self._needs  # type: ignore[no-any-return]
        return needs(self.forms, self.edges)

    @needs_input_grad.setter
    def needs_input_grad(self, value: Any) -> None:
        self._needs = value

    @needs_input_grad.deleter
    def needs_input_grad(self) -> None:
        self._needs = None

    @property
    def positions(self) -> list[int]:
        """Which arguments are tensors."""
        return [i for i, form in enumerate(self.forms) if form is not None]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to `save_for_backward`."""
        saved = self.saved
        written = self.stamp < clock.latest if saved is not None else False
        if type(saved) is tuple and not written:
            return saved
        if saved is None:  # before forward has ended, or in jvp
            return tuple(self.saved_for_forward or ())
        if type(saved) is Freed:
            raise freed_error(self, saved)
        restored = []
        for value in saved:
            if type(value) is SavedValue:
                value = value.restore(self)
            elif written and value is not None:
                ledger = written_ledger(value.array)
                if ledger is not None and ledger.time > self.stamp:
                    raise InPlaceError(overwritten(self, ledger))
            restored.append(value)
        return tuple(restored)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """Old name of `saved_tensors`."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if type(self.saved) is Freed:
            raise freed_error(self, self.saved)
        values = [k if k is None or type(k) is SavedValue else save(k, edge_of(k), None) for k in self.saved or ()]
        self.saved = values or None
        return tuple(SavedTensor(k, self) for k in values)

    def lifted(self) -> Any:
        """Return what was saved: `saved_tensors` makes tensors of it."""
        return self.saved

    def verify(self) -> None:
        """Do nothing."""
        # saved_tensors verifies when the function reads it

    def gradients(self, g: Any) -> list[Any]:
        """Return one gradient per output, None where none arrived."""
        if self.single and not isinstance(g, Cotangents):
            return [g]
        return super().gradients(g)

    def apply(self, *grads: Any) -> Any:
        """Call the function's `backward` with these gradients."""
        return call_backward(self, grads)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{self.op.title} object at {id(self):#x}>"


class ClearingNode(BackwardCFunction):
    """The node of a function with `clear_saved_tensors_on_access`: saved tensors can be read once."""

    __slots__ = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given; it can be read once."""
        if type(self.saved) is Cleared:
            raise RuntimeError(
                "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
                "autograd.Function. Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
            )
        tensors = super().saved_tensors
        if self.saved is not None:
            self.saved = Cleared()
        return tensors


class Cleared:
    """Left in place of what `saved_tensors` has given out."""

    __slots__ = ()


def needs(forms: list[Any], edges: Any) -> tuple[bool, ...]:
    """Return, for each argument, whether it is a tensor that has an edge."""
    remaining = iter(edges)
    return tuple([form is not None and next(remaining) is not None for form in forms])


class SavedTensor:
    """One saved tensor, on which pack and unpack hooks can be registered."""

    def __init__(self, value: SavedValue | None, node: BackwardCFunction) -> None:
        self._value, self._node = value, node

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Store what `pack_hook` makes of the tensor, and let `unpack_hook` restore it."""
        check_hooks(pack_hook, unpack_hook)
        if self._value is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if type(self._node.saved) is Freed:
            raise freed_hooks_error()
        _pack(self._value, self._node, pack_hook, unpack_hook)


def _pack(
    value: SavedValue, node: BackwardCFunction, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]
) -> None:
    if value.unpack is not None:
        raise RuntimeError(
            "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks "
            "is allowed at a time."
        )
    edge, memory, output = value.edge, value.memory, value.output
    tensor = value.tensor
    if tensor is None:
        if output is not None:
            edge = node if node.single else output_node(node, output)
        tensor = wrap(value.array, edge, memory)
    packed = packed_by(pack_hook, tensor)
    watched = isinstance(packed, TensorBase) and packed.memory is memory
    if packed is tensor and output is not None:
        packed = Own(tensor, node, None if node.single else output)
    value.packed = packed
    holder = weakref.ref(node)

    def unpack(packed: Any) -> Any:
        out = checked_unpacked(unpack_hook(packed.tensor() if type(packed) is Own else packed))
        owner = holder()
        if watched and owner is not None and memory.ledger is not None and memory.ledger.time > owner.stamp:
            raise InPlaceError(overwritten(owner, memory.ledger))
        own = value.edge
        if output is not None and owner is not None:
            own = owner if owner.single else output_node(owner, output)
        return wrap(out.array, own, memory if watched else None)

    value.unpack = unpack
    value.array = value.tensor = None


def call_backward(node: Any, tensors: Any) -> Any:
    """Call the user's backward with its own values on ctx, where their names are those of a node's slots."""
    backward, named = node.function.backward, node._named
    if node.function.boxed_grads_call:
        tensors = ([*tensors],)
    if named is None:
        return backward(node, *tensors)
    ours = {name: getattr(node, name) for name in named}
    for name, value in named.items():
        setattr(node, name, value)
    try:
        return backward(node, *tensors)
    finally:
        for name, value in ours.items():
            setattr(node, name, value)


def saved_of(ctx: Any, tensors: tuple[Any, ...]) -> tuple[Any, ...] | list[Any]:
    """Return what to store of saved tensors: as they are, or a list where some must be made again.

    The node's own outputs are stored as what it takes to make them again.
    """
    own = False
    for position, t in enumerate(tensors):
        if isinstance(t, TensorBase):
            if modes.inferred and type(t.memory) is InferenceStorage and not is_captured(t):
                raise RuntimeError(
                    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
                    "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
                    "normal tensor and use it in autograd, or use `adjoint.no_grad()` instead of "
                    "`adjoint.inference_mode()`."
                )
            node = t.node
            if node is ctx or node is STALE or type(node) is Output:
                own = True
        elif t is not None:
            raise TypeError(
                f"save_for_backward can only save variables, but argument {position} is of type {type(t).__name__}; "
                "assign other values to ctx itself"
            )
    return [without_cycle(ctx, t) for t in tensors] if own else tensors


def without_cycle(ctx: Any, t: Any) -> Any:
    """Return what a node stores for a tensor: the tensor, or for the node's own output a `SavedValue` to rebuild it."""
    output = None if t is None else output_index(ctx, t)
    return t if output is None else save(t, None, output)


def save(t: Any, edge: Any, output: int | None) -> SavedValue:
    """Return a saved tensor, which is that output of the node if `output` is not None."""
    value = SavedValue()
    value.array, value.edge, value.memory, value.output, value.unpack = t.array, edge, storage_of(t), output, None
    value.tensor = t if output is None else None
    return value


def output_index(ctx: Any, t: Any) -> int | None:
    """Return which output of the node `t` is, or None."""
    node = t.node
    if node is ctx:
        return 0
    if type(node) is Output and node.edges[0] is ctx:
        return node.index
    if node is STALE and any(t is d for d in ctx.dirty_tensors):
        return 0
    return None
