"""How a checkpointed function runs again: its surroundings, its arguments, and the values that its ops save.

While the function runs first, hooks take every value that an op saves and leave an empty `_Place` for it. The first
place that a backward pass reads makes the function run once more, with the random numbers and autocast of the first
run; its ops save the same values in the same order, and these fill the places. The graph of the second run is thrown
away: gradients flow through that of the first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
from ..autograd.grad_mode import enable_grad
from ..autograd.graph import saved_tensors_hooks
from ..core import modes
from ..core.engine import running
from ..core.nodes import wrap
from ..core.observation import Observer
from ..core.tensor import TensorBase, caller, tick, written_ledger
from ..core.views import edge_of
from ..errors import InPlaceError, place
from ..ops.random import default_generator


class CheckpointError(RuntimeError):
    """The second run of a checkpointed part did not save what the first had saved."""


class Settings:
    """What the two context managers below have switched."""

    debug: bool | None = None
    early_stop: bool | None = None
    group: GraphExecGroup | None = None


class GraphExecGroup:
    """Lets backward passes over separate parts of a graph share what one second run of a checkpoint has made."""

    def __enter__(self) -> GraphExecGroup:
        if Settings.group is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {Settings.group}")
        Settings.group = self
        return self

    def __exit__(self, *error: object) -> None:
        Settings.group = None


class Surroundings:
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


class _Enough(Exception):
    """Every place is filled: the rest of the second run is not needed."""


class _Place:
    """Stands in the graph for a saved value that a second run will bring."""

    __slots__ = ("__weakref__", "frame", "number")

    def __init__(self, frame: Frame, number: int) -> None:
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


class _Saved:
    """What is known of a value that an op saved: its kind, and which op saved it where."""

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


class Frame:
    """One checkpointed call: how to run it again, and the places to fill."""

    def __init__(self, function: Any, args: Any, kwargs: Any, options: dict[str, Any], second: Any) -> None:
        self.function, self.second = function, second
        self.check = options["determinism_check"] == "default"
        self.early_stop, self.debug = options["early_stop"], options["debug"]
        self.args, self.kwargs = [_Input.of(a) for a in args], {k: _Input.of(v) for k, v in kwargs.items()}
        self.surroundings = Surroundings(options["preserve_rng_state"])
        self.places: list[weakref.ref[_Place]] = []
        self.saved: list[_Saved] = []
        self.found: dict[Any, dict[int, Any]] = {}
        self.log: list[str] | None = [] if self.debug else None
        self.fusing = modes.fusing()
        self.completed = False  # whether the first run has ended: a backward pass inside it wants only what it had

    def first_run(self) -> ExitStack:
        """Return the context of the first run: what ops save becomes a place."""
        watch = _Watch(self.log)

        def pack(tensor: Any) -> _Place:
            spot = _Place(self, len(self.places))
            self.places.append(weakref.ref(spot))
            self.saved.append(_Saved(tensor, watch.op))
            return spot

        with ExitStack() as stack:
            stack.enter_context(_fusing(self.fusing))
            stack.enter_context(watch)
            stack.enter_context(saved_tensors_hooks(pack, _fetch))  # which transforms refuse
            return stack.pop_all()

    def fetch(self, number: int) -> Any:
        """Return the value of a place, running the function again if this pass has not done so."""
        group = Settings.group
        task = group or (running.tasks[-1] if running.tasks else None)
        values = self.found.get(task)
        if group is not None and values is not None and number not in values:
            raise CheckpointError(
                "adjoint.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. "
                "Performing two backward calls that overlap (i.e. require the same saved activation in order to "
                "compute gradients) is not allowed while under the adjoint.utils.checkpoint.GraphExecGroup context: "
                f"{self.saved[number]}"
            )
        if values is None or number not in values:
            values = {}
            self.run_again(values)
            if task is not None:
                self.found = {task: values}
        return values[number] if task is None else values.pop(number)

    def run_again(self, values: dict[int, Any]) -> None:
        """Run the function as it ran first, and collect what its ops save."""
        log: list[str] | None = [] if self.debug else None
        watch, wanted = _Watch(log), len(self.places)
        resaved: list[_Saved] = []

        def pack(tensor: Any) -> Any:
            number = len(resaved)
            resaved.append(_Saved(tensor, watch.op))
            if number < wanted:
                values[number] = wrap(tensor.array)
            elif self.completed:
                raise self._error(
                    "trying to save more tensors during recomputation than during the original forward pass.\n"
                    f"Number of tensors saved during forward: {wanted}. One more was {resaved[number]}", log
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
        self._compare(resaved, wanted, log)

    def _compare(self, resaved: list[_Saved], wanted: int, log: list[str] | None) -> None:
        """Raise unless the second run has saved what the first had."""
        if len(resaved) < wanted:
            raise self._error(
                "A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {wanted}\n"
                f"Number of tensors saved during recomputation: {len(resaved)}.\n"
                f"The first that is missing was {self.saved[len(resaved)]}", log
            )  # fmt: skip
        if not self.check:
            return
        changed = "".join(
            f"tensor at position {i}:\nsaved metadata: {first.metadata} ({first})\n"
            f"recomputed metadata: {second.metadata} ({second})\n"
            for i, (first, second, spot) in enumerate(zip(self.saved, resaved, self.places, strict=False))
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
    """Run without the observers of the backward pass, which the second run is no part of."""
    before, modes.local.observer = modes.local.observer, None
    try:
        yield
    finally:
        modes.local.observer = before
