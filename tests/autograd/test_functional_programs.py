"""`autograd.functional` on every kind of function, inputs and vector, against torch: values, refusals, graphs."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, torch

INPUTS: dict[str, Callable[[Any], Any]] = {
    "three": lambda T: T.tensor([1.0, 2.0, 3.0]),
    "recorded": lambda T: T.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "scalar": lambda T: T.tensor(2.0),
    "one": lambda T: T.tensor([2.0]),
    "two": lambda T: (T.tensor([1.0, 2.0]), T.tensor([3.0, 4.0])),
    "two_recorded": lambda T: (T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0])),
    "list": lambda T: [T.tensor([1.0, 2.0]), T.tensor([3.0, 4.0])],
    "array": lambda T: np.ones(3),
    "mixed": lambda T: (T.tensor([1.0]), 3.0),
    "integers": lambda T: T.tensor([1, 2]),
}
VECTORS: dict[str, Callable[[Any], Any]] = {
    "none": lambda T: None,
    "three": lambda T: T.ones(3),
    "tuple": lambda T: (T.ones(2), T.ones(2)),
    "single": lambda T: (T.ones(2),),
    "scalar": lambda T: T.tensor(1.0),
    "number": lambda T: 1.0,
    "list": lambda T: [T.ones(2), T.ones(2)],
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "square": lambda T, *xs: xs[0] ** 2,
    "line": lambda T, *xs: xs[0] * 2,
    "constant": lambda T, *xs: T.ones(2),
    "detached": lambda T, *xs: xs[0].detach() ** 2,
    "two": lambda T, *xs: (xs[0] ** 2, (xs[-1] ** 3).sum()),
    "two_one_constant": lambda T, *xs: (xs[0] ** 2, T.ones(2)),
    "list": lambda T, *xs: [xs[0] ** 2],
    "array": lambda T, *xs: np.ones(2),
    "product": lambda T, *xs: xs[0] * xs[-1],
    "sum": lambda T, *xs: xs[0].sum(),
}
SCALARS: dict[str, Callable[..., Any]] = {
    "cube": lambda T, *xs: (xs[0] ** 3).sum(),
    "mixed": lambda T, *xs: (xs[0] ** 2 * xs[-1]).sum(),
    "line": lambda T, *xs: (xs[0] * 2).sum(),
    "partly_line": lambda T, *xs: (xs[0] * 2).sum() + (xs[-1] ** 2).sum(),
    "constant": lambda T, *xs: T.tensor(1.0),
    "shaped": lambda T, *xs: (xs[0] ** 3).sum().reshape(1, 1),
    "vector": lambda T, *xs: xs[0] ** 3,
    "tuple": lambda T, *xs: ((xs[0] ** 3).sum(), xs[0].sum()),
    "list": lambda T, *xs: [(xs[0] ** 3).sum()],
    "number": lambda T, *xs: 3.0,
    "last": lambda T, *xs: (xs[-1] ** 3).sum(),
}
FLAGS = [dict(zip(("strict", "create_graph"), f, strict=True)) for f in itertools.product((False, True), repeat=2)]


def calls(name: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield a function, inputs, a vector (or "") and options for every call to compare."""
    functions = SCALARS if name in ("vhp", "hvp", "hessian") else FUNCTIONS
    if name not in ("jacobian", "hessian"):
        yield from itertools.product(functions, INPUTS, VECTORS, FLAGS)
        return
    strategy = "strategy" if name == "jacobian" else "outer_jacobian_strategy"
    ways = [
        {**flags, "vectorize": vectorize, strategy: mode}
        for flags in FLAGS
        for vectorize in (False, True)
        for mode in ("reverse-mode", "forward-mode", "sideways")
    ]
    yield from itertools.product(functions, INPUTS, ("",), ways)


def plain(value: Any, recorded: bool) -> Any:
    if isinstance(value, tuple | list):
        return [plain(v, recorded) for v in value]
    return type(value).__name__, value.tolist(), list(value.shape), recorded and value.requires_grad


def outcome(T: Any, name: str, function: str, inputs: str, vector: str, options: dict[str, Any]) -> Any:
    func = (SCALARS if name in ("vhp", "hvp", "hessian") else FUNCTIONS)[function]
    given = (INPUTS[inputs](T), VECTORS[vector](T)) if vector else (INPUTS[inputs](T),)
    forward = "forward-mode" in options.values()  # where torch leaves the results on the graph of the inputs
    try:
        return plain(getattr(T.autograd.functional, name)(lambda *xs: func(T, *xs), *given, **options), not forward)
    except Exception as error:
        kind = next(k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins")
        return kind, re.split(r"[;\n]|\. ", str(error).replace("adjoint.", "torch."))[0].removesuffix(".")


@needs_torch
@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp", "jacobian", "hessian"])
def test_every_call_does_what_it_does_on_torch(name: str) -> None:
    different = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls(name):
            mine, theirs = outcome(adjoint, name, *call), outcome(torch, name, *call)
            if mine != theirs and not _allowed(name, call, mine, theirs):
                different.append((call, mine, theirs))
    assert not different, f"{len(different)} differ, the first: {different[0]}"


def _allowed(name: str, call: tuple[Any, ...], mine: Any, theirs: Any) -> bool:
    """Return whether a difference is one of wording that torch has wrong, or of a batch's zeros that need no graph."""
    options = call[3]
    if "forward-mode" in options.values():
        says = "isonly implemented", "given to None", "Expected primal"
        return any(word in str(theirs) for word in says)
    return options.get("vectorize", False) and str(mine).replace("True", "False") == str(theirs).replace(
        "True", "False"
    )
