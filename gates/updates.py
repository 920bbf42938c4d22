"""Interrupts in optimizer steps, in captures of `compile`, and in data loaders.

Three kinds of case. `updates`: KeyboardInterrupt at every point at which the interpreter looks for signals inside an
optimizer's step, a scaler's, a clip of gradients, an average of weights, a schedule, a compiled training step: what it
writes is as before or as after, never between. `captures`: the same at random points of a function's capture and
compilation, after which the function works. `loaders`: errors, interrupts and kills in workers, in `collate_fn` and in
the program while it waits: no process, file in shared memory, thread or descriptor is left.

    python -m gates.updates --minutes 1 --seed 0
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

import numpy as np

import adjoint as T
from adjoint import nn, optim
from adjoint.core import interrupts
from adjoint.utils.data import DataLoader

from . import faults
from .summary import summary

Arrays = list[Any]
Update = tuple[Callable[[], Any], Callable[[], Arrays]]  # what is done, and what it writes


def parameters(count: int = 3) -> list[Any]:
    """Return parameters that have gradients."""
    made = [T.full((2, 3), 1.0 + i, requires_grad=True) for i in range(count)]
    for i, p in enumerate(made):
        p.grad = T.full((2, 3), 0.5 - i)
    return made


def state_of(optimizer: Any) -> Arrays:
    """Return everything that a step writes."""
    found: Arrays = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            found.append(p.detach().numpy().copy())
            for _, value in sorted(optimizer.state.get(p, {}).items()):
                found.append(np.asarray(value.detach() if isinstance(value, T.Tensor) else value).copy())
    return found


def stepping(kind: Any, **options: Any) -> Update:
    """Take the second step of an optimizer with two groups: state is there already."""
    a, b = parameters(), parameters(9)  # the many are packed
    optimizer = kind([{"params": a}, {"params": b}], **options)
    optimizer.step()
    return optimizer.step, lambda: state_of(optimizer)


def sparse_step() -> Update:
    """Take a step by sparse gradients."""
    layers = [nn.Embedding(5, 2, sparse=True) for _ in range(2)]
    for layer in layers:
        nn.init.ones_(layer.weight)
        layer(T.tensor([1, 3])).sum().backward()
    optimizer = optim.SparseAdam([layer.weight for layer in layers])
    optimizer.step()
    return optimizer.step, lambda: state_of(optimizer)


def scaler_step() -> Update:
    """Unscale, step, and update the scale."""
    params = parameters()
    optimizer, scaler = optim.AdamW(params), T.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    scaler.scale(T.ones(1))
    optimizer.step()
    return lambda: scaler.step(optimizer), lambda: [*state_of(optimizer), *[p.grad.numpy().copy() for p in params]]


def scaler_update() -> Update:
    """Let the scale grow."""
    optimizer, scaler = optim.SGD(parameters()), T.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    scaler.scale(T.ones(1))
    scaler.step(optimizer)
    return scaler.update, lambda: [scaler.get_scale(), scaler._get_growth_tracker(), len(scaler._per_optimizer_states)]


def clipping(clip: Callable[..., Any]) -> Update:
    """Clip gradients."""
    params = parameters()
    return lambda: clip(params, 0.1), lambda: [p.grad.numpy().copy() for p in params]


def averaging(**options: Any) -> Update:
    """Take weights into an average, the second time."""
    T.manual_seed(0)
    model = nn.Linear(3, 2)
    average = optim.swa_utils.AveragedModel(model, **options)
    average.update_parameters(model)
    with T.no_grad():
        for p in model.parameters():
            p.fill_(7.0)
    return lambda: average.update_parameters(model), lambda: [
        t.detach().numpy().copy() for t in (*average.parameters(), *average.buffers())
    ]


def scheduling(kind: Any, *arguments: Any, **options: Any) -> Update:
    """Go on with a schedule."""
    optimizer = optim.SGD([{"params": parameters()}, {"params": parameters(), "lr": 0.5}], lr=0.1)
    schedule = kind(optimizer, *arguments, **options)
    optimizer.step()
    act = functools.partial(schedule.step, 1.0) if kind is optim.lr_scheduler.ReduceLROnPlateau else schedule.step
    act()
    return act, lambda: [*(g["lr"] for g in optimizer.param_groups), schedule.last_epoch, *schedule.get_last_lr()]


def compiled_step(size: int) -> Update:
    """Take a compiled training step."""
    T.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, size), nn.Tanh(), nn.Linear(size, 2))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    x = T.ones(4, 3)

    @T.compile
    def train() -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        train()
    assert train.traces, train.refused
    return train, lambda: state_of(optimizer)


PLAIN = (
    optim.SGD, optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad, optim.Adadelta,
    optim.RMSprop, optim.Rprop, optim.ASGD, optim.Adafactor, optim.Muon,
)  # fmt: skip
UPDATES: dict[str, Callable[[], Update]] = {
    **{kind.__name__: functools.partial(stepping, kind) for kind in PLAIN},
    "AdamW, foreach": lambda: stepping(optim.AdamW, foreach=True),
    "AdamW, fused": lambda: stepping(optim.AdamW, fused=True),
    "Adam, amsgrad, maximize": lambda: stepping(optim.Adam, amsgrad=True, maximize=True, weight_decay=0.1),
    "SGD, momentum": lambda: stepping(optim.SGD, momentum=0.9),
    "SparseAdam": sparse_step,
    "GradScaler.step": scaler_step,
    "GradScaler.update": scaler_update,
    "clip_grad_norm_": lambda: clipping(nn.utils.clip_grad_norm_),
    "clip_grad_value_": lambda: clipping(nn.utils.clip_grad_value_),
    "average": averaging,
    "average, multi": lambda: averaging(multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5)),
    "StepLR": lambda: scheduling(optim.lr_scheduler.StepLR, 1),
    "ReduceLROnPlateau": lambda: scheduling(optim.lr_scheduler.ReduceLROnPlateau, patience=0),
    "CosineAnnealingWarmRestarts": lambda: scheduling(optim.lr_scheduler.CosineAnnealingWarmRestarts, 3),
    "compiled": lambda: compiled_step(4),
    "compiled, large": lambda: compiled_step(20_000),
}


def alike(one: Arrays, other: Arrays) -> bool:
    """Return whether two snapshots are the same."""
    return len(one) == len(other) and all(np.allclose(a, b) for a, b in zip(one, other, strict=True))


def interrupted_update(make: Callable[[], Update], at: int) -> tuple[str, faults.Injector]:
    """Interrupt an update at its n-th check; return what is wrong then."""
    act, snapshot = make()
    before = snapshot()
    raised = False
    with faults.Injector(at) as injector:
        try:
            act()
        except KeyboardInterrupt:
            injector.stop()
            raised = True
    found = snapshot()
    if injector.count < at:
        return "", injector
    wrong = "" if raised else "the interrupt was lost; "
    if not alike(found, before):
        act, snapshot = make()
        act()
        wrong += "" if alike(found, snapshot()) else "updated in part; "
    wrong += ", ".join(left_over())
    return wrong, injector


def left_over() -> list[str]:
    """Return the modes that are not as in a new thread, and whether signals are still held."""
    found = faults.faults(faults.State(), NOTHING)
    if interrupts.came:
        found.append("a signal still waits")
    return found


NOTHING = faults.finished(lambda s: None)


def updates(rng: random.Random, until: float, table: Counter[str]) -> None:
    """Interrupt every update at many checks, each for its share of the time."""
    names = list(UPDATES)
    for number, name in enumerate(names):
        now = time.perf_counter()
        end = now + (until - now) / (len(names) - number)
        for at in _spread(rng, UPDATES[name]):
            wrong, injector = interrupted_update(UPDATES[name], at)
            table["cases"] += 1
            if wrong:
                table["wrong"] += 1
                table[f"  {name} interrupted at {injector.where} (check {at}): {wrong}"] += 1
            if time.perf_counter() > end:
                break


def _spread(rng: random.Random, make: Callable[[], Update]) -> list[int]:
    """Return the numbers of an update's checks, in any order."""
    _, injector = interrupted_update(make, 1 << 30)
    return rng.sample(range(1, injector.count + 1), injector.count)


