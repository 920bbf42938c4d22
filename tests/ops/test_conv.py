"""Convolutions: values and two orders of gradients against torch, blocks, batches, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.devices.cpu import sizes
from tests.oracle import needs_torch, same

from .agreement import agree, batches, numbers

F = adjoint.nn.functional

# (input, weight, options)
CONVOLUTIONS: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 3, 7), (4, 3, 3), {}),
    ((3, 7), (4, 3, 3), {"padding": 1}),
    ((2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 2, "dilation": 2, "groups": 2}),
    ((2, 3, 8), (4, 3, 4), {"padding": "same"}),
    ((2, 3, 8), (4, 3, 4), {"padding": "same", "dilation": 3}),
    ((2, 3, 8), (4, 3, 4), {"padding": "valid"}),
    ((2, 3, 6, 5), (4, 3, 3, 2), {}),
    ((3, 6, 5), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ((2, 4, 6, 7), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    ((2, 4, 6, 7), (4, 1, 3, 3), {"padding": 1, "groups": 4, "stride": 2, "dilation": (1, 2)}),
    ((2, 4, 6, 7), (8, 1, 3, 3), {"groups": 4}),
    ((2, 4, 5, 5), (6, 4, 1, 1), {}),
    ((2, 4, 5, 5), (6, 2, 1, 1), {"groups": 2}),
    ((2, 4, 5, 5), (6, 4, 1, 1), {"stride": 2, "padding": 1}),
    ((1, 2, 7, 9), (3, 2, 3, 3), {"stride": 3}),
    ((2, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"padding": (1, 0, 1)}),
    ((2, 2, 4, 5, 6), (4, 1, 2, 3, 2), {"stride": (1, 2, 2), "groups": 2, "dilation": (2, 1, 1)}),
    ((0, 3, 6, 5), (4, 3, 3, 2), {}),
    ((20, 2, 7, 6), (5, 2, 3, 3), {"padding": 1}),  # many samples with short rows are laid out last
    ((17, 2, 9), (6, 2, 3), {"stride": 2, "padding": 1, "dilation": 2}),
]
TRANSPOSED: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 3, 5), (3, 4, 3), {}),
    ((3, 5), (3, 4, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 4, 5), (4, 3, 3), {"stride": 3, "groups": 2, "dilation": 2}),
    ((2, 4, 5, 4), (4, 2, 3, 2), {"stride": 2, "padding": 1, "output_padding": (1, 0), "groups": 2}),
    ((2, 4, 5, 4), (4, 1, 3, 3), {"stride": 2, "groups": 4}),
    ((2, 4, 5, 4), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    ((2, 3, 4, 4), (3, 2, 2, 2), {"dilation": 3, "output_padding": 2}),
    ((1, 2, 3, 4, 3), (2, 3, 2, 2, 3), {"stride": (2, 1, 2), "padding": (0, 1, 1)}),
    ((18, 6, 4, 5), (6, 1, 3, 3), {"stride": 2, "padding": 1}),
]
ALL = [(f"conv{len(w) - 2}d", *case) for case in CONVOLUTIONS for w in (case[1],)] + [
    (f"conv_transpose{len(w) - 2}d", *case) for case in TRANSPOSED for w in (case[1],)
]


def outs_of(name: str, weight: Any, options: dict[str, Any]) -> int:
    return weight[1] * options.get("groups", 1) if "transpose" in name else weight[0]


@needs_torch
@pytest.mark.parametrize(("name", "x", "w", "options"), ALL)
@pytest.mark.parametrize("kind", ["f", "c"])
def test_values_and_gradients(name: str, x: Any, w: Any, options: Any, kind: str) -> None:
    bias = numbers(outs_of(name, w, options), seed=3, kind=kind)
    agree(name, numbers(*x, kind=kind), numbers(*w, seed=2, kind=kind), bias, **options)
    if kind == "f":
        agree(name, numbers(*x), numbers(*w, seed=2), **options)


@pytest.mark.parametrize(("name", "x", "w", "options"), ALL)
def test_batches(name: str, x: Any, w: Any, options: Any) -> None:
    if 0 not in x:
        batches(name, numbers(*x), numbers(*w, seed=2), numbers(outs_of(name, w, options), seed=3), **options)


@pytest.mark.parametrize("block", [1, 300, 5000])
@pytest.mark.parametrize(("name", "x", "w", "options"), ALL)
def test_blocks_do_not_show(
    name: str, x: Any, w: Any, options: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[Any]:
        tensors = [adjoint.tensor(numbers(*s, seed=i), requires_grad=True) for i, s in enumerate((x, w))]
        out = getattr(F, name)(*tensors, **options)
        cotangent = adjoint.from_numpy(numbers(*out.shape))
        return [out.detach(), *adjoint.autograd.grad(out, tensors, cotangent)]

    whole = run()
    monkeypatch.setattr(sizes, "COLUMNS", block)
    for a, b in zip(run(), whole, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


def test_frozen_values() -> None:
    x = adjoint.arange(9.0).reshape(1, 1, 3, 3).requires_grad_()
    w = adjoint.tensor([[[[1.0, -1.0], [2.0, 0.5]]]], requires_grad=True)
    out = adjoint.conv2d(x, w, adjoint.tensor([1.0]), padding=1, stride=2)
    assert out.tolist() == [[[[1.0, 4.0], [1.0, 18.0]]]]
    out.sum().backward()
    assert x.grad.tolist() == [[[[0.5, 2.0, 0.5], [-1.0, 1.0, -1.0], [0.5, 2.0, 0.5]]]]
    assert w.grad.tolist() == [[[[4.0, 8.0], [8.0, 16.0]]]]
    assert out.grad_fn.name() == "ConvolutionBackward0"


def test_only_what_a_gradient_needs_is_kept() -> None:
    x, w = adjoint.randn(1, 2, 5, 5), adjoint.randn(3, 2, 3, 3, requires_grad=True)
    node = adjoint.conv2d(x, w).grad_fn
    assert node._saved_weight is None and node._saved_input is not None


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "complex64"])
def test_dtypes(dtype: str) -> None:
    def program(m: Any) -> Any:
        kind = getattr(m, dtype)
        x, w = (m.arange(n).reshape(shape).to(kind) for n, shape in ((50, (1, 2, 5, 5)), (12, (1, 2, 3, 2))))
        return m.conv2d(x, w, padding=1)

    same(program, 1e-2)


@needs_torch
@pytest.mark.parametrize(
    "program",
    [
        lambda m: m.conv2d(m.ones(1, 2, 3, 3), m.ones(1, 2, 5, 5)),
        lambda m: m.conv2d(m.ones(1, 2, 3, 3), m.ones(1, 3, 2, 2)),
        lambda m: m.conv2d(m.ones(3, 3), m.ones(1, 3, 2, 2)),
        lambda m: m.conv2d(m.ones(1, 2, 3, 3), m.ones(1, 2, 2, 2).double()),
        lambda m: m.conv2d(m.ones(1, 2, 3, 3), m.ones(1, 2, 2, 2), m.ones(2)),
        lambda m: m.conv2d(m.ones(1, 2, 3, 3), m.ones(1, 2, 2, 2), stride=(1, 1, 1)),
        lambda m: m.conv2d(m.ones(1, 2, 3, 3), m.ones(1, 2, 2, 2), stride=1.5),
        lambda m: m.conv2d(m.ones(1, 2, 3, 3), m.ones(1, 2, 2, 2), padding="other"),
        lambda m: m.conv2d(m.ones(1, 4, 3, 3), m.ones(3, 2, 2, 2), groups=2),
        lambda m: m.conv_transpose2d(m.ones(1, 2, 3, 3), m.ones(2, 1, 2, 2), stride=2, output_padding=2),
        lambda m: m.conv_transpose2d(m.ones(1, 2, 1, 1), m.ones(2, 1, 2, 2), padding=2),
        lambda m: m.nn.functional.unfold(m.ones(1, 2, 3, 3), 5),
        lambda m: m.nn.functional.unfold(m.ones(1, 2, 3, 4, 5), 2),
        lambda m: m.nn.functional.unfold(m.ones(1, 2, 3, 4).long(), 2),
        lambda m: m.conv2d(m.ones(1, 2, 3, 3).bool(), m.ones(1, 2, 2, 2).bool()),
        lambda m: m.nn.functional.fold(m.ones(1, 4, 5), (3, 3), 2),
        lambda m: m.nn.functional.fold(m.ones(1, 5, 4), (3, 3), 2),
    ],
)
def test_refusals(program: Any) -> None:
    same(program)


@needs_torch
def test_other_forms() -> None:
    x, w, b = numbers(5, 2, 3), numbers(2, 3, 4, seed=1), numbers(4, seed=2)
    agree("conv_tbc", x, w, b, pad=1)

    def program(m: Any) -> Any:
        x, w = m.ones(1, 2, 4, 4), m.ones(2, 2, 2, 2)
        return [m.convolution(x, w, None, [2, 2], [1, 1], [1, 1], t, [0, 0], 1) for t in (False, True)]

    same(program)


WINDOWS = [
    ((2, 3, 6, 5), {"kernel_size": 2}),
    ((3, 6, 5), {"kernel_size": (3, 2), "stride": 2, "padding": 1}),
    ((2, 3, 6, 5), {"kernel_size": 2, "dilation": (2, 3), "padding": (0, 1)}),
    ((2, 3, 4, 4), {"kernel_size": 1}),
]


@needs_torch
@pytest.mark.parametrize(("shape", "options"), WINDOWS)
def test_windows_as_columns(shape: Any, options: Any) -> None:
    agree("unfold", numbers(*shape), **options)
    columns = F.unfold(adjoint.from_numpy(numbers(*shape)), **options).numpy()
    agree("fold", columns, output_size=shape[-2:], **options)


@pytest.mark.parametrize(("shape", "options"), WINDOWS)
def test_columns_batch(shape: Any, options: Any) -> None:
    batches("unfold", numbers(*shape), **options)
    columns = F.unfold(adjoint.from_numpy(numbers(*shape)), **options).numpy()
    batches("fold", columns, output_size=shape[-2:], **options)


def test_columns_are_a_copy() -> None:
    x = adjoint.zeros(1, 1, 2, 2)
    F.unfold(x, 1).add_(1)
    assert not x.any()
