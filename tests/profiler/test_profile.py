"""Profiles: what is recorded and where it belongs, schedules, tables, traces; nothing while none is on."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

import adjoint
from adjoint import nn
from adjoint.core import modes
from adjoint.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule


def program() -> Any:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x = adjoint.randn(3, 4)
    return net, lambda: net(x).sum().backward()


def test_forward_backward_modules_shapes_memory_and_lines() -> None:
    net, run = program()
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_modules=True) as prof:
        run()
    events = prof.events()
    names = {e.name for e in events}
    assert "aten::sum" in names
    assert any(n.endswith("Backward0") for n in names) and "nn.Module: Linear" in names
    forward = [e for e in events if e.kind == "cpu_op" and e.module == "Sequential.0"]
    assert forward and any([3, 4] in e.input_shapes for e in forward)
    assert any(e.self_cpu_memory_usage == 3 * 8 * 4 for e in forward)
    back = [e for e in events if e.kind == "backward" and e.module == "Sequential.2"]
    assert back and back[0].cpu_parent is not None and back[0].cpu_parent.name == "backward"
    assert all("test_profile.py" in e.place for e in forward)
    for e in events:
        assert 0 <= e.self_cpu_time_total <= e.cpu_time_total + 1e-6
    assert prof.self_cpu_time_total == pytest.approx(
        sum(e.cpu_time_total for e in events if e.cpu_parent is None), rel=1e-6
    )


def test_table() -> None:
    _, run = program()
    with profile(record_shapes=True, profile_memory=True) as prof:
        run()
        run()
    averages = prof.key_averages()
    text = averages.table(sort_by="self_cpu_time_total", row_limit=5)
    lines = text.splitlines()
    for title in ("Name", "Self CPU %", "CPU total", "CPU time avg", "# of Calls", "CPU Mem"):
        assert title in lines[1]
    assert len(lines) == 3 + 5 + 2 and lines[-1].startswith("Self CPU time total: ")
    relu = next(a for a in averages if a.key == "aten::relu")
    assert relu.count == 2 and relu.cpu_time == pytest.approx(relu.cpu_time_total / 2)
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert len(by_shape) >= len(averages) and "[[3, 8]" in by_shape.table()
    assert prof.total_average().count == len(prof.events())


def test_named_ranges() -> None:
    @record_function("helper")
    def helper() -> Any:
        return adjoint.ones(2) * 2

    with profile() as prof:
        with record_function("outer"):
            helper()
    outer, inner = (next(e for e in prof.events() if e.name == n) for n in ("outer", "helper"))
    assert inner.cpu_parent is outer and outer.is_user_annotation
    assert [c.name for c in inner.cpu_children] == ["aten::mul"]
    helper()  # and without a profile


def test_schedule_and_handlers(tmp_path: Path) -> None:
    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=1)
    kinds = [ProfilerAction.NONE] * 2 + [ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE]
    assert [plan(i) for i in range(7)] == [*kinds, ProfilerAction.NONE, ProfilerAction.NONE]
    ready: list[int] = []
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append(len(p.events()))) as prof:
        for _ in range(7):
            adjoint.ones(2) + 1
            prof.step()
    assert ready == [2]
    handler = adjoint.profiler.tensorboard_trace_handler(str(tmp_path), "me", use_gzip=True)
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=handler):
        adjoint.ones(2) + 1
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("me.") and file.name.endswith(".pt.trace.json.gz")
    with gzip.open(file, "rt") as text:
        assert any(e["name"] == "aten::add" for e in json.load(text)["traceEvents"])


def test_chrome_trace(tmp_path: Path) -> None:
    _, run = program()
    with profile(record_shapes=True) as prof:
        run()
    prof.add_metadata("who", "me")
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert trace["who"] == "me" and len(spans) == len(prof.events())
    assert {"name", "cat", "ts", "dur", "pid", "tid", "args"} <= set(spans[0])
    assert {"cpu_op", "backward"} <= {e["cat"] for e in spans}
    prof.export_stacks(str(tmp_path / "stacks.txt"))
    assert "backward;" in (tmp_path / "stacks.txt").read_text()


def test_the_older_name() -> None:
    with adjoint.autograd.profiler.profile(record_shapes=True) as prof:
        with adjoint.autograd.profiler.record_function("x"):
            adjoint.ones(2) + 1
    assert "aten::add" in prof.table() and "aten::add" in str(prof.key_averages())
    with adjoint.autograd.profiler.profile(enabled=False) as off:
        adjoint.ones(2) + 1
    assert len(off.events()) == 0


def test_gradients_are_the_same_and_nothing_stays_on() -> None:
    net, run = program()
    run()
    plain = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    with profile(with_modules=True):
        run()
    for p, g in zip(net.parameters(), plain, strict=True):
        assert bool((p.grad == g).all())
    assert modes.local.observer is None
    with pytest.raises(ZeroDivisionError), profile():
        raise ZeroDivisionError
    assert modes.local.observer is None


def test_times_are_times() -> None:
    class Slow(adjoint.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            time.sleep(0.02)
            return g

    x = adjoint.ones(2, requires_grad=True)
    begin = time.perf_counter()
    with profile() as prof:
        Slow.apply(x).sum().backward()
    elapsed = time.perf_counter() - begin
    slow = next(e for e in prof.events() if e.name == "SlowBackward")
    assert 19_000 < slow.self_cpu_time_total <= elapsed * 1e6
