"""nn.utils against torch: clipping, vectors, norms, parametrisations, pruning, fusion, summaries."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, same, torch

if torch is not None:
    import torch.nn.utils.prune  # not there until imported


def filled(m: Any, module: Any) -> Any:
    """Give a module's parameters the same values on both sides."""
    rng = np.random.default_rng(0)
    with m.no_grad():
        for p in module.parameters():
            p.copy_(m.from_numpy(rng.standard_normal(tuple(p.shape)).astype(np.float32)))
    return module


def trained(m: Any, module: Any, shape: tuple[int, ...] = (4, 3), steps: int = 2) -> list[Any]:
    """Return outputs, gradients and parameters over some steps of gradient descent."""
    x = m.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    found = []
    for _ in range(steps):
        out = module(x)
        module.zero_grad()
        (out**2).mean().backward()
        found += [out, {n: p.grad for n, p in module.named_parameters()}]
        with m.no_grad():
            for p in module.parameters():
                if p.grad is not None:
                    p -= 0.1 * p.grad
    return [*found, dict(module.state_dict())]


@needs_torch
@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf"), 0.5])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clip_grad(norm_type: float, max_norm: float) -> None:
    def program(m: Any) -> Any:
        u = m.nn.utils
        net = filled(m, m.nn.Linear(3, 2))
        (net(m.ones(4, 3)) ** 2).sum().backward()
        total = u.clip_grad_norm_(net.parameters(), max_norm, norm_type)
        grads = [p.grad.clone() for p in net.parameters()]
        u.clip_grad_value_(net.parameters(), 0.01)
        return [total, grads, [p.grad for p in net.parameters()], u.get_total_norm(grads), u.get_total_norm([])]

    same(program, 1e-5)


@needs_torch
def test_clip_refusals() -> None:
    def program(m: Any) -> Any:
        p = m.ones(2, requires_grad=True)
        p.grad = m.tensor([float("inf"), 1.0])
        return m.nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)

    same(program)


@needs_torch
def test_vectors() -> None:
    def program(m: Any) -> Any:
        u = m.nn.utils
        net = filled(m, m.nn.Sequential(m.nn.Linear(3, 2), m.nn.Linear(2, 1)))
        vector = u.parameters_to_vector(net.parameters())
        u.vector_to_parameters(vector * 2, net.parameters())
        return [vector, dict(net.state_dict()), m.autograd.grad(vector.sum(), list(net.parameters()))]

    same(program)


@needs_torch
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim: int | None) -> None:
    def program(m: Any) -> Any:
        u = m.nn.utils
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old = u.weight_norm(filled(m, m.nn.Linear(3, 2)), dim=dim)
        found = trained(m, old)
        u.remove_weight_norm(old)
        new = u.parametrizations.weight_norm(filled(m, m.nn.Linear(3, 2)), dim=dim)
        found += [dict(old.state_dict()), trained(m, new), repr(new), type(new).__name__]
        u.parametrize.remove_parametrizations(new, "weight")
        return [found, dict(new.state_dict()), repr(new)]

    same(program, 1e-5)


@needs_torch
@pytest.mark.parametrize("kind", ["Linear", "ConvTranspose1d"])
def test_spectral_norm(kind: str) -> None:
    def build(m: Any) -> Any:
        return filled(m, m.nn.Linear(3, 2) if kind == "Linear" else m.nn.ConvTranspose1d(3, 2, 2))

    def program(m: Any) -> Any:
        u, shape = m.nn.utils, (4, 3) if kind == "Linear" else (2, 3, 4)
        m.manual_seed(0)
        old = u.spectral_norm(build(m), n_power_iterations=3)
        found = trained(m, old, shape)
        u.remove_spectral_norm(old)
        m.manual_seed(0)
        new = u.parametrizations.spectral_norm(build(m), n_power_iterations=2)
        return [found, dict(old.state_dict()), trained(m, new, shape), new.eval()(m.ones(shape))]

    same(program, 1e-4)


