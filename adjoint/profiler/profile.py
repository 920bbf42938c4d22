"""`profile`: schedules of recording, and handlers of a recording."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from .events import EventList, chrome_trace
from .recording import Recorder

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(Enum):
    """The devices that are profiled; times are measured on the CPU."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profile does in one step of its schedule."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that can be profiled."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a schedule: wait, warm up, record for `active` steps, and so on, `repeat` times (0: for ever).

    Examples
    --------
    >>> plan = adjoint.profiler.schedule(wait=1, warmup=1, active=2)
    >>> [plan(i).name for i in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments: active must be positive, the others not negative")
    length = wait + warmup + active

    def plan(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step >= repeat * length:
            return ProfilerAction.NONE
        step %= length
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if step == length - 1 else ProfilerAction.RECORD

    return plan


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """Return an `on_trace_ready` that writes each recording into a folder, as TensorBoard's plugin reads it."""

    def handler(prof: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{end}"))

    return handler


class profile:
    """Time what a program does: each op, each node of the backward pass, each module, on which line.

    Parameters
    ----------
    activities, use_cuda
        Accepted; times are always measured on the CPU.
    schedule
        Says, for the number of a step, whether to record it; see `schedule`. Call `step` after each.
    on_trace_ready
        Called with the profile when a recording is complete.
    record_shapes, profile_memory, with_stack, with_modules
        Also note input shapes, bytes of results, the program's line, the path of the module.

    Examples
    --------
    >>> with adjoint.profiler.profile(record_shapes=True) as prof:
    ...     x = adjoint.ones(3, 3, requires_grad=True)
    ...     (x @ x).sum().backward()
    >>> "aten::mm" in prof.key_averages().table(sort_by="self_cpu_time_total")
    True
    """

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False,
        experimental_config: Any = None, execution_trace_observer: Any = None, acc_events: bool = False,
        use_cuda: bool | None = None, custom_trace_id_callback: Any = None,
    ) -> None:  # fmt: skip
        self.activities = set(activities) if activities else supported_activities()
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.acc_events = with_flops, with_modules, acc_events
        self.step_num = 0
        self.current_action = self._planned()
        self.metadata: dict[str, Any] = {}
        self.recorder: Recorder | None = None  # of the last recording
        self._recorder: Recorder | None = None
        self._events: list[Any] = []

    def _planned(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    # --- when to record ---

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; with a schedule, at its first step."""
        self._follow(self.current_action)

    def stop(self) -> None:
        """End, and hand over what was recorded."""
        recorded = self._recorder is not None
        self._close()
        if recorded and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Say that a step of the program is over."""
        saving = self.current_action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        self.current_action = self._planned()
        if saving:
            self._close()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._follow(self.current_action)

    def _follow(self, action: ProfilerAction) -> None:
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and self._recorder is None:
            self._recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack, self.with_modules)
            self._recorder.__enter__()
            self.recorder = self._recorder
        elif not recording:
            self._close()

    def _close(self) -> None:
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            recorder.__exit__(None, None, None)
            for event in list(recorder.open):
                recorder.end(event)
            self._events = [*self._events, *recorder.events] if self.acc_events else recorder.events

    # --- what was recorded ---

    def events(self) -> EventList:
        """Return every event of the last recording, in order of time."""
        found = self._recorder.events if self._recorder is not None else self._events
        return EventList(found, profile_memory=self.profile_memory)

    @property
    def function_events(self) -> EventList:
        """Every event of the last recording."""
        return self.events()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return the events of one name together."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> Any:
        """Return all events as one."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events together, in microseconds."""
        return self.events().self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Return the averages by name as a table."""
        return self.key_averages().table(sort_by, row_limit, **options)

    def export_chrome_trace(self, path: str) -> None:
        """Write the recording as JSON for chrome://tracing or Perfetto, compressed if the name ends in ``.gz``."""
        data = json.dumps(chrome_trace(self.events(), self.metadata))
        if str(path).endswith(".gz"):
            with gzip.open(path, "wt") as file:
                file.write(data)
        else:
            with open(path, "w") as plain:
                plain.write(data)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line per place in the program with its time, for flame graphs."""
        totals: dict[str, float] = {}
        for event in self.events():
            names = [event.name]
            parent = event.cpu_parent
            while parent is not None:
                names.append(parent.name)
                parent = parent.cpu_parent
            key = ";".join(n.replace(" ", "_") for n in [*reversed(names), event.place] if n)
            totals[key] = totals.get(key, 0.0) + getattr(event, metric)
        with open(path, "w") as file:
            file.writelines(f"{key} {round(value)}\n" for key, value in totals.items())

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace."""
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put JSON into the trace."""
        self.metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def __str__(self) -> str:
        return self.table()
