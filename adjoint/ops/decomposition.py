"""Matrix decompositions: Cholesky, QR, LU, LDL; singular values and eigenvalues are in `eigenvalues`.

The vectors of a decomposition are unique only up to a sign or a phase, and for equal values only up to a rotation of
their subspace: `degeneracy` explains what that means for derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import return_types
from .._typing import Array, DType, Inputs, Kernel, Out, Params, Shape, Tangents, Tensor, Value
from ..core.device import linalg_of as algebra
from ..core.device import module_of, through_host
from ..core.observation import literal, note_read
from ..core.payload import Payload
from ..core.recorders import Primitive, nary, parametric
from ..errors import LinAlgError
from .arrange import tril_p, triu_p
from .contraction import matmul
from .convert import concrete
from .create import finish, into
from .linalg import (
    aligned,
    check_matrices,
    check_same_dtype,
    check_square,
    diagonal_matrix,
    diagonal_of,
    eye_like,
    first_of,
    lu_of,
    mH,
    mT,
    outs,
    solve_triangular_p,
    tied,
    tri_solve,
)
from .looping import looped
from .precision import autocasting
from .reduce import part, title_of, widened
from .shape import expand_p, reshape_p, sum_to_p

__all__ = [
    "geqrf", "lu_unpack", "ormqr",
]  # fmt: skip


def _halved(x: Value) -> Value:
    """Return the lower triangles of matrices, their diagonals halved."""
    return tril_p(x, 0) - diagonal_matrix(diagonal_of(x)) / 2


# --- Cholesky -------------------------------------------------------------------------------------


def _cholesky(x: Value, upper: bool, check: bool) -> Any:
    x = x.swapaxes(-1, -2).conj() if upper else x
    try:
        lower = algebra(x).cholesky(x)
    except np.linalg.LinAlgError:
        if check:
            raise _not_definite(x) from None
        lower = _each_cholesky(x)
    return lower.swapaxes(-1, -2).conj() if upper else lower


@through_host("linalg.cholesky_ex")
def _each_cholesky(x: Value) -> Array:
    """Return the factors, those of matrices that have none filled with NaN."""
    out = np.full(x.shape, np.nan, x.dtype)
    for i in np.ndindex(x.shape[:-2]):
        try:
            out[i] = np.linalg.cholesky(x[i])
        except np.linalg.LinAlgError:
            continue
    return out


def _not_definite(x: Value) -> LinAlgError:
    order = np.asarray(_bad_minors(x, False).tolist()).reshape(-1)
    i = int(np.flatnonzero(order)[0]) if order.any() else 0
    where = f"(Batch element {i}): " if x.ndim > 2 else ""
    return LinAlgError(
        f"linalg.cholesky: {where}The factorization could not be completed because the input is not "
        f"positive-definite (the leading minor of order {int(order[i])} is not positive-definite)."
    )


@through_host("linalg.cholesky_ex")
def _bad_minors(x: Value, upper: bool) -> Array:
    """Return the order of the first leading minor of each matrix that is not positive-definite, else 0."""
    n = x.shape[-1]
    x = x.swapaxes(-1, -2).conj() if upper else x
    orders = np.zeros(x.shape[:-2], np.int32)
    for i in np.ndindex(x.shape[:-2]):
        low, high = 0, n + 1  # minors up to `low` are positive-definite, the one of order `high` is not
        middle = n  # most often they all are
        while high - low > 1:
            low, high = (middle, high) if _is_definite(x[i][:middle, :middle]) else (low, middle)
            middle = (low + high) // 2
        orders[i] = high if high <= n else 0
    return orders


def _is_definite(x: Value) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(x)).all())
    except np.linalg.LinAlgError:
        return False


bad_minors_p = parametric(_bad_minors, batch="same")


def _cholesky_x(g: Value, out: Value, upper: bool) -> Any:
    lower, g = (mH(out), mH(g)) if upper else (out, g)
    inner = mH(lower) @ g
    inner = tril_p(inner, 0) + mH(tril_p(inner, -1))
    left = solve_triangular_p(mH(lower), inner, True, False)  # L^-H inner
    return mH(solve_triangular_p(mH(lower), mH(left), True, False)) / 2  # ... L^-1


def _cholesky_tangent(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    lower = mH(out) if params[0] else out
    left = solve_triangular_p(lower, tangents[0], False, False)
    both = mH(solve_triangular_p(lower, mH(left), False, False))
    change = lower @ _halved(both)
    return mH(change) if params[0] else change


cholesky_p = parametric(
    _cholesky,
    x=_cholesky_x,
    jvp=_cholesky_tangent,
    batch="same",
    node_name="LinalgCholeskyExBackward0",
    saved={"out": "L"},
)


def cholesky(input: Tensor, *, upper: bool = False, out: Out = None) -> Tensor:
    """Factor positive-definite matrices into ``L @ L.mH`` with a lower triangular L.

    Parameters
    ----------
    input : Tensor
        Symmetric or Hermitian positive-definite matrices, ``(*, n, n)``; only the lower triangle is read.
    upper : bool, default False
        Return the upper factor ``U = L.mH``, from the upper triangle.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The triangular factors, ``(*, n, n)``.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite. `cholesky_ex` reports it instead.

    Examples
    --------
    >>> adjoint.linalg.cholesky(adjoint.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    check_square(input, "linalg.cholesky")
    return into(out, cholesky_p(input, upper, True))


def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False, out: Out = None) -> Any:
    """Factor positive-definite matrices, and report which are not instead of raising.

    Parameters
    ----------
    input : Tensor
        Symmetric or Hermitian matrices, ``(*, n, n)``.
    upper : bool, default False
        Return upper factors instead of lower ones.
    check_errors : bool, default False
        Whether to raise for a matrix that is not positive definite, as `cholesky` does.
    out : tuple of Tensor, optional
        Tensors to write the results into.

    Returns
    -------
    (L, info) : named tuple of Tensor
        The factors, ``(*, n, n)``, and int32 codes, ``(*)``: 0, or the order of the first leading minor that is not
        positive definite. The factor of such a matrix has no meaning.

    Examples
    --------
    >>> adjoint.linalg.cholesky_ex(adjoint.tensor([[[4.0, 2.0], [2.0, 5.0]], [[1.0, 2.0], [2.0, 1.0]]])).info
    tensor([0, 2], dtype=adjoint.int32)
    """
    check_square(input, "linalg.cholesky_ex")
    found = cholesky_p(input, upper, check_errors), bad_minors_p(input, upper)
    return outs(return_types.linalg_cholesky_ex, found, out)


