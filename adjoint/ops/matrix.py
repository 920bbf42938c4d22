"""Linear algebra under the names and with the signatures that torch's own namespace gives it."""

from __future__ import annotations

from typing import Any

from .. import return_types
from .._typing import Out, Tensor
from ..core.device import module_of
from ..core.folding import fold
from ..core.observation import literal
from . import decomposition, eigenvalues, linalg, matrix_functions
from .contraction import matmul
from .create import finish, into
from .linalg import check_matrices, check_square, eye_like, mH, mT, outs, solve_triangular_p
from .piecewise import where_p
from .precision import autocasting
from .shape import expand_p

# --- Functions ------------------------------------------------------------------------------------


def inverse(input: Tensor, *, out: Out = None) -> Tensor:
    """Invert square matrices; the same as `linalg.inv`.

    Parameters
    ----------
    input : Tensor
        Matrices, ``(*, n, n)``.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The inverses, ``(*, n, n)``.

    Raises
    ------
    LinAlgError
        If a matrix is singular.

    Examples
    --------
    >>> adjoint.inverse(adjoint.tensor([[1.0, 2.0], [0.0, 1.0]]))
    tensor([[ 1., -2.],
            [ 0.,  1.]])
    """
    return linalg.inv(input, out=out)


@autocasting
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Compute the pseudoinverse of a matrix.

    Parameters
    ----------
    input : Tensor
        Matrices, (..., m, n).
    rcond : float, default 1e-15
        Singular values below `rcond` times the largest count as 0.

    Returns
    -------
    Tensor
        (..., n, m).

    Examples
    --------
    >>> adjoint.pinverse(adjoint.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    return matrix_functions.pinv(input, rcond=rcond)


def det(input: Tensor) -> Tensor:
    """Compute the determinants of square matrices; the same as `linalg.det`.

    Parameters
    ----------
    input : Tensor
        Matrices, ``(*, n, n)``.

    Returns
    -------
    Tensor
        The determinants, ``(*)``.

    Examples
    --------
    >>> adjoint.det(adjoint.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    return linalg.det(input)


def logdet(input: Tensor) -> Tensor:
    """Compute the logarithms of determinants, without overflow.

    Parameters
    ----------
    input : Tensor
        Matrices, ``(*, n, n)``.

    Returns
    -------
    Tensor
        ``log(det(input))``, ``(*)``: ``-inf`` for a determinant of zero, NaN for a negative one.

    Examples
    --------
    >>> adjoint.logdet(adjoint.eye(3) * 1e20)
    tensor(138.1551)
    """
    check_square(input, "linalg.slogdet")
    sign, size = linalg.slogdet_p(input)
    if input.array.dtype.kind == "c":
        logarithm: Tensor = sign.log() + size
        return logarithm
    return where_p(sign == -1, float("nan"), size)


def slogdet(input: Tensor) -> Any:
    """Compute the sign of the determinant and the logarithm of its size.

    Parameters
    ----------
    input : Tensor
        Square matrices, (..., n, n).

    Returns
    -------
    namedtuple of Tensor
        (sign, logabsdet) with ``det = sign * exp(logabsdet)``.

    Examples
    --------
    >>> adjoint.slogdet(adjoint.tensor([[0.0, 1.0], [1.0, 0.0]]))
    adjoint.return_types.slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    return return_types.slogdet(linalg.slogdet(input))


def matrix_power(input: Tensor, n: int, *, out: Out = None) -> Tensor:
    """Multiply square matrices by themselves `n` times.

    Parameters
    ----------
    input : Tensor
        Square matrices, (..., n, n).
    n : int
        Power; a negative one inverts the matrices first.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.matrix_power(adjoint.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    return matrix_functions.matrix_power(input, n, out=out)


def matrix_exp(input: Tensor) -> Tensor:
    """Compute the exponential of square matrices.

    ``sum_k input^k / k!``

    Parameters
    ----------
    input : Tensor
        Square matrices, (..., n, n).

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.matrix_exp(adjoint.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return matrix_functions.matrix_exp(input)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of each number of a vector, descending unless `increasing`.

    Parameters
    ----------
    x : Tensor
        Numbers, (n,).
    N : int, optional
        Number of powers; n by default.
    increasing : bool, default False
        Whether powers ascend.

    Returns
    -------
    Tensor
        (n, N).

    Examples
    --------
    >>> adjoint.vander(adjoint.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """
    if x.array.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.array.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    if n == 0:
        return x.new_zeros((x.array.shape[0], 0))
    powers = matrix_functions.vander(x, N=n)
    return powers if increasing else powers.flip(1)


# --- Factorizations -------------------------------------------------------------------------------


def cholesky(input: Tensor, upper: bool = False, *, out: Out = None) -> Tensor:
    """Factor positive-definite matrices into ``L @ L.mH``; `linalg.cholesky` is the newer form.

    Parameters
    ----------
    input : Tensor
        Symmetric or Hermitian positive-definite matrices, ``(*, n, n)``.
    upper : bool, default False
        Return the upper factor ``U = L.mH`` instead of the lower one.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The triangular factors, ``(*, n, n)``.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite.

    Examples
    --------
    >>> adjoint.cholesky(adjoint.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return fold(decomposition.cholesky(input, upper=upper, out=out), "CholeskyBackward0", input, upper=upper)


def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False, *, out: Out = None) -> Tensor:
    """Solve ``A @ X = B``, given the Cholesky factor of A.

    Parameters
    ----------
    input : Tensor
        The right-hand sides B, ``(*, n, k)``.
    input2 : Tensor
        The factors of A, ``(*, n, n)``, as `linalg.cholesky` returns them.
    upper : bool, default False
        Whether the factors are upper triangles, ``A = U.mH @ U``, and not lower ones, ``A = L @ L.mH``.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The solutions X, ``(*, n, k)``.

    Examples
    --------
    >>> L = adjoint.linalg.cholesky(adjoint.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> adjoint.cholesky_solve(adjoint.tensor([[6.0], [7.0]]), L)
    tensor([[1.],
            [1.]])
    """
    for name, x in (("b", input), ("u", input2)):
        if x.array.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {x.array.ndim} dimensions instead")
    check_square(input2, "cholesky_solve", "A")
    check_matrices(input, "cholesky_solve", "B")
    if input.array.shape[-2] != input2.array.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {input2.array.shape[-1]} by "
            f"{input2.array.shape[-1]} but each b matrix is {input.array.shape[-2]} by {input.array.shape[-1]}"
        )
    return into(out, decomposition.cholesky_solve_p(input, input2, upper))


def cholesky_inverse(input: Tensor, upper: bool = False, *, out: Out = None) -> Tensor:
    """Invert matrices from their Cholesky factors.

    Parameters
    ----------
    input : Tensor
        Cholesky factors, triangular, (..., n, n).
    upper : bool, default False
        Whether the factors are upper triangles.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Inverse of ``input @ input.mH``, or of ``input.mH @ input`` for upper triangles.

    Examples
    --------
    >>> factor = adjoint.linalg.cholesky(adjoint.tensor([[4.0, 0.0], [0.0, 16.0]]))
    >>> adjoint.cholesky_inverse(factor).diag()
    tensor([0.2500, 0.0625])
    """
    check_square(input, "cholesky_inverse", "A")
    n = input.array.shape[-1]
    found = cholesky_solve(expand_p(eye_like(input, n), tuple(input.array.shape)), input, upper)
    return into(out, fold(found, "CholeskyInverseBackward0", input, upper=upper))


def qr(input: Tensor, some: bool = True, *, out: Out = None) -> Any:
    """Factor matrices into orthonormal columns and an upper triangle.

    See ``linalg.qr``.

    Parameters
    ----------
    input : Tensor
        Matrices, (..., m, n).
    some : bool, default True
        Whether Q has ``min(m, n)`` columns; otherwise it is square.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (Q, R).

    Examples
    --------
    >>> A = adjoint.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> Q, R = adjoint.qr(A)
    >>> adjoint.allclose(Q @ R, A)
    True
    """
    return outs(return_types.qr, decomposition.qr(input, "reduced" if some else "complete"), out)


def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Out = None) -> Any:
    """Factor matrices into ``U @ diag(S) @ V.mH``.

    By an older convention: V rather than its conjugate transpose. See ``linalg.svd``.

    Parameters
    ----------
    input : Tensor
        Matrices, (..., m, n).
    some : bool, default True
        Whether U and V have ``min(m, n)`` columns; otherwise they are square.
    compute_uv : bool, default True
        Whether to compute U and V; otherwise they are zeros.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (U, S, V), S descending.

    Examples
    --------
    >>> U, S, V = adjoint.svd(adjoint.tensor([[0.0, 2.0], [3.0, 0.0]]))
    >>> S
    tensor([3., 2.])
    >>> adjoint.allclose(U @ adjoint.diag(S) @ V.mH, adjoint.tensor([[0.0, 2.0], [3.0, 0.0]]))
    True
    """
    check_matrices(input, "linalg.svd")
    if not compute_uv:
        m, n = input.array.shape[-2:]
        a = input.array
        xp = module_of(a)
        u, v = (finish(literal(xp.zeros((*a.shape[:-2], k, k), a.dtype))) for k in (m, n))
        return outs(return_types.svd, (u, eigenvalues.svdvals(input), v), out)
    u, s, vh = eigenvalues.svd_p(input, not some)
    return outs(return_types.svd, (u, s, mH(vh)), out)


def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Out = None,
) -> Any:
    """Solve ``A @ X = b`` with a triangular A, or with its transpose.

    See ``linalg.solve_triangular``.

    Parameters
    ----------
    input : Tensor
        Right-hand sides b, (..., n, k).
    A : Tensor
        Triangular matrices, (..., n, n).
    upper : bool, default True
        Whether A is an upper triangle.
    transpose : bool, default False
        Whether to take the transpose of A.
    unitriangular : bool, default False
        Whether the diagonal counts as ones.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (solution, cloned_coefficient): X and A.

    Examples
    --------
    >>> A = adjoint.tensor([[2.0, 1.0], [0.0, 4.0]])
    >>> adjoint.triangular_solve(adjoint.tensor([[4.0], [8.0]]), A).solution
    tensor([[1.],
            [2.]])
    """
    check_square(A, "triangular_solve")
    check_matrices(input, "triangular_solve", "b")
    if input.array.shape[-2] != A.array.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {A.array.shape[-1]} by "
            f"{A.array.shape[-1]} but each b matrix is {input.array.shape[-2]} by {input.array.shape[-1]}"
        )
    solution = solve_triangular_p(mT(A) if transpose else A, input, upper != transpose, unitriangular)
    lead = tuple(solution.array.shape[:-2])
    cloned = expand_p(A, (*lead, *A.array.shape[-2:])).clone()
    return outs(return_types.triangular_solve, (solution, cloned), out)


