"""Functions of matrices: exponentials, powers, pseudoinverses, least squares, ranks, products.

They are public in ``adjoint.linalg``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import return_types
from .._typing import Array, DType, Ints, Operand, Out, Tensor, Value
from ..core.device import linalg_of as algebra
from ..core.device import module_of
from ..core.dtypes import of
from ..core.observation import literal, note_read
from ..core.payload import Payload
from ..core.recorders import parametric
from ..core.tensor import TensorBase
from .arguments import count_of, dim_in, either, require_tensor
from .contraction import matmul
from .create import finish, into
from .linalg import (
    check_floating,
    check_matrices,
    check_square,
    column,
    eye_like,
    inv,
    inv_p,
    mH,
    mT,
    outs,
    row,
    solve,
    tied,
)
from .looping import looped_for
from .measure import conjugate, matrix_norm, real_part
from .precision import autocasting
from .products import cross_along, multiply_chain
from .reduce import part, sum_p, title_of, widened
from .scan import cumprod
from .shape import cast_p, expand_p, reshape_p

__all__: list[str] = []  # `adjoint.linalg` names what it shows; torch's own namespace has other signatures


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


def _derivative_of_exp(x: Value, t: Value) -> Value:
    """Return the exponential's derivative in the direction `t`, as a block of a larger exponential."""
    n, rows, columns = x.shape[-1], x.ndim - 2, x.ndim - 1
    scale = size_p(t)  # linear in t, so that its size need not make the block matrix large
    t = t / scale
    upper = widened(widened(x, columns, 0, n, 0) + widened(t, columns, n, 0, 0), rows, 0, n, 0)
    lower = widened(widened(x, columns, n, 0, 0), rows, n, 0, 0)
    whole = matrix_exp_p(upper + lower)
    return part(part(whole, rows, 0, n), columns, n, n) * scale


def _size(x: Any) -> Array:
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

    Raises
    ------
    RuntimeError
        If the matrices are not square.

    Examples
    --------
    >>> adjoint.linalg.matrix_exp(adjoint.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    check_square(input, "linalg.matrix_exp", low=True)
    if input.array.dtype.itemsize == 2:
        return cast_p(matrix_exp_p(cast_p(input, np.float32)), input.array.dtype)
    return matrix_exp_p(input)


def matrix_power(input: Tensor, n: int, *, out: Out = None) -> Tensor:
    """Multiply square matrices by themselves `n` times; a negative `n` inverts them first.

    Parameters
    ----------
    input : Tensor
        Square matrices, (..., n, n).
    n : int
        Power; 0 gives identity matrices.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    LinAlgError
        If `n` is negative and a matrix is singular.
    RuntimeError
        If the matrices are not square.

    Examples
    --------
    >>> A = adjoint.tensor([[1.0, 1.0], [0.0, 1.0]])
    >>> adjoint.linalg.matrix_power(A, 3)
    tensor([[1., 3.],
            [0., 1.]])
    >>> adjoint.linalg.matrix_power(A, -1)
    tensor([[ 1., -1.],
            [ 0.,  1.]])
    """
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


def _pinv(x: Value, cutoff: Any, hermitian: bool) -> Any:
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


def _pinv_x(g: Value, x: Any, out: Any) -> Any:
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

    def __init__(self, atol: Any, rtol: Any, side: int, dtype: DType) -> None:
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
    rcond: Operand | None = None,
    hermitian: bool = False,
    *,
    atol: Operand | None = None,
    rtol: Operand | None = None,
    out: Out = None,
) -> Tensor:
    """Compute the Moore-Penrose pseudoinverse of matrices.

    Singular values of at most ``max(atol, rtol * largest)`` count as zero.

    Parameters
    ----------
    input : Tensor
        Matrices, ``(*, m, n)``.
    rcond : float or Tensor, optional
        Older name of `rtol`.
    hermitian : bool, default False
        Whether the matrices are symmetric or Hermitian: eigenvalues are then used in place of singular values.
    atol : float or Tensor, optional
        Absolute tolerance, 0 by default.
    rtol : float or Tensor, optional
        Relative tolerance. By default ``max(m, n)`` times the `eps` of the dtype, or 0 if `atol` is positive.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The pseudoinverses, ``(*, n, m)``.

    Examples
    --------
    >>> adjoint.linalg.pinv(adjoint.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000, 0.0000],
            [0.0000, 0.0000, 0.2500]])
    """
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
def lstsq(input: Tensor, B: Tensor, rcond: Operand | None = None, *, driver: str | None = None, out: Out = None) -> Any:
    """Find X so that ``input @ X`` comes as near to `B` as it can: least squares.

    Minimizes ``norm(input @ X - B)``.

    Parameters
    ----------
    input : Tensor
        Matrices, (..., m, n).
    B : Tensor
        Right-hand sides, (..., m, k) or (..., m).
    rcond : float or Tensor, optional
        Singular values below `rcond` times the largest count as 0; by default the machine epsilon times ``max(m, n)``.
    driver : str, optional
        "gels", "gelsy", "gelsd" or "gelss". By default "gelsy"; on a GPU "gels", which assumes full rank.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (solution, residuals, rank, singular_values): X, (..., n, k); the squared error of each column if ``m > n`` and
        the rank is full; what the driver does not compute is empty.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> adjoint.linalg.lstsq(x, adjoint.tensor([[1.0], [3.0], [5.0]])).solution  # the line 1 + 2 t
    tensor([[1.0000],
            [2.0000]])
    """
    from .eigenvalues import svdvals

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


