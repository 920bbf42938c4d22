"""Threads that share leaves, graphs, modules, modes, programs, files, generators and hooks."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as T
from adjoint import nn
from adjoint.utils.data import DataLoader, TensorDataset

from .helpers import THREADS, same, together


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
        for out, grad in found[1:]:  # another path may round otherwise: of sums that cancel, relative to the others
            for mine, first, word in ((out, found[0][0], "value"), (grad, found[0][1], "gradient")):
                scale = max(1.0, float(np.abs(first).max(initial=0)))
                np.testing.assert_allclose(mine, first, 1e-5, 1e-6 * scale, err_msg=f"{word} of {name}")


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
    """Threads that end in the middle of a pass, by an exception, do not affect other threads and leave no state."""
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
