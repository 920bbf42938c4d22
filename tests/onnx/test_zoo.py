"""The architectures of benchmarks/model_zoo.py as ONNX models: by onnxruntime, and read back, against eager."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.tree import tree_leaves

pytest.importorskip("onnx", reason="the onnx package is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from adjoint.onnx import export, load  # noqa: E402

from .test_forms import session_of  # noqa: E402

ZOO = Path(__file__).resolve().parents[2] / "benchmarks" / "model_zoo.py"
spec = importlib.util.spec_from_file_location("model_zoo_of_onnx", ZOO)
assert spec is not None and spec.loader is not None
zoo = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = zoo
spec.loader.exec_module(zoo)

# Small enough for a test; the sizes are parameters of the entries.
SIZES = {"LSTM language model": {"length": 8}, "GRU speech": {"frames": 10}, "neural ODE": {"steps": 4}}


@pytest.mark.parametrize("name", list(zoo.MODELS))
def test_an_architecture(name: str) -> None:
    adjoint.manual_seed(0)
    build = zoo.MODELS[name]
    known = build.__code__.co_varnames[: build.__code__.co_argcount]
    case = build(adjoint, **{k: v for k, v in SIZES.get(name, {}).items() if k in known})
    calls: dict[int, Any] = {}
    for at, module in enumerate(case.modules):
        if hasattr(module, "register_forward_pre_hook"):
            module.register_forward_pre_hook(
                lambda _, args, kwargs, at=at: calls.setdefault(at, (args, kwargs)) and None, with_kwargs=True
            )
    case.step(*case.modules, *case.data)
    if not calls:
        pytest.skip("the step calls parts of its module, not the module: there is no forward pass to export")
    for at, (args, kwargs) in calls.items():
        check(case.modules[at], args, kwargs)


def check(module: Any, args: Any, kwargs: Any) -> None:
    module._forward_pre_hooks.clear()
    module.eval()
    tensors = [v.detach() for v in tree_leaves((args, kwargs)) if isinstance(v, adjoint.Tensor)]
    if not all(isinstance(v, adjoint.Tensor) for v in tree_leaves((args, kwargs))):
        pytest.skip("it takes arguments that are not tensors")
    program = export(module, args, kwargs=kwargs)
    with adjoint.no_grad():
        expected = [v for v in tree_leaves(module(*args, **kwargs)) if isinstance(v, adjoint.Tensor)]
        again = load(program.model_proto).eval()(*tensors)
    session = session_of(program)
    names = {i.name for i in session.get_inputs()}
    given = {n: v.numpy() for n, v in zip(program.input_names, tensors, strict=True) if n in names}
    results = [
        session.run(None, given),
        [v.detach().numpy() for v in (again if isinstance(again, tuple) else (again,))],
    ]
    for found in results:
        for ours, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, wanted.numpy(), rtol=1e-4, atol=1e-4)