@autocasting
def orgqr(input: Tensor, input2: Tensor, *, out: Out = None) -> Tensor:
    """Multiply Householder reflections; ``linalg.householder_product`` by an older name.

    Parameters
    ----------
    input : Tensor
        Vectors of the reflections, as of `geqrf`.
    input2 : Tensor
        Their factors.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        The first columns of Q.

    Examples
    --------
    >>> A = adjoint.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> Q = adjoint.orgqr(*adjoint.geqrf(A))
    >>> adjoint.allclose(Q.T @ Q, adjoint.eye(2), atol=1e-6)
    True
    """
    return decomposition.householder_product(input, input2, out=out)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Out = None) -> Any:
    """Factor matrices into L and U, packed into one, and pivots; see ``linalg.lu_factor``.

    Parameters
    ----------
    A : Tensor
        Matrices, (..., m, n).
    pivot : bool, default True
        Whether to exchange rows; False needs a GPU.
    get_infos : bool, default False
        Whether to return info too, 0 or the order of the first zero pivot.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    tuple of Tensor
        (LU, pivots), or (LU, pivots, info).

    Examples
    --------
    >>> A = adjoint.tensor([[1.0, 2.0], [2.0, 8.0]])
    >>> LU, pivots = A.lu()
    >>> LU
    tensor([[ 2.0000,  8.0000],
            [ 0.5000, -2.0000]])
    """
    found = decomposition.lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    if not get_infos:
        found = tuple(found[:2])
    return found if out is None else tuple(map(into, out, found))


