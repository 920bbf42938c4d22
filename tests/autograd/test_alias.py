"""Every op that keeps a value, every way to overwrite it: the gradient is right or refused, never wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, outcome, torch

NAMES = """
exp log sin cos tan tanh sinh cosh asin acos atan sqrt rsqrt reciprocal abs neg sigmoid relu square log1p
expm1 log2 log10 exp2 erf erfc lgamma digamma sign floor ceil round trunc frac softplus_ gelu_ silu_ cumsum_
cumprod_ softmax_ logsumexp_ prod_ norm_ max_ amax_ std_ var_ mean sum sort_ clamp_ pow2_ pow3_ powm_ rpow_
mulself_ matmul_ gather_ where_ layer_norm_ logsoftmax_ hardtanh_ elu_ leaky_ atan2_ hypot_ div_ divr_ lerp_
addcmul_ xlogy_ logaddexp_ maximum_ fmod_ cat_ inv_ det_ cholesky_ svd_ einsum_ conv_ bmm_ prelu_ index_
masked_fill_ cumprod1_ remainder_
""".split()


def call(T: Any, name: str, x: Any) -> Any:
    F = T.nn.functional
    named: dict[str, Callable[[], Any]] = {
        "softplus_": lambda: F.softplus(x),
        "gelu_": lambda: F.gelu(x),
        "silu_": lambda: F.silu(x),
        "cumsum_": lambda: x.cumsum(0),
        "cumprod_": lambda: x.cumprod(0),
        "softmax_": lambda: x.softmax(0),
        "logsumexp_": lambda: x.logsumexp(0),
        "prod_": lambda: x.prod(),
        "norm_": lambda: x.norm(),
        "max_": lambda: x.max(0)[0],
        "amax_": lambda: x.amax(0),
        "std_": lambda: x.std(),
        "var_": lambda: x.var(0),
        "sort_": lambda: x.sort(0)[0],
        "clamp_": lambda: x.clamp(0.2, 0.7),
        "pow2_": lambda: x**2,
        "pow3_": lambda: x**3.5,
        "powm_": lambda: x**x,
        "rpow_": lambda: 2.0**x,
        "mulself_": lambda: x * x,
        "matmul_": lambda: x @ x,
        "gather_": lambda: x.gather(0, T.tensor([[0, 1, 2]])),
        "where_": lambda: T.where(x > 0.5, x, x * x),
        "layer_norm_": lambda: F.layer_norm(x, (3,)),
        "logsoftmax_": lambda: x.log_softmax(0),
        "hardtanh_": lambda: F.hardtanh(x, 0.0, 0.5),
        "elu_": lambda: F.elu(x - 0.5),
        "leaky_": lambda: F.leaky_relu(x - 0.5),
        "atan2_": lambda: T.atan2(x, x + 1),
        "hypot_": lambda: T.hypot(x, x + 1),
        "div_": lambda: x / (x + 1),
        "divr_": lambda: 1 / x,
        "lerp_": lambda: T.lerp(x, x * 2, x),
        "addcmul_": lambda: T.addcmul(x, x, x),
        "xlogy_": lambda: T.xlogy(x, x),
        "logaddexp_": lambda: T.logaddexp(x, x + 1),
        "maximum_": lambda: T.maximum(x, x * 0 + 0.5),
        "fmod_": lambda: T.fmod(x, 0.3),
        "cat_": lambda: T.cat([x, x]),
        "inv_": lambda: T.linalg.inv(x + 2 * T.eye(3, dtype=T.float64)),
        "det_": lambda: T.linalg.det(x),
        "cholesky_": lambda: T.linalg.cholesky(x @ x.T + T.eye(3, dtype=T.float64)),
        "svd_": lambda: T.linalg.svdvals(x),
        "einsum_": lambda: T.einsum("ij,jk->ik", x, x),
        "conv_": lambda: F.conv1d(x[None], x[:, :, None]),
        "bmm_": lambda: T.bmm(x[None], x[None]),
        "prelu_": lambda: F.prelu(x - 0.5, T.tensor([0.25], dtype=T.float64)),
        "index_": lambda: x[T.tensor([0, 2])],
        "masked_fill_": lambda: x.masked_fill(x > 0.5, 0.0),
        "cumprod1_": lambda: x.cumprod(1),
        "remainder_": lambda: T.remainder(x, 0.3),
    }
    return named[name]() if name in named else getattr(T, name)(x)


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "input": lambda y, z: y.add_(1),
    "output": lambda y, z: z.add_(1),
    "view of the input": lambda y, z: y[0].mul_(3),
    "view of the output": lambda y, z: z.reshape(-1)[:1].mul_(3),
    "alias of the input": lambda y, z: y.detach().mul_(2),
    "fill the input": lambda y, z: y.fill_(0.3),
    "exp of the output": lambda y, z: z.exp_(),
    "one element of the input": lambda y, z: y.__setitem__((0, 0), 5.0),
}


def program(T: Any, name: str, write: str) -> Any:
    values = [[0.3, 0.6, 0.2], [0.9, 0.4, 0.75], [0.15, 0.85, 0.55]]
    x = T.tensor(values, dtype=T.float64, requires_grad=True)
    y = x * 1
    z = call(T, name, y)
    WRITES[write](y, z)
    (z.sum() + y.sum()).backward()
    return x.grad


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_no_gradient_is_wrong_in_silence(name: str) -> None:
    for write in WRITES:
        kind, mine = outcome(lambda T, write=write: program(T, name, write), adjoint)
        expected, theirs = outcome(lambda T, write=write: program(T, name, write), torch)
        if kind == expected == "value":
            np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-7, atol=1e-9, err_msg=write)
        elif kind == "error":
            assert mine[0] == "RuntimeError", f"{write}: {mine}"
