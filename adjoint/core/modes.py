"""Per-thread switches, and the two process-wide flags that let the recorders skip reading them.

`unusual` counts the modes and transforms that are on, in any thread, and change what recording an op means: a
transform, inference mode, saved-tensor hooks, anomaly detection, autocast, profiling. While it is zero
every value inside a tensor is a plain array, and the fast recorders apply. `off` has one entry for each
thread in which gradient recording is switched off (a dict, because storing in it is atomic where
adding to a number is not); while it is empty no check is needed. Both are hints: a non-zero flag only
means that the slow path checks, so an outdated one costs time, never correctness.

A signal's exception may come wherever the interpreter looks for one: after a call, where a function starts,
where a loop jumps back; never between stores. So what must be put back is put back by stores that come first
in a `finally`, not by a call, and what a context sets it sets by stores that come last in `__enter__`:

    finally:
        off[local.key], local.grad = None, was
        if was:
            off.pop(local.key, None)
"""

from __future__ import annotations

import opcode
import sys
import threading
from collections.abc import Callable
from typing import Any

unusual: int = 0
off: dict[int, None] = {}
warn_always: bool = False  # whether what is worth one warning in a process is warned of each time
inferred: bool = False  # whether inference mode was ever on: only then can an inference tensor turn up
transforms: int = 0  # how many function transforms (grad, jvp, vmap) are on, in any thread
guarded: bool = False  # whether a write must be looked at: `inferred`, or a transform is on

# The module `fast_path`, once it is imported: its `usual` follows `unusual`. Set from here and not by a call, between
# whose instructions a signal or another thread could come; the interpreter lets neither come between stores.
follower: Any = None


class _Thread(threading.local):
    """What one thread has switched; class attributes are a new thread's defaults."""

    key: int  # the thread's own in `off`
    grad: bool
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
    # Whether ops may use their fused form although `unusual` is not zero: a checkpoint, a memory budget.
    fusing: bool = False
    checked_functions: set[Any] | None = None  # custom functions that debug mode has checked; None: it is off

    def __init__(self) -> None:
        self.key, self.grad = threading.get_ident(), True  # in `__dict__`, where one look finds both


local = _Thread()


_BEFORE_WITH, _CACHE = opcode.opmap.get("BEFORE_WITH"), opcode.opmap.get("CACHE", -1)
_CALLS = {opcode.opmap[name] for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") if name in opcode.opmap}


class Scope:
    """Base of the contexts that a program enters: one whose `__exit__` was interrupted is left once it is dropped.

    A signal may come where a function starts, so before the first line of `__exit__`. What is left of the context then
    is in the exception's traceback; when that goes, `__del__` leaves it. One entered by hand, not by a ``with``
    statement, may be dropped at will and stays on, as in torch. A class stores in `owned` what `own` returns, in
    `__enter__` and in a constructor that switches, and None in `__exit__`: first, or last where leaving twice is the
    same as leaving once.
    """

    owned: tuple[Any, int] | None = None

    def own(self: Any) -> tuple[Any, int]:
        """Return the place that our caller was called from."""
        frame = sys._getframe(2)
        return frame.f_code, frame.f_lasti

    def __exit__(self, *error: object) -> None:
        raise NotImplementedError

    def __del__(self: Any) -> None:
        if self.owned is not None and is_with(self.owned):
            self.__exit__(None, None, None)


def is_with(place: tuple[Any, int]) -> bool:
    """Return whether a place in a program enters the context of a ``with`` statement, or makes the context for it."""
    code, at = place
    instructions = code.co_code
    if instructions[at] in _CALLS:
        at += 2
        while instructions[at] == _CACHE:
            at += 2
    return bool(instructions[at] == _BEFORE_WITH)


def is_grad_enabled() -> bool:
    """Return whether ops in this thread are being recorded for gradients.

    Returns
    -------
    bool
        True unless inside of `no_grad`, `inference_mode` or ``set_grad_enabled(False)``.

    Examples
    --------
    >>> adjoint.is_grad_enabled()
    True
    >>> with adjoint.no_grad():
    ...     adjoint.is_grad_enabled()
    False
    """
    return not off or local.grad


def fusing() -> bool:
    """Return whether ops may use their fused form, as they do while no mode or transform is on."""
    return not unusual or (local.fusing and local.autocast is None)


def set_grad(value: bool) -> None:
    """Switch recording in this thread."""
    switches = local.__dict__  # one look at what is the thread's own
    if switches["grad"] is not value:
        off[switches["key"]], switches["grad"] = None, value
        if value:
            off.pop(switches["key"], None)


def note_transform(change: int) -> None:
    """Count a function transform in (+1) or out (-1)."""
    global transforms, guarded
    transforms += change
    guarded = inferred or transforms > 0


def note_inference() -> None:
    """Remember that there may be inference tensors from now on."""
    global inferred, guarded
    inferred = guarded = True


def note_unusual(change: int) -> None:
    """Count a mode or transform in (+1) or out (-1)."""
    global unusual
    unusual += change
    if follower is not None:
        follower.usual = None if unusual else follower.Tensor
