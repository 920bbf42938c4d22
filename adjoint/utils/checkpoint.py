"""Checkpointing: save only the inputs of a part of the program, and recompute what its backward needs.

While the part runs, hooks replace every value that an op saves by an empty `_Place`. When a backward pass first needs
a place, the part runs again with the random state and autocast of the first run. Its ops save the same values in the
same order, and these fill the places. The graph of the second run is discarded: gradients flow through the first.
"""

from __future__ import annotations

import operator
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from ..amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
from ..autograd.differentiate import backward
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad
from ..autograd.graph import saved_tensors_hooks
from ..core import modes
from ..core.nodes import wrap
from ..core.observation import Observer, is_captured
from ..core.payload import transforming
from ..core.tasks import running
from ..core.tensor import TensorBase, caller, tick, written_ledger
from ..core.views import edge_of
from ..cuda import devices as cuda
from ..errors import InPlaceError, place
from ..nn.modules.container import Sequential
from ..ops.random import default_generator
from ..tree import tree_leaves
from .selective import (
    SAC_IGNORED_OPS,
    CheckpointError,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "SAC_IGNORED_OPS", "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType",
    "GraphExecGroup", "SelectiveCheckpointContext", "check_backward_validity", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts", "detach_variable", "get_device_states", "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


class _Settings:
    """What the two context managers below have switched."""

    debug: bool | None = None
    early_stop: bool | None = None
    group: GraphExecGroup | None = None


@contextmanager
def _setting(target: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute another value inside the context."""
    before = getattr(target, name)
    try:
        setattr(target, name, value)  # a signal's exception may come right after the call
        yield
    finally:
        setattr(target, name, before)


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """Overrule the `debug` argument of every `checkpoint` inside the context; None leaves it to them."""
    return _setting(_Settings, "debug", enabled)


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """Overrule the `early_stop` argument of every `checkpoint` inside the context."""
    return _setting(_Settings, "early_stop", enable)


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


class _Surroundings:
    """What the second run of a function has in common with the first: random numbers and autocast."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.random = default_generator.stream.state() if preserve_rng_state else None
        self.autocast = [(kind, is_autocast_enabled(kind), get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]
        self.autocast_cache = is_autocast_cache_enabled()

    def again(self, run: Callable[[], Any]) -> Any:
        """Call a function with them once more, and with recording on."""
        stream = default_generator.stream
        before = None if self.random is None else stream.state()
        try:
            if self.random is not None:
                stream.set_state(self.random)
            # By `with`, not by a generator or a stack: what an interrupt leaves of those is put back too late.
            with self._autocast(0), self._autocast(1), enable_grad():
                return run()
        finally:
            if before is not None:
                stream.set_state(before)

    def _autocast(self, number: int) -> Any:
        kind, enabled, dtype = self.autocast[number]
        return autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self.autocast_cache)


class CheckpointFunction(Function):
    """A checkpoint as one node, whose backward runs the function again and a backward pass through it."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Run the function without recording it."""
        check_backward_validity(args)
        ctx.run_function, ctx.surroundings = run_function, _Surroundings(preserve_rng_state)
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


class GraphExecGroup:
    """Lets backward passes over separate parts of a graph share what one second run of a checkpoint has made."""

    def __enter__(self) -> GraphExecGroup:
        if _Settings.group is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {_Settings.group}")
        _Settings.group = self
        return self

    def __exit__(self, *error: object) -> None:
        _Settings.group = None


class _Enough(Exception):
    """Every place is filled: the second run can stop."""


class _Place:
    """Placeholder in the graph for a saved value that the second run will compute."""

    __slots__ = ("__weakref__", "frame", "number")

    def __init__(self, frame: _Frame, number: int) -> None:
        self.frame, self.number = frame, number


class _Watch(Observer):
    """Knows which op is running, so that a mismatch can name it; in debug, remembers all of them."""

    def __init__(self, log: list[str] | None) -> None:
        self.op, self.log = "", log

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        self.op = op.name
        if self.log is not None:
            self.log.append(f"{op.name} at {place(*caller())}")
        return self.proceed(op, inputs, params, run)


class _Kept:
    """Metadata of a value that an op saved: its shape, dtype and device, the op, and the line."""

    __slots__ = ("code", "dtype", "lasti", "op", "place", "shape")

    def __init__(self, tensor: Any, op: str) -> None:
        self.shape, self.dtype, self.op = tensor.shape, tensor.dtype, op
        self.place = tensor.device
        self.code, self.lasti = caller()

    @property
    def metadata(self) -> dict[str, Any]:
        return {"shape": self.shape, "dtype": self.dtype, "device": self.place}

    def __str__(self) -> str:
        where = place(self.code, self.lasti)
        return f"saved by {self.op}{f' at {where}' if where else ''}"


class _Frame:
    """One checkpointed call: how to run it again, and the places to fill."""

    def __init__(self, function: Any, args: Any, kwargs: Any, options: dict[str, Any], second: Any) -> None:
        self.function, self.second = function, second
        self.check = options["determinism_check"] == "default"
        self.early_stop, self.debug = options["early_stop"], options["debug"]
        self.args, self.kwargs = [_Input.of(a) for a in args], {k: _Input.of(v) for k, v in kwargs.items()}
        self.surroundings = _Surroundings(options["preserve_rng_state"])
        self.places: list[weakref.ref[_Place]] = []
        self.kept: list[_Kept] = []
        self.found: dict[Any, dict[int, Any]] = {}
        self.log: list[str] | None = [] if self.debug else None
        self.fusing = modes.fusing()
        self.completed = False  # whether the first run has ended: a backward pass inside it wants only what it had

    def first_run(self) -> ExitStack:
        """Return the context of the first run: values that ops save become places."""
        watch = _Watch(self.log)

        def pack(tensor: Any) -> _Place:
            spot = _Place(self, len(self.places))
            self.places.append(weakref.ref(spot))
            self.kept.append(_Kept(tensor, watch.op))
            return spot

        with ExitStack() as stack:
            stack.enter_context(_fusing(self.fusing))
            stack.enter_context(watch)
            stack.enter_context(saved_tensors_hooks(pack, _fetch))  # which transforms refuse
            return stack.pop_all()

    def fetch(self, number: int) -> Any:
        """Return the value of a place, running the function again if this pass has not done so."""
        group = _Settings.group
        task = group or (running.tasks[-1] if running.tasks else None)
        values = self.found.get(task)
        if group is not None and values is not None and number not in values:
            raise CheckpointError(
                "adjoint.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. "
                "Performing two backward calls that overlap (i.e. require the same saved activation in order to "
                "compute gradients) is not allowed while under the adjoint.utils.checkpoint.GraphExecGroup context: "
                f"{self.kept[number]}"
            )
        if values is None or number not in values:
            values = {}
            self.run_again(values)
            if task is not None:
                self.found = {task: values}
        return values[number] if task is None else values.pop(number)

    def run_again(self, values: dict[int, Any]) -> None:
        """Run the function as in the first run, and collect the values that its ops save."""
        log: list[str] | None = [] if self.debug else None
        watch, wanted = _Watch(log), len(self.places)
        kept: list[_Kept] = []

        def pack(tensor: Any) -> Any:
            number = len(kept)
            kept.append(_Kept(tensor, watch.op))
            if number < wanted:
                values[number] = wrap(tensor.array)
            elif self.completed:
                raise self._error(
                    "trying to save more tensors during recomputation than during the original forward pass.\n"
                    f"Number of tensors saved during forward: {wanted}. One more was {kept[number]}", log
                )  # fmt: skip
            if self.early_stop and number + 1 == wanted:
                raise _Enough
            return tensor

        args, kwargs = [a.value() for a in self.args], {k: a.value() for k, a in self.kwargs.items()}

        def run() -> None:
            hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
            with _without_observers(), _fusing(self.fusing), watch, hooks, self.second:
                self.function(*args, **kwargs)

        try:
            self.surroundings.again(run)
        except _Enough:
            pass
        self._compare(kept, wanted, log)

    def _compare(self, kept: list[_Kept], wanted: int, log: list[str] | None) -> None:
        """Raise unless the second run has saved what the first had."""
        if len(kept) < wanted:
            raise self._error(
                "A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {wanted}\n"
                f"Number of tensors saved during recomputation: {len(kept)}.\n"
                f"The first that is missing was {self.kept[len(kept)]}", log
            )  # fmt: skip
        if not self.check:
            return
        changed = "".join(
            f"tensor at position {i}:\nsaved metadata: {first.metadata} ({first})\n"
            f"recomputed metadata: {second.metadata} ({second})\n"
            for i, (first, second, spot) in enumerate(zip(self.kept, kept, self.places, strict=False))
            if first.metadata != second.metadata and spot() is not None
        )
        if changed:
            raise self._error(
                "Recomputed values for the following tensors have different metadata than during the forward pass.\n"
                + changed, log
            )  # fmt: skip

    def _error(self, message: str, second: list[str] | None) -> CheckpointError:
        """Return the error for a second run that differs from the first."""
        message = f"adjoint.utils.checkpoint: {message}"
        if self.log is None:
            return CheckpointError(f"{message}\nTip: checkpoint(..., debug=True) lists the ops of both runs")
        return CheckpointError(
            "An error happened while unpacking tensors; dumping logs of latest computation\n"
            "because you passed `debug=True` to `adjoint.utils.checkpoint.checkpoint()`.\n"
            f"Operations executed during the original forward:\n{_numbered(self.log, 'original')}\n"
            f"Operations executed during recomputation:\n{_numbered(second or [], 'recompute')}\n{message}"
        )


def _numbered(log: list[str], run: str) -> str:
    return "\n".join(f"{line}   ({i} of {len(log)} in {run})" for i, line in enumerate(log, 1))


def _fetch(spot: _Place) -> Any:
    return spot.frame.fetch(spot.number)


class _Input:
    """An argument saved for the second run; inside another checkpoint, that one saves its value."""

    __slots__ = ("edge", "given", "load", "stamp")

    load: Any
    edge: Any  # its place in the graph: the second run sees the same kind of tensor, which it may write to as the first
    stamp: int

    def __init__(self, given: Any) -> None:
        self.given, self.load = given, None

    @classmethod
    def of(cls, given: Any) -> _Input:
        made = cls(given)
        if isinstance(given, TensorBase):
            tensor: Any = given
            made.edge, made.stamp = edge_of(tensor), tick()
            if modes.local.pack_hooks and tensor.requires_grad:
                pack, made.load = modes.local.pack_hooks[-1]
                made.given = pack(wrap(tensor.array))
            else:
                made.given = tensor.detach()
        return made

    def value(self) -> Any:
        tensor = self.given if self.load is None else self.load(self.given)
        if not isinstance(tensor, TensorBase):
            return tensor
        ledger = written_ledger(tensor.array)
        if ledger is not None and ledger.time > self.stamp:
            raise InPlaceError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: an "
                f"input of a checkpointed function, by {ledger.operation or 'an in-place op'} at "
                f"{place(ledger.code, ledger.lasti)}, before its backward ran the function again. Write to a copy."
            )
        leaf = getattr(self.edge, "variable", None)
        if leaf is not None and leaf.array is tensor.array and leaf.node is self.edge:
            return leaf
        return wrap(tensor.array, self.edge)


def _fusing(value: bool) -> AbstractContextManager[None]:
    """Let ops run in one piece, or not, as they would outside of the checkpoint: in both runs alike."""
    return _setting(modes.local, "fusing", value)


def _without_observers() -> AbstractContextManager[None]:
    """Run without the observers of the backward pass: a second run is not a part of it."""
    return _setting(modes.local, "observer", None)


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
    """Call `function` without saving tensors for the backward pass, which calls it again.

    This trades time for memory: only the arguments are saved.

    Parameters
    ----------
    function : callable
        What to call, with ``*args`` and ``**kwargs``; it must do the same each time.
    use_reentrant : bool, optional
        Whether the call is one node, whose backward runs a backward pass of its own (True, and the default, with a
        warning), or recorded as any other call. Prefer False: it works with `autograd.grad`, keyword arguments and
        whatever else a program does.
    context_fn : callable, optional
        Returns two contexts, for the first run and the second; see `create_selective_checkpoint_contexts`.
    determinism_check : {"default", "none"}, default "default"
        Whether to compare shapes and dtypes of what both runs save.
    debug : bool, default False
        Whether a mismatch lists the ops of both runs.
    early_stop : bool, default True
        Whether the second run ends as soon as everything is there.
    **kwargs
        Those of `function`, and ``preserve_rng_state`` (True): whether the second run has the same random numbers.

    Returns
    -------
    object
        What `function` returns.

    Raises
    ------
    CheckpointError
        In the backward pass, if the second run saves other tensors than the first.
    ValueError
        If an option needs ``use_reentrant=False``.

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
    frame = _Frame(
        function, args, kwargs,
        {
            "preserve_rng_state": preserve,
            "determinism_check": determinism_check,
            "debug": debug if _Settings.debug is None else _Settings.debug,
            "early_stop": early_stop if _Settings.early_stop is None else _Settings.early_stop,
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
    parts = list(functions.children()) if isinstance(functions, Sequential) else functions
    count = len(parts)
    size = count // operator.index(segments)
    if size == 0:
        raise ValueError(f"range() arg 3 must not be zero: {count} functions cannot be parted in {segments} segments")

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for i in range(start, end):
                x = parts[i](x)
            return x

        return forward

    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(run(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(end, count)(input)
