"""Debug mode: twenty ways to write into kept memory without a version counter, and custom functions that lie."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.autograd import debug_mode
from adjoint.autograd.debugging import FunctionGradientError
from adjoint.errors import InPlaceError


def _through_ctypes(x: Any, a: np.ndarray) -> None:
    address = x.detach().numpy().__array_interface__["data"][0]
    ctypes.memmove(address, b"\x00" * 8, 8)


def _through_memoryview(x: Any, a: np.ndarray) -> None:
    memoryview(a).cast("B")[3] ^= 0xFF


# Each writes into the memory of `x`, which was made from the NumPy array `a`.
ROUTES: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "source array": lambda x, a: a.__setitem__(0, 9.0),
    "source slice": lambda x, a: a[1:].__setitem__(0, 9.0),
    "source reversed": lambda x, a: a[::-1].__setitem__(0, 9.0),
    "source reshaped": lambda x, a: a.reshape(2, 2).__setitem__((0, 0), 9.0),
    "source fill": lambda x, a: a.fill(9.0),
    "source flat": lambda x, a: a.flat.__setitem__(0, 9.0),
    "source put": lambda x, a: np.put(a, [0], 9.0),
    "source copyto": lambda x, a: np.copyto(a, 9.0),
    "source sort": lambda x, a: a.sort(),
    "source ufunc out": lambda x, a: np.add(a, 1.0, out=a),
    "source ufunc at": lambda x, a: np.add.at(a, [0], 1.0),
    "source augmented": lambda x, a: a.__imul__(2.0),
    "source as other dtype": lambda x, a: a.view(np.int64).__setitem__(0, 1),
    "source strided": lambda x, a: np.lib.stride_tricks.as_strided(a, (2,), (16,)).__setitem__(0, 9.0),
    "detach().numpy()": lambda x, a: x.detach().numpy().__setitem__(0, 9.0),
    "data.numpy()": lambda x, a: x.data.numpy().__setitem__(0, 9.0),
    "data": lambda x, a: x.data.mul_(2.0),
    "np.asarray": lambda x, a: np.asarray(x.detach()).__setitem__(0, 9.0),
    "memoryview": _through_memoryview,
    "ctypes": _through_ctypes,
    "raw array": lambda x, a: x.array.__setitem__(0, 9.0),
    "another tensor of the array": lambda x, a: adjoint.from_numpy(a).add_(1.0),
}


@pytest.mark.parametrize("route", ROUTES)
def test_a_write_behind_its_back_is_found(route: str) -> None:
    a = np.array([4.0, 3.0, 2.0, 1.0])
    x = adjoint.from_numpy(a).requires_grad_()
    with debug_mode():
        loss = (x * x).sum()
    ROUTES[route](x, a)
    with pytest.raises(InPlaceError, match=r"float64\[4\].*test_debugging.py"):
        loss.backward()


def test_what_was_not_written_passes() -> None:
    a = np.array([4.0, 3.0])
    x = adjoint.from_numpy(a).requires_grad_()
    with debug_mode():
        loss = (x.sin() * x.T.exp()).sum() + adjoint.nn.functional.softmax(x[:0], 0).sum()
        loss.backward()
    plain = adjoint.tensor(a, requires_grad=True)
    (plain.sin() * plain.exp()).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


class Right(adjoint.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        Right.calls += 1
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.sin() * factor

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.cos() * ctx.factor, None


class Wrong(Right):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.cos(), None  # the factor is forgotten


class Single(adjoint.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        if x.dtype != adjoint.float32:
            raise TypeError("only float32")
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_custom_functions_are_checked_once() -> None:
    x = adjoint.tensor([0.3, 0.5], requires_grad=True)
    with debug_mode():
        Right.apply(x, 3.0)
        calls = Right.calls
        Right.apply(x, 3.0)
        assert Right.calls == calls + 1
        with pytest.raises(FunctionGradientError, match=r"Wrong.backward \(backward at .*test_debugging.py:\d+\)"):
            Wrong.apply(x, 3.0)
    Wrong.apply(x, 3.0)
    with debug_mode(functions=False):
        Wrong.apply(x, 3.0)


def test_a_function_that_cannot_be_checked_is_named() -> None:
    x = adjoint.tensor([0.3], requires_grad=True)
    with debug_mode(), pytest.warns(UserWarning, match="Single.*could not be checked.*only float32"):
        assert Single.apply(x).item() == pytest.approx(0.6)


def test_without_gradients_nothing_is_checked() -> None:
    with debug_mode():
        Wrong.apply(adjoint.tensor([0.3]), 3.0)
        with adjoint.no_grad():
            Wrong.apply(adjoint.tensor([0.3], requires_grad=True), 3.0)
