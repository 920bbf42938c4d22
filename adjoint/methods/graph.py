"""A tensor's place in the graph: what it requires, its gradient, its hooks, and how it is cut off."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import device as devices
from ..core import dtypes, modes, nodes
from ..core.handles import RemovableHandle
from ..core.leaves import AccumulateGrad
from ..core.nodes import extra_of, wrap
from ..core.payload import Payload, has_seen_history, history_below, is_argument, is_batch, is_captured, transforming
from ..core.tensor import STALE, InferenceStorage, TensorBase, caller, clock, note_geometry, storage_of, tick
from ..core.views import edge_of, expect_shape, note_detached, show_views
from ..core.writable import is_bare, is_leaf_node
from ..ops import create
from ..ops import memory as memories
from ..ops.copies import RESTING
from ..ops.literals import depth_outside

_ONLY_LEAVES = (
    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph "
    "that doesn't require differentiation use var_no_grad = var.detach()."
)
_backward: Any = None  # autograd.backward, once it has been called


def _is_made_dual(x: TensorBase) -> bool:
    """Return whether a tensor is what `make_dual` gives: a view of its primal."""
    array = x.array
    if not isinstance(array, Payload) or not array.level or not array.spreads:
        return False
    below = array.below()
    return isinstance(below, TensorBase) and below.lineage is not None


def looks_like_leaf(node: Any) -> bool:
    """Return whether inside a transform a recorded tensor is an argument of it, or a constant there."""
    return is_argument(node) or not has_seen_history(node)


def _refuse_inside(what: str, name: str) -> None:
    if transforming():
        raise RuntimeError(
            f"You are attempting to call Tensor.{what} inside of a function being transformed by a functorch "
            "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, "
            f"jacfwd, hessian) or call {name} outside of a function being transformed instead."
        )


def set_requires_grad(self: Tensor, value: bool) -> None:
    """Start or stop recording what is computed from a leaf, by the attribute."""
    if not isinstance(value, bool):
        raise RuntimeError("requires_grad must be a bool")
    if value and not nodes.differentiable(self.array.dtype):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if not self.is_leaf:
        raise RuntimeError(_ONLY_LEAVES)
    require_grad(self, value)


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set in place whether ops on this leaf are recorded.

    Parameters
    ----------
    requires_grad : bool, default True
        False stops the recording; gradients are then neither computed nor added to ``.grad``.

    Returns
    -------
    Tensor
        This tensor.

    Raises
    ------
    RuntimeError
        If an op has made the tensor, or its dtype is neither floating nor complex.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> x.requires_grad_()
    tensor([1., 2.], requires_grad=True)
    >>> x.requires_grad_(False)
    tensor([1., 2.])
    """
    if not isinstance(requires_grad, bool):
        raise TypeError(
            "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
            f"{requires_grad.__class__.__name__}"
        )
    if modes.transforms:
        _refuse_inside("requires_grad_() (or perhaps using adjoint.autograd.functional.* APIs)", "requires_grad_()")
    return require_grad(self, requires_grad)


def require_grad(self: Tensor, requires_grad: bool) -> Tensor:
    """Start or stop recording what is computed from a leaf."""
    node = self.node
    if requires_grad == (node is not None) and (type(node) is not nodes.Hidden or not requires_grad):
        return self
    if not requires_grad:
        if type(node) is nodes.Hidden:  # as its base does
            return self
        if not is_bare(self):
            raise RuntimeError(_ONLY_LEAVES)
        if node is STALE:  # as its base does
            return self
        rest(self)
        return self
    if type(self.memory) is InferenceStorage and not modes.local.inference:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    resting = _resting(self)
    self.__dict__.pop(RESTING, None)
    if resting is None:
        create.require_grad(self, "only Tensors of floating point dtype can require gradients")
    else:
        self.node = resting
        resting.follow(self)
    if self.memory is not None:
        show_views(self, True)
    return self


def rest(self: Tensor) -> None:
    """Stop being differentiated, though graphs that were recorded still end here: they may be used again."""
    node = self.node
    self.__dict__[RESTING] = node if node.watched else weakref.ref(node)
    self.node = None
    show_views(self, False)


def get_grad_dtype(self: Tensor) -> Any:
    """The dtype that gradients of this leaf are given: its own unless set; None leaves each as it is."""
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return _grad_dtype(self)


