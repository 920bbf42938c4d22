"""The old package of torch's transforms, and what programs ask of its insides."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
from adjoint import nn
from adjoint.compat.stand_in.functorch import DEPRECATED, MODULES_AS_FUNCTIONS, QUERIES


def test_modules_become_functions_of_their_state() -> None:
    x, linear, norm = adjoint.ones(4, 3), nn.Linear(3, 2), nn.BatchNorm1d(3)
    function, parameters = MODULES_AS_FUNCTIONS["make_functional"](linear)
    assert adjoint.equal(function(parameters, x), linear(x))
    function, parameters, buffers = MODULES_AS_FUNCTIONS["make_functional_with_buffers"](norm)
    assert function(parameters, buffers, x).shape == (4, 3) and len(parameters) == 2 and len(buffers) == 3
    with pytest.raises(RuntimeError, match="`model` has buffers"):
        MODULES_AS_FUNCTIONS["make_functional"](norm)


def test_an_ensemble_is_one_function() -> None:
    x, models = adjoint.ones(4, 3), [nn.Linear(3, 2) for _ in range(3)]
    function, parameters, buffers = MODULES_AS_FUNCTIONS["combine_state_for_ensemble"](models)
    out = adjoint.vmap(function, (0, 0, None))(parameters, buffers, x)
    assert adjoint.allclose(out, adjoint.stack([m(x) for m in models]))
    with pytest.raises(RuntimeError, match="Expected at least one model, got 0"):
        MODULES_AS_FUNCTIONS["combine_state_for_ensemble"]([])


def test_old_names_warn() -> None:
    with pytest.warns(FutureWarning, match=r"`functorch.grad` is deprecated .* Please use `torch.func.grad` instead"):
        gradient = DEPRECATED["grad"](lambda x: (x * x).sum())
    assert gradient(adjoint.ones(2)).tolist() == [2, 2]


def test_the_insides_tell_which_transform_a_tensor_is_in() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        q = QUERIES
        seen.append((q["maybe_get_level"](x), q["is_batchedtensor"](x), q["is_gradtrackingtensor"](x)))
        seen.append((q["current_level"](), q["maybe_get_bdim"](x), tuple(q["get_unwrapped"](x).shape)))
        return x.sum()

    x, func = adjoint.ones(2, 3), adjoint.func
    func.vmap(look)(x)
    func.vmap(func.grad(look))(x)
    func.jvp(look, (x,), (x,))
    assert seen == [
        (1, True, False), (1, 0, (2, 3)), (2, False, True), (2, -1, (3,)), (1, False, True), (1, -1, (2, 3)),
    ]  # fmt: skip
    assert QUERIES["maybe_get_level"](x) == -1 and not QUERIES["is_functorch_wrapped_tensor"](x)
    with pytest.raises(RuntimeError, match="No wrappers present"):
        QUERIES["get_unwrapped"](x)
