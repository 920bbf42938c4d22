"""Programs traced into graphs: the text is torch's, the module does what it did, and graphs can be rewritten."""

from __future__ import annotations

import copy
import importlib
import operator
import pickle
from typing import Any

import pytest

import adjoint
from adjoint import fx, nn
from tests.oracle import needs_torch, torch


def net(T: Any) -> Any:
    class Block(T.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = T.nn.Conv2d(3, 3, 3, padding=1), T.nn.BatchNorm2d(3)
            self.scale = T.nn.Parameter(T.ones(1))

        def forward(self, x: Any) -> Any:
            return T.relu(self.norm(self.conv(x)) * self.scale + x)

    class Net(T.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.head = T.nn.ModuleList([Block(), Block()]), T.nn.Linear(3, 2)
            self.register_buffer("shift", T.zeros(2))

        def forward(self, x: Any, bias: float = 0.5) -> Any:
            for block in self.blocks:
                x = block(x)
            a, b = x.flatten(2).mean(dim=-1).chunk(2, 0)
            return {"out": self.head(T.cat([a, b], dim=0)) + self.shift + bias, "size": a.shape[0]}

    return Net().eval()


def text(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip()]


@needs_torch
def test_the_text_is_torchs() -> None:
    theirs = torch.fx.symbolic_trace(net(torch))
    assert text(fx.symbolic_trace(net(adjoint)).code)[1:] == text(theirs.code)[1:]  # the first has its annotations
    assert str(fx.symbolic_trace(lambda x: (x * 2).sum(-1)).graph) == str(
        torch.fx.symbolic_trace(lambda x: (x * 2).sum(-1)).graph
    )


def starred(x: Any, *rest: Any, k: int = 1, **named: Any) -> Any:
    return x * k + rest[0] + named["z"]


def typed(x: list[int], y: int | None = None) -> dict[str, int]:
    return {"sum": x[0] + y}  # type: ignore[dict-item, operator]


FUNCTIONS: dict[str, Any] = {
    "stars": lambda T: starred,
    "types": lambda T: typed,
    "defaults by name": lambda T: lambda x: T.nn.functional.dropout(T.nn.functional.max_pool2d(T.relu(x), 2)),
    "losses": lambda T: lambda x, y: T.nn.functional.cross_entropy(x, y, reduction="sum"),
    "packages": lambda T: lambda x: T.flatten(T.softmax(x, 1), 1).view(x.size(0), -1),
}


@needs_torch
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_character_of_the_text_is_torchs(name: str) -> None:
    ours, theirs = (T.fx.symbolic_trace(FUNCTIONS[name](T)) for T in (adjoint, torch))
    assert (ours.code, str(ours.graph)) == (theirs.code, str(theirs.graph))
    assert str(ours) == str(theirs)


@needs_torch
@pytest.mark.parametrize("value", [None, 3, "word"])
def test_an_argument_given_to_the_trace_is_checked_in_the_graph(value: Any) -> None:
    def program(x: Any, y: Any = 0) -> Any:
        return x + 1 if y == value else x

    ours, theirs = (T.fx.symbolic_trace(program, {"y": value}) for T in (adjoint, torch))
    assert ours.code == theirs.code
    assert ours(adjoint.ones(1), value).item() == 2.0
    with pytest.raises(AssertionError, match="has been specialized"):
        ours(adjoint.ones(1), 7)


def test_functions_of_packages_are_named_by_their_path() -> None:
    code = fx.symbolic_trace(lambda x: adjoint.fft.fft(x) + adjoint.linalg.norm(x)).code
    assert "torch.fft.fft(x)" in code and "torch.linalg.norm(x)" in code


def test_a_proxy_is_no_number() -> None:
    for convert in (range, int, float):
        with pytest.raises(TypeError, match="Proxy"):
            fx.symbolic_trace(lambda x, convert=convert: convert(x), {"convert": convert})


def test_a_traced_module_is_the_module() -> None:
    model = net(adjoint)
    traced = fx.symbolic_trace(model)
    x = adjoint.randn(2, 3, 4, 4)
    for made in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert adjoint.equal(made(x)["out"], model(x)["out"]) and made(x)["size"] == 1
        assert list(made.state_dict()) and set(made.state_dict()) == set(model.state_dict())
    traced(x)["out"].sum().backward()
    assert model.blocks[0].scale.grad is not None  # the same parameters


def test_rewriting() -> None:
    traced = fx.symbolic_trace(lambda x, y: x + y)
    (node,) = traced.graph.find_nodes(op="call_function", target=operator.add)
    with traced.graph.inserting_after(node):
        new = traced.graph.call_function(adjoint.mul, node.args)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        traced.graph.erase_node(node)
    node.replace_all_uses_with(new)
    traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    assert traced(adjoint.tensor(3), adjoint.tensor(4)).item() == 12
    found = fx.replace_pattern(traced, lambda a, b: adjoint.mul(a, b), lambda a, b: adjoint.sub(a, b))
    assert len(found) == 1 and traced(adjoint.tensor(3), adjoint.tensor(4)).item() == -1


def test_what_is_not_used_is_taken_out() -> None:
    def program(x: Any) -> Any:
        _ = x * 3
        return x + 1

    traced = fx.symbolic_trace(program)
    assert traced.graph.eliminate_dead_code() and len(traced.graph.nodes) == 3


def test_graphs_made_by_hand() -> None:
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    graph.output(adjoint.relu(x * 2 - 1).node)
    module = fx.GraphModule(nn.Module(), graph)
    assert module(adjoint.tensor([0.0, 2.0])).tolist() == [0.0, 3.0]


def test_an_interpreter_and_a_transformer() -> None:
    class Counting(fx.Interpreter):
        count = 0

        def run_node(self, n: Any) -> Any:
            self.count += 1
            return super().run_node(n)

    class Swapping(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_function(operator.sub if target is operator.add else target, args, kwargs)

    traced = fx.symbolic_trace(lambda x, y: (x + y) * 2)
    counting = Counting(traced)
    assert counting.run(3, 4) == 14 and counting.count == 5
    assert Swapping(traced).transform()(3, 4) == -2


@needs_torch
def test_shapes_are_noted_as_in_torch() -> None:
    def noted(T: Any) -> Any:
        from_torch = importlib.import_module(f"{T.__name__}.fx.passes.shape_prop")
        traced = T.fx.symbolic_trace(net(T))
        from_torch.ShapeProp(traced).propagate(T.ones(2, 3, 4, 4))
        described = {}
        for node in traced.graph.nodes:
            if "tensor_meta" in node.meta:
                at = node.meta["tensor_meta"]
                described[node.name] = [
                    (
                        tuple(m.shape),
                        m.requires_grad,
                        m.stride,
                        *(str(w).split(".")[-1] for w in (m.dtype, m.memory_format)),
                    )
                    for m in ((at,) if hasattr(at, "shape") else at.values() if isinstance(at, dict) else at)
                    if hasattr(m, "stride")
                ]
        return described

    assert noted(adjoint) == noted(torch)


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        (lambda x: x if x.sum() > 0 else -x, fx.TraceError, "inputs to control flow"),
        (lambda x: list(x), fx.TraceError, "Proxy object cannot be iterated"),
        (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing"),
    ],
)
def test_what_a_trace_cannot_know(program: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        fx.symbolic_trace(program)