def set_grad_dtype(self: Tensor, value: Any) -> None:
    """Choose the dtype that gradients of a leaf are given."""
    if not self.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value is not None and not isinstance(value, dtypes.dtype):
        raise RuntimeError(f"grad_dtype must be a adjoint.dtype or None, but got {type(value).__name__}")
    if value is not None and self._grad is not None and self._grad.dtype is not value:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{value.name}' because there is already a gradient with dtype "
            f"'{self._grad.dtype.name}'. Please clear the gradient (.grad = None) before changing grad_dtype, or "
            "ensure the new grad_dtype matches the existing gradient's dtype."
        )
    leaf = self.node if type(self.node) is AccumulateGrad else _resting(self)
    if leaf is None:
        leaf = self.__dict__[RESTING] = AccumulateGrad(self)
    extra_of(leaf).grad_dtype = (value and value.np,)


def retain_grad(self: Tensor) -> None:
    """Store the gradient of this non-leaf in ``.grad`` during the next backward passes."""
    if modes.transforms and self.requires_grad:
        _refuse_inside("retain_grad()", "retain_grad()")
    if self.node is None:
        below = history_below(self) if modes.unusual else None
        if below is not None:
            below.retain_grad()
            return
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not is_bare(self) and not self.retains_grad:
        extra_of(edge_of(self)).retain = weakref.ref(self)


def register_hook(self: Tensor, hook: Any) -> RemovableHandle:
    """Call a function with the gradient of this tensor in every backward pass that computes it.

    Parameters
    ----------
    hook : callable
        Called as ``hook(grad)``. What it returns, if not None, takes the place of the gradient. It must not write into
        `grad`.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` takes the hook out.

    Raises
    ------
    RuntimeError
        If the tensor requires no gradient.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    >>> handle.remove()
    """
    if self.node is None:
        below = history_below(self) if modes.unusual else None
        if below is not None:
            return below.register_hook(hook)  # type: ignore[no-any-return]
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if type(self.node) is nodes.Hidden:  # no gradient ever arrives there
        return RemovableHandle({}, hook)
    return RemovableHandle(nodes.tensor_hooks_of(edge_of(self)), hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Any) -> RemovableHandle:
    """Call ``hook(self)`` after a gradient was added to this leaf's ``.grad``."""
    if self.node is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not is_leaf_node(self.node):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if type(self.node) is nodes.Hidden:
        return RemovableHandle({}, hook)
    leaf: AccumulateGrad = self.node
    if leaf.post_hooks is None:
        leaf.post_hooks = {}
    return RemovableHandle(leaf.post_hooks, hook)


def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Compute the gradients of this tensor, and add them to the ``.grad`` of the leaves that it depends on.

    Parameters
    ----------
    gradient : Tensor, optional
        The gradient of some scalar by this tensor, of its shape. It may be left out if this tensor has one element;
        then it is 1.
    retain_graph : bool, optional
        Do not free the saved values, so that another backward pass can use them. Defaults to `create_graph`.
    create_graph : bool, default False
        Record the backward pass, so that gradients can be differentiated again.
    inputs : Tensor or sequence of Tensor, optional
        Add gradients to these tensors only. Defaults to all leaves.

    Raises
    ------
    RuntimeError
        If `gradient` is missing and the tensor has several elements, if nothing that it was computed from requires a
        gradient, or if the graph was freed by an earlier pass.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> (x**2).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    >>> (x**2).backward(adjoint.tensor([10.0, 0.0]))  # gradients add up
    >>> x.grad
    tensor([22.,  4.])
    """
    global _backward
    if _backward is None:
        # The engine's front door stands below the class that it takes.
        from ..autograd import backward

        _backward = backward
    _backward(self, gradient, retain_graph, create_graph, None, inputs)


def detach(self: Tensor) -> Tensor:
    """Return a tensor with the same elements and no history: gradients do not flow through it.

    Returns
    -------
    Tensor
        It shares memory with this one and requires no gradient.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> scale = x.sum().detach()  # a constant for the gradient
    >>> (x * scale).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    array = self.array
    if modes.unusual and isinstance(array, Payload):
        edge_of(self)  # a view of what was written since becomes up to date
        out = wrap(self.array.detached(), None, storage_of(self))
        out.array.note_holder(out)
        if array.by_value:
            note_detached(out, self)
    else:
        out = wrap(array, None, storage_of(self))
    if modes.unusual and modes.local.observer is not None:
        modes.local.observer.cut(self, out, "detach()")
    return out


