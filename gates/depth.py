"""Deep and wide graphs: no crash, no RecursionError, right gradients, and time that grows as the graph does.

Every kind of graph is built with up to 1e6 nodes or references, in a child process, since what is too deep for C ends
the process. Two judges say whether it is linear: the number of calls, which is exact, for a small graph and one four
times as large; and the time, the best of some runs, for the graph and one a quarter as large. As machines are noisy,
a time that seems too long is measured again before it counts.

    python -m gates.depth --minutes 1 --seed 0            # 1e6 nodes from 20 minutes on, fewer in less
    python -m gates.depth --nodes 1000000 chain ladder    # some kinds, of that size
    python -m gates.depth --nodes 1000000 --minutes 9     # as many kinds as fit, in an order of the seed's
"""

from __future__ import annotations

import argparse
import copy
import gc
import io
import multiprocessing
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint

from .summary import summary

FULL = 20.0  # minutes from which on graphs have a million nodes
LIMIT = 6.0  # how many times as long a graph four times as large may take
CALLS = 4.6  # and how many times as many calls
SLOWEST = 300.0  # seconds after which a graph counts as hung
GRAPHS: dict[str, tuple[Callable[[int], None], float]] = {}


def graph(part: float = 1.0) -> Callable[[Any], Any]:
    """Register a kind of graph; it has the fraction `part` of the requested nodes, if each costs more than an op."""

    def register(build: Callable[[int], None]) -> Callable[[int], None]:
        GRAPHS[build.__name__] = build, part
        return build

    return register


def leaf(*shape: int) -> Any:
    """Return a tensor of ones that requires a gradient."""
    return adjoint.ones(*(shape or (2,)), requires_grad=True)


def check(gradient: Any, expected: Any) -> None:
    """Raise if a gradient differs from the expected one."""
    if gradient is None or not np.allclose(gradient.detach().numpy(), expected, rtol=1e-3):
        raise AssertionError(f"the gradient is {gradient}, and should be {expected}")


# --- Deep ----------------------------------------------------------------------------------------------------


@graph()
def chain(n: int) -> None:
    """One op after the other."""
    x = y = leaf()
    for _ in range(n):
        y = y * 1.0
    y.sum().backward()
    check(x.grad, 1)


@graph()
def dropped(n: int) -> None:
    """A chain that no pass frees."""
    y = leaf()
    for _ in range(n):
        y = y * 1.0
    del y


