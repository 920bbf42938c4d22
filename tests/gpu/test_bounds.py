"""An index out of bounds on a GPU is reported by the first line that waits for it, once, by its op, index and size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint
import adjoint.nn.functional as F

pytestmark = pytest.mark.gpu


def _x() -> Any:
    return adjoint.arange(12.0, device="cuda").reshape(3, 4)


def _at(*values: Any) -> Any:
    return adjoint.tensor(values, device="cuda")


_LAST = [0, 1, 2, 9]
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "gather": (lambda: _x().gather(1, _at(_LAST, _LAST, _LAST)), "gather on a GPU was given index 9"),
    "gather, negative": (lambda: _x().gather(0, _at([-1, 0, 0, 0])), "gather on a GPU was given index -1"),
    "gather of a vector": (lambda: _x()[0].gather(0, _at(0, 7)), "gather on a GPU was given index 7"),
    "x[i]": (lambda: _x()[_at(0, 7)], "indexing on a GPU was given index 7 for a dimension of size 3"),
    "x[:, i]": (lambda: _x()[:, _at(0, -5)], "indexing on a GPU was given index -5 for a dimension of size 4"),
    "x[i, j]": (lambda: _x()[_at(0, 1), _at(0, 7)], "indexing on a GPU was given index 7 for a dimension of size 4"),
    "x[i] = 0": (lambda: _x().__setitem__(_at(0, 7), 0.0), "index_put on a GPU was given index 7"),
    "index_put": (lambda: _x().index_put((_at(0, 7),), _x()[:2]), "index_put on a GPU was given index 7"),
    "index_select": (lambda: _x().index_select(1, _at(0, -1)), "index_select on a GPU was given index -1"),
    "embedding": (lambda: F.embedding(_at(0, 7), _x()), "embedding on a GPU was given index 7"),
    "take": (lambda: _x().take(_at(99)), "take on a GPU was given index 99 for a dimension of size 12"),
    "scatter": (lambda: _x().scatter(1, _at(_LAST, _LAST, _LAST), _x()), "scatter on a GPU was given index 9"),
    "scatter, fewer": (lambda: _x().scatter(1, _at(_LAST), 1.0), "scatter on a GPU was given index 9"),
    "scatter_add": (lambda: _x().scatter_add(1, _at(_LAST, _LAST, _LAST), _x()), "was given index 9"),
    "index_add": (lambda: _x().index_add(0, _at(0, 7), _x()[:2]), "index_add on a GPU was given index 7"),
    "index_copy": (lambda: _x().index_copy(0, _at(0, 7), _x()[:2]), "index_copy or index_fill on a GPU"),
    "index_fill": (lambda: _x().index_fill(0, _at(0, 7), 1.0), "index_copy or index_fill on a GPU"),
    "cross_entropy": (lambda: F.cross_entropy(_x(), _at(0, 1, 4)), "cross_entropy on a GPU was given index 4"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_index_is_reported_once(name: str) -> None:
    call, told = WRONG[name]
    call()
    with pytest.raises(IndexError, match=f"index out of bounds: .*{told}"):
        adjoint.cuda.synchronize()
    adjoint.cuda.synchronize()
    assert _x().sum().item() == 66


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(), lambda x: x.tolist(), repr, lambda x: x.cpu(), lambda x: bool(x.sum() > 0),
        lambda x: float(x.sum()), lambda x: adjoint.cuda.current_stream().synchronize(),
    ],
)  # fmt: skip
def test_whoever_reads_hears_of_it(read: Callable[[Any], Any]) -> None:
    x = _x()
    x[_at(0, 7)]
    with pytest.raises(RuntimeError, match="index out of bounds"):  # torch's class, where the op is gather
        read(x)
    read(x)


def test_right_indices_are_not_reported() -> None:
    x = _x().requires_grad_()
    (x[_at(0, -1)].sum() + x.take(_at(-1)).sum() + adjoint.take_along_dim(x, _at([-1], [0], [1]), 1).sum()).backward()
    loss = F.cross_entropy(x, _at(0, -100, 3))
    loss.backward()
    adjoint.cuda.synchronize()
    assert x.grad.isfinite().all().item()


def test_written_elements_are_torchs() -> None:
    x, at = _x(), _at([0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 1, 1])
    assert x.scatter(1, at, 5.0)[2].tolist() == [8, 5, 10, 11]
    assert x.scatter(1, at[:2], -x[:2])[:2].tolist() == [[0, -1, -2, -3], [-7, -6, -5, -4]]
    assert x.index_fill(1, _at(0, 2), 7.0)[1].tolist() == [7, 5, 7, 7]
    assert x.index_copy(0, _at(2, 0), x[:2])[0].tolist() == [4, 5, 6, 7]
