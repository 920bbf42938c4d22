"""Overrides: what a device attaches to primitives belongs to some, and only its own arrays meet it."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint
import adjoint.ops.attention
from adjoint.core.nodes import registry
from adjoint.devices.cpu.attached import override as cpu
from adjoint.devices.overrides import Overrides


def test_every_override_belongs_to_a_primitive() -> None:
    for name, gradient in cpu.rows:
        assert name in registry, name
        assert not gradient or gradient == "joint" or gradient in registry[name].inputs, (name, gradient)


def test_rows_are_tried_in_order_and_the_definition_comes_last() -> None:
    table = Overrides()
    table("double", least=4)(lambda x: NotImplemented)
    table("double", least=4, when=lambda x: x.ndim == 1)(lambda x: "override")
    kernel = table.kernel("double", lambda x: "definition", (np.ndarray,))
    assert [kernel(np.ones(s)) for s in (3, 4, (2, 2))] == ["definition", "override", "definition"]
    assert kernel(adjoint.ones(8)) == "definition"


@pytest.mark.parametrize("saved", [np.ones(2), None])
def test_a_rule_is_overridden_where_all_of_its_arrays_are_the_device_s(saved: object) -> None:
    table = Overrides()
    table("double", "x")(lambda g, x, n: "override")
    rule = table.rule("double", "x", lambda g, x, n: "rule", (np.ndarray,), ("x", "n"), ("x", "out"))
    assert rule(np.ones(2), saved, 1) == "override"
    assert rule(np.ones(2), adjoint.ones(2), 1) == rule(adjoint.ones(2), saved, 1) == "rule"
