"""Ops on lists of tensors give what each op gives for each tensor, as torch's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint

torch = pytest.importorskip("torch", reason="torch is the oracle")

PROGRAMS = [
    "T._foreach_exp(a)", "T._foreach_rsqrt_(a)", "T._foreach_clone(a)", "T._foreach_add(a, b, alpha=0.5)",
    "T._foreach_add_(a, 0.5)", "T._foreach_mul(a, [0.5, 0.6, 0.7])", "T._foreach_div_(a, T.tensor(0.5))",
    "T._foreach_pow(2.0, a)", "T._foreach_pow(a, b)", "T._foreach_maximum(a, 0.5)", "T._foreach_minimum_(a, b)",
    "T._foreach_clamp_min(a, b)", "T._foreach_addcmul(a, b, c, [0.1, 0.2, 0.3])",
    "T._foreach_addcdiv_(a, b, c, value=0.3)", "T._foreach_lerp(a, b, 0.3)", "T._foreach_lerp_(a, b, c)",
    "T._foreach_norm(a, 1)", "T._foreach_max(a)", "T._foreach_sub_(a, scalars=[0.1, 0.2, 0.3])",
]  # fmt: skip


def run(T: Any, program: str) -> list[Any]:
    rng = np.random.default_rng(0)
    lists = [[T.tensor(rng.uniform(0.2, 0.9, s), requires_grad=True) for s in ((2, 3), (4,), ())] for _ in range(3)]
    a, b, c = lists
    out = eval(program, {"T": T, "a": [x * 1 for x in a], "b": b, "c": c})
    sum(x.sum() for x in out).backward()
    assert type(out) is (list if "_(" in program.partition("(a")[0] + "(" else tuple)
    return [*out, *(x.grad for x in (*a, *b, *c) if x.grad is not None)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_gives_what_torch_gives(program: str) -> None:
    for mine, theirs in zip(run(adjoint, program), run(torch, program), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


def test_every_name_of_torch_is_there() -> None:
    assert not [n for n in dir(torch) if n.startswith("_foreach_") and not hasattr(adjoint, n)]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("T._foreach_exp([])", "Tensor list must have at least one tensor"),
        ("T._foreach_add(a, a[:1])", "Tensor lists must have the same number of tensors, got 2 and 1"),
        ("T._foreach_add(a, [1.0])", "Tensor list must have same number of elements as scalar list"),
        ("T._foreach_add(a, T.ones(2))", "scalar tensor expected to be 0 dim"),
        ("T._foreach_add(T.ones(2), 1)", "received an invalid combination of arguments"),
        ("T._foreach_add(a, 1, alpha=2)", "received an invalid combination of arguments"),
        ("T._foreach_max([T.ones(0)])", "cannot compute the maximum of an empty tensor"),
    ],
)
def test_wrong_lists_are_refused_in_the_same_words(program: str, words: str) -> None:
    for T in (adjoint, torch):
        with pytest.raises((RuntimeError, TypeError), match=words):
            eval(program, {"T": T, "a": [T.ones(2), T.ones(3)]})