def _cholesky_solve(b: Value, factor: Value, upper: bool) -> Any:
    lower = factor.swapaxes(-1, -2).conj() if upper else factor
    return tri_solve(lower.swapaxes(-1, -2).conj(), tri_solve(lower, b, False, False), True, False)


def _cholesky_solve_back(
    g: Value, factor: Value, out: Value, b_shape: Shape, factor_shape: Shape, upper: bool, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    gb = cholesky_solve_p(g, factor, upper)
    gf = None
    if needs[1]:
        both = gb @ mH(out)
        both = both + mH(both)
        gf = sum_to_p(-(factor @ both if upper else both @ factor), factor_shape)
    return sum_to_p(gb, b_shape), gf


def _cholesky_solve_tangent(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    (tb, tf), (_, factor), (upper,) = tangents, inputs, params
    push = tb
    if tf is not None:
        half = mH(tf) @ factor if upper else tf @ mH(factor)
        change = (half + mH(half)) @ out
        push = -change if tb is None else tb - change
    return cholesky_solve_p(push, factor, upper)


cholesky_solve_p: Primitive = nary(
    _cholesky_solve,
    inputs=2,
    joint=_cholesky_solve_back,
    jvp=_cholesky_solve_tangent,
    batch=lambda b, factor, upper: cholesky_solve_p(*aligned(b, factor), upper),
)

# --- QR -------------------------------------------------------------------------------------------


def _qr(x: Array, mode: str) -> Any:
    xp = module_of(x)
    if x.size == 0 and xp is np:
        m, n = x.shape[-2:]
        k = m if mode == "complete" else min(m, n)
        q = xp.broadcast_to(xp.eye(m, k, dtype=x.dtype), (*x.shape[:-2], m, k)).copy()
        return q, xp.zeros((*x.shape[:-2], k, n), x.dtype)
    q, r = algebra(x).qr(x, mode)
    return q, r


def _qr_x(g: Sequence[Value | None], out: tuple[Value, ...], x_shape: Shape, mode: str) -> Any:
    (gq, gr), (q, r) = g, out
    m, n = x_shape[-2:]
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols; use mode='reduced'"
        )
    if gq is None and gr is None:
        return None
    if m < n:
        # A = [A1 A2], with Q and R1 of the square A1; R2 = Q^H A2.
        columns = r.ndim - 1
        r1, r2 = part(r, columns, 0, m), part(r, columns, m, n - m)
        if gr is None:
            return widened(_qr_square(gq, None, q, r1), columns, 0, n - m)
        g1, g2 = part(gr, columns, 0, m), part(gr, columns, m, n - m)
        more = q @ r2 @ mH(g2)
        first = _qr_square(more if gq is None else gq + more, g1, q, r1)
        return widened(first, columns, 0, n - m) + widened(q @ g2, columns, m, 0)
    return _qr_square(gq, gr, q, r)


def _qr_square(gq: Value | None, gr: Value | None, q: Value, r: Value) -> Any:
    """Return the gradient where R is square."""
    inner = None
    if gr is not None:
        inner = gr @ mH(r)
    if gq is not None:
        inner = -(mH(q) @ gq) if inner is None else inner - mH(q) @ gq
    inner = triu_p(inner, 0)
    both = inner + mH(inner)
    both = both - diagonal_matrix(diagonal_of(both)) / 2
    total = q @ both if gq is None else gq + q @ both
    return mH(solve_triangular_p(r, mH(total), True, False))


qr_p: Any = parametric(_qr, x=_qr_x, outputs=True, batch="same", name="qr", node_name="LinalgQrBackward0")


def _no_derivative(name: str) -> Kernel:
    def rule(g: Value) -> Tensor:
        raise RuntimeError(name)

    return rule


qr_r_p = parametric(
    lambda x: algebra(x).qr(x, "r") if x.size else _qr(x, "reduced")[1],
    x=_no_derivative(
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced') if you are going to require gradients."
    ),
    batch="same",
    name="qr_r",
    node_name="LinalgQrBackward0",
)


def qr(A: Tensor, mode: str = "reduced", *, out: Out = None) -> Any:
    """Factor matrices into ``Q @ R``: orthonormal columns and an upper triangle.

    Parameters
    ----------
    A : Tensor
        Matrices, ``(*, m, n)``. Let ``k = min(m, n)``.
    mode : {"reduced", "complete", "r"}, default "reduced"
        Shapes of the factors: ``(m, k)`` and ``(k, n)``, ``(m, m)`` and ``(m, n)``, or only R, ``(k, n)``.
    out : tuple of Tensor, optional
        Tensors to write the results into.

    Returns
    -------
    (Q, R) : named tuple of Tensor
        The factors. Q is empty where `mode` is ``"r"``, which has no gradient.

    Examples
    --------
    >>> A = adjoint.tensor([[3.0, 1.0], [4.0, 2.0], [0.0, 2.0]])
    >>> Q, R = adjoint.linalg.qr(A)
    >>> Q.shape, R.shape
    (adjoint.Size([3, 2]), adjoint.Size([2, 2]))
    >>> adjoint.allclose(Q @ R, A, atol=1e-6), adjoint.allclose(Q.mT @ Q, adjoint.eye(2), atol=1e-6)
    (True, True)
    """
    check_matrices(A, "linalg.qr")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    if mode == "r":
        found = finish(literal(module_of(A.array).zeros((0,), A.array.dtype))), qr_r_p(A)
    else:
        found = qr_p(A, mode)
    return outs(return_types.linalg_qr, found, out)


@autocasting
@looped
def geqrf(input: Tensor, *, out: Out = None) -> Any:
    """Factor matrices into reflections and an upper triangle, as LAPACK keeps them.

    R is the upper triangle of the first result; the reflections are below it. For `householder_product` and `ormqr`;
    `qr` returns Q and R themselves.

    Parameters
    ----------
    input : Tensor
        Matrices, (..., m, n).
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (a, tau): (..., m, n) and (..., min(m, n)).

    Examples
    --------
    >>> A = adjoint.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = adjoint.geqrf(A)
    >>> adjoint.allclose(adjoint.linalg.householder_product(a, tau) @ a.triu(), A)
    True
    """
    check_matrices(input, "torch.geqrf", "input")
    note_read("geqrf", input)
    h, tau = _reflections(input.array)
    return outs(return_types.geqrf, (finish(literal(h)), finish(literal(tau))), out)


@through_host("geqrf")
def _reflections(a: Value) -> tuple[Any, Any]:
    h, tau = np.linalg.qr(a, "raw")
    return np.ascontiguousarray(h.swapaxes(-1, -2)), tau


@autocasting
def householder_product(input: Tensor, tau: Tensor, *, out: Out = None) -> Tensor:
    """Multiply Householder reflections: the first columns of the Q of a QR factorization.

    Reflection i is ``I - tau[i] * v v^H``, where v is column i of `input` below a 1 on the diagonal.

    Parameters
    ----------
    input : Tensor
        Vectors of the reflections, (..., m, n), as of `geqrf`.
    tau : Tensor
        Their factors, (..., k) with k up to n.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        (..., m, n), with orthonormal columns.

    Examples
    --------
    >>> A = adjoint.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> Q = adjoint.linalg.householder_product(*adjoint.geqrf(A))
    >>> adjoint.allclose(Q.T @ Q, adjoint.eye(2), atol=1e-6)
    True
    """
    check_matrices(input, "torch.linalg.householder_product", "input")
    m, n = input.array.shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    k = tau.array.shape[-1]
    if n < k:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if input.array.ndim - tau.array.ndim != 1 or input.array.shape[:-2] != tau.array.shape[:-1]:
        raise RuntimeError(
            "torch.linalg.householder_product: Expected tau to have one dimension less than input, and "
            "batch dims as "
            f"input has, but got tau of shape {list(tau.array.shape)} and input of shape "
            f"{list(input.array.shape)}"
        )
    if input.array.dtype != tau.array.dtype:
        raise RuntimeError("torch.linalg.householder_product: tau dtype does not match input dtype")
    return into(out, _reflected(input, tau, n))


def _reflected(A: Tensor, tau: Tensor, columns: int) -> Tensor:
    """Return the first `columns` columns of the product of reflections."""
    m, k = A.array.shape[-2], tau.array.shape[-1]
    lead = tuple(A.array.shape[:-2])
    rank = A.array.ndim
    low = tril_p(A, -1)
    one = eye_like(A, m, A.array.shape[-1])
    vectors = low + one
    q = tied(expand_p(eye_like(A, m, columns), (*lead, m, columns)), A)
    for i in reversed(range(k)):
        v = part(vectors, rank - 1, i, 1)
        t = reshape_p(part(tau, rank - 2, i, 1), (*lead, 1, 1))
        q = q - (v * t) @ (mH(v) @ q)
    return q


@autocasting
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *, out: Out = None
) -> Tensor:
    """Multiply `other` by the square matrix Q that reflections describe.

    Parameters
    ----------
    input : Tensor
        Vectors of the reflections, (..., m, k), as of `geqrf`.
    tau : Tensor
        Their factors, (..., k).
    other : Tensor
        Matrices to multiply, (..., m, n), or (..., n, m) if not `left`.
    left : bool, default True
        Whether Q is on the left.
    transpose : bool, default False
        Whether to take the conjugate transpose of Q.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        ``Q @ other`` or ``other @ Q``.

    Examples
    --------
    >>> A = adjoint.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = adjoint.geqrf(A)
    >>> adjoint.allclose(adjoint.ormqr(a, tau, A, transpose=True), a.triu(), atol=1e-6)
    True
    """
    for word, x in (("input", input), ("other", other)):
        if x.array.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {word} must have at least 2 dimensions.")
    rows = other.array.shape[-2 if left else -1]
    if rows != input.array.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]")
    if tau.array.shape[-1] != min(rows, input.array.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{-2 if left else -1}], input.shape[-1])"
        )
    check_matrices(input, "torch.ormqr", "input")
    check_matrices(other, "torch.ormqr", "other")
    q = _reflected(input, tau, input.array.shape[-2])
    q = mH(q) if transpose else q
    return into(out, matmul(q, other) if left else matmul(other, q))