def _rank(x: Any, cutoff: Any, hermitian: bool) -> Any:
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
    tol: Operand | None = None,
    hermitian: bool = False,
    *,
    atol: Operand | None = None,
    rtol: Operand | None = None,
    out: Out = None,
) -> Tensor:
    """Count the singular values that are not (nearly) zero.

    Parameters
    ----------
    input : Tensor
        Matrices, (..., m, n).
    tol : float or Tensor, optional
        `atol` by an older name.
    hermitian : bool, default False
        Whether the matrices are Hermitian, so that eigenvalues suffice.
    atol : float or Tensor, optional
        Singular values up to this count as 0.
    rtol : float or Tensor, optional
        Singular values up to `rtol` times the largest count as 0; by default the machine epsilon times ``max(m, n)``,
        or 0 if `atol` is given.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Ranks, (...), int64.

    Examples
    --------
    >>> adjoint.linalg.matrix_rank(adjoint.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    >>> adjoint.linalg.matrix_rank(adjoint.diag(adjoint.tensor([1.0, 0.1])), atol=0.5)
    tensor(1)
    """
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


def cond(input: Tensor, p: Any = None, *, out: Out = None) -> Tensor:
    """Return the condition number: the norm of a matrix times that of its inverse.

    Parameters
    ----------
    input : Tensor
        Matrices, (..., m, n); square unless `p` is None, 2 or -2.
    p : number or str, optional
        Norm: None and 2 divide the largest singular value by the smallest, -2 the other way round; or "fro", "nuc",
        inf, -inf, 1, -1 as of `matrix_norm`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real, (...); infinite for singular matrices.

    Examples
    --------
    >>> A = adjoint.tensor([[2.0, 0.0], [0.0, 0.5]])
    >>> adjoint.linalg.cond(A), adjoint.linalg.cond(A, "fro")
    (tensor(4.), tensor(4.2500))
    """
    from .eigenvalues import svdvals

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
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Out = None, axis: int | None = None) -> Tensor:
    """Take the dot products of vectors along `dim`; the first is conjugated.

    Parameters
    ----------
    x : Tensor
        Vectors; conjugated if complex.
    y : Tensor
        Vectors, broadcast with `x`.
    dim : int, default -1
        Dimension of the vectors.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape without `dim`.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.linalg.vecdot(x, x)
    tensor([ 5., 25.])
    """
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
def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Out = None, axis: int | None = None) -> Tensor:
    """Take the cross product along a dimension of size 3.

    Parameters
    ----------
    input : Tensor
        Vectors.
    other : Tensor
        Vectors, broadcast with `input`.
    dim : int, default -1
        Dimension of size 3.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    RuntimeError
        If the size of `dim` is not 3.

    Examples
    --------
    >>> adjoint.linalg.cross(adjoint.tensor([1.0, 0.0, 0.0]), adjoint.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    dim = dim if axis is None else either(dim, axis, -1)
    return cross_along(input, other, dim, out)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return the diagonals of matrices, as a view.

    Parameters
    ----------
    A : Tensor
        At least two dimensions.
    offset : int, default 0
        Which diagonal: 0 is the main one, positive ones are above it.
    dim1 : int, default -2
        Dimension of the rows.
    dim2 : int, default -1
        Dimension of the columns.

    Returns
    -------
    Tensor
        Shares memory with `A`; the diagonal is the last dimension.

    Examples
    --------
    >>> A = adjoint.arange(9).reshape(3, 3)
    >>> adjoint.linalg.diagonal(A), adjoint.linalg.diagonal(A, offset=1)
    (tensor([0, 4, 8]), tensor([1, 5]))
    """
    return A.diagonal(offset, dim1, dim2)


