"""Calls with a wrong argument raise PyTorch's class of error, in words that name the argument or the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn import functional as F

X = adjoint.ones(2, 3)
W = adjoint.ones(2, requires_grad=True)

REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("sin of a list", lambda: adjoint.sin([1.0]), TypeError, r"argument 'input' .* must be Tensor, not list"),
    ("ndtr of None", lambda: adjoint.special.ndtr(None), TypeError, "must be Tensor, not NoneType"),
    ("digamma of a dict", lambda: adjoint.digamma({}), TypeError, "must be Tensor, not dict"),
    (
        "tril by 1.5",
        lambda: adjoint.tril(X, 1.5),
        TypeError,
        r"tril\(\): .* must be int, not float",
    ),
    ("tril as a method", lambda: X.tril(1.5), TypeError, "'diagonal' .* must be int, not float"),
    (
        "Linear of None",
        lambda: adjoint.nn.Linear(2, 3)(None),
        TypeError,
        r"linear\(\): .*, not NoneType",
    ),
    ("outer of None", lambda: adjoint.outer(None, X[0]), TypeError, r"outer\(\): argument 'input' .* not NoneType"),
    ("addmm of True", lambda: adjoint.addmm(X, True, X), TypeError, "must be Tensor, not bool"),
    ("cross_entropy of None", lambda: F.cross_entropy(None, None), TypeError, "must be Tensor, not NoneType"),
    ("mm of an array", lambda: adjoint.mm(np.ones((2, 2)), X), TypeError, "must be Tensor, not numpy.ndarray"),
    ("keepdim of amax", lambda: adjoint.amax(X, 0, keepdim=()), TypeError, "'keepdim' must be bool, not tuple"),
    ("keepdim is a tensor", lambda: adjoint.median(X, 0, keepdim=X), TypeError, "'keepdim' must be bool, not Tensor"),
    ("decimals", lambda: adjoint.round(X, decimals=True), TypeError, "'decimals' must be int, not bool"),
    ("kernel size", lambda: F.max_pool2d(X[None], X), TypeError, "'kernel_size' .* must be tuple of ints, not Tensor"),
    ("a norm's shape", lambda: F.rms_norm(X, 3), TypeError, "'normalized_shape' .* must be tuple of ints, not int"),
    ("too many for arange", lambda: adjoint.arange(0, 1, 1, 5), TypeError, r"arange\(\) takes 3 positional arguments"),
    ("an unknown keyword", lambda: X.clone().uniform_(nonsense=1), TypeError, "unexpected keyword argument 'nonsense'"),
    ("mul_ of nothing", lambda: X.clone().mul_(), TypeError, r"mul_\(\) missing 1 required positional argument"),
    ("logical_and_ of None", lambda: X.clone().logical_and_(None), TypeError, r"logical_and_\(\) missing"),
    ("tile of nothing", lambda: X.tile(), TypeError, r"tile\(\) missing 1 required positional argument: 'dims'"),
    ("compile of a number", lambda: adjoint.compile(5), AssertionError, "A callable function is expected"),
    ("a huge dim", lambda: X.transpose(2**70, 0), ValueError, "Overflow when unpacking long long"),
    ("a huge count", lambda: adjoint.diff(X, 2**70), ValueError, "Overflow when unpacking long long"),
    ("a float for dims", lambda: X.sum(1.5), TypeError, "must be tuple of ints, not float"),
    ("a bool for a size", lambda: X.reshape(True), TypeError, "must be tuple of ints, not bool"),
    ("a tensor for a size", lambda: X.new_zeros(X), TypeError, "must be tuple of ints"),
    ("keepdim of sum", lambda: X.sum(0, keepdim=[1]), TypeError, "'keepdim' must be bool, not list"),
    ("cat of a number", lambda: adjoint.cat(5), TypeError, "'tensors' .* must be tuple of Tensors, not int"),
    ("matmul by a scalar", lambda: adjoint.ones(2, 2, 2) @ adjoint.tensor(1.0), RuntimeError, "at least 1D"),
    ("elu of complex numbers", lambda: F.elu(X + 0j), NotImplementedError, "not implemented for 'ComplexFloat'"),
    ("erfcx of complex", lambda: adjoint.special.erfcx(X + 0j), NotImplementedError, "'ComplexFloat'"),
    (
        "create_graph",
        lambda: adjoint.autograd.grad(W.sum(), W, create_graph=1.5),
        TypeError,
        "interpreted as an integer",
    ),
    ("a reduction", lambda: F.mse_loss(X, X, reduction=[1]), ValueError, "is not a valid value for reduction"),
    ("masked_fill", lambda: X.masked_fill(X[:, :2] > 0, 0.0), RuntimeError, "must match the size of tensor"),
    ("reshape of a float", lambda: adjoint.reshape(1.5, (1,)), TypeError, "must be Tensor, not float"),
]


@pytest.mark.parametrize(("call", "error", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_wrong_argument_is_named(call: Any, error: type[Exception], words: str) -> None:
    """The argument, what it must be and what it is are in the message."""
    with pytest.raises(error, match=words):
        call()


def test_numbers_of_numpy_and_tensors_of_one_element_are_numbers() -> None:
    """What PyTorch takes for an int is not refused."""
    one = adjoint.tensor(1)
    assert adjoint.tril(X, np.int64(1)).equal(adjoint.tril(X, one))
    assert adjoint.topk(X, one, dim=one).values.shape == (2, 1)


def test_a_checked_function_keeps_its_signature_and_its_name() -> None:
    """`help`, `inspect.signature` and pickles know the function as it was written."""
    import inspect
    import pickle

    assert list(inspect.signature(adjoint.tril).parameters) == ["input", "diagonal", "out"]
    assert pickle.loads(pickle.dumps(adjoint.tril)) is adjoint.tril
    assert adjoint.tril.__name__ == "tril"


def test_random_wrong_arguments_have_pytorchs_class() -> None:
    """A slice of the gate: hardly any call is told otherwise than by PyTorch."""
    pytest.importorskip("torch")
    from gates import bad_input

    found = bad_input.run(120, seed=3, names="^[a-l]", most=80)
    bad = sum(found[verdict] for verdict in bad_input.BAD)
    assert bad <= 0.12 * found["calls"], dict(found)
    assert found["opaque"] <= 0.02 * found["calls"], dict(found)
