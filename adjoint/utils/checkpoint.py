"""Checkpointing: keep only the inputs of a part of the program, and compute what its backward needs again.

While the part runs, hooks take every value that an op keeps and leave an empty `_Place` for it. The first place
that a backward pass asks for makes the part run once more, with the random numbers and autocast of the first
run; its ops keep the same values in the same order, and these fill the places. The graph of the second run is
thrown away: gradients flow through that of the first.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from enum import Enum
from typing import Any

from ..amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
from ..autograd.grad_mode import enable_grad
from ..autograd.graph import saved_tensors_hooks
from ..core import modes
from ..core.engine import running
from ..core.nodes import wrap
from ..core.observation import Observer, is_captured
from ..core.tensor import TensorBase, caller, tick, written_ledger
from ..errors import InPlaceError, place
from ..nn.modules.container import Sequential
from ..ops.random import default_generator

__all__ = [
    "CheckpointError", "CheckpointPolicy", "SelectiveCheckpointContext", "check_backward_validity", "checkpoint",
    "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable", "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """The second run of a checkpointed part did not keep what the first had kept."""


class _Settings:
    """What the two context managers below have switched."""

    debug: bool | None = None
    early_stop: bool | None = None


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Overrule the `debug` argument of every `checkpoint` inside the context; None leaves it to them."""
    before, _Settings.debug = _Settings.debug, enabled
    try:
        yield
    finally:
        _Settings.debug = before


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Overrule the `early_stop` argument of every `checkpoint` inside the context."""
    before, _Settings.early_stop = _Settings.early_stop, enable
    try:
        yield
    finally:
        _Settings.early_stop = before


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


class _Enough(Exception):
    """Every place is filled: the rest of the second run is not needed."""


class _Place:
    """Stands in the graph for a kept value that a second run will bring."""

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
    """What is known of a value that an op kept: its kind, and which op kept it where."""

    __slots__ = ("code", "dtype", "lasti", "op", "shape")

    def __init__(self, tensor: Any, op: str) -> None:
        self.shape, self.dtype, self.op = tuple(tensor.array.shape), tensor.array.dtype, op
        self.code, self.lasti = caller()

    def same(self, other: _Kept) -> bool:
        return self.shape == other.shape and self.dtype == other.dtype

    def __str__(self) -> str:
        where = place(self.code, self.lasti)
        return f"{self.op} kept {self.dtype}{list(self.shape)}{f' at {where}' if where else ''}"


class _Frame:
    """One checkpointed call: how to run it again, and the places to fill."""

    def __init__(self, function: Any, args: Any, kwargs: Any, options: dict[str, Any], second: Any) -> None:
        self.function, self.second = function, second
        self.check = options["determinism_check"] == "default"
        self.early_stop, self.debug = options["early_stop"], options["debug"]
        self.args, self.kwargs = [_Input.of(a) for a in args], {k: _Input.of(v) for k, v in kwargs.items()}
        self.random = default_generator.stream.state() if options["preserve_rng_state"] else None
        self.autocast = [(kind, is_autocast_enabled(kind), get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]
        self.autocast_cache = is_autocast_cache_enabled()
        self.places: list[weakref.ref[_Place]] = []
        self.kept: list[_Kept] = []
        self.found: dict[Any, dict[int, Any]] = {}
        self.log: list[str] | None = [] if self.debug else None
        self.fusing = modes.fusing()

    def first_run(self) -> ExitStack:
        """Return the context of the first run: what ops keep becomes a place."""
        watch, stack = _Watch(self.log), ExitStack()

        def pack(tensor: Any) -> _Place:
            spot = _Place(self, len(self.places))
            self.places.append(weakref.ref(spot))
            self.kept.append(_Kept(tensor, watch.op))
            return spot

        stack.enter_context(_fusing(self.fusing))
        stack.enter_context(watch)
        stack.enter_context(saved_tensors_hooks(pack, _fetch))
        return stack

    def fetch(self, number: int) -> Any:
        """Return the value of a place, running the function again if this pass has not done so."""
        task = running.tasks[-1] if running.tasks else None
        values = self.found.get(task)
        if values is None or number not in values:
            values = {}
            self.run_again(values)
            if task is not None:
                self.found = {task: values}
        if number not in values:
            raise CheckpointError(
                "checkpoint: the second run did not keep a value that the first had kept: "
                f"{self.kept[number]}{self._logs([])}"
            )
        return values[number] if task is None else values.pop(number)

    def run_again(self, values: dict[int, Any]) -> None:
        """Run the function as it ran first, and collect what its ops keep."""
        log: list[str] | None = [] if self.debug else None
        watch, wanted = _Watch(log), len(self.places)
        kept: list[_Kept] = []

        def pack(tensor: Any) -> Any:
            number = len(kept)
            kept.append(_Kept(tensor, watch.op))
            if number < wanted:
                if self.check and not kept[number].same(self.kept[number]):
                    raise CheckpointError(self._mismatch(number, kept[number], log))
                values[number] = wrap(tensor.array)
            elif self.check:
                raise CheckpointError(
                    "checkpoint: the second run keeps more than the first, which kept "
                    f"{wanted} values: {kept[number]}{self._logs(log)}"
                )
            if self.early_stop and number + 1 == wanted:
                raise _Enough
            return tensor

        args, kwargs = [a.value() for a in self.args], {k: a.value() for k, a in self.kwargs.items()}
        with ExitStack() as stack:
            if self.random is not None:
                stack.callback(default_generator.stream.set_state, default_generator.stream.state())
                default_generator.stream.set_state(self.random)
            for kind, enabled, dtype in self.autocast:
                stack.enter_context(autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self.autocast_cache))
            stack.enter_context(enable_grad())
            stack.enter_context(_without_observers())
            stack.enter_context(_fusing(self.fusing))
            stack.enter_context(watch)
            stack.enter_context(saved_tensors_hooks(pack, lambda tensor: tensor))
            stack.enter_context(self.second)
            try:
                self.function(*args, **kwargs)
            except _Enough:
                return
        if self.check and len(kept) != wanted:
            raise CheckpointError(
                f"checkpoint: A different number of tensors was saved during the original forward and recomputation: "
                f"{wanted} and {len(kept)}. The first that is missing: {self.kept[len(kept)]}. The part must do the "
                f"same each time it runs{self._logs(log)}"
            )

    def _mismatch(self, number: int, second: _Kept, log: list[str] | None) -> str:
        return (
            "checkpoint: Recomputed values for the following tensors have different metadata than during the forward "
            f"pass: value {number} was {self.kept[number]}; in the second run {second}. The part must do the same "
            f"each time it runs: no branches on things that change in between{self._logs(log)}"
        )

    def _logs(self, second: list[str] | None) -> str:
        if self.log is None:
            return " (checkpoint(..., debug=True) lists the ops of both runs)"
        lines = ["\nops of the first run:", *self.log, "ops of the second run:", *(second or [])]
        return "\n  ".join(lines)


def _fetch(spot: _Place) -> Any:
    return spot.frame.fetch(spot.number)


class _Input:
    """An argument kept for the second run; inside another checkpoint, that one keeps its value."""

    __slots__ = ("given", "grad", "load", "stamp")

    load: Any
    grad: bool
    stamp: int

    def __init__(self, given: Any) -> None:
        self.given, self.load = given, None

    @classmethod
    def of(cls, given: Any) -> _Input:
        made = cls(given)
        if isinstance(given, TensorBase):
            tensor: Any = given
            made.grad, made.stamp = tensor.requires_grad, tick()
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
        fresh: Any = wrap(tensor.array)
        return fresh.requires_grad_(self.grad) if self.grad else fresh


@contextmanager
def _fusing(value: bool) -> Iterator[None]:
    """Let ops run in one piece, or not, as they would outside of the checkpoint: in both runs alike."""
    before, modes.local.fusing = modes.local.fusing, value
    try:
        yield
    finally:
        modes.local.fusing = before


@contextmanager
def _without_observers() -> Iterator[None]:
    """Run without whoever watches the backward pass; a second run is none of their business."""
    before, modes.local.observer = modes.local.observer, None
    try:
        yield
    finally:
        modes.local.observer = before


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
    """Call `function` without keeping what its ops keep: the backward pass runs it again.

    Parameters
    ----------
    function
        What to call, with ``*args`` and ``**kwargs``; it must do the same each time.
    use_reentrant
        Accepted, and the same either way: adjoint has one way to checkpoint, without re-entrance.
    context_fn
        Returns two contexts, for the first run and the second; see `create_selective_checkpoint_contexts`.
    determinism_check
        ``"default"`` compares shapes and dtypes of what both runs keep, ``"none"`` does not.
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
    preserve = kwargs.pop("preserve_rng_state", True)
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
    with frame.first_run(), first:
        return function(*args, **kwargs)


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