def minimized(rng: random.Random) -> str:
    """Interrupt LBFGS anywhere; return what is wrong unless it goes on to the minimum."""
    x = T.tensor([3.0, -2.0], dtype=T.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn=rng.choice([None, "strong_wolfe"]), max_iter=4, lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((x - 1) ** 2).sum() + (x[0] * x[1]) ** 2 * 0.1
        loss.backward()
        return loss

    with faults.Injector(rng.randrange(1, 6000)) as injector:
        try:
            optimizer.step(closure)
            optimizer.step(closure)
        except KeyboardInterrupt:
            injector.stop()
    for _ in range(20):
        loss = optimizer.step(closure)
    ok = float(loss) < 0.3 and float(x.grad.abs().max()) < 1e-3
    return "" if ok else f"LBFGS interrupted at {injector.where} does not go on: {loss}, {x.grad}"


# --- Captures --------------------------------------------------------------------------------------------


def captured(rng: random.Random) -> str:
    """Interrupt a function's capture, or one of its first calls; return what is wrong afterwards."""
    w = T.full((3,), 0.5, requires_grad=True)
    buffer = T.zeros(3)

    def f(x: Any) -> Any:
        buffer.add_(1.0)
        return (x * w).tanh().sum() + buffer.sum() * 0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function, calls = T.compile(f), rng.randrange(1, 4)
        at = rng.choice([rng.randrange(1, 300), rng.randrange(1, 5000), rng.randrange(1, 60_000)])
        with faults.Injector(at) as injector:
            try:
                for _ in range(calls):
                    function(T.ones(3)).backward()
            except KeyboardInterrupt:
                injector.stop()
        wrong = ", ".join(left_over())
        for i in range(4):
            x, w.grad = T.full((3,), float(i)), None
            before = buffer.clone()
            out = function(x)
            out.backward()
            gradient = (1 - np.tanh(0.5 * i) ** 2) * i
            if not (
                np.allclose(float(out), 3 * np.tanh(0.5 * i)) and np.allclose(np.asarray(w.grad), gradient)
                and bool((buffer == before + 1).all())
            ):  # fmt: skip
                wrong += f" call {i + 1} afterwards gives {out}, {w.grad}, {buffer - before}"
        if function.refused:
            wrong += f" refused: {function.refused}"
    return f"capture interrupted at {injector.where} (check {at}): {wrong}" if wrong else ""


# --- Data loaders ----------------------------------------------------------------------------------------


class Faulty:
    """A dataset that fails at one element in a given way."""

    def __init__(self, how: str, at: int) -> None:
        self.how, self.at = how, at

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        if index == self.at:
            if self.how == "raise":
                raise ValueError("on purpose")
            if self.how == "interrupt":
                raise KeyboardInterrupt
            if self.how == "exit":
                sys.exit(3)
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "signal":
                os.kill(os.getppid(), signal.SIGINT)
        return np.full(20_000, float(index), np.float32)  # through shared memory


def collated(how: str, batch: list[Any]) -> Any:
    """Fail, or do what a loader does."""
    if how == "raise" and batch[0][0] >= 6:
        raise ValueError("on purpose")
    if how == "interrupt" and batch[0][0] >= 6:
        raise KeyboardInterrupt
    return T.utils.data.default_collate(batch)


@contextlib.contextmanager
def nothing_left() -> Iterator[list[str]]:
    """Look for processes, files in shared memory, threads and descriptors that are there afterwards only."""
    found: list[str] = []
    before = _resources()
    yield found
    gc.collect()
    limit = time.monotonic() + 20  # a killed process is gone soon, not at once
    while (left := [f"left {n}" for n in sorted(_resources() - before)]) and time.monotonic() < limit:
        multiprocessing.active_children()
        time.sleep(0.01)
    found += left


def _resources() -> set[str]:
    found = {f"process {p.pid}" for p in multiprocessing.active_children()}
    found |= {f"thread {t.name}" for t in threading.enumerate()}
    mine = (f"adjoint-{os.getpid()}-", "sem.")
    found |= {f"file {n}" for n in _listed("/dev/shm") if n.startswith(mine)}
    for n in _listed("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own is closed by now
            found.add(f"descriptor {n} {os.readlink(f'/proc/self/fd/{n}')}")
    return found


def _listed(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def loaded(rng: random.Random) -> str:
    """Let a loader fail in one way; return what is left of it, or wrong with the next."""
    how, where = (
        rng.choice(["raise", "interrupt", "exit", "kill", "signal"]),
        rng.choice(["dataset", "collate", "main", "timer", "timer"]),
    )
    workers, method = rng.choice([0, 1, 2, 3]), rng.choice(["fork", "fork", "fork", "spawn"])
    if not workers and how in ("kill", "signal") and where == "dataset":
        how = "raise"
    data = Faulty(how if where == "dataset" else "", rng.randrange(12))
    collate = functools.partial(collated, how if where == "collate" else "")
    options: dict[str, Any] = {"batch_size": 2, "num_workers": workers, "collate_fn": collate}
    if workers:
        options |= {"persistent_workers": rng.random() < 0.5, "multiprocessing_context": method}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    alarm = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with nothing_left() as found:
            loader = DataLoader(data, **options)
            with contextlib.suppress(ValueError, KeyboardInterrupt, SystemExit, RuntimeError):
                if where == "timer":
                    signal.setitimer(signal.ITIMER_REAL, rng.random() * 0.15)
                for i, batch in enumerate(loader):
                    del batch  # which holds memory that is shared
                    if where == "main" and i == 2:
                        raise KeyboardInterrupt
            signal.setitimer(signal.ITIMER_REAL, 0)
            del loader
        good = DataLoader(Faulty("", 0), batch_size=4, num_workers=min(workers, 2))
        if [float(b[0, 0]) for b in good] != [0.0, 4.0, 8.0]:
            found.append("the next loader gives other batches")
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGALRM, alarm)
    return f"loader: {how} in {where}, {workers} workers by {method}: {', '.join(found)}" if found else ""


def main(argv: list[str] | None = None) -> int:
    """Run all kinds of cases for some minutes, print the table, return whether something was wrong."""
    parser = argparse.ArgumentParser(prog="gates.updates", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    sys.unraisablehook = faults._quiet
    rng, start = random.Random(options.seed), time.perf_counter()
    end = start + 60 * options.minutes
    table: Counter[str] = Counter(cases=0, wrong=0)
    resource_tracker.ensure_running()  # the standard library's, which stays
    gc.disable()  # a collection looks for signals in whatever it calls, and swallows their exceptions
    updates(rng, start + 30 * options.minutes, table)
    while time.perf_counter() < end:
        case = rng.choice([minimized, captured, captured, loaded])
        seed = rng.randrange(1 << 30)
        table["cases"] += 1
        if wrong := case(random.Random(seed)):
            table["wrong"] += 1
            print(f"{case.__name__}(random.Random({seed})): {wrong}", flush=True)
        gc.collect()
    for name, number in table.most_common():
        print(f"{number:6} {name}")
    print(summary("updates", table["cases"], wrong=table["wrong"]))
    return 1 if table["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
