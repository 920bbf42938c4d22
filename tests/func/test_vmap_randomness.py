"""Random functions inside vmap, by how the batches around them want their numbers, against torch: bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint
from tests.autograd.programs import Program
from tests.devices.cpu.test_random import needs_own_bernoulli
from tests.oracle import same

Draw = Callable[[Any, Any], Any]

FRESH: dict[str, Draw] = {
    "rand": lambda T, x: T.rand(2, 3),
    "randn": lambda T, x: T.randn(20),
    "randint": lambda T, x: T.randint(0, 10, (4,)),
    "randperm": lambda T, x: T.randperm(5),
    "normal": lambda T, x: T.normal(1.0, 2.0, size=(4,)),
    "added": lambda T, x: x + T.rand(()),
    "zeros": lambda T, x: T.zeros(3).uniform_(),
    "out": lambda T, x: T.rand(3, out=T.empty(3)),
    "generator": lambda T, x: T.rand(3, generator=T.Generator().manual_seed(3)),
    "bernoulli of what is no batch": lambda T, x: T.bernoulli(T.full((5,), 0.5)),
    "normal of what is no batch": lambda T, x: T.normal(T.zeros(3), T.ones(3)),
    "multinomial of what is no batch": lambda T, x: T.multinomial(T.ones(4), 2),
    "binomial of what is no batch": lambda T, x: T.binomial(T.full((5,), 10.0), T.full((5,), 0.5)),
    "poisson of what is no batch": lambda T, x: T.poisson(T.ones(4) * 4),
    "like what is no batch": lambda T, x: T.rand_like(T.zeros(4)),
    "dropout of what is no batch": lambda T, x: T.nn.functional.dropout(T.ones(6)),
    "two": lambda T, x: (T.rand(2), T.rand_like(x), T.rand(2)),
}
OF_X: dict[str, Draw] = {
    "rand_like": lambda T, x: T.rand_like(x),
    "randn_like": lambda T, x: T.randn_like(x),
    "randint_like": lambda T, x: T.randint_like(x, 2, 10),
    "dropout": lambda T, x: T.nn.functional.dropout(x, 0.5),
    "dropout of nothing": lambda T, x: T.nn.functional.dropout(x, 0.5, False),
    "alpha_dropout": lambda T, x: T.nn.functional.alpha_dropout(x, 0.5, True),
    "bernoulli": lambda T, x: T.bernoulli(x),
    "bernoulli by a number": lambda T, x: T.bernoulli(x, 0.5),
    "bernoulli_": lambda T, x: x.bernoulli_(0.3),
    "bernoulli_ by itself": lambda T, x: x.bernoulli_(x.clone()),
    "bernoulli_ of what is no batch": lambda T, x: T.ones(x.shape).bernoulli_(x),
    "poisson": lambda T, x: T.poisson(x * 5),
    "multinomial": lambda T, x: T.multinomial(x, 2),
    "multinomial again": lambda T, x: T.multinomial(x, 3, True),
    "normal of means": lambda T, x: T.normal(x, 2.0),
    "normal of widths": lambda T, x: T.normal(1.0, x),
    "normal of both": lambda T, x: T.normal(x, T.ones(x.shape)),
    "binomial": lambda T, x: T.binomial(T.full(x.shape, 10.0), x),
    "gamma": lambda T, x: T._standard_gamma(x),
    "dirichlet": lambda T, x: T._sample_dirichlet(x),
    "gumbel_softmax": lambda T, x: T.nn.functional.gumbel_softmax(x),
    "a copy": lambda T, x: x.clone().normal_(),
    "a part": lambda T, x: (x[:2].normal_(), x)[1],
    "new": lambda T, x: x.new_zeros(4).normal_(),
    "init": lambda T, x: T.nn.init.uniform_(x),
    **{
        name: lambda T, x, name=name: getattr(x, name)()
        for name in ("normal_", "uniform_", "cauchy_", "exponential_", "log_normal_", "random_")
    },
    "geometric_": lambda T, x: x.geometric_(0.5),
}


def chances(T: Any, *shape: int) -> Any:
    return T.linspace(0.05, 0.95, adjoint.Size(shape).numel()).reshape(shape)


def single(draw: Draw, how: str, mode: str) -> Program:
    def program(T: Any) -> Any:
        T.manual_seed(0)
        function = lambda x: draw(T, x)
        if how == "batch":
            out = T.vmap(function, randomness=mode)(chances(T, 3, 4))
        elif how == "last":
            out = T.vmap(function, in_dims=-1, randomness=mode)(chances(T, 3, 4))
        elif how == "chunks":
            out = T.vmap(function, randomness=mode, chunk_size=2)(chances(T, 3, 4))
        else:
            x = chances(T, 4)
            out = T.vmap(lambda _: function(x), randomness=mode)(T.ones(3))
        return out, T.rand(2)  # and the generator went on as far

    return program


def nested(draw: Draw, outer: str, inner: str, x_of: str) -> Program:
    def program(T: Any) -> Any:
        T.manual_seed(0)
        if x_of == "both":
            return T.vmap(T.vmap(lambda x: draw(T, x), randomness=inner), randomness=outer)(chances(T, 3, 2, 4))
        within = lambda x: T.vmap(lambda _: draw(T, x), randomness=inner)(T.ones(2))
        return T.vmap(within, randomness=outer)(chances(T, 3, 4))

    return program


PROGRAMS: dict[str, Program] = {}
for _mode in ("error", "same", "different"):
    for _name, _draw in FRESH.items():
        PROGRAMS[f"{_mode}: {_name}"] = single(_draw, "batch", _mode)
    for _name, _draw in OF_X.items():
        for _how in ("batch", "last", "chunks", "no batch"):
            if (_name, _how, _mode) != ("gumbel_softmax", "last", "different"):  # empty_like lies otherwise in torch
                PROGRAMS[f"{_mode}: {_name}, {_how}"] = single(_draw, _how, _mode)
# Torch crashes on some of the others.
for _name in ("rand", "randperm", "zeros", "added"):
    for _modes in (("same", "different"), ("different", "same"), ("different", "different"), ("same", "error")):
        PROGRAMS[f"{' around '.join(_modes)}: {_name}"] = nested(FRESH[_name], *_modes, "outer")
for _name in ("rand_like", "normal_", "poisson", "normal of means"):
    for _modes in (("same", "different"), ("different", "same"), ("different", "different"), ("same", "error")):
        for _of in ("both", "outer"):
            PROGRAMS[f"{' around '.join(_modes)}: {_name} of {_of}"] = nested(OF_X[_name], *_modes, _of)


@needs_own_bernoulli
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    same(PROGRAMS[name], 1e-5)


REFUSED: dict[str, tuple[Draw, str, str]] = {
    "mode": (FRESH["rand"], "error", "vmap: called random operation while in randomness error mode"),
    "unbatched": (FRESH["zeros"], "different", "vmap: Cannot ask for different inplace randomness on an unbatched"),
    "same": (OF_X["poisson"], "same", "Vmap does not currently support same randomness with a batched tensor input"),
    "out": (FRESH["out"], "same", "vmap: We do not support calling out variants of random operations"),
    "bernoulli_": (
        OF_X["bernoulli_ of what is no batch"],
        "different",
        r"inplace bernoulli\(self, \*extra_args\) is not",
    ),
    "rrelu": (lambda T, x: T.nn.functional.rrelu(x), "same", "vmap: we do not yet support aten::rrelu"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    draw, mode, words = REFUSED[name]
    with pytest.raises(RuntimeError, match=words):
        adjoint.vmap(lambda x: draw(adjoint, x), randomness=mode)(chances(adjoint, 3, 4))


def test_the_same_numbers_in_every_chunk() -> None:
    out = adjoint.vmap(lambda x: x * 0 + adjoint.rand(4), randomness="same", chunk_size=2)(adjoint.ones(5, 4))
    assert (out == out[0]).all()


def test_gradients_pass_draws_of_a_batch() -> None:
    def loss(x: Any) -> Any:
        return (adjoint._standard_gamma(x) + adjoint.bernoulli(x) * 0 + x).sum()

    found = adjoint.vmap(adjoint.func.grad(loss), randomness="different")(chances(adjoint, 3, 4))
    assert found.shape == (3, 4) and (found >= 1).all() and (found > 1).any()  # a tiny draw adds nothing to 1
