"""Singular values and eigenvalues of matrices, as in ``adjoint.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import return_types
from .._typing import Array, DType, Inputs, Out, Params, Tangents, Tensor, Value
from ..core.device import linalg_of as algebra
from ..core.device import module_of
from ..core.dtypes import of
from ..core.recorders import parametric
from ..errors import LinAlgError
from .arguments import dtype_of
from .create import into
from .degeneracy import check_phase, differences, reciprocals, undefined, unless_unused, within
from .linalg import (
    check_matrices,
    check_square,
    column,
    diagonal_matrix,
    diagonal_of,
    first_of,
    mH,
    outs,
    row,
    solve_p,
)
from .measure import conjugate, real_part
from .piecewise import where_p
from .reduce import sum_p
from .shape import cast_p

__all__: list[str] = []


# --- Singular values ------------------------------------------------------------------------------


def _svd(x: Value, full: bool) -> tuple[Array, Array, Array] | tuple[Any, Any, Any]:
    xp = module_of(x)
    if x.size == 0:
        m, n = x.shape[-2:]
        k = min(m, n)
        lead = x.shape[:-2]
        real = of(x.dtype).to_real().np
        left = xp.broadcast_to(xp.eye(m, m if full else k, dtype=x.dtype), (*lead, m, m if full else k)).copy()
        right = xp.broadcast_to(xp.eye(n if full else k, n, dtype=x.dtype), (*lead, n if full else k, n)).copy()
        return left, xp.zeros((*lead, k), real), right
    try:
        u, s, v = algebra(x).svd(x, full_matrices=full)
    except np.linalg.LinAlgError:
        raise _not_converged("svd", x) from None
    if not bool(xp.isfinite(s).all()) and not bool(xp.isfinite(x).all()):
        raise _not_converged("svd", x)
    return u, s, v


def _not_converged(name: str, x: Value) -> LinAlgError:
    if not bool(np.isfinite(x).all()):
        return LinAlgError(
            f"linalg.{name}: The algorithm failed to converge because the input matrix contained non-finite values."
        )
    return LinAlgError(
        f"linalg.{name}: The algorithm failed to converge because the input matrix is ill-conditioned or "
        "has too "
        "many repeated singular values."
    )


def _skew(x: Value) -> Any:
    return x - mH(x)


def _svd_x(g: Sequence[Value | None], out: tuple[Value, ...]) -> Any:
    (gu, gs, gv), (u, s, v) = g, out
    k = s.shape[-1]
    m, n = u.shape[-2], v.shape[-1]
    u, v = first_of(u, -1, k), first_of(v, -2, k)
    if gu is None and gv is None:
        return None if gs is None else (u * row(gs)) @ v
    inner: Any = None if gs is None else diagonal_matrix(gs)
    inverse, equal = differences(s)
    inverse = inverse / where_p(equal, 1, row(s) + column(s))  # of squares
    turn_u = turn_v = result = None
    if gu is not None:
        gu = first_of(gu, -1, k)
        turn_u = mH(u) @ gu
        inner = _plus(inner, (_skew(turn_u) * inverse) * row(s))
        if m > k:
            result = ((gu - u @ turn_u) * row(_reciprocal(s, gu, gs, axis=-2))) @ v
    if gv is not None:
        gv = first_of(gv, -2, k)
        turn_v = v @ mH(gv)
        inner = _plus(inner, column(s) * (_skew(turn_v) * inverse))
        if n > k:
            beside = gv - mH(turn_v) @ v
            result = _plus(result, u @ (column(_reciprocal(s, gv, gs, axis=-1)) * beside))
    turn = _plus(turn_u, turn_v)
    if _is_complex(u):
        check_phase(turn, "svd", "phase term, making it")
    if turn_u is not None and turn_v is not None:
        # The rotation from one side's basis to the other's does not depend on their choice.
        apart = _skew(turn_u) - _skew(turn_v)
        inner = inner + where_p(equal, apart * row(_reciprocal(s, apart, axis=-2)) / 4, 0)
    inner = inner + within(equal, turn, _skew(turn), gs)
    return _plus(result, u @ inner @ v)


def _reciprocal(s: Value, gradient: Value, slopes: Value | None = None, *, axis: int) -> Value:
    """Return 1 over singular values; NaN for a zero whose vector (along `axis`) or value has a gradient."""
    size = np.abs(gradient)
    used = sum_p(size, (size.ndim + axis,), False) != 0
    return reciprocals(s, used if slopes is None else used | (slopes != 0))


def _plus(a: Value | None, b: Value | None) -> Any:
    return b if a is None else a if b is None else a + b


def _is_complex(x: Value) -> bool:
    return bool(dtype_of(x).kind == "c")


svd_p: Any = parametric(_svd, x=_svd_x, outputs=True, batch="same", name="svd", node_name="LinalgSvdBackward0")


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Out = None) -> Any:
    """Factor matrices into ``U @ diag(S) @ Vh``: the singular value decomposition.

    Parameters
    ----------
    A : Tensor
        Matrices, ``(*, m, n)``. Let ``k = min(m, n)``.
    full_matrices : bool, default True
        Whether `U` and `Vh` are square. Without the columns that this adds the call is cheaper.
    driver : str, optional
        Accepted for CUDA only, as in torch.
    out : tuple of Tensor, optional
        Tensors to write the results into.

    Returns
    -------
    (U, S, Vh) : named tuple of Tensor
        `U` has orthonormal columns, ``(*, m, k)``, or ``(*, m, m)`` if `full_matrices`. `S` has the singular values,
        real and descending, ``(*, k)``. `Vh` has orthonormal rows, ``(*, k, n)`` or ``(*, n, n)``.

    Notes
    -----
    Singular vectors are unique only up to sign (phase, if complex), and gradients through them are finite only
    where singular values differ. For values alone, `linalg.svdvals` always has a gradient.

    Examples
    --------
    >>> A = adjoint.tensor([[0.0, 3.0], [2.0, 0.0], [0.0, 0.0]])
    >>> U, S, Vh = adjoint.linalg.svd(A, full_matrices=False)
    >>> S
    tensor([3., 2.])
    >>> adjoint.allclose(U @ adjoint.diag(S) @ Vh, A)
    True
    """
    check_matrices(A, "linalg.svd")
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    return outs(return_types.linalg_svd, svd_p(A, full_matrices), out)


def _svdvals(x: Value) -> Any:
    if x.size == 0:
        return _svd(x, False)[1]
    try:
        return algebra(x).svd(x, compute_uv=False)
    except np.linalg.LinAlgError:
        raise _not_converged("svd", x) from None


svdvals_p = parametric(_svdvals, batch="same")


def svdvals(A: Tensor, *, driver: str | None = None, out: Out = None) -> Tensor:
    """Compute the singular values, descending.

    Parameters
    ----------
    A : Tensor
        Matrices, (..., m, n).
    driver : str, optional
        Ignored, accepted for compatibility.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real, (..., min(m, n)), descending.

    Examples
    --------
    >>> adjoint.linalg.svdvals(adjoint.tensor([[0.0, 2.0], [3.0, 0.0]]))
    tensor([3., 2.])
    """
    check_matrices(A, "linalg.svdvals")
    from ..core import modes

    values = svdvals_p(A) if A.node is None and not modes.unusual else svd_p(A, False)[1]
    return into(out, values)


# --- Eigenvalues ----------------------------------------------------------------------------------


def _eigh(x: Value, uplo: str) -> tuple[Array, Array] | tuple[Any, Any]:
    xp = module_of(x)
    try:
        values, vectors = algebra(x).eigh(x, uplo)
    except np.linalg.LinAlgError:
        if bool(xp.isfinite(x).all()):
            raise LinAlgError(
                "linalg.eigh: The algorithm failed to converge because the input matrix is "
                "ill-conditioned or has "
                "too many repeated eigenvalues."
            ) from None
        return xp.full(x.shape[:-1], xp.nan, of(x.dtype).to_real().np), xp.full(x.shape, xp.nan, x.dtype)
    return values, vectors


def _eigh_x(g: Sequence[Value | None], out: tuple[Value, ...]) -> Any:
    (gw, gv), (w, v) = g, out
    if gv is None:
        return None if gw is None else (v * row(gw)) @ mH(v)
    inverse, equal = differences(w)
    turn = mH(v) @ gv
    if _is_complex(v):
        check_phase(turn, "linalg_eigh")
    skew = _skew(turn)
    inner = skew * (inverse / 2) + within(equal, turn, skew, gw)
    if gw is not None:
        inner = inner + diagonal_matrix(gw)
    return v @ inner @ mH(v)


def _eigh_tangent(tangents: Tangents, inputs: Inputs, out: tuple[Value, ...], params: Params) -> tuple[Value, Any]:
    w, v = out
    inner = mH(v) @ tangents[0] @ v
    inverse, equal = differences(w)
    return real_part(diagonal_of(inner)), v @ (inner * inverse + undefined(equal, inner))


eigh_p: Any = parametric(
    _eigh,
    x=_eigh_x,
    outputs=True,
    jvp=_eigh_tangent,
    batch="same",
    name="eigh",
    node_name="LinalgEighBackward0",
)


def eigh(input: Tensor, UPLO: str = "L", *, out: Out = None) -> Any:
    """Compute eigenvalues and orthonormal eigenvectors of symmetric or Hermitian matrices.

    Parameters
    ----------
    input : Tensor
        Matrices, ``(*, n, n)``; only one triangle is read.
    UPLO : {"L", "U"}, default "L"
        Which triangle: the lower or the upper.
    out : tuple of Tensor, optional
        Tensors to write the results into.

    Returns
    -------
    (eigenvalues, eigenvectors) : named tuple of Tensor
        Real eigenvalues in ascending order, ``(*, n)``, and eigenvectors as columns, ``(*, n, n)``:
        ``input = Q @ diag(eigenvalues) @ Q.mH``.

    Notes
    -----
    Eigenvectors are unique only up to sign (phase, if complex), and gradients through them are finite only where
    eigenvalues differ.

    Examples
    --------
    >>> A = adjoint.tensor([[2.0, 1.0], [1.0, 2.0]])
    >>> eigenvalues, Q = adjoint.linalg.eigh(A)
    >>> eigenvalues
    tensor([1., 3.])
    >>> adjoint.allclose(Q @ adjoint.diag(eigenvalues) @ Q.mH, A, atol=1e-6)
    True
    """
    check_square(input, "linalg.eigh")
    return outs(return_types.linalg_eigh, eigh_p(input, _triangle_name(UPLO)), out)


def _triangle_name(uplo: str) -> str:
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return uplo.upper()


def eigvalsh(input: Tensor, UPLO: str = "L", *, out: Out = None) -> Tensor:
    """Compute the eigenvalues of symmetric or Hermitian matrices.

    Parameters
    ----------
    input : Tensor
        Matrices, ``(*, n, n)``; only one triangle is read.
    UPLO : {"L", "U"}, default "L"
        Which triangle: the lower or the upper.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        Real eigenvalues in ascending order, ``(*, n)``.

    Examples
    --------
    >>> adjoint.linalg.eigvalsh(adjoint.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    check_square(input, "linalg.eigvalsh")
    return into(out, eigh_p(input, _triangle_name(UPLO))[0])


def _eig(x: Value) -> tuple[Array, Array] | tuple[Any, Any]:
    if not bool(np.isfinite(x).all()):
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    wide = of(x.dtype).to_complex().np
    if x.size == 0:
        xp = module_of(x)
        return xp.zeros(x.shape[:-1], wide), xp.zeros(x.shape, wide)
    try:
        values, vectors = algebra(x).eig(x)
    except np.linalg.LinAlgError:
        raise _not_converged("eig", x) from None
    return values.astype(wide), vectors.astype(wide)


def _eig_x(g: Sequence[Value | None], out: tuple[Value, ...], x_dtype: DType) -> Value | None:
    (gw, gv), (w, v) = g, out
    if gw is None and gv is None:
        return None
    inner = None if gw is None else diagonal_matrix(gw)
    if gv is not None:
        turn = mH(v) @ gv
        check_phase(turn, "linalg_eig")
        inverse, equal = differences(w)
        length = real_part(diagonal_of(turn))
        inner = _plus(inner, (turn - (mH(v) @ v) * row(length)) * conjugate(inverse) + unless_unused(equal, gv, gw))
    result = solve_p(mH(v), inner @ mH(v), True)
    return result if x_dtype.kind == "c" else cast_p(result, x_dtype)


eig_p: Any = parametric(_eig, x=_eig_x, outputs=True, batch="same", name="eig", node_name="LinalgEigBackward0")


def eig(input: Tensor, *, out: Out = None) -> Any:
    """Compute eigenvalues and eigenvectors of square matrices.

    Parameters
    ----------
    input : Tensor
        Matrices, ``(*, n, n)``.
    out : tuple of Tensor, optional
        Tensors to write the results into.

    Returns
    -------
    (eigenvalues, eigenvectors) : named tuple of Tensor
        Complex eigenvalues in no particular order, ``(*, n)``, and complex eigenvectors of length 1 as columns,
        ``(*, n, n)``: ``input @ V = V @ diag(eigenvalues)``.

    Notes
    -----
    Eigenvectors are unique only up to a phase, and gradients through them are finite only where eigenvalues differ.
    Use `linalg.eigh` for symmetric matrices: it is faster and stays real.

    Examples
    --------
    >>> A = adjoint.tensor([[0.0, 1.0], [-1.0, 0.0]])
    >>> eigenvalues, V = adjoint.linalg.eig(A)
    >>> eigenvalues.imag.sort().values
    tensor([-1.,  1.])
    >>> adjoint.allclose(A.cfloat() @ V, V * eigenvalues)
    True
    """
    check_square(input, "linalg.eig")
    return outs(return_types.linalg_eig, eig_p(input), out)


def eigvals(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the eigenvalues of square matrices, complex.

    Parameters
    ----------
    input : Tensor
        Square matrices, (..., n, n).
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex, (..., n), in no particular order.

    Examples
    --------
    >>> adjoint.linalg.eigvals(adjoint.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    check_square(input, "linalg.eigvals")
    return into(out, eig_p(input)[0])