def detach_(self: Tensor) -> Tensor:
    """Forget this tensor's history, in place: it becomes a leaf that requires no gradient.

    Returns
    -------
    Tensor
        This tensor.

    Raises
    ------
    RuntimeError
        If this tensor is a view: use `detach`.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> state = x * 2
    >>> state.detach_()
    tensor([2., 4.])
    """
    if self.lineage is not None or (modes.unusual and _is_made_dual(self)):
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients."
        )
    if modes.local.inference:
        return self
    node = self.node
    if type(node) is AccumulateGrad:
        rest(self)
    elif node is not None:
        extra_of(node).detached = True
        clock.latest = tick()  # so that nodes check what they have saved
    self.node = None
    if modes.unusual and isinstance(self.array, Payload):
        self.array = self.array.detached()
    if self.memory is not None:
        show_views(self, False)
    return self


def get_data(self: Tensor) -> Tensor:
    """The value without history; writes to it are not counted as writes to this tensor."""
    if modes.unusual and is_batch(self):
        raise RuntimeError("accessing `data` under vmap transform is not allowed. Use detach().")
    if modes.unusual and isinstance(self.array, Payload) and self.array.level:
        return self.detach()
    out = wrap(self.array, None, memories.same_memory(self))
    if modes.unusual and modes.local.observer is not None:
        modes.local.observer.cut(self, out, ".data")
    return out


def set_data(self: Tensor, value: Tensor) -> None:
    """Let a tensor hold other elements; its version counter stays."""
    if not isinstance(value, TensorBase):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if modes.unusual and (is_batch(self) or is_batch(value)):
        raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed. Use copy_().")
    if modes.transforms and transforming() and not is_captured(self):
        raise RuntimeError(
            "mutating directly with `.data` inside functorch transform is not allowed. Pass the tensor to the "
            "function, or write it outside of the transform."
        )
    if self.node is not None and not nodes.differentiable(value.array.dtype):
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    expect_shape(self, value.array.shape)
    note_geometry(self)
    self.array = value.array
    ledger = None if self.memory is None else self.memory.ledger
    self.memory = None
    if ledger is not None:  # the version counter stays, with the aliases that share it
        storage_of(self).ledger = ledger
    if type(self.node) is AccumulateGrad:
        self.node.follow(self)


def warn_grad_of_non_leaf() -> None:
    """Warn, unless the reader is code that inspects or copies and so reads every attribute."""
    if caller()[0].co_filename.endswith(("inspect.py", "copy.py")):
        return
    warnings.warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead.",
        UserWarning,
        stacklevel=depth_outside(),
    )


def _resting(leaf: Any) -> Any:
    """Return the node of a leaf that has required a gradient before, if a graph or a hook still needs it."""
    node = leaf.__dict__.get(RESTING)
    return node() if isinstance(node, weakref.ref) else node


def _grad_dtype(leaf: Any) -> Any:
    """Return the dtype that gradients of a leaf are given; None if each has its own."""
    node = leaf.node if type(leaf.node) is AccumulateGrad else _resting(leaf)
    chosen = None if node is None or node.extra is None else node.extra.grad_dtype
    if chosen is None:
        return leaf.dtype
    return None if chosen[0] is None else dtypes.of(chosen[0])


def check_grad(x: Any, value: Any) -> None:
    """Raise if a value cannot be assigned to ``x.grad``."""
    if not isinstance(value, TensorBase):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
    if value is x:
        raise RuntimeError("can't assign Variable as its own grad")
    mine, theirs = x.array, value.array
    if type(mine) is np.ndarray is type(theirs) and type(x.node) is AccumulateGrad and x.node.extra is None:
        if mine.dtype is theirs.dtype and mine.shape == theirs.shape:  # as nearly always
            return
    wanted = _grad_dtype(x)
    if wanted is not None and theirs.dtype != wanted.np:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{dtypes.of(theirs.dtype).title.lower()}' to a tensor with "
            f"grad_dtype '{wanted.title}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's "
            "dtype): use gradient.to(tensor.grad_dtype), or set tensor.grad_dtype first"
        )
    if tuple(theirs.shape) != tuple(mine.shape):
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(theirs.shape)}' to a tensor of size '{list(mine.shape)}'. "
            "Please ensure that the gradient and the tensor are the same size"
        )
    if devices.of(theirs) != devices.of(mine):
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{devices.of(theirs)}' to a tensor with device type "
            f"'{devices.of(mine)}'. Please ensure that the gradient and the tensor are on the same device"
        )
