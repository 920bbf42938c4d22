"""Functions and methods of tensors for sparse operands."""

from __future__ import annotations

from typing import Any

from ..core.tensor import TensorBase
from .compression import COMPRESSED, turned
from .tensor import SparseTensor, ops, refuse, words

__all__: list[str] = []


def _is_sparse(x: Any) -> bool:
    return isinstance(x, SparseTensor)


def _rule(*names: str) -> Any:
    """Register the implementation of functions of these names for sparse operands."""

    def put(function: Any) -> Any:
        ops.update(dict.fromkeys(names, function))
        return function

    return put


# --- Of the values alone ------------------------------------------------------------------------------


def _on_values(name: str, merged: bool = True) -> None:
    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        whole = x.coalesce() if merged else x
        return whole._with(getattr(whole._held, name)(*args, **kwargs))

    ops[name] = run


for _name in (
    "abs", "absolute", "asin", "arcsin", "asinh", "arcsinh", "atan", "arctan", "atanh", "arctanh", "ceil", "erf",
    "erfinv", "expm1", "floor", "frac", "isinf", "isnan", "log1p", "pow", "relu", "round", "sgn", "sign", "signbit",
    "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "nan_to_num", "deg2rad", "rad2deg",
):  # fmt: skip
    _on_values(_name)
for _name in ("neg", "negative", "clone", "to", "double", "float", "half", "bfloat16", "long", "int", "cpu", "cuda",
              "conj", "conj_physical", "real", "imag", "type_as", "positive"):  # fmt: skip
    _on_values(_name, merged=False)


@_rule("contiguous", "t_contiguous")
def _same(x: Any, *args: Any, **kwargs: Any) -> Any:
    return x


@_rule("zeros_like", "empty_like")
def _zeros_like(x: Any, **kwargs: Any) -> Any:
    return SparseTensor.made(x._at[:, :0], x._held[:0].detach(), tuple(x.shape), True, x._kind)


@_rule("zero_")
def _zero(x: Any) -> Any:
    x._held = x._held.detach().zero_()
    return x


# --- Sums and products --------------------------------------------------------------------------------


def _into(dense: Any, x: Any, alpha: Any = 1) -> Any:
    """Return a dense tensor with the elements of a sparse one added."""
    values = x._held if alpha == 1 else x._held * alpha
    return dense.index_put(tuple(x._at.unbind(0)), values.to(dense.dtype), accumulate=True)


