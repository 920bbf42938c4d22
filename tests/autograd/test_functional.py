"""`autograd.functional` against torch, value for value and refusal for refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint

torch = pytest.importorskip("torch", reason="torch is the oracle")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself

rng = np.random.default_rng(1)
X, Y = rng.normal(size=(3,)), rng.normal(size=(2,))


def several(x: Any, y: Any) -> Any:
    return x.sin() * y.sum(), y * 2, (x**3).sum()


def scalar(x: Any, y: Any) -> Any:
    return (x**3).sum() * y.cos().sum() + y.sum()


CALLS: dict[str, Any] = {
    "jacobian": lambda A, x, y: A.jacobian(lambda x: x**2, x),
    "jacobian_several": lambda A, x, y: A.jacobian(several, (x, y)),
    "jacobian_vectorized": lambda A, x, y: A.jacobian(several, (x, y), vectorize=True),
    "jacobian_forward": lambda A, x, y: A.jacobian(several, (x, y), vectorize=True, strategy="forward-mode"),
    "jacobian_forward_one": lambda A, x, y: A.jacobian(lambda x: x**2, x, vectorize=True, strategy="forward-mode"),
    "jacobian_graph": lambda A, x, y: A.jacobian(several, (x.requires_grad_(), y), create_graph=True),
    "jacobian_constant": lambda A, x, y: A.jacobian(lambda x: x.detach(), x),
    "jacobian_strict": lambda A, x, y: A.jacobian(lambda x: x.detach(), x, strict=True),
    "jacobian_strict_linear": lambda A, x, y: A.jacobian(lambda x: x * 2, x, strict=True, create_graph=True),
    "jacobian_strict_vectorized": lambda A, x, y: A.jacobian(scalar, (x, y), strict=True, vectorize=True),
    "jacobian_forward_looped": lambda A, x, y: A.jacobian(scalar, (x, y), strategy="forward-mode"),
    "jacobian_of_what": lambda A, x, y: A.jacobian(scalar, (x, y), strategy="sideways"),
    "jacobian_of_number": lambda A, x, y: A.jacobian(scalar, 3),
    "jacobian_to_number": lambda A, x, y: A.jacobian(lambda x: 3, x),
    "hessian": lambda A, x, y: A.hessian(scalar, (x, y)),
    "hessian_one": lambda A, x, y: A.hessian(lambda x: (x**3).sum(), x),
    "hessian_vectorized": lambda A, x, y: A.hessian(scalar, (x, y), vectorize=True),
    "hessian_forward": lambda A, x, y: A.hessian(
        scalar, (x, y), vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
    "hessian_graph": lambda A, x, y: A.hessian(scalar, (x.requires_grad_(), y), create_graph=True),
    "hessian_linear": lambda A, x, y: A.hessian(lambda x: x.sum(), x),
    "hessian_strict": lambda A, x, y: A.hessian(lambda x: x.sum(), x, strict=True),
    "hessian_of_vector": lambda A, x, y: A.hessian(lambda x: x, x),
    "vjp": lambda A, x, y: A.vjp(lambda x, y: several(x, y)[:2], (x, y), (x * 2, y)),
    "vjp_none": lambda A, x, y: A.vjp(scalar, (x, y)),
    "vjp_needs_v": lambda A, x, y: A.vjp(lambda x: x, x),
    "vjp_wrong_v": lambda A, x, y: A.vjp(lambda x: x, x, y),
    "vjp_wrong_length": lambda A, x, y: A.vjp(several, (x, y), (x, y)),
    "jvp": lambda A, x, y: A.jvp(several, (x, y), (x * 2, y)),
    "jvp_strict": lambda A, x, y: A.jvp(lambda x: x.detach(), x, x, strict=True),
    "hvp": lambda A, x, y: A.hvp(scalar, (x, y), (x * 2, y)),
    "hvp_strict": lambda A, x, y: A.hvp(lambda x: x.sum(), x, x, strict=True),
    "hvp_of_vector": lambda A, x, y: A.hvp(lambda x: x, x, x),
    "hvp_of_two": lambda A, x, y: A.hvp(lambda x: (x.sum(), x.sum()), x, x),
    "vhp": lambda A, x, y: A.vhp(scalar, (x, y), (x * 2, y)),
    "vhp_strict": lambda A, x, y: A.vhp(lambda x: x.sum(), x, x, strict=True),
}


def run(T: Any, call: Any) -> Any:
    try:
        return call(T.autograd.functional, T.tensor(X), T.tensor(Y))
    except Exception as error:
        return type(error), str(error).replace("adjoint", "torch")[:60]


def same(a: Any, b: Any) -> None:
    if isinstance(b, tuple) and isinstance(b[0], type):
        assert a[0] is b[0], (a, b)
        assert a[1] == b[1].replace(" isonly", " is only")[: len(a[1])], (a, b)
    elif isinstance(b, tuple | list):  # torch gives lists in forward mode, against its documentation
        assert isinstance(a, tuple) and len(a) == len(b)
        for p, q in zip(a, b):
            same(p, q)
    else:
        assert a.requires_grad == b.requires_grad or b.grad_fn is not None
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_equals_torch(name: str) -> None:
    same(run(adjoint, CALLS[name]), run(torch, CALLS[name]))


def test_graph_of_jacobian_goes_on() -> None:
    x = adjoint.tensor(X, requires_grad=True)
    j = adjoint.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True)
    j.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X, rtol=1e-12)
