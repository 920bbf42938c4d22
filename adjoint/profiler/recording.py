"""The observer behind a profile: it times ops, nodes of backward passes, modules and named ranges."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from ..core import pruning
from ..core.nodes import Output, shown
from ..core.observation import Observer
from ..core.tensor import TensorBase, caller, owner_of
from ..errors import place
from ..optim.optimizer import named_ranges
from ..utils._python_dispatch import aten_name
from .events import FunctionEvent, Interval

active: list[Recorder] = []  # recorders that are on, the last one innermost


class Recorder(Observer):
    """Times what a thread does; `events` is the result."""

    def __init__(self, shapes: bool, memory: bool, stack: bool, modules: bool) -> None:
        self.shapes, self.memory, self.stacks, self.with_modules = shapes, memory, stack, modules
        self.events: list[FunctionEvent] = []
        self.open: list[FunctionEvent] = []
        self.thread = threading.get_ident()
        self.modules: list[str] = []
        self.names: dict[int, str] = {}
        self.modules_of: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.times_of: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self.handles: list[Any] = []

    def __enter__(self) -> Recorder:
        super().__enter__()
        active.append(self)
        named_ranges.append(record_function)
        if self.with_modules:
            from ..nn.modules import module as hooks

            self.handles = [
                hooks.register_module_forward_pre_hook(self._enter_module),
                hooks.register_module_forward_hook(self._leave_module, always_call=True),
            ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()
        active.remove(self)
        named_ranges.remove(record_function)
        super().__exit__(*error)

    # --- events ---

    def begin(self, name: str, kind: str) -> FunctionEvent:
        """Start an event inside the one that is open."""
        event = FunctionEvent(name, perf_counter_ns() / 1e3, kind, self.thread)
        event.id = len(self.events)
        if self.open:
            event.cpu_parent = self.open[-1]
            self.open[-1].cpu_children.append(event)
        self.open.append(event)
        self.events.append(event)
        return event

    def end(self, event: FunctionEvent) -> None:
        """End an event, and whatever was left open inside it."""
        now = perf_counter_ns() / 1e3
        while self.open:
            last = self.open.pop()
            last.time_range = Interval(last.time_range.start, now)
            if last is event:
                break

    # --- events that an observer receives ---

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Time a primitive."""
        tensors = [v for v in inputs if isinstance(v, TensorBase)]
        if not tensors:
            return self.proceed(op, inputs, params, run)
        event = self.begin(f"aten::{aten_name(op)}", "cpu_op")
        try:
            result = self.proceed(op, inputs, params, run)
        finally:
            self.end(event)
        self._describe(event, inputs)
        for out in result if isinstance(result, tuple) else (result,):
            if isinstance(out, TensorBase):
                if self.memory:
                    event.self_cpu_memory_usage += _new_bytes(out, tensors)
                if self.modules and out.node is not None:
                    self.modules_of[out.node] = self.modules[-1]
        return result

    def function(self, name: str, run: Callable[[], Any]) -> Any:
        """Time the forward of a custom function."""
        event = self.begin(name, "cpu_op")
        try:
            return super().function(name, run)
        finally:
            self.end(event)

    def compute_into(self, op: Any, x: TensorBase, inputs: Any, params: Any, run: Callable[[], None]) -> None:
        """Time an in-place op."""
        event = self.begin(f"aten::{op.name}_", "cpu_op")
        try:
            super().compute_into(op, x, inputs, params, run)
        finally:
            self.end(event)
        self._describe(event, inputs)

    def _describe(self, event: FunctionEvent, inputs: Any) -> None:
        event.module = self.modules[-1] if self.modules else ""
        event.place = place(*caller()) or ""
        if self.shapes:
            event.input_shapes = [list(v.array.shape) if isinstance(v, TensorBase) else [] for v in inputs]
        if self.stacks:
            event.stack = [event.place]

    def backward(self, roots: Any, run: Callable[[], Any]) -> Any:
        """Time each node of a backward pass."""
        event = self.begin("backward", "backward")
        handles = []
        for node in pruning.reach([r for r in roots if r is not None]):
            if type(node) is not Output:
                handles += self._time_node(node)
        try:
            return super().backward(roots, run)
        finally:
            for handle in handles:
                handle.remove()
            self.end(event)

    def _time_node(self, node: Any) -> list[Any]:
        running: list[FunctionEvent] = []

        def before(grads: Any) -> None:
            event = self.begin(shown(node).op.title, "backward")
            event.place = place(node.code, node.lasti) or ""
            event.module = self.modules_of.get(node, "")
            if self.shapes:
                event.input_shapes = [[] if g is None else list(g.array.shape) for g in grads]
            running.append(event)

        def after(given: Any, grads: Any) -> None:
            event = running.pop()
            self.end(event)
            self.times_of[node] = self.times_of.get(node, 0.0) + event.cpu_time_total
            if self.memory:
                fresh = {
                    id(owner_of(g.array)): g.array.nbytes for g in given if g is not None and hasattr(g.array, "nbytes")
                }
                event.self_cpu_memory_usage = sum(fresh.values())

        return [node.register_prehook(before), node.register_hook(after)]

    # --- modules ---

    def _enter_module(self, module: Any, args: Any) -> None:
        title = type(module).__name__
        if not self.modules:  # the outermost: paths start from it
            self.names.update({id(m): f"{title}.{name}" if name else title for name, m in module.named_modules()})
        self.modules.append(self.names.get(id(module), title))
        self.begin(f"nn.Module: {title}", "module").module = self.modules[-1]

    def _leave_module(self, module: Any, args: Any, result: Any) -> None:
        if self.modules:
            self.modules.pop()
            event = next((e for e in reversed(self.open) if e.kind == "module"), None)
            if event is not None:
                self.end(event)


def _new_bytes(out: Any, inputs: list[Any]) -> int:
    """Return the bytes of a result, or 0 if it shares an input's memory."""
    array = out.array
    if not hasattr(array, "nbytes") or any(owner_of(array) is owner_of(t.array) for t in inputs):
        return 0
    return int(array.nbytes)


class record_function:
    """Name a stretch of the program, for the profile; as a context or a decorator. Without a profile it does nothing.

    Examples
    --------
    >>> with adjoint.profiler.profile() as p, adjoint.profiler.record_function("mine"):
    ...     _ = adjoint.ones(2) + 1
    >>> [e.name for e in p.events()][0]
    'mine'
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.event: FunctionEvent | None = None

    def __enter__(self) -> record_function:
        if active:
            self.event = active[-1].begin(self.name, "user_annotation")
            self.event.place = place(*caller()) or ""
        return self

    def __exit__(self, *error: object) -> None:
        if self.event is not None and active:
            active[-1].end(self.event)
        self.event = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Name every call of a function."""

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return named
