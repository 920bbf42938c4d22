"""What function transforms cost: adjoint.func against torch.func, side by side in one run.

    python benchmarks/func.py [--quick] [--json FILE] [--only TEXT] [--check]

A row is one decorated function of `T`, the module under test (adjoint or torch), that prepares a program and
returns it as a callable; both sides run the very same code. How rows are measured is in `overhead.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import overhead
from overhead import Program, ratio

overhead.ROWS.clear()  # its own rows are another benchmark


def _data(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) / np.sqrt(shape[-1])


@ratio("per-sample gradients, MLP 20-64-64-5, batch 64", bar=0.8)
def per_sample(T: Any) -> Program:
    weights = tuple(T.tensor(_data(i, *s)) for i, s in enumerate([(64, 20), (64,), (64, 64), (64,), (5, 64), (5,)]))
    xs, ys = T.tensor(_data(9, 64, 20)), T.tensor(_data(10, 64, 5))
    linear = T.nn.functional.linear

    def loss(weights: Any, x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = linear(linear(x, w1, b1).tanh(), w2, b2).tanh()
        return ((linear(h, w3, b3) - y) ** 2).mean()

    gradients = T.func.vmap(T.func.grad(loss), in_dims=(None, 0, 0))
    return lambda: gradients(weights, xs, ys)


@ratio("Hessian of a 2-32-32-1 tanh net by its input", bar=0.6)
def hessian(T: Any) -> Program:
    w1, w2, w3 = (T.tensor(_data(i, *s)) for i, s in enumerate([(32, 2), (32, 32), (1, 32)]))
    x = T.tensor(_data(5, 2))

    def net(x: Any) -> Any:
        return (w3 @ (w2 @ (w1 @ x).tanh()).tanh()).sum()

    return lambda: T.func.hessian(net)(x)


@ratio("Hessian of a 2-32-32-1 tanh net by its last weights", bar=0.6)
def hessian_of_weights(T: Any) -> Program:
    w1, w2, w3 = (T.tensor(_data(i, *s)) for i, s in enumerate([(32, 2), (32, 32), (1, 32)]))
    x, y = T.tensor(_data(5, 16, 2)), T.tensor(_data(6, 16, 1))

    def loss(w3: Any) -> Any:
        return (((x @ w1.mT).tanh() @ w2.mT).tanh() @ w3.mT - y).pow(2).mean()

    return lambda: T.func.hessian(loss)(w3)


@ratio("hvp of logistic regression 1000x200, forward over reverse", bar=0.8)
def hvp(T: Any) -> Program:
    x, w, v = T.tensor(_data(0, 1000, 200)), T.tensor(_data(1, 200)), T.tensor(_data(2, 200))
    y = T.tensor((_data(3, 1000) > 0).astype(np.float32))

    def loss(w: Any) -> Any:
        return T.nn.functional.binary_cross_entropy_with_logits(x @ w, y)

    return lambda: T.func.jvp(T.func.grad(loss), (w,), (v,))[1]


@ratio("hvp of logistic regression 1000x200, reverse over reverse", bar=0.8)
def hvp_by_reverse(T: Any) -> Program:
    x, w, v = T.tensor(_data(0, 1000, 200)), T.tensor(_data(1, 200)), T.tensor(_data(2, 200))
    y = T.tensor((_data(3, 1000) > 0).astype(np.float32))

    def loss(w: Any) -> Any:
        return T.nn.functional.binary_cross_entropy_with_logits(x @ w, y)

    return lambda: T.func.vjp(T.func.grad(loss), w)[1](v)


@ratio("grad of a scalar function", bar=0.8)
def gradient(T: Any) -> Program:
    x = T.tensor(_data(0, 8, 8))
    return lambda: T.func.grad(lambda x: (x.sin() * x).sum())(x)


if __name__ == "__main__":
    raise SystemExit(overhead.main())
