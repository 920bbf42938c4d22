"""assert_close and make_tensor say and make what torch's do."""

from __future__ import annotations

import collections
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.testing import assert_allclose, assert_close, make_tensor

nan, inf = float("nan"), float("inf")

# name: (how to make the two values and the options, the kind of outcome without torch)
CASES: dict[str, tuple[Callable[[Any], tuple[Any, ...]], str]] = {
    "vectors": (lambda t: (t.tensor([1.0, 2.0, 3.0]), t.tensor([1.0, 2.0, 4.0]), {}), "AssertionError"),
    "matrices": (
        lambda t: (t.tensor([[1.0, 2.0], [3.0, 4.0]]), t.tensor([[1.0, 2.5], [3.0, 5.0]]), {}),
        "AssertionError",
    ),
    "close": (lambda t: (t.tensor([1.0]), t.tensor([1.0000005]), {}), "passes"),
    "0-d": (lambda t: (t.tensor(1.0), t.tensor(2.0), {}), "AssertionError"),
    "no tolerance": (
        lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.5]), {"rtol": 0, "atol": 0}),
        "AssertionError",
    ),
    "tolerance": (
        lambda t: (t.tensor([1.0, 0.0]), t.tensor([1.05, 0.0]), {"rtol": 0.01, "atol": 0.01}),
        "AssertionError",
    ),
    "wide tolerance": (lambda t: (t.tensor([1.0]), t.tensor([1.05]), {"rtol": 0.1, "atol": 0.0}), "passes"),
    "integers": (lambda t: (t.tensor([1, 2]), t.tensor([1, 3]), {}), "AssertionError"),
    "0-d integers": (lambda t: (t.tensor(1), t.tensor(3), {}), "AssertionError"),
    "booleans": (lambda t: (t.tensor([True, False]), t.tensor([True, True]), {}), "AssertionError"),
    "0-d booleans": (lambda t: (t.tensor(True), t.tensor(False), {}), "AssertionError"),
    "complex": (lambda t: (t.tensor([1 + 1j]), t.tensor([1 + 2j]), {}), "AssertionError"),
    "uint8": (
        lambda t: (t.tensor([1, 200], dtype=t.uint8), t.tensor([1, 100], dtype=t.uint8), {}),
        "AssertionError",
    ),
    "uint8 upwards": (
        lambda t: (t.tensor([1, 100], dtype=t.uint8), t.tensor([1, 200], dtype=t.uint8), {}),
        "AssertionError",
    ),
    "float16": (
        lambda t: (t.tensor([1, 2], dtype=t.float16), t.tensor([1, 2.1], dtype=t.float16), {}),
        "AssertionError",
    ),
    "bfloat16": (
        lambda t: (t.tensor([1, 2], dtype=t.bfloat16), t.tensor([1, 2.1], dtype=t.bfloat16), {}),
        "AssertionError",
    ),
    "NaN": (lambda t: (t.tensor([nan]), t.tensor([nan]), {}), "AssertionError"),
    "equal NaN": (lambda t: (t.tensor([nan, 1.0]), t.tensor([nan, 1.0]), {"equal_nan": True}), "passes"),
    "one NaN": (
        lambda t: (t.tensor([nan, 1.0]), t.tensor([1.0, 1.0]), {"equal_nan": True}),
        "AssertionError",
    ),
    "same infinity": (lambda t: (t.tensor([inf, -inf]), t.tensor([inf, -inf]), {}), "passes"),
    "other infinity": (lambda t: (t.tensor([inf]), t.tensor([-inf]), {}), "AssertionError"),
    "one infinity": (lambda t: (t.tensor([1.0, inf]), t.tensor([1.0, 1.0]), {}), "AssertionError"),
    "expected infinity": (lambda t: (t.tensor([1.0, 1.0]), t.tensor([1.0, inf]), {}), "AssertionError"),
    "expected zero": (lambda t: (t.tensor([1.0, 0.0]), t.tensor([0.0, 0.0]), {}), "AssertionError"),
    "empty": (lambda t: (t.ones(0, 3), t.ones(0, 3), {}), "passes"),
    "shape": (lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0]), {}), "AssertionError"),
    "dtype": (lambda t: (t.tensor([1.0]), t.tensor([1.0], dtype=t.float64), {}), "AssertionError"),
    "dtype unchecked": (
        lambda t: (t.tensor([1.0]), t.tensor([1.1], dtype=t.float64), {"check_dtype": False}),
        "AssertionError",
    ),
    "integer and float": (
        lambda t: (t.tensor([1]), t.tensor([1.1], dtype=t.float64), {"check_dtype": False}),
        "AssertionError",
    ),
    "stride": (lambda t: (t.ones(2, 3).t(), t.ones(3, 2), {"check_stride": True}), "AssertionError"),
    "stride unchecked": (lambda t: (t.ones(2, 3).t(), t.ones(3, 2), {}), "passes"),
    "numbers": (lambda t: (1.0, 2.0, {}), "AssertionError"),
    "close numbers": (lambda t: (1.0, 1.0 + 1e-9, {}), "passes"),
    "whole numbers": (lambda t: (1, 2, {}), "AssertionError"),
    "complex numbers": (lambda t: (1j, 2j, {}), "AssertionError"),
    "kinds of numbers": (lambda t: (1, 1.0, {}), "AssertionError"),
    "kinds unchecked": (lambda t: (1, 1.5, {"check_dtype": False}), "AssertionError"),
    "NumPy numbers": (lambda t: (np.float64(1), np.float64(2), {}), "AssertionError"),
    "bool": (lambda t: (True, False, {}), "AssertionError"),
    "None": (lambda t: (None, None, {}), "passes"),
    "None and a number": (lambda t: (None, 1, {}), "AssertionError"),
    "a tensor and None": (lambda t: (t.tensor([1.0]), None, {}), "AssertionError"),
    "text": (lambda t: ("a", "a", {}), "TypeError"),
    "lengths": (lambda t: ([1.0], [1.0, 2.0], {}), "AssertionError"),
    "a list": (lambda t: ([1.0, t.tensor([1.0])], [1.0, t.tensor([2.0])], {}), "AssertionError"),
    "a tuple and a list": (lambda t: ((1.0,), [2.0], {}), "AssertionError"),
    "nested": (
        lambda t: ({"a": [1.0, t.tensor([1.0])]}, {"a": [1.0, t.tensor([2.0])]}, {}),
        "AssertionError",
    ),
    "keys": (lambda t: ({"a": 1, "c": 2}, {"a": 1, "b": 2}, {}), "AssertionError"),
    "kinds of mappings": (lambda t: (collections.OrderedDict(a=1.0), {"a": 2.0}, {}), "AssertionError"),
    "a tensor and a list": (lambda t: (t.tensor([1.0]), [1.0], {}), "TypeError"),
    "a tensor and a number": (lambda t: (t.tensor(1.0), 1.0, {}), "TypeError"),
    "an array and a tensor": (lambda t: (np.ones(2), t.ones(2), {}), "TypeError"),
    "arrays": (lambda t: (np.array([1.0, 2.0]), np.array([1.0, 3.0]), {}), "AssertionError"),
    "one tolerance": (lambda t: (1.0, 1.0, {"rtol": 1}), "ValueError"),
    "message": (lambda t: (t.tensor([1.0]), t.tensor([2.0]), {"msg": "hello"}), "AssertionError"),
    "message made": (
        lambda t: (t.tensor([1.0]), t.tensor([2.0]), {"msg": lambda m: "X" + m}),
        "AssertionError",
    ),
    "requires_grad": (lambda t: (t.ones(2, requires_grad=True), t.ones(2), {}), "passes"),
}


