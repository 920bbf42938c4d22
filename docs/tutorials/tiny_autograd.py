"""Autograd from nothing: a tiny adjoint in about a hundred lines of Python and NumPy.

A gradient engine needs three ideas. Each op *records* how to send a gradient back to its inputs.
The backward pass visits the records *in reverse order*. And where an array was *broadcast* on the way
out, its gradient is summed on the way back. Everything else is a table of derivatives.
"""

from __future__ import annotations

import numpy as np

# --- 1. A tensor is a value, and a record of where it came from -----------------------------------


class Tensor:
    """An array; `parents` lists (input, rule) for each input that a gradient can flow to."""

    __array_ufunc__ = None  # tells NumPy to let our operators win in `ndarray * Tensor`

    def __init__(self, value, parents=(), requires_grad=False):
        self.value = np.asarray(value, dtype=float)
        self.parents = parents
        self.requires_grad = requires_grad or bool(parents)
        self.grad = None

    def __repr__(self):
        return f"Tensor({self.value})"

    shape = property(lambda self: self.value.shape)


def record(value, *inputs):
    """Wrap an op's result, keeping only the inputs that need a gradient: constants prune the graph."""
    return Tensor(value, tuple((x, rule) for x, rule in inputs if x.requires_grad))


def wrap(x):
    return x if isinstance(x, Tensor) else Tensor(x)


# --- 2. Each op: its value, and one rule per input ------------------------------------------------
# A rule maps the gradient of the output to the gradient of one input. Rules are written with the ops
# below, on Tensors, so running them records a graph again: that is all second derivatives need.


def add(x, y):
    x, y = wrap(x), wrap(y)
    return record(x.value + y.value, (x, lambda g: g), (y, lambda g: g))


def mul(x, y):
    x, y = wrap(x), wrap(y)
    return record(x.value * y.value, (x, lambda g: g * y), (y, lambda g: g * x))


def power(x, n):
    x = wrap(x)
    return record(x.value**n, (x, lambda g: g * n * power(x, n - 1)))


def matmul(x, y):
    x, y = wrap(x), wrap(y)
    return record(x.value @ y.value, (x, lambda g: g @ transpose(y)), (y, lambda g: transpose(x) @ g))


def transpose(x):
    return record(x.value.T, (x, transpose))


def tanh(x):
    x = wrap(x)
    # The rule computes tanh again: if it kept the output, the record would hold itself alive.
    return record(np.tanh(x.value), (x, lambda g: g * (1.0 - tanh(x) ** 2)))


def sin(x):
    return record(np.sin(x.value), (x, lambda g: g * sin(x + np.pi / 2)))


# Summing and broadcasting are each other's rule.


def broadcast(x, shape):
    return record(np.broadcast_to(x.value, shape), (x, lambda g: unbroadcast(g, x.shape)))


def unbroadcast(x, shape):
    """Sum `x` down to `shape`: undo what NumPy's broadcasting did, new axes first, then stretched ones."""
    if x.shape == shape:
        return x
    extra = len(x.shape) - len(shape)
    stretched = tuple(i + extra for i, n in enumerate(shape) if n == 1)
    value = x.value.sum(axis=(*range(extra), *stretched), keepdims=True).reshape(shape)
    return record(value, (x, lambda g: broadcast(g, x.shape)))


def sum(x):
    return unbroadcast(x, ())


Tensor.__add__ = Tensor.__radd__ = add
Tensor.__mul__ = Tensor.__rmul__ = mul
Tensor.__neg__ = lambda x: x * -1.0
Tensor.__sub__ = lambda x, y: x + wrap(y) * -1.0
Tensor.__rsub__ = lambda x, y: -x + y
Tensor.__pow__ = power
Tensor.__truediv__ = lambda x, y: x * wrap(y) ** -1.0
Tensor.__matmul__ = matmul


# --- 3. The backward pass -------------------------------------------------------------------------


def topological(root):
    """Every tensor the root depends on, inputs before outputs; a stack, so depth has no limit."""
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        x, parents_done = stack.pop()
        if parents_done:
            order.append(x)
        elif id(x) not in seen:
            seen.add(id(x))
            stack.append((x, True))
            stack.extend((parent, False) for parent, _ in x.parents)
    return order


def grad(output, inputs):
    """Gradients of the scalar `output`, as Tensors that can be differentiated again."""
    grads = {id(output): Tensor(np.ones(output.shape))}
    for x in reversed(topological(output)):  # every consumer of x has added its share by now
        for parent, rule in x.parents:
            g = unbroadcast(rule(grads[id(x)]), parent.shape)
            grads[id(parent)] = grads[id(parent)] + g if id(parent) in grads else g
    return [grads[id(x)] for x in inputs]


# --- 4. Does it work? -----------------------------------------------------------------------------

if __name__ == "__main__":
    # A value used twice, a constant, a broadcast: d/dx sum(x * x + 3 x) = 2 x + 3.
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = Tensor(3.0, requires_grad=True)
    dx, db = grad(sum(x * x + b * x), [x, b])
    assert np.allclose(dx.value, [5.0, 7.0, 9.0])
    assert dx.shape == (3,) and db.shape == () and db.value == 6.0

    # The graph is what ran: an ordinary loop, an ordinary branch.
    y = x = Tensor(1.5, requires_grad=True)
    while y.value < 100:
        y = y * x if y.value < 10 else y + x  # x^6 is the first power past 10; then 60 times + x
    assert np.isclose(grad(y, [x])[0].value, 6 * 1.5**5 + 60)

    # Derivatives of derivatives: sin, cos, -sin, -cos.
    x = Tensor(0.7, requires_grad=True)
    y = sin(x)
    for exact in (np.cos(0.7), -np.sin(0.7), -np.cos(0.7)):
        (y,) = grad(y, [x])
        assert np.isclose(y.value, exact)

    # A hundred thousand nodes, and no recursion error.
    y = x
    for _ in range(100_000):
        y = y + 1.0
    assert grad(y, [x])[0].value == 1.0

    # A 1-16-1 network learns a sine.
    rng = np.random.default_rng(0)
    inputs = Tensor(np.linspace(-3, 3, 64)[:, None])
    w1, b1, w2 = (Tensor(rng.normal(size=s) / 2, requires_grad=True) for s in ((1, 16), (16,), (16, 1)))

    def loss():
        return sum((tanh(inputs @ w1 + b1) @ w2 - np.sin(inputs.value)) ** 2) / 64.0

    # First, its gradient against a finite difference.
    (g,) = grad(loss(), [b1])
    before = loss().value
    b1.value[0] += 1e-6
    assert np.isclose((loss().value - before) / 1e-6, g.value[0], rtol=1e-4)

    for step in range(301):
        error = loss()
        for p, g in zip((w1, b1, w2), grad(error, [w1, b1, w2])):
            p.value -= 0.1 * g.value
        if step % 100 == 0:
            print(f"step {step:3}  loss {error.value:.5f}")
    assert error.value < 0.05