class SelectiveCheckpointContext:
    """What a policy is told besides the op: whether this is the second run."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_CPU_OFFLOAD)


class _Storing(Observer):
    """Keeps the results of the ops that the policy wants kept."""

    def __init__(self, policy: Callable[..., Any], storage: dict[str, list[Any]]) -> None:
        self.policy, self.storage, self.told = policy, storage, SelectiveCheckpointContext(is_recompute=False)

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        out = self.proceed(op, inputs, params, run)
        if _is_kept(self.policy, self.told, op, inputs, params, out):
            arrays = tuple(o.array for o in out) if isinstance(out, tuple) else out.array
            self.storage[op.name].append((arrays, tick()))
        return out


class _Reusing(Observer):
    """Gives the kept results of the first run again, without computing them."""

    def __init__(self, policy: Callable[..., Any], storage: dict[str, list[Any]], mutable: bool) -> None:
        self.policy, self.storage, self.told = policy, storage, SelectiveCheckpointContext(is_recompute=True)
        self.mutable = mutable
        self.next: dict[str, int] = {}

    def __enter__(self) -> Any:
        self.next = defaultdict(int)
        return super().__enter__()

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        if not any(isinstance(v, TensorBase) for v in inputs) or not _wants(self.policy, self.told, op, inputs, params):
            return self.proceed(op, inputs, params, run)
        number = self.next[op.name]
        if number >= len(self.storage[op.name]):
            raise CheckpointError(
                f"selective checkpointing: {op.name} is called more often in the second run than in the first"
            )
        self.next[op.name] = number + 1
        arrays, stamp = self.storage[op.name][number]
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


def _wants(policy: Any, told: Any, op: Any, inputs: Any, params: Any) -> bool:
    answer = policy(told, op, *inputs, *params)
    if isinstance(answer, bool):
        return answer
    if not isinstance(answer, CheckpointPolicy):
        raise TypeError(f"a checkpoint policy returns a CheckpointPolicy, not {answer!r}")
    return answer in _SAVED


def _is_kept(policy: Any, told: Any, op: Any, inputs: Any, params: Any, out: Any) -> bool:
    tensors = isinstance(out, TensorBase) or (isinstance(out, tuple) and all(isinstance(o, TensorBase) for o in out))
    return tensors and not op.view and _wants(policy, told, op, inputs, params)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return the two contexts of a checkpoint that keeps the results of some ops and computes the others again.

    Parameters
    ----------
    policy_fn_or_list
        ``policy(ctx, op, *args)``, which returns a `CheckpointPolicy`, or a list of ops whose results are kept:
        functions such as ``adjoint.matmul``, or their names.
    allow_cache_entry_mutation
        Whether a kept result may be overwritten in between; it is an error otherwise.

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
