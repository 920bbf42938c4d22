"""Containers do what torch's do, step by step."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import adjoint
from adjoint import nn
from tests.oracle import needs_torch, same


def sequential(m: Any) -> Any:
    return m.nn.Sequential(m.nn.Linear(1, 2), m.nn.ReLU(), m.nn.Tanh())


def listed(m: Any) -> Any:
    return m.nn.ModuleList([m.nn.Linear(1, 2), m.nn.Linear(1, 2), m.nn.ReLU()])


def parameters(m: Any) -> Any:
    return m.nn.ParameterList([m.zeros(2, 3), 3, m.nn.Parameter(m.ones(2))])


def named(m: Any) -> Any:
    return m.nn.ParameterDict({"a": m.ones(2), "b": 5})


def changed(make: Any, change: Any) -> Any:
    """Return a program that changes a container and tells what became of it."""

    def program(m: Any) -> Any:
        box = make(m)
        answer = change(m, box)
        return repr(answer), repr(box), list(box.state_dict())

    return program


CHANGES: list[tuple[Any, Any]] = [
    (sequential, lambda m, s: s[0]),
    (sequential, lambda m, s: s[-1]),
    (sequential, lambda m, s: s[0:2]),
    (sequential, lambda m, s: s[5]),
    (sequential, lambda m, s: s["0"]),
    (sequential, lambda m, s: s[0.5]),
    (sequential, lambda m, s: len(s)),
    (sequential, lambda m, s: s + s),
    (sequential, lambda m, s: s + 3),
    (sequential, lambda m, s: s * 2),
    (sequential, lambda m, s: 2 * s),
    (sequential, lambda m, s: s * 0),
    (sequential, lambda m, s: s * 1.5),
    (sequential, lambda m, s: s.__iadd__(s[:1])),
    (sequential, lambda m, s: s.__imul__(2)),
    (sequential, lambda m, s: s.append(m.nn.GELU())),
    (sequential, lambda m, s: s.append(3)),
    (sequential, lambda m, s: s.extend([m.nn.GELU(), m.nn.ReLU()])),
    (sequential, lambda m, s: s.extend(3)),
    (sequential, lambda m, s: s.insert(1, m.nn.GELU())),
    (sequential, lambda m, s: s.insert(9, m.nn.GELU())),
    (sequential, lambda m, s: s.insert(1, 3)),
    (sequential, lambda m, s: s.pop(0)),
    (sequential, lambda m, s: s.pop(-1)),
    (sequential, lambda m, s: s.pop(slice(0, 2))),
    (sequential, lambda m, s: s.__delitem__(0)),
    (sequential, lambda m, s: s.__delitem__(slice(0, 2))),
    (sequential, lambda m, s: s.__setitem__(0, m.nn.GELU())),
    (sequential, lambda m, s: [n for n in dir(s) if n.isdigit()]),
    (sequential, lambda m, s: m.nn.Sequential(OrderedDict(a=m.nn.ReLU(), b=m.nn.Linear(1, 1)))),
    (sequential, lambda m, s: m.nn.Sequential({"a": m.nn.ReLU()})),
    (sequential, lambda m, s: m.nn.Sequential([m.nn.ReLU()])),
    (listed, lambda m, b: b[5]),
    (listed, lambda m, b: b[0:2]),
    (listed, lambda m, b: b + [m.nn.ReLU()]),
    (listed, lambda m, b: b + 3),
    (listed, lambda m, b: b.__iadd__([m.nn.ReLU()])),
    (listed, lambda m, b: b.append(3)),
    (listed, lambda m, b: b.extend(3)),
    (listed, lambda m, b: b.insert(1, m.nn.Tanh())),
    (listed, lambda m, b: b.pop(0)),
    (listed, lambda m, b: b.pop(slice(0, 1))),
    (listed, lambda m, b: b.__delitem__(1)),
    (listed, lambda m, b: b.__setitem__(0, m.nn.CELU())),
    (listed, lambda m, b: b.__setitem__(0, 3)),
    (listed, lambda m, b: b(1)),
    (listed, lambda m, b: m.nn.ModuleList()),
    (listed, lambda m, b: m.nn.ModuleList([m.nn.Linear(1, 1)] * 3 + [m.nn.ReLU()] * 2)),
    (parameters, lambda m, p: p[0:2]),
    (parameters, lambda m, p: p[-1]),
    (parameters, lambda m, p: p.append(m.ones(1))),
    (parameters, lambda m, p: p.extend([m.ones(1), "x"])),
    (parameters, lambda m, p: p.extend(3)),
    (parameters, lambda m, p: p.__iadd__([m.ones(1)])),
    (parameters, lambda m, p: p.__setitem__(0, m.ones(5))),
    (parameters, lambda m, p: p.__setitem__(0, 5)),
    (parameters, lambda m, p: len(list(p))),
    (named, lambda m, d: list(d.keys())),
    (named, lambda m, d: [k for k, _ in d.items()]),
    (named, lambda m, d: d["a"]),
    (named, lambda m, d: d["c"]),
    (named, lambda m, d: d.get("c", 4)),
    (named, lambda m, d: d.pop("a")),
    (named, lambda m, d: d.popitem()),
    (named, lambda m, d: d.setdefault("c", m.ones(1))),
    (named, lambda m, d: d.copy()),
    (named, lambda m, d: d.update({"z": m.ones(3)})),
    (named, lambda m, d: d | m.nn.ParameterDict({"c": 1})),
    (named, lambda m, d: sorted({"c": 1} | d)),
    (named, lambda m, d: d.__ior__({"c": 1})),
    (named, lambda m, d: list(reversed(d))),
    (named, lambda m, d: d.fromkeys(["x", "y"], 3)),
    (named, lambda m, d: d.clear()),
    (named, lambda m, d: "a" in d),
    (named, lambda m, d: d.__setitem__(3, 4)),
    (named, lambda m, d: m.nn.ParameterDict(3)),
    (named, lambda m, d: m.nn.ParameterDict([("a", m.ones(1))])),
    (named, lambda m, d: m.nn.ModuleDict([["a", m.nn.ReLU()]])),
    (named, lambda m, d: m.nn.ModuleDict({"a.b": m.nn.ReLU()})),
    (named, lambda m, d: m.nn.ModuleDict({"keys": m.nn.ReLU()})),
    (named, lambda m, d: m.nn.ModuleDict({"a": 3})),
    (named, lambda m, d: m.nn.ModuleDict(3)),
    (named, lambda m, d: m.nn.ModuleDict([3])),
    (named, lambda m, d: m.nn.ModuleDict([[3]])),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_changes(number: int) -> None:
    same(changed(*CHANGES[number]))


def test_insert_before_the_end() -> None:
    """Where torch loses a module: a negative index counts from the end, as in a list."""
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    layers.insert(-1, nn.GELU())
    assert [type(m).__name__ for m in layers] == ["ReLU", "GELU", "Tanh"]


def test_module_dict() -> None:
    box = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
    box["c"] = nn.Tanh()
    assert list(box) == ["a", "b", "c"] and len(box) == 3 and "b" in box
    assert box.pop("b").__class__ is nn.ReLU
    del box["c"]
    assert [k for k, _ in box.items()] == list(box.keys()) == ["a"]
    assert len(list(box.values())) == 1
    assert box.a is box["a"]
    box.clear()
    assert len(box) == 0


def test_a_sequence_computes() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 1)))
    x = adjoint.ones(3, 2)
    assert (net(x) == net[1][1](net[1][0](net[0](x)))).all()