@needs_torch
@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3)])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(shape: tuple[int, int], orthogonal_map: str, trivial: bool) -> None:
    square = shape[0] == shape[1]

    def program(m: Any) -> Any:
        layer = filled(m, m.nn.Linear(shape[1], shape[0], bias=False))
        m.nn.utils.parametrizations.orthogonal(layer, "weight", orthogonal_map, use_trivialization=trivial)
        w = layer.weight
        small, big = sorted(shape)
        gram = w @ w.T if shape[0] == small else w.T @ w
        found = [gram, list(w.shape), [list(p.shape) for p in layer.parameters()]]
        if square or not trivial:  # else the base has random columns
            found += trained(m, layer, (4, shape[1]), steps=1)[:2]
        return found

    same(program, 2e-4)


class Programs:
    """The same small parametrisations on either module."""

    @staticmethod
    def symmetric(m: Any) -> Any:
        class Symmetric(m.nn.Module):  # type: ignore[name-defined]
            def forward(self, x: Any) -> Any:
                return x.triu() + x.triu(1).transpose(-1, -2)

            def right_inverse(self, x: Any) -> Any:
                return x.triu()

        return Symmetric()

    @staticmethod
    def parts(m: Any) -> Any:
        class Parts(m.nn.Module):  # type: ignore[name-defined]
            def forward(self, a: Any, b: Any) -> Any:
                return a + b

            def right_inverse(self, x: Any) -> Any:
                return x / 2, x / 2

        return Parts()


@needs_torch
def test_parametrize() -> None:
    def program(m: Any) -> Any:
        P = m.nn.utils.parametrize
        layer = filled(m, m.nn.Linear(3, 3))
        P.register_parametrization(layer, "weight", Programs.symmetric(m))
        before = layer.weight
        with P.cached():
            kept = layer.weight is layer.weight
        layer.weight = m.eye(3) * 2
        found = [before, layer.weight, kept, P.is_parametrized(layer), P.is_parametrized(layer, "bias"), repr(layer)]
        found += [P.type_before_parametrizations(layer).__name__, list(dict(layer.named_parameters()))]
        twin = copy.deepcopy(layer)
        found += trained(m, twin, (4, 3), 1) + [layer.weight]
        other = filled(m, m.nn.Linear(3, 3))
        P.transfer_parametrizations_and_params(layer, other)
        found += [other.weight, list(dict(other.named_parameters()))]
        P.remove_parametrizations(layer, "weight", leave_parametrized=False)
        P.register_parametrization(layer, "bias", Programs.parts(m))
        found += [repr(layer), dict(layer.state_dict()), layer.bias]
        P.remove_parametrizations(layer, "bias")
        return [*found, type(layer).__name__, layer.bias, list(dict(layer.named_parameters()))]

    same(program, 1e-5)


@needs_torch
def test_parametrize_refusals() -> None:
    def refused(what: Any) -> Any:
        def program(m: Any) -> Any:
            P = m.nn.utils.parametrize
            return what(m, P, m.nn.Linear(3, 3))

        return program

    class Wide:
        pass

    def widening(m: Any, P: Any, layer: Any) -> Any:
        class Widen(m.nn.Module):  # type: ignore[name-defined]
            def forward(self, x: Any) -> Any:
                return m.cat([x, x])

        return P.register_parametrization(layer, "weight", Widen())

    same(refused(lambda m, P, layer: P.register_parametrization(layer, "nothing", Programs.symmetric(m))))
    same(refused(lambda m, P, layer: P.remove_parametrizations(layer, "weight")))
    same(refused(widening))
    same(refused(lambda m, P, layer: m.nn.utils.parametrizations.orthogonal(layer, "bias")))
    same(refused(lambda m, P, layer: m.nn.utils.remove_weight_norm(layer)))
    same(refused(lambda m, P, layer: m.nn.utils.prune.remove(layer, "weight")))


