"""Operations of products and convolutions, forward and backward, module by module, against torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import adjoint
from adjoint.utils.flop_counter import FlopCounterMode, register_flop_formula
from adjoint.utils.module_tracker import ModuleTracker
from tests.oracle import needs_torch, torch

PROGRAMS = {
    "linear": (lambda T: T.nn.Linear(4, 5), [(3, 4)]),
    "linear without bias": (lambda T: T.nn.Linear(4, 5, bias=False), [(2, 3, 4)]),
    "linear of a vector": (lambda T: T.nn.Linear(4, 5), [(4,)]),
    "mm": (lambda T: T.mm, [(3, 4), (4, 5)]),
    "bmm": (lambda T: T.bmm, [(2, 3, 4), (2, 4, 5)]),
    "matmul": (lambda T: T.matmul, [(6, 2, 3, 4), (2, 4, 5)]),
    "einsum": (lambda T: lambda a, b: T.einsum("bij,bjk->bik", a, b), [(2, 3, 4), (2, 4, 5)]),
    "tensordot": (lambda T: lambda a, b: T.tensordot(a, b, 1), [(2, 3, 4), (4, 5)]),
    "conv1d": (lambda T: T.nn.Conv1d(4, 6, 3, padding=1), [(2, 4, 8)]),
    "conv2d": (lambda T: T.nn.Conv2d(4, 6, 3, stride=2, dilation=2), [(2, 4, 9, 9)]),
    "conv_transpose2d": (lambda T: T.nn.ConvTranspose2d(4, 6, 3, stride=2), [(2, 4, 5, 5)]),
    "gru": (lambda T: T.nn.GRU(3, 4), [(5, 2, 3)]),
    "nothing": (lambda T: T.relu, [(3, 4)]),
    "modules": (
        lambda T: T.nn.Sequential(T.nn.Linear(4, 5), T.nn.ReLU(), T.nn.Sequential(T.nn.Linear(5, 6))), [(3, 4)],
    ),
}  # fmt: skip


def counted(T: Any, name: str) -> list[dict[str, dict[str, int]]]:
    make, shapes = PROGRAMS[name]
    function, inputs = make(T), [T.ones(*shape, requires_grad=True) for shape in shapes]
    mode = import_module(f"{T.__name__}.utils.flop_counter").FlopCounterMode
    with mode(display=False) as both:
        out = function(*inputs)
        (out[0] if isinstance(out, tuple) else out).sum().backward()
    assert both.get_total_flops() == sum(both.get_flop_counts().get("Global", {}).values())
    return [{path: {str(op): n for op, n in counts.items()} for path, counts in both.get_flop_counts().items()}]


@needs_torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_are_torchs(name: str) -> None:
    assert counted(adjoint, name) == counted(torch, name)


def test_attention_and_grouped_convolutions_are_counted_as_they_are() -> None:
    q, k = adjoint.ones(2, 4, 8, 16, requires_grad=True), adjoint.ones(2, 4, 10, 16, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        out = adjoint.nn.functional.scaled_dot_product_attention(q, k, k)
    assert forward.get_total_flops() == 2 * 2 * (2 * 4 * 8 * 10 * 16)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    assert backward.get_total_flops() == 2 * forward.get_total_flops()
    conv, x = adjoint.nn.Conv2d(4, 8, 3, groups=2), adjoint.ones(2, 4, 9, 9, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        conv(x).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 2 * 7 * 7 * 8 * 2 * 3 * 3  # torch counts a gradient twice


def test_tables_and_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    model = adjoint.nn.Sequential(adjoint.nn.Linear(400, 50), adjoint.nn.Linear(50, 6))
    custom = {adjoint.ops.aten.relu: lambda shape, *args, out_shape=None, **kwargs: shape.numel()}
    with FlopCounterMode(custom_mapping=custom) as counter:
        model(adjoint.ones(3, 400)).relu()
    said = capsys.readouterr().out
    assert said.strip() == counter.get_table()
    assert said.splitlines()[0].split() == ["Module", "FLOP", "%", "Total"] and "121.800K" in said
    assert " Sequential.0" in said and "Sequential.0" not in counter.get_table(1)
    assert counter.get_flop_counts()["Global"][adjoint.ops.aten.relu] == 18
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        register_flop_formula(3)(lambda *args: 1)
    with pytest.raises(RuntimeError, match="duplicate registrations"):
        register_flop_formula(adjoint.ops.aten.mm)(lambda *args: 1)
    with pytest.warns(UserWarning, match="mods argument is not needed"):
        FlopCounterMode(model)


def test_modules_are_tracked_forward_and_backward() -> None:
    model, seen = adjoint.nn.Sequential(adjoint.nn.Linear(2, 2)), []
    with ModuleTracker() as tracker:
        model[0].register_forward_pre_hook(lambda *_: seen.append((set(tracker.parents), tracker.is_bw)))
        out = model(adjoint.ones(2, requires_grad=True))
        out.grad_fn.register_hook(lambda *_: seen.append((set(tracker.parents), tracker.is_bw)))
        out.sum().backward()
    whole = {"Global", "Sequential", "Sequential.0"}
    assert seen == [(whole, False), (whole, True)] and tracker.parents == {"Global"}
