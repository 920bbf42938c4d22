"""The graph as programs see it: nodes, edges, hooks on what is saved, hooks on many tensors at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core import device, modes
from ..core.handles import RemovableHandle
from ..core.nodes import Hidden, Node, shown, wrap
from ..core.saved import check_hooks
from ..core.tasks import running
from ..core.tensor import TensorBase, note_write
from ..core.views import edge_of
from ..devices import forks
from .differentiate import GradientEdge, gradient_edge
from .holdings import saved

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "region_activation_memory_budget", "register_multi_grad_hook", "save_on_cpu", "saved",
    "saved_tensors_hooks", "set_override_stale_capture_stream", "set_warn_on_accumulate_grad_stream_mismatch",
]  # fmt: skip


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Return the place in the graph that the gradient of `tensor` goes to.

    Examples
    --------
    >>> x = adjoint.ones(2, requires_grad=True)
    >>> adjoint.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    _get_grad_fn_or_grad_acc(tensor)
    return gradient_edge(tensor, edge_of(tensor))


def _get_grad_fn_or_grad_acc(t: Any) -> Any:
    """Return the node that the gradient of a tensor or an edge goes to; raises if there is none."""
    if isinstance(t, GradientEdge):
        return t.node
    node = edge_of(t)
    if node is None or type(node) is Hidden:
        raise AssertionError("Expected gradient function to be set: the tensor has no node that a gradient could reach")
    return shown(node)


def increment_version(tensor: Any) -> None:
    """Count a write that happened behind adjoint's back, through a NumPy alias say."""
    tensors: Any = (tensor,) if isinstance(tensor, TensorBase) else tensor
    if not isinstance(tensors, Iterable):
        raise RuntimeError(f"increment_version expect a Iterable[Tensor] as input, not {type(tensor).__name__}")
    for t in tensors:
        if not isinstance(t, TensorBase):
            raise RuntimeError(
                f"increment_version expects each element of the iterable to be a tensor, not {type(t).__name__}"
            )
        if not t.is_inference():  # type: ignore[attr-defined]  # which has no version
            note_write(t, "increment_version")


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted for torch's sake: a gradient is added on the stream that its leaf is used on."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accepted for torch's sake: no stream of a capture outlives it."""


def region_activation_memory_budget(budget: float) -> Any:
    """Refuse, as torch does outside of its compiler; `adjoint.memory_budget` bounds what any program saves."""
    name = "torch.autograd.graph.region_activation_memory_budget"
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"{name}: expects a float, got {type(budget).__name__}")
    if not 0.0 <= budget <= 1.0:
        raise ValueError(f"{name}: must be in [0, 1], got {budget}")
    raise RuntimeError(
        f"{name} can only be used inside a torch.compile region; it has no effect in eager mode. adjoint.memory_budget "
        "bounds the memory of any program."
    )


class saved_tensors_hooks(modes.Scope):
    """Apply `pack_hook` to every tensor that ops save inside the context, and `unpack_hook` when backward reads it.

    Examples
    --------
    >>> kept = []
    >>> x = adjoint.tensor(3.0, requires_grad=True)
    >>> with adjoint.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t), t)[1], lambda t: t):
    ...     y = adjoint.sin(x)
    >>> len(kept)
    1
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        check_hooks(self.pack_hook, self.unpack_hook, "saved_tensors_hooks")
        if modes.local.pack_refusal is not None:
            raise RuntimeError(modes.local.pack_refusal)
        owned = self.own()
        modes.note_unusual(1)
        modes.local.pack_hooks, self.owned = (*modes.local.pack_hooks, (self.pack_hook, self.unpack_hook)), owned

    def __exit__(self, *error: object) -> None:
        if not modes.local.pack_hooks:
            raise RuntimeError("saved_tensors_hooks is left in a thread that has not entered it")
        modes.local.pack_hooks, self.owned = modes.local.pack_hooks[:-1], None
        modes.note_unusual(-1)