@needs_torch
def test_prune() -> None:
    def program(m: Any) -> Any:
        prune = m.nn.utils.prune
        layer = filled(m, m.nn.Linear(4, 3))
        prune.l1_unstructured(layer, "weight", amount=0.25)
        found = [layer.weight, layer.weight_mask, list(dict(layer.named_parameters())), prune.is_pruned(layer)]
        prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
        found += [layer.weight, trained(m, layer, (2, 4), 1)]
        prune.custom_from_mask(layer, "bias", m.tensor([1.0, 0.0, 1.0]))
        prune.remove(layer, "weight")
        found += [layer.weight, layer.bias, dict(layer.state_dict())]
        m.manual_seed(1)
        net = filled(m, m.nn.Sequential(m.nn.Linear(4, 3), m.nn.Linear(3, 2)))
        prune.random_unstructured(net[0], "weight", amount=3)
        prune.random_structured(net[1], "weight", amount=1, dim=1)
        prune.global_unstructured([(net[0], "weight"), (net[1], "weight")], prune.L1Unstructured, amount=4)
        t = m.tensor([[1.0, -3.0], [0.5, 2.0]])
        return [*found, dict(net.state_dict()), net(m.ones(1, 4)), prune.L1Unstructured(2).prune(t)]

    same(program, 1e-5)


@needs_torch
def test_fusion() -> None:
    def program(m: Any) -> Any:
        u = m.nn.utils
        conv, bn = filled(m, m.nn.Conv2d(2, 3, 2)), m.nn.BatchNorm2d(3)
        bn.running_mean.copy_(m.tensor([0.5, -1.0, 2.0]))
        bn.running_var.copy_(m.tensor([0.5, 1.0, 2.0]))
        x = m.linspace(-1, 1, 32).reshape(1, 2, 4, 4)
        fused = u.fuse_conv_bn_eval(conv.eval(), bn.eval())
        line, norm = filled(m, m.nn.Linear(4, 3)).eval(), m.nn.BatchNorm1d(3).eval()
        both = u.fuse_linear_bn_eval(line, norm)
        return [fused(x), bn(conv(x)), both(m.ones(2, 4)), norm(line(m.ones(2, 4)))]

    same(program, 1e-5)


def test_skip_init_memory_format_and_functional_call() -> None:
    u = adjoint.nn.utils
    assert u.skip_init(adjoint.nn.Linear, 2, 3).weight.shape == (3, 2)
    with pytest.raises(RuntimeError, match="Expected a Module"):
        u.skip_init(int)
    conv = u.convert_conv2d_weight_memory_format(adjoint.nn.Conv2d(2, 3, 2), adjoint.channels_last)
    assert conv.weight.is_contiguous(memory_format=adjoint.channels_last)
    layer = adjoint.nn.Linear(2, 1, bias=False)
    with pytest.warns(FutureWarning, match="deprecated"):
        out = u.stateless.functional_call(layer, {"weight": adjoint.ones(1, 2)}, adjoint.ones(3, 2))
    assert out.tolist() == [[2.0]] * 3


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    nn = adjoint.nn
    shared = nn.Linear(8, 8)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), shared, nn.ReLU(), shared, nn.Linear(8, 2))
    net[0].weight.requires_grad_(False)
    found = nn.utils.summary(net, adjoint.zeros(3, 4))
    printed = capsys.readouterr().out
    assert str(found) in printed
    assert found.total_params == sum(p.numel() for p in net.parameters())
    assert found.total_params - found.trainable_params == 32
    assert "[3, 2]" in printed and "BatchNorm1d" in printed and "total" in printed
    assert found.total_bytes == 4 * found.total_params + 8 * 4 * 2 + 8
    assert net.training and net[1].num_batches_tracked.item() == 0
    assert nn.utils.summary(net, show=False).rows[1].shape == ""


@needs_torch
def test_names() -> None:
    assert set(torch.nn.utils.__all__) <= set(adjoint.nn.utils.__all__)
