"""The engine under stress: leaks, depth, width, threads, interrupts, exceptions."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.autograd import Function


def leaf(*values: float) -> Any:
    return adjoint.tensor(list(values) or [1.0, 2.0, 3.0], requires_grad=True)


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 * x


class KeepsItsOutput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        ctx.y = y
        ctx.x = x
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        assert (ctx.y.detach().numpy() == y.detach().numpy()).all()
        return g * y


# --- Leaks ------------------------------------------------------------------------------------------------


def graph_dropped(x: Any) -> Any:
    return ((x * x).tanh() + x).exp().sum()


def graph_run(x: Any) -> Any:
    y = graph_dropped(x)
    y.backward()
    return y


def graph_retained(x: Any) -> Any:
    y = graph_dropped(x)
    y.backward(retain_graph=True)
    return y


def graph_recorded(x: Any) -> Any:
    y = graph_dropped(x)
    (g,) = adjoint.autograd.grad(y, x, create_graph=True)
    return (g * y).sum()


def custom_function(x: Any) -> Any:
    return Square.apply(x * 1).sum()


def custom_function_keeps_output(x: Any) -> Any:
    y = KeepsItsOutput.apply(x * 1).sum()
    y.backward(retain_graph=True)
    return y


def retained_gradient(x: Any) -> Any:
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    return y


def hook_on_tensor(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    return y


def written_view(x: Any) -> Any:
    y = x * 1
    y[0].mul_(2)
    y[1:] = x[1:] * 3
    return y.sum()


def several_outputs(x: Any) -> Any:
    a, b, c = (x * 1).unbind()
    return a * b + c


def failing_backward(x: Any) -> Any:
    y = x * 2
    y.register_hook(_raise)
    try:
        y.sum().backward()
    except ZeroDivisionError:
        pass
    return y


def _raise(g: Any) -> None:
    raise ZeroDivisionError


def packed(x: Any) -> Any:
    with adjoint.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return (x * x).exp().sum()


PATTERNS = [
    graph_dropped, graph_run, graph_retained, graph_recorded, custom_function, custom_function_keeps_output,
    retained_gradient, hook_on_tensor, written_view, several_outputs, failing_backward, packed,
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda f: f.__name__)
def test_dropped_graph_is_freed_at_once(pattern: Callable[[Any], Any]) -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf()
        y = pattern(x)
        node = y.node
        watched = [weakref.ref(y), weakref.ref(x)] + ([weakref.ref(node)] if node is not None else [])
        del x, y, node
        assert [r() for r in watched] == [None] * len(watched)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [o for o in gc.garbage if isinstance(o, adjoint.Tensor | adjoint.autograd.graph.Node)]
        assert left == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_leaf_outlives_the_program_s_name_for_it() -> None:
    x = leaf()
    y = (x * x).sum()
    seen: list[Any] = []
    x.register_hook(seen.append)
    del x
    node = y.grad_fn.next_functions[0][0].next_functions[0][0]
    assert node.name() == "torch::autograd::AccumulateGrad"
    variable = node.variable
    assert variable.requires_grad and variable.tolist() == [1.0, 2.0, 3.0]
    y.backward()
    assert seen[0].tolist() == [2.0, 4.0, 6.0]
    assert variable.grad.tolist() == [2.0, 4.0, 6.0]


def test_gradients_never_share_memory() -> None:
    x, y = leaf(), leaf()
    (x + y).sum().backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0, 1.0]
    g = adjoint.ones(3)
    z = leaf()
    (z + 0).backward(g)
    z.grad.zero_()
    assert g.tolist() == [1.0, 1.0, 1.0]


# --- Deep and wide ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_chain_of_a_million_nodes() -> None:
    assert sys.getrecursionlimit() <= 1000
    x, w = adjoint.tensor(1.0, requires_grad=True), adjoint.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(500_000):
        y = y * w
        y = y + 1e-9
    assert y.grad_fn.topological_nr() == 1_000_000
    y.backward()
    assert x.grad.item() == 1.0
    assert w.grad.item() == pytest.approx(500_000, rel=1e-2)
    del y


@pytest.mark.parametrize("count", [20_000])
def test_deep_views_functions_and_writes(count: int) -> None:
    x = leaf()
    y = x * 1
    for i in range(count):
        y = Square.apply(y) if i % 1000 == 0 and i < 3000 else y.reshape(3)
    out = adjoint.zeros(3)
    for i in range(count):
        out[i % 3] = y[i % 3] * 1
    out.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_wide_graph_is_linear_and_exact() -> None:
    def lines(uses: int) -> int:
        """Return how many lines of Python run: on a busy machine time says nothing."""
        x = adjoint.tensor(1.0, dtype=adjoint.float64, requires_grad=True)
        total, count = x * 0, 0

        def step(frame: Any, event: str, arg: Any) -> Any:
            nonlocal count
            count += event == "line"
            return step

        before = sys.gettrace()
        sys.settrace(step)
        try:
            for _ in range(uses):
                total = total + x
            total.backward()
        finally:
            sys.settrace(before)
        assert x.grad.item() == uses
        return count

    lines(10)  # what happens only once
    small, large = lines(1_000), lines(8_000)
    assert large <= 8 * small
    x = adjoint.tensor(1.0, dtype=adjoint.float64, requires_grad=True)
    total = x * 0
    for _ in range(50_000):
        total = total + x
    total.backward()
    assert x.grad.item() == 50_000


def test_deep_gradient_of_gradient() -> None:
    x = adjoint.tensor(1.0, dtype=adjoint.float64, requires_grad=True)
    y = x
    for _ in range(5_000):
        y = y * x
    (g,) = adjoint.autograd.grad(y, x, create_graph=True)
    (gg,) = adjoint.autograd.grad(g, x)
    assert (g.item(), gg.item()) == (5001.0, 5001.0 * 5000.0)


def test_nested_backward_two_hundred_deep() -> None:
    depth = 0

    class Nested(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            nonlocal depth
            depth += 1
            if depth < 200:
                with adjoint.enable_grad():
                    Nested.apply(leaf()).sum().backward()
            return g * 2

    x = leaf()
    Nested.apply(x).sum().backward()
    assert depth == 200
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


# --- Threads ------------------------------------------------------------------------------------------------


def in_threads(count: int, work: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_threads_lose_no_gradient_on_a_shared_leaf() -> None:
    x = adjoint.tensor([1.0, 2.0], dtype=adjoint.float64, requires_grad=True)

    def work() -> None:
        for _ in range(300):
            (x * 3).sum().backward()

    in_threads(8, work)
    assert x.grad.tolist() == [7200.0, 7200.0]


def test_threads_share_a_retained_graph() -> None:
    x = adjoint.tensor([1.0, 2.0], dtype=adjoint.float64, requires_grad=True)
    y = (x * x).exp().sum()
    expected = adjoint.autograd.grad(y, x, retain_graph=True)[0].tolist()

    def work() -> None:
        for _ in range(100):
            assert adjoint.autograd.grad(y, x, retain_graph=True)[0].tolist() == expected

    in_threads(6, work)


def test_grad_mode_belongs_to_a_thread() -> None:
    seen = []
    with adjoint.no_grad():
        thread = threading.Thread(target=lambda: seen.append(adjoint.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_grad_mode_in_async_tasks() -> None:
    import asyncio

    @adjoint.no_grad()
    async def without() -> list[bool]:
        seen = []
        for _ in range(50):
            seen.append(adjoint.is_grad_enabled())
            await asyncio.sleep(0)
        return seen

    async def usual() -> list[bool]:
        seen = []
        for _ in range(50):
            seen.append(adjoint.is_grad_enabled())
            await asyncio.sleep(0)
        return seen

    async def main() -> Any:
        return await asyncio.gather(without(), usual(), without())

    a, b, c = asyncio.run(main())
    assert not any(a) and all(b) and not any(c)
    assert adjoint.is_grad_enabled()


def test_fork_after_backward() -> None:
    x = leaf()
    (x * x).sum().backward()
    pid = os.fork()
    if pid == 0:
        y = leaf()
        (y * y).sum().backward()
        os._exit(0 if y.grad.tolist() == [2.0, 4.0, 6.0] else 1)
    _, status = os.waitpid(pid, 0)
    assert status == 0


# --- Interrupts and exceptions --------------------------------------------------------------------------------


def test_interrupt_at_every_node_leaves_gradients_whole() -> None:
    steps = 12
    for at in range(steps + 1):
        x, w = leaf(), leaf()
        x.grad = adjoint.full((3,), 100.0)
        y, count = x * w, 0

        def interrupt(gi: Any, go: Any, at: int = at) -> None:
            nonlocal count
            count += 1
            if count == at + 1:
                raise KeyboardInterrupt

        y.grad_fn.register_hook(interrupt)
        for _ in range(steps):
            y = y * w
            y.grad_fn.register_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            y.sum().backward()
        assert x.grad.tolist() == [100.0, 100.0, 100.0]
        assert w.grad is None
        assert adjoint.is_grad_enabled()
        z = leaf()
        (z * z).sum().backward()
        assert z.grad.tolist() == [2.0, 4.0, 6.0]


INTERRUPTED = """
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may have it ignored
import adjoint
x = adjoint.ones(200, 200, requires_grad=True)
y, begun, seen = x, threading.Event(), []
for at in range(20000):
    y = y * 1.0001
    if at % 1000 == 0:
        y.register_hook(lambda g: seen.append(1) or begun.set())
