"""Sums with matrix multiplications (``addmm`` and related ops), chains of products, Kronecker and cross products."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Number, Out, Params, Tangents, Tensor, Value
from ..core import modes
from ..core.device import module_of
from ..core.failures import not_implemented
from ..core.folding import fold
from ..core.payload import broadcasting
from ..core.recorders import Primitive, nary
from .arguments import dim_in, either, require_all_tensors, require_tensor
from .compare import eq_p, zeros_p
from .contraction import bmm, cannot_expand, cannot_multiply, check_dtypes, matmul, mm, mm_p, mv, outer
from .create import into
from .elementwise import add_p, mul_p
from .precision import autocasting
from .shape import reshape_p

__all__ = [
    "addbmm", "addmm", "addmv", "addmv_", "addr", "baddbmm", "chain_matmul", "cross", "kron",
]  # fmt: skip


# --- Products added to something --------------------------------------------------------------------


def _added(input: Tensor, term: Tensor, beta: Number, alpha: Number, shape: tuple[int, ...], out: Out = None) -> Tensor:
    """Return ``beta * input + alpha * term``; with ``beta=0`` what is in `input` does not count."""
    if input.array.shape != shape:
        try:
            fits = np.broadcast_shapes(input.array.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise cannot_expand(tuple(input.array.shape), shape)
    if modes.unusual and modes.local.autocast is not None:
        (input,) = modes.local.autocast(mm_p.op, (input,))
    alpha, beta = _as_elements(alpha, term), _as_elements(beta, term)
    if alpha != 1:
        term = mul_p(term, alpha)
    if beta == 0:
        if input.requires_grad and modes.local.grad:  # it has a gradient, of zeros
            from .piecewise import where_p

            term = add_p(term, where_p(eq_p(zeros_p(input), 0), 0, input))
        return into(out, term)
    return into(out, add_p(term, input if beta == 1 else mul_p(input, beta)))


def _as_elements(factor: Number, x: Tensor) -> Number:
    """Return a factor as a number of the kind that `x` holds: integers are not scaled by fractions."""
    kind = x.array.dtype.kind
    return bool(factor) if kind == "b" else int(factor) if kind in "iu" else factor


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Out = None) -> Tensor:
    """Multiply two matrices and add a third: ``beta * input + alpha * (mat1 @ mat2)``.

    Parameters
    ----------
    input : Tensor
        What to add; it broadcasts to ``(n, p)``.
    mat1, mat2 : Tensor
        Matrices, ``(n, m)`` and ``(m, p)``, of the same dtype as `input`.
    beta, alpha : float, default 1
        Factors. Where `beta` is 0, NaN and infinity in `input` are ignored.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        ``(n, p)``.

    Examples
    --------
    >>> a = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.addmm(adjoint.ones(2), a, a, alpha=10)
    tensor([[ 71., 101.],
            [151., 221.]])
    """
    for name, m in (("mat1", mat1), ("mat2", mat2)):
        if m.array.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {m.array.ndim}-D tensor")
    check_dtypes(mat1.array, mat2.array)
    check_dtypes(input.array, mat1.array, "self and mat2 must have the same dtype, but got {} and {}")
    term = mm_p(mat1, mat2)
    found = _added(input, term, beta, alpha, tuple(term.array.shape), out)
    return fold(found, "AddmmBackward0", input, mat1, mat2, alpha=alpha, beta=beta, mat1=(1,), mat2=(2,))


@autocasting
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Out = None) -> Tensor:
    """Return ``beta * input + alpha * (mat @ vec)``.

    Parameters
    ----------
    input : Tensor
        Broadcast with the result, (n,).
    mat : Tensor
        (n, m).
    vec : Tensor
        (m,).
    beta : number, default 1
        Factor of `input`; at 0 its NaN and infinities are ignored.
    alpha : number, default 1
        Factor of the product.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        (n,).

    Examples
    --------
    >>> adjoint.addmv(adjoint.ones(2), adjoint.eye(2), adjoint.tensor([1.0, 2.0]), alpha=10)
    tensor([11., 21.])
    """
    term = mv(mat, vec)
    found = _added(input, term, beta, alpha, tuple(term.array.shape), out)
    return fold(found, "AddmvBackward0", input, mat, vec, alpha=alpha, beta=beta, mat=(1,), vec=(2,))


@autocasting
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Out = None
) -> Tensor:
    """Return ``beta * input + alpha * sum of batch1[i] @ batch2[i]``.

    Parameters
    ----------
    input : Tensor
        Broadcast with the result, (n, p).
    batch1 : Tensor
        (B, n, m).
    batch2 : Tensor
        (B, m, p).
    beta : number, default 1
        Factor of `input`; at 0 its NaN and infinities are ignored.
    alpha : number, default 1
        Factor of the product.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        (n, p).

    Examples
    --------
    >>> adjoint.addbmm(adjoint.zeros(2, 2), adjoint.ones(3, 2, 4), adjoint.ones(3, 4, 2))
    tensor([[12., 12.],
            [12., 12.]])
    """
    term = bmm(batch1, batch2).sum(0, dtype=batch1.dtype)
    found = _added(input, term, beta, alpha, tuple(term.array.shape), out)
    return fold(found, "AddbmmBackward0", input, batch1, batch2, alpha=alpha, beta=beta, batch1=(1,), batch2=(2,))


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Out = None
) -> Tensor:
    """Return ``beta * input + alpha * (batch1 @ batch2)`` for batches of matrices.

    Parameters
    ----------
    input : Tensor
        Broadcast with the result, (B, n, p).
    batch1 : Tensor
        (B, n, m).
    batch2 : Tensor
        (B, m, p).
    beta : number, default 1
        Factor of `input`; at 0 its NaN and infinities are ignored.
    alpha : number, default 1
        Factor of the product.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        (B, n, p).

    Examples
    --------
    >>> adjoint.baddbmm(adjoint.ones(1), adjoint.ones(1, 2, 4), adjoint.ones(1, 4, 2), beta=10)
    tensor([[[14., 14.],
             [14., 14.]]])
    """
    term = bmm(batch1, batch2)
    found = _added(input, term, beta, alpha, tuple(term.array.shape), out)
    return fold(found, "BaddbmmBackward0", input, batch1, batch2, alpha=alpha, beta=beta, batch1=(1,), batch2=(2,))


@autocasting
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Out = None) -> Tensor:
    """Return ``beta * input + alpha * outer(vec1, vec2)``.

    Parameters
    ----------
    input : Tensor
        Broadcast with the result, (n, m).
    vec1 : Tensor
        (n,).
    vec2 : Tensor
        (m,).
    beta : number, default 1
        Factor of `input`; at 0 its NaN and infinities are ignored.
    alpha : number, default 1
        Factor of the product.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        (n, m).

    Examples
    --------
    >>> adjoint.addr(adjoint.zeros(2, 2), adjoint.tensor([1.0, 2.0]), adjoint.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    for name, value in (("beta", beta), ("alpha", alpha)):
        if isinstance(value, bool) and input.array.dtype.kind != "b":
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    term = outer(vec1, vec2)
    found = _added(input, term, beta, alpha, tuple(term.array.shape), out)
    return fold(found, "AddrBackward0", input, vec1, vec2, alpha=alpha, beta=beta, vec1=(1,), vec2=(2,))


def addmm_(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Overwrite `input` with ``beta * input + alpha * (mat1 @ mat2)``."""
    return _overwrite(input, mm(mat1, mat2), beta, alpha)


def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Overwrite `input` with ``beta * input + alpha * (mat @ vec)``."""
    return _overwrite(input, mv(mat, vec), beta, alpha)


def addbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Overwrite `input` with ``beta * input + alpha * sum of batch1[i] @ batch2[i]``."""
    return _overwrite(input, bmm(batch1, batch2).sum(0, dtype=batch1.dtype), beta, alpha)


def baddbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Overwrite `input` with ``beta * input + alpha * (batch1 @ batch2)``."""
    return _overwrite(input, bmm(batch1, batch2), beta, alpha)


def addr_(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Overwrite `input` with ``beta * input + alpha * outer(vec1, vec2)``."""
    return _overwrite(input, outer(vec1, vec2), beta, alpha)


def _overwrite(input: Tensor, term: Tensor, beta: Number, alpha: Number) -> Tensor:
    if input.array.shape != term.array.shape:
        raise RuntimeError(
            f"the written tensor has shape {list(input.array.shape)}, but the result has "
            f"{list(term.array.shape)}: "
            "an in-place op cannot change it"
        )
    alpha, beta = _as_elements(alpha, term), _as_elements(beta, term)
    if beta == 0:
        return input.copy_(term if alpha == 1 else mul_p(term, alpha))
    if beta != 1:
        input.mul_(beta)
    return input.add_(term, alpha=alpha)


# --- Chains, Kronecker and cross products -----------------------------------------------------------


def kron(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return the Kronecker product: `other`, scaled by each element of `input`, in that element's place.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    other : Tensor
        Of any shape; missing dimensions are added in front.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Each size is the product of both.

    Examples
    --------
    >>> adjoint.kron(adjoint.tensor([[1, 2]]), adjoint.tensor([[1, 0], [0, 1]]))
    tensor([[1, 0, 2, 0],
            [0, 1, 0, 2]])
    """
    require_tensor(input, "input", "kron")
    require_tensor(other, "other", "kron")
    a, b = tuple(input.array.shape), tuple(other.array.shape)
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    left = reshape_p(input, tuple(n for m in a for n in (m, 1)))
    right = reshape_p(other, tuple(n for m in b for n in (1, m)))
    return into(out, reshape_p(mul_p(left, right), tuple(m * n for m, n in zip(a, b))))


def chain_matmul(*matrices: Tensor, out: Out = None) -> Tensor:
    """Multiply matrices in the order that takes the fewest operations.

    Parameters
    ----------
    *matrices : Tensor
        At least one matrix. ``linalg.multi_dot`` takes vectors too.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        All matrices multiplied.

    Examples
    --------
    >>> adjoint.chain_matmul(adjoint.ones(1, 2), adjoint.ones(2, 3), adjoint.ones(3, 1))
    tensor([[6.]])
    """
    if len(matrices) == 1 and isinstance(matrices[0], list | tuple):
        matrices = tuple(matrices[0])
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    require_all_tensors(matrices)
    for i, m in enumerate(matrices):
        if m.array.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {m.array.ndim}, expected 2 instead: matrix {i} of chain_matmul")
    return matrices[0] if len(matrices) == 1 else into(out, multiply_chain(list(matrices)))


def multiply_chain(matrices: list[Tensor]) -> Tensor:
    """Multiply matrices pair by pair, in the cheapest order."""
    n = len(matrices)
    p = [matrices[0].array.shape[0], *(m.array.shape[1] for m in matrices)]
    for a, b in pairwise(matrices):
        if a.array.shape[1] != b.array.shape[0]:
            raise cannot_multiply(a.array.shape, b.array.shape)
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + p[i] * p[k + 1] * p[j + 1], k) for k in range(i, j)
            )

    def build(i: int, j: int) -> Tensor:
        return matrices[i] if i == j else matmul(build(i, split[i][j]), build(split[i][j] + 1, j))

    return build(0, n - 1)


def _cross(x: Array, y: Array, axis: int) -> Any:
    before = (slice(None),) * axis
    left, right = ([a[(*before, i)] for i in range(3)] for a in (x, y))
    shape = x.shape if x.shape == y.shape else np.broadcast_shapes(x.shape, y.shape)
    out: Any = module_of(x).empty(shape, x.dtype)
    for i in range(3):
        part: Any = out[(*before, i)]
        j, k = i - 2, i - 1  # the two others, in their order around
        np.multiply(left[j], right[k], out=part)
        part -= left[k] * right[j]
    return out


def _cross_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    (tx, ty), (x, y) = tangents, inputs
    parts = [cross_p(a, b, *params) for a, b in ((tx, y), (x, ty)) if a is not None and b is not None]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


cross_p: Primitive = nary(
    _cross,
    inputs=2,
    x=lambda g, y, axis: cross_p(y, g, axis),
    y=lambda g, x, axis: cross_p(g, x, axis),
    jvp=_cross_jvp,
    batch=broadcasting(lambda x, y, axis: cross_p(x, y, axis + 1)),
    promotes=True,
    holomorphic=True,
    node_name="LinalgCrossBackward0",
    saved={"x": "self", "y": "other", "axis": "dim"},
)


@autocasting
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Out = None, axis: int | None = None) -> Tensor:
    """Take the cross product along a dimension of size 3.

    Parameters
    ----------
    input : Tensor
        Vectors.
    other : Tensor
        Vectors, broadcast with `input`.
    dim : int, optional
        Dimension of size 3; the first such one by default. ``linalg.cross`` takes the last.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.cross(adjoint.tensor([1.0, 0.0, 0.0]), adjoint.tensor([0.0, 1.0, 0.0]), dim=0)
    tensor([0., 0., 1.])
    """
    dim = dim if axis is None else either(dim, axis)
    if dim is None:
        shape = np.broadcast_shapes(input.array.shape, other.array.shape)
        if 3 not in shape:
            raise RuntimeError("no dimension of size 3 in input; cross needs vectors of three elements")
        dim = shape.index(3)
    return cross_along(input, other, dim, out)


def cross_along(input: Tensor, other: Tensor, dim: int, out: Out = None) -> Tensor:
    """Return the cross product along `dim`."""
    a, b = tuple(input.array.shape), tuple(other.array.shape)
    if len(a) != len(b):
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, but got {len(a)} and {len(b)}"
        )
    if "b" in (input.array.dtype.kind, other.array.dtype.kind):
        raise not_implemented("cross", input.array if input.array.dtype.kind == "b" else other.array)
    axis = dim_in(dim, len(a))
    if a[axis] != 3 or b[axis] != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {a[axis]} and {b[axis]}")
    return into(out, cross_p(input, other, axis))
