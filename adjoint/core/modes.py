"""Per-thread switches, and the two process-wide words that let the recorders skip reading them.

`unusual` counts everything that is on, in any thread, and changes what recording an op means: a
transform, inference mode, saved-tensor hooks, anomaly detection, autocast, profiling. While it is zero
every value inside a tensor is a plain array, and the fast recorders apply. `off` has one entry for each
thread in which gradient recording is switched off (a list, because append and pop are atomic where
adding to a number is not); while it is empty nobody needs to ask. Both are hints: a non-zero word only
means "look closer", so a stale one costs time, never correctness.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..kernels import forks

unusual: int = 0
off: list[None] = []
warn_always: bool = False  # whether what is worth one warning in a process is warned of each time
inferred: bool = False  # whether inference mode was ever on: only then can an inference tensor turn up
transforms: int = 0  # how many function transforms (grad, jvp, vmap) are on, in any thread
guarded: bool = False  # whether a write must be looked at: `inferred`, or a transform is on

told: list[Callable[[], None]] = []  # functions that are told when `unusual` has changed

_lock = forks.reentrant_lock()  # the collector may run in between, and what it frees counts itself out


class _Thread(threading.local):
    """What one thread has switched; class attributes are a new thread's defaults."""

    grad: bool = True
    inference: bool = False
    silenced: int = 0  # passes that have switched recording off for themselves, not for the levels below theirs
    anomaly: bool = False
    anomaly_nan: bool = True
    anomaly_forward: bool = False
    anomaly_stack: bool = False
    pack_hooks: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = ()
    pack_refusal: str | None = None
    subclasses_off: bool = False
    function_modes: tuple[Any, ...] = ()  # which see every public function before it runs, innermost last
    forward_grad: bool = True
    multithreading: bool = True
    grad_layout: bool = True  # whether a gradient always gets the strides of its tensor
    # What autocast, where it is on, makes of the inputs of an op: ``autocast(op, inputs)``.
    autocast: Callable[[Any, tuple[Any, ...]], tuple[Any, ...]] | None = None
    autocast_on: frozenset[str] = frozenset()  # the kinds of devices where it is on
    observer: Any = None  # see observation.py
    # Whether ops may run in one piece although something unusual is on: a checkpoint, a memory budget.
    fusing: bool = False
    checked_functions: set[Any] | None = None  # custom functions that debug mode has checked; None: it is off


local = _Thread()


def is_grad_enabled() -> bool:
    """Return whether ops in this thread are being recorded.

    Examples
    --------
    >>> with adjoint.no_grad():
    ...     adjoint.is_grad_enabled()
    False
    """
    return not off or local.grad


def fusing() -> bool:
    """Return whether ops that have a form in one piece may take it, as they do when nothing unusual is on."""
    return not unusual or (local.fusing and local.autocast is None)


def set_grad(value: bool) -> None:
    """Switch recording in this thread."""
    if local.grad is not value:
        if value:
            local.grad = True
            off.pop()
        else:
            off.append(None)
            local.grad = False


def note_transform(change: int) -> None:
    """Count a function transform in (+1) or out (-1)."""
    global transforms, guarded
    with _lock:
        transforms += change
        guarded = inferred or transforms > 0


def note_inference() -> None:
    """Remember that there may be inference tensors from now on."""
    global inferred, guarded
    inferred = guarded = True


def note_unusual(change: int) -> None:
    """Count something unusual in (+1) or out (-1)."""
    global unusual
    with _lock:
        unusual += change
        for tell in told:
            tell()
