"""Systems of equations, inverses and determinants, as in ``adjoint.linalg``.

Every op takes batches: matrices are the last two dims. A rule of a complex-analytic op uses plain
transposes; the others say where they conjugate (see `Op.variant`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import return_types
from .._typing import Array, Inputs, Module, Out, Params, Shape, Tangents, Tensor, Value
from ..core import modes
from ..core.device import linalg_of as algebra
from ..core.device import module_of
from ..core.dtypes import of
from ..core.failures import not_implemented
from ..core.observation import literal
from ..core.recorders import Primitive, nary, parametric
from ..errors import LinAlgError
from .arguments import dtype_of, require_tensor
from .arrange import tril_p, triu_p
from .contraction import with_rank
from .create import finish, into
from .measure import conjugate, real_part
from .parts import diagonal_p, undiagonal_p
from .precision import autocasting
from .reduce import part, sum_p, title_of
from .shape import reshape_p, sum_to_p

__all__: list[str] = []  # `adjoint.linalg` names what it shows; torch's own namespace has other signatures

# --- What matrices share ------------------------------------------------------------------------------------


def mT(x: Value) -> Any:
    """Return the transposes of matrices of any kind."""
    return x.swapaxes(-1, -2)


def mH(x: Value) -> Any:
    """Return the conjugate transposes of matrices of any kind."""
    return conjugate(x.swapaxes(-1, -2))


def diagonal_of(x: Value) -> Value:
    """Return the diagonals of matrices."""
    return diagonal_p(x, 0, x.ndim - 2, x.ndim - 1)


def diagonal_matrix(x: Value) -> Value:
    """Return matrices of zeros with `x` on their diagonals."""
    return undiagonal_p(x, (*x.shape, x.shape[-1]), 0, x.ndim - 1, x.ndim)


def column(x: Value) -> Any:
    """Return vectors as matrices of one column."""
    return reshape_p(x, (*x.shape, 1))


def row(x: Value) -> Any:
    """Return vectors as matrices of one row."""
    return reshape_p(x, (*x.shape[:-1], 1, x.shape[-1]))


def first_of(x: Value, axis: int, count: int) -> Value:
    """Return the first rows (axis -2) or columns (axis -1) of matrices; themselves if they have no more."""
    return x if x.shape[axis] == count else part(x, x.ndim + axis, 0, count)


def tied(x: Tensor, source: Tensor) -> Tensor:
    """Return `x`, a constant, as something that depends on `source`, with a gradient of zeros."""
    return x + sum_p(part(source, 0, 0, 0), tuple(range(source.array.ndim)), False)


def eye_like(x: Tensor, n: int, m: int | None = None) -> Tensor:
    """Return an identity matrix of the dtype and on the device of `x`."""
    a = x.array
    return finish(literal(module_of(a).eye(n, m, dtype=a.dtype)))


# Functions whose kernels say which dtypes they take.
_KERNELS = {
    "cholesky_inverse": "cholesky_inverse_out_cpu", "linalg.lu": "lu_cpu", "torch.geqrf": "geqrf_cpu",
    "torch.linalg.lu_factor": "lu_cpu", "torch.lu_factor": "lu_cpu",
}  # fmt: skip


def check_floating(x: Tensor, name: str, low: bool = False) -> None:
    """Raise unless `x` holds floating or complex numbers that LAPACK computes with."""
    d = x.array.dtype
    if of(d).category < 2:
        kernel = _KERNELS.get(name)
        if kernel is not None:
            raise not_implemented(kernel, x.array)
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {title_of(d)}; convert with .float()"
        )
    if d.itemsize == 2 and not low and modes.local.autocast is None:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {title_of(d)}; convert with .float()")


def check_matrices(x: Tensor, name: str, letter: str = "A", low: bool = False) -> None:
    """Raise unless `x` is a matrix or a batch of them."""
    require_tensor(x, letter, name)
    if x.array.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {letter} must have at least 2 dimensions. Its shape is {list(x.array.shape)}"
        )
    check_floating(x, name, low)


def check_square(x: Tensor, name: str, letter: str = "A", low: bool = False) -> None:
    """Raise unless `x` is a square matrix or a batch of them."""
    check_matrices(x, name, letter, low)
    m, n = x.array.shape[-2:]
    if m != n:
        raise RuntimeError(f"{name}: {letter} must be batches of square matrices, but they are {m} by {n} matrices")


def check_same_dtype(a: Tensor, b: Tensor, name: str) -> None:
    """Raise unless both have one dtype."""
    if a.array.dtype != b.array.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type "
            f"{title_of(a.array.dtype)} and B "
            f"of type {title_of(b.array.dtype)} instead"
        )


def outs(result: Any, found: tuple[Any, ...], out: Any) -> Any:
    """Return several results under their names, put into ``out=`` if that is given."""
    return result(found if out is None else tuple(into(o, f) for o, f in zip(out, found)))


# --- LU, which also reports what is wrong with a matrix -------------------------------------------


def lu_of(x: Any) -> tuple[Any, Any, Any]:
    """Return L and U packed together, 1-based pivots, and where U's diagonal first has a zero (or 0)."""
    xp = module_of(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    lead = x.shape[:-2]
    packed = xp.array(x).reshape((math.prod(lead), m, n))
    pivots = xp.zeros((packed.shape[0], k), np.int32)
    getrf = _getrf(packed) if xp is np and m and n else None
    if getrf is not None:
        for i, matrix in enumerate(packed):
            lu, piv, _ = getrf(matrix)
            packed[i], pivots[i] = lu, piv + 1
    else:
        _eliminate(xp, packed, pivots, k)
    diagonal = packed.diagonal(0, 1, 2)[:, :k]
    zero = diagonal == 0
    info = (
        xp.where(zero.any(axis=1), zero.argmax(axis=1) + 1, 0).astype(np.int32)
        if k
        else xp.zeros(len(packed), np.int32)
    )
    return packed.reshape(x.shape), pivots.reshape((*lead, k)), info.reshape(lead)


def _getrf(x: Value) -> Any:
    try:
        from scipy.linalg.lapack import get_lapack_funcs
    except ImportError:
        return None
    return get_lapack_funcs(("getrf",), (x,))[0]


def _eliminate(xp: Module, packed: Any, pivots: Value, k: int) -> None:
    """Factor a stack of matrices in place, all of them column by column."""
    each = xp.arange(packed.shape[0])
    for j in range(k):
        pivot = j + np.abs(packed[:, j:, j]).argmax(axis=1)
        pivots[:, j] = pivot + 1
        swapped = packed[each, pivot].copy()
        packed[each, pivot] = packed[:, j]
        packed[:, j] = swapped
        head = packed[:, j, j]
        head = xp.where(head == 0, xp.ones_like(head), head)
        packed[:, j + 1 :, j] /= head[:, None]
        packed[:, j + 1 :, j + 1 :] -= packed[:, j + 1 :, j : j + 1] * packed[:, j : j + 1, j + 1 :]


def singular(x: Any, sentence: str) -> LinAlgError:
    """Return the error for the first singular matrix of a batch; `sentence` has {where} and {order}."""
    if x.dtype.kind == "c" or x.dtype.kind == "f":
        _, _, info = lu_of(x)
        flat = np.asarray(info.tolist() if hasattr(info, "tolist") else info).reshape(-1)
        bad = np.flatnonzero(flat)
        i = int(bad[0]) if bad.size else 0
        where = f"(Batch element {i}): " if x.ndim > 2 else ""
        return LinAlgError(sentence.format(where=where, order=int(flat[i]) if flat.size else 0))
    return LinAlgError(sentence.format(where="", order=0))


# --- Inverse and solution -------------------------------------------------------------------------


def _each(kernel: Any, a: Value, *rest: Any) -> Array:
    """Return a kernel's results matrix by matrix, NaN where it fails."""
    xp = module_of(a)
    lead = np.broadcast_shapes(a.shape[:-2], *(r.shape[:-2] for r in rest))
    parts = [xp.broadcast_to(v, (*lead, *v.shape[-2:])) for v in (a, *rest)]
    out = xp.full(parts[-1].shape, math.nan, a.dtype)
    for i in np.ndindex(lead):
        try:
            out[i] = kernel(*(p[i] for p in parts))
        except np.linalg.LinAlgError:
            continue
    return out


def _inv(x: Value, check: bool) -> Any:
    try:
        return algebra(x).inv(x)
    except np.linalg.LinAlgError:
        if not check:
            return _each(algebra(x).inv, x)
    raise singular(
        x,
        "linalg.inv: {where}The diagonal element {order} is zero, the inversion could not be completed "
        "because the "
        "input matrix is singular.",
    )


inv_p = parametric(
    _inv,
    x=lambda g, out: -(mT(out) @ g @ mT(out)),
    jvp=lambda tangents, inputs, out, params: -(out @ tangents[0] @ out),
    batch="same",
    holomorphic=True,
    node_name="LinalgInvExBackward0",
    saved={"out": "inverse"},
)


def inv(A: Tensor, *, out: Out = None) -> Tensor:
    """Invert square matrices.

    To apply an inverse, prefer `linalg.solve`: it is faster and more exact.

    Parameters
    ----------
    A : Tensor
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
    >>> adjoint.linalg.inv(adjoint.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square(A, "linalg.inv")
    return into(out, inv_p(A, True))


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Out = None) -> Any:
    """Invert square matrices, and tell where that failed instead of raising.

    Parameters
    ----------
    A : Tensor
        Square matrices, (..., n, n).
    check_errors : bool, default False
        Whether to raise for a singular matrix all the same.
    out : tuple of Tensor, optional
        Tensors to write both results to.

    Returns
    -------
    namedtuple of Tensor
        (inverse, info): info is 0, or the order of the first pivot that is zero.

    Examples
    --------
    >>> adjoint.linalg.inv_ex(adjoint.tensor([[2.0, 0.0], [0.0, 4.0]]))
    adjoint.return_types.linalg_inv_ex(
    inverse=tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]]),
    info=tensor(0, dtype=adjoint.int32))
    >>> adjoint.linalg.inv_ex(adjoint.zeros(2, 2)).info
    tensor(1, dtype=adjoint.int32)
    """
    check_square(A, "linalg.inv")
    return outs(return_types.linalg_inv_ex, (inv_p(A, check_errors), _info(A)), out)


def _info(A: Tensor) -> Tensor:
    return singular_p(A)


singular_p = parametric(lambda x: lu_of(x)[2], name="singular", batch="same")


_SINGULAR = "torch.linalg.solve: {where}The solver failed because the input matrix is singular."


def _solve(a: Value, b: Value, check: bool) -> Any:
    try:
        return algebra(a).solve(a, b)
    except np.linalg.LinAlgError:
        if not check:
            return _each(algebra(a).solve, a, b)
    raise singular(a, _SINGULAR)


def _solve_back(
    g: Value, a: Value, out: Value, a_shape: Shape, b_shape: Shape, check: bool, needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor]:  # fmt: skip
    gb = solve_p(mT(a), g, check)
    ga = sum_to_p(-(gb @ mT(out)), a_shape) if needs[0] else None
    return ga, sum_to_p(gb, b_shape)


def _solve_tangent(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    (ta, tb), (a, _) = tangents, inputs
    push = None if ta is None else -(ta @ out)
    push = tb if push is None else push if tb is None else tb + push
    return solve_p(a, push, *params)


def aligned(a: Value, b: Value) -> tuple[Any, Any]:
    """Return batched values with as many axes each, missing ones put after the batch axis."""
    rank = max(a.ndim, b.ndim)
    return with_rank(a, rank), with_rank(b, rank)


solve_p: Primitive = nary(
    _solve,
    inputs=2,
    joint=_solve_back,
    jvp=_solve_tangent,
    batch=lambda a, b, check: solve_p(*aligned(a, b), check),
    holomorphic=True,
    name="linalg_solve",
    node_name="LinalgSolveExBackward0",
    saved={"a": "A", "out": "result"},
)


@autocasting
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Out = None) -> Tensor:
    """Solve ``A @ X = B``, or ``X @ A = B`` where `left` is False.

    Parameters
    ----------
    A : Tensor
        Square matrices, ``(*, n, n)``.
    B : Tensor
        Matrices ``(*, n, k)``, or ``(*, k, n)`` where `left` is False; or vectors ``(*, n)``, if that is the shape of
        `A` less its last dimension.
    left : bool, default True
        On which side of X the matrix A stands.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The solutions X, of the shape of `B`.

    Raises
    ------
    LinAlgError
        If a matrix is singular.

    Examples
    --------
    >>> A = adjoint.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> adjoint.linalg.solve(A, adjoint.tensor([4.0, 7.0]))
    tensor([1., 2.])
    """
    return into(out, _solution(A, B, left, True))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Out = None) -> Any:
    """Solve systems of equations, and tell where that failed instead of raising.

    Parameters
    ----------
    A : Tensor
        Square matrices, (..., n, n).
    B : Tensor
        Right-hand sides, (..., n, k) or (..., n).
    left : bool, default True
        Whether to solve ``A @ X = B``; otherwise ``X @ A = B``.
    check_errors : bool, default False
        Whether to raise for a singular matrix all the same.
    out : tuple of Tensor, optional
        Tensors to write both results to.

    Returns
    -------
    namedtuple of Tensor
        (result, info): X, and 0 or the order of the first pivot that is zero.

    Examples
    --------
    >>> adjoint.linalg.solve_ex(adjoint.tensor([[2.0, 0.0], [0.0, 4.0]]), adjoint.tensor([2.0, 4.0]))
    adjoint.return_types.linalg_solve_ex(
    result=tensor([1., 1.]),
    info=tensor(0, dtype=adjoint.int32))
    """
    return outs(return_types.linalg_solve_ex, (_solution(A, B, left, check_errors), _info(A)), out)


def _solution(A: Tensor, B: Tensor, left: bool, check: bool) -> Tensor:
    check_square(A, "linalg.solve")
    require_tensor(B, "B", "linalg.solve")
    check_same_dtype(A, B, "linalg.solve")
    a, b = A.array, B.array
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
    if vector:
        B = column(B)
        if not left:
            raise RuntimeError(
                "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False."
            )
    rows = B.array.shape[-2] if left else B.array.shape[-1]
    if rows != a.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({a.shape[-2]}x{a.shape[-1]} and {B.array.shape[-2]}x{B.array.shape[-1]})"
        )
    x = solve_p(A, B, check) if left else mT(solve_p(mT(A), mT(B), check))
    return reshape_p(x, tuple(x.array.shape[:-1])) if vector else x


# --- Triangular systems ---------------------------------------------------------------------------


def _substitute(a: Value, b: Value, upper: bool, unit: bool) -> Any:
    """Solve a triangular system by blocks: what is known of the solution leaves the other equations."""
    xp = module_of(a)
    n = a.shape[-1]
    if n <= 32:
        return _substitute_block(xp, a, b, upper, unit)
    h = n // 2
    first, second = (slice(h, None), slice(None, h)) if upper else (slice(None, h), slice(h, None))
    known = _substitute(a[..., first, first], b[..., first, :], upper, unit)
    rest = b[..., second, :] - a[..., second, first] @ known
    found = _substitute(a[..., second, second], rest, upper, unit)
    return xp.concatenate((found, known) if upper else (known, found), axis=-2)


def _substitute_block(xp: Module, a: Value, b: Value, upper: bool, unit: bool) -> Any:
    n = a.shape[-1]
    a = xp.triu(a, 1 if unit else 0) if upper else xp.tril(a, -1 if unit else 0)
    if unit:
        a = a + xp.eye(n, dtype=a.dtype)
    try:
        return algebra(a).solve(a, b)
    except np.linalg.LinAlgError:
        pass  # a zero on the diagonal: divide by it, as LAPACK does
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = xp.array(xp.broadcast_to(b, (*lead, *b.shape[-2:])))
    for i in reversed(range(n)) if upper else range(n):
        x[..., i, :] /= a[..., i, i, None]
        others = slice(None, i) if upper else slice(i + 1, None)
        x[..., others, :] -= a[..., others, i, None] * x[..., i, None, :]
    return x


def tri_solve(a: Value, b: Value, upper: bool, unit: bool) -> Any:
    """Return the solution of triangular systems, of arrays."""
    if a.shape[-1] == 0 or b.size == 0:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return module_of(b).zeros((*lead, *b.shape[-2:]), b.dtype)
    return _substitute(a, b, upper, unit)


def triangle(x: Value, upper: bool, unit: bool = False) -> Any:
    """Return one triangle of matrices, without the diagonal if that is known to be 1."""
    return triu_p(x, 1 if unit else 0) if upper else tril_p(x, -1 if unit else 0)


def _tri_back(
    g: Value, a: Value, out: Value, a_shape: Shape, b_shape: Shape, upper: bool, unit: bool, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor]:
    gb = solve_triangular_p(mT(a), g, not upper, unit)
    ga = sum_to_p(triangle(-(gb @ mT(out)), upper, unit), a_shape) if needs[0] else None
    return ga, sum_to_p(gb, b_shape)


def _tri_tangent(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    (ta, tb), (a, _), (upper, unit) = tangents, inputs, params
    push = None if ta is None else -(triangle(ta, upper, unit) @ out)
    push = tb if push is None else push if tb is None else tb + push
    return solve_triangular_p(a, push, upper, unit)


solve_triangular_p: Primitive = nary(
    tri_solve,
    inputs=2,
    joint=_tri_back,
    jvp=_tri_tangent,
    batch=lambda a, b, upper, unit: solve_triangular_p(*aligned(a, b), upper, unit),
    holomorphic=True,
    name="solve_triangular",
    node_name="LinalgSolveTriangularBackward0",
    saved={"out": "result", "unit": "unitriangular"},
)


@autocasting
def solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Out = None
) -> Tensor:
    """Solve ``A @ X = B``, or ``X @ A = B``, where A is triangular.

    Parameters
    ----------
    input : Tensor
        The matrices A, ``(*, n, n)``; only the triangle that `upper` names is read.
    B : Tensor
        Matrices ``(*, n, k)``, or ``(*, k, n)`` where `left` is False.
    upper : bool
        Whether A is the upper triangle and not the lower one.
    left : bool, default True
        On which side of X the matrix A stands.
    unitriangular : bool, default False
        Whether to take the diagonal of A as ones, without reading it.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The solutions X, of the shape of `B` with leading dimensions broadcast.

    Examples
    --------
    >>> A = adjoint.tensor([[2.0, 0.0], [1.0, 4.0]])
    >>> adjoint.linalg.solve_triangular(A, adjoint.tensor([[2.0], [9.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    check_square(input, "linalg.solve_triangular")
    check_matrices(B, "linalg.solve_triangular", "B")
    check_same_dtype(input, B, "linalg.solve_triangular")
    a, b = input.array.shape, B.array.shape
    if a[-1] != (b[-2] if left else b[-1]):
        raise RuntimeError(
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} "
            f"({a[-2]}x{a[-1]} and {b[-2]}x{b[-1]})"
        )
    if left:
        return into(out, solve_triangular_p(input, B, upper, unitriangular))
    return into(out, mT(solve_triangular_p(mT(input), mT(B), not upper, unitriangular)))


# --- Determinants ---------------------------------------------------------------------------------


def _det(x: Value) -> Any:
    return algebra(x).det(x)


def _cofactors(x: Value) -> Any:
    """Return the derivatives of the determinant: also where that is 0, and there is no inverse."""
    xp = module_of(x)
    try:
        return algebra(x).det(x)[..., None, None] * mT(algebra(x).inv(x))
    except np.linalg.LinAlgError:
        u, s, v = algebra(x).svd(x)
        n = s.shape[-1]
        without = xp.where(xp.eye(n, dtype=bool), 1, s[..., None, :]).prod(axis=-1)  # of all but one
        turn = algebra(x).det(u) * algebra(x).det(v)
        return turn[..., None, None] * ((u.conj() * without[..., None, :]) @ v.conj())


def _cofactors_x(g: Value, x: Value, out: Value) -> Any:
    inverse = mT(inv_p(x, True))
    size = sum_p(g * inverse, (x.ndim - 2, x.ndim - 1), True)
    return size * out - inverse @ mT(g) @ out


cofactors_p = parametric(_cofactors, x=_cofactors_x, batch="same", holomorphic=True, node_name="LinalgDetBackward0")


def _spread_over(g: Value) -> Any:
    """Return one number per matrix so that it multiplies the whole of it."""
    return reshape_p(g, (*g.shape, 1, 1))


det_p = parametric(
    _det,
    x=lambda g, x: _spread_over(g) * cofactors_p(x),
    jvp=lambda tangents, inputs, out, params: (cofactors_p(inputs[0]) * tangents[0]).sum(axis=(-2, -1)),
    batch="same",
    holomorphic=True,
    node_name="LinalgDetBackward0",
)


def det(A: Tensor, *, out: Out = None) -> Tensor:
    """Compute the determinant.

    Parameters
    ----------
    A : Tensor
        Square matrices, (..., n, n).
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Determinants, (...).

    Raises
    ------
    RuntimeError
        If the matrices are not square.

    Examples
    --------
    >>> adjoint.linalg.det(adjoint.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_square(A, "linalg.det")
    return into(out, det_p(A))


def _slogdet(x: Value) -> tuple[Any, Any]:
    sign, size = algebra(x).slogdet(x)
    return sign, size


def _slogdet_x(g: Sequence[Value | None], x: Value, out: tuple[Value, ...]) -> Any:
    (g_sign, g_size), sign = g, out[0]
    weight = None
    if dtype_of(x).kind == "c" and g_sign is not None:
        turn = conjugate(g_sign) * sign
        weight = real_part(turn * -1j) * -1j
    if g_size is not None:
        weight = g_size if weight is None else g_size + weight
    if weight is None:
        return None
    return _spread_over(weight) * mH(inv_p(x, False))  # NaN of a singular matrix, and of no other


slogdet_p: Any = parametric(
    _slogdet, x=_slogdet_x, outputs=True, batch="same", name="slogdet", node_name="LinalgSlogdetBackward0"
)


def slogdet(A: Tensor, *, out: Out = None) -> Any:
    """Compute the sign of the determinant and the logarithm of its size.

    ``det = sign * exp(logabsdet)``, also where the determinant itself would overflow.

    Parameters
    ----------
    A : Tensor
        Square matrices, (..., n, n).
    out : tuple of Tensor, optional
        Tensors to write both results to.

    Returns
    -------
    namedtuple of Tensor
        (sign, logabsdet), each (...). Of singular matrices (0, -inf).

    Examples
    --------
    >>> sign, log = adjoint.linalg.slogdet(adjoint.tensor([[0.0, 2.0], [3.0, 0.0]]))
    >>> sign, sign * log.exp()
    (tensor(-1.), tensor(-6.))
    >>> adjoint.linalg.slogdet(10 * adjoint.eye(100))[1]
    tensor(230.2585)
    """
    check_square(A, "linalg.slogdet")
    return outs(return_types.linalg_slogdet, slogdet_p(A), out)
