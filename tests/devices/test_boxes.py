"""A third device passes the operator table: value and gradients of every primitive equal the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.core.nodes import registry
from tests.ops.samples import Sample, samples

from .boxes import Box, boxes

HERE = boxes.name

# What a primitive cannot do on another device, and why.
EXEMPT: dict[str, str] = {}


def _parts(result: Any) -> list[Any]:
    return [p for p in (result if isinstance(result, tuple | list) else [result]) if isinstance(p, adjoint.Tensor)]


def _computed(sample: Sample, place: str) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    """Return values and gradients of a sample on a device; constants of its program are made there too."""
    with adjoint.device(place):
        leaves = [adjoint.tensor(a, requires_grad=a.dtype.kind in "fc") for a in sample.arrays]
        found = _parts(sample.program(*leaves))
        assert all(p.device.type == place for p in found), [p.device for p in found]
        assert place == "cpu" or all(isinstance(p.array, Box) for p in found)
        roots = [p for p in found if p.requires_grad]
        wanted = [x for x in leaves if x.requires_grad]
        grads: list[Any] = [None] * len(wanted)
        if roots and wanted:
            cotangents = [
                adjoint.tensor(np.cos(np.arange(p.numel())).reshape(tuple(p.shape))).to(p.dtype) for p in roots
            ]
            grads = list(adjoint.autograd.grad(roots, wanted, cotangents, allow_unused=True))
        assert all(g is None or g.device.type == place for g in grads)
    return [_numbers(p) for p in found], [None if g is None else _numbers(g) for g in grads]


def _numbers(x: Any) -> np.ndarray:
    return np.array(x.detach().cpu().resolve_conj().resolve_neg().numpy())


@pytest.mark.parametrize("name", [n for n in sorted(registry) if n not in EXEMPT])
def test_a_primitive_computes_what_the_cpu_does(name: str) -> None:
    for sample in samples(name):
        (values, grads), (expected, wanted) = _computed(sample, HERE), _computed(sample, "cpu")
        for a, b in [*zip(values, expected, strict=True), *zip(grads, wanted, strict=True)]:
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                assert a.dtype == b.dtype and a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