# --- LU -------------------------------------------------------------------------------------------


def _lu(x: Value) -> tuple[Any, Any, Any]:
    packed, pivots, info = lu_of(x)
    return packed, pivots, info


def _permutation(pivots: Array, rows: Any, dtype: DType) -> Array:
    """Return the matrix P with ``A = P @ L @ U``, from 1-based pivots."""
    xp = module_of(pivots)
    count = math.prod(pivots.shape[:-1])
    flat = pivots.reshape((count, pivots.shape[-1]))
    order = xp.tile(xp.arange(rows), (count, 1))
    each = xp.arange(count)
    for j in range(flat.shape[1]):
        other = flat[:, j].astype(np.int64) - 1
        swapped = order[each, other].copy()
        order[each, other] = order[:, j]
        order[:, j] = swapped
    return xp.eye(rows, dtype=dtype)[order].swapaxes(-1, -2).reshape((*pivots.shape[:-1], rows, rows))


permutation_p = parametric(_permutation, batch="same")


def _lu_x(g: Sequence[Value | None], out: tuple[Value, ...], x_shape: Shape, x_dtype: DType) -> Any:
    gx = g[0]
    if gx is None:
        return None
    packed, pivots = out[0], out[1]
    m, n = x_shape[-2:]
    k = min(m, n)
    p = permutation_p(pivots, m, x_dtype)
    square_lu = first_of(first_of(packed, -1, k), -2, k)
    g_square = first_of(first_of(gx, -1, k), -2, k)
    rows, columns = len(x_shape) - 2, len(x_shape) - 1
    lower = tril_p(square_lu, -1)
    upper = triu_p(square_lu, 0)
    left = tril_p(g_square + mT(lower) @ g_square, -1)
    right = triu_p(g_square @ mT(upper), 0)
    if m > n:
        low, g_low = part(packed, rows, n, m - n), part(gx, rows, n, m - n)
        right = right - triu_p(mT(low) @ g_low, 0)
    elif n > m:
        side, g_side = part(packed, columns, m, n - m), part(gx, columns, m, n - m)
        left = left - tril_p(g_side @ mT(side), -1)
    inner = left + right
    # For a square matrix: L^-T inner U^-T.
    inner = solve_triangular_p(mT(square_lu), inner, True, True)
    inner = mT(solve_triangular_p(square_lu, mT(inner), True, False))
    if m > n:
        rest = mT(solve_triangular_p(square_lu, mT(g_low), True, False))
        inner = widened(inner, rows, 0, m - n, 0) + widened(rest, rows, n, 0, 0)
    elif n > m:
        rest = solve_triangular_p(mT(square_lu), g_side, True, True)
        inner = widened(inner, columns, 0, n - m, 0) + widened(rest, columns, m, 0, 0)
    return p @ inner


