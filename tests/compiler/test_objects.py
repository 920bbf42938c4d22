"""Objects that hold tensors, as arguments and results of compiled functions."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any

import pytest

import adjoint
from adjoint import nn
from adjoint.compiler.objects import flatten_arguments, flatten_result
from adjoint.tree import tree_unflatten


class Output(OrderedDict[str, Any]):
    """A mapping whose items are attributes too."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.__dict__.update(fields)


class Cache:
    def __init__(self) -> None:
        self.layers: list[Any] = []
        self.count = 0

    def update(self, *tensors: Any) -> None:
        self.layers.append(tensors)
        self.count += 1


@dataclasses.dataclass
class Batch:
    x: Any
    y: Any
    name: str = "train"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 2)
        self.unused = nn.Linear(4, 3)

    def forward(self, batch: Batch) -> Output:
        cache = Cache()
        keys = self.a(batch.x).view(-1, 2, 4).transpose(0, 1)
        values = self.b(batch.x)
        cache.update(keys, values)
        hidden = (keys.transpose(0, 1).reshape(-1, 8) * values).tanh()
        return Output(logits=self.c(hidden), cache=cache, extra=self.unused(batch.x), frozen=Frozen(hidden))


def losses(net: Any, model: Net, use: int) -> list[Any]:
    adjoint.manual_seed(1)
    found = []
    for i in range(5):
        batch = Batch(adjoint.randn(3, 4), adjoint.randn(3, 2))
        model.zero_grad()
        out = net(batch)
        assert type(out) is Output and out["cache"] is out.cache and type(out.cache) is Cache
        assert out.cache.count == len(out.cache.layers) == 1 and type(out.frozen) is Frozen
        loss = ((out.logits - batch.y) ** 2).sum()
        if use >= 1 and i > 2:
            loss = loss + out.cache.layers[0][0].sum()
        if use == 2:
            loss = loss + out.extra.sum() + out.frozen.x.sum()
        loss.backward()
        found.append((loss.detach(), [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()]))
    return found


@pytest.mark.parametrize("use", [0, 1, 2])
def test_a_model_may_return_objects_and_gradients_arrive_for_the_results_that_are_used(use: int) -> None:
    adjoint.manual_seed(0)
    model = Net()
    compiled = adjoint.compile(model, fullgraph=True)
    for (loss, grads), (expected, eager) in zip(losses(compiled, model, use), losses(model, model, use), strict=True):
        adjoint.testing.assert_close(loss, expected)
        for g, e in zip(grads, eager, strict=True):
            assert (g is None) is (e is None)  # as eagerly: what no loss depends on has no gradient
            if g is not None:
                adjoint.testing.assert_close(g, e)
    assert len(compiled.compiled.traces) == 1


def test_each_call_returns_objects_of_its_own() -> None:
    @adjoint.compile(fullgraph=True)
    def function(x: Any) -> Cache:
        cache = Cache()
        cache.update(x * 2)
        return cache

    outputs = [function(adjoint.full((2,), float(i))) for i in range(4)]
    assert len({id(o) for o in outputs}) == len({id(o.layers) for o in outputs}) == 4
    assert [o.layers[0][0].tolist() for o in outputs] == [[2.0 * i] * 2 for i in range(4)]


def test_a_dataclass_of_tensors_is_compared_by_its_fields() -> None:
    @adjoint.compile(fullgraph=True)
    def function(batch: Batch) -> Any:
        return batch.x * (2 if batch.name == "train" else 3)

    for _ in range(3):
        assert function(Batch(adjoint.ones(1), None)).item() == 2
    assert function(Batch(adjoint.ones(1), None, "test")).item() == 3
    assert len(function.traces) == 2


def test_an_object_that_was_there_before_is_returned_itself() -> None:
    class Holder:
        weight = adjoint.ones(2)

        def __init__(self) -> None:
            self.bias = adjoint.zeros(2)

    holder = Holder()

    @adjoint.compile(fullgraph=True)
    def function(x: Any) -> Any:
        return x + holder.bias, holder

    for _ in range(3):
        assert function(adjoint.ones(2))[1] is holder


def test_shared_objects_and_cycles_are_made_again_as_they_were() -> None:
    cache = Cache()
    cache.update(adjoint.ones(1))
    cache.itself = cache  # type: ignore[attr-defined]
    leaves, spec = flatten_result({"one": cache, "two": cache}, set())
    again = tree_unflatten(leaves, spec)
    assert again["one"] is again["two"] is again["one"].itself is not cache
    assert again["one"].layers[0][0] is cache.layers[0][0]


def test_objects_without_tensors_and_modules_are_leaves() -> None:
    module, plain = nn.Linear(1, 1), Batch(1, 2)
    assert flatten_arguments((module, plain))[0] == [module, plain]
    assert flatten_result((module, plain), set())[0] == [module, plain]
