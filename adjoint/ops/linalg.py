"""Systems of equations, determinants and functions of matrices, as in ``adjoint.linalg``.

Every op takes batches: matrices are the last two dims. A rule of a complex-analytic op uses plain
transposes; the others say where they conjugate (see `Op.variant`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import return_types
from .._typing import Tensor
from ..core import modes
from ..core.device import linalg_of as algebra
from ..core.device import module_of
from ..core.dtypes import of
from ..core.failures import not_implemented
from ..core.observation import literal, note_read
from ..core.payload import Payload
from ..core.recorders import Primitive, nary, parametric
from ..core.tensor import TensorBase
from ..errors import LinAlgError
from .arguments import count_of, dim_in, dtype_of, either, require_tensor
from .arrange import tril_p, triu_p
from .contraction import cross_along, matmul, multiply_chain, with_rank
from .create import finish, into
from .looping import looped_for
from .measure import conjugate, matrix_norm, real_part
from .parts import diagonal_p, undiagonal_p
from .precision import autocasting
from .reduce import part, sum_p, title_of, widened
from .scan import cumprod
from .shape import cast_p, expand_p, reshape_p, sum_to_p

__all__: list[str] = []  # `adjoint.linalg` names what it shows; torch's own namespace has other signatures

# --- What matrices share ------------------------------------------------------------------------------------


def mT(x: Any) -> Any:
    """Return the transposes of matrices of any kind."""
    return x.swapaxes(-1, -2)


def mH(x: Any) -> Any:
    """Return the conjugate transposes of matrices of any kind."""
    return conjugate(x.swapaxes(-1, -2))


def diagonal_of(x: Any) -> Any:
    """Return the diagonals of matrices."""
    return diagonal_p(x, 0, x.ndim - 2, x.ndim - 1)


def diagonal_matrix(x: Any) -> Any:
    """Return matrices of zeros with `x` on their diagonals."""
    return undiagonal_p(x, (*x.shape, x.shape[-1]), 0, x.ndim - 1, x.ndim)


def column(x: Any) -> Any:
    """Return vectors as matrices of one column."""
    return reshape_p(x, (*x.shape, 1))


def row(x: Any) -> Any:
    """Return vectors as matrices of one row."""
    return reshape_p(x, (*x.shape[:-1], 1, x.shape[-1]))


def first_of(x: Any, axis: int, count: int) -> Any:
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


# --- LU, which also tells what is wrong with a matrix ---------------------------------------------


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


def _getrf(x: Any) -> Any:
    try:
        from scipy.linalg.lapack import get_lapack_funcs
    except ImportError:
        return None
    return get_lapack_funcs(("getrf",), (x,))[0]


def _eliminate(xp: Any, packed: Any, pivots: Any, k: int) -> None:
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


def _each(kernel: Any, a: Any, *rest: Any) -> Any:
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


def _inv(x: Any, check: Any) -> Any:
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


def inv(A: Tensor, *, out: Any = None) -> Tensor:
    """Invert square matrices.

    Examples
    --------
    >>> adjoint.linalg.inv(adjoint.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square(A, "linalg.inv")
    return into(out, inv_p(A, True))


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """Invert square matrices, and tell where that failed instead of raising."""
    check_square(A, "linalg.inv")
    return outs(return_types.linalg_inv_ex, (inv_p(A, check_errors), _info(A)), out)


def _info(A: Tensor) -> Tensor:
    return singular_p(A)


singular_p = parametric(lambda x: lu_of(x)[2], name="singular", batch="same")


_SINGULAR = "torch.linalg.solve: {where}The solver failed because the input matrix is singular."


def _solve(a: Any, b: Any, check: Any) -> Any:
    try:
        return algebra(a).solve(a, b)
    except np.linalg.LinAlgError:
        if not check:
            return _each(algebra(a).solve, a, b)
    raise singular(a, _SINGULAR)


def _solve_back(g: Any, a: Any, out: Any, a_shape: Any, b_shape: Any, check: Any, needs: tuple[bool, bool]) -> Any:
    gb = solve_p(mT(a), g, check)
    ga = sum_to_p(-(gb @ mT(out)), a_shape) if needs[0] else None
    return ga, sum_to_p(gb, b_shape)


def _solve_tangent(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
    (ta, tb), (a, _) = tangents, inputs
    push = None if ta is None else -(ta @ out)
    push = tb if push is None else push if tb is None else tb + push
    return solve_p(a, push, *params)


def aligned(a: Any, b: Any) -> tuple[Any, Any]:
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
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Any = None) -> Tensor:
    """Solve ``A @ X = B``, or ``X @ A = B`` where `left` is False.

    `B` is a vector, or a batch of vectors, if its shape is that of `A` less the last dim.

    Examples
    --------
    >>> adjoint.linalg.solve(adjoint.tensor([[2.0, 0.0], [0.0, 4.0]]), adjoint.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return into(out, _solution(A, B, left, True))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """Solve systems of equations, and tell where that failed instead of raising."""
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


def _substitute(a: Any, b: Any, upper: Any, unit: Any) -> Any:
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


def _substitute_block(xp: Any, a: Any, b: Any, upper: bool, unit: bool) -> Any:
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


def tri_solve(a: Any, b: Any, upper: Any, unit: Any) -> Any:
    """Return the solution of triangular systems, of arrays."""
    if a.shape[-1] == 0 or b.size == 0:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return module_of(b).zeros((*lead, *b.shape[-2:]), b.dtype)
    return _substitute(a, b, upper, unit)


def triangle(x: Any, upper: bool, unit: bool = False) -> Any:
    """Return one triangle of matrices, without the diagonal if that is known to be 1."""
    return triu_p(x, 1 if unit else 0) if upper else tril_p(x, -1 if unit else 0)


def _tri_back(
    g: Any, a: Any, out: Any, a_shape: Any, b_shape: Any, upper: Any, unit: Any, needs: tuple[bool, bool]
) -> Any:
    gb = solve_triangular_p(mT(a), g, not upper, unit)
    ga = sum_to_p(triangle(-(gb @ mT(out)), upper, unit), a_shape) if needs[0] else None
    return ga, sum_to_p(gb, b_shape)


def _tri_tangent(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
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
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Any = None
) -> Tensor:
    """Solve ``A @ X = B`` (or ``X @ A = B``) where `A` is triangular; its other half is not looked at."""
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


def _det(x: Any) -> Any:
    return algebra(x).det(x)


def _cofactors(x: Any) -> Any:
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


def _cofactors_x(g: Any, x: Any, out: Any) -> Any:
    inverse = mT(inv_p(x, True))
    size = sum_p(g * inverse, (x.ndim - 2, x.ndim - 1), True)
    return size * out - inverse @ mT(g) @ out


cofactors_p = parametric(_cofactors, x=_cofactors_x, batch="same", holomorphic=True, node_name="LinalgDetBackward0")


def _spread_over(g: Any) -> Any:
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


def det(A: Tensor, *, out: Any = None) -> Tensor:
    """Compute the determinant.

    Examples
    --------
    >>> adjoint.linalg.det(adjoint.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_square(A, "linalg.det")
    return into(out, det_p(A))


def _slogdet(x: Any) -> Any:
    sign, size = algebra(x).slogdet(x)
    return sign, size


def _slogdet_x(g: Any, x: Any, out: Any) -> Any:
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


def slogdet(A: Tensor, *, out: Any = None) -> Any:
    """Compute the sign of the determinant and the logarithm of its size."""
    check_square(A, "linalg.slogdet")
    return outs(return_types.linalg_slogdet, slogdet_p(A), out)


# --- Functions of a matrix ------------------------------------------------------------------------

_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip


def _matrix_exp(x: Any) -> Any:
    """Return exponentials by a rational function of degree 13, of the matrix halved until it is small."""
    xp = module_of(x)
    n = x.shape[-1]
    a = x.reshape((-1, n, n))
    if a.size == 0:
        return x.copy()
    size = np.abs(a).sum(axis=1).max(axis=1)
    finite = xp.isfinite(size) & (size > 5.37)
    halvings = xp.where(finite, xp.ceil(xp.log2(xp.where(finite, size, 5.37) / 5.37)), 0).astype(np.int64)
    a = a / (2.0 ** halvings.astype(size.dtype))[:, None, None]
    one = xp.eye(n, dtype=a.dtype)
    b = [a.dtype.type(c) for c in _PADE]
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    out = algebra(x).solve(even - odd, even + odd)
    for step in range(int(halvings.max())):
        more = halvings > step
        out[more] = out[more] @ out[more]
    return out.reshape(x.shape).astype(x.dtype)


def _derivative_of_exp(x: Any, t: Any) -> Any:
    """Return the exponential's derivative in the direction `t`, as a block of a larger exponential."""
    n, rows, columns = x.shape[-1], x.ndim - 2, x.ndim - 1
    scale = size_p(t)  # linear in t, so that its size need not make the block matrix large
    t = t / scale
    upper = widened(widened(x, columns, 0, n, 0) + widened(t, columns, n, 0, 0), rows, 0, n, 0)
    lower = widened(widened(x, columns, n, 0, 0), rows, n, 0, 0)
    whole = matrix_exp_p(upper + lower)
    return part(part(whole, rows, 0, n), columns, n, n) * scale


def _size(x: Any) -> Any:
    """Return a power of 2 as large as the largest element of each matrix, 1 for zeros."""
    xp = module_of(x)
    size = np.abs(x)
    largest = size.max(axis=(-2, -1), keepdims=True) if x.size else xp.zeros((*x.shape[:-2], 1, 1), size.dtype)
    good = xp.isfinite(largest) & (largest > 0)
    return xp.where(good, 2.0 ** xp.ceil(xp.log2(xp.where(good, largest, 1))), 1).astype(largest.dtype)


size_p = parametric(_size, name="matrix_size", batch="same")


matrix_exp_p = parametric(
    _matrix_exp,
    x=lambda g, x: _derivative_of_exp(mT(x), g),
    jvp=lambda tangents, inputs, out, params: _derivative_of_exp(inputs[0], tangents[0]),
    batch="same",
    holomorphic=True,
    node_name="LinalgMatrixExpBackward0",
)


def matrix_exp(input: Tensor) -> Tensor:
    """Compute the exponential of square matrices."""
    check_square(input, "linalg.matrix_exp", low=True)
    if input.array.dtype.itemsize == 2:
        return cast_p(matrix_exp_p(cast_p(input, np.float32)), input.array.dtype)
    return matrix_exp_p(input)


def matrix_power(input: Tensor, n: int, *, out: Any = None) -> Tensor:
    """Multiply square matrices by themselves `n` times; a negative `n` inverts them first."""
    require_tensor(input, "A", "linalg.matrix_power")
    shape = input.array.shape
    if len(shape) < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    if shape[-1] != shape[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, but they are {shape[-2]} by "
            f"{shape[-1]} matrices"
        )
    n = count_of(n, "n")
    if n == 0:
        return into(out, tied(expand_p(eye_like(input, shape[-1]), tuple(shape)), input))
    square = input if n > 0 else inv(input)
    n = abs(n)
    result: Any = None
    while n:
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
        if n:
            square = matmul(square, square)
    return into(out, result.clone() if result is input else result)


# --- Pseudoinverse and least squares --------------------------------------------------------------


def _pinv(x: Any, cutoff: Any, hermitian: Any) -> Any:
    xp = module_of(x)
    if x.size == 0:
        return xp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        s, u = algebra(x).eigh(x)
        v = u.swapaxes(-1, -2).conj()
    else:
        u, s, v = algebra(x).svd(x, full_matrices=False)
    size = np.abs(s)
    keep = size > cutoff(size)
    inverse = xp.where(keep, 1 / xp.where(keep, s, 1), 0)
    return (v.swapaxes(-1, -2).conj() * inverse[..., None, :]) @ u.swapaxes(-1, -2).conj()


def _pinv_x(g: Any, x: Any, out: Any) -> Any:
    gh, outh = mH(g), mH(out)
    if x.shape[-2] <= x.shape[-1]:
        k = gh @ out
        kout = k @ outh
        return -mH(out @ k) + kout - (x @ out) @ kout + (outh @ out) @ (gh - k @ x)
    k = out @ gh
    outk = outh @ k
    return -mH(k @ out) + (gh - x @ k) @ out @ outh + outk - (outk @ out) @ x


pinv_p = parametric(_pinv, x=_pinv_x, batch="same", node_name="LinalgPinvBackward0")


class Cutoff:
    """The size under which a singular value counts as zero: `atol`, or `rtol` times the largest."""

    __slots__ = ("atol", "eps", "rtol", "side")

    def __init__(self, atol: Any, rtol: Any, side: int, dtype: Any) -> None:
        if isinstance(atol, complex) or isinstance(rtol, complex):
            raise TypeError("linalg: received an invalid combination of arguments - a tolerance is complex")
        for name, value in (("atol", atol), ("rtol", rtol)):
            if isinstance(value, TensorBase) and value.array.dtype.kind == "c":
                raise RuntimeError(f"linalg: {name} tensor of complex type is not supported.")
        note_read("tolerance", atol, rtol)
        self.atol, self.rtol = (v.array if isinstance(v, TensorBase) else v for v in (atol, rtol))
        self.side, self.eps = side, float(np.finfo(of(dtype).to_real().np).eps)

    def __call__(self, size: Any) -> Any:
        """Return the cutoff for each batch of singular values."""
        rtol: Any = self.rtol
        atol: Any = 0.0 if self.atol is None else self.atol
        if rtol is None:
            rtol = (atol <= 0) * (self.eps * self.side)  # one of the two is enough
        largest = size.max(axis=-1, keepdims=True)
        rtol, atol = (v[..., None] if getattr(v, "ndim", 0) else v for v in (rtol, atol))
        return module_of(size).maximum(atol, rtol * largest)


@autocasting
@looped_for("rcond", "atol", "rtol")
def pinv(
    input: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Any = None,
) -> Tensor:
    """Compute the pseudoinverse; singular values below ``max(atol, rtol * largest)`` count as zero."""
    a = input.array
    if a.ndim < 2 or of(a.dtype).category < 2 or a.dtype.itemsize == 2:
        raise RuntimeError(
            f"linalg.pinv({title_of(a.dtype)}{{{list(a.shape)}}}): expected a tensor with 2 or more "
            "dimensions of "
            "float, double, cfloat or cdouble types"
        )
    if hermitian:
        check_square(input, "linalg.pinv")
    cutoff = Cutoff(atol, rcond if rtol is None else rtol, max(a.shape[-2:]), a.dtype)
    return into(out, pinv_p(input, cutoff, hermitian))


def _all_equal(ranks: Tensor, n: int) -> bool:
    array: Any = ranks.array
    return bool(((array.memory() if isinstance(array, Payload) else array) == n).all())


@autocasting
def lstsq(input: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None, out: Any = None) -> Any:
    """Find X so that ``A @ X`` comes as near to `B` as it can."""
    from .decomposition import svdvals

    name = "torch.linalg.lstsq"
    a, b = input.array, B.array
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    check_floating(input, name)
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got {title_of(a.dtype)} and "
            f"{title_of(b.dtype)}"
        )
    if a.ndim - b.ndim not in (0, 1):
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = a.ndim - b.ndim == 1
    if vector:
        B = column(B)
    if B.array.shape[-2] != a.shape[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-{1 if vector else 2})")
    m, n = a.shape[-2:]
    cutoff = Cutoff(None, rcond, max(m, n), a.dtype)
    solution = matmul(pinv_p(input, cutoff, False), B)
    rank = rank_p(input, cutoff, False)
    real = of(a.dtype).to_real().np
    xp = module_of(a)
    empty = finish(literal(xp.zeros((0,), real)))
    residuals = real_part(reshape_p(part(solution, 0, 0, 0), (-1,)))
    residuals = part(residuals, 0, 0, 0)
    if m > n and driver not in (None, "gelsy") and _all_equal(rank, n):
        away = matmul(input, solution) - B
        residuals = real_part(away * conjugate(away)).sum(-2)
    ranks = rank if driver != "gels" else finish(literal(xp.zeros((0,), np.int64)))
    values = svdvals(input.detach()) if driver in ("gelsd", "gelss") else empty
    if vector:
        solution = reshape_p(solution, tuple(solution.array.shape[:-1]))
    return outs(return_types.linalg_lstsq, (solution, residuals, ranks, values), out)


def _rank(x: Any, cutoff: Any, hermitian: Any) -> Any:
    xp = module_of(x)
    if min(x.shape[-2:]) == 0:
        return xp.zeros(x.shape[:-2], np.int64)
    size = np.abs(algebra(x).eigvalsh(x)) if hermitian else algebra(x).svd(x, compute_uv=False)
    return (size > cutoff(size)).sum(axis=-1)


rank_p = parametric(_rank, name="matrix_rank", batch="same")


# --- Measures of a matrix -------------------------------------------------------------------------


@autocasting
def matrix_rank(
    input: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Any = None,
) -> Tensor:
    """Count the singular values that are not (nearly) zero."""
    name = "torch.linalg.matrix_rank"
    require_tensor(input, "A", name)
    if input.array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor input must have at least 2 dimensions.")
    check_matrices(input, name)
    a = input.array
    if tol is not None:
        atol, rtol = tol, 0.0
    cutoff = Cutoff(atol, rtol, max(a.shape[-2:]), a.dtype)
    return into(out, rank_p(input, cutoff, hermitian))


def cond(input: Tensor, p: Any = None, *, out: Any = None) -> Tensor:
    """Measure how near to singular matrices are: the ratio of their norm and that of their inverse."""
    from .decomposition import svdvals

    check_matrices(input, "linalg.cond")
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p is None or p in (2, -2):
        values = svdvals(input)
        if min(input.array.shape[-2:]) == 0:
            return into(out, finish(literal(module_of(input.array).zeros(input.array.shape[:-2], values.array.dtype))))
        largest, least = values.amax(-1), values.amin(-1)
        return into(out, least / largest if p == -2 else largest / least)
    check_square(input, "linalg.cond")
    if min(input.array.shape[-2:]) == 0:
        return into(out, real_part(sum_p(input, (input.array.ndim - 2, input.array.ndim - 1), False)))
    inverse = inv_p(input, False)
    found = matrix_norm(input, p) * matrix_norm(inverse, p)
    return into(out, found.where(found == found, math.inf))


# --- Products and tensors -------------------------------------------------------------------------


@autocasting
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Any = None, axis: int | None = None) -> Tensor:
    """Take the dot products of vectors along `dim`; the first is conjugated."""
    dim = dim if axis is None else either(dim, axis, -1)
    if of(x.array.dtype).category < 2 or of(y.array.dtype).category < 2:
        bad = x if of(x.array.dtype).category < 2 else y
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {title_of(bad.array.dtype)}"
        )
    if x.array.ndim == y.array.ndim == 1 and x.array.shape != y.array.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {list(x.array.shape)} and src {list(y.array.shape)} to have "
            "the same number of elements"
        )
    product = conjugate(x) * y
    return into(out, product.sum(dim_in(dim, product.array.ndim)))