def outcome(check: Any, lib: Any, make: Callable[[Any], tuple[Any, ...]]) -> tuple[str, str]:
    actual, expected, options = make(lib)
    try:
        check(actual, expected, **options)
    except Exception as error:
        return type(error).__name__, str(error).replace(lib.__name__ + ".", "").replace("tensor.Tensor", "Tensor")
    return "passes", ""


@pytest.mark.parametrize("name", CASES)
def test_outcome(name: str) -> None:
    make, kind = CASES[name]
    assert outcome(assert_close, adjoint, make)[0] == kind


@pytest.mark.parametrize("name", CASES)
def test_outcome_and_message_are_torchs(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle")
    make, _ = CASES[name]
    assert outcome(assert_close, adjoint, make) == outcome(torch.testing.assert_close, torch, make)


def test_message_names_the_place() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_close({"w": [adjoint.ones(2, 2), adjoint.zeros(2)]}, {"w": [adjoint.ones(2, 2), adjoint.ones(2)]})
    assert str(caught.value) == (
        "Tensor-likes are not close!\n\n"
        "Mismatched elements: 2 / 2 (100.0%)\n"
        "Greatest absolute difference: 1.0 at index (0,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 1.0 at index (0,) (up to 1.3e-06 allowed)\n\n"
        "The failure occurred for item ['w'][1]"
    )
    assert caught.value.__context__ is None


def test_subclasses() -> None:
    class Special(adjoint.Tensor):
        pass

    special = adjoint.ones(2)
    special.__class__ = Special
    assert_close(special, adjoint.ones(2))
    with pytest.raises(TypeError, match="No comparison pair was able to handle"):
        assert_close(special, adjoint.ones(2), allow_subclasses=False)


def test_assert_allclose_is_deprecated() -> None:
    with pytest.warns(FutureWarning, match="deprecated"):
        assert_allclose(adjoint.ones(2), [1.0, 1.0])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="Tensor-likes are not close!"):
        assert_allclose(adjoint.ones(2), adjoint.zeros(2, dtype=adjoint.float64))


# --- make_tensor ------------------------------------------------------------------------------------

