"""Exported programs and traced modules on disk: round trips, dynamic sizes, files that are not what they should be."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.export import Dim, ExportError, export, load, save
from adjoint.serialization.sources import FileFormatError


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.pool, self.last = nn.AvgPool2d(3, 2, 1), nn.Linear(2, 3)
        self.register_buffer("scale", adjoint.tensor([2.0, float("inf")]))

    def forward(self, x: Any, *, names: tuple[str, ...] = ()) -> dict[str, Any]:
        y = self.pool(self.norm(self.conv(x)).relu())
        mask = adjoint.tril(adjoint.ones(x.shape[0], x.shape[0]))
        return {"rows": self.last(y.mean((2, 3))), "rest": [mask @ y.amax((1, 2, 3)), adjoint.arange(x.shape[0]) * 2]}


def again(program: Any) -> Any:
    file = io.BytesIO()
    save(program, file)
    return load(io.BytesIO(file.getvalue()))


def test_a_program_is_saved_and_runs_at_other_sizes() -> None:
    model = Model().eval()
    x = adjoint.randn(4, 1, 6, 6)
    batch = Dim("batch", min=1, max=8)
    program = again(export(model, (x,), dynamic_shapes={"x": {0: batch}}))
    assert program.range_constraints == {"batch": (1, 8)}
    assert program.graph_signature.parameters == tuple(n for n, _ in model.named_parameters())
    assert program.graph_signature.buffers == tuple(n for n, _ in model.named_buffers())
    module = program.module()
    assert sorted(module.state_dict()) == sorted(program.state_dict)
    for n in (4, 1, 7):
        x = adjoint.randn(n, 1, 6, 6)
        found, expected = module(x), model(x)
        assert adjoint.allclose(found["rows"], expected["rows"], atol=1e-6)
        assert all(adjoint.allclose(a, b) for a, b in zip(found["rest"], expected["rest"], strict=True))
    module(x)["rows"].sum().backward()
    model(x)["rows"].sum().backward()
    assert adjoint.allclose(dict(module.named_parameters())["conv.weight"].grad, model.conv.weight.grad, atol=1e-5)
    with pytest.raises(AssertionError, match=r"x\.size\(\)\[0\] is 9, which is not batch of a batch from 1 to 8"):
        module(adjoint.randn(9, 1, 6, 6))
    with pytest.raises(AssertionError, match=r"x\.size\(\) == \['batch', 1, 6, 6\], but got \[4, 1, 6, 7\]"):
        module(adjoint.randn(4, 1, 6, 7))


def test_derived_and_shared_sizes() -> None:
    def f(self: Any, x: Any, y: Any) -> Any:
        return x.reshape(-1, 2).sum(1) + y

    module = type("Pairs", (nn.Module,), {"forward": f})()
    half = Dim("half", min=2)
    program = again(export(module, (adjoint.arange(6.0), adjoint.ones(3)), dynamic_shapes=({0: 2 * half}, {0: half})))
    assert program.module()(adjoint.arange(10.0), adjoint.ones(5)).tolist() == [2.0, 6.0, 10.0, 14.0, 18.0]
    with pytest.raises(AssertionError, match="but half is 5"):
        program.module()(adjoint.arange(10.0), adjoint.ones(4))


def test_a_file_needs_no_class_and_no_pickle(tmp_path: Path) -> None:
    model, x = Model().eval(), adjoint.randn(2, 1, 4, 4)
    save(export(model, (x,)), tmp_path / "m.pt2", extra_files={"note": "digits"})
    np.save(tmp_path / "x.npy", x.numpy())
    with zipfile.ZipFile(tmp_path / "m.pt2") as archive:
        assert archive.namelist() == ["program.json", "weights.safetensors", "extra/note"]
        assert json.loads(archive.read("program.json"))["version"] == 1
    extra = {"note": ""}
    load(tmp_path / "m.pt2", extra_files=extra)
    assert extra == {"note": b"digits"}
    script = (
        "import sys, numpy, adjoint\n"
        "out = adjoint.export.load('m.pt2').module()(adjoint.from_numpy(numpy.load('x.npy')))\n"
        "numpy.save('y.npy', out['rows'].detach().numpy()); print('pickle' in sys.modules and 'Model' in dir())\n"
    )
    path = os.pathsep.join(filter(None, (str(Path(adjoint.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x)["rows"].detach().numpy(), rtol=1e-6)


def test_what_cannot_be_saved() -> None:
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram', got 'int'"):
        save(1, io.BytesIO())  # type: ignore[arg-type]
    with pytest.raises(ExportError, match=r"random\.\w+ at .*test_export_files\.py.*eval mode"):
        save(export(nn.Sequential(nn.Dropout(0.5), Noise()), (adjoint.ones(3),)), io.BytesIO())


class Noise(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + adjoint.randn_like(x)


def test_damaged_files_are_refused() -> None:
    """Files with bytes changed or cut: each is refused, or loads as a program."""
    file = io.BytesIO()
    save(export(Model().eval(), (adjoint.ones(2, 1, 4, 4),), dynamic_shapes={"x": {0: "n"}}), file)
    whole, random = file.getvalue(), np.random.default_rng(0)
    loaded = refused = 0
    for _ in range(400):
        data = bytearray(whole)
        if random.integers(3) == 0:
            del data[random.integers(len(data)) :]
        else:
            data[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
        try:
            load(io.BytesIO(bytes(data)))
            loaded += 1
        except FileFormatError:
            refused += 1
    assert loaded + refused == 400 and refused > 200, (loaded, refused)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update(version=9), r"version 9 of the format.*install a newer adjoint-autograd"),
        (lambda p: p.update(format="other"), "not an exported program of adjoint"),
        (lambda p: p["calls"][0].update(op="os.system"), "'os.system', which this version"),
        (lambda p: p["calls"].reverse(), "before it is made"),
        (lambda p: p["calls"].append(p["calls"][0]), "makes one twice"),
        (lambda p: p["values"]["1"].update(shape=[-1]), "impossible shape"),
        (lambda p: p["values"]["1"].update(dtype="object_"), "dtype|damaged"),
        (lambda p: p.update(outputs=[{"value": 10**6}]), "damaged"),
        (lambda p: p.update(takes={"tuple": []}), "structure of arguments"),
        (lambda p: p["state"].update({"conv.weight": p["state"]["conv.bias"]}), "before it is made|has another"),
        (lambda p: p.pop("calls"), "damaged: KeyError"),
        (lambda p: p["calls"][0].update(op="as_strided"), "'as_strided', which this version"),
        (lambda p: p.update(writes=[[p["calls"][-1]["outputs"][0], 1]]), "made by no line"),
        (lambda p: p["calls"][-1].update(params=[{"recipe": "os.system", "args": [], "first": 1}]), "unknown windows"),
        (lambda p: p["calls"][-1].update(params=[{"size": ["pow", 1, 1], "first": 1}]), "unknown arithmetic"),
    ],
)  # fmt: skip
def test_inconsistent_programs_are_refused(change: Any, message: str) -> None:
    file = io.BytesIO()
    save(export(Model().eval(), (adjoint.ones(2, 1, 4, 4),)), file)
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as archive:
        program, weights = json.loads(archive.read("program.json")), archive.read("weights.safetensors")
    change(program)
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as archive:
        archive.writestr("program.json", json.dumps(program))
        archive.writestr("weights.safetensors", weights)
    with pytest.raises(FileFormatError, match=message):
        load(io.BytesIO(changed.getvalue()))


def test_zip_bombs_are_refused() -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("program.json", b" " * (1 << 24))
    assert len(bomb.getvalue()) < 1 << 15
    with pytest.raises(FileFormatError, match="compressed or encrypted"):
        load(io.BytesIO(bomb.getvalue()))


def test_programs_with_parts_exchanged() -> None:
    """Programs in which values of the JSON were replaced, exchanged or removed: refused, or loaded; what runs ends."""
    model = nn.Sequential(Rows(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 3)).eval()
    file = io.BytesIO()
    save(export(model, (adjoint.ones(3, 1, 4, 4),), dynamic_shapes=({0: "n"},)), file)
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as archive:
        whole, weights = archive.read("program.json"), archive.read("weights.safetensors")
    random = np.random.default_rng(0)
    values = [None, -1, 10**6, 1 << 63, 1e308, "", "conv", "max_pool2d", "take_region", [], {}, {"value": 1},
              {"size": ["mul", ["axis", 1, 0], 1 << 62], "first": 3}, {"slice": [None, None, 0]}]  # fmt: skip
    refused = 0
    for _ in range(300):
        program = json.loads(whole)
        places = list(_places(program))
        holder, key = places[random.integers(len(places))]
        other = places[random.integers(len(places))]
        kind = random.integers(3)
        holder[key] = values[random.integers(len(values))] if kind else json.loads(json.dumps(other[0][other[1]]))
        changed = io.BytesIO()
        with zipfile.ZipFile(changed, "w") as archive:
            archive.writestr("program.json", json.dumps(program))
            archive.writestr("weights.safetensors", weights)
        try:
            module = load(io.BytesIO(changed.getvalue())).module()
        except FileFormatError:
            refused += 1
            continue
        try:
            module(adjoint.ones(3, 1, 4, 4))
        except Exception:  # ops refuse arguments that make no sense
            continue
    assert refused > 100


class Rows(nn.Module):
    def forward(self, x: Any) -> Any:
        return adjoint.cat([x, x.detach() * 2])[: x.shape[0]]


def _places(held: Any) -> Any:
    """Yield every place of nested lists and dicts: what holds it, and its key."""
    for key in held if isinstance(held, dict) else range(len(held)):
        yield held, key
        if isinstance(held[key], dict | list):
            yield from _places(held[key])


# --- jit.trace ----------------------------------------------------------------------------------------


def test_a_traced_module_is_saved_and_takes_other_sizes(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    traced = adjoint.jit.trace(model, adjoint.ones(5, 3))
    assert list(traced.state_dict()) == list(model.state_dict()) and isinstance(traced, adjoint.jit.ScriptModule)
    traced.save(tmp_path / "m.pt")
    adjoint.jit.save(traced, tmp_path / "n.pt")
    for path in ("m.pt", "n.pt"):
        again = adjoint.jit.load(tmp_path / path)
        x = adjoint.randn(9, 3)
        assert adjoint.allclose(again(x), model(x), atol=1e-6)
    again(x).sum().backward()
    assert dict(again.named_parameters())["0.weight"].grad is not None
    with pytest.raises(NotImplementedError, match="state_dict"):
        adjoint.jit.save(model, tmp_path / "o.pt")
    with pytest.raises(FileFormatError, match="not an exported program"):
        (tmp_path / "bad").write_bytes(b"no zip")
        adjoint.jit.load(tmp_path / "bad")


def test_a_traced_function_whose_sizes_are_fixed() -> None:
    def f(x: Any) -> Any:
        return sum(x[i] * i for i in range(len(x)))

    traced = adjoint.jit.trace(f, (adjoint.ones(3, 2),))
    assert traced(adjoint.ones(3, 2)).tolist() == [3.0, 3.0]
    with pytest.raises(AssertionError, match="Guard failed"):
        traced(adjoint.ones(4, 2))
    with pytest.raises(ExportError, match=r"depends on bool\(\)"):
        adjoint.jit.trace(lambda x: x if x.sum() > 0 else -x, adjoint.ones(2))
