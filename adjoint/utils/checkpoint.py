"""Checkpointing: save only the inputs of a part of the program, and compute what its backward needs again."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import Any

from ..autograd.differentiate import backward
from ..autograd.function import Function
from ..core import modes
from ..core.engine import running
from ..core.observation import Observer, is_captured
from ..core.payload import transforming
from ..core.tensor import TensorBase, tick, written_ledger
from ..cuda import devices as cuda
from ..errors import place
from ..nn.modules.container import Sequential
from ..tree import tree_leaves
from .recomputation import CheckpointError, Frame, GraphExecGroup, Settings, Surroundings

__all__ = [
    "SAC_IGNORED_OPS", "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType",
    "GraphExecGroup", "SelectiveCheckpointContext", "check_backward_validity", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts", "detach_variable", "get_device_states", "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Overrule the `debug` argument of every `checkpoint` inside the context; None leaves it to them."""
    before, Settings.debug = Settings.debug, enabled
    try:
        yield
    finally:
        Settings.debug = before


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Overrule the `early_stop` argument of every `checkpoint` inside the context."""
    before, Settings.early_stop = Settings.early_stop, enable
    try:
        yield
    finally:
        Settings.early_stop = before


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return two contexts that do nothing: for the first run and for the second."""
    return nullcontext(), nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with tensors cut off from their history, each a leaf that requires what it did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(i.detach().requires_grad_(i.requires_grad) if isinstance(i, TensorBase) else i for i in inputs)  # type: ignore[attr-defined]


def check_backward_validity(inputs: Any) -> None:
    """Warn if no input requires a gradient."""
    if not any(isinstance(i, TensorBase) and i.requires_grad for i in inputs):  # type: ignore[attr-defined]
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class DefaultDeviceType:
    """The kind of device that a checkpoint without tensors on one is taken to use."""

    _device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the kind of device."""
        DefaultDeviceType._device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the kind of device: that of the accelerator, unless set."""
        if DefaultDeviceType._device_type is None:
            return "cuda" if cuda.is_available() else "cpu"
        return DefaultDeviceType._device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Return the indices of the GPUs that the tensors among `args` are on, and the states of their generators."""
    tensors: list[Any] = [a for a in tree_leaves(args) if isinstance(a, TensorBase)]
    found = {t.device.index: t.device for t in tensors if t.device.type == "cuda"}
    return list(found), [cuda.get_rng_state(place) for place in found.values()]


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Set the states that `get_device_states` returned."""
    if (device_type or DefaultDeviceType.get_device_type()) == "cuda":
        for index, state in zip(devices, states, strict=False):
            cuda.set_rng_state(state, index)


