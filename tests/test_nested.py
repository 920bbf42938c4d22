"""Nested tensors: parts of unequal sizes, computed with as one; as in torch."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import pytest


@pytest.fixture(params=["adjoint", "torch"])
def torch(request: Any) -> Any:
    if request.param == "torch":
        pytest.importorskip("torch", reason="the second opinion")
    return importlib.import_module(request.param)


def parts(torch: Any) -> list[Any]:
    return [torch.arange(6.0).reshape(2, 3), torch.arange(3.0).reshape(1, 3)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_parts_and_elementwise_functions(torch: Any, layout: str) -> None:
    x = torch.nested.nested_tensor(parts(torch), layout=getattr(torch, layout))
    assert x.is_nested and not torch.ones(1).is_nested and (x.dim(), x.size(0), x.size(2), x.numel()) == (3, 2, 3, 9)
    assert [tuple(part.shape) for part in x] == [(2, 3), (1, 3)] and x[1].tolist() == [[0.0, 1.0, 2.0]]
    assert (x * x + 1).to_padded_tensor(-1.0).tolist() == [
        [[1.0, 2.0, 5.0], [10.0, 17.0, 26.0]],
        [[1.0, 2.0, 5.0], [-1.0, -1.0, -1.0]],
    ]
    out = torch.nn.functional.linear(x, torch.ones(2, 3)).to_padded_tensor(0.0)
    assert out.tolist() == [[[3.0, 3.0], [12.0, 12.0]], [[3.0, 3.0], [0.0, 0.0]]]
    assert torch.nested.to_padded_tensor(x.softmax(-1), 0.0).sum().item() == pytest.approx(3.0)


@pytest.mark.filterwarnings("ignore")
def test_jagged(torch: Any) -> None:
    x = torch.nested.nested_tensor(parts(torch), layout=torch.jagged, requires_grad=True)
    assert x.offsets().tolist() == [0, 2, 3] and tuple(x.values().shape) == (3, 3) and x.shape[2] == 3
    assert x.shape == (x * 2).shape and str(x.shape[1]).startswith("j")
    assert (x.sum().item(), x.sum(1).tolist()) == (18.0, [[3.0, 5.0, 7.0], [0.0, 1.0, 2.0]])
    (x * x).sum().backward()
    assert x.grad.is_nested and x.grad.values().tolist()[1] == [6.0, 8.0, 10.0]
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x.detach()))):
        assert other.values().tolist() == x.values().tolist()
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
        x + torch.nested.nested_tensor(parts(torch), layout=torch.jagged)
    with pytest.raises(RuntimeError, match="jagged layout"):
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 4)], layout=torch.jagged)


@pytest.mark.filterwarnings("ignore")
def test_history_of_the_parts(torch: Any) -> None:
    a, b = (part.requires_grad_() for part in parts(torch))
    torch.nested.as_nested_tensor([a, b], layout=torch.jagged).mul(3).sum().backward()
    assert a.grad.tolist() == [[3.0] * 3] * 2 and b.grad.tolist() == [[3.0] * 3]
    viewed = torch.nested.nested_tensor_from_jagged(torch.arange(5.0), lengths=torch.tensor([2, 3]))
    assert [part.tolist() for part in viewed.unbind()] == [[0.0, 1.0], [2.0, 3.0, 4.0]]


@pytest.mark.filterwarnings("ignore")
def test_text(torch: Any) -> None:
    strided = torch.nested.nested_tensor(parts(torch))
    assert repr(strided).splitlines()[:2] == ["nested_tensor([", "  tensor([[0., 1., 2.],"]
    with pytest.raises(RuntimeError, match="Given dimension 1 is irregular"):
        strided.size(1)
    with pytest.raises(RuntimeError, match="Truncation is not supported"):
        strided.to_padded_tensor(0.0, (2, 1, 3))
