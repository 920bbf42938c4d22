"""`autograd.graph.saved`: every byte that a graph keeps, once, and whose it is."""

from __future__ import annotations

from typing import Any

import adjoint
from adjoint.autograd.graph import saved


def test_bytes_are_counted_once() -> None:
    x, w = adjoint.ones(4, 3), adjoint.ones(3, 5, requires_grad=True)
    h = (x @ w).tanh()
    loss = (h * h).sum()
    held = saved(loss)
    assert held.total == 4 * 5 * 4 + 4 * 3 * 4  # the tanh's result, and x, which is nobody's leaf
    mul = [r for r in held if r.node == "MulBackward0"]
    assert mul[0].bytes == 80 and {r.storage for r in mul} == {r.storage for r in held if r.node == "TanhBackward0"}
    assert all("test_holdings.py" in r.place and r.module == "test_bytes_are_counted_once" for r in held)
    text = str(held)
    assert "TanhBackward0" in text and "float32[4, 5]" in text and text.endswith(f"in {len(held)} values")


def test_parameters_are_not_the_graphs() -> None:
    w = adjoint.ones(5, requires_grad=True)
    held = saved((w * w).sum())
    assert held.total == 0 and {r.shared for r in held} == {"leaf"}


def test_custom_functions_and_views() -> None:
    class Keeps(adjoint.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.save_for_backward(y, x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = adjoint.ones(6, requires_grad=True)
    held = saved(Keeps.apply(x).sum())
    assert sorted((r.node, r.bytes, r.shared) for r in held) == [
        ("KeepsBackward", 24, ""),
        ("KeepsBackward", 24, "leaf"),
    ]


def test_freed_graphs_and_plain_tensors_keep_nothing() -> None:
    x = adjoint.ones(2, requires_grad=True)
    loss = (x * x).sum()
    assert saved(x.detach()) == [] and len(saved(loss)) == 1
    loss.backward()
    assert saved(loss) == [] and saved(loss).total == 0