MADE: dict[str, tuple[tuple[Any, ...], str, dict[str, Any]]] = {
    "float32": ((3,), "float32", {}),
    "float64": ((2, 3), "float64", {"low": 0, "high": 1}),
    "float16": ((3,), "float16", {"low": 0, "high": 1}),
    "bfloat16": (([2, 2],), "bfloat16", {}),
    "complex64": ((2, 2), "complex64", {}),
    "complex128": ((3,), "complex128", {"low": 0, "high": 1, "exclude_zero": True}),
    "int64": ((5,), "int64", {}),
    "int8 clamped": ((5,), "int8", {"low": -1000, "high": 1000}),
    "uint8": ((5,), "uint8", {}),
    "int64 fractions": ((5,), "int64", {"low": 0.5, "high": 2.5}),
    "all of int64": ((3,), "int64", {"low": -(2**63), "high": 2**63 - 1}),
    "bool": ((8,), "bool", {}),
    "bool clamped": ((8,), "bool", {"low": -3, "high": 5}),
    "no zero": ((10,), "int64", {"low": 0, "high": 2, "exclude_zero": True}),
    "noncontiguous": (((2, 3),), "float64", {"noncontiguous": True}),
    "noncontiguous column": ((2, 1), "float32", {"noncontiguous": True}),
    "noncontiguous element": ((1,), "float32", {"noncontiguous": True}),
    "scalar": (((),), "float64", {}),
    "empty": ((0, 3), "float64", {}),
    "requires_grad": ((3,), "float64", {"requires_grad": True}),
    "whole range": ((3,), "float32", {"low": -inf, "high": inf}),
    "huge range": ((3,), "float64", {"low": -1e308, "high": 1e308}),
    "integers have no gradient": ((3,), "int64", {"requires_grad": True}),
    "crossed": ((3,), "float32", {"low": 4, "high": 3}),
    "equal integers": ((3,), "int64", {"low": 3, "high": 3}),
    "equal floats": ((3,), "float32", {"low": 3, "high": 3}),
    "NaN": ((3,), "float32", {"low": nan}),
    "out of range": ((3,), "uint8", {"low": 300, "high": 400}),
}


def made(lib: Any, make: Any, name: str) -> Any:
    shape, dtype, options = MADE[name]
    lib.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out = make(*shape, dtype=getattr(lib, dtype), device="cpu", **options)
        except Exception as error:
            return type(error).__name__, str(error).replace(lib.__name__ + ".", "")
    exact = out.detach().to(lib.float64) if dtype == "bfloat16" else out.detach()
    return out.requires_grad, tuple(out.stride()), exact.numpy().tolist()


@pytest.mark.parametrize("name", MADE)
def test_make_tensor_is_torchs(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle")
    ours, theirs = made(adjoint, make_tensor, name), made(torch, torch.testing.make_tensor, name)
    assert ours[:2] == theirs[:2]
    if len(theirs) == 3:
        np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-6)


def test_make_tensor_values() -> None:
    adjoint.manual_seed(3)
    values = make_tensor(3, dtype=adjoint.float32, device="cpu")
    np.testing.assert_allclose(values.numpy(), [-8.9233, -7.0998, -3.8548], atol=1e-4)
    assert not make_tensor(4, 5, dtype=adjoint.float64, device="cpu", noncontiguous=True).is_contiguous()
    with pytest.raises(ValueError, match="mutually exclusive"):
        make_tensor(2, 2, dtype=adjoint.float32, device="cpu", noncontiguous=True, memory_format=object())
    with pytest.warns(FutureWarning, match="low==high"):
        make_tensor(2, dtype=adjoint.float32, device="cpu", low=1, high=1)


# --- utils ------------------------------------------------------------------------------------------


def test_hooks() -> None:
    hooks = importlib.import_module("adjoint.utils.hooks")
    calls: dict[int, Any] = {}
    handle = hooks.RemovableHandle(calls)
    calls[handle.id] = print
    handle.remove()
    assert not calls

    @hooks.unserializable_hook
    def hook(g: Any) -> Any:
        return g

    class Hooked:
        _backward_hooks: dict[int, Any] = {0: hook}

    hooks.warn_if_has_hooks(Hooked())  # marked: silent
    Hooked._backward_hooks = {0: print}
    with pytest.warns(UserWarning, match="will not be serialized"):
        hooks.warn_if_has_hooks(Hooked())


def test_file_check() -> None:
    text = "a = add(x)\nb = mul(a)\nb = mul(b)\nreturn b"
    adjoint.testing.FileCheck().check("add").check_next("mul").check_same("(a)").check_not("sub").run(text)
    adjoint.testing.FileCheck().check_count("mul", 2, exactly=True).check_dag("return").run(text)
    for wrong in (
        adjoint.testing.FileCheck().check("mul").check("add"),
        adjoint.testing.FileCheck().check("add").check_not("mul").check("return"),
        adjoint.testing.FileCheck().check_count("mul", 1, exactly=True),
        adjoint.testing.FileCheck().check("add").check_next("return"),
    ):
        with pytest.raises(RuntimeError, match="Expected to"):
            wrong.run(text)
