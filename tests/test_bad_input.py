"""Calls with a wrong argument raise PyTorch's class of error, in words that name the argument or the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn import functional as F

X = adjoint.ones(2, 3)

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
    assert bad <= 0.12 * found.total(), dict(found)
    assert found["opaque"] <= 0.02 * found.total(), dict(found)
