"""Custom functions inside transforms, in every nest of two: the same numbers as torch.func."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint

from .test_nesting import TRANSFORMS, W, X

torch = pytest.importorskip("torch", reason="torch is the oracle")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself


def generated(T: Any) -> Any:
    class Generated(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, w: Any, power: int) -> Any:
            return x.sin() * w**power, (x > 0)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, w, ctx.power = inputs
            ctx.save_for_backward(x, w)
            ctx.save_for_forward(x, w)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            x, w = ctx.saved_tensors
            p = ctx.power
            return g * x.cos() * w**p, g * x.sin() * p * w ** (p - 1), None

        @staticmethod
        def jvp(ctx: Any, tx: Any, tw: Any, _: Any) -> Any:
            x, w = ctx.saved_tensors
            p = ctx.power
            dx = 0 if tx is None else tx * x.cos() * w**p
            dw = 0 if tw is None else tw * x.sin() * p * w ** (p - 1)
            return dx + dw, None

    return lambda x, w: (Generated.apply(x, w, 2)[0] * w).sum()


def ruled(T: Any) -> Any:
    class Ruled(T.autograd.Function):
        @staticmethod
        def forward(x: Any, w: Any) -> Any:
            return x @ w

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, w = ctx.saved_tensors
            return g @ w.mT, x.mT @ g

        @staticmethod
        def jvp(ctx: Any, tx: Any, tw: Any) -> Any:
            x, w = ctx.saved_tensors
            return (0 if tx is None else tx @ w) + (0 if tw is None else x @ tw)

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
            assert info.batch_size in (2, 3, 9)
            x, w = (v if d is None else v.movedim(d, 0) for v, d in zip((x, w), in_dims))
            return BatchedProduct.apply(x, w), 0

    class BatchedProduct(T.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, w: Any) -> Any:
            return x @ w

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, w = ctx.saved_tensors
            return (g @ w.mT).sum_to_size(x.shape), (x.mT @ g).sum_to_size(w.shape)

        jvp = Ruled.jvp

    return lambda x, w: Ruled.apply(x, w).tanh().sum()


PLAIN: dict[Any, Any] = {
    generated: lambda x, w: (x.sin() * w**2 * w).sum(),
    ruled: lambda x, w: (x @ w).tanh().sum(),
}


@pytest.mark.parametrize("make", [generated, ruled])
@pytest.mark.parametrize("names", [n for d in (1, 2) for n in itertools.product(TRANSFORMS, repeat=d)], ids="-".join)
def test_custom_functions_equal_the_ops_they_stand_for(names: tuple[str, ...], make: Any) -> None:
    # Against torch's ops, not its custom functions: torch loses terms where one is inside two forward modes.
    ours, theirs = make(adjoint), PLAIN[make]
    for name in reversed(names):
        ours, theirs = TRANSFORMS[name](adjoint, ours), TRANSFORMS[name](torch, theirs)
    result = ours(adjoint.tensor(X), adjoint.tensor(W))
    np.testing.assert_allclose(result.numpy(), theirs(torch.tensor(X), torch.tensor(W)).numpy(), rtol=1e-8)


def test_a_function_that_vmap_does_not_know() -> None:
    class Plain(adjoint.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    with pytest.raises(RuntimeError, match="it does not have vmap support"):
        adjoint.func.vmap(Plain.apply)(adjoint.ones(3))
    assert adjoint.func.grad(lambda x: Plain.apply(x).sum())(adjoint.ones(3)).tolist() == [2, 2, 2]
