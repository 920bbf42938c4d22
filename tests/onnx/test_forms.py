"""Primitives in ONNX: the sample inputs of every primitive through onnxruntime, against eager."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.core.nodes import registry
from adjoint.tree import tree_leaves

from ..ops.samples import samples

pytest.importorskip("onnx", reason="the onnx package is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from adjoint.onnx import OnnxExporterError, export  # noqa: E402


def session_of(program: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def single(array: Any) -> Any:
    """Return an array in single precision: of double, onnxruntime has few operators."""
    return array.astype(np.float32) if array.dtype == np.float64 else array


def tried(name: str) -> str:
    """Return what became of a primitive's samples: ``"exact"``, or why not."""
    said = "no sample"
    for sample in samples(name):
        if any(np.iscomplexobj(a) for a in sample.arrays):
            continue  # ONNX has no operators of complex numbers
        arrays = [adjoint.from_numpy(single(np.array(a))) for a in sample.arrays]
        try:
            expected = [v for v in tree_leaves(sample.program(*arrays)) if isinstance(v, adjoint.Tensor)]
            if any(v.is_complex() for v in expected):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = export(sample.program, tuple(arrays))
        except OnnxExporterError as error:
            return str(error)
        except (TypeError, RuntimeError, ValueError) as error:
            return f"sample: {type(error).__name__}: {error}"
        try:
            session = session_of(program)
        except Exception as error:  # onnxruntime has not every operator for every dtype
            return f"onnxruntime: {error}"
        given = {n: a.numpy() for n, a in zip(program.input_names, arrays, strict=True)}
        given = {n: a for n, a in given.items() if n in {i.name for i in session.get_inputs()}}
        for found, wanted in zip(session.run(None, given), expected, strict=True):
            assert found.shape == wanted.shape and found.dtype == wanted.numpy().dtype, name
            np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=2e-4, atol=2e-5, err_msg=name)
        said = "exact"
    return said


# Primitives whose forms are not exercised by a sample, or of which ONNX can say no more than one part.
NO_FORM = re.compile("cannot be exported to ONNX|the program depends on")


@pytest.mark.parametrize("name", sorted(registry))
def test_a_primitive_computes_in_onnx_what_it_computes_here_or_is_refused_by_its_name(name: str) -> None:
    said = tried(name)
    if said in ("exact", "no sample"):
        return
    if NO_FORM.search(said) is None:
        assert said.startswith("sample: "), said  # the sample itself is for double precision
    assert not said.startswith("onnxruntime"), said


def test_elementwise_primitives_are_printed_from_their_formulas() -> None:
    x = adjoint.linspace(-3, 3, 50)
    program = export(
        lambda x: adjoint.nn.functional.softsign(x) + adjoint.logaddexp(x, x * x) - adjoint.atan2(x, x - 1), (x,)
    )
    kinds = Counter(node.op_type for node in program.model_proto.graph.node)
    assert kinds["Atan"] == 1 and kinds["Softplus"] == 1
    (found,) = program(x)
    expected = adjoint.nn.functional.softsign(x) + adjoint.logaddexp(x, x * x) - adjoint.atan2(x, x - 1)
    assert adjoint.allclose(found, expected, atol=1e-5)
