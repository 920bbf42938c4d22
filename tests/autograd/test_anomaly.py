"""Anomaly detection: a NaN is reported where it is made, forward and backward, and nothing else is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.autograd import detect_anomaly, set_detect_anomaly
from adjoint.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
inf = math.inf


def tensor(*values: float) -> Any:
    return adjoint.tensor(values)


MAKERS: dict[str, Callable[[], Any]] = {
    "log": lambda: tensor(-1.0).log(),
    "sqrt": lambda: tensor(-1.0).sqrt(),
    "div": lambda: tensor(0.0) / tensor(0.0),
    "sub": lambda: tensor(inf) - tensor(inf),
    "mul": lambda: tensor(0.0) * tensor(inf),
    "acos": lambda: tensor(2.0).acos(),
    "power": lambda: tensor(-1.0) ** 0.5,
    "sum": lambda: tensor(inf, -inf).sum(),
    "softmax": lambda: F.softmax(tensor(-inf, -inf), 0),
    "log_softmax": lambda: F.log_softmax(tensor(-inf, -inf), 0),
    "matmul": lambda: adjoint.tensor([[inf, 0.0]]) @ adjoint.tensor([[0.0], [1.0]]),
    "std": lambda: tensor(inf, 1.0).std(),
    "tanh of nothing": lambda: (tensor(inf) * 0).tanh(),
    "in place": lambda: tensor(0.0).div_(0.0),
    "large": lambda: adjoint.full((600, 600), -1.0).log(),
    "large product": lambda: adjoint.full((600, 600), inf) * adjoint.zeros(600, 600),
}


@pytest.mark.parametrize("name", MAKERS)
def test_forward_nan_is_found_at_its_op(name: str) -> None:
    with (
        detect_anomaly(forward=True),
        pytest.raises(RuntimeError, match=r"returned nan values in its forward.*test_anomaly.py:\d+"),
    ):
        MAKERS[name]()
    with detect_anomaly():
        assert bool(MAKERS[name]().isnan().any())


FINE: dict[str, Callable[[], Any]] = {
    "a nan that came in": lambda: tensor(math.nan).exp() + 1,
    "infinity": lambda: tensor(0.0).log(),
    "xlogy": lambda: adjoint.xlogy(tensor(0.0), tensor(0.0)),
    "masked softmax": lambda: F.softmax(tensor(-inf, 0.0), 0),
    "comparison": lambda: tensor(math.nan) > 1,
    "printing": lambda: repr(tensor(math.nan, inf, 1.0)),
    "the program's own NumPy": lambda: np.log(np.array(-1.0)),
    "to integers": lambda: tensor(1.5).long(),
    "sinc": lambda: adjoint.sinc(tensor(0.0, 1.0)),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_no_new_nan_passes(name: str) -> None:
    with detect_anomaly(forward=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        FINE[name]()


def test_backward_nan_names_the_forward_line() -> None:
    x = adjoint.tensor([0.0], requires_grad=True)
    y = x.sqrt() * 0
    with detect_anomaly():
        with pytest.warns(UserWarning, match=r"SqrtBackward0(.|\n)*test_anomaly.py"):
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
                y.sum().backward()


def test_whole_stack_on_demand() -> None:
    def inner(x: Any) -> Any:
        return x.sqrt()

    x = adjoint.tensor([0.0], requires_grad=True)
    with detect_anomaly(stack=True):
        y = inner(x) * 0
        with pytest.warns(UserWarning, match=r"in test_whole_stack_on_demand(.|\n)*in inner"):
            with pytest.raises(RuntimeError, match="SqrtBackward0"):
                y.sum().backward()


def test_everything_is_put_back() -> None:
    before = np.geterr(), np.geterrcall()
    with detect_anomaly(forward=True):
        with detect_anomaly(check_nan=False):
            assert adjoint.is_anomaly_enabled() and not adjoint.is_anomaly_check_nan_enabled()
            tensor(-1.0).log()
    set_detect_anomaly(True, forward=True)
    set_detect_anomaly(False)
    with set_detect_anomaly(True, forward=True):
        pass
    assert (np.geterr(), np.geterrcall()) == before
    assert not adjoint.is_anomaly_enabled()
    tensor(-1.0).log()


def test_in_threads_of_their_own() -> None:
    import threading

    found: list[bool] = []
    with detect_anomaly(forward=True):
        thread = threading.Thread(target=lambda: found.append(bool(tensor(-1.0).log().isnan())))
        thread.start()
        thread.join()
    assert found == [True]


def test_inside_transforms() -> None:
    with adjoint.autograd.set_detect_anomaly(True):
        found = adjoint.func.vmap(adjoint.func.jacrev(adjoint.sin))(adjoint.zeros(2, 3))
        assert np.array_equal(found.numpy(), np.stack([np.eye(3)] * 2))
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"), pytest.warns(UserWarning):
            adjoint.func.vmap(adjoint.func.grad(lambda x: (x.sqrt() * 0).sum()))(adjoint.zeros(2, 3))
