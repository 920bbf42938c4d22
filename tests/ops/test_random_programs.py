"""Random functions outside transforms against torch: the order in memory, strides, tensors without elements."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import adjoint
from tests.autograd.programs import Program
from tests.devices.cpu.test_random import needs_own_bernoulli
from tests.oracle import needs_torch, outcome, same, torch

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda T: T.empty(4, 6),
    "few": lambda T: T.empty(2, 3),
    "transposed": lambda T: T.empty(6, 4).t(),
    "few transposed": lambda T: T.empty(3, 2).t(),
    "permuted": lambda T: T.empty(2, 3, 4).permute(2, 0, 1),
    "stepped": lambda T: T.empty(4, 12)[:, ::2],
    "sliced": lambda T: T.empty(6, 6)[1:5, 2:],
    "channels last": lambda T: T.empty(2, 3, 4, 2).contiguous(memory_format=T.channels_last),
}
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "dropout": lambda T, x: T.nn.functional.dropout(x, 0.3),
    "dropout in place": lambda T, x: T.nn.functional.dropout(x, 0.3, True, True),
    "alpha_dropout": lambda T, x: T.nn.functional.alpha_dropout(x, 0.3, True),
    "dropout3d": lambda T, x: T.nn.functional.dropout3d(x, 0.3),
    "native_dropout": lambda T, x: T.native_dropout(x, 0.3, True),
    "multinomial": lambda T, x: T.multinomial(x, 2),
    "multinomial again": lambda T, x: T.multinomial(x, 4, True),
    "gumbel_softmax": lambda T, x: T.nn.functional.gumbel_softmax(x),
    "bernoulli": lambda T, x: T.bernoulli(x),
    "bernoulli by a number": lambda T, x: T.bernoulli(x, 0.3),
    "normal": lambda T, x: T.normal(x, 2.0),
    "poisson": lambda T, x: T.poisson(x * 8),
    "rand_like": lambda T, x: T.rand_like(x),
    "randn_like": lambda T, x: T.randn_like(x),
    "normal_": lambda T, x: x.normal_(),
    "uniform_": lambda T, x: x.uniform_(),
    "bernoulli_": lambda T, x: x.bernoulli_(x.clone()),
    "random_": lambda T, x: x.random_(5),
}


def drawn(layout: str, draw: str) -> Program:
    def program(T: Any) -> Any:
        T.manual_seed(0)
        x = LAYOUTS[layout](T)
        x.copy_(T.linspace(0.1, 0.9, x.numel()).reshape(x.shape))
        out = DRAWS[draw](T, x)
        every = out if isinstance(out, tuple) else (out,)
        return every, [o.stride() for o in every], T.rand(2)

    return program


@needs_own_bernoulli
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_order_in_memory(layout: str, draw: str) -> None:
    if (layout, draw) in {("permuted", "dropout3d"), ("transposed", "dropout3d"), ("few transposed", "dropout3d")}:
        pytest.skip("mul of tensors that lie differently gives a contiguous one")
    same(drawn(layout, draw), 1e-5)


META: dict[str, Callable[[Any, Any], Any]] = {
    "rand": lambda T, x: T.rand(3, device="meta"),
    "randint": lambda T, x: T.randint(3, (3,), device="meta"),
    "randperm": lambda T, x: T.randperm(3, device="meta"),
    "like": lambda T, x: T.rand_like(x),
    "bernoulli": lambda T, x: T.bernoulli(x),
    "bernoulli by a number": lambda T, x: T.bernoulli(x, 0.5),
    "bernoulli_": lambda T, x: x.bernoulli_(x),
    "normal_": lambda T, x: x.normal_(),
    "random_": lambda T, x: x.random_(),
    "geometric_": lambda T, x: x.geometric_(0.5),
    "normal": lambda T, x: T.normal(x, x),
    "poisson": lambda T, x: T.poisson(x),
    "multinomial": lambda T, x: T.multinomial(x, 2),
    "dropout": lambda T, x: T.nn.functional.dropout(x),
    "alpha_dropout": lambda T, x: T.nn.functional.alpha_dropout(x, training=True),
    "rrelu": lambda T, x: T.nn.functional.rrelu(x, training=True),
    "init": lambda T, x: T.nn.init.trunc_normal_(x),
    "layer": lambda T, x: T.nn.Linear(2, 3, device="meta").weight,
}


@needs_torch
@pytest.mark.parametrize("name", META)
def test_nothing_is_drawn_without_elements(name: str) -> None:
    def program(T: Any) -> Any:
        T.manual_seed(0)
        out = META[name](T, T.empty(2, 3, device="meta"))
        return list(out.shape), str(out.dtype).rpartition(".")[2], out.device.type, T.rand(2)

    same(program)


GENERATORS: dict[str, Program] = {
    "set_state": lambda T: (lambda g: (g.set_state(g.get_state()) is g, T.set_rng_state(T.get_rng_state())))(
        T.Generator()
    ),
    "short state": lambda T: T.Generator().set_state(T.zeros(3, dtype=T.uint8)),
    "other state": lambda T: T.Generator().set_state(T.zeros(5056)),
    "no state": lambda T: T.Generator().set_state([1]),
    "float": lambda T: T.Generator().manual_seed(1.5),
    "text": lambda T: T.Generator().manual_seed("a"),
    "tensor": lambda T: T.Generator().manual_seed(T.tensor(3)),
    "bool": lambda T: T.Generator().manual_seed(True),
    "too large": lambda T: T.Generator().manual_seed(2**64),
    "negative": lambda T: T.Generator().manual_seed(-5).initial_seed(),
    "default by a float": lambda T: T.manual_seed(2.7).initial_seed(),
    "offset": lambda T: T.Generator().get_offset(),
    "graph": lambda T: T.Generator().graphsafe_get_state(),
    "clone": lambda T: (lambda g: (T.rand(2, generator=g.clone_state()), T.rand(2, generator=g)))(
        T.Generator().manual_seed(1)
    ),
    "pickled": lambda T: T.rand(2, generator=pickle.loads(pickle.dumps(T.Generator().manual_seed(4)))),
    "copied": lambda T: T.rand(2, generator=copy.deepcopy(T.Generator().manual_seed(4))),
    "none": lambda T: T.ones(3).normal_(generator="a"),
}


@needs_torch
@pytest.mark.parametrize("name", GENERATORS)
def test_generators(name: str) -> None:
    kind, mine = outcome(GENERATORS[name], adjoint)
    expected_kind, theirs = outcome(GENERATORS[name], torch)
    assert kind == expected_kind, (mine, theirs)
    if kind == "value":
        same(GENERATORS[name])
    else:
        assert mine[0] == theirs[0] and (name == "none" or mine[1][:24] == theirs[1][:24])
