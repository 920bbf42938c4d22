"""Exported programs: one run of a module as a list that can be read and run again."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
from adjoint import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(4, 3)

    def forward(self, x: Any, *, scale: float = 1.0) -> dict[str, Any]:
        y = self.norm(self.conv(x)).relu()
        a, b = y.split(1, 1)
        return {"sum": (a + b) * scale, "rows": self.last(y.flatten(2))}


def test_a_program_runs_as_the_module_does_and_trains() -> None:
    model, x = Model().eval(), adjoint.randn(2, 1, 4, 4)
    program = adjoint.export.export(model, (x,), {"scale": 3.0})
    again, x = program.module(), adjoint.randn(2, 1, 4, 4)
    assert list(again.state_dict()) == list(model.state_dict())
    out, expected = again(x, scale=3.0), model(x, scale=3.0)
    assert adjoint.equal(out["sum"], expected["sum"]) and adjoint.equal(out["rows"], expected["rows"])
    out["rows"].sum().backward()
    grad = model.last.weight.grad
    model.zero_grad()
    model(x)["rows"].sum().backward()
    assert adjoint.equal(grad, model.last.weight.grad)
    with pytest.raises(AssertionError, match=r"Guard failed: input_1\.size\(\) == \[2, 1, 4, 4\]|Guard failed: x"):
        again(adjoint.randn(3, 1, 4, 4), scale=3.0)
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(x)


def test_sizes_may_differ_where_they_are_dynamic() -> None:
    model = Model().eval()
    batch = adjoint.export.Dim("batch")
    program = adjoint.export.export(model, (adjoint.randn(2, 1, 4, 4),), dynamic_shapes={"x": {0: batch}})
    x = adjoint.randn(5, 1, 4, 4)
    assert adjoint.equal(program.module()(x)["rows"], model(x)["rows"])


def test_the_graph_can_be_read_and_run() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    x = adjoint.randn(1, 2)
    program = adjoint.export.export(model, (x,))
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == [
        "aten.linear.default",
        "aten.relu.default",
    ]
    signature = program.graph_signature
    assert signature.parameters == ("0.weight", "0.bias") and signature.user_inputs == ("input",)
    assert signature.inputs_to_parameters == {"p_0_weight": "0.weight", "p_0_bias": "0.bias"}
    assert adjoint.equal(program.graph_module(*program.parameters(), x)[0], model(x))


def test_what_cannot_be_exported() -> None:
    with pytest.raises(ValueError, match="Expected `mod` to be an instance of"):
        adjoint.export.export(len, (adjoint.ones(1),))
    with pytest.raises(TypeError, match="Expecting `args` to be a tuple"):
        adjoint.export.export(nn.ReLU(), adjoint.ones(1))
