"""Exceptions and interrupts wherever they can come: afterwards no mode is left on, no gradient is half of one.

Three kinds of case. `at every check`: KeyboardInterrupt, or what a handler raises, at the n-th point at which the
interpreter looks for signals (where a function starts, after a call, where a loop jumps back), for every n of a
program. `signals`: a timer's real signals at random times. `raised`: an exception from the n-th call of a hook or rule
of a random graph.

    python -m gates.faults --minutes 1 --seed 0
"""

from __future__ import annotations

import argparse
import contextlib
import dis
import gc
import itertools
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import adjoint
from adjoint.autograd import forward_ad
from adjoint.core import fast_path, modes, nodes, payload, tasks

from .summary import summary

OURS = os.path.dirname(adjoint.__file__) + os.sep
WATCHED = OURS, contextlib.__file__  # whose generators end later than what is around them, if an interrupt comes there
SPARSE = 29  # of so many checks one, in every program, before each is tried in all of them
SLOWEST = 5.0  # seconds that an interrupted program may take until it has ended


Program: TypeAlias = "Callable[[State], None]"


class Square(adjoint.autograd.Function):
    """A custom function."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Return the square."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Return the gradient."""
        (x,) = ctx.saved_tensors
        return g * 2 * x


class State:
    """The tensors of a program: fresh in every run, so that what an interrupt left of them can be looked at."""

    def __init__(self) -> None:
        self.x = adjoint.tensor([1.0, 2.0, 3.0], requires_grad=True)
        self.w = adjoint.tensor([[0.5, -1.0, 2.0]] * 3, requires_grad=True)
        self.optimizer: Any = None


def loss_of(s: State) -> Any:
    """Return a loss of both tensors."""
    return ((s.w @ s.x).tanh() * s.x + Square.apply(s.x)).sum()


def backward(s: State) -> None:
    """Run a backward pass."""
    loss_of(s).backward()


def recorded_backward(s: State) -> None:
    """Differentiate twice."""
    (g,) = adjoint.autograd.grad(loss_of(s), s.x, create_graph=True)
    (g * g).sum().backward()


def hooked(s: State) -> None:
    """Run a pass with hooks of every kind."""
    y = s.x * 2
    y.register_hook(lambda g: g * 1)
    y.retain_grad()
    s.w.register_post_accumulate_grad_hook(lambda p: None)
    (loss_of(s) + y.sum()).backward()


def reentrant(s: State) -> None:
    """Run a pass inside a hook of another."""
    y = s.x * 1

    def hook(g: Any) -> None:
        with adjoint.enable_grad():
            z = s.w.detach().requires_grad_()
            (z * z).sum().backward()

    y.register_hook(hook)
    y.sum().backward()


def deep(s: State, depth: int = 45) -> None:
    """Nest passes until one runs in a thread of its own."""

    def nest(n: int) -> None:
        with adjoint.enable_grad():
            y = s.x.detach().requires_grad_() * 1
            if n:
                y.register_hook(lambda g: nest(n - 1))
            (y * 1).sum().backward()

    nest(depth)


def switched(s: State) -> None:
    """Nest the modes of recording."""
    with adjoint.no_grad():
        a = s.x * 2
        with adjoint.enable_grad():
            b = s.x * a
    with adjoint.inference_mode():
        s.x * 2
    b.sum().backward()


@adjoint.no_grad()
def decorated(s: State) -> None:
    """Run unrecorded, but for a pass."""
    s.x * 2
    with adjoint.set_grad_enabled(True):
        loss_of(s).backward()


def transformed(s: State) -> None:
    """Run function transforms."""
    f = adjoint.func.vmap(adjoint.func.grad(lambda x: (x * x.sin()).sum()))
    f(s.w)
    adjoint.func.jvp(lambda x: x * x, (s.x,), (s.x,))


def forward_mode(s: State) -> None:
    """Compute a tangent."""
    with forward_ad.dual_level():
        forward_ad.unpack_dual(forward_ad.make_dual(s.x, s.x) * 2)


