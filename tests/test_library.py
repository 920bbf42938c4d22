"""Operators of a program's own, the operators of ``torch.ops``, and modes that see every primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import adjoint
from adjoint import Tensor, library
from adjoint.utils._python_dispatch import TorchDispatchMode


@library.custom_op("tests::scale", mutates_args=())
def scale(x: Tensor, s: float = 2.0) -> Tensor:
    """Scale."""
    return x * s


def test_an_op_without_gradient_says_so() -> None:
    x = adjoint.ones(3, requires_grad=True)
    y = scale(x, 3.0)
    assert y.grad_fn.name() == "GeneratedBackwardFor_tests_scale_defaultBackward"
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()
    assert not scale(x.detach()).requires_grad


def test_an_op_with_a_gradient() -> None:
    @library.custom_op("tests::cubed", mutates_args=())
    def cubed(x: Tensor, *, k: float = 1.0) -> Tensor:
        return x**3 * k

    def keep(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.k = keyword_only_inputs["k"]

    cubed.register_autograd(lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2 * ctx.k, setup_context=keep)
    x = adjoint.tensor([0.5, 2.0], dtype=adjoint.float64, requires_grad=True)
    assert adjoint.autograd.gradcheck(lambda t: cubed(t, k=2.0), x)
    assert adjoint.autograd.gradgradcheck(lambda t: cubed(t, k=2.0), x)
    assert library.opcheck(cubed, (x,), {"k": 2.0})["test_schema"] == "SUCCESS"


def test_ops_of_lists_and_of_several_outputs() -> None:
    @library.custom_op("tests::joined", mutates_args=())
    def joined(xs: Sequence[Tensor]) -> Tensor:
        return adjoint.cat(list(xs))

    joined.register_autograd(lambda ctx, g: [g[:3] * 2, g[3:] * 3])

    @library.custom_op("tests::two", mutates_args=())
    def two(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 1, x * 2

    two.register_autograd(lambda ctx, g, h: g + 2 * h)
    a, b = adjoint.ones(3, requires_grad=True), adjoint.ones(2, requires_grad=True)
    joined([a, b]).sum().backward()
    assert a.grad.tolist() == [2.0] * 3
    assert b.grad.tolist() == [3.0] * 2
    p, q = two(b)
    (p + q).sum().backward()
    assert b.grad.tolist() == [6.0] * 2


def test_an_op_that_writes() -> None:
    @library.custom_op("tests::inc", mutates_args={"x"})
    def inc(x: Tensor) -> None:
        x.add_(1)

    x = adjoint.zeros(2)
    inc(x)
    assert x.tolist() == [1.0, 1.0]
    assert x._version > 0


def test_libraries_by_schema() -> None:
    lib = library.Library("tests2", "DEF")
    lib.define("foo(Tensor x, Tensor y) -> Tensor")
    lib.impl("foo", lambda x, y: x + y, "CompositeImplicitAutograd")
    x = adjoint.ones(2, requires_grad=True)
    adjoint.ops.tests2.foo(x, x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]

    library.define("tests2::bar", "(Tensor x) -> Tensor")

    @library.impl("tests2::bar", "cpu")
    def bar(x: Tensor) -> Tensor:
        return x.detach() * 5

    library.register_autograd("tests2::bar", lambda ctx, g: g * 5)
    x.grad = None
    adjoint.ops.tests2.bar.default(x).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="does not exist"):
        library.register_fake("tests2::unheard")


def test_schemas() -> None:
    def many(
        a: Tensor,
        b: Tensor | None,
        c: Sequence[Tensor],
        d: list[int],
        e: int,
        f: bool,
        g: str = "x",
        h: int | None = None,
    ) -> tuple[Tensor, Tensor]: ...  # fmt: skip

    rest = 'Tensor? b, Tensor[] c, SymInt[] d, SymInt e, bool f, str g="x", SymInt? h=None) -> (Tensor, Tensor)'
    assert library.infer_schema(many, mutates_args=()) == f"(Tensor a, {rest}"
    assert library.infer_schema(many, mutates_args={"a"}) == f"(Tensor(a0!) a, {rest}"
    with pytest.raises(ValueError, match="must have a type annotation"):
        library.custom_op("tests::bad", lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op("bad", scale._init_fn, mutates_args=())


def test_operators_by_name() -> None:
    aten = adjoint.ops.aten
    assert aten.add.Tensor(adjoint.ones(2), 1).tolist() == [2.0, 2.0]
    assert aten.add.Tensor is aten.add.Tensor
    assert str(aten.mul.Tensor) == "aten.mul.Tensor"
    assert repr(aten.mul.Tensor) == "<OpOverload(op='aten.mul', overload='Tensor')>"
    assert aten.sum.dim_IntList.name() == "aten::sum.dim_IntList"
    assert aten.slice.Tensor(adjoint.arange(4), 0, 1, 3).tolist() == [1, 2]
    assert aten.linalg_det(adjoint.eye(2)).item() == 1.0
    assert aten.add_.Tensor(adjoint.ones(1), 1).item() == 2.0
    with pytest.raises(NotImplementedError, match="aten::_unheard_of"):
        aten._unheard_of(1)
    with pytest.raises(AttributeError, match="'_OpNamespace' 'tests' object has no attribute 'unheard'"):
        adjoint.ops.tests.unheard
    assert adjoint.ops.tests.scale.default(adjoint.ones(1), 4.0).item() == 4.0


class Names(TorchDispatchMode):
    """Remember what runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_every_primitive() -> None:
    x, w = adjoint.ones(2, 3, requires_grad=True), adjoint.ones(3, 3)
    with Names() as names:
        y = (((x * 2 + x) @ w).relu() - 1).sum()
        y.backward()
        w.add_(1)
        adjoint.cat([x, x])
    assert names.seen[:6] == [
        "aten.mul.Tensor", "aten.add.Tensor", "aten.mm.default", "aten.relu.default", "aten.sub.Tensor",
        "aten.sum.default",
    ]  # fmt: skip
    assert names.seen[-2:] == ["aten.add_.Tensor", "aten.cat.default"]
    assert x.grad.tolist() == [[9.0] * 3] * 2
    before = len(names.seen)
    x.sin()
    assert len(names.seen) == before


def test_a_mode_answers_in_the_place_of_a_primitive() -> None:
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func == adjoint.ops.aten.sin.default else result

    with Names() as names, Doubled():
        assert adjoint.zeros(1).cos().sin().item() == pytest.approx(2 * 0.8414709848)
    assert names.seen == ["aten.zeros.default", "aten.cos.default", "aten.sin.default", "aten.mul.Tensor"]
