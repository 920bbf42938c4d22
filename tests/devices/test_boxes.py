"""A third device passes the operator table: value and gradients of every primitive equal the CPU's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.core.nodes import registry
from adjoint.devices import contract
from tests.ops.samples import Sample, samples

from .boxes import Box, Boxes, boxes

HERE = boxes.name
NO_GRADIENT = {"standard_gamma_grad", "dirichlet_grad", "qr_r"}  # whose derivatives are refused, as in torch


def _computed(name: str, sample: Sample, place: str) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    """Return values and gradients of a sample on a device; constants of its program are made there too."""
    with adjoint.device(place):
        leaves = [adjoint.tensor(a, requires_grad=a.dtype.kind in "fc") for a in sample.arrays]
        result = sample.program(*leaves)
        found = list(result) if isinstance(result, tuple | list) else [result]
        if name != "move":  # which moves to the CPU
            assert all(p.device.type == place for p in found), [p.device for p in found]
            assert all(isinstance(p.array, Box) == (place == HERE) for p in found)
        roots = [p for p in found if p.requires_grad and name not in NO_GRADIENT]
        wanted = [x for x in leaves if x.requires_grad]
        grads: list[Any] = [None] * len(wanted)
        if roots and wanted:
            weights = [np.cos(np.arange(p.numel())).reshape(tuple(p.shape)) for p in roots]
            cotangents = [adjoint.tensor(w).to(p) for w, p in zip(weights, roots, strict=True)]
            grads = list(adjoint.autograd.grad(roots, wanted, cotangents, allow_unused=True))
        assert name == "move" or all(g is None or g.device.type == place for g in grads)
    return [_numbers(p) for p in found], [None if g is None else _numbers(g) for g in grads]


def _numbers(x: Any) -> np.ndarray:
    return np.array(x.detach().cpu().resolve_conj().resolve_neg().numpy())


@pytest.mark.parametrize(
    "name",
    sorted(registry),
)
def test_a_primitive_computes_what_the_cpu_does(name: str) -> None:
    for sample in samples(name):
        (values, grads), (expected, wanted) = (_computed(name, sample, place) for place in (HERE, "cpu"))
        for a, b in [*zip(values, expected, strict=True), *zip(grads, wanted, strict=True)]:
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                assert a.dtype == b.dtype and a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_model_trains_there_as_on_the_cpu() -> None:
    def trained(place: str) -> list[np.ndarray]:
        adjoint.manual_seed(3)
        nn = adjoint.nn
        model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 3))
        model, x, y = model.to(place), adjoint.randn(16, 6).to(place), adjoint.randint(3, (16,)).to(place)
        optimizer = adjoint.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            adjoint.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        assert all(p.device.type == place for p in model.parameters())
        return [_numbers(p) for p in model.parameters()]

    for a, b in zip(trained(HERE), trained("cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_transforms_run_there() -> None:
    x, w = adjoint.randn(4, 3), adjoint.randn(3)
    there, loss = x.to(HERE), lambda w, x: (adjoint.tanh(x * w) ** 2).sum()
    per_sample = adjoint.vmap(adjoint.func.grad(loss), (None, 0))
    assert adjoint.allclose(per_sample(w.to(HERE), there).cpu(), per_sample(w, x), atol=1e-6)
    pushed = adjoint.func.jvp(lambda w: loss(w, there), (w.to(HERE),), (w.to(HERE),))
    assert adjoint.allclose(pushed[1].cpu(), adjoint.func.jvp(lambda w: loss(w, x), (w,), (w,))[1], atol=1e-6)


def test_a_compiled_function_runs_eagerly_there() -> None:
    step = adjoint.compile(lambda x: (x * 2).sum())
    with pytest.warns(RuntimeWarning, match="device 'privateuseone' has no compiled programs"):
        assert float(step(adjoint.ones(3, device=HERE))) == 6


def test_a_tensor_there_is_printed_indexed_and_moved_back() -> None:
    x = adjoint.arange(6.0, device=HERE).reshape(2, 3)
    assert repr(x) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='privateuseone:0')"
    x[0] = 7
    assert x.tolist() == [[7, 7, 7], [3, 4, 5]] and x[1].sum().item() == 12 and bool((x > 2).all())
    assert x.cpu().device == adjoint.device("cpu") and type(x.cpu().array) is np.ndarray
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + adjoint.ones(2, 3)


def test_devices_are_known_by_name_and_by_class() -> None:
    assert contract.by_name[HERE] is boxes is contract.of(Box(np.ones(2)))  # type: ignore[arg-type]
    assert contract.register(boxes) is boxes
    with pytest.raises(ValueError, match="there is a device 'privateuseone' already: Boxes"):
        contract.register(Boxes())


def test_the_operator_table_agrees_with_torch() -> None:
    pytest.importorskip("torch", reason="torch's operator table is compared with torch")
    names = "^(add|softmax|sum|mean|amax|sort|topk|matmul|linalg.solve|cumsum|where|nn.functional.(gelu|layer_norm))$"
    command = f"-m tests.conformance.runner --device {HERE} --samples 2 --checks forward,grad --jobs 1 --failing"
    done = subprocess.run(
        [sys.executable, *command.split(), "--ops", names],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.count("(100.0%)   fail 0, missing 0") == 2, done.stdout[-4000:] + done.stderr[-2000:]


def test_a_tensor_there_is_saved_and_loaded(tmp_path: Path) -> None:
    x = adjoint.randn(2, 3, device=HERE)
    adjoint.save({"x": x, "turned": x.t()}, tmp_path / "x.adj")
    found = adjoint.load(tmp_path / "x.adj")
    assert found["x"].device == x.device and adjoint.equal(found["turned"].cpu(), x.t().cpu())
    assert adjoint.load(tmp_path / "x.adj", map_location="cpu")["x"].device == adjoint.device("cpu")


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: adjoint.nn.LSTM(3, 4), (5, 2, 3)),
        (lambda: adjoint.nn.TransformerEncoderLayer(8, 2, 16), (5, 2, 8)),
        (lambda: adjoint.nn.Sequential(adjoint.nn.Conv2d(3, 4, 3), adjoint.nn.BatchNorm2d(4)), (2, 3, 5, 5)),
    ],
    ids=["lstm", "transformer", "convolution"],
)
def test_layers_run_there(layer: Any, shape: tuple[int, ...]) -> None:
    model = layer().to(HERE).train()
    out = model(adjoint.randn(*shape, device=HERE))
    out = out[0] if isinstance(out, tuple) else out
    out.square().sum().backward()
    assert out.device.type == HERE and all(p.grad.device.type == HERE for p in model.parameters())
    assert float(adjoint.nn.utils.clip_grad_norm_(model.parameters(), 1.0)) > 0