def watched(s: State) -> None:
    """Look for NaN, switch recording and forward mode by constructors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detection = adjoint.autograd.detect_anomaly(stack=True)
    with detection, adjoint.autograd.set_detect_anomaly(True):
        loss = loss_of(s)
    with adjoint.set_grad_enabled(False):
        s.x * 2
    with forward_ad._set_fwd_grad_enabled(False), adjoint.autograd.set_multithreading_enabled(False):
        loss.backward()


def autocast(s: State) -> None:
    """Compute in lower precision."""
    with adjoint.autocast("cpu"):
        loss = (s.w @ s.x).float().sum()
    loss.backward()


def saved_hooks(s: State) -> None:
    """Pack what is saved."""
    with adjoint.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        loss = loss_of(s)
    loss.backward()


def checkpointed(s: State) -> None:
    """Compute a block again in the pass."""
    adjoint.utils.checkpoint.checkpoint(lambda x: (x * x).sin().sum(), s.x, use_reentrant=False).backward()


def step(s: State) -> None:
    """Take a training step."""
    loss_of(s).backward()
    s.optimizer = adjoint.optim.AdamW([s.x, s.w], lr=0.1)
    s.optimizer.step()


PROGRAMS: list[Callable[[State], None]] = [
    backward, recorded_backward, hooked, reentrant, switched, decorated, transformed, forward_mode, autocast,
    watched, saved_hooks, checkpointed, step, deep,
]  # fmt: skip


def finished(program: Program) -> tuple[Any, ...]:
    """Return the arrays that an undisturbed run of a program leaves, and those from which it starts."""
    s = State()
    before = s.x.detach().numpy().copy(), s.w.detach().numpy().copy()
    program(s)
    gradients = [None if t.grad is None else t.grad.numpy() for t in (s.x, s.w)]
    return before, (s.x.detach().numpy().copy(), s.w.detach().numpy().copy()), gradients


_FLAGS = np.geterr()


def faults(s: State, expected: tuple[Any, ...]) -> list[str]:
    """Return the wrong state that an interrupted program has left; reset it for the next program."""
    local, found = modes.local, []
    left = {
        "grad mode": not local.grad or not adjoint.is_grad_enabled(),
        "inference mode": local.inference,
        "forward mode": not local.forward_grad,
        "anomaly detection": local.anomaly or local.anomaly_stack or np.geterr()["invalid"] == "call",
        "threads of passes": not local.multithreading,
        "levels": bool(payload.inside.levels),
        "dual levels": bool(forward_ad._levels),
        "observer": local.observer is not None,
        "saved-tensor hooks": bool(local.pack_hooks) or local.pack_refusal is not None,
        "autocast": local.autocast is not None or adjoint.is_autocast_enabled("cpu"),
        "tasks": bool(tasks.running.tasks) or bool(nodes.passes),
        "silenced": local.silenced != 0,
        "too few unusual": modes.unusual < 0,
    }
    found += [name for name, wrong in left.items() if wrong]
    before, after, gradients = expected
    for tensor, complete in zip((s.x, s.w), gradients, strict=True):
        got = tensor.grad
        if got is not None and (complete is None or not np.allclose(got.numpy(), complete)):
            found.append("half of a gradient")
    values = [t.detach().numpy() for t in (s.x, s.w)]
    same = [[np.allclose(v, o) for v, o in zip(values, old, strict=True)] for old in (before, after)]
    if not (all(same[0]) or all(same[1])):
        found.append("half of a step")
    if not found:
        x = adjoint.tensor([1.0, 2.0], requires_grad=True)
        (x * x * x).sum().backward()
        if x.grad is None or not np.allclose(x.grad.numpy(), [3.0, 12.0]):
            found.append("a wrong gradient afterwards")
    reset()
    return found


def reset() -> None:
    """Reset every mode of this thread to the default of a new thread."""
    key = modes.local.key
    modes.local.__dict__.clear()
    np.seterr(**_FLAGS)
    np.seterrcall(None)
    modes.local.key, modes.local.grad = key, True
    for words in (modes.off, nodes.passes, fast_path.recorded_passes):
        words.clear()
    tasks.running.__dict__.clear()
    payload.inside.__dict__.clear()
    forward_ad._levels.clear()
    adjoint.set_autocast_enabled("cpu", False)
    modes.transforms, modes.guarded, modes.unusual = 0, modes.inferred, 0
    modes.note_unusual(0)


# --- Interrupts at every point at which the interpreter looks for signals ----------------------------------

_BACK = frozenset(number for name, number in dis.opmap.items() if "JUMP_BACKWARD" in name)


class Alarm(Exception):
    """The exception of a program's signal handler."""


