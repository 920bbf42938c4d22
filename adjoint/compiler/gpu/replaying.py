"""Running a program on a GPU: once step by step, then recorded as CUDA graphs and replayed.

A graph has fixed addresses. So there is one for each set of arguments that comes again with the same addresses. Other
arguments are copied to addresses of the program's own. What leaves the program is in arrays that
are handed out, and reused once no reference is left; small ones are copied.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._typing import Array, DType, Shape
from ...devices.cuda.sizes import COPIED_RESULT as _SMALL
from ..graph import Value
from .host import Mail
from .memory import Arena, give_back
from .steps import Env, reach

_MOST = 6  # recordings for arguments, and results, at different places


class Recording:
    """The steps of a program as CUDA graphs, for arguments and results at certain places."""

    def __init__(self, key: object, around: Any, env: Env, segments: list[Any], results: dict[Value, Any]) -> None:
        self.key, self.around = key, around
        self.env, self.segments, self.results = env, segments, results
        self.resting: dict[Value, tuple[int, int]] = {}

    def rest(self) -> None:
        """Note the reference count of each result while the program has no reference."""
        for v in self.results:
            self.resting[v] = _holders(self.results[v])

    def is_free(self, handed: Any) -> bool:
        """Return whether the program has dropped all results of the recording."""
        return all(_holders(self.results[v]) == self.resting[v] for v in handed)

    def let_go(self, given: Any) -> None:
        """Forget the arguments: another array at the same address is as good."""
        for v in given:
            self.env.roots.pop(v, None)


def _holders(array: Array) -> tuple[int, int]:
    return sys.getrefcount(array), sys.getrefcount(array.data.mem)


class Player:
    """Calls a program with arrays."""

    def __init__(self, program: Any) -> None:
        import cupy

        from ...devices.cuda.arrays import Array

        # A program has its player, so that the player must not have the program: memory goes with the last reference.
        self.cupy, self.program, self.kind = cupy, weakref.proxy(program), Array
        self.place, self.several = cupy.cuda.Device(), cupy.cuda.runtime.getDeviceCount() > 1
        program.sources.compile()
        self.arena = Arena.of(program.arena, cupy)
        self.mail = Mail(program.host.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.pool = cupy.cuda.MemoryPool()
        self.arguments = program.graph.arguments
        self.on_device = [(i, v) for i, v in enumerate(self.arguments) if v.device != "cpu"]
        self.on_host = [i for i, v in enumerate(self.arguments) if v.device == "cpu"]
        self.constants = {v: cupy.asarray(v.array) for v in program.graph.constants if v.device != "cpu"}
        returned = {o for o in program.graph.outputs if isinstance(o, Value)}
        # The results, by the value whose memory holds them.
        self.shapes = {root: v for v, root in zip(program.left, program.made, strict=True) if v.device != "cpu"}
        self.device_results = list(self.shapes)
        self.small = {v for v in self.device_results if v.nbytes <= _SMALL and self.shapes[v] in returned}
        self.handed = [v for v in self.device_results if v not in self.small]
        targets = {line.operands[0] for line in program.writes}
        self.written = [(i, v) for i, v in self.on_device if v in targets]
        self.around: tuple[int, ...] = ()
        self.recordings: list[Recording] = []
        self.own: Recording | None = None
        self.breaking: set[int] = set()  # steps that cannot be recorded
        self.refused = ""
        self.runs = 0
        self.last_use = _last_uses(program)

    @property
    def graph(self) -> Any:
        """The CUDA graphs of the recording that ran last, None before there is one."""
        found = self.recordings or ([self.own] if self.own else [])
        return next((s.graph for s in found[0].segments if isinstance(s, _Graph)), None) if found else None

    def bind(self, outside: dict[Value, Any]) -> None:
        """Work on these arrays of outside tensors from now on."""
        self.outside = outside
        self.around = tuple([a.data.ptr for a in outside.values()])
        # Accumulated gradients may have one of two addresses; older recordings would hold on to their memory.
        last = [r.around for r in self.recordings if r.around != self.around][-1:]
        self.recordings = [r for r in self.recordings if r.around == self.around or r.around in last]
        if self.own is not None and self.own.around != self.around:
            self.own = None

    def __call__(self, *arrays: Array) -> list[Any]:
        """Run the program; what it returns is the caller's."""
        with self.arena.lock:
            if not self.several:
                return self._run(arrays)
            with self.place:
                return self._run(arrays)

    def _run(self, arrays: Sequence[Array]) -> list[Any]:
        program = self.program
        self.arena.follow(self.cupy.cuda.get_current_stream())
        hosted = program.host.run([arrays[i] for i in self.on_host])
        self.mail.send(program.host.staged)
        given = {v: self._laid(arrays[i], v) for i, v in self.on_device}
        if program.looked:
            hosted.update(self._looked(arrays))
        self.runs += 1
        if self.runs == 1:
            env = self._env(given, self._fresh_results())
            env.hosted = hosted
            self._on_stream(lambda: self._step(env))
            made = env.roots
        else:
            env, made = self._replay(given, hosted)
        for i, v in self.written:
            if given[v] is not arrays[i]:
                arrays[i][...] = given[v]
        for target, v in program.host_writes:
            self._find(target, arrays)[...] = env.hosted[v]
        return [made[r] if r.device != "cpu" else env.hosted[r].copy() for r in program.made]

    def _looked(self, arrays: Sequence[Array]) -> dict[Value, Any]:
        """Return the input arrays on the CPU whose values are read there."""
        return {v: self._find(v, arrays) for v in self.program.looked}

    def _find(self, v: Value, arrays: Sequence[Array]) -> Array:
        if v.array is not None:
            return v.array
        if v in self.arguments:
            return arrays[self.arguments.index(v)]
        return next(r.current.array for r in self.program.graph.outside if r.value is v)

    def _laid(self, array: Array, v: Value) -> Array:
        """Return an argument in the memory layout that the program relies on."""
        if array.strides == v.strides and array.data.ptr % 16 == 0:
            return array
        fresh = self._room(v.shape, v.dtype, v.strides)
        fresh[...] = array
        return fresh

    def _room(self, shape: Shape, dtype: DType, strides: Sequence[int]) -> Array:
        """Return an array of new memory with the given strides."""
        block = self.cupy.empty(max(reach(shape, strides, dtype.itemsize), 1), np.uint8)
        return self.kind(shape, dtype, block.data, strides=strides)

    def _fresh_results(self) -> dict[Value, Any]:
        return {root: self.kind(v.shape, v.dtype) for root, v in self.shapes.items()}

    def _env(self, given: dict[Value, Any], results: dict[Value, Any]) -> Env:
        roots = {**self.constants, **self.outside, **given, **results}
        return Env(self.program, self.arena.ptr, self.mail.there.ptr, roots)

    # --- step by step ---

    def _step(self, env: Env) -> None:
        for i, step in enumerate(self.program.steps):
            step.run(env)
            for root in self.last_use.get(i, ()):
                env.roots.pop(root, None)

    def _on_stream(self, run: Any) -> None:
        """Do something on our stream, between what comes before and after."""
        current = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(current.record())
        with self.stream:
            run()
        current.wait_event(self.stream.record())

    # --- recorded ---

    def _replay(self, given: dict[Value, Any], hosted: dict[Value, Any]) -> tuple[Any, dict[Value, Any]]:
        key = tuple([a.data.ptr for a in given.values()])
        here = [r for r in self.recordings if r.key == key and r.around == self.around]
        found = next((r for r in here if r.is_free(self.handed)), None)
        if found is None and len(self.recordings) < _MOST:
            found = self._recorded(key, given)
            self.recordings.append(found)
        copied = found is None
        if found is None:
            found = self._copying(given)
        else:
            found.env.roots.update(given)
        found.env.hosted = hosted
        for segment in found.segments:
            segment.run(found.env)
        if copied:
            for _, v in self.written:
                given[v][...] = found.env.roots[v]
        else:
            found.let_go(given)
        made = dict(found.results)
        for v in self.device_results if copied else self.small:
            made[v] = _copied(self.cupy, made[v])
        return found.env, made

    def _copying(self, given: dict[Value, Any]) -> Recording:
        """Return a recording on arguments of its own, filled with what is given."""
        if self.own is None:
            self.own = self._recorded(None, {v: self._room(v.shape, v.dtype, v.strides) for v in given})
        for v, array in given.items():
            self.own.env.roots[v][...] = array
        return self.own

    def _recorded(self, key: object, given: dict[Value, Any]) -> Recording:
        while True:
            results = self._fresh_results()
            env = self._env(given, results)
            try:
                segments = self._record(env)
            except _Unrecordable as error:
                self.breaking.add(error.step)
                self.refused = self.refused or f"{self.program.steps[error.step]}: {error.__cause__}"
                continue
            recording = Recording(key, self.around, env, segments, results)
            del results
            recording.rest()
            if not self.recordings and self.own is None:
                give_back(self.cupy)  # what the runs before have left
            return recording

    def _record(self, env: Env) -> list[Any]:
        """Return the steps as graphs, and those between that cannot be recorded."""
        segments: list[Any] = []
        waiting: list[int] = []
        steps = self.program.steps
        apart = {i for i, step in enumerate(steps) if i in self.breaking or getattr(step, "breaks", False)}
        env.kept.update(p.root for i in apart for p in steps[i].touched())  # they look for them in every run
        for i, step in enumerate(steps):
            if i in apart:
                segments += self._graphs(waiting, env)
                segments.append(_Alone(step, self._settled_roots(step, env)))
                waiting = []
            else:
                waiting.append(i)
        return [*segments, *self._graphs(waiting, env)]

    def _settled_roots(self, step: Any, env: Env) -> list[Any]:
        """Give what a step leaves on the device a place that is the same in every run."""
        made = getattr(step, "outputs", [step.place] if step.text == "take" else [])
        places = [p for p in made if not isinstance(p, Value)]
        for p in places:
            env.roots[p.root] = self._room(p.shape, p.value.dtype, p.strides)
        return [p.root for p in places]

    def _graphs(self, numbers: list[int], env: Env) -> list[Any]:
        if not numbers:
            return []
        self.cupy.cuda.Device().synchronize()
        failed: Any = None
        with self.cupy.cuda.using_allocator(self.pool.malloc), self.stream:
            self.stream.begin_capture()
            try:
                for i in numbers:
                    self.program.steps[i].run(env)
                    for root in self.last_use.get(i, ()):
                        if root not in env.kept:
                            env.roots.pop(root, None)
            except Exception as error:
                failed = _Unrecordable(i)
                failed.__cause__ = error
            finally:
                try:
                    graph = self.stream.end_capture()
                except Exception:
                    if failed is None:
                        raise
        if failed is not None:
            raise failed
        return [_Graph(graph)]

    def timed(self, *arrays: Array) -> list[tuple[float, Any]]:
        """Run step by step, and return how many milliseconds the device spent on each."""
        program = self.program
        program.host.run([arrays[i] for i in self.on_host])
        self.mail.send(program.host.staged)
        env = self._env({v: self._laid(arrays[i], v) for i, v in self.on_device}, self._fresh_results())
        events = [self.cupy.cuda.Event() for _ in range(len(program.steps) + 1)]
        events[0].record()
        for i, step in enumerate(program.steps):
            step.run(env)
            events[i + 1].record()
        events[-1].synchronize()
        elapsed = self.cupy.cuda.get_elapsed_time
        return [(elapsed(a, b), s) for a, b, s in zip(events, events[1:], program.steps)]


