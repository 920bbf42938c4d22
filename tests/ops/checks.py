"""What every op that moves elements must pass, whatever it is: driven by tables in the test files beside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint
from adjoint.autograd import forward_ad
from adjoint.core.nodes import wrap
from adjoint.core.payload import Level
from adjoint.ops.create import require_grad
from adjoint.payloads.batched import Batched
from tests.oracle import plain, same

Program = Callable[..., Any]


def arrays(*shapes: Any) -> list[np.ndarray]:
    """Return one array per shape (or the array itself), all values different and none zero."""
    found = []
    for k, shape in enumerate(shapes):
        if isinstance(shape, np.ndarray):
            found.append(shape)
        else:
            size = int(np.prod(shape))
            found.append((1.5 + np.sin(np.arange(size) * 1.7 + k)).reshape(shape))
    return found


def floating(array: np.ndarray) -> bool:
    return array.dtype.kind in "fc"


def tensors(m: Any, values: list[np.ndarray]) -> list[Any]:
    return [m.tensor(v, requires_grad=floating(v)) for v in values]


def floats(result: Any) -> list[Any]:
    """Return the differentiable tensors of a result."""
    parts = result if isinstance(result, tuple | list) else [result]
    return [p for p in parts if p.dtype.is_floating_point or p.dtype.is_complex]


def weighted(m: Any, result: Any) -> Any:
    """Return a scalar that depends on every element of a result in its own, nonlinear way."""
    total: Any = 0
    for part in floats(result):
        weight = m.tensor(np.cos(np.arange(part.numel()) * 0.9).reshape(tuple(part.shape)))
        value = (part * part.conj()).real if part.is_complex() else part * part
        total = total + (value * weight).sum()
    return total


def geometry(m: Any, f: Program, values: list[np.ndarray]) -> Any:
    """Return values, strides, whether results are views of the first input, and names of nodes."""
    xs = [x * 1 if x.requires_grad else x for x in tensors(m, values)]
    result = f(m, *xs)
    parts = result if isinstance(result, tuple | list) else [result]
    return [[p, strides(p), p._is_view()] for p in parts]


def strides(x: Any) -> list[int]:
    """Return the strides that lead anywhere; those of dimensions of size 1, and of no elements, do not."""
    return [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1] if x.numel() else []


def gradients(m: Any, f: Program, values: list[np.ndarray]) -> Any:
    """Return first gradients, and gradients of a nonlinear function of these."""
    xs = tensors(m, values)
    wanted = [x for x in xs if x.requires_grad]
    total = weighted(m, f(m, *[x * 1 if x.requires_grad else x for x in xs]))
    first = m.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
    again = weighted(m, [g for g in first if g is not None])
    second: Any = [None] * len(wanted)
    if getattr(again, "requires_grad", False):
        second = m.autograd.grad(again, wanted, allow_unused=True)
    return [[None if g is None else plain(g.detach()) for g in first], [_dense(g) for g in second]]


def _dense(g: Any) -> Any:
    """Return a gradient; one that is zero everywhere equals none at all."""
    return None if g is None or not bool((g != 0).any()) else plain(g)


def against_torch(f: Program, *shapes: Any, views: bool = True) -> None:
    """Compare values, geometry and two orders of gradients with torch's."""
    values = arrays(*shapes)
    if views:
        same(lambda m: geometry(m, f, values))
    else:
        same(lambda m: f(m, *tensors(m, values)))
    if any(floating(v) for v in values):
        same(lambda m: gradients(m, f, values), 1e-9)


def forward_matches_reverse(f: Program, *shapes: Any) -> None:
    """Check that pushing tangents forward and pulling gradients back are transposes of each other."""
    values = arrays(*shapes)
    tangents = [np.cos(np.arange(v.size) + 0.5).reshape(v.shape) for v in values]
    xs = tensors(adjoint, values)
    total = weighted(adjoint, f(adjoint, *xs))
    wanted = [x for x in xs if x.requires_grad]
    pulled = adjoint.autograd.grad(total, wanted, allow_unused=True)
    expected = 0.0
    used = [t for x, t in zip(xs, tangents, strict=True) if x.requires_grad]
    for g, t in zip(pulled, used, strict=True):
        expected += 0.0 if g is None else float((g.detach().numpy() * t).sum())
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(x.detach(), adjoint.tensor(t)) if x.requires_grad else x
            for x, t in zip(xs, tangents, strict=True)
        ]
        pushed = forward_ad.unpack_dual(weighted(adjoint, f(adjoint, *duals))).tangent
    assert pushed is not None
    np.testing.assert_allclose(float(pushed), expected, rtol=1e-9)


def batched_matches_loop(f: Program, *shapes: Any, gradient: bool = True) -> None:
    """Check that a batch gives what its elements give one by one, values and gradients."""
    values = arrays(*shapes)
    batch = [np.stack([v, v[..., ::-1] * 0.5 if floating(v) and v.ndim else v, v]) for v in values]
    rows = []
    for i in range(3):
        rows.append(_numbers(f, tensors(adjoint, [b[i] for b in batch]), gradient))
    with Level() as level:
        inside = []
        for b in batch:
            x = wrap(Batched(b, level))
            if floating(b) and gradient:
                require_grad(x)
            inside.append(x)
        found = _numbers(f, inside, gradient)
    for k, part in enumerate(found):
        wanted = np.stack([np.asarray(row[k]) for row in rows])
        got = _whole(part)
        np.testing.assert_allclose(np.broadcast_to(got, wanted.shape), wanted, rtol=1e-9, atol=1e-12)


def _numbers(f: Program, xs: list[Any], gradient: bool) -> list[Any]:
    result = f(adjoint, *xs)
    parts = list(result) if isinstance(result, tuple | list) else [result]
    found = [p.array for p in parts]
    wanted = [x for x in xs if x.requires_grad]
    if gradient and wanted:
        grads = adjoint.autograd.grad(weighted(adjoint, result), wanted, allow_unused=True)
        found += [g.array for g in grads if g is not None]
    return found


def _whole(value: Any) -> Any:
    if isinstance(value, Batched):
        inner = value.value
        return inner.array if hasattr(inner, "array") else inner
    return np.asarray(value)[None]