@autocasting
def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Any = None, axis: int | None = None) -> Tensor:
    """Take the vector product along a dim of size 3."""
    dim = dim if axis is None else either(dim, axis, -1)
    return cross_along(input, other, dim, out)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """View the diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


def multi_dot(tensors: Any, *, out: Any = None) -> Tensor:
    """Multiply matrices in the order that takes the fewest operations; the ends may be vectors."""
    if not isinstance(tensors, list | tuple) or not all(isinstance(t, TensorBase) for t in tensors):
        found = type(tensors).__name__
        raise TypeError(f"linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not {found}")
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].array.ndim == 1, tensors[-1].array.ndim == 1
    for i, t in enumerate(tensors):
        if not (t.array.ndim == 2 or (t.array.ndim == 1 and i in (0, len(tensors) - 1))):
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.array.ndim}D")
        if t.array.dtype != tensors[0].array.dtype:
            raise RuntimeError("multi_dot(): all tensors must have be the same dtype, but they are not")
    if first:
        tensors[0] = row(tensors[0])
    if last:
        tensors[-1] = column(tensors[-1])
    product = multiply_chain(tensors)
    shape = product.array.shape
    return into(
        out,
        reshape_p(product, (*(() if first else shape[:1]), *(() if last else shape[1:]))) if first or last else product,
    )


@autocasting
def tensorinv(input: Tensor, ind: int = 2, *, out: Any = None) -> Tensor:
    """Invert a tensor as a map from its last dims to its first `ind` ones."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    shape = tuple(input.array.shape)
    if ind > len(shape):
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {len(shape)}")
    first, last = shape[:ind], shape[ind:]
    m, n = math.prod(first), math.prod(last)
    if m != n:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {n} != {m}"
        )
    return into(out, reshape_p(inv(reshape_p(input, (m, n))), (*last, *first)))