def multi_dot(tensors: Sequence[Tensor], *, out: Out = None) -> Tensor:
    """Multiply matrices in the order that takes the fewest operations; the ends may be vectors.

    Parameters
    ----------
    tensors : sequence of Tensor
        At least two: matrices, of which the first and the last may be vectors.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        All matrices multiplied; a vector or scalar if the first and last are vectors.

    Raises
    ------
    RuntimeError
        If there are fewer than two, or the shapes do not fit.

    Examples
    --------
    >>> a, b, c = adjoint.ones(2, 100), adjoint.ones(100, 3), adjoint.ones(3)
    >>> adjoint.linalg.multi_dot([a, b, c])
    tensor([300., 300.])
    """
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
def tensorinv(input: Tensor, ind: int = 2, *, out: Out = None) -> Tensor:
    """Invert a tensor as a map from its last dims to its first `ind` ones.

    Parameters
    ----------
    input : Tensor
        The sizes of its first `ind` dimensions and of the others have one product.
    ind : int, default 2
        Number of dimensions of the result's domain.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        ``tensordot(tensorinv(input, ind), input, ind)`` is an identity; the other dimensions come first.

    Raises
    ------
    LinAlgError
        If the map is singular.
    RuntimeError
        If the sizes do not fit.

    Examples
    --------
    >>> x = 2 * adjoint.eye(4).reshape(4, 2, 2)
    >>> adjoint.linalg.tensorinv(x, ind=1).shape
    adjoint.Size([2, 2, 4])
    >>> adjoint.linalg.tensorinv(x, ind=1)[0, 0]
    tensor([0.5000, 0.0000, 0.0000, 0.0000])
    """
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
def tensorsolve(input: Tensor, other: Tensor, dims: Ints | None = None, *, out: Out = None) -> Tensor:
    """Find X so that ``tensordot(input, X, X.ndim)`` is `other`.

    Parameters
    ----------
    input : Tensor
        Of shape ``other.shape + X.shape``; the product of either part is the same.
    other : Tensor
        Right-hand side.
    dims : int or tuple of int, optional
        Dimensions of `input` to move to the end first.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        X.

    Raises
    ------
    LinAlgError
        If `input`, as a matrix, is singular.

    Examples
    --------
    >>> A = 2 * adjoint.eye(4).reshape(4, 2, 2)
    >>> adjoint.linalg.tensorsolve(A, adjoint.tensor([2.0, 4.0, 6.0, 8.0]))
    tensor([[1., 2.],
            [3., 4.]])
    """
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
    """Return the powers 0, 1, ... of each number, along a new last dim.

    Parameters
    ----------
    x : Tensor
        Numbers, (..., n).
    N : int, optional
        Number of powers; n by default.

    Returns
    -------
    Tensor
        (..., n, N): ``out[..., i, j] = x[..., i] ** j``.

    Examples
    --------
    >>> adjoint.linalg.vander(adjoint.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
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