class CheckpointFunction(Function):
    """A checkpoint as one node, whose backward runs the function again and a backward pass through it."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Run the function without recording it."""
        check_backward_validity(args)
        ctx.run_function, ctx.surroundings = run_function, Surroundings(preserve_rng_state)
        ctx.inputs = [None if isinstance(a, TensorBase) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, TensorBase)]
        ctx.save_for_backward(*(args[i] for i in ctx.tensor_indices))
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function again, recorded, and differentiate that."""
        if any(task.wanted is not None for task in running.tasks):
            raise RuntimeError(
                "When use_reentrant=True, adjoint.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.tensor_indices, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        outputs = ctx.surroundings.again(lambda: ctx.run_function(*detached))
        outputs = (outputs,) if isinstance(outputs, TensorBase) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=False) if isinstance(o, TensorBase) and o.requires_grad]  # type: ignore[attr-defined]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(d.grad if isinstance(d, TensorBase) else None for d in detached))  # type: ignore[attr-defined]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call `function` without saving what its ops save: the backward pass runs it again.

    Parameters
    ----------
    function
        What to call, with ``*args`` and ``**kwargs``; it must do the same each time.
    use_reentrant
        Whether the call is one node, whose backward runs a backward pass of its own (True, and the default, with a
        warning), or recorded as any other call. Prefer False: it works with `autograd.grad`, keyword arguments and
        whatever else a program does.
    context_fn
        Returns two contexts, for the first run and the second; see `create_selective_checkpoint_contexts`.
    determinism_check
        ``"default"`` compares shapes and dtypes of what both runs save, ``"none"`` does not.
    debug
        Whether a mismatch lists the ops of both runs.
    early_stop
        Whether the second run ends as soon as everything is there.
    **kwargs
        Those of `function`, and ``preserve_rng_state`` (True): whether the second run draws the same numbers.

    Examples
    --------
    >>> from adjoint.utils.checkpoint import checkpoint
    >>> x = adjoint.tensor(0.5, requires_grad=True)
    >>> y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    >>> y.backward()
    >>> bool(x.grad == x.exp() * x.exp().cos())
    True
    """
    if use_reentrant is None:
        _warn_omitted("adjoint.utils.checkpoint")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if modes.transforms and transforming():
            raise RuntimeError(
                "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it "
                "must override the setup_context staticmethod, which re-entrant checkpointing cannot: pass "
                "use_reentrant=False"
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if not modes.is_grad_enabled() or is_captured():  # a captured program sees to its memory itself
        return function(*args, **kwargs)
    first, second = context_fn()
    frame = Frame(
        function, args, kwargs,
        {
            "preserve_rng_state": preserve,
            "determinism_check": determinism_check,
            "debug": debug if Settings.debug is None else Settings.debug,
            "early_stop": early_stop if Settings.early_stop is None else Settings.early_stop,
        },
        second,
    )  # fmt: skip
    local = modes.local
    before = local.observer, local.pack_hooks, local.fusing
    try:
        with frame.first_run(), first:
            out = function(*args, **kwargs)
            frame.completed = True
            return out
    except BaseException:  # by stores: see modes.py
        local.observer, local.pack_hooks, local.fusing = before
        raise
    raise RuntimeError(
        "adjoint.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during "
        "the checkpointed forward. This is not supported because checkpoint cannot return a value for a failed forward."
    )


def _warn_omitted(where: str) -> None:
    warnings.warn(
        f"{where}: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling "
        "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need "
        "to preserve the current default behavior, you can pass use_reentrant=True.",
        stacklevel=3,
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a sequence of functions in `segments` parts, each but the last checkpointed.

    Examples
    --------
    >>> from adjoint.utils.checkpoint import checkpoint_sequential
    >>> net = adjoint.nn.Sequential(*[adjoint.nn.Linear(2, 2) for _ in range(4)])
    >>> checkpoint_sequential(net, 2, adjoint.ones(1, 2), use_reentrant=False).shape
    adjoint.Size([1, 2])
    """
    if use_reentrant is None:
        _warn_omitted("adjoint.utils.checkpoint.checkpoint_sequential")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    parts = list(functions.children()) if isinstance(functions, Sequential) else list(functions)
    size = len(parts) // segments

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for part in parts[start:end]:
                x = part(x)
            return x

        return forward

    last = size * (segments - 1)
    for start in range(0, last, size or 1):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(last, len(parts))(input)


# --- Selective checkpointing ------------------------------------------------------------------------


class CheckpointPolicy(Enum):
    """What selective checkpointing does with the result of an op."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy gets besides the op: whether this is the second run."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


_SAVED = frozenset(CheckpointPolicy) - {CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE}
SAC_IGNORED_OPS: set[Any] = {"detach"}  # ops that selective checkpointing does not consult the policy for


class _Storing(Observer):
    """Saves the results of the ops that the policy wants saved."""

    def __init__(self, policy: Callable[..., Any], storage: dict[str, list[Any]]) -> None:
        self.policy, self.storage, self.context = policy, storage, SelectiveCheckpointContext(is_recompute=False)

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        out = self.proceed(op, inputs, params, run)
        if _is_saved(self.policy, self.context, op, inputs, params, out):
            arrays = tuple(o.array for o in out) if isinstance(out, tuple) else out.array
            self.storage[op.name].append((arrays, tick()))
        return out


class _Reusing(Observer):
    """Returns the saved results of the first run, without computing them."""

    def __init__(self, policy: Callable[..., Any], storage: dict[str, list[Any]], mutable: bool) -> None:
        self.policy, self.storage, self.context = policy, storage, SelectiveCheckpointContext(is_recompute=True)
        self.mutable = mutable
        self.next: dict[str, int] = {}

    def __enter__(self) -> Any:
        self.next = defaultdict(int)
        return super().__enter__()

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        tensors = any(isinstance(v, TensorBase) for v in inputs)
        if not tensors or not _wants(self.policy, self.context, op, inputs, params):
            return self.proceed(op, inputs, params, run)
        number = self.next[op.name]
        if number >= len(self.storage[op.name]):
            raise CheckpointError(
                f"selective checkpointing: {op.name} is called more often in the second run than in the first"
            )
        self.next[op.name] = number + 1
        stored = self.storage[op.name][number]
        if stored is None:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        arrays, stamp = stored
        self.storage[op.name][number] = None  # its memory goes as soon as the pass has used it
        for array in arrays if isinstance(arrays, tuple) else (arrays,):
            ledger = written_ledger(array)
            if ledger is not None and ledger.time > stamp and not self.mutable:
                raise RuntimeError(
                    "Tensor cached during selective activation checkpoint has been mutated: the result of "
                    f"{op.name} was overwritten by {ledger.operation} at {place(ledger.code, ledger.lasti)}"
                )
        known = copy.copy(op)  # the same op, recorded the same way, that knows its result already
        known.kernel = lambda *values: arrays
        return self.proceed(known, inputs, params, run)


def _wants(policy: Any, context: Any, op: Any, inputs: Any, params: Any) -> bool:
    if op.name in SAC_IGNORED_OPS:
        return False
    chosen = policy(context, op, *inputs, *params)
    if isinstance(chosen, bool):
        return chosen
    if not isinstance(chosen, CheckpointPolicy):
        raise TypeError(f"a checkpoint policy returns a CheckpointPolicy, not {chosen!r}")
    return chosen in _SAVED


def _is_saved(policy: Any, context: Any, op: Any, inputs: Any, params: Any, out: Any) -> bool:
    tensors = isinstance(out, TensorBase) or (isinstance(out, tuple) and all(isinstance(o, TensorBase) for o in out))
    return tensors and not op.view and _wants(policy, context, op, inputs, params)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return the two contexts of a checkpoint that saves the results of some ops and computes the others again.

    Parameters
    ----------
    policy_fn_or_list
        ``policy(ctx, op, *args)``, which returns a `CheckpointPolicy`, or a list of ops whose results are saved:
        functions such as ``adjoint.matmul``, or their names.
    allow_cache_entry_mutation
        Whether a saved result may be overwritten in between; it is an error otherwise.

    Examples
    --------
    >>> from functools import partial
    >>> from adjoint.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = adjoint.ones(2, 2, requires_grad=True)
    >>> contexts = partial(create_selective_checkpoint_contexts, ["matmul"])
    >>> checkpoint(lambda x: (x @ x).exp().sum(), x, use_reentrant=False, context_fn=contexts).backward()
    """
    policy: Callable[..., Any] = policy_fn_or_list
    if isinstance(policy_fn_or_list, list | tuple):
        names = frozenset(map(_op_name, policy_fn_or_list))

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op.name in names else CheckpointPolicy.PREFER_RECOMPUTE

    elif not callable(policy_fn_or_list):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[str, list[Any]] = defaultdict(list)
    return _Storing(policy, storage), _Reusing(policy, storage, allow_cache_entry_mutation)


def _op_name(op: Any) -> str:
    if isinstance(op, str):
        return op
    inner = getattr(op, "op", op)
    name = getattr(inner, "name", None) or getattr(op, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"Expected op in `op_list` to be an adjoint op or its name but got: {op} of type {type(op)}.")
    return name