@autocasting
def tensorsolve(input: Tensor, other: Tensor, dims: Any = None, *, out: Any = None) -> Tensor:
    """Find X so that the sum of products of `A` and X over the last dims is `B`."""
    if dims is not None:
        if not isinstance(dims, tuple | list):
            raise TypeError(f"linalg_tensorsolve(): argument 'dims' must be tuple of ints, not {type(dims).__name__}")
        rank = input.array.ndim
        input = input.movedim(tuple(dims), tuple(range(rank - len(dims), rank)))
    rank_b = other.array.ndim
    last = tuple(input.array.shape[rank_b:])
    n = math.prod(last)
    if math.prod(input.array.shape[:rank_b]) != n:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            "prod(self.shape[:other.ndim]), "
            f"but got {n} != {math.prod(input.array.shape[:rank_b])}"
        )
    x = solve(reshape_p(input, (n, n)), reshape_p(other, (-1,)))
    return into(out, reshape_p(x, last))


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Return the powers 0, 1, ... of each number, along a new last dim."""
    from .join import cat

    n = N if N is not None else x.array.shape[-1] if x.array.ndim else 0
    if x.array.ndim == 0:
        x = reshape_p(x, (1,))
    shape = tuple(x.array.shape)
    if n < 1:
        raise RuntimeError(f"N must be greater than 1, but got {n}")
    powers = cumprod(expand_p(column(x), (*shape, n - 1)), -1)
    ones = finish(literal(module_of(x.array).ones((*shape, 1), powers.array.dtype)))
    return cat([ones, powers], -1)