@_rule("add", "__add__", "__radd__")
def _add(x: Any, y: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    if not _is_sparse(x):
        return _into(x, y, alpha) if isinstance(x, TensorBase) else refuse("a number + a sparse tensor")
    if not _is_sparse(y):
        return _into(y * alpha if alpha != 1 else y, x) if isinstance(y, TensorBase) else refuse("sparse + a number")
    if x.shape != y.shape:
        raise RuntimeError(f"add: Expected 'self' and 'other' to have same sizes, but {x.shape} != {y.shape}")
    at = words.cat([x._at, y._at], 1)
    values = words.cat([x._held, y._held if alpha == 1 else y._held * alpha])
    return SparseTensor.made(at, values, tuple(x.shape), False, x._kind).coalesce()


@_rule("add_", "__iadd__")
def _add_(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    if not _is_sparse(x):
        return x.index_put_(tuple(y._at.unbind(0)), y._held.to(x.dtype) * alpha, accumulate=True)
    total = _add(x, y, alpha=alpha)
    x._at, x._held, x._sorted = total._at, total._held, total._sorted
    return x


@_rule("sub", "__sub__", "subtract")
def _sub(x: Any, y: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    return _add(x, y, alpha=-alpha)


@_rule("__rsub__")
def _rsub(x: Any, y: Any) -> Any:
    return _add(y, x, alpha=-1)


@_rule("sub_", "__isub__")
def _sub_(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return _add_(x, y, alpha=-alpha)


@_rule("mul", "__mul__", "__rmul__", "multiply")
def _mul(x: Any, y: Any, *, out: Any = None) -> Any:
    if not _is_sparse(x):
        x, y = y, x
    if _is_sparse(y):
        other = y.to_dense()
        return _mul(x.coalesce(), other)
    if not isinstance(y, TensorBase) or y.array.ndim == 0:
        return x._with(x._held * y)
    return x._with(x._held * words.broadcast_to(y, tuple(x.shape))[tuple(x._at.unbind(0))])


@_rule("mul_", "__imul__", "div_", "__itruediv__")
def _refused_in_place(x: Any, y: Any) -> Any:
    refuse("in-place multiplication")


@_rule("div", "__truediv__", "true_divide", "divide")
def _div(x: Any, y: Any, *, rounding_mode: Any = None, out: Any = None) -> Any:
    if not _is_sparse(x) or (isinstance(y, TensorBase) and y.array.ndim):
        refuse("division by a tensor")
    return x._with(words.div(x._held, y, rounding_mode=rounding_mode))


@_rule("matmul", "mm", "mv", "__matmul__", "spmm", "smm", "hspmm", "bmm")
def matmul(x: Any, y: Any, *, out: Any = None) -> Any:
    """Return the product of matrices of which one at least is sparse; that of two is sparse."""
    if _is_sparse(x) and x.array.ndim == 3:
        return words.matmul(x.to_dense(), y.to_dense() if _is_sparse(y) else y)
    if not _is_sparse(x):
        return matmul(y.t(), x.t() if x.array.ndim > 1 else x).t() if x.array.ndim > 1 else matmul(y.t(), x)
    inner, rows = x.shape[1], y.shape[0]
    if inner != rows:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({_by(x)} and {_by(y)})")
    if _is_sparse(y):
        return matmul(x, y.to_dense()).to_sparse()
    row, column = x._at.unbind(0)
    values = x._held if y.array.ndim == 1 else x._held.unsqueeze(-1)
    products = values * y[column]
    empty = words.zeros((x.shape[0], *y.shape[1:]), dtype=products.dtype, device=x.device)
    return empty.index_add(0, row, products)


def _by(x: Any) -> str:
    return "x".join(map(str, x.shape))


@_rule("__rmatmul__")
def _rmatmul(x: Any, y: Any) -> Any:
    return matmul(y, x)


@_rule("addmm", "sspaddmm")
def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """Return ``beta * mat + alpha * (mat1 @ mat2)``."""
    product = matmul(mat1, mat2)
    scaled = mat if beta == 1 else mat * beta
    return _add(scaled, product * alpha) if _is_sparse(scaled) or _is_sparse(product) else scaled + product * alpha


@_rule("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    product = matmul(input, weight.t())
    return product if bias is None else product + bias


# --- Shapes -------------------------------------------------------------------------------------------


@_rule("transpose", "swapaxes", "swapdims")
def _transpose(x: Any, dim0: int, dim1: int) -> Any:
    order = list(range(x.array.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permute(x, order)


@_rule("permute")
def _permute(x: Any, *dims: Any) -> Any:
    order = list(dims[0]) if len(dims) == 1 and isinstance(dims[0], list | tuple) else list(dims)
    order = [d % x.array.ndim for d in order]
    if x.dense_dim() and sorted(order[: x.sparse_dim()]) != list(range(x.sparse_dim())):
        refuse("permuting places with dimensions of the values")
    size = tuple(x.shape[d] for d in order)
    at = x._at[order[: x.sparse_dim()]]
    made = SparseTensor.made(at, x._held, size, False, x._kind if order == sorted(order) else turned(x._kind))
    return made.coalesce() if x._kind in COMPRESSED else made


@_rule("t")
def _t(x: Any) -> Any:
    return x if x.array.ndim < 2 else _transpose(x, 0, 1)


@_rule("cat", "concat", "concatenate")
def _cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    first = tensors[0]
    if not all(_is_sparse(t) for t in tensors):
        return words.cat([t.to_dense() for t in tensors], dim)
    axis, start, places = dim % first.array.ndim, 0, []
    for t in tensors:
        shift = words.zeros(first.sparse_dim(), 1, dtype=first._at.dtype)
        shift[axis] = start
        places.append(t._at + shift)
        start += t.shape[axis]
    size = (*first.shape[:axis], start, *first.shape[axis + 1 :])
    return SparseTensor.made(words.cat(places, 1), words.cat([t._held for t in tensors]), size)


@_rule("index_select")
def _index_select(x: Any, dim: int, index: Any) -> Any:
    where, at = (x._at[dim][:, None] == index[None, :]).nonzero(as_tuple=True)
    places = x._at[:, where].clone()
    places[dim] = at
    size = (*x.shape[:dim], len(index), *x.shape[dim + 1 :])
    return SparseTensor.made(places, x._held[where], size).coalesce()


@_rule("select", "__getitem__")
def _select(x: Any, *index: Any) -> Any:
    dim, at = index if len(index) == 2 else (0, index[0])
    if not isinstance(at, int):
        refuse("indexing with anything but a number")
    where = (x._at[dim] == at % x.shape[dim]).nonzero(as_tuple=True)[0]
    size = (*x.shape[:dim], *x.shape[dim + 1 :])
    rest = [d for d in range(x.sparse_dim()) if d != dim]
    if not rest:
        return x._held[where].sum(0)
    return SparseTensor.made(x._at[rest][:, where], x._held[where], size, x._sorted and dim == 0)


# --- Reductions ---------------------------------------------------------------------------------------


@_rule("sum")
def total(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return the sum of all elements, or a sparse tensor of sums along dimensions."""
    if dim is None:
        return input._held.sum(dtype=dtype)
    summed = input.to_dense().sum(dim, keepdim, dtype=dtype)
    return summed.to_sparse() if summed.array.ndim else summed


@_rule("norm")
def _norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if dim is not None:
        refuse("norm along a dimension")
    return words.norm(x.coalesce()._held, 2 if p in ("fro", None) else p)


@_rule("allclose", "equal", "isclose")
def _compared(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    dense = [v.to_dense() if _is_sparse(v) else v for v in (x, y)]
    return words.allclose(*dense, *args, **kwargs) if args or kwargs else words.equal(*dense)
