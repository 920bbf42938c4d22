"""Derivatives of eigenvectors and singular vectors at repeated values.

Vectors of equal values are unique only up to a rotation among themselves. A gradient that would turn one choice into
another shows that the function depends on that choice: it has no derivative there, and its gradient is NaN. For
a function that does not depend on it, the terms of such a pair are 0/0 with a limit. The incoming gradients determine
the limit for functions of the matrix itself (`V @ diag(h(w)) @ V.T`, as roots, logarithms, projectors and polar
factors are): with ``M`` the gradient in the basis of the vectors, the values receive ``h' M[i, i]`` and the vectors
``h M[i, j]``, so their ratio on the diagonal gives the missing terms beside it. Where the ratio is not the
same for all of the repeated values, the limit is unknown, and the gradient is NaN rather than a guess.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Value
from ..core.dtypes import of
from ..core.payload import Payload
from ..core.tensor import TensorBase
from .arguments import dtype_of
from .linalg import column, diagonal_matrix, diagonal_of, row
from .measure import real_part
from .piecewise import where_p
from .reduce import sum_p
from .shape import cast_p

__all__: list[str] = []


def differences(x: Value) -> tuple[Any, Any]:
    """Return 1 over the difference of each pair of values (0 for equal ones), and which pairs are equal."""
    gap = row(x) - column(x)
    size = np.abs(x)
    equal = np.abs(gap) <= column(sum_p(size, (size.ndim - 1,), True) * (2 * _eps(x)))
    return where_p(equal, 0, 1 / where_p(equal, 1, gap)), equal


def within(equal: Value, moved: Any, skew: Value, slopes: Value | None) -> Value:
    """Return what pairs of repeated values add to the gradient between their vectors, zero for other pairs.

    `moved` is the gradient of the vectors in their own basis, `skew` the part of it that rotates vectors of one value
    among themselves, `slopes` the gradient of the values (None: none).
    """
    block, pairs = _blocks(equal, moved)
    diagonal = real_part(diagonal_of(moved))
    slopes = diagonal * 0 if slopes is None else slopes
    weight = _total(block, diagonal * diagonal)
    known = weight > 0
    ratio = where_p(known, _total(block, slopes * diagonal) / where_p(known, weight, 1), 0)
    error = _total(block, np.abs(slopes - ratio * diagonal))
    fits = known & (error <= _share(moved) * _total(block, np.abs(slopes)))
    constant = _constant(block, slopes)
    # All values of a group have the same flags, so a column of them is enough to decide about pairs.
    limit = where_p(column(fits), column(ratio) * moved, 0)
    told = column(fits | (known & constant)) | (column(constant) & (moved == 0))
    return where_p(pairs, where_p(told & ~_notable(skew, moved), limit, np.nan), 0)


def unless_unused(equal: Value, gradient: Value, slopes: Value | None) -> Any:
    """Return NaN for pairs of repeated values whose vectors have a `gradient`, zero elsewhere.

    That is the best that can be said where the limit of 0/0 leaves no trace in the gradients that arrive.
    """
    block, pairs = _blocks(equal, gradient)
    used = sum_p(np.abs(gradient), (gradient.ndim - 2,), False) != 0
    doubtful = column(used) | row(used)
    if slopes is not None:
        doubtful = doubtful | ~column(_constant(block, slopes))
    return where_p(pairs & doubtful, np.nan, 0)


def undefined(equal: Value, moved: Any) -> Value:
    """Return NaN where a tangent would turn vectors of one value into each other, zero elsewhere."""
    _, pairs = _blocks(equal, moved)
    return where_p(pairs & _notable(moved, moved), np.nan, 0)


def reciprocals(x: Value, used: Value) -> Value:
    """Return 1 over each value; for values that are zero NaN, or 0 if they are not `used`."""
    zero = x == 0
    return where_p(zero, where_p(used, np.nan, 0), 1 / where_p(zero, 1, x))


def check_phase(turn: Any, name: str, quantity: str = "quantity, so it is") -> None:
    """Refuse gradients (`turn`, in the basis of the vectors) that would change the free phase of complex vectors."""
    diagonal = diagonal_of(turn)
    while isinstance(diagonal, TensorBase):
        diagonal = diagonal.array
    if isinstance(diagonal, Payload) or diagonal.size == 0 or not (np.abs(diagonal.imag) > 1e-2).any():
        return
    raise RuntimeError(
        f"{name}_backward: The {'singular ' if name == 'svd' else 'eigen'}vectors in the complex case are specified up "
        f"to multiplication by e^{{i phi}}. The specified loss function depends on this {quantity} ill-defined. "
        "Use what does not depend on the phase, such as absolute values or V @ diag(f) @ V.mH."
    )


def _blocks(equal: Value, like: Value) -> tuple[Any, Any]:
    """Return a matrix with ones for each group of repeated values, and which of these are pairs."""
    block = cast_p(equal, of(dtype_of(like)).to_real().np)
    return block, block - diagonal_matrix(diagonal_of(block)) > 0


def _constant(block: Any, slopes: Value) -> Value:
    """Return for each value whether all values that are equal to it have the same slope."""
    mean = _total(block, slopes) / sum_p(block, (block.ndim - 1,), False)
    spread = _total(block, np.abs(slopes - mean))
    return spread <= _share(slopes) * _total(block, np.abs(slopes))


def _notable(part: Any, whole: Any) -> Any:
    """Return which entries of `part` are more than rounding errors of `whole`."""
    entries = np.abs(whole)
    return np.abs(part) > _share(whole) * sum_p(entries, (entries.ndim - 2, entries.ndim - 1), True)


def _total(block: Any, x: Value) -> Value:
    """Return, for each value, the sum over all values that are equal to it."""
    return sum_p(block * row(x), (block.ndim - 1,), False)


def _eps(x: Value) -> float:
    return float(np.finfo(of(dtype_of(x)).to_real().np).eps)


def _share(x: Value) -> float:
    """Return the relative error that is attributed to rounding."""
    return float(_eps(x) ** 0.75)