class _Unrecordable(Exception):
    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


class _Graph:
    """Steps that are replayed at once."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def run(self, env: Env) -> None:
        self.graph.launch()


class _Alone:
    """A step that runs by itself."""

    def __init__(self, step: Any, roots: list[Value]) -> None:
        self.step, self.roots = step, roots

    def run(self, env: Env) -> None:
        places = [env.roots[root] for root in self.roots]
        self.step.run(env)
        for root, place in zip(self.roots, places):
            place[...] = env.roots[root]
            env.roots[root] = place


def _last_uses(program: Any) -> dict[int, list[Value]]:
    """Return which arrays that libraries returned are not used after a step, nor what may be a view of them."""
    found: dict[int, list[Value]] = {}
    for root in program.called:
        if root in program.lives.spans:
            found.setdefault(program.lives.spans[root][1], []).append(root)
    return found


def _copied(cupy: Any, array: Any) -> Array:
    """Return a copy of a dense array, by a copy of its memory: less ado than CuPy's own."""
    fresh = type(array)(array.shape, array.dtype)
    stream = cupy.cuda.get_current_stream().ptr
    runtime = cupy.cuda.runtime
    runtime.memcpyAsync(fresh.data.ptr, array.data.ptr, array.nbytes, runtime.memcpyDeviceToDevice, stream)
    return fresh
