"""Lengths, distances and covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._typing import Array, Axes, Dims, DType, DTypeArg, Number, Tensor, Value
from ..core.device import module_of
from ..core.dtypes import as_dtype, of
from ..core.folding import fold
from ..core.observation import literal
from ..core.payload import Payload
from ..core.recorders import Primitive, nary, parametric
from ..core.tensor import TensorBase
from .arguments import count_of, dim_in, dims_in, dtype_of, either, missing, require_tensor
from .compare import zeros_p
from .create import finish, into
from .elementwise import sub_p
from .piecewise import abs_p, sgn_p, where_p
from .power import power_p
from .precision import autocasting
from .reduce import as_given, f32, is_half, kept, quotient, shifted, sum_p, title_of
from .shape import cast_p, conj_p, expand_p, reshape_p

__all__ = [
    "cdist", "corrcoef", "cov", "dist", "frobenius_norm", "norm", "norm_except_dim", "nuclear_norm", "pdist",
    "renorm",
]  # fmt: skip

inf = math.inf

# --- Norms of vectors ---------------------------------------------------------------------------------------


def _vector_norm(x: Array, p: float, axes: Axes, keepdims: bool) -> Any:
    d = x.dtype
    if is_half(d):
        return cast_p(vector_norm_p(x.astype(f32), p, axes, keepdims), d)
    if p == 2:
        square = x.real * x.real + x.imag * x.imag if d.kind == "c" else x * x
        return np.sqrt(sum_p(square, axes, keepdims))
    size = np.abs(x)
    if p == inf:
        return size.max(axis=axes, keepdims=keepdims)
    if p == -inf:
        return size.min(axis=axes, keepdims=keepdims)
    if p == 0:
        return (size != 0).sum(axis=axes, keepdims=keepdims).astype(size.dtype)
    if p == 1:
        return sum_p(size, axes, keepdims)
    return sum_p(size**p, axes, keepdims) ** size.dtype.type(1 / p)


def _direction(g: Value, x: Any, out: Any, p: float, axes: Axes, keepdims: bool) -> Any:
    """Return the gradient of a norm: 0 where that is not defined."""
    g, out = kept(g, x.ndim, axes, keepdims), kept(out, x.ndim, axes, keepdims)
    if p == 0:
        return zeros_p(x)
    if p == 1:
        return g * sgn_p(x)
    if p == 2:
        return x * quotient(g, out)
    size = abs_p(x)
    if math.isinf(p):
        chosen = cast_p((size == out) | ((out != out) & (size != size)), dtype_of(g))
        return sgn_p(x) * (chosen * (g / chosen.sum(axis=axes, keepdims=True)))
    none = (size == 0) | (out == 0)
    ratio = where_p(none, 1, size) / where_p(none, 1, out)
    return sgn_p(x) * (where_p(none, 0, power_p(ratio, p - 1)) * g)


def _vector_norm_tangent(tangents: Sequence[Any], inputs: Sequence[Any], out: Value, params: tuple[Any, ...]) -> Value:
    (t,), (x,), (p, axes, keepdims) = tangents, inputs, params
    return sum_p(real_product(_direction(zeros_p(out) + 1, x, out, p, axes, keepdims), t), axes, keepdims)


def real_part(x: Value) -> Any:
    """Return the real part of a value of any kind."""
    d = dtype_of(x)
    return cast_p(x, of(d).to_real().np) if d.kind == "c" else x


def conjugate(x: Value) -> Any:
    """Return the complex conjugate of a value of any kind; itself if it is real."""
    return conj_p(x) if dtype_of(x).kind == "c" else x


def real_product(x: Value, t: Value) -> Any:
    """Return how far `t` goes in the direction of `x`, number by number."""
    return real_part(conjugate(x) * t)


vector_norm_p: Primitive = parametric(
    _vector_norm,
    x=_direction,
    jvp=_vector_norm_tangent,
    batch=lambda x, p, axes, keepdims: vector_norm_p(x, p, shifted(axes), keepdims),
    node_name="LinalgVectorNormBackward0",
    saved={"axes": "dim", "p": "ord", "keepdims": "keepdim"},
)


def vector_norm(
    input: Value | None = None, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *,
    dtype: DTypeArg | object | DType | None = None, out: Tensor | None = None, axis: Dims = None,
    keepdims: bool = False, x: Any = None,
) -> Tensor:  # fmt: skip
    """Compute the norm of vectors: ``sum(abs(x) ** ord) ** (1 / ord)``.

    Parameters
    ----------
    input, x : Tensor
        Any shape, real or complex floating point. `x` is torch's name for it.
    ord : float, default 2
        Order: any number, ``inf`` (largest absolute value), ``-inf`` (smallest) or 0 (count of nonzero elements).
    dim : int or tuple of int, optional
        Dimensions that hold the elements of a vector. By default all elements are one vector.
    keepdim : bool, default False
        Whether to leave the reduced dimensions in the result, with size 1.
    dtype : dtype, optional
        Convert to this type first.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The norms: real, with the shape of `input` less `dim`.

    Examples
    --------
    >>> adjoint.linalg.vector_norm(adjoint.tensor([3.0, 4.0]))
    tensor(5.)
    >>> adjoint.linalg.vector_norm(adjoint.tensor([[3.0, -4.0], [6.0, 8.0]]), ord=1, dim=1)
    tensor([ 7., 14.])
    """
    dim, keepdim = either(dim, axis), keepdim or keepdims
    x = input if x is None else x
    require_tensor(x, "x", "linalg.vector_norm")
    a = x.array
    if of(a.dtype).category < 2:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {title_of(a.dtype)}; convert with .float()"
        )
    if dtype is not None:
        wanted = as_dtype(dtype)
        if wanted.is_complex != (a.dtype.kind == "c"):
            kind = "complex" if a.dtype.kind == "c" else "floating point"
            raise RuntimeError(
                f"linalg.vector_norm: dtype should be {'complex' if kind == 'complex' else 'real'} for "
                f"{'complex' if kind == 'complex' else 'real'} inputs, but got {title_of(wanted.np)}"
            )
        x = as_given(x, wanted)
    axes = dims_in(dim, a.ndim)
    p = float(ord)
    if a.size == 0 and (p < 0 or p == inf) and (dim is None or 0 in [a.shape[i] for i in axes]):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord:g} norm on an empty tensor because the "
            "operation does not "
            "have an identity"
        )
    return into(out, vector_norm_p(x, p, axes, keepdim))


# --- Norms of matrices --------------------------------------------------------------------------------------


def matrix_norm(
    input: Tensor, ord: Any = "fro", dim: Dims = (-2, -1), keepdim: bool = False, *, dtype: object = None,
    out: Tensor | None = None, axis: Dims = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the norm of matrices.

    "fro" is the root of the sum of squares and "nuc" the sum of the singular values; 2 and -2 are the largest and
    smallest singular value; 1 and -1 the largest and smallest absolute sum of a column, inf and -inf of a row.

    Parameters
    ----------
    input : Tensor
        At least two dimensions.
    ord : number or str, default "fro"
        Which norm: "fro", "nuc", 1, -1, 2, -2, inf or -inf.
    dim : int or tuple of int, default (-2, -1)
        Dimensions of the rows and columns.
    keepdim : bool, default False
        Whether these dimensions stay, with size 1.
    dtype : dtype, optional
        Data type to compute in.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real, the shape of `input` without `dim`.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [2.0, 4.0]])
    >>> adjoint.linalg.matrix_norm(x), adjoint.linalg.matrix_norm(x, float("inf"))
    (tensor(5.), tensor(6.))
    """
    dim, keepdim = either(dim, axis, (-2, -1)), keepdim or keepdims
    a = input.array
    if of(a.dtype).category < 2:
        raise RuntimeError(
            f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {title_of(a.dtype)}"
        )
    if a.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    dims = tuple(cast("Sequence[int]", dim)) if not isinstance(dim, int) else (dim,)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    row, column = (dim_in(d, a.ndim) for d in dims)
    if row == column:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})")
    input = as_given(input, dtype)
    if isinstance(ord, str):
        if ord == "fro":
            return vector_norm(input, 2, (row, column), keepdim, out=out)
        if ord != "nuc":
            raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    elif abs(ord) not in (1, 2, inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord:g} not supported.")
    if ord == "nuc" or abs(ord) == 2:
        from .eigenvalues import svdvals

        values = svdvals(input.movedim((row, column), (-2, -1)))
        found = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord > 0 else values.amin(-1)
        return into(out, _restored(found, a.ndim, (row, column)) if keepdim else found)
    added, chosen = (row, column) if abs(ord) == 1 else (column, row)
    sums = vector_norm_p(input, 1.0, (added,), keepdim)
    if not keepdim and added < chosen:
        chosen -= 1
    return into(out, sums.amax(chosen, keepdim) if ord > 0 else sums.amin(chosen, keepdim))