lu_p = parametric(
    _lu,
    x=_lu_x,
    outputs=True,
    batch="same",
    holomorphic=True,
    name="lu_factor",
    node_name="LinalgLuFactorExBackward0",
)


def _check_pivot(pivot: bool, name: str) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Out = None) -> Any:
    """Factor matrices into L and U, packed into one, and pivots; tells which have a zero on U's diagonal.

    Parameters
    ----------
    A : Tensor
        Matrices, (..., m, n).
    pivot : bool, default True
        Whether to exchange rows; False needs a GPU.
    check_errors : bool, default False
        Whether to raise for a zero on the diagonal of U.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (LU, pivots, info), as of `lu_factor`; info is 0, or the order of the first zero on the diagonal of U.

    Examples
    --------
    >>> A = adjoint.tensor([[1.0, 2.0], [2.0, 8.0]])
    >>> adjoint.linalg.lu_factor_ex(A).info
    tensor(0, dtype=adjoint.int32)
    >>> adjoint.linalg.lu_factor_ex(adjoint.zeros(2, 2)).info
    tensor(1, dtype=adjoint.int32)
    """
    check_matrices(A, "torch.lu_factor")
    _check_pivot(pivot, "linalg.lu_factor")
    packed, pivots, info = lu_p(A)
    if check_errors:
        _check_u(info)
    return outs(return_types.linalg_lu_factor_ex, (packed, pivots, info), out)


