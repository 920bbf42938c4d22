"""CUDA graphs that a program records itself: replays read the memory they were recorded with."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import adjoint as torch

pytestmark = pytest.mark.gpu


def test_a_graph_reads_what_its_inputs_hold_when_it_is_replayed() -> None:
    x = torch.ones(4, device="cuda")
    warm = x * 2 + 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    x.copy_(torch.full((4,), 3.0, device="cuda"))
    graph.replay()
    assert y.tolist() == [7.0] * 4 and warm.tolist() == [3.0] * 4


def test_forward_and_backward_of_a_module_as_graphs() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).cuda()
    twin = copy.deepcopy(model)
    sample = torch.randn(2, 4, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    for _ in range(3):
        a = torch.randn(2, 4, device="cuda", requires_grad=True)
        b = a.detach().clone().requires_grad_()
        model.zero_grad()
        twin.zero_grad()
        (graphed(a) ** 2).sum().backward()
        (twin(b) ** 2).sum().backward()
        pairs = [(a, b), *zip(model.parameters(), twin.parameters(), strict=True)]
        for mine, plain in pairs:
            np.testing.assert_allclose(mine.grad.cpu().numpy(), plain.grad.cpu().numpy(), rtol=1e-4, atol=1e-5)
    assert graphed(torch.ones(5, 4, device="cuda")).shape == (5, 3)  # other shapes run as they are


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="captured on a non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        torch.cuda.CUDAGraph().replay()
    with pytest.raises(RuntimeError, match="must contain only Tensors"):
        torch.cuda.make_graphed_callables(lambda x: x, (1,))