def _restored(x: Tensor, rank: int, axes: tuple[int, ...]) -> Tensor:
    left = iter(x.array.shape)
    return reshape_p(x, tuple(1 if i in axes else next(left) for i in range(rank)))


def linalg_norm(
    input: Tensor, ord: Any = None, dim: Dims = None, keepdim: bool = False, *, dtype: object = None,
    out: Tensor | None = None, axis: Dims = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Compute a vector norm or a matrix norm, depending on `ord` and `dim`.

    Without `ord` it is the 2-norm of the flattened elements or of `dim`. With `ord`, one dimension takes a vector
    norm, two dimensions take a matrix norm.

    Parameters
    ----------
    input : Tensor
        Any shape, real or complex floating point. With `ord` and no `dim` it is a vector or a matrix.
    ord : float or {"fro", "nuc"}, optional
        For vectors any number, as in `vector_norm`. For matrices ``"fro"`` (root of the sum of squares), ``"nuc"``
        (sum of singular values), 2 or -2 (largest or smallest singular value), 1 or -1 (largest or smallest sum of
        a column's absolute values), ``inf`` or ``-inf`` (of a row's).
    dim : int or tuple of int, optional
        One dimension (vectors) or two (matrices).
    keepdim : bool, default False
        Whether to leave the reduced dimensions in the result, with size 1.
    dtype : dtype, optional
        Convert to this type first.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        The norms: real, with the shape of `input` less `dim`.

    Examples
    --------
    >>> x = adjoint.tensor([[3.0, -4.0], [6.0, 8.0]])
    >>> adjoint.linalg.norm(x, dim=1)
    tensor([ 5., 10.])
    >>> adjoint.linalg.norm(x, ord=1)
    tensor(12.)
    >>> adjoint.linalg.norm(x, ord="nuc")
    tensor(14.8661)
    """
    dim, keepdim = either(dim, axis), keepdim or keepdims
    if isinstance(ord, str) or (ord is not None and _is_matrix(input, dim)):
        if dim is None:
            if input.array.ndim != 2:
                raise RuntimeError(
                    "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
                    f"Got {input.array.ndim}D."
                )
            dim = (0, 1)
        return matrix_norm(input, ord, dim, keepdim, dtype=dtype, out=out)
    if ord is not None and dim is None and input.array.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input.array.ndim}D."
        )
    return vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


def _is_matrix(A: Tensor, dim: Dims) -> bool:
    if dim is None:
        return bool(A.array.ndim == 2)
    return not isinstance(dim, int) and len(dim) == 2


def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: object = None,
) -> Tensor:
    """Compute a norm of all elements, or of those along `dim`.

    For older programs: prefer `linalg.vector_norm` and `linalg.matrix_norm`.

    Parameters
    ----------
    input : Tensor
        Any shape, real or complex floating point.
    p : float or {"fro", "nuc"}, default "fro"
        Order of the vector norm ``sum(abs(x) ** p) ** (1 / p)``. ``"fro"`` is 2, ``"nuc"`` the sum of the singular
        values of matrices.
    dim : int or tuple of int, optional
        Dimensions to reduce; all by default. ``"nuc"`` takes two.
    keepdim : bool, default False
        Whether to leave the reduced dimensions in the result, with size 1.
    out : Tensor, optional
        Tensor to write the result into.
    dtype : dtype, optional
        Convert to this type first.

    Returns
    -------
    Tensor
        The norms, with the shape of `input` less `dim`.

    Examples
    --------
    >>> x = adjoint.tensor([[3.0, 4.0], [6.0, 8.0]])
    >>> adjoint.norm(x, dim=1)
    tensor([ 5., 10.])
    >>> adjoint.norm(x, p=adjoint.inf)
    tensor(8.)
    """
    if isinstance(p, TensorBase) and p.array.ndim:
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not Tensor")
    if isinstance(p, str):
        if p == "fro":
            return vector_norm(input, 2, dim, keepdim, dtype=dtype, out=out)
        if p != "nuc":
            raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
        return matrix_norm(
            input, p, tuple(range(input.array.ndim)) if dim is None else dim, keepdim, dtype=dtype, out=out
        )
    return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype, out=out)


def frobenius_norm(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None, axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Measure the length of all elements, or of those along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int or tuple of int, optional
        Dimensions to measure; all by default.
    keepdim : bool, default False
        Whether they stay, with size 1.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        ``sqrt(sum(abs(input) ** 2))``

    Examples
    --------
    >>> adjoint.frobenius_norm(adjoint.tensor([[3.0, 4.0]]), dim=(0, 1))
    tensor(5.)
    """
    dim, keepdim = either(dim, axis), keepdim or keepdims
    if dim is None:
        raise missing("frobenius_norm", "dim")
    return vector_norm(input, 2, dim, keepdim, out=out)


def nuclear_norm(
    input: Tensor, dim: Dims = (-2, -1), keepdim: bool = False, *, out: Tensor | None = None, axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Add up the singular values of matrices.

    Parameters
    ----------
    input : Tensor
        At least two dimensions.
    dim : int or tuple of int, default (-2, -1)
        Dimensions of the rows and columns.
    keepdim : bool, default False
        Whether they stay, with size 1.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        The sum of the singular values.

    Examples
    --------
    >>> adjoint.nuclear_norm(adjoint.diag(adjoint.tensor([1.0, -2.0])))
    tensor(3.)
    """
    dim, keepdim = either(dim, axis, (-2, -1)), keepdim or keepdims
    return matrix_norm(input, "nuc", dim, keepdim, out=out)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Compute the `pow`-norm of each part of `v` along `dim`; of the whole where `dim` is -1."""
    dim = either(dim, axis, 0)
    if dim == -1:
        return norm(v, pow)
    if not v.array.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    axis = dim_in(dim, v.array.ndim)
    if not v.array.size:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape [{v.array.shape[axis]}, -1] because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    return norm(v, pow, tuple(i for i in range(v.array.ndim) if i != axis), True)


# --- Distances ----------------------------------------------------------------------------------------------


@autocasting
def dist(input: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    """Return the `p`-norm of the difference of two tensors.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    other : Tensor
        Broadcast with `input`.
    p : number, default 2
        Which norm.

    Returns
    -------
    Tensor
        Scalar.

    Examples
    --------
    >>> adjoint.dist(adjoint.tensor([3.0, 0.0]), adjoint.tensor([0.0, 4.0]))
    tensor(5.)
    """
    difference = sub_p(input, other)
    found = vector_norm_p(difference, float(p), tuple(range(difference.array.ndim)), False)
    return fold(found, "DistBackward0", input, other, p=p, self=(0,), other=(1,))


def _euclid(x: Any, y: Value, direct: bool) -> Any:
    if direct:
        return vector_norm_p(x[..., :, None, :] - y[..., None, :, :], 2, (max(x.ndim, y.ndim),), False)
    square = (x * x).sum(-1)[..., :, None] + (y * y).sum(-1)[..., None, :] - 2 * (x @ y.swapaxes(-1, -2))
    return np.sqrt(module_of(x).maximum(square, 0))


def _euclid_back(
    g: Value, x: Value, y: Value, out: Any, direct: bool, needs: tuple[bool, bool]
) -> tuple[Value | None, Value | None]:
    pull = quotient(g, out)
    gx = gy = None
    if direct:  # as precise as the distances were, and an infinite row is of no matter to others
        rank = out.ndim
        apart = kept(x, rank + 1, (rank - 1,), False) - kept(y, rank + 1, (rank - 2,), False)
        away = kept(pull, rank + 1, (rank,), False) * apart
        return away.sum(rank - 1) if needs[0] else None, -away.sum(rank - 2) if needs[1] else None
    if needs[0]:
        gx = x * pull.sum(axis=-1, keepdims=True) - pull @ y
    if needs[1]:
        turned = pull.swapaxes(-1, -2)
        gy = y * turned.sum(axis=-1, keepdims=True) - turned @ x
    return gx, gy


euclid_p: Primitive = nary(
    _euclid,
    inputs=2,
    joint=_euclid_back,
    batch=lambda x, y, direct: euclid_p(x, y, direct),
    node_name="CdistBackward0",
)


@autocasting
def cdist(x1: Tensor, x2: Tensor, p: Number = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Compute the distance of each row of `x1` from each row of `x2`.

    Parameters
    ----------
    x1, x2 : Tensor
        Rows of shapes ``(*, n, d)`` and ``(*, m, d)``, floating point; the leading dimensions broadcast.
    p : float, default 2.0
        Order of the norm of differences, 0 or more: ``sum(abs(x1[i] - x2[j]) ** p) ** (1 / p)``.
    compute_mode : str, default "use_mm_for_euclid_dist_if_necessary"
        For ``p=2``: compute by matrix multiplication, which is faster and less exact, above 25 rows
        (``"use_mm_for_euclid_dist_if_necessary"``), always (``"use_mm_for_euclid_dist"``) or never
        (``"donot_use_mm_for_euclid_dist"``).

    Returns
    -------
    Tensor
        The distances, ``(*, n, m)``.

    Examples
    --------
    >>> a, b = adjoint.tensor([[0.0, 0.0], [3.0, 4.0]]), adjoint.tensor([[0.0, 4.0]])
    >>> adjoint.cdist(a, b)
    tensor([[4.],
            [3.]])
    >>> adjoint.cdist(a, b, p=1.0)
    tensor([[4.],
            [3.]])
    """
    a, b, given = x1.array, x2.array, (x1, x2)
    if compute_mode not in (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    ):
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    if a.ndim < 2 or b.ndim < 2:
        which, rank = ("X1", a.ndim) if a.ndim < 2 else ("X2", b.ndim)
        raise RuntimeError(f"cdist only supports at least 2D tensors, {which} got: {rank}D")
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {a.shape[-1]} X2: {b.shape[-1]}")
    if of(a.dtype).category != 2 or of(b.dtype).category != 2:
        bad = a if of(a.dtype).category != 2 else b
        raise RuntimeError(f"cdist only supports floating-point dtypes, X1 got: {title_of(bad.dtype)}")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if a.dtype != b.dtype:
        from ..core.dtypes import promote_types

        wide = promote_types(of(a.dtype), of(b.dtype)).np
        x1, x2 = (x if x.array.dtype == wide else cast_p(x, wide) for x in (x1, x2))
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x1, x2 = (x if x.array.shape[:-2] == lead else expand_p(x, (*lead, *x.array.shape[-2:])) for x in (x1, x2))
    if p == 2 and not is_half(a.dtype):
        large = a.shape[-2] > 25 or b.shape[-2] > 25
        mode = compute_mode
        direct = mode.startswith("donot") or (mode.endswith("necessary") and not large)
        return fold(euclid_p(x1, x2, direct), "CdistBackward0", *given)
    left = reshape_p(x1, (*lead, a.shape[-2], 1, a.shape[-1]))
    right = reshape_p(x2, (*lead, 1, b.shape[-2], b.shape[-1]))
    difference = sub_p(left, right)
    return fold(_distances(difference, float(p), len(lead) + 2), "CdistBackward0", *given, p=float(p), x1=(0,), x2=(1,))


def _farthest_x(g: Any, x: Any, out: Any, axis: int) -> Any:
    return kept(g, x.ndim, (axis,), False) * (
        sgn_p(x) * cast_p(abs_p(x) == kept(out, x.ndim, (axis,), False), dtype_of(g))
    )


def _farthest_tangent(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
    slopes = _farthest_x(zeros_p(out) + 1, inputs[0], out, *params)
    return sum_p(tangents[0] * slopes, params, False)


# The norm of infinite order, as distances have it: ties do not divide the gradient among them.
farthest_p: Primitive = parametric(
    lambda x, axis: np.abs(x).max(axis),
    x=_farthest_x,
    jvp=_farthest_tangent,
    batch=lambda x, axis: farthest_p(x, axis + 1),
    name="farthest",
    node_name="CdistBackward0",
)


def _distances(difference: Tensor, p: float, axis: int) -> Tensor:
    if p == inf and difference.array.shape[axis]:
        return farthest_p(difference, axis)
    if difference.array.shape[axis] == 0:
        return sum_p(difference, (axis,), False)
    return vector_norm_p(difference, p, (axis,), False)


@autocasting
def pdist(input: Tensor, p: Number = 2) -> Tensor:
    """Return the distances of all pairs of rows.

    Parameters
    ----------
    input : Tensor
        Rows, (N, M).
    p : number, default 2
        Power of the norm.

    Returns
    -------
    Tensor
        (N * (N - 1) / 2,): the first row with the second, the third, and so on, then the second with the third.

    Examples
    --------
    >>> adjoint.nn.functional.pdist(adjoint.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    a = input.array
    if a.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {a.ndim}D")
    if of(a.dtype).category != 2:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = np.triu_indices(a.shape[0], 1)
    xp = module_of(a)
    rows, others = finish(literal(xp.asarray(first))), finish(literal(xp.asarray(second)))
    return fold(
        _distances(sub_p(input[rows], input[others]), float(p), 1), "PdistBackward0", input, p=float(p), self=(0,)
    )


@autocasting
def renorm(
    input: Tensor,
    p: Number,
    dim: int | None = None,
    maxnorm: Number = None,
    *,
    out: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """Shorten the parts of `input` along `dim` whose `p`-norm is more than `maxnorm`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    p : number
        Which norm.
    dim : int, optional
        Dimension whose slices are measured.
    maxnorm : number, optional
        Largest norm of a slice.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; slices of a smaller norm are unchanged.

    Examples
    --------
    >>> adjoint.renorm(adjoint.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    dim = either(dim, axis)
    a = input.array
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if a.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {a.ndim} dimensions")
    if maxnorm is None:
        raise missing("renorm", "maxnorm")
    if of(a.dtype).category < 2:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {title_of(a.dtype)}"
        )
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    axis = dim_in(dim, a.ndim)
    size = vector_norm_p(input, float(p), tuple(i for i in range(a.ndim) if i != axis), True)
    shortened = input * where_p(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return into(out, fold(shortened, "RenormBackward0", input, p=p, dim=axis, maxnorm=maxnorm))


def renorm_(
    input: Tensor, p: Number, dim: int | None = None, maxnorm: Number = None, *, axis: int | None = None
) -> Tensor:
    """Scale the parts of `input` along `dim` whose `p`-norm is more than `maxnorm` down to it, in place."""
    dim = either(dim, axis)
    return input.copy_(renorm(input.clone(), p, dim, maxnorm))


# --- Covariance -----------------------------------------------------------------------------------


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Return the covariance of the rows of `input`; columns are observations.

    Parameters
    ----------
    input : Tensor
        (variables, observations), or one variable.
    correction : int, default 1
        Subtracted from the number of observations before dividing: 1 for a sample, 0 for a population.
    fweights : Tensor, optional
        How often each observation occurred, integers.
    aweights : Tensor, optional
        Weight of each observation.

    Returns
    -------
    Tensor
        (variables, variables), or a scalar.

    Examples
    --------
    >>> adjoint.cov(adjoint.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    correction = count_of(correction, "correction")
    a = input.array
    if a.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {a.ndim} dimensions"
        )
    if a.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = reshape_p(input, (1, -1)) if a.ndim < 2 else input
    if of(a.dtype).category < 2:
        from ..core.dtypes import default

        x = cast_p(x, default().np)
    count = x.array.shape[1]
    weights = _observation_weights(fweights, aweights, count)
    if weights is None:
        total: Any = count
        mean = x.sum(1, True) / count
    else:
        total = weights.sum()
        if not isinstance(total.array, Payload) and count and float(total.array) == 0:
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        mean = (x * weights).sum(1, True) / total
    free = _freedom(total, correction, weights, aweights)
    away = x - mean
    turned = away.swapaxes(0, 1)
    if a.dtype.kind == "c":
        turned = turned.conj()
    product = (away if weights is None else away * weights) @ turned
    result = product / free
    return reshape_p(result, ()) if result.array.shape == (1, 1) else result


def _freedom(total: Any, correction: int, weights: Value | None, aweights: Any) -> Any:
    """Return what to divide by: the count, or the sum of the weights, corrected; not less than 0."""
    if weights is None:
        return max(total - correction, 0)
    if aweights is None or correction == 0:
        free: Any = total - correction
    else:
        free = total - correction * (weights * aweights).sum() / total
    return free.clamp(min=0)


def _observation_weights(fweights: Any, aweights: Any, count: int) -> Any:
    for name, w, kinds in (("fweights", fweights, (1,)), ("aweights", aweights, (2,))):
        if w is None:
            continue
        if w.array.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.array.ndim} dimensions"
            )
        if of(w.array.dtype).category not in kinds:
            wanted = "integral" if kinds == (1,) else "floating point"
            raise RuntimeError(
                f"cov(): expected {name} to have {wanted} dtype but got {name} with {title_of(w.array.dtype)} dtype"
            )
        if w.array.size != count:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input "
                f"but got {w.array.size} != {count}"
            )
        if not isinstance(w.array, Payload) and count and float(w.array.min()) < 0:
            raise RuntimeError(f"cov(): {name} cannot be negative")
    if fweights is None and aweights is None:
        return None
    return fweights if aweights is None else aweights if fweights is None else fweights * aweights


def corrcoef(input: Tensor) -> Tensor:
    """Return the correlation coefficients of the rows of `input`; columns are observations.

    ``cov[i, j] / sqrt(cov[i, i] * cov[j, j])``

    Parameters
    ----------
    input : Tensor
        (variables, observations), or one variable.

    Returns
    -------
    Tensor
        (variables, variables), from -1 to 1.

    Examples
    --------
    >>> adjoint.corrcoef(adjoint.tensor([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.array.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.array.ndim} dimensions"
        )
    c = cov(input)
    if c.array.ndim == 0:
        return c / c
    spread = real_part(c.diagonal()).sqrt()
    n = spread.array.shape[0]
    c = c / reshape_p(spread, (n, 1)) / spread
    if c.array.dtype.kind == "c":
        from .trigonometry import complex as joined

        return joined(c.real.clip(-1, 1), c.imag.clip(-1, 1))
    clipped: Tensor = c.clip(-1, 1)
    return clipped
