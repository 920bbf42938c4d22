"""Small modules of torch.utils that packages import: weak dictionaries, contexts that decorate, tensors by name."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import adjoint
from adjoint.nn.utils._named_member_accessor import NamedMemberAccessor, swap_tensor
from adjoint.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager, context_decorator
from adjoint.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakTensorKeyDictionary


def test_keys_are_tensors_by_identity_and_weak() -> None:
    a, b = adjoint.ones(2), adjoint.ones(2)
    known = WeakTensorKeyDictionary({a: 1})
    known[b] = 2
    assert (known[a], known[b], len(known)) == (1, 2, 2)
    assert a in known and adjoint.ones(2) not in known
    ref = TensorWeakRef(b)
    assert ref() is b
    del b
    gc.collect()
    assert ref() is None
    assert len(known) == 1 and next(iter(known)) is a
    del known[a]
    assert not WeakIdKeyDictionary(known)


def test_contexts_that_decorate() -> None:
    seen: list[str] = []

    class Loud(_DecoratorContextManager):
        def __enter__(self) -> None:
            seen.append("in")

        def __exit__(self, *error: object) -> None:
            seen.append("out")

    @Loud()
    def steps() -> Any:
        yield 1
        yield 2

    assert list(steps()) == [1, 2]
    assert seen == ["in", "out"] * 3

    class Plain(Loud, _NoParamDecoratorContextManager): ...

    assert Plain(lambda: 5)() == 5
    assert context_decorator(Loud, lambda: 6)() == 6
    assert seen == ["in", "out"] * 5


def test_tensors_of_a_module_by_name() -> None:
    model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 1))
    access = NamedMemberAccessor(model)
    before = access.swap_tensor("0.weight", adjoint.zeros(1, 2))
    assert isinstance(before, adjoint.nn.Parameter)
    assert access.get_tensor("0.weight").tolist() == [[0.0, 0.0]]
    assert model(adjoint.ones(1, 2)).equal(model[0].bias[None])
    with pytest.raises(AttributeError, match="has no attribute `missing`"):
        swap_tensor(model[0], "missing", before)
    access.set_tensors_dict({"0.weight": before})
    assert [name for name, _ in access.named_tensors()] == ["0.weight", "0.bias"]


def test_dtypes_that_can_only_be_named() -> None:
    assert adjoint.complex32 is adjoint.chalf
    assert (adjoint.complex32.is_complex, adjoint.complex32.itemsize, adjoint.qint8.itemsize) == (True, 4, 1)
    with pytest.raises(NotImplementedError, match="complex32 cannot be made"):
        adjoint.ones(2, dtype=adjoint.complex32)


def test_swapped_tensors_take_each_others_place() -> None:
    a, b = adjoint.ones(2, requires_grad=True), adjoint.nn.Parameter(adjoint.zeros(3))
    adjoint.utils.swap_tensors(a, b)
    assert isinstance(a, adjoint.nn.Parameter) and a.shape == (3,) and b.tolist() == [1.0, 1.0]
    (a * 2).sum().backward()
    assert a.grad.tolist() == [2.0, 2.0, 2.0] and b.grad is None
