"""gradcheck finds what is wrong, passes what is right, and says so in torch's words."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.autograd.gradcheck import GradcheckError

VALUES = np.random.default_rng(0).normal(size=(2, 3))


def libraries() -> list[Any]:
    """Return adjoint, and torch where it is installed: every table below is run with both."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        torch = None
    skip = pytest.mark.skipif(torch is None, reason="torch is the oracle")
    return [pytest.param(adjoint, id="adjoint"), pytest.param(torch, id="torch", marks=skip)]


both = pytest.mark.parametrize("lib", libraries())
# What torch says of its own implementation is not at issue.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Backwards compatibility"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
]
modes = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def leaf(lib: ModuleType, *shape: int, kind: str = "float64", seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    values = random.normal(size=shape)
    if kind.startswith("complex"):
        values = values + 1j * random.normal(size=shape)
    return lib.from_numpy(np.asarray(values).astype(kind)).requires_grad_()


# --- What is right passes ---------------------------------------------------------------------------

RIGHT: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "one input": (lambda lib, x: x * x.exp(), lambda lib: leaf(lib, 2, 3)),
    "broadcast": (lambda lib, x, y: x * y + y, lambda lib: (leaf(lib, 2, 3), leaf(lib, 3, seed=1))),
    "several outputs": (lambda lib, x: (x.exp(), x * x), lambda lib: (leaf(lib, 3),)),
    "list of outputs": (lambda lib, x: [x.exp(), x * x], lambda lib: [leaf(lib, 3)]),
    "a constant output": (lambda lib, x: (x.exp(), x.detach() * 1), lambda lib: (leaf(lib, 3),)),
    "an unused input": (lambda lib, x, y: x.exp(), lambda lib: (leaf(lib, 3), leaf(lib, 2, seed=1))),
    "a fixed input": (lambda lib, x, y: x * y, lambda lib: (leaf(lib, 3), leaf(lib, 3, seed=1).detach())),
    "a number": (lambda lib, x, k: x * k, lambda lib: (leaf(lib, 3), 2.5)),
    "scalar": (lambda lib, x: x.exp(), lambda lib: (leaf(lib),)),
    "empty": (lambda lib, x: x.exp(), lambda lib: (lib.zeros(0, 3, dtype=lib.float64, requires_grad=True),)),
    "complex": (lambda lib, x: x * x, lambda lib: (leaf(lib, 3, kind="complex128"),)),
    "complex to real": (lambda lib, x: (x * x.conj()).real, lambda lib: (leaf(lib, 3, kind="complex128"),)),
    "real to complex": (lambda lib, x: x * (1 + 2j), lambda lib: (leaf(lib, 3),)),
    "not analytic": (lambda lib, x: x.conj() * x * x, lambda lib: (leaf(lib, 3, kind="complex128"),)),
    "non-leaf": (lambda lib, x: x.exp(), lambda lib: (leaf(lib, 3) * 2,)),
    "in place": (lambda lib, x: x.clone().mul_(x), lambda lib: (leaf(lib, 3),)),
    "strided": (lambda lib, x: x.exp(), lambda lib: (leaf(lib, 2, 3).detach().t().requires_grad_(),)),
}


@both
@modes
@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name: str, lib: Any, fast: bool) -> None:
    f, inputs = RIGHT[name]
    func = lambda *args: f(lib, *args)
    assert lib.autograd.gradcheck(func, inputs(lib), fast_mode=fast) is True
    assert lib.autograd.gradgradcheck(func, inputs(lib), fast_mode=fast) is True


@both
def test_inputs_are_as_before(lib: Any) -> None:
    x = leaf(lib, 2, 3)
    before = x.detach().numpy().copy()
    lib.autograd.gradcheck(lambda x: x.exp(), (x,))
    assert np.array_equal(x.detach().numpy(), before)
    assert x.grad is None


@both
def test_no_differentiable_output(lib: Any) -> None:
    assert lib.autograd.gradcheck(lambda x: lib.ones(2, dtype=lib.float64), (leaf(lib, 3),))
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        lib.autograd.gradcheck(lambda x: x.detach() * 2, (leaf(lib, 3),))


# --- What is wrong is found -------------------------------------------------------------------------


def wrong(lib: Any, kind: str) -> Any:
    """Return a custom function of one or two inputs whose backward has a fault."""

    class Faulty(lib.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx: Any, x: Any, y: Any = None) -> Any:
            ctx.save_for_backward(x)
            if kind == "refuses None":
                ctx.set_materialize_grads(False)
            return x * x * 2 if y is None else x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            if kind == "factor":
                return g * x, None
            if kind == "one of two":
                return None, g * 3 * x
            if kind == "random":
                Faulty.calls += 1
                return g * 4 * x + 1e-9 * Faulty.calls, None
            if kind == "constant":
                return 4 * x, None
            if kind == "refuses None":
                if g is None:
                    raise RuntimeError("no gradient")
                return g * 4 * x, None
            return g.float() * x, None

    return Faulty.apply


@both
@modes
def test_mismatch(lib: Any, fast: bool) -> None:
    f = wrong(lib, "factor")
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        lib.autograd.gradcheck(f, (leaf(lib, 3),), fast_mode=fast)
    assert lib.autograd.gradcheck(f, (leaf(lib, 3),), fast_mode=fast, raise_exception=False) is False


@both
@modes
def test_mismatch_names_the_output_and_the_input(lib: Any, fast: bool) -> None:
    f = wrong(lib, "one of two")
    inputs = (leaf(lib, 3).detach(), leaf(lib, 3, seed=1), leaf(lib, 3, seed=2))
    with pytest.raises(RuntimeError, match="mismatch for output 1 with respect to input 1"):
        lib.autograd.gradcheck(lambda a, x, y: (x * y, f(a, y)), inputs, fast_mode=fast)


