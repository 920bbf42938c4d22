"""Attention, embeddings in bags, softmax draws and bilinear forms against torch.nn.functional."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn import functional
from tests.oracle import needs_torch, same, torch

from .test_elementwise import gradients

rng = np.random.default_rng(3)


def floats(*shape: int) -> Any:
    return rng.normal(size=shape).tolist()


def room(m: Any) -> Any:
    return functional if m is adjoint else torch.nn.functional


def _mask(m: Any, *shape: int) -> Any:
    places = m.arange(int(np.prod(shape))).reshape(shape)
    return (places % 3 != 1) & (places[..., :1] % shape[-1] != 2)


Q, K, V = floats(2, 2, 4, 3), floats(2, 2, 5, 3), floats(2, 2, 5, 6)
ATTENTION: list[Callable[[Any], dict[str, Any]]] = [
    lambda m: {},
    lambda m: {"is_causal": True},
    lambda m: {"scale": 0.3},
    lambda m: {"attn_mask": m.linspace(-1, 1, 20, dtype=m.float64).reshape(4, 5)},
    lambda m: {"attn_mask": (m.arange(20).reshape(4, 5) % 3 != 1)},
    lambda m: {"attn_mask": (m.arange(20).reshape(4, 5) > 6)},
]


@needs_torch
@pytest.mark.parametrize("number", range(len(ATTENTION)))
def test_attention(number: int) -> None:
    def attend(m: Any, q: Any, k: Any, v: Any) -> Any:
        return room(m).scaled_dot_product_attention(q, k, v, **ATTENTION[number](m))

    same(lambda m: gradients(m, attend, Q, K, V), 1e-9)


@needs_torch
def test_attention_of_groups_and_with_dropout() -> None:
    def grouped(m: Any, q: Any, k: Any, v: Any) -> Any:
        return room(m).scaled_dot_product_attention(q, k, v, enable_gqa=True)

    def dropped(m: Any) -> Any:
        m.manual_seed(0)
        x = m.tensor(Q)
        return room(m).scaled_dot_product_attention(x, x, x, dropout_p=0.4)

    same(lambda m: gradients(m, grouped, floats_of((2, 4, 4, 3)), K, V), 1e-9)
    same(dropped, 1e-5)
    same(lambda m: room(m).scaled_dot_product_attention(m.ones(2, 3), m.ones(2, 3).double(), m.ones(2, 3)))
    same(lambda m: room(m).scaled_dot_product_attention(m.ones(3), m.ones(3), m.ones(3)))


def floats_of(shape: tuple[int, ...]) -> Any:
    return np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).tolist()


X, Y = floats(4, 2, 6), floats(5, 2, 6)
PACKED, OUT, BIAS = floats(18, 6), floats(6, 6), floats(18)
HEADS: list[Callable[[Any], dict[str, Any]]] = [
    lambda m: {},
    lambda m: {"need_weights": False},
    lambda m: {"average_attn_weights": False},
    lambda m: {"key_padding_mask": m.tensor([[False] * 4 + [True], [False] * 5])},
    lambda m: {"attn_mask": m.linspace(-1, 1, 20, dtype=m.float64).reshape(4, 5)},
    lambda m: {"attn_mask": m.ones(4, 5, dtype=m.bool).triu(2), "need_weights": False},
    lambda m: {
        "attn_mask": m.ones(4, 4, 5, dtype=m.bool).triu(2),
        "key_padding_mask": m.tensor([[False] * 4 + [True]] * 2),
    },
]


@needs_torch
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("number", range(len(HEADS)))
def test_heads(number: int, zero: bool) -> None:
    def attend(m: Any, x: Any, y: Any, packed: Any, bias: Any, out: Any) -> Any:
        with nullcontext() if m is adjoint else torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            result, weights = room(m).multi_head_attention_forward(
                x, y, y, 6, 2, packed, bias, None, None, zero, 0.0, out, None, **HEADS[number](m)
            )
        return result.sum() if weights is None else result.sum() + (weights * weights).sum()

    same(lambda m: gradients(m, attend, X, Y, PACKED, BIAS, OUT), 1e-8)


@needs_torch
def test_heads_alone_and_apart() -> None:
    def program(m: Any) -> Any:
        x, w, o = m.tensor(X), m.tensor(PACKED), m.tensor(OUT)
        alone = room(m).multi_head_attention_forward(
            x[:, 0], x[:, 0], x[:, 0], 6, 3, w, None, None, None, False, 0.0, o, None
        )
        bias = m.ones(1, 1, 6)
        apart = room(m).multi_head_attention_forward(
            x, x, x, 6, 3, None, m.tensor(BIAS), bias, -bias, False, 0.0, o, None, use_separate_proj_weight=True,
            q_proj_weight=w[:6], k_proj_weight=w[6:12], v_proj_weight=w[12:],
        )  # fmt: skip
        return [alone, apart]

    same(program, 1e-5)

    def uneven(m: Any) -> Any:
        x = m.tensor(X)
        weights = (m.tensor(PACKED), None, None, None, False, 0.0, m.tensor(OUT), None)
        return room(m).multi_head_attention_forward(x, x, x, 6, 4, *weights)

    same(uneven)


# --- Tables -----------------------------------------------------------------------------------------

TABLE = floats(6, 3)


@needs_torch
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"include_last_offset": True}])
def test_bags(mode: str, options: dict[str, Any]) -> None:
    def program(m: Any) -> Any:
        table = m.tensor(TABLE, dtype=m.float64, requires_grad=True)
        numbers = m.tensor([1, 2, 4, 5, 4, 2, 2, 0])
        out = room(m).embedding_bag(numbers, table, m.tensor([0, 3, 3, 5, 7]), mode=mode, **options)
        (g,) = m.autograd.grad((out * out).sum(), table)
        whole = room(m).embedding_bag(numbers.reshape(4, 2), table, mode=mode)
        return [out, g, whole]

    same(program, 1e-9)


@needs_torch
def test_weighted_bags() -> None:
    def program(m: Any) -> Any:
        table = m.tensor(TABLE, dtype=m.float64, requires_grad=True)
        scale = m.linspace(1, 2, 6, dtype=m.float64).reshape(3, 2).requires_grad_()
        out = room(m).embedding_bag(m.tensor([[1, 2], [3, 3], [0, 5]]), table, mode="sum", per_sample_weights=scale)
        return [out, m.autograd.grad((out * out).sum(), [table, scale])]

    same(program, 1e-9)
    same(
        lambda m: [m.embedding_bag(m.tensor(TABLE), m.tensor([1, 2, 4]), m.tensor([0, 2]), False, k)[0] for k in (0, 1)]
    )


def test_bags_twice() -> None:
    table = adjoint.tensor(TABLE, dtype=adjoint.float64, requires_grad=True)
    numbers, offsets = adjoint.tensor([1, 2, 4, 5]), adjoint.tensor([0, 3])
    for mode in ("sum", "mean", "max"):
        assert adjoint.autograd.gradgradcheck(
            lambda t: functional.embedding_bag(numbers, t, offsets, mode=mode).exp(), (table,)
        )


@needs_torch
def test_embedding() -> None:
    def look(m: Any, table: Any) -> Any:
        return room(m).embedding(m.tensor([[1, 5], [2, 2]]), table, padding_idx=-4)

    def shortened(m: Any) -> Any:
        table = m.tensor(TABLE)
        return [room(m).embedding(m.tensor([0, 1, 1]), table, max_norm=0.5), table]

    same(lambda m: gradients(m, look, TABLE), 1e-9)
    same(shortened, 1e-5)
    same(lambda m: room(m).embedding(m.tensor([6]), m.tensor(TABLE)))
    same(lambda m: room(m).embedding(m.tensor([1.0]), m.tensor(TABLE)))


# --- The rest ---------------------------------------------------------------------------------------


@needs_torch
def test_bilinear_and_distances() -> None:
    same(
        lambda m: gradients(
            m, lambda m, a, b, w, c: room(m).bilinear(a, b, w, c), X, Y[:4], floats_of((2, 6, 6)), [1.0, 2.0]
        ),
        1e-9,
    )
    same(lambda m: gradients(m, lambda m, a, b: room(m).pairwise_distance(a, b, keepdim=True), X, Y[:4]), 1e-9)
    same(lambda m: room(m).bilinear(m.ones(2, 3), m.ones(2, 4), m.ones(5, 4, 3)))


@needs_torch
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax(name: str) -> None:
    same(lambda m: gradients(m, lambda m, x: getattr(room(m), name)(x, dim=1), X), 1e-9)
    same(lambda m: getattr(room(m), name)(m.tensor(X)))
    same(lambda m: getattr(room(m), name)(m.tensor([[1, 2]]), -1, dtype=m.float64))


@needs_torch
@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax(hard: bool) -> None:
    def program(m: Any) -> Any:
        m.manual_seed(5)
        x = m.tensor(X, requires_grad=True)
        out = room(m).gumbel_softmax(x, tau=0.7, hard=hard)
        (out * out).sum().backward()
        return [out, x.grad]

    same(program, 1e-5)


def test_frozen() -> None:
    x = adjoint.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    out = functional.scaled_dot_product_attention(x, x, x)
    np.testing.assert_allclose(out.numpy(), [[[0.66976154, 0.33023846], [0.33023846, 0.66976154]]], rtol=1e-5)


def test_a_program_chooses_steps() -> None:
    q = adjoint.randn(2, 4, 64, 16, dtype=adjoint.float64, requires_grad=True)
    blocks = functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    with adjoint.nn.attention.sdpa_kernel(adjoint.nn.attention.SDPBackend.MATH):
        steps = functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert type(blocks.grad_fn) is not type(steps.grad_fn) and adjoint.allclose(blocks, steps)
    assert type(functional.scaled_dot_product_attention(q, q, q).grad_fn) is type(blocks.grad_fn)
