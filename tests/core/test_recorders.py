"""The recorders of ops of two and three inputs and of several outputs, and how leaves take gradients."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as torch


def test_an_output_used_twice_gets_both_gradients() -> None:
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    first, _, last = x.unbind()
    (first * 2 + first * first + last).sum().backward()
    np.testing.assert_array_equal(x.grad, [[2, 4], [0, 0], [1, 1]])


def test_outputs_without_a_gradient_have_no_history() -> None:
    values, indices = torch.tensor([[1.0, 3.0], [5.0, 2.0]], requires_grad=True).max(1)
    assert values.grad_fn.name() == "MaxBackward0"
    assert indices.grad_fn is None and not indices.requires_grad
    with torch.no_grad():
        assert not torch.ones(2, 2, requires_grad=True).max(1).values.requires_grad


def test_pieces_are_views_that_may_not_be_written() -> None:
    x = torch.ones(4, requires_grad=True) * 1
    piece = x.split(2)[0]
    assert piece._is_view() and piece._base is x
    with pytest.raises(RuntimeError, match="multiple views"):
        piece.mul_(2)


@pytest.mark.parametrize("hooked", [False, True])
def test_a_leaf_has_a_gradient_of_its_own(hooked: bool) -> None:
    x, given = torch.zeros(3, requires_grad=True), torch.ones(3)
    if hooked:
        x.register_post_accumulate_grad_hook(lambda leaf: None)
    x.view(3).backward(given)
    x.grad.mul_(5)
    np.testing.assert_array_equal(given, [1, 1, 1])


def test_broadcasting_and_promotion_of_three() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    y = torch.ones(3, dtype=torch.float64, requires_grad=True)
    out = torch.where(torch.tensor([[True], [False]]), x, y)
    assert out.dtype is torch.float64
    out.sum().backward()
    assert x.grad.dtype is torch.float32 and y.grad.dtype is torch.float64
    np.testing.assert_array_equal(x.grad, [[1, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(y.grad, [1, 1, 1])


def test_cat_of_two_dtypes_gives_each_its_own_back() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.ones(3, dtype=torch.float64, requires_grad=True)
    (torch.cat([x, y]) * torch.arange(5.0)).sum().backward()
    assert x.grad.dtype is torch.float32 and y.grad.dtype is torch.float64
    np.testing.assert_array_equal(y.grad, [2, 3, 4])


def test_tanh_differentiated_three_times() -> None:
    x = torch.tensor([0.3, -1.2], dtype=torch.float64, requires_grad=True)
    g = torch.tanh(x)
    for _ in range(3):
        (g,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    t = np.tanh([0.3, -1.2])
    np.testing.assert_allclose(g.detach(), (1 - t**2) * (6 * t**2 - 2), rtol=1e-12)