@autocasting
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Out = None) -> Tensor:
    """Solve ``A @ X = b`` from the LU factorization of A.

    Parameters
    ----------
    input : Tensor
        Right-hand sides, (..., n, k).
    LU_data : Tensor
        Factors as of ``linalg.lu_factor``.
    LU_pivots : Tensor
        Their pivots.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        X, of the shape of `input`.

    Examples
    --------
    >>> A = adjoint.tensor([[1.0, 2.0], [2.0, 8.0]])
    >>> adjoint.lu_solve(adjoint.tensor([[3.0], [10.0]]), *adjoint.linalg.lu_factor(A))
    tensor([[1.],
            [1.]])
    """
    if input.array.ndim < 2:
        raise RuntimeError(f"b should have at least 2 dimensions, but has {input.array.ndim} dimensions instead")
    return fold(decomposition.lu_solve(LU_data, LU_pivots, input, out=out), "LinalgLuSolveBackward0", LU_data, input)


# --- The largest few eigenvalues or singular values --------------------------------------------------


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None,
) -> tuple[Tensor, Any, Tensor]:  # fmt: skip
    """Find the first `q` singular values and vectors of large matrices, by a random projection.

    Parameters
    ----------
    A : Tensor
        Matrices, (..., m, n).
    q : int, default 6
        Number of singular values; more than wanted gives better ones.
    niter : int, default 2
        Number of power iterations.
    M : Tensor, optional
        Subtracted from `A` first.

    Returns
    -------
    tuple of Tensor
        (U, S, V): (..., m, q), (..., q) and (..., n, q).

    Examples
    --------
    >>> A = adjoint.outer(adjoint.arange(1.0, 5.0), adjoint.ones(3))
    >>> U, S, V = adjoint.svd_lowrank(A, q=1)
    >>> adjoint.allclose(U * S @ V.T, A, atol=1e-5)
    True
    """
    from .random import randn

    q, niter = 6 if q is None else q, 2 if niter is None else niter
    B = A if M is None else A - M
    m, n = B.array.shape[-2:]
    tall = m >= n
    C = B if tall else mH(B)
    probe = randn(C.array.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = decomposition.qr(matmul(C, probe)).Q
    for _ in range(niter):
        Q = decomposition.qr(matmul(mH(C), Q)).Q
        Q = decomposition.qr(matmul(C, Q)).Q
    U, S, Vh = eigenvalues.svd_p(matmul(mH(Q), C), False)
    U = matmul(Q, U)
    return (U, S, mH(Vh)) if tall else (mH(Vh), S, U)


def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None,
    iK: Tensor | None = None, niter: int | None = None, tol: float | None = None, largest: bool | None = None,
    method: str | None = None, tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Compute the `k` largest (or smallest) eigenvalues and their vectors of a symmetric positive-definite problem.

    All of them are computed and most dropped: exact, and fast enough for matrices that fit into memory.
    """
    check_square(A, "lobpcg")
    rows = A.array.shape[-1]
    if method in (None, "ortho") and rows < 3 * (k or 1):
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller than 3 x the number "
            f"of requested eigenpairs (={k or 1})"
        )
    count = n if n is not None else k if k is not None else X.array.shape[-1] if X is not None else 1
    factor = None if B is None else decomposition.cholesky(B)
    if factor is not None:
        half = solve_triangular_p(factor, A, False, False)
        A = solve_triangular_p(factor, mH(half), False, False)
    values, vectors = eigenvalues.eigh_p(A, "L")
    if factor is not None:
        vectors = solve_triangular_p(mH(factor), vectors, True, False)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :count], vectors[..., :count]


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Any, Tensor]:
    """Find the first `q` principal directions of the rows of a matrix.

    Parameters
    ----------
    A : Tensor
        Rows of observations, (..., m, n).
    q : int, optional
        Number of directions; by default ``min(6, m, n)``.
    center : bool, default True
        Whether to subtract the mean of the rows.
    niter : int, default 2
        Number of power iterations.

    Returns
    -------
    tuple of Tensor
        (U, S, V): the columns of V are the directions, ``A @ V`` the coordinates.

    Examples
    --------
    >>> A = adjoint.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> U, S, V = adjoint.pca_lowrank(A, q=1)
    >>> V.abs()
    tensor([[0.7071],
            [0.7071]])
    """
    m, n = A.array.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)