def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    y.sum().backward()
except KeyboardInterrupt:
    print("grad", x.grad is None, "before the end", len(seen) < 20)
"""


def test_a_real_interrupt_is_delivered_between_nodes() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=600)
    assert done.stdout == "grad True before the end True\n", done.stderr


def test_exception_in_a_rule_keeps_its_type_and_names_the_line() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise KeyError("mine")

    x = leaf()
    y = Fails.apply(x)
    with pytest.raises(KeyError, match="mine") as caught:
        y.sum().backward()
    assert any("FailsBackward" in note and "test_engine.py" in note for note in caught.value.__notes__)


def line_here() -> int:
    return sys._getframe(1).f_lineno


def test_overwritten_value_names_both_lines() -> None:
    x, w = leaf(), leaf()
    y = x * 1
    z = y * w; saved_at = line_here()  # fmt: skip # noqa: E702
    y.add_(1); wrote_at = line_here()  # fmt: skip # noqa: E702
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        z.sum().backward()
    message = str(caught.value)
    assert f"test_engine.py:{saved_at}" in message
    assert f"test_engine.py:{wrote_at}" in message
    assert "MulBackward0" in message and "add_" in message


def test_second_backward_names_the_first() -> None:
    x = leaf()
    y = (x * x).sum()
    y.backward(); first = line_here()  # fmt: skip # noqa: E702
    with pytest.raises(RuntimeError, match="backward through the graph a second time") as caught:
        y.backward()
    assert f"test_engine.py:{first}" in str(caught.value)


def test_vector_root_says_how_to_fix_it() -> None:
    x = leaf()
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs") as caught:
        (x * 2).backward()
    assert ".sum()" in str(caught.value) and "ones_like" in str(caught.value)


def test_anomaly_finds_a_forward_nan_where_it_is_made() -> None:
    x = leaf(1.0, -1.0)
    with (
        adjoint.autograd.set_detect_anomaly(True, forward=True),
        pytest.raises(RuntimeError, match="returned nan") as caught,
    ):
        x.log(); at = line_here()  # fmt: skip # noqa: E702
        del at
    assert "test_engine.py" in str(caught.value) and "log" in str(caught.value)


def test_anomaly_names_the_forward_line() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * float("nan")

    x = leaf()
    with adjoint.autograd.set_detect_anomaly(True):
        y = Bad.apply(x)
        with (
            pytest.warns(UserWarning, match="Traceback of forward call"),
            pytest.raises(RuntimeError, match="Function 'BadBackward' returned nan values in its 0th output"),
        ):
            y.sum().backward()


@pytest.mark.parametrize("handler", ["SIG_IGN", "SIG_DFL", "default_int_handler"])
def test_signal_handlers_are_untouched(handler: str) -> None:
    program = (
        f"import signal; signal.signal(signal.SIGINT, signal.{handler}); before = signal.getsignal(signal.SIGINT)\n"
        "import adjoint; adjoint.ones(2, requires_grad=True).sum().backward()\n"
        "assert signal.getsignal(signal.SIGINT) is before"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600)
