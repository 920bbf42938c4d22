"""Tensors whose class answers for ops itself: what the handler hears, and that gradients go through it; as in torch."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from adjoint.core import modes


@pytest.fixture(params=["adjoint", "torch"])
def torch(request: Any) -> Any:
    if request.param == "torch":
        pytest.importorskip("torch", reason="the second opinion")
    return importlib.import_module(request.param)


def wrapper(torch: Any, slots: bool) -> Any:
    """Return a class of tensors that hold another tensor, and the list of what its handler heard."""
    heard: list[str] = []

    class Wrap(torch.Tensor):  # type: ignore[misc]
        if slots:
            __slots__ = ["elem"]

        @staticmethod
        def __new__(cls: Any, elem: Any, requires_grad: bool = False) -> Any:
            made = torch.Tensor._make_wrapper_subclass(
                cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=elem.device,
                requires_grad=requires_grad,
            )  # fmt: skip
            made.elem = elem
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard.append(str(func))
            assert types == (cls,)
            result = func(*[a.elem if isinstance(a, cls) else a for a in args], **(kwargs or {}))
            return cls(result) if isinstance(result, torch.Tensor) else result

    return Wrap, heard


@pytest.mark.parametrize("slots", [False, True])
def test_a_handler_hears_ops_and_gradients_go_through_it(torch: Any, slots: bool) -> None:
    Wrap, heard = wrapper(torch, slots)
    x = Wrap(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), requires_grad=True)
    y = x * x
    assert heard == ["aten.mul.Tensor"] and type(y) is Wrap and y.requires_grad and not y.elem.requires_grad
    assert (tuple(y.shape), y.dtype, y.device.type, y.stride()) == ((3,), torch.float64, "cpu", (1,))
    y.sum().backward()
    assert type(x.grad) is Wrap and x.grad.elem.tolist() == [2.0, 4.0, 6.0]
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.elem.tolist() == [6.0, 12.0, 18.0]


def test_writes_making_and_reading(torch: Any) -> None:
    Wrap, heard = wrapper(torch, slots=False)
    inner = torch.ones(2, 3)
    z = Wrap(inner)
    z.add_(1)
    assert heard == ["aten.add_.Tensor"] and z.elem is inner and inner.sum().item() == 12 and z._version == 1
    heard.clear()
    assert type(torch.zeros_like(z)) is type(z.detach()) is type(z[0]) is Wrap and z.sum().item() == 12
    assert heard == [
        "aten.zeros_like.default", "aten.detach.default", "aten.select.int", "aten.sum.default",
        "aten._local_scalar_dense.default",
    ]  # fmt: skip
    p = torch.nn.Parameter(z)
    assert type(p) is Wrap and isinstance(p, torch.nn.Parameter) and p.requires_grad
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(type("Plain", (torch.Tensor,), {}), (2,))


def test_a_class_with_elements_of_its_own(torch: Any) -> None:
    heard = []

    class Real(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    x = torch.Tensor._make_subclass(Real, torch.ones(2))
    y = x + 1
    assert heard == ["aten.add.Tensor"] and type(y) is torch.Tensor and y.tolist() == [2.0, 2.0]


def test_modes_see_what_makes_tensors(torch: Any) -> None:
    heard = []
    mode = importlib.import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode

    class Names(mode):  # type: ignore[misc, valid-type]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard.append((str(func), types))
            return func(*args, **(kwargs or {}))

    Wrap, _ = wrapper(torch, slots=False)
    with Names():
        torch.zeros(2)
        x = torch.empty(3)
        Wrap(x) * 2
    assert heard == [("aten.zeros.default", ()), ("aten.empty.memory_format", ()), ("aten.mul.Tensor", (Wrap,))]


def test_nothing_stays_unusual() -> None:
    before = modes.unusual
    import adjoint

    Wrap, _ = wrapper(adjoint, slots=True)
    x = Wrap(adjoint.ones(2), requires_grad=True)
    y = (x * 2).sum()
    assert modes.unusual > before
    y.backward()
    del x, y
    assert modes.unusual == before
