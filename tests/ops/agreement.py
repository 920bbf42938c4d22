"""Functions of layers on adjoint and on torch: values, gradients, gradients of gradients, batches, tangents."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

import adjoint
from adjoint.core.nodes import wrap
from adjoint.core.payload import Level
from adjoint.payloads.batched import Batched
from tests.oracle import torch


def numbers(*shape: int, seed: int = 0, kind: str = "f") -> np.ndarray:
    rng = np.random.default_rng((seed, *shape))
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if kind == "c" else x


def call(module: Any, name: str, args: Any, kwargs: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = getattr(module.nn.functional, name)(*args, **kwargs)
    return list(out) if isinstance(out, tuple | list) else [out]


def orders(module: Any, name: str, arrays: Any, rest: Any, kwargs: Any) -> dict[str, list[np.ndarray]]:
    """Return values, first and second gradients of a function of float64 tensors."""
    leaves = [module.from_numpy(a.copy()).requires_grad_() for a in arrays]
    outs = call(module, name, (*leaves, *rest), kwargs)
    found = {"value": [o.detach().numpy() for o in outs]}
    outs = [o for o in outs if o.requires_grad]
    cotangents = [module.from_numpy(_like(o, 1)).requires_grad_() for o in outs]
    first = module.autograd.grad(outs, leaves, cotangents, create_graph=True, allow_unused=True)
    found["gradient"] = [g.detach().numpy() if g is not None else np.zeros(0) for g in first]
    first = [g for g in first if g is not None and g.requires_grad]
    second = module.autograd.grad(
        first, leaves + cotangents, [module.from_numpy(_like(g, 2)) for g in first], allow_unused=True
    )
    found["second gradient"] = [
        np.zeros(tuple(v.shape)) if g is None else g.detach().numpy()
        for g, v in zip(second, leaves + cotangents, strict=True)
    ]
    return found


def _like(t: Any, seed: int) -> np.ndarray:
    kind = "c" if t.is_complex() else "f"
    return numbers(*t.shape, seed=seed, kind=kind)


def agree(name: str, *arrays: np.ndarray, rest: Any = (), **kwargs: Any) -> None:
    """Assert that adjoint has torch's values and gradients of two orders."""
    mine, theirs = (orders(m, name, arrays, rest, kwargs) for m in (adjoint, torch))
    for what, values in theirs.items():
        for i, (a, b) in enumerate(zip(mine[what], values, strict=True)):
            label = f"{name} {kwargs}: {what} {i}"
            assert a.dtype == b.dtype or what != "value", label
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=label)


def batches(name: str, *arrays: np.ndarray, rest: Any = (), **kwargs: Any) -> None:
    """Assert that a batch gives what its elements give, whichever of the inputs are batched."""
    for which in itertools.product((True, False), repeat=len(arrays)):
        if not any(which):
            continue
        pairs = [np.stack([a, 2 * a + 1]) if own else a for a, own in zip(arrays, which, strict=True)]
        with Level() as level:
            inputs = [
                wrap(Batched(p, level)) if own else adjoint.from_numpy(p) for p, own in zip(pairs, which, strict=True)
            ]
            got = [o.array.value for o in call(adjoint, name, (*inputs, *rest), kwargs)]
        for i in range(2):
            one = [adjoint.from_numpy(p[i] if own else p) for p, own in zip(pairs, which, strict=True)]
            for a, b in zip(got, call(adjoint, name, (*one, *rest), kwargs), strict=True):
                np.testing.assert_allclose(a[i], b.numpy(), rtol=1e-12, atol=1e-12, err_msg=f"{name} {kwargs}")
