"""Checkpointing: the same gradients bit for bit, less memory, random numbers and autocast again, clear mismatches."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.utils import checkpoint as room
from adjoint.utils.checkpoint import CheckpointError, checkpoint_sequential
from tests.oracle import needs_torch

checkpoint = partial(room.checkpoint, use_reentrant=False)


def block(x: Any, w: Any) -> Any:
    h = adjoint.tanh(x @ w)
    h = adjoint.nn.functional.dropout(h, 0.3)
    return x + (h * h.sin()).exp().log1p()


def gradients(wrapped: bool, inner: Any = block, depth: int = 3, **options: Any) -> list[np.ndarray]:
    adjoint.manual_seed(0)
    x = adjoint.randn(8, 6, requires_grad=True)
    w = adjoint.randn(6, 6, requires_grad=True)
    y = x
    for _ in range(depth):
        y = checkpoint(inner, y, w, **options) if wrapped else inner(y, w)
    (y**2).sum().backward()
    return [y.detach().numpy(), x.grad.numpy(), w.grad.numpy(), adjoint.rand(3).numpy()]


@pytest.mark.parametrize("options", [{}, {"early_stop": False}, {"debug": True}, {"determinism_check": "none"}])
def test_bit_for_bit(options: dict[str, Any]) -> None:
    for mine, plain in zip(gradients(True, **options), gradients(False), strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_nested_and_sequential() -> None:
    def outer(x: Any, w: Any) -> Any:
        return checkpoint(block, checkpoint(block, x, w), w) * 2

    def plain(x: Any, w: Any) -> Any:
        return block(block(x, w), w) * 2

    for a, b in zip(gradients(True, outer), gradients(False, plain), strict=True):
        np.testing.assert_array_equal(a, b)
    net = adjoint.nn.Sequential(*[adjoint.nn.Linear(4, 4) for _ in range(5)], adjoint.nn.Tanh())
    x = adjoint.ones(2, 4, requires_grad=True)
    expected = adjoint.autograd.grad(net(x).sum(), [x, *net.parameters()])
    for segments in (1, 2, 3):
        out = checkpoint_sequential(net, segments, x, use_reentrant=False)
        for a, b in zip(adjoint.autograd.grad(out.sum(), [x, *net.parameters()]), expected, strict=True):
            assert a.equal(b)


def test_higher_order_and_twice() -> None:
    x = adjoint.tensor([0.3, 0.7], requires_grad=True)
    f = lambda x: (x.sin() * x.exp()).tanh()
    y = checkpoint(f, x, use_reentrant=False)
    (g,) = adjoint.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = adjoint.autograd.grad(g.sum(), x)
    (g2,) = adjoint.autograd.grad(f(x).sum(), x, create_graph=True)
    assert g.equal(g2) and h.equal(adjoint.autograd.grad(g2.sum(), x)[0])
    y = checkpoint(f, x)
    first = adjoint.autograd.grad(y.sum(), x, retain_graph=True)[0]
    assert first.equal(adjoint.autograd.grad(y.sum(), x)[0])


def test_early_stop_and_how_often() -> None:
    runs = []

    def f(x: Any) -> Any:
        runs.append("start")
        y = x.sin().exp()
        runs.append("end")
        return y + 1

    x = adjoint.ones(2, requires_grad=True)
    checkpoint(f, x).sum().backward()
    assert runs == ["start", "end", "start"]
    runs.clear()
    with room.set_checkpoint_early_stop(False):
        y = checkpoint(f, x)
    y.sum().backward()
    assert runs == ["start", "end"] * 2
    runs.clear()
    with adjoint.no_grad():
        checkpoint(f, x)
    assert runs == ["start", "end"]


def test_random_state_is_left_alone() -> None:
    for preserve in (True, False):
        adjoint.manual_seed(1)
        x = adjoint.ones(4, requires_grad=True)
        y = checkpoint(lambda x: adjoint.nn.functional.dropout(x, 0.5) * x, x, preserve_rng_state=preserve)
        before = adjoint.get_rng_state()
        y.sum().backward()
        assert before.equal(adjoint.get_rng_state()) == preserve


def test_autocast_again() -> None:
    kinds = []

    def f(x: Any, w: Any) -> Any:
        y = x @ w
        kinds.append(y.dtype)
        return y.float().sin()

    x, w = adjoint.ones(2, 3, requires_grad=True), adjoint.ones(3, 3, requires_grad=True)
    with adjoint.amp.autocast("cpu", dtype=adjoint.bfloat16):
        y = checkpoint(f, x, w)
    y.sum().backward()
    assert kinds == [adjoint.bfloat16] * 2


def test_mismatches_name_op_and_line() -> None:
    x = adjoint.ones(3, requires_grad=True)
    runs = []

    def unsteady(x: Any) -> Any:
        runs.append(0)
        return x.exp() if len(runs) % 2 else x[:2].exp().sum() * x

    with pytest.raises(CheckpointError, match=r"different metadata(.|\n)*saved by exp at .*test_checkpoint.py"):
        checkpoint(unsteady, x).sum().backward()

    def shorter(x: Any) -> Any:
        runs.append(0)
        y = x.exp()
        return y.sin().cos() if len(runs) % 2 else y

    runs.clear()
    with pytest.raises(CheckpointError, match=r"different number of tensors(.|\n)*saved by sin"):
        checkpoint(shorter, x).sum().backward()
    runs.clear()
    with (
        room.set_checkpoint_debug_enabled(True),
        pytest.raises(CheckpointError, match="Operations executed during recomputation"),
    ):
        checkpoint(shorter, x).sum().backward()
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(shorter, x, determinism_check="maybe")


def test_overwritten_input_is_noticed() -> None:
    x = adjoint.ones(3, requires_grad=True)
    y = x * 2
    out = checkpoint(lambda y: y.sin() + y, y)
    y.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_selective() -> None:
    computed = []
    policies = room.CheckpointPolicy

    def policy(ctx: Any, op: Any, *args: Any) -> Any:
        computed.append((op.name, ctx.is_recompute))
        return policies.MUST_SAVE if op.name in ("matmul", "mm") else policies.PREFER_RECOMPUTE

    contexts = partial(room.create_selective_checkpoint_contexts, policy)
    for a, b in zip(gradients(True, context_fn=contexts), gradients(False), strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(again for _, again in computed)
    by_list = partial(room.create_selective_checkpoint_contexts, [adjoint.matmul, "mm", adjoint.exp])
    for a, b in zip(gradients(True, context_fn=by_list), gradients(False), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match="function or a list"):
        room.create_selective_checkpoint_contexts(3)


def test_memory_goes_down() -> None:
    def peak(wrapped: bool) -> int:
        gc.collect()
        x = adjoint.ones(200, 200, requires_grad=True)
        tracemalloc.start()
        y = x
        for _ in range(8):
            f = lambda y: y.sin().exp().tanh().sigmoid().sin()
            y = checkpoint(f, y) if wrapped else f(y)
        held = tracemalloc.get_traced_memory()[0]
        y.sum().backward()
        tracemalloc.stop()
        return held

    peak(False)  # what is imported when first used is not counted
    assert peak(True) < peak(False) / 3


@needs_torch
def test_names() -> None:
    import torch.utils.checkpoint

    inner = {"CheckpointFunction", "DefaultDeviceType", "GraphExecGroup", "SAC_IGNORED_OPS", "get_device_states",
             "set_device_states"}  # fmt: skip
    assert set(torch.utils.checkpoint.__all__) - inner <= set(room.__all__)