def _check_u(info: Tensor) -> None:
    found = concrete(info, "linalg.lu_factor") if not isinstance(info.array, Payload) else np.zeros(1)
    if not found.any():
        return
    order = int(found[found != 0].reshape(-1)[0])
    raise RuntimeError(
        f"torch.linalg.lu_factor: U[{order},{order}] is zero and using it on lu_solve would result in a "
        "division by "
        "zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)"
    )


def lu_factor(A: Tensor, *, pivot: bool = True, out: Out = None) -> Any:
    """Factor matrices into L and U, packed into one, and pivots.

    L, whose diagonal of ones is not stored, is below U in one matrix. For `lu_solve` and `lu_unpack`.

    Parameters
    ----------
    A : Tensor
        Matrices, (..., m, n).
    pivot : bool, default True
        Whether to exchange rows; False needs a GPU.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (LU, pivots): (..., m, n), and (..., min(m, n)), int32: row i was exchanged with row ``pivots[i] - 1``.

    Raises
    ------
    RuntimeError
        If a diagonal element of U is zero, or `pivot` is False on a CPU.

    Examples
    --------
    >>> A = adjoint.tensor([[1.0, 2.0], [2.0, 8.0]])
    >>> LU, pivots = adjoint.linalg.lu_factor(A)
    >>> LU
    tensor([[ 2.0000,  8.0000],
            [ 0.5000, -2.0000]])
    >>> pivots
    tensor([2, 2], dtype=adjoint.int32)
    >>> adjoint.linalg.lu_solve(LU, pivots, adjoint.tensor([[3.0], [10.0]]))
    tensor([[1.],
            [1.]])
    """
    check_matrices(A, "torch.lu_factor")
    _check_pivot(pivot, "linalg.lu_factor")
    packed, pivots, info = lu_p(A)
    _check_u(info)
    return outs(return_types.linalg_lu_factor, (packed, pivots), out)