def raise_alarm(*_: Any) -> None:
    """Raise, as a handler of signals."""
    raise Alarm


HANDLERS: dict[type[BaseException], Any] = {KeyboardInterrupt: signal.default_int_handler, Alarm: raise_alarm}


class Injector:
    """Raises an error at the n-th check for signals inside adjoint; `count` says how many checks there were."""

    def __init__(self, at: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at, self.count, self.where, self.error = at, 0, "", error
        self.last: dict[Any, int] = {}
        self.before: Any = None

    def __enter__(self) -> Injector:
        self.before = signal.signal(signal.SIGINT, HANDLERS[self.error])  # ignored where a shell's job began us
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        signal.signal(signal.SIGINT, self.before)

    def start(self) -> None:
        """Begin to watch this thread: calls as a profiler sees them, loops as a debugger does."""
        sys.settrace(self.trace)
        sys.setprofile(self.profile)

    def stop(self) -> None:
        """Stop tracing: the program runs on without faults."""
        sys.setprofile(None)
        sys.settrace(None)
        self.last.clear()

    def profile(self, frame: Any, event: str, arg: Any) -> None:
        """Check where a function of Python's starts, and where one of C's has returned."""
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(WATCHED):
            self.check(frame)

    def trace(self, frame: Any, event: str, arg: Any) -> Any:
        """Check where a loop jumps back."""
        if event == "call" and frame.f_code.co_filename.startswith(WATCHED):
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return self.trace
        if event == "opcode":
            previous, at = self.last.get(frame), frame.f_lasti
            self.last[frame] = at
            if previous is not None and at < previous and frame.f_code.co_code[previous] in _BACK:
                self.check(frame)
        return self.trace if event == "opcode" else None

    def check(self, frame: Any) -> None:
        """Raise, if it is time to."""
        self.count += 1
        if self.count == self.at:
            self.where = f"{frame.f_code.co_filename.removeprefix(OURS)}:{frame.f_lineno} {frame.f_code.co_name}"
            self.stop()
            handler: Any = signal.getsignal(signal.SIGINT)  # raises at once, or when an update has ended
            handler(signal.SIGINT, frame)


def interrupted_at(
    program: Program, at: int, expected: tuple[Any, ...], error: type[BaseException] = KeyboardInterrupt
) -> tuple[list[str], Injector]:
    """Interrupt a program at its n-th check; return what it left behind."""
    s, replaced = State(), []
    with Injector(at, error) as injector:
        try:
            program(s)
        except BaseException as raised:
            injector.stop()
            if type(raised) is not error:
                replaced = [f"{type(raised).__name__} in place of {error.__name__}: {raised}"]
            del raised  # with its traceback go the contexts that were entered
    return replaced + faults(s, expected), injector


def at_every_check(
    program: Program,
    stride: int = 1,
    start: int = 1,
    until: float = float("inf"),
    error: type[BaseException] = KeyboardInterrupt,
) -> tuple[int, dict[str, list[str]]]:
    """Interrupt a program at every check; return the number of cases and the places after which something was left."""
    expected, bad, at, cases = finished(program), {}, start, 0
    while True:
        if cases and time.perf_counter() > until:
            return cases, bad
        found, injector = interrupted_at(program, at, expected, error)
        if injector.count < at:
            return cases, bad
        cases += 1
        if found:
            bad[injector.where] = found
        at += stride


# --- Real signals --------------------------------------------------------------------------------------------


def _quiet(_: Any) -> None:
    """Say nothing of an exception that came to a generator while it was dropped, which Python swallows."""


_armed = [False]  # a signal may come a little after its timer was stopped


def _interrupt(number: int, frame: Any) -> None:
    if _armed[0]:
        _armed[0] = False
        raise KeyboardInterrupt


def signalled(program: Program, delay: float, expected: tuple[Any, ...]) -> tuple[list[str], bool, float]:
    """Run a program with a timer set; return what it left behind, whether it was interrupted, how long it took."""
    s, hit, start = State(), False, time.perf_counter()
    try:
        _armed[0] = True
        signal.setitimer(signal.ITIMER_REAL, delay)
        program(s)
        _armed[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        hit = True
    taken = time.perf_counter() - start
    return faults(s, expected), hit, taken


def signals(rng: random.Random, until: float, most: int = 1 << 30) -> Counter[str]:
    """Interrupt programs at random times."""
    before = signal.signal(signal.SIGALRM, _interrupt)
    table: Counter[str] = Counter()
    known: dict[Any, tuple[Any, float]] = {}
    try:
        while time.perf_counter() < until and table["cases"] < most:
            program = rng.choice(PROGRAMS)
            if program not in known:
                start = time.perf_counter()
                expected = finished(program)
                expected = finished(program)
                known[program] = expected, (time.perf_counter() - start) / 2
            expected, usual = known[program]
            found, hit, taken = signalled(program, max(1e-5, rng.random() * usual), expected)
            table["cases"] += hit
            table["hung"] += taken > SLOWEST
            if found:
                table["corrupt"] += 1
                table[f"  signal in {program.__name__}: {', '.join(found)}"] += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return table


# --- Exceptions from hooks and rules ---------------------------------------------------------------------------


def raised(rng: random.Random) -> list[str]:
    """Let the n-th hook or rule of a random graph raise; return what is left behind."""
    kind = rng.choice([ValueError, KeyboardInterrupt, MemoryError, SystemExit])
    length = rng.randrange(1, 12)
    fatal = rng.randrange(2 * length)
    calls = iter(range(1 << 30))

    def fail(*_: Any) -> None:
        if next(calls) == fatal:
            raise kind("on purpose")

    class Rule(adjoint.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            fail()
            return g * 1

    s = State()
    y, expected = s.x, (2 * s.x.detach().numpy(), None)
    for _ in range(length):
        y = rng.choice([lambda y: y * 1, lambda y: y + s.x - s.x, Rule.apply])(y)
        y.register_hook(fail)
    start = s.x.detach().numpy().copy(), s.w.detach().numpy().copy()
    with contextlib.suppress(ValueError, KeyboardInterrupt, MemoryError, SystemExit):
        (y * y).sum().backward()
    return faults(s, (start, start, list(expected)))


def main(argv: list[str] | None = None) -> int:
    """Run all kinds of cases for some minutes, print the table, return whether something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    rng, end = random.Random(options.seed), time.perf_counter() + 60 * options.minutes
    table: Counter[str] = Counter(cases=0, corrupt=0, hung=0)
    sys.unraisablehook = _quiet
    gc.disable()  # a collection looks for signals in whatever it calls, and swallows their exceptions
    programs = [p for p in PROGRAMS if p is not deep]  # which runs in several threads, of which one is traced
    rng.shuffle(programs)
    for stride, error, program in itertools.product((SPARSE, 1), HANDLERS, programs):
        cases, bad = at_every_check(program, stride, rng.randint(1, stride), end, error)
        table["cases"] += cases
        table["corrupt"] += len(bad)
        for where, found in bad.items():
            table[f"  {program.__name__} interrupted at {where}: {', '.join(found)}"] += 1
        gc.collect()
        if time.perf_counter() > end:
            break
    while (left := end - time.perf_counter()) > 0:
        table += signals(rng, time.perf_counter() + min(left, 5.0))
        for _ in range(200):
            table["cases"] += 1
            if found := raised(rng):
                table["corrupt"] += 1
                table[f"  raised: {', '.join(found)}"] += 1
        gc.collect()
    table["threads left"] = threading.active_count() - 1
    for name, number in table.most_common():
        print(f"{number:6} {name}")
    print(summary("faults", table["cases"], wrong=table["corrupt"], hung=table["hung"]))
    return 1 if any(name.startswith("  ") for name in table) or table["hung"] else 0


if __name__ == "__main__":
    sys.exit(main())