class save_on_cpu(saved_tensors_hooks):
    """Move saved tensors to CPU memory, and back to the GPU when the backward pass needs them."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            place = device.of(tensor.array)
            return place, device.place_array(tensor.array, device.CPU).copy()

        def unpack(packed: Any) -> Any:
            place, array = packed
            return wrap(device.place_array(array, place))

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse saved-tensor hooks inside the context, with `error_message`."""
    if modes.local.pack_hooks:
        raise RuntimeError(error_message)
    before = modes.local.pack_refusal
    modes.local.pack_refusal = error_message
    try:
        yield
    finally:
        modes.local.pack_refusal = before


class _MultiHandle(RemovableHandle):
    """Removes the hooks of `register_multi_grad_hook` from all its tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        super().__init__({})
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> RemovableHandle:
    """Call `fn` when the gradients of several tensors are there: of all of them, or of any one.

    With ``mode="all"``, `fn` gets the list of gradients (None for a tensor that the pass does not reach)
    once the last one has arrived; with ``mode="any"``, the first gradient.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = forks.lock()
    if mode == "any":
        return _MultiHandle(_any_handles(tensors, fn, lock))
    for t in tensors:
        _get_grad_fn_or_grad_acc(t)
    # Weak: the hooks belong to these nodes, and would hold each other.
    nodes, size = [weakref.ref(edge_of(t)) for t in tensors], len(tensors)
    counts: dict[int, int] = {}
    buffers: dict[int, list[Any]] = {}

    def hook_for(index: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            task = running.tasks[-1]
            key = task.number
            with lock:
                buffer = buffers.get(key)
                if buffer is None:
                    buffer = buffers[key] = [None] * size
                    counts[key] = sum(n is not None and task.will_reach(n) for n in (ref() for ref in nodes))
                buffer[index] = grad
                counts[key] -= 1
                done = counts[key] == 0
            if done:
                del counts[key]
                fn(buffers.pop(key))

        return hook

    return _MultiHandle([t.register_hook(hook_for(i)) for i, t in enumerate(tensors)])


def _any_handles(tensors: Sequence[Any], fn: Callable[..., Any], lock: Any) -> list[RemovableHandle]:
    seen: set[int] = set()

    def hook(grad: Any) -> None:
        key = running.tasks[-1].number
        with lock:
            first = key not in seen
            seen.add(key)
        if first:
            fn(grad)

    return [t.register_hook(hook) for t in tensors if t.requires_grad]


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[Any]:
    """Let programs write to tensors that ops have saved: the saved value is cloned when that happens."""
    if any(
        isinstance(getattr(pack, "__self__", None), _AllowMutationOnSavedContext) for pack, _ in modes.local.pack_hooks
    ):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context.pack, context.unpack):
        try:
            yield context
        finally:
            context.clear()


class _Saved:
    """A copy of what was saved inside `allow_mutation_on_saved_tensors`, and the tensor that it is of."""

    __slots__ = ("__weakref__", "array", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self.array: Any = tensor.array.copy()
        self.tensor, self.version = tensor.detach(), tensor._version


class _AllowMutationOnSavedContext:
    """What was saved inside `allow_mutation_on_saved_tensors`."""

    def __init__(self) -> None:
        self._entries: weakref.WeakSet[_Saved] = weakref.WeakSet()

    @property
    def original(self) -> dict[Any, Any]:
        """What was saved and has not been written to since."""
        return {entry: entry.tensor for entry in self._entries if entry.tensor._version == entry.version}

    @property
    def cloned(self) -> dict[Any, Any]:
        """The values that tensors had when they were saved, of those written to since."""
        return {entry: wrap(entry.array) for entry in self._entries if entry.tensor._version != entry.version}

    def pack(self, tensor: Any) -> Any:
        """Save a copy: later writes to the tensor do not reach it."""
        entry = _Saved(tensor)
        self._entries.add(entry)
        return entry

    def unpack(self, entry: Any) -> Any:
        """Return the copy."""
        if entry not in self._entries:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return wrap(entry.array)

    def clear(self) -> None:
        """Forget all copies."""
        for entry in self._entries:
            entry.array = None
        self._entries.clear()
