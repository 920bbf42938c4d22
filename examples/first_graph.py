"""A first tour of adjoint: a graph that follows the data, its gradients, and a tiny network.

Run it with `python examples/first_graph.py`. Written for PyTorch, it needs one changed line: the import.
"""

from __future__ import annotations

import math

import adjoint as torch


def print_graph(node, indent: int = 0) -> None:
    """Print a `grad_fn` and everything it leads to, one node per line."""
    print("  " * indent + node.name())
    for parent, _ in node.next_functions:
        if parent is not None:  # a constant: no gradient flows there
            print_graph(parent, indent + 1)


def square_root(x):
    """Newton's method: how many steps the graph gets is decided by the value of `x`."""
    y, steps = x * 0.5, 0
    while abs(y.item() ** 2 - x.item()) > 1e-4:
        y, steps = 0.5 * (y + x / y), steps + 1
    return y, steps


def fold(tree, w):
    """A recursive network: the graph has the shape of the nested tuple it is given."""
    if not isinstance(tree, tuple):
        return torch.tensor(float(tree))
    left, right = tree
    return torch.tanh(w[0] * fold(left, w) + w[1] * fold(right, w))


print("1. A loop on data: gradients of sqrt(x) by Newton's method")
for value in (2.0, 9.0, 900.0):
    x = torch.tensor(value, requires_grad=True)
    y, steps = square_root(x)
    y.backward()
    exact = 0.5 / math.sqrt(value)
    print(f"   x={value:<6} sqrt={y.item():<9.5f} steps={steps:<3} dy/dx={x.grad.item():.6f} exact={exact:.6f}")
    assert abs(x.grad.item() - exact) < 1e-3

print("\n2. A recursion on data: one function, two trees, two graphs")
w = torch.tensor([0.5, -0.3], requires_grad=True)
for tree in ((1, 2), ((1, 2), 3)):
    y = fold(tree, w)
    (gradient,) = torch.autograd.grad(y, w)
    print(f"   tree {tree}: value {y.item():.4f}, d/dw {[round(g, 4) for g in gradient.tolist()]}")
    print_graph(y.grad_fn, indent=3)

print("\n3. Training: a 1-16-1 tanh network learns sin(x)")
torch.manual_seed(0)
x = torch.linspace(-math.pi, math.pi, 64).reshape(64, 1)
target = torch.sin(x)
w1 = torch.randn(1, 16, requires_grad=True)
b1 = torch.randn(16, requires_grad=True)
w2 = (torch.randn(16, 1) * 0.25).requires_grad_()
b2 = torch.zeros(1, requires_grad=True)
parameters = [w1, b1, w2, b2]

for step in range(301):
    prediction = torch.tanh(x @ w1 + b1) @ w2 + b2
    loss = ((prediction - target) ** 2).mean()
    loss.backward()
    if step % 50 == 0:
        print(f"   step {step:3}  loss {loss.item():.5f}")
    with torch.no_grad():
        for p in parameters:
            p -= 0.1 * p.grad
            p.grad = None
assert loss.item() < 0.05, "the network should have learned the sine"

print("\n4. The gradients of one more step")
loss = ((torch.tanh(x @ w1 + b1) @ w2 + b2 - target) ** 2).mean()
loss.backward()
for name, p in zip(("w1", "b1", "w2", "b2"), parameters):
    print(f"   {name} {tuple(p.shape)!s:8} |grad| = {p.grad.abs().sum().item():.5f}")
print(f"   b2.grad = {b2.grad}")