@graph()
def ladder(n: int) -> None:
    """Every node is used twice, so that there are 2 ** n paths."""
    x = y = leaf()
    for _ in range(n // 2):
        y = (y + y) * 0.5
    y.sum().backward()
    check(x.grad, 1)


@graph()
def views(n: int) -> None:
    """Views of views, the last of which is written."""
    x = leaf(2, 3)
    base = y = x * 1
    for _ in range(n // 2 * 2):
        y = y.t()
    y.mul_(3.0)
    (base.sum() + y.sum()).backward()
    check(x.grad, 6)


@graph(0.02)
def strided_views(n: int) -> None:
    """Views of views whose strides are given."""
    x = leaf(4)
    y = x * 1
    for _ in range(n):
        y = y.as_strided((4,), (1,))
    y.sum().backward()
    check(x.grad, 1)


@graph(0.2)
def written_views(n: int) -> None:
    """Views of views, every one of which is written."""
    x = leaf(2, 3)
    base = y = x * 1
    for _ in range(n):
        y = y.t()
        y.mul_(1.0)
    base.sum().backward()
    check(x.grad, 1)


@graph()
def writes(n: int) -> None:
    """One tensor, written again and again."""
    x = leaf()
    y = x * 1
    for _ in range(n):
        y.mul_(1.0)
    y.sum().backward()
    check(x.grad, 1)


@graph(0.2)
def slices(n: int) -> None:
    """One tensor whose elements are written again and again."""
    x, y = leaf(), adjoint.zeros(64)
    for i in range(n):
        y[i % 64] = x[0]
    y.sum().backward()
    check(x.grad, [min(n, 64), 0])


class Twice(adjoint.autograd.Function):
    """A custom function of any number of tensors."""

    @staticmethod
    def forward(ctx: Any, *xs: Any) -> Any:
        """Return twice the inputs."""
        ctx.save_for_backward(*xs)
        return xs[0] * 2 if len(xs) == 1 else tuple([x * 2 for x in xs])

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Return the gradients."""
        assert len(ctx.saved_tensors) == len(gs)
        return tuple([g * 2 for g in gs])


@graph(0.5)
def functions(n: int) -> None:
    """Custom functions, one after the other."""
    x = y = leaf()
    for _ in range(n // 2):
        y = Twice.apply(y) * 0.5
    y.sum().backward()
    check(x.grad, 1)


@graph()
def hooks(n: int) -> None:
    """A hook on every node."""
    x = y = leaf()
    called = []
    for _ in range(n):
        y = y * 1.0
        y.register_hook(lambda g: called.append(1))
    y.sum().backward()
    check(x.grad, 1)
    assert len(called) == n


@graph()
def retained(n: int) -> None:
    """A chain that every gradient is wanted of."""
    x = y = leaf()
    ys = []
    for _ in range(n):
        y = y * 1.0
        y.retain_grad()
        ys.append(y)
    y.sum().backward()
    check(x.grad, 1)
    check(ys[0].grad, 1)


@graph(0.1)
def checkpoints(n: int) -> None:
    """Blocks that the pass computes again."""
    x = y = leaf()
    for _ in range(n):
        y = adjoint.utils.checkpoint.checkpoint(lambda y: y * 1.0, y, use_reentrant=False)
    y.sum().backward()
    check(x.grad, 1)


@graph(0.5)
def double_backward(n: int) -> None:
    """A chain, differentiated twice."""
    x, k = leaf(), adjoint.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(n // 2):
        y = y * k
    (g,) = adjoint.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    check(k.grad, 2 * (n // 2))


@graph(0.1)
def transformed(n: int) -> None:
    """A chain inside function transforms."""

    def f(x: Any) -> Any:
        y = x
        for _ in range(n):
            y = y * 1.0
        return y.sum()

    check(adjoint.func.grad(f)(adjoint.ones(2)), 1)
    check(adjoint.func.jvp(f, (adjoint.ones(2),), (adjoint.ones(2),))[1], 2)
    check(adjoint.func.vmap(f)(adjoint.ones(2, 2)), 2)


@graph(0.0005)
def compiled(n: int) -> None:
    """A long program."""

    def f(x: Any) -> Any:
        for i in range(n):
            x = x * 1.0 if i % 2 else x + 1.0
        return x

    check(adjoint.compile(f)(adjoint.ones(2)), 1 + (n + 1) // 2)


# --- Wide ----------------------------------------------------------------------------------------------------


@graph()
def fan_out(n: int) -> None:
    """One tensor in n ops."""
    x = leaf()
    adjoint.stack([x * 1.0 for _ in range(n)]).sum().backward()
    check(x.grad, n)


@graph()
def fan_in(n: int) -> None:
    """One sum of n uses."""
    x = leaf()
    total: Any = 0.0
    for _ in range(n):
        total = total + x
    total.sum().backward()
    check(x.grad, n)


@graph()
def references(n: int) -> None:
    """One tensor n times among the inputs of an op."""
    x = leaf()
    (adjoint.cat([x] * n).sum() + adjoint.stack([x] * n).sum()).backward()
    check(x.grad, 2 * n)


@graph(0.5)
def leaves(n: int) -> None:
    """The gradients of n leaves."""
    xs = [leaf() for _ in range(n)]
    gradients = adjoint.autograd.grad(adjoint.cat(xs).sum(), xs)
    assert len(gradients) == n
    check(gradients[-1], 1)


@graph()
def outputs(n: int) -> None:
    """Ops with n outputs."""
    x = leaf(n)
    adjoint.stack((x * 1).unbind()).sum().backward()
    adjoint.cat((x * 1).split(1)).sum().backward()
    check(x.grad, 2)


@graph()
def collated(n: int) -> None:
    """A batch of n samples, stacked of views."""
    samples = adjoint.arange(n)
    check(adjoint.stack([samples[i] for i in range(n)])[-1], n - 1)


@graph(0.2)
def wide_function(n: int) -> None:
    """A custom function of n tensors."""
    xs = [leaf() for _ in range(n)]
    adjoint.stack(Twice.apply(*xs, leaf())).sum().backward()
    check(xs[0].grad, 2)


@graph(0.5)
def views_of_one(n: int) -> None:
    """A write to a base with n views."""
    x = leaf(n)
    base = x * 1
    parts = [base[i] for i in range(n)]
    base.mul_(3.0)
    adjoint.stack(parts).sum().backward()
    check(x.grad, 3)


@graph(0.2)
def written_parts(n: int) -> None:
    """N views of one base are written, one after the other."""
    x = leaf(64)
    base = x * 1
    parts = [base[i % 64] for i in range(n)]
    for part in parts:
        part.mul_(1.0)
    base.sum().backward()
    check(x.grad, 1)


@graph()
def hooks_of_one(n: int) -> None:
    """N hooks on a tensor, its node, and a leaf."""
    x = leaf()
    y = x * 1
    handles = [y.register_hook(lambda g: None) for _ in range(n)]
    handles += [y.grad_fn.register_prehook(lambda g: None) for _ in range(n)]
    handles += [x.register_post_accumulate_grad_hook(lambda x: None) for _ in range(n)]
    y.sum().backward()
    for handle in handles:
        handle.remove()
    check(x.grad, 1)


@graph(0.2)
def hook_of_all(n: int) -> None:
    """One hook for the gradients of n tensors."""
    ys, found = [leaf() * 1 for _ in range(n)], []
    adjoint.autograd.graph.register_multi_grad_hook(ys, found.extend)
    adjoint.stack(ys).sum().backward()
    assert len(found) == n


@graph(0.1)
def parameters(n: int) -> None:
    """A training step of a model with n parameters in n modules; its copy, its state saved and loaded."""
    model: Any = adjoint.nn.ModuleList([adjoint.nn.PReLU() for _ in range(n)])
    optimizer = adjoint.optim.SGD(model.parameters(), lr=1.0)
    adjoint.cat([m.weight for m in model]).sum().backward()
    adjoint.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    optimizer.step()
    file = io.BytesIO()
    adjoint.save(copy.deepcopy(model).state_dict(), file)
    file.seek(0)
    model.load_state_dict(adjoint.load(file))
    check(model[0].weight, -0.75)


@graph(0.1)
def shared_parameters(n: int) -> None:
    """One parameter under n names."""
    model: Any = adjoint.nn.Module()
    shared = adjoint.nn.Parameter(adjoint.ones(1))
    for i in range(n):
        model.register_parameter(f"p{i}", shared)
    assert len(list(model.named_parameters())) == 1
    file = io.BytesIO()
    adjoint.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(adjoint.load(file))


# --- Judges --------------------------------------------------------------------------------------------------


def calls(build: Callable[[int], None], n: int) -> int:
    """Return how many functions are called, those of C included."""
    found = [0]

    def count(frame: Any, event: str, arg: Any) -> None:
        found[0] += 1

    sys.setprofile(count)
    try:
        build(n)
    finally:
        sys.setprofile(None)
    return found[0]


def seconds(build: Callable[[int], None], n: int, runs: int) -> float:
    """Return the time of the fastest of some runs, without that of the garbage collector."""
    best = float("inf")
    for _ in range(runs):
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        build(n)
        best = min(best, time.perf_counter() - start)
        gc.enable()
    return best


def judge(name: str, nodes: int) -> tuple[str, str]:
    """Return what is wrong with a kind of graph, if anything, and what was measured."""
    build, part = GRAPHS[name]
    n, small = max(int(nodes * part), 8), max(int(400 * min(1.0, part * 50)), 8)
    build(small)  # what is made once is made now
    few, many = calls(build, small), calls(build, 4 * small)
    if many > CALLS * few and part >= 0.1:  # not of a compiled program: the small one comes from a cache
        return "not linear", f"{few} calls for {small} nodes, {many} for {4 * small}"
    taken = seconds(build, n, 1)
    quarter = seconds(build, n // 4, 2)
    for _ in range(4):
        if taken < LIMIT * max(quarter, 5e-3):
            break
        taken, quarter = min(taken, seconds(build, n, 2)), max(quarter, seconds(build, n // 4, 1))
    said = f"{n} nodes in {taken:.2f} s, {n // 4} in {quarter:.2f} s; {many / few:.2f} times the calls"
    return "" if taken < LIMIT * max(quarter, 5e-3) else "not linear", said


def work(name: str, nodes: int, pipe: Any) -> None:
    """Judge a graph, in the child."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        pipe.send(judge(name, nodes))
    except BaseException:
        pipe.send(("wrong", traceback.format_exc(limit=-3)))


def judged(name: str, nodes: int) -> tuple[str, str]:
    """Judge a graph in a child."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(name, nodes, its))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, none of which runs
        child.start()
    its.close()
    try:
        if not mine.poll(SLOWEST):
            child.kill()
            return "hung", f"after {SLOWEST:.0f} s"
        return mine.recv()  # type: ignore[no-any-return]
    except EOFError:
        child.join()
        return "crashed", f"exit code {child.exitcode}"
    except Stopped:
        child.kill()
        raise
    finally:
        child.join()


class Stopped(BaseException):
    """Raised to end the run and report."""


def stop(*_: Any) -> None:
    """End the run, as a handler of a signal."""
    raise Stopped


def main(argv: list[str] | None = None) -> int:
    """Judge the kinds of graph, all of them where the time is long enough; return whether something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, help="1 unless said")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the kinds; 0: as they stand here")
    parser.add_argument("--nodes", type=int, help="in place of what the minutes allow")
    parser.add_argument("names", nargs="*", help="which kinds; all unless said")
    options = parser.parse_args(argv)
    nodes = options.nodes or int(min(1.0, max((options.minutes or 1.0) / FULL, 0.002)) * 1e6)
    end = time.monotonic() + 60 * options.minutes if options.nodes and options.minutes else float("inf")
    names = options.names or list(GRAPHS)
    if options.seed:
        random.Random(options.seed).shuffle(names)
    table = dict.fromkeys(("ok", "wrong", "not linear", "hung", "crashed"), 0)
    gc.collect()
    gc.freeze()  # the collections before each measurement need not look at what is there already
    before = signal.signal(signal.SIGTERM, stop)
    try:
        for name in names:
            if time.monotonic() > end:
                break
            verdict, said = judged(name, nodes)
            table[verdict or "ok"] += 1
            print(f"{name:18} {verdict or 'ok':10} {said}", flush=True)
            if verdict:
                print(f"  again: python -m gates.depth --nodes {nodes} {name}", flush=True)
    except Stopped:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
    done = sum(table.values())
    if done < len(names):
        print(f"{done} of {len(names)} kinds; not done: {' '.join(names[done:])}")
    wrong = table["wrong"] + table["not linear"]
    print(summary("depth", done, wrong=wrong, hung=table["hung"], crashed=table["crashed"]), flush=True)
    return 1 if done > table["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