def unpacked_lu(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Return L and U of a packed factorization."""
    m, n = packed.array.shape[-2:]
    k = min(m, n)
    lower = tril_p(first_of(packed, -1, k), -1) + eye_like(packed, m, k)
    return lower, triu_p(first_of(packed, -2, k), 0)


def lu(A: Tensor, *, pivot: bool = True, out: Out = None) -> Any:
    """Factor matrices into a permutation, a lower triangle with a diagonal of ones, and an upper triangle.

    ``A = P @ L @ U``

    Parameters
    ----------
    A : Tensor
        Matrices, (..., m, n).
    pivot : bool, default True
        Whether to exchange rows; False needs a GPU.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (P, L, U): (..., m, m), (..., m, k) and (..., k, n) with ``k = min(m, n)``.

    Examples
    --------
    >>> A = adjoint.tensor([[1.0, 2.0], [2.0, 8.0]])
    >>> P, L, U = adjoint.linalg.lu(A)
    >>> L
    tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]])
    >>> U
    tensor([[ 2.,  8.],
            [ 0., -2.]])
    >>> adjoint.allclose(P @ L @ U, A)
    True
    """
    check_matrices(A, "linalg.lu")
    _check_pivot(pivot, "linalg.lu")
    packed, pivots, _ = lu_p(A)
    p = permutation_p(pivots, A.array.shape[-2], A.array.dtype)
    return outs(return_types.linalg_lu, (p, *unpacked_lu(packed)), out)


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Out = None
) -> Tensor:
    """Solve ``A @ X = B`` (or ``X @ A = B``, or with the adjoint of A) from the factorization of A.

    Parameters
    ----------
    LU : Tensor
        Factors as of `lu_factor`, (..., n, n).
    pivots : Tensor
        Their pivots, (..., n).
    B : Tensor
        Right-hand sides, (..., n, k).
    left : bool, default True
        Whether to solve ``A @ X = B``; otherwise ``X @ A = B``.
    adjoint : bool, default False
        Whether to take the conjugate transpose of A.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        X, of the shape of `B`.

    Examples
    --------
    >>> A = adjoint.tensor([[1.0, 2.0], [2.0, 8.0]])
    >>> LU, pivots = adjoint.linalg.lu_factor(A)
    >>> adjoint.linalg.lu_solve(LU, pivots, adjoint.tensor([[3.0], [10.0]]))
    tensor([[1.],
            [1.]])
    """
    check_square(LU, "torch.linalg.lu_solve", "LU")
    check_matrices(B, "torch.linalg.lu_solve", "B")
    check_same_dtype(LU, B, "linalg.lu_solve")
    if pivots.array.dtype != np.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    n = LU.array.shape[-1]
    if pivots.array.shape[-1:] != (n,) and n:
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if not left:  # X A = B is A^H X^H = B^H
        return into(out, mH(lu_solve(LU, pivots, mH(B), adjoint=not adjoint)))
    if B.array.shape[-2] != n:
        raise RuntimeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation AX = B ({n}x{n} and "
            f"{B.array.shape[-2]}x{B.array.shape[-1]})"
        )
    p = permutation_p(pivots, n, LU.array.dtype)
    if adjoint:
        x = solve_triangular_p(mH(LU), B, False, False)
        return into(out, matmul(p, solve_triangular_p(mH(LU), x, True, True)))
    x = solve_triangular_p(LU, matmul(mT(p), B), False, True)
    return into(out, solve_triangular_p(LU, x, True, False))


def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: Out = None,
) -> Any:
    """Return P, L and U from a packed factorization; empty tensors for what is not wanted.

    Parameters
    ----------
    LU_data : Tensor
        Factors as of `lu_factor`, (..., m, n).
    LU_pivots : Tensor
        Their pivots.
    unpack_data : bool, default True
        Whether to return L and U.
    unpack_pivots : bool, default True
        Whether to return P.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (P, L, U) with ``A = P @ L @ U``.

    Examples
    --------
    >>> A = adjoint.tensor([[1.0, 2.0], [2.0, 8.0]])
    >>> P, L, U = adjoint.lu_unpack(*adjoint.linalg.lu_factor(A))
    >>> P
    tensor([[0., 1.],
            [1., 0.]])
    >>> adjoint.allclose(P @ L @ U, A)
    True
    """
    if unpack_pivots and LU_pivots.array.dtype != np.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. "
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    if LU_data.array.ndim < 2:
        raise RuntimeError(
            f"torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {list(LU_data.array.shape)} instead"
        )
    xp = module_of(LU_data.array)

    def nothing() -> Tensor:
        return finish(literal(xp.zeros((0,), LU_data.array.dtype)))

    p = permutation_p(LU_pivots, LU_data.array.shape[-2], LU_data.array.dtype) if unpack_pivots else nothing()
    factors = unpacked_lu(LU_data) if unpack_data else (nothing(), nothing())
    return outs(return_types.lu_unpack, (p, *factors), out)


# --- Symmetric indefinite -------------------------------------------------------------------------


def _sytrf(a: Array, hermitian: bool) -> Any:
    try:
        from scipy.linalg.lapack import get_lapack_funcs
    except ImportError:
        raise RuntimeError("linalg.ldl_factor needs SciPy for its factorization: pip install scipy") from None
    return get_lapack_funcs(("hetrf" if hermitian and a.dtype.kind == "c" else "sytrf",), (a,))[0]


@looped
def ldl_factor_ex(input: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Out = None) -> Any:
    """Factor symmetric (or Hermitian) matrices, definite or not; tells where that failed.

    Parameters
    ----------
    input : Tensor
        Symmetric or Hermitian matrices, (..., n, n); only the lower triangle is read.
    hermitian : bool, default False
        Whether complex matrices are Hermitian rather than symmetric.
    check_errors : bool, default False
        Whether to raise where a factorization failed.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (LD, pivots, info), as of `ldl_factor`; info is 0, or the order of the first zero on the diagonal of D.

    Examples
    --------
    >>> adjoint.linalg.ldl_factor_ex(adjoint.tensor([[2.0, 1.0], [1.0, 2.0]])).info
    tensor(0, dtype=adjoint.int32)
    """
    check_square(input, "torch.linalg.ldl_factor_ex")
    note_read("ldl_factor", input)
    packed, pivots, info = _ldl(input.detach().array, hermitian)
    if check_errors and info.any():
        raise RuntimeError(f"torch.linalg.ldl_factor_ex: D[{info.max()},{info.max()}] is zero")
    return outs(return_types.linalg_ldl_factor_ex, tuple(finish(literal(a)) for a in (packed, pivots, info)), out)


@through_host("linalg.ldl_factor")
def _ldl(a: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    factor = _sytrf(a, hermitian)
    packed, pivots, info = a.copy(), np.zeros(a.shape[:-1], np.int32), np.zeros(a.shape[:-2], np.int32)
    for i in np.ndindex(a.shape[:-2]):
        if a.shape[-1]:
            packed[i], pivots[i], info[i] = factor(a[i], lower=1)
    return np.tril(packed), pivots, info


@looped
def ldl_factor(input: Tensor, *, hermitian: bool = False, out: Out = None) -> Any:
    """Factor symmetric (or Hermitian) matrices, definite or not.

    ``A = L @ D @ L.T``, packed into one matrix, for `ldl_solve`.

    Parameters
    ----------
    input : Tensor
        Symmetric or Hermitian matrices, (..., n, n); only the lower triangle is read.
    hermitian : bool, default False
        Whether complex matrices are Hermitian rather than symmetric.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (LD, pivots): (..., n, n), and (..., n), int32, as of LAPACK.

    Examples
    --------
    >>> A = adjoint.tensor([[0.0, 1.0], [1.0, 0.0]])  # neither definite nor of nonzero diagonal
    >>> LD, pivots = adjoint.linalg.ldl_factor(A)
    >>> adjoint.linalg.ldl_solve(LD, pivots, adjoint.tensor([[2.0], [3.0]]))
    tensor([[3.],
            [2.]])
    """
    packed, pivots, _ = ldl_factor_ex(input, hermitian=hermitian, check_errors=True)
    return outs(return_types.linalg_ldl_factor, (packed, pivots), out)


@looped
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Out = None) -> Tensor:
    """Solve ``A @ X = B`` from the factorization of a symmetric (or Hermitian) A.

    Parameters
    ----------
    LD : Tensor
        Factors as of `ldl_factor`, (..., n, n).
    pivots : Tensor
        Their pivots, (..., n).
    B : Tensor
        Right-hand sides, (..., n, k).
    hermitian : bool, default False
        The same as of `ldl_factor`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        X, of the shape of `B`.

    Examples
    --------
    >>> LD, pivots = adjoint.linalg.ldl_factor(adjoint.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> adjoint.linalg.ldl_solve(LD, pivots, adjoint.tensor([[3.0], [3.0]]))
    tensor([[1.],
            [1.]])
    """
    check_square(LD, "torch.linalg.ldl_solve", "LD")
    check_matrices(B, "torch.linalg.ldl_solve", "B")
    if pivots.array.dtype.kind not in "iu":
        found = title_of(pivots.array.dtype)
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {found}")
    note_read("ldl_solve", LD, pivots, B)
    return into(out, finish(literal(_ldl_solve(LD.array, pivots.array, B.array, hermitian))))


@through_host("linalg.ldl_solve")
def _ldl_solve(ld: Array, pivots: Value, b: Value, hermitian: bool) -> Array:
    try:
        from scipy.linalg.lapack import get_lapack_funcs
    except ImportError:
        raise RuntimeError("linalg.ldl_solve needs SciPy: pip install scipy") from None
    name = "hetrs" if hermitian and ld.dtype.kind == "c" else "sytrs"
    (solver,) = get_lapack_funcs((name,), (ld,))
    lead = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    factors, pivs, sides = (
        np.broadcast_to(v, (*lead, *v.shape[v.ndim - k :])) for v, k in ((ld, 2), (pivots, 1), (b, 2))
    )
    found = np.zeros(sides.shape, b.dtype)
    for i in np.ndindex(lead):
        if found.size:
            found[i] = solver(factors[i], pivs[i], sides[i], lower=1)[0]
    return found
