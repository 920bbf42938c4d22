"""Modules as functions: per-sample gradients of a CNN and a transformer, ensembles, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.func import functional_call, grad, hessian, jacrev, stack_module_state, vmap
from adjoint.nn import functional as F


def cnn() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, bias=False), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip


class Block(nn.Module):
    """A transformer block over embedded tokens, as language models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, n, d))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.head(x.mean(1))


def per_sample(model: Any, xs: Any, ys: Any) -> dict[str, Any]:
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(functional_call(model, parameters, (x.unsqueeze(0),)), y.unsqueeze(0))

    return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, xs, ys)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["cnn", "transformer"])
def test_per_sample_gradients_equal_a_loop_of_backwards(kind: str) -> None:
    adjoint.manual_seed(0)
    model = (cnn() if kind == "cnn" else Block()).double()
    xs = adjoint.randn(5, 1, 12, 12).double() if kind == "cnn" else adjoint.randint(11, (5, 7))
    ys = adjoint.randint(3, (5,))
    together = per_sample(model, xs, ys)
    for i in range(5):
        model.zero_grad()
        F.cross_entropy(model(xs[i : i + 1]), ys[i : i + 1]).backward()
        for name, p in model.named_parameters():
            np.testing.assert_allclose(together[name][i].numpy(), p.grad.numpy(), rtol=1e-8, atol=1e-12, err_msg=name)


def test_an_ensemble_runs_as_one() -> None:
    adjoint.manual_seed(1)
    models = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    assert parameters["0.weight"].shape == (3, 4, 3) and parameters["0.weight"].requires_grad
    x = adjoint.randn(6, 3)
    out = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    for i, model in enumerate(models):
        np.testing.assert_allclose(out[i].detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    out.sum().backward()
    assert parameters["2.bias"].grad.tolist() == [[6.0, 6.0]] * 3


def test_derivatives_by_parameters_and_inputs() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x = adjoint.randn(2).double()
    found = jacrev(lambda p: functional_call(model, p, (x,)))(parameters)
    model(x).sum().backward()
    for name, p in model.named_parameters():
        np.testing.assert_allclose(found[name][0].numpy(), p.grad.numpy(), rtol=1e-10)
    curved = hessian(lambda x: functional_call(model, parameters, (x,)).sum())(x)
    np.testing.assert_allclose(curved.numpy(), curved.numpy().T, rtol=1e-10)


def test_the_module_is_as_before() -> None:
    model = nn.Linear(2, 2)
    weight = model.weight
    zeros = {"weight": adjoint.zeros(2, 2), "bias": adjoint.zeros(2)}
    assert functional_call(model, zeros, adjoint.ones(2)).tolist() == [0, 0]
    assert model.weight is weight
    with pytest.raises(RuntimeError):
        functional_call(model, zeros, adjoint.ones(3))
    assert model.weight is weight


def test_tied_weights() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    model["b"].weight = model["a"].weight
    model.forward = lambda x: model["b"](model["a"](x))  # type: ignore[method-assign]
    double = {"a.weight": 2 * adjoint.eye(2)}
    assert functional_call(model, double, adjoint.ones(2)).tolist() == [4, 4]
    with pytest.raises(ValueError, match="multiple values for keys"):
        functional_call(model, {**double, "b.weight": adjoint.eye(2)}, adjoint.ones(2))
    mixed = {"a.weight": 2 * adjoint.eye(2), "b.weight": 3 * adjoint.eye(2)}
    assert functional_call(model, mixed, adjoint.ones(2), tie_weights=False).tolist() == [6, 6]


def test_refusals() -> None:
    x = adjoint.ones(2)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'foo'"):
        functional_call(nn.Linear(2, 2), {"foo": x}, (x,), strict=True)
    with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts"):
        functional_call(nn.Linear(2, 2), x, (x,))
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        functional_call(nn.Linear(2, 2), ({"bias": x}, {"bias": x}), (x,))
    with pytest.raises(RuntimeError, match="Expected at least one model"):
        stack_module_state([])
    with pytest.raises(RuntimeError, match="of the same class"):
        stack_module_state([nn.Linear(2, 2), nn.ReLU()])
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        stack_module_state([nn.Linear(2, 2), nn.Linear(2, 2).eval()])