@both
def test_not_reentrant(lib: Any) -> None:
    f = wrong(lib, "random")
    with pytest.raises(RuntimeError, match="not reentrant"):
        lib.autograd.gradcheck(f, (leaf(lib, 3),))
    assert lib.autograd.gradcheck(
        f, (leaf(lib, 3),), nondet_tol=1.0, check_undefined_grad=False, raise_exception=False
    ) in (True, False)


@both
def test_not_multiplied_by_grad_output(lib: Any) -> None:
    with pytest.raises(RuntimeError, match=r"(mismatch|backward not multiplied by grad_output)"):
        lib.autograd.gradcheck(wrong(lib, "constant"), (leaf(lib, 1),))


@both
def test_undefined_gradients(lib: Any) -> None:
    f = wrong(lib, "refuses None")
    with pytest.raises(RuntimeError, match="Expected backward function to handle undefined output grads"):
        lib.autograd.gradcheck(f, (leaf(lib, 3),))
    assert lib.autograd.gradcheck(f, (leaf(lib, 3),), check_undefined_grad=False)


@both
@pytest.mark.parametrize("part", ["real", "imag"])
def test_complex_mismatch(lib: Any, part: str) -> None:
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            # Only one part of what arrives is wrong.
            return g + 0.5 * g.real if part == "real" else g + 0.5j * g.imag

    words = {"real": "real", "imag": "imaginary"}[part]
    with pytest.raises(RuntimeError, match=f"While considering the {words} part of complex outputs only"):
        lib.autograd.gradcheck(Wrong.apply, (leaf(lib, 2, kind="complex128"),))


# --- Arguments --------------------------------------------------------------------------------------


@both
def test_no_input_requires_grad(lib: Any) -> None:
    with pytest.raises(ValueError, match="expects at least one input tensor to require gradient"):
        lib.autograd.gradcheck(lambda x: x, (leaf(lib, 3).detach(),))


@both
def test_single_precision_warns(lib: Any) -> None:
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        lib.autograd.gradcheck(lambda x: x * 2, (leaf(lib, 3, kind="float32"),), eps=1e-2, atol=1e-2)


@both
def test_overlapping_input(lib: Any) -> None:
    x = leaf(lib, 1).detach().expand(3).requires_grad_()
    with pytest.raises(RuntimeError, match="has a dimension with stride 0"):
        lib.autograd.gradcheck(lambda x: x * 2, (x,))


@both
def test_nothing_to_check(lib: Any) -> None:
    with pytest.raises(AssertionError, match="Expected at least one of check_forward_ad or check_backward_ad"):
        lib.autograd.gradcheck(lambda x: x, (leaf(lib, 3),), check_backward_ad=False)


@both
@modes
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_forward_mode(lib: Any, fast: bool, kind: str) -> None:
    inputs = (leaf(lib, 2, kind=kind), leaf(lib, 2, kind=kind, seed=1))
    f = lambda x, y: (x * y, x.exp())
    assert lib.autograd.gradcheck(f, inputs, check_forward_ad=True, fast_mode=fast)
    assert lib.autograd.gradcheck(f, inputs, check_forward_ad=True, check_backward_ad=False, fast_mode=fast)
    assert lib.autograd.gradgradcheck(f, inputs, check_fwd_over_rev=True, fast_mode=fast)


@both
@modes
def test_batched_gradients(lib: Any, fast: bool) -> None:
    inputs = (leaf(lib, 2, 3), leaf(lib, 3, seed=1))
    assert lib.autograd.gradcheck(lambda x, y: (x * y).exp(), inputs, check_batched_grad=True, fast_mode=fast)


@both
def test_second_order(lib: Any) -> None:
    class Once(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 3 * (x * x).detach()

    assert lib.autograd.gradcheck(Once.apply, (leaf(lib, 3),))
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        lib.autograd.gradgradcheck(Once.apply, (leaf(lib, 3),))
    cube = lambda x: x * x * x
    start = leaf(lib, 3, seed=4)
    assert lib.autograd.gradgradcheck(cube, (leaf(lib, 3),), (start,))
    assert lib.autograd.gradgradcheck(cube, (leaf(lib, 3),), gen_non_contig_grad_outputs=True)


@modes
def test_tensors_in_a_list(fast: bool) -> None:
    inputs = ([leaf(adjoint, 3), leaf(adjoint, 3, seed=1)], 2.0)
    f = lambda xs, k: xs[0] * xs[1].exp() * k
    assert gradcheck(f, inputs, fast_mode=fast, check_forward_ad=True)
    assert gradgradcheck(f, inputs, fast_mode=fast)


def test_error_class_and_names() -> None:
    assert issubclass(GradcheckError, RuntimeError)
    module = importlib.import_module("adjoint.autograd.gradcheck")
    assert module.gradcheck is gradcheck is adjoint.autograd.gradcheck
    assert module.gradgradcheck is gradgradcheck


def test_message_shows_where() -> None:
    with pytest.raises(GradcheckError, match=r"numerical:tensor(.|\n)*analytical:tensor(.|\n)*greatest difference"):
        gradcheck(wrong(adjoint, "factor"), (leaf(adjoint, 2),))
    with pytest.raises(GradcheckError, match="max per-element difference"):
        gradcheck(wrong(adjoint, "factor"), (leaf(adjoint, 2),), fast_mode=True)


def test_gradient_dtypes() -> None:
    x = leaf(adjoint, 2, kind="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert gradcheck(lambda x: x * x, (x,), eps=1e-3, atol=1e-2, rtol=1e-2, check_grad_dtypes=True)
