"""The models of the programs in examples/ as ONNX models: by onnxruntime, and read back, against eager.

A program is run as far as the line that makes its model; it does not train.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint

pytest.importorskip("onnx", reason="the onnx package is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from adjoint.onnx import OnnxExporterError, export, load

from .test_export import check

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def model_of(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the model that an example calls `variable`, in eval mode."""
    monkeypatch.setattr(sys, "argv", [name, "--short"])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    source = (EXAMPLES / f"{name}.py").read_text()
    lines = ast.parse(source).body
    at = next(i for i, line in enumerate(lines) if variable in _assigned(line))
    start = ast.Module(lines[: at + 1], [])
    names: dict[str, Any] = {"__name__": name, "__file__": str(EXAMPLES / f"{name}.py")}
    exec(compile(start, f"{name}.py", "exec"), names)
    return names[variable].eval()


def _assigned(line: ast.stmt) -> set[str]:
    if not isinstance(line, ast.Assign):
        return set()
    return {node.id for target in line.targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def words(*shape: int) -> Any:
    return adjoint.randint(0, 20, shape)


# By program, what it calls its model, and a function of a batch size that makes its inputs.
MODELS = {
    "char_gpt": ("model", lambda n: (words(n, 8),)),
    "digits_cnn": ("model", lambda n: (adjoint.rand(n, 1, 12, 12),)),
    "digits_mlp": ("model", lambda n: (adjoint.rand(n, 1, 12, 12),)),
    "lstm_text": ("model", lambda n: (words(n, 6),)),
    "maml": ("model", lambda n: (adjoint.rand(n, 1),)),
    "neural_ode": ("field", lambda n: (adjoint.rand(n, 2),)),
    "pinn_burgers": ("model", lambda n: (adjoint.rand(n, 2),)),
    "policy_gradient": ("policy", lambda n: (adjoint.rand(n, 4),)),
    "wgan_gp": ("generator", lambda n: (adjoint.rand(n, 4),)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_model_of_an_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adjoint.manual_seed(0)
    variable, inputs = MODELS[name]
    model = model_of(name, variable, monkeypatch)
    first, more = inputs(3), inputs(5)
    program = check(model, tmp_path / "m.onnx", first, more, dynamic_shapes=({0: "batch"},))
    again = load(program.model_proto).eval()
    with adjoint.no_grad():
        found, expected = again(*more), model(*more)
    for ours, wanted in zip(_leaves(found), _leaves(expected), strict=True):
        assert adjoint.allclose(ours, wanted, atol=1e-4)


def _leaves(value: Any) -> list[Any]:
    return [v for v in adjoint.tree.tree_leaves(value) if isinstance(v, adjoint.Tensor)]


def test_the_parts_of_the_autoencoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole looks at its values, as distributions check theirs, and is refused; its two halves are exported."""
    model = model_of("vae", "model", monkeypatch)
    with pytest.raises(OnnxExporterError, match=r"vae\.py:\d+"):
        export(model, (adjoint.rand(2, 1, 12, 12),))
    check(model.encoder, tmp_path / "e.onnx", (adjoint.rand(2, 1, 12, 12),))
    width = model.decoder[0].in_features
    calls = [(adjoint.rand(n, width),) for n in (2, 4)]
    check(model.decoder, tmp_path / "d.onnx", *calls, dynamic_shapes=({0: "n"},))


def test_an_equilibrium_that_is_sought_until_it_is_found_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("deep_equilibrium", "model", monkeypatch)
    with pytest.raises(OnnxExporterError, match=r"deep_equilibrium\.py:\d+"):
        export(model, (adjoint.rand(2, 2),))
