"""The dtype of a result: every ordered pair of dtypes, as tensors, 0-d tensors and Python numbers."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, same, torch

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
NUMBERS = {"bool": True, "int": 3, "float": 1.5, "complex": 2 + 1j}
FORMS = ("tensor", "0-d")
OPS = (
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "maximum",
    "remainder",
    "eq",
    "lt",
    "logical_and",
    "bitwise_and",
    "atan2",
)


def operand(module: Any, kind: str, form: str) -> Any:
    if form == "number":
        return NUMBERS[kind]
    values = [1, 2, 3] if form == "tensor" else 2
    return module.tensor(values, dtype=getattr(module, kind))


def operands() -> list[tuple[str, str]]:
    return [(d, f) for d in DTYPES for f in FORMS] + [(n, "number") for n in NUMBERS]


def comparable(a: tuple[str, str], b: tuple[str, str]) -> bool:
    """Leave out two numbers, and what torch answers with complex32, which adjoint does not have."""
    kinds = {a[0], b[0]}
    return (a[1] != "number" or b[1] != "number") and not ("float16" in kinds and any("complex" in k for k in kinds))


PAIRS = [(a, b) for a, b in itertools.product(operands(), repeat=2) if comparable(a, b)]


def name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


@needs_torch
def test_result_type_of_every_pair() -> None:
    wrong = []
    for a, b in PAIRS:
        mine = adjoint.result_type(operand(adjoint, *a), operand(adjoint, *b))
        theirs = torch.result_type(operand(torch, *a), operand(torch, *b))
        if name_of(mine) != name_of(theirs):
            wrong.append((a, b, mine, theirs))
    assert not wrong


def attempt(module: Any, op: str, a: Any, b: Any) -> tuple[str, Any]:
    try:
        out = getattr(module, op)(operand(module, *a), operand(module, *b))
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return "error", type(error).__name__
    return name_of(out.dtype), np.array(out.tolist())


@needs_torch
@pytest.mark.parametrize("op", OPS)
def test_dtype_and_value_of_every_pair(op: str) -> None:
    wrong = []
    for a, b in PAIRS:
        if op == "sub" and "bool" in (a[0], b[0]):
            continue  # torch refuses; adjoint only where both are
        mine, theirs = attempt(adjoint, op, a, b), attempt(torch, op, a, b)
        if mine[0] != theirs[0]:
            wrong.append((a, b, mine, theirs))
        elif mine[0] != "error":
            loose = 0.02 if "16" in mine[0] and "float" in mine[0] else 1e-5
            if not np.allclose(mine[1], theirs[1], rtol=loose, equal_nan=True):
                wrong.append((a, b, mine, theirs))
    assert not wrong, f"{len(wrong)} of {len(PAIRS)}: {wrong[:10]}"


@needs_torch
@pytest.mark.parametrize("op", ["add_", "mul_", "div_", "pow_", "bitwise_or_", "sub_"])
def test_in_place_keeps_the_dtype_or_refuses(op: str) -> None:
    wrong = []
    for a, b in PAIRS:
        if a[1] == "number" or (a[1] == "0-d" and b[1] == "tensor") or (op == "sub_" and "bool" in (a[0], b[0])):
            continue
        outcomes = []
        for module in (adjoint, torch):
            try:
                out = getattr(operand(module, *a), op)(operand(module, *b))
                outcomes.append((name_of(out.dtype), np.array(out.tolist())))
            except (RuntimeError, TypeError, NotImplementedError) as error:
                outcomes.append(("error", type(error).__name__))
        mine, theirs = outcomes
        if mine[0] != theirs[0] or (mine[0] != "error" and not np.allclose(mine[1], theirs[1], rtol=0.02)):
            wrong.append((a, b, mine, theirs))
    assert not wrong, f"{len(wrong)}: {wrong[:10]}"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (("int32", "tensor"), ("int64", "0-d"), "int32"),
        (("int32", "tensor"), ("float64", "0-d"), "float64"),
        (("float32", "tensor"), ("float64", "0-d"), "float32"),
        (("float16", "tensor"), ("bfloat16", "tensor"), "float32"),
        (("uint8", "tensor"), ("int8", "tensor"), "int16"),
        (("bool", "tensor"), ("int", "number"), "int64"),
        (("int64", "tensor"), ("float", "number"), "float32"),
        (("float64", "tensor"), ("complex", "number"), "complex128"),
        (("float64", "tensor"), ("complex64", "0-d"), "complex128"),
    ],
)
def test_known_results(a: Any, b: Any, expected: str) -> None:
    x, y = operand(adjoint, *a), operand(adjoint, *b)
    assert name_of((x * y).dtype) == expected
    assert name_of((y * x).dtype) == expected


SCALAR_ARGUMENTS: dict[str, Any] = {
    "softplus": lambda m, x, k: m.nn.functional.softplus(x, beta=k),
    "clamp": lambda m, x, k: x.clamp(min=k),
    "lerp": lambda m, x, k: m.lerp(x, x * x, k),
    "addcmul": lambda m, x, k: m.addcmul(x, x, x, value=k),
    "huber_loss": lambda m, x, k: m.nn.functional.huber_loss(x, x * x, delta=k),
    "softshrink": lambda m, x, k: m.nn.functional.softshrink(x, k),
    "cosine_similarity": lambda m, x, k: m.nn.functional.cosine_similarity(x, x * x, 0, k),
    "normalize": lambda m, x, k: m.nn.functional.normalize(x, dim=0, eps=k),
    "leaky_relu": lambda m, x, k: m.nn.functional.leaky_relu(x, k),
    "add": lambda m, x, k: x + k,
    "pow": lambda m, x, k: x**k,
}


@needs_torch
@pytest.mark.parametrize("name", SCALAR_ARGUMENTS)
@pytest.mark.parametrize("scalar", [np.float64(0.5), np.float32(0.5), np.int32(2), np.int64(1)])
def test_scalars_of_numpy_do_not_widen(name: str, scalar: Any) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([0.1, 0.5, 0.9], requires_grad=True)
        out = SCALAR_ARGUMENTS[name](m, x, scalar)
        return [out, *m.autograd.grad(out.sum(), x)]

    same(program)


@needs_torch
@pytest.mark.parametrize("array", [np.array(2.0), np.array(2), np.array([1.0, 2.0, 3.0])])
def test_arrays_of_numpy_count_as_arrays(array: Any) -> None:
    for operation in (operator.add, operator.mul, operator.sub, operator.truediv):
        same(lambda m: operation(m.tensor([0.1, 0.5, 0.9]), array))
