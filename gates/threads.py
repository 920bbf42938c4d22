"""Threads, forks, spawned processes and signals: no update is lost, no child hangs, no signal waits.

Every kind of case runs in a process of its own, for a share of the time, round after round; the parent counts what it
says, and a watchdog dumps the stacks of a process in which nothing has moved. A thread case has 16 threads that start
at once; `calls` of each are one round. `lost` are updates that did not arrive, `late` signals whose handler ran more
than 0.1 s after that of a plain Python loop would have.

    python -m gates.threads --minutes 1 --seed 0
    python -m gates.threads --only forks --seed 3
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import gc
import importlib
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as T
from adjoint import nn
from adjoint.utils.data import DataLoader, TensorDataset

from .summary import summary

ROOT = Path(__file__).parents[1]
THREADS = 16
LIMIT = 60.0  # seconds in which nothing moved, after which a process hangs
REACTION = 0.1  # seconds

Case = Callable[[random.Random, int], None]


def together(work: Callable[[int], None], count: int = THREADS) -> None:
    """Run ``work(number)`` in threads that begin at once; raise the first error of any of them."""
    barrier, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@contextlib.contextmanager
def busy(work: Callable[[], Any], count: int = 3) -> Iterator[None]:
    """Let threads repeat some work meanwhile; raise what they raise."""
    stop, errors, begun = threading.Event(), [], threading.Semaphore(0)

    def run() -> None:
        try:
            work()
            begun.release()
            while not stop.is_set():
                work()
        except BaseException as error:
            errors.append(error)
            begun.release()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for _ in threads:
        begun.acquire()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def same(got: Any, expected: Any, what: str) -> None:
    """Raise if two tensors, arrays or numbers are not the same."""
    got, expected = (np.asarray(v.detach() if isinstance(v, T.Tensor) else v) for v in (got, expected))
    assert np.array_equal(got, expected), f"{what}: {got} instead of {expected}"


# --- Threads ---------------------------------------------------------------------------------------------


class Twice(T.autograd.Function):
    """A function of the program's own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Double."""
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Double."""
        (x,) = ctx.saved_tensors
        return g * 2 + x.detach() * 0


def shared_leaves(rng: random.Random, calls: int) -> None:
    """Backward passes of all threads add to the same leaves; every sum is exact."""
    x, w = T.ones(3, requires_grad=True), T.ones(3, 2, requires_grad=True)
    seen: list[int] = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(1))

    def work(number: int) -> None:
        for i in range(calls):
            loss = Twice.apply(x).sum() if (number + i) % 2 else (x * 2).sum()
            (loss + (w * 3).sum()).backward()

    together(work)
    same(x.grad, np.full(3, 2.0 * THREADS * calls), "lost: x.grad")
    same(w.grad, np.full((3, 2), 3.0 * THREADS * calls), "lost: w.grad")
    assert len(seen) == THREADS * calls, "lost: hooks"


def shared_graph(rng: random.Random, calls: int) -> None:
    """All threads run backward of one graph, which is retained."""
    x = T.ones(4, requires_grad=True)
    y = x * 3
    loss = (y * y).sum()

    def work(number: int) -> None:
        for i in range(calls):
            if (number + i) % 3:
                loss.backward(retain_graph=True)
            else:
                (g,) = T.autograd.grad(loss, x, retain_graph=True)
                same(g, np.full(4, 18.0), "grad")

    together(work)
    count = sum((n + i) % 3 > 0 for n in range(THREADS) for i in range(calls))
    same(x.grad, np.full(4, 18.0 * count), "lost: x.grad")


def one_module(rng: random.Random, calls: int) -> None:
    """Forward and backward of one module; gradients add up, outputs are those of one thread."""
    T.manual_seed(rng.randrange(1000))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2)).double()
    inputs = [T.randn(5, 4, dtype=T.float64) for _ in range(THREADS)]
    expected = [model(x).detach() for x in inputs]
    counted = [0] * THREADS

    def work(number: int) -> None:
        def hook(*_: Any) -> None:
            counted[number] += threading.get_ident() == own

        own = threading.get_ident()
        handle = model.register_forward_hook(hook)
        for _ in range(calls):
            out = model(inputs[number])
            same(out, expected[number], "forward")
            T.autograd.grad(out.sum(), list(model.parameters()))
        handle.remove()

    together(work)
    assert counted == [calls] * THREADS, "lost: forward hooks"


def packing(packed: list[int]) -> Any:
    """Return hooks that count what is saved."""
    return T.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t)


def modes(rng: random.Random, calls: int) -> None:
    """Grad and inference mode, autocast and saved-tensor hooks are a thread's own; the default dtype is everyone's."""

    def work(number: int) -> None:
        rng = random.Random(number)
        assert T.is_grad_enabled() and not T.is_inference_mode_enabled() and not T.is_autocast_enabled("cpu")
        x = T.ones(2, 2, requires_grad=True)
        for _ in range(calls):
            kind = rng.randrange(5)
            packed: list[int] = []
            with [
                T.no_grad, T.inference_mode, lambda: T.autocast("cpu", dtype=T.bfloat16), T.enable_grad,
                lambda packed=packed: packing(packed),
            ][kind]():  # fmt: skip
                y = x @ x
                assert y.requires_grad == (kind > 1), "grad mode of another thread"
                assert y.is_inference() == (kind == 1), "inference mode of another thread"
                assert y.dtype is (T.bfloat16 if kind == 2 else T.float32), "autocast of another thread"
                assert len(packed) == 2 * (kind == 4), "saved-tensor hooks of another thread"
            assert T.is_grad_enabled() and not T.is_autocast_enabled("cpu"), "a mode was left on"

    with T.no_grad():  # a new thread begins with recording on
        together(work)
    try:
        T.set_default_dtype(T.float64)
        found: list[Any] = []
        together(lambda _: found.append(T.ones(1).dtype), 4)
        assert found == [T.float64] * 4
    finally:
        T.set_default_dtype(T.float32)


def compiled(rng: random.Random, calls: int) -> None:
    """Functions compiled and called by all threads for the first time."""
    scale = rng.random()

    def f(x: Any) -> Any:
        return (x * scale).tanh() + x.sum()

    one = T.compile(f)
    several = [T.compile(lambda x, k=k: (x + k).exp() * x) for k in range(3)]
    w = T.full((3,), 0.5, dtype=T.float64, requires_grad=True)
    trained = T.compile(lambda x: ((x * w) ** 2).sum())

    def work(number: int) -> None:
        x = T.full((4,), float(number), dtype=T.float64)
        for i in range(max(calls // 10, 4)):
            np.testing.assert_allclose(np.asarray(one(x)), np.asarray(f(x)), rtol=1e-12)
            k = (number + i) % 3
            np.testing.assert_allclose(np.asarray(several[k](x)), np.asarray((x + k).exp() * x), rtol=1e-12)
            (g,) = T.autograd.grad(trained(x[:3]), w)
            np.testing.assert_allclose(np.asarray(g), number**2 * np.ones(3), rtol=1e-12)

    together(work)


_FIRST: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(0), "softmax": lambda x: x.softmax(-1), "norm": lambda x: nn.functional.layer_norm(x, (64,)),
    "gelu": lambda x: nn.functional.gelu(x), "sort": lambda x: x.sort(-1)[0], "cumsum": lambda x: x.cumsum(0),
    "matmul": lambda x: x.t() @ x, "conv": lambda x: nn.functional.conv1d(x.view(1, 64, -1), T.ones(2, 64, 3)),
    "index": lambda x: x[T.arange(0, x.shape[0], 7)], "where": lambda x: T.where(x > 0, x, -x),
    "loss": lambda x: nn.functional.cross_entropy(x, T.zeros(x.shape[0], dtype=T.int64)),
    "dropout": lambda x: nn.functional.dropout(x, 0.0), "pool": lambda x: nn.functional.max_pool1d(x.t()[None], 2),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(*[x[:256].view(1, 4, 64, 64)] * 3),
    "silu": lambda x: nn.functional.silu(x), "logsumexp": lambda x: x.logsumexp(-1), "var": lambda x: x.var(0),
}  # fmt: skip


def first_calls(rng: random.Random, calls: int) -> None:
    """The first call of a kernel, which fills the caches, comes from all threads at once; a process has one of each."""
    kinds = list(_FIRST.items())
    rng.shuffle(kinds)
    T.manual_seed(0)
    data = T.randn(1024, 64)
    for name, kind in kinds:
        found: list[Any] = [None] * THREADS

        def work(number: int, kind: Any = kind, found: list[Any] = found) -> None:
            x = data.clone().requires_grad_()
            out = kind(x)
            out.sum().backward()
            found[number] = np.asarray(out.detach()), np.asarray(x.grad)

        together(work)
        for out, grad in found[1:]:  # another path may round otherwise
            np.testing.assert_allclose(out, found[0][0], 1e-5, 1e-6, err_msg=f"value of {name}")
            np.testing.assert_allclose(grad, found[0][1], 1e-5, 1e-6, err_msg=f"gradient of {name}")


def saved_files(rng: random.Random, calls: int) -> None:
    """Threads save to one path and load from it: what is loaded is whole."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.pt")
        T.save({"n": 0, "x": T.zeros(2000)}, path)

        def work(number: int) -> None:
            for i in range(max(calls // 10, 3)):
                if number % 2:
                    T.save({"n": number, "x": T.full((2000,), float(number))}, path)
                state = T.load(path)
                same(state["x"], np.full(2000, state["n"]), "a torn file")
                T.save({"i": i}, os.path.join(folder, f"{number}.pt"))

        together(work)
        assert sorted(os.listdir(folder)) == sorted(["state.pt", *(f"{i}.pt" for i in range(THREADS))]), "left files"


def loaders(rng: random.Random, calls: int) -> None:
    """Data loaders in threads, some with worker processes; one dataset."""
    data = TensorDataset(T.arange(40.0), T.arange(40))

    def work(number: int) -> None:
        loader = DataLoader(data, batch_size=8, num_workers=2 * (number % 8 == 0), shuffle=number % 2 == 1)
        got = sorted(float(v) for x, _ in loader for v in x)
        assert got == [float(i) for i in range(40)], "lost: samples"

    together(work)
    assert not multiprocessing.active_children(), "left worker processes"


def generators(rng: random.Random, calls: int) -> None:
    """A generator of a thread's own repeats; from one that is shared, no two threads get the same numbers."""
    shared = T.Generator().manual_seed(1)
    expected = T.rand(calls, generator=T.Generator().manual_seed(3))
    drawn: list[Any] = [None] * THREADS

    def work(number: int) -> None:
        own = T.Generator().manual_seed(3)
        mine = [T.rand(1, generator=own) for _ in range(calls)]
        same(T.cat(mine), expected, "a thread's own generator")
        drawn[number] = [T.rand(2, generator=shared, dtype=T.float64).tolist() for _ in range(calls)]
        T.randn(2)

    together(work)
    values = [v for mine in drawn for pair in mine for v in pair]
    assert len(set(values)) == len(values), "lost: the shared generator gave a number twice"


def optimizers(rng: random.Random, calls: int) -> None:
    """A training per thread gives what it gives alone."""
    kinds = [T.optim.SGD, T.optim.AdamW, T.optim.Adagrad, T.optim.RMSprop]

    def train(number: int) -> Any:
        w = T.full((6,), 1.0 + number, dtype=T.float64, requires_grad=True)
        optimizer = kinds[number % 4]([w], lr=0.01)
        schedule = T.optim.lr_scheduler.StepLR(optimizer, 5)
        for _ in range(calls):
            optimizer.zero_grad()
            (w**2).sum().backward()
            nn.utils.clip_grad_norm_([w], 1.0)
            optimizer.step()
            schedule.step()
        return w.detach()

    expected = [train(i) for i in range(THREADS)]
    together(lambda number: same(train(number), expected[number], "training"))


def hooks(rng: random.Random, calls: int) -> None:
    """Hooks come and go while other threads run backward; a multi-grad hook is called once a pass."""
    x = T.ones(2, requires_grad=True)
    passes = [0] * THREADS
    added = threading.Lock()

    def work(number: int) -> None:
        for _ in range(calls):
            a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
            mine: list[int] = []
            handle = T.autograd.graph.register_multi_grad_hook((a, b), lambda grads, mine=mine: mine.append(len(grads)))
            other = x.register_hook(lambda g: None)
            y = x * 1
            y.register_hook(lambda g: g * 2)
            ((a * b).sum() + y.sum()).backward()
            handle.remove()
            other.remove()
            assert mine == [2], f"lost: multi-grad hook {mine}"
            with added:
                passes[number] += 1

    together(work)
    same(x.grad, np.full(2, 2.0 * sum(passes)), "lost: x.grad")
    assert not x._backward_hooks, "left hooks"


def endings(rng: random.Random, calls: int) -> None:
    """Threads that end in the middle of a pass, by an exception, disturb nobody and leave nothing."""
    x = T.ones(2, requires_grad=True)
    done = [0] * THREADS

    def work(number: int) -> None:
        def stop(g: Any) -> None:
            raise SystemExit

        for i in range(calls):
            y = x * 1
            if number % 2 and i == calls // 2:
                y.register_hook(stop)
                with contextlib.suppress(SystemExit), T.no_grad(), T.enable_grad():
                    (y * 2).sum().backward()
                return
            y.sum().backward()
            done[number] += 1

    together(work)
    same(x.grad, np.full(2, float(sum(done))), "lost: x.grad")


def futures(rng: random.Random, calls: int) -> None:
    """A future's result arrives everywhere, and each callback is called once."""
    for _ in range(max(calls // 10, 2)):
        future: Any = T.futures.Future()
        seen: list[int] = []

        def work(number: int, future: Any = future, seen: list[int] = seen) -> None:
            if number == 7:
                future.set_result(5)
            later = future.then(lambda f: seen.append(f.value()) or f.value() + 1)
            assert later.wait() == 6 and future.wait() == 5

        together(work)
        assert seen == [5] * THREADS, f"lost: callbacks {len(seen)}"


# --- Processes -------------------------------------------------------------------------------------------


def child_works(depth: int = 1) -> None:
    """Do in a child what its parent did, and fork once more."""
    x = T.ones(300, 300, requires_grad=True)
    (x * x).sum().backward()
    same(x.grad, np.full((300, 300), 2.0), "backward in a child")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = T.compile(lambda x: x.sin() * 2)
        for _ in range(3):
            np.testing.assert_allclose(np.asarray(f(T.ones(5))), np.sin(np.ones(5, "f4")) * 2, rtol=1e-6)
    with tempfile.TemporaryDirectory() as folder:
        T.save(x, os.path.join(folder, "x"))
        T.load(os.path.join(folder, "x"))
    together(lambda _: (T.ones(40_000, requires_grad=True) * 2).sum().backward(), 3)
    if depth:
        wait_for(fork(functools.partial(child_works, depth - 1)))


def fork(work: Callable[[], None]) -> int:
    """Fork a child that does some work and exits; return its number."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        # Not by `dump_traceback_later`, whose thread is not there in a child.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(int(LIMIT / 2))
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait_for(pid: int) -> None:
    """Wait for a child; raise unless it ended well."""
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"hung or failed: a forked child ended with status {status}"


def _import_something() -> None:
    importlib.reload(importlib.import_module("adjoint.quasirandom"))


def _save_something() -> None:
    with tempfile.TemporaryDirectory() as folder:
        T.save(T.ones(5000), os.path.join(folder, "x"))


def forks(rng: random.Random, calls: int) -> None:
    """Fork while threads run backward, compiled functions, kernels' compilers, save or import."""
    x = T.ones(3, requires_grad=True)
    f = T.compile(lambda x: x.tanh() + 1)
    kinds: list[Callable[[], Any]] = [
        lambda: (T.ones(200, 200, requires_grad=True).tanh() * 2).sum().backward(),
        lambda: (x * 2).sum().backward(),
        lambda: f(T.ones(50_000)),
        lambda: T.compile(lambda x: x.exp() * 2 + 1)(T.ones(5)),
        _save_something,
        _import_something,
        lambda: T.rand(70_000).softmax(0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in rng.sample(kinds, 3):
            with busy(kind):
                for _ in range(2):
                    wait_for(fork(child_works))


def _answer(asked: Any, answers: Any) -> None:
    while (x := asked.get()) is not None:
        y = x.detach().clone().requires_grad_()
        (y * y).sum().backward()
        answers.put(y.grad)


def _squares(x: Any) -> Any:
    return x * x


def started(rng: random.Random, calls: int) -> None:
    """Processes started by fork, spawn and forkserver answer through queues, and a pool maps tensors."""
    method = rng.choice(["fork", "spawn", "forkserver"])
    context = T.multiprocessing.get_context(method)
    with busy(lambda: (T.ones(9, requires_grad=True) * 2).sum().backward(), 2):
        asked, answers = context.Queue(), context.Queue()
        process = context.Process(target=_answer, args=(asked, answers), daemon=True)
        process.start()
        for i in range(5):
            asked.put(T.full((30,), float(i)))
            same(answers.get(timeout=LIMIT), np.full(30, 2.0 * i), f"a queue, {method}")
        asked.put(None)
        process.join(LIMIT)
        assert process.exitcode == 0, f"hung: a process started by {method}"
        with context.Pool(2) as pool:
            for i, y in enumerate(pool.map(_squares, [T.full((3,), float(i)) for i in range(6)])):
                same(y, np.full(3, float(i * i)), f"a pool, {method}")


def subprocesses(rng: random.Random, calls: int) -> None:
    """Another interpreter, started while threads run."""
    text = (
        "import adjoint as T; x = T.ones(3, requires_grad=True); (x * x).sum().backward(); print(x.grad.sum().item())"
    )
    with busy(lambda: T.ones(50_000).softmax(0)):
        ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=LIMIT, cwd=ROOT)
    assert ended.stdout.strip() == "6.0", ended.stderr


# --- Signals ---------------------------------------------------------------------------------------------


def _plain() -> None:
    sum(range(1000))


def _training() -> Callable[[], Any]:
    model = nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 5))
    optimizer = T.optim.AdamW(model.parameters())
    data = T.randn(30, 20)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().sum().backward()
        optimizer.step()

    return step


def reactions(work: Callable[[], Any], number: int, count: int, act: Callable[[], Any]) -> list[float]:
    """Return how long after each signal its handler ran, while the main thread works."""
    sent, found = [0.0], []
    begun, arrived, stop = threading.Event(), threading.Event(), threading.Event()

    def handler(*_: Any) -> None:
        found.append(time.perf_counter() - sent[0])
        arrived.set()
        act()

    def send() -> None:
        pauses = random.Random(count)
        begun.wait()
        for _ in range(count):
            time.sleep(pauses.random() * 0.01)
            arrived.clear()
            sent[0] = time.perf_counter()
            os.kill(os.getpid(), number)
            arrived.wait(LIMIT)
        stop.set()

    before = signal.signal(number, handler)
    sender = threading.Thread(target=send, daemon=True)
    try:
        sender.start()
        while not stop.is_set():
            with contextlib.suppress(KeyboardInterrupt):
                begun.set()
                work()
        sender.join()
    finally:
        signal.signal(number, before)
    assert len(found) == count, f"lost: {count - len(found)} signals"
    return found


def _interrupt() -> None:
    raise KeyboardInterrupt


def signals(rng: random.Random, calls: int) -> None:
    """Handlers run in time, may run autograd themselves or raise, and the work goes on."""
    x = T.ones(3, requires_grad=True)
    runs: list[int] = []

    def differentiate() -> None:
        with T.enable_grad():
            (x * 2).sum().backward()
        runs.append(1)

    number, act = rng.choice([
        (signal.SIGALRM, differentiate), (signal.SIGINT, _interrupt), (signal.SIGTERM, _interrupt),
        (signal.SIGCHLD, lambda: None), (signal.SIGUSR1, differentiate),
    ])  # fmt: skip
    for _ in range(3):  # machines are noisy: what seems late is measured again before it counts
        usual = max(reactions(_plain, number, 20, lambda: None))
        slowest = max(reactions(_training(), number, 40, act))
        if slowest < REACTION + usual:
            break
    same(x.grad if runs else 0.0, np.full(3, 2.0 * len(runs)) if runs else 0.0, "lost: passes in a handler")
    assert T.is_grad_enabled(), "grad mode was left off"
    y = T.ones(2, requires_grad=True)
    (y * y).sum().backward()
    same(y.grad, np.full(2, 2.0), "backward afterwards")
    assert slowest < REACTION + usual, f"late: {slowest:.3f} s, a plain loop {usual:.3f} s"


CASES: list[Case] = [
    shared_leaves, shared_graph, one_module, modes, compiled, first_calls, saved_files, loaders, generators, optimizers,
    hooks, endings, futures, forks, started, subprocesses, signals,
]  # fmt: skip


# --- Running ---------------------------------------------------------------------------------------------


def rounds(case: Case, seed: int, seconds: float, calls: int) -> int:
    """Repeat a case until time is over; print what failed; return how many rounds there were."""
    sys.unraisablehook = lambda _: None  # an interrupt may come to a generator that is being dropped
    end, number = time.monotonic() + seconds, 0
    while not number or time.monotonic() < end:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            case(random.Random(seed + number), calls)
        except BaseException as error:
            kind = next((w for w in ("lost", "late", "hung") if str(error).startswith(w)), "wrong")
            print(f"failure {kind} seed {seed + number}: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc()
        number += 1
        gc.collect()
    faulthandler.cancel_dump_traceback_later()
    return number


def watched(case: Case, seed: int, seconds: float, calls: int) -> Counter[str]:
    """Run a case in a process of its own; return what it counted."""
    command = [sys.executable, "-m", "gates.threads", "--case", case.__name__, "--seed", str(seed)]
    command += ["--minutes", str(seconds / 60), "--calls", str(calls)]
    table: Counter[str] = Counter()
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, cwd=ROOT, stdout=told, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code: int | None = process.wait(seconds + 2 * LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        told.seek(0)
        text = told.read()
    for kind in re.findall(r"^failure (\w+)", text, re.M):
        table[kind] += 1
    if code is None or "Timeout (" in text:
        table["hung"] += 1
    elif code:
        table["crashed"] += 1
    found = re.search(r"^rounds (\d+)", text, re.M)
    table["cases"] += int(found[1]) if found else 1
    if table.total() > table["cases"]:
        print(f"--- {case.__name__}, repeat with: python -m gates.threads --case {case.__name__} --seed {seed}\n{text}")
    return table


def main(argv: list[str] | None = None) -> int:
    """Run every kind of case for a share of the time; print the table; return whether something was not right."""
    parser = argparse.ArgumentParser(prog="gates.threads", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=100, help="of each thread in one round")
    parser.add_argument("--only", default="", help="kinds whose name has this in it")
    parser.add_argument("--case", help="run this one here")
    given = parser.parse_args(argv)
    if given.case:
        case = next(case for case in CASES if case.__name__ == given.case)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as it is in a terminal, whatever started this
        print("rounds", rounds(case, given.seed, 60 * given.minutes, given.calls), flush=True)
        return 0
    chosen = [case for case in CASES if given.only in case.__name__]
    end, total, turn = time.monotonic() + 60 * given.minutes, Counter[str](), 0
    print(f"{'case':14} {'rounds':>7} {'wrong':>6} {'lost':>5} {'late':>5} {'hung':>5} {'crashed':>8}")
    random.Random(given.seed).shuffle(chosen)  # a short run has time for some of them
    while not turn or time.monotonic() < end:
        case = chosen[turn % len(chosen)]
        share = min(max((end - time.monotonic()) / max(len(chosen) - turn, 1), 0), 30.0)
        table = watched(case, given.seed + 1000 * turn, share, given.calls)
        total += table
        row = [table[name] for name in ("cases", "wrong", "lost", "late", "hung", "crashed")]
        print("{:14} {:7} {:6} {:5} {:5} {:5} {:8}".format(case.__name__, *row), flush=True)
        turn += 1
    wrong = total["wrong"] + total["late"]
    print(summary("threads", total["cases"], wrong, total["lost"], total["hung"], total["crashed"]))
    return 1 if total.total() > total["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
