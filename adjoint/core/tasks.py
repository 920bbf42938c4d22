"""Backward passes in progress: what hooks and nested calls may query, and deeply nested passes in threads."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from . import fast_path, modes
from .payload import inside
from .pruning import reach

if TYPE_CHECKING:
    from .nodes import Node


class Task:
    """One backward pass in progress: the state that hooks and nested calls may read."""

    wanted: set[Any] | None = None
    needed: set[Any] | None = None
    captured: dict[Any, Any] | None = None
    start: tuple[Any, int] | None = None  # where the program started it, if it is recorded
    place: tuple[Any, int] | None = None  # the same while a rule runs, which has no line of the program's own
    _number: int | None = None
    reached: set[Any] | None = None  # what `will_reach` has found

    def __init__(self, keep: bool, lift: bool, roots: Sequence[Any]) -> None:
        self.keep, self.lift, self.roots = keep, lift, roots
        self.callbacks: list[Callable[[], Any]] = []

    @property
    def number(self) -> int:
        """The pass's own number, assigned when it is first read."""
        if self._number is None:
            self._number = _next_number()
        return self._number

    def will_reach(self, node: Node) -> bool:
        """Return whether the pass gives a gradient to `node`."""
        if self.needed is not None:
            return node in self.needed
        if self.reached is None:  # found once: every hook of a pass may need it
            self.reached = {e for n in reach(self.roots) for e in (n, *n.edges)}.union(self.roots)
        return node in self.reached


_next_number = count().__next__


class _Running(threading.local):
    """The tasks that this thread is inside of, innermost last."""

    tasks: tuple[Task, ...] = ()
    # What interrupted a thread that waits for a pass in this one.
    interrupts: list[BaseException] | None = None


running = _Running()
NESTED_PER_THREAD = 40


def in_new_thread(work: Callable[[], list[Any]]) -> list[Any]:
    """Run a deeply nested pass on a fresh stack, so that nesting is not bounded by recursion.

    An interrupt arrives in the waiting thread. That thread notifies the passes below, which end where the next one
    starts, and goes on waiting: the pass may not continue after a program has caught the interrupt.
    (`threading.Thread` loses track of its own locks when `start` or `join` is interrupted.)
    """
    outcome: list[Any] = []
    tickets = [None]  # for one run, however often an interrupted start is repeated
    ended = _thread.allocate_lock()
    ended.acquire()
    tasks, grad, levels, interrupts = running.tasks, modes.local.grad, inside.levels, running.interrupts
    if interrupts is None:
        interrupts = []

    def target() -> None:
        try:
            tickets.pop()
        except IndexError:
            return
        running.tasks, running.interrupts, inside.levels = (*tasks, tasks[-1]), interrupts, levels
        modes.set_grad(grad)
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            modes.set_grad(True)
            ended.release()

    while not outcome:
        try:
            if tickets:
                _thread.start_new_thread(target, ())
            ended.acquire()
        except Exception:  # no thread could be started
            raise
        except BaseException as error:
            interrupts.append(error)
    result, failure = outcome[0]
    if failure is None and interrupts:
        failure = interrupts[0]
    if failure is not None:
        raise failure
    return result  # type: ignore[no-any-return]


def _place() -> tuple[Any, int] | None:
    """Return where the program started the recorded pass in one of whose rules this thread is, if it is in one."""
    tasks = running.tasks
    return tasks[-1].place if tasks else None


fast_path.pass_place = _place


def current_task() -> Task | None:
    """Return the pass that this thread is inside of, the innermost."""
    tasks = running.tasks
    return tasks[-1] if tasks else None
