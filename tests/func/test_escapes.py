"""Tensors inside of transforms, as programs see them: printed, and kept after the transform is over."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
from tests.oracle import needs_torch, torch


def printed(T: Any, transform: str) -> list[str]:
    F, seen = T.func, []
    x, y = T.tensor([[1.0, 2.0], [3.0, 4.0]]), T.tensor([5.0])

    def look(a: Any) -> Any:
        seen.extend([repr(a), repr(a * 2), repr(T.zeros(1)), repr(y)])
        return a.sum()

    {
        "grad": lambda: F.grad(look)(x),
        "vmap": lambda: F.vmap(look)(x),
        "vmap of grad": lambda: F.vmap(F.grad(look))(x),
        "grad of vmap": lambda: F.grad(lambda a: F.vmap(look)(a).sum())(x),
        "grad of grad": lambda: F.grad(lambda a: F.grad(look)(a).sum())(x),
        "jvp": lambda: F.jvp(look, (x,), (x,)),
        "jacfwd": lambda: F.jacfwd(look)(x),
        "jacrev": lambda: F.jacrev(look)(x),
    }[transform]()
    return seen


@needs_torch
@pytest.mark.parametrize(
    "transform", ["grad", "vmap", "vmap of grad", "grad of vmap", "grad of grad", "jvp", "jacfwd", "jacrev"]
)
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_printed_as_torch_prints(transform: str) -> None:
    assert printed(adjoint, transform) == printed(torch, transform)


def test_a_batch_that_escaped_is_refused() -> None:
    kept: list[Any] = []
    adjoint.vmap(lambda a: (kept.append(a * 2), a)[1])(adjoint.ones(2, 3))
    for use in (lambda a: a + 1, lambda a: 1 - a, adjoint.exp, adjoint.sum, lambda a: adjoint.cat([a, a])):
        with pytest.raises(RuntimeError, match="may have escaped from inside a function being vmapped"):
            use(kept[0])


def test_a_dual_that_escaped_is_its_value() -> None:
    kept: list[Any] = []
    x = adjoint.tensor([1.0, 2.0])
    adjoint.func.jvp(lambda a: (kept.append(a * 2), a)[1], (x,), (x,))
    assert (kept[0] + 1).tolist() == [3, 5]
