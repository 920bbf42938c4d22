"""Reading and writing along one dimension by tensors of indices: gather, scatter and the index_* family."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import device as places
from ..core import modes
from ..core.device import module_of, place_array
from ..core.device import of as device_of
from ..core.dtypes import of
from ..core.failures import title_of
from ..core.inplace import inplace
from ..core.nodes import fold, wrap
from ..core.observation import is_captured, literal, opaque
from ..core.payload import Payload, is_batch
from ..core.promotion import number_array
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from ..devices.cpu import gathering as gathering_kernels
from ..devices.cpu import provider
from ..devices.cpu.copying import copied, uniform
from ..devices.cuda.host import through_host
from .arguments import dim_in, either, missing, require_tensor
from .compare import zeros_p
from .create import apart, copy_for, into
from .index import add_rows, beside, index_batch, index_p, place_p, slice_p, taken, unindex_p
from .literals import check_fits
from .piecewise import where_p
from .precision import autocasting
from .shape import broadcast_tensors, cast_p, clone_p, expand_p, reshape, reshape_p

# What is a function of adjoint too; the rest are methods only, or for other rooms.
__all__ = [
    "gather", "index_add", "index_copy", "index_fill", "index_reduce", "index_select", "masked_scatter",
    "masked_select", "put", "scatter", "scatter_add", "scatter_reduce", "take", "take_along_dim",
]  # fmt: skip
ndarray = np.ndarray
_ALL = slice(None)
_FEW = 4096  # elements of an index whose offsets are kept for the next call
_MANY = 1 << 15  # elements from which compiled loops may pay
_int64 = np.dtype("int64")
_ZERO = np.int8(0)  # what a rule writes where nothing of the gradient is left


def _fresh(x: Any) -> Any:
    """Return a copy to write into; a rule may hand a kernel NumPy's scalars."""
    return module_of(x).array(x, order="C")


# --- gather and scatter -----------------------------------------------------------------------------
# An index tensor has the rank of what it indexes, and names a place along `axis` for each of its elements;
# along the other dimensions an element stays where it is.


def _flat(shape: tuple[int, ...], i: Any, axis: int, checked: bool = False) -> Any:
    """Return where in the flattened array of `shape` each element of an index tensor points."""
    xp = module_of(i)
    if not checked:
        _check_range(i, shape[axis] if shape else 1, axis, "scatter")
    if len(shape) < 2 or i.size == 0:
        return i
    if i.dtype is not _int64:
        i = i.astype(_int64)
    step = math.prod(shape[axis + 1 :])
    few = xp is np and i.size <= _FEW
    others = _kept_offsets(shape, i.shape, axis) if few else _offsets(xp, shape, i.shape, axis)
    return (i if step == 1 else i * step) + others


def _offsets(xp: Any, shape: tuple[int, ...], of_index: tuple[int, ...], axis: int) -> Any:
    """Return what the axes other than `axis` add to a place in the flattened array."""
    total: Any = 0
    step = 1
    for d in range(len(shape) - 1, -1, -1):
        n = of_index[d]
        if d != axis and n > 1:
            total = total + xp.arange(0, n * step, step).reshape((n,) + (1,) * (len(shape) - d - 1))
        step *= shape[d]
    return total


@functools.lru_cache(256)
def _kept_offsets(shape: tuple[int, ...], of_index: tuple[int, ...], axis: int) -> Any:
    # As large as the index: NumPy adds two arrays of one shape in a third of the time.
    return np.ascontiguousarray(np.broadcast_to(_offsets(np, shape, of_index, axis), of_index))


def _check_range(i: Any, size: int, dim: int, op: str = "") -> None:
    """Raise where an index is out of bounds; a GPU notes it by the name `op`, unless the op's own kernel does."""
    if type(i) is not ndarray:
        if op and (gpu := provider.gpu(i)) is not None:
            gpu.bounds.check(i, size, op)
    elif outside(i, size):
        low, high = i.min(), i.max()
        raise RuntimeError(f"index {low if low < 0 else high} is out of bounds for dimension {dim} with size {size}")


_UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def outside(i: Any, size: int) -> bool:
    """Return whether an index is negative or beyond `size`: as unsigned numbers, negative ones are huge."""
    if i.size <= _FEW and i.size:  # few: to search is quicker than to compare
        return not (i.item(i.argmax()) < size and i.item(i.argmin()) >= 0)
    return bool(np.count_nonzero(i.view(_UNSIGNED[i.itemsize]) >= size)) if i.size else False


def _gather(x: Any, i: Any, axis: Any) -> Any:
    if i.size > _MANY and type(x) is ndarray and (found := gathering_kernels.gathered(x, i, axis)) is not None:
        return found
    _check_range(i, x.shape[axis] if x.ndim else 1, axis)
    if x.ndim <= 1 or (type(x) is ndarray and x.flags.c_contiguous):
        return _gather_known(x, i, axis)
    part = x[tuple(_ALL if d == axis else slice(0, n) for d, n in enumerate(i.shape))]
    return _taken_along(part, i, axis)


def _taken_along(x: Any, i: Any, axis: Any) -> Any:
    gpu = None if type(x) is ndarray else provider.gpu(x)
    found = None if gpu is None else gpu.gathering.gather(x, i, axis)
    if found is not None:
        return found
    if gpu is not None:
        gpu.bounds.check(i, x.shape[axis], "gather")
    return module_of(x).take_along_axis(x, i, axis)


def _ungathered_on_gpu(x: Any, i: Any, shape: Any, axis: Any) -> Any:
    """Return the gradient of `gather` on a GPU; None where CuPy must add it up."""
    gpu = provider.gpu(x)
    if gpu is None or not shape or i.shape[:axis] != shape[:axis] or i.shape[axis + 1 :] != shape[axis + 1 :]:
        return None
    if i.shape[axis] == 1:  # one place each: nothing meets
        return gpu.reductions.place_back(x, i, shape, axis)
    return gpu.gathering.summed(x.reshape(i.shape), i, shape, axis, True)


def _ungather(x: Any, i: Any, shape: Any, axis: Any) -> Any:
    if type(x) is not ndarray and (found := _ungathered_on_gpu(x, i, shape, axis)) is not None:
        return found
    xp = module_of(x)
    out = xp.zeros(shape, x.dtype)
    if shape and i.shape[axis] == 1 and i.shape[:axis] == shape[:axis] and i.shape[axis + 1 :] == shape[axis + 1 :]:
        # One place each: nothing meets, so nothing has to be added.
        if xp is np and i.size <= _FEW:
            out.reshape(-1)[_flat(shape, i, axis, True)] = x.reshape(i.shape)
            return out
        lead, trail = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        at = xp.arange(lead)[:, None], i.reshape(lead, trail), xp.arange(trail)
        out.reshape(lead, shape[axis], trail)[at] = x.reshape(lead, trail)
        return out
    if xp is np and i.size <= _FEW and i.size and x.shape == i.shape and len(shape) == i.ndim:
        np.add.at(out.reshape(-1), _flat(shape, i, axis, True).reshape(-1), x.reshape(-1))
        return out
    _add_along(out, x, i, axis)
    return out


def _add_along(x: Any, y: Any, i: Any, axis: Any) -> None:
    if i.size > _MANY and type(x) is ndarray and gathering_kernels.added(x, i, y, axis):
        return
    if (
        type(x) is not ndarray
        and (gpu := provider.gpu(x)) is not None
        and getattr(y, "shape", None) == i.shape
        and i.ndim
    ):
        others = (*x.shape[:axis], *x.shape[axis + 1 :]) == (*i.shape[:axis], *i.shape[axis + 1 :])
        if others and gpu.gathering.add_at(x, i, y, axis, True):
            return
    at = _flat(x.shape, i, axis)
    flat = x.reshape(-1)
    values = (y if y.shape == i.shape else module_of(x).broadcast_to(y, i.shape)).reshape(-1)
    gpu = None if type(x) is ndarray else provider.gpu(x)
    if gpu is None or not gpu.gathering.add_at(flat, at.reshape(-1), values, 0, True):
        module_of(x).add.at(flat, at.reshape(-1), values)
    if not x.flags.c_contiguous and not np.may_share_memory(flat, x):
        x[...] = flat.reshape(x.shape)


def _gather_batch(x: Any, i: Any, axis: Any) -> Any:
    if 0 in i.shape:
        return cast_p(i, x.dtype)
    if x.ndim == 1 or i.ndim == 1:  # 0-d elements
        rank = max(x.ndim, i.ndim, 2)
        out = gather_p(_grown(x, rank), _grown(i, rank), 1)
        return reshape_p(out, i.shape)
    return gather_p(x, i, axis + 1)


def _grown(x: Any, rank: int) -> Any:
    return x if x.ndim >= rank else reshape_p(x, (*x.shape, *(1,) * (rank - x.ndim)))


def _gather_known(x: Any, i: Any, axis: Any) -> Any:
    """Gather by an index that cannot be wrong, since it was found by sorting."""
    if x.ndim <= 1:
        return x.reshape(-1).take(i) if type(x) is ndarray else taken(x.reshape(-1), i, 0, "gather")
    if type(x) is ndarray and x.flags.c_contiguous:
        found = gathering_kernels.gathered(x, i, axis) if i.size > _MANY else None
        return x.reshape(-1).take(_flat(x.shape, i, axis, checked=True)) if found is None else found
    return _taken_along(x, i, axis)


def ungathered(g: Any, i: Any, x_shape: Any, axis: Any) -> Any:
    """Return zeros of a shape to which a gradient is added along an axis."""
    return (_ungather if type(g) is ndarray else ungather_p)(g, i, x_shape, axis)


def gathering(name: str, kernel: Any = _gather_known) -> Primitive:
    """Return a primitive that gathers, under the name that torch gives its node."""
    return nary(
        kernel,
        inputs=2,
        x=ungathered,
        name=name,
        jvp=lambda tangents, inputs, out, params: gather_p(tangents[0], inputs[1], *params),
        batch=_gather_batch,
        saved={"i": "index", "axis": "dim"},
    )


gather_p = gathering("gather", _gather)
# Zeros of a shape to which `x` is added along an axis: what the gradient of `gather` is.
ungather_p: Primitive = nary(
    _ungather,
    inputs=2,
    x=lambda g, i, axis: gather_p(g, i, axis),
    jvp=lambda tangents, inputs, out, params: ungather_p(tangents[0], inputs[1], *params),
    batch=lambda x, i, shape, axis: (
        ungather_p(x, i, (x.shape[0], *shape), axis + 1)
        if shape
        else reshape_p(
            ungather_p(reshape_p(x, (x.shape[0], -1)), reshape_p(i, (x.shape[0], -1)), (x.shape[0], 1), 1),
            (-1,),
        )
    ),
    node_name="ScatterAddBackward0",
)


def check_index(index: Any, op: str) -> None:
    """Raise unless `index` is a tensor of integers."""
    require_tensor(index, "index", op)
    name = of(index.array.dtype).name
    if name not in ("int64", "int32") and index.array.size:
        raise RuntimeError(f"{op}(): Expected dtype int32/int64 for index, got {name}; convert it with .long()")


def _check_gather(input: Tensor, index: Tensor, axis: int, op: str) -> None:
    have, want = input.array.shape, index.array.shape
    if max(len(have), 1) != max(len(want), 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {'input' if op == 'gather' else 'self'} tensor"
        )
    for d, n in enumerate(want):
        if d != axis and have and n > have[d]:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(want)} to be no larger than self "
                f"{list(have)} apart from dimension {axis}"
            )


def gather(
    input: Tensor, dim: int | None = None, index: Any = None, *, sparse_grad: bool = False, out: Any = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Pick along `dim` the element that each element of `index` names.

    Examples
    --------
    >>> adjoint.gather(adjoint.tensor([[1, 2], [3, 4]]), 1, adjoint.tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    dim = dim if axis is None else either(dim, axis)
    check_index(index, "gather")
    if out is not None:
        apart(out, input, index)
        if out.array.dtype != input.array.dtype:
            raise RuntimeError(
                f"Expected out tensor to have dtype {of(input.array.dtype).name}, but got "
                f"{of(out.array.dtype).name} instead"
            )
    axis = dim_in(dim, input.array.ndim)
    if index.array.size:
        _check_gather(input, index, axis, "gather")
    return into(out, gather_p(input, index, axis))


def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Any = None, axis: int | None = None
) -> Tensor:
    """Pick along `dim` by indices that broadcast against `input`; without `dim`, of all elements in a row."""
    dim = dim if axis is None else either(dim, axis)
    check_index(indices, "take_along_dim")
    if dim is None:
        return into(out, gather_p(reshape(input, -1), _counted(reshape(indices, -1), input.array.size), 0))
    rank = input.array.ndim
    if rank != indices.array.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{rank} dimensions for input, and {indices.array.ndim} dimensions for indices"
        )
    axis = dim_in(dim, rank)
    have, want = list(input.array.shape), list(indices.array.shape)
    common = [max(n, m) if 1 in (n, m) and n and m else n for n, m in zip(have, want, strict=True)]
    wide = tuple(have[axis] if d == axis else n for d, n in enumerate(common))
    tall = tuple(want[axis] if d == axis else n for d, n in enumerate(common))
    return into(out, gather_p(expand_p(input, wide), expand_p(_counted(indices, have[axis]), tall), axis))


def _counted(indices: Tensor, size: int) -> Tensor:
    """Return indices counted from the front."""
    array = indices.array
    if isinstance(array, Payload) or (array.size and array.min() < 0):
        return where_p(indices < 0, indices + size, indices)
    return indices


def _put_along(x: Any, y: Any, i: Any, axis: Any) -> None:
    if type(x) is not ndarray and i.ndim == x.ndim > 0:
        others = (*x.shape[:axis], *x.shape[axis + 1 :]) == (*i.shape[:axis], *i.shape[axis + 1 :])
        if others and _put_on_gpu(x, y, i, axis, i.shape, "scatter", True):
            return
    at = _flat(x.shape, i, axis)
    flat = x.reshape(-1)
    values = y if y.ndim == 0 or y.shape == i.shape else module_of(x).broadcast_to(y, i.shape)
    flat[at.reshape(-1)] = values.reshape(-1) if y.ndim else y
    if not x.flags.c_contiguous and not np.may_share_memory(flat, x):
        x[...] = flat.reshape(x.shape)


def _put_on_gpu(x: Any, y: Any, i: Any, axis: int, shape: tuple[int, ...], op: str, each: bool = False) -> bool:
    """Write values of a shape, or one for all, in one launch; return whether that was done."""
    gpu = provider.gpu(x)
    if gpu is None or provider.gpu(i) is None:
        return False
    values = None if y is _ZERO else y
    if values is not None and (
        type(values) is not type(x) or values.dtype != x.dtype or values.shape not in ((), shape)
    ):
        return False
    return bool(gpu.gathering.put_at(x, i, values, axis, op, each))


def _scatter(x: Any, y: Any, i: Any, axis: Any) -> Any:
    out = _fresh(x)
    _put_along(out, y, i, axis)
    return out


def _scatter_batch(x: Any, y: Any, i: Any, axis: Any) -> Any:
    return scatter_p(x, _grown(y, i.ndim), i, axis + 1)


def _of_elements(rule: Any) -> Any:
    """Return a batching rule that takes 0-d elements, by giving them a dimension of size 1."""

    def batch(x: Any, y: Any, i: Any, *params: Any) -> Any:
        if x.ndim > 1:
            return rule(x, y, _grown(i, 2), *params)
        out = rule(_grown(x, 2), _grown(y, 2), _grown(i, 2), *params)
        return reshape_p(out, (x.shape[0],))

    return batch


def _tangents(tangents: Any, inputs: Any) -> tuple[Any, Any]:
    """Return tangents of the written tensor and of the values, zeros where there are none."""
    tx, ty = tangents[:2]
    zeros = _ZERO if getattr(inputs[1], "ndim", 0) == 0 else zeros_p(inputs[1])
    return (zeros_p(inputs[0]) if tx is None else tx), (zeros if ty is None else ty)


# Inputs: the tensor, the values at the shape of the index (or a number), the index.
scatter_p: Primitive = nary(
    _scatter,
    inputs=3,
    x=lambda g, i, axis: scatter_p(g, _ZERO, i, axis),
    y=lambda g, i, axis: gather_p(g, i, axis),
    jvp=lambda tangents, inputs, out, params: scatter_p(*_tangents(tangents, inputs), inputs[2], *params),
    batch=_of_elements(_scatter_batch),
    into=_put_along,
    saved={"i": "index", "axis": "dim"},
)


def _scatter_add(x: Any, y: Any, i: Any, axis: Any) -> Any:
    out = _fresh(x)
    _add_along(out, y, i, axis)
    return out


def _read(g: Any, i: Any, axis: Any) -> Any:
    """Gather from a gradient; from one number, repeated, comes the same."""
    if g.size and uniform(g):
        return copied(np.broadcast_to(g[(0,) * g.ndim], i.shape))
    return gather_p(g, i, axis)


scatter_add_p: Primitive = nary(
    _scatter_add,
    inputs=3,
    x=lambda g: g,
    y=lambda g, i, axis: _read(g, i, axis),
    jvp=lambda tangents, inputs, out, params: scatter_add_p(*_tangents(tangents, inputs), inputs[2], *params),
    batch=_of_elements(lambda x, y, i, axis: scatter_add_p(x, y, i, axis + 1)),
    into=_add_along,
    saved={"i": "index", "axis": "dim"},
)
_scatter_, _scatter_add_ = inplace(scatter_p), inplace(scatter_add_p)


def _check_number(value: Any, input: Tensor, op: str) -> None:
    if not isinstance(value, int | float | complex | np.generic):
        raise TypeError(f"{op}() received an invalid combination of arguments - got a value of {type(value).__name__}")
    if isinstance(value, complex) and input.array.dtype.kind != "c":
        raise RuntimeError(f"value cannot be converted to type float without overflow: {op}(value={value})")
    check_fits(value, of(input.array.dtype))


def _scatter_operands(input: Tensor, dim: int | None, index: Tensor, src: Any, op: str) -> tuple[int, Any]:
    """Return the axis, and the values cut to the shape of the index."""
    check_index(index, op)
    axis = dim_in(dim, input.array.ndim)
    if not isinstance(src, TensorBase):
        if src is None:
            raise missing(op, "src")
        if not op.removesuffix("_") == "scatter":
            raise TypeError(f"{op}(): argument 'src' must be Tensor, not {type(src).__name__}")
        _check_number(src, input, op)
        if index.array.size:
            _check_gather(input, index, axis, op)
        return axis, literal(place_array(np.array(src, input.array.dtype), device_of(input.array)))
    if src.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"{op}(): Expected self.dtype to be equal to src.dtype, got {of(input.array.dtype).name} and "
            f"{of(src.array.dtype).name}"
        )
    if not index.array.size:
        return axis, slice_p(src, tuple(slice(0, n) for n in index.array.shape) + (...,))
    _check_gather(input, index, axis, op)
    have, want = src.array.shape, index.array.shape
    if max(len(have), 1) != max(len(want), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if have == want or not want or not have:
        return axis, reshape_p(src, want) if have != want else src
    if any(n > m for n, m in zip(want, have, strict=True)):
        raise RuntimeError(
            f"Expected index {list(want)} to be no larger than self {list(input.array.shape)} apart from "
            f"dimension {axis} and to be no larger size than src {list(have)}"
        )
    return axis, slice_p(src, (*(slice(0, n) for n in want), ...))


_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def _reduction(reduce: str) -> str:
    if reduce not in _REDUCTIONS:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return _REDUCTIONS[reduce]


def scatter(
    input: Tensor, dim: int | None = None, index: Any = None, src: Any = None, *, value: Any = None,
    reduce: str | None = None, out: Any = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with `src` written along `dim` where `index` names places.

    Examples
    --------
    >>> adjoint.scatter(adjoint.zeros(2, 3), 1, adjoint.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    dim = dim if axis is None else either(dim, axis)
    given = value if src is None else src
    if reduce is not None:
        return into(out, scatter_reduce(input, dim, index, _as_source(input, index, given), _reduction(reduce)))
    axis, values = _scatter_operands(input, dim, index, given, "scatter")
    written = scatter_p(input, values, index, axis)
    return into(out, written if isinstance(given, TensorBase) else fold(written, "ScatterBackward1", input, dim=axis))


def scatter_(
    input: Tensor, dim: int | None = None, index: Any = None, src: Any = None, *, value: Any = None,
    reduce: str | None = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Write `src` along `dim` where `index` names places, in place."""
    dim = dim if axis is None else either(dim, axis)
    given = value if src is None else src
    if reduce is not None:
        return scatter_reduce_(input, dim, index, _as_source(input, index, given), _reduction(reduce))
    axis, values = _scatter_operands(input, dim, index, given, "scatter_")
    return _scatter_(input, values, index, axis)


def _as_source(input: Tensor, index: Tensor, value: Any) -> Any:
    if isinstance(value, TensorBase):
        return value
    if value is None:
        raise missing("scatter", "src")
    _check_number(value, input, "scatter")
    return wrap(literal(module_of(input.array).full(index.array.shape, value, input.array.dtype)))


@autocasting
def scatter_add(
    input: Tensor, dim: int | None = None, index: Any = None, src: Any = None, *, out: Any = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with `src` added along `dim` where `index` names places; names may repeat."""
    dim = dim if axis is None else either(dim, axis)
    axis, values = _scatter_operands(input, dim, index, src, "scatter_add")
    return into(out, scatter_add_p(input, values, index, axis))


def scatter_add_(
    input: Tensor, dim: int | None = None, index: Any = None, src: Any = None, *, axis: int | None = None
) -> Tensor:
    """Add `src` along `dim` where `index` names places, in place."""
    dim = dim if axis is None else either(dim, axis)
    axis, values = _scatter_operands(input, dim, index, src, "scatter_add_")
    return _scatter_add_(input, values, index, axis)


# --- scatter_reduce ---------------------------------------------------------------------------------

_STARTS = {"sum": 0, "mean": 0, "prod": 1}


def _scatter_reduce(x: Any, y: Any, i: Any, axis: Any, reduce: Any, include_self: Any) -> Any:
    xp = module_of(x)
    if xp is not np and x.dtype.itemsize < 4:  # a GPU's atomics know no smaller numbers
        wide = np.dtype(np.int32 if x.dtype.kind in "iub" else np.float32)
        return _scatter_reduce(x.astype(wide), y.astype(wide), i, axis, reduce, include_self).astype(x.dtype)
    out = _fresh(x)
    flat = out.reshape(-1)
    at = _flat(x.shape, i, axis).reshape(-1)
    values = xp.broadcast_to(y, i.shape).reshape(-1)
    if not include_self:
        if reduce in _STARTS:
            flat[at] = _STARTS[reduce]
        else:
            flat[at] = _worst(x.dtype, reduce)
    if reduce in _JOINS and xp is not np:
        flat = _joined_on_gpu(flat, at, values, reduce)
    elif reduce in _JOINS:
        _JOINS[reduce].at(flat, at, values)
    else:
        xp.add.at(flat, at, values)
    if reduce == "mean":
        count = xp.full(flat.shape, int(include_self), np.int64)
        xp.add.at(count, at, 1)
        xp.maximum(count, 1, out=count)
        flat[...] = flat / count if x.dtype.kind not in "iu" else flat // count
    return flat.reshape(x.shape)


_JOINS: dict[str, Any] = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _joined_on_gpu(flat: Any, at: Any, values: Any, reduce: str) -> Any:
    from ..devices.cuda import joining  # imports CuPy

    if flat.dtype.char not in joining.KINDS:
        return _joined(flat, at, values, reduce)
    xp = module_of(flat)
    flat, at = xp.ascontiguousarray(flat), xp.ascontiguousarray(at, dtype=np.int64)
    joining.join_at(flat, at, xp.ascontiguousarray(values, dtype=flat.dtype), reduce)
    return flat


@through_host("scatter_reduce (prod) of complex numbers")
def _joined(flat: Any, at: Any, values: Any, reduce: str) -> Any:
    _JOINS[reduce].at(flat, at, values)
    return flat


def _worst(dtype: Any, reduce: str) -> Any:
    """Return the value that every other one replaces."""
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if reduce == "amax" else info.max
    return -math.inf if reduce == "amax" else math.inf


def _scatter_reduce_joint(g: Any, x: Any, y: Any, i: Any, out: Any, axis: Any, reduce: Any, include_self: Any) -> Any:
    if reduce == "sum":
        gx, gy = g, gather_p(g, i, axis)
    elif reduce == "mean":
        ones = _full_like(i, y, 1)
        count = scatter_add_p(_full_like(x, x, int(include_self)), ones, i, axis)
        share = g / where_p(count == 0, 1, count)
        gx, gy = share, gather_p(share, i, axis)
    elif reduce == "prod":
        gx, gy = _scatter_prod(g, x, y, i, out, axis, include_self)
    else:
        is_x = cast_p(x == out, _dtype_of(x))
        is_y = cast_p(y == gather_p(out, i, axis), _dtype_of(x))
        if not include_self:
            is_x = scatter_p(is_x, _ZERO, i, axis)
        share = g / scatter_add_p(is_x, is_y, i, axis)
        gx, gy = is_x * share, is_y * gather_p(share, i, axis)
    if not include_self:
        gx = scatter_p(gx, _ZERO, i, axis)
    return gx, gy, None


def _scatter_prod(g: Any, x: Any, y: Any, i: Any, out: Any, axis: Any, include_self: Any) -> tuple[Any, Any]:
    """Return the gradients of a product, where factors that are zero must not hide the others.

    Beside one zero more, the gradient of a zero is zero, but depends on that other one, which second derivatives need:
    it is the sum of all zeros of the place without the zero itself.
    """
    one = where_p(x == 0, 1, x)
    gx = g * scatter_reduce_p(one, y, i, axis, "prod", include_self) / one
    absent = y == 0
    nothing = _full_like(x, x, 0)
    zeros = gather_p(scatter_add_p(nothing, cast_p(absent, _dtype_of(x)), i, axis), i, axis)
    others = gather_p(scatter_add_p(nothing, where_p(absent, y, 0), i, axis), i, axis) - y
    rest = scatter_reduce_p(x, where_p(absent, 1, y), i, axis, "prod", include_self)
    alone = where_p(zeros == 1, 1, where_p(zeros == 2, others, 0)) * gather_p(g * rest, i, axis)
    return gx, where_p(absent, alone, gather_p(g * out, i, axis) / where_p(absent, 1, y))


def _dtype_of(x: Any) -> Any:
    return x.array.dtype if isinstance(x, TensorBase) else x.dtype


def _full_like(shaped: Any, typed: Any, value: Any) -> Any:
    """Return an array of one value, with the shape of one value and the dtype of another."""
    inner = shaped.array if isinstance(shaped, TensorBase) else shaped
    return literal(places.adopt(module_of(inner).full(shaped.shape, value, _dtype_of(typed))))


def _scatter_reduce_jvp(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
    tx, ty = tangents[:2]
    x, y, i = inputs
    axis, reduce, include_self = params
    tx = zeros_p(x) if tx is None else tx
    ty = zeros_p(y) if ty is None else ty
    if reduce in ("sum", "mean"):
        return scatter_reduce_p(tx, ty, i, axis, reduce, include_self)
    if reduce == "prod":
        gx, gy = _scatter_prod(_full_like(x, x, 1), x, y, i, out, axis, include_self)
        tx, ty = tx * gx, ty * gy
        return scatter_add_p(scatter_p(tx, _ZERO, i, axis) if not include_self else tx, ty, i, axis)
    is_x = cast_p(x == out, _dtype_of(x))
    is_y = cast_p(y == gather_p(out, i, axis), _dtype_of(x))
    if not include_self:
        is_x = scatter_p(is_x, _ZERO, i, axis)
    return scatter_add_p(is_x * tx, is_y * ty, i, axis) / scatter_add_p(is_x, is_y, i, axis)


scatter_reduce_p: Primitive = nary(
    _scatter_reduce,
    inputs=3,
    joint=_scatter_reduce_joint,
    jvp=_scatter_reduce_jvp,
    batch=_of_elements(
        lambda x, y, i, axis, reduce, include_self: scatter_reduce_p(x, y, i, axis + 1, reduce, include_self)
    ),
    saved={"i": "index", "axis": "dim", "y": "src"},
)
_scatter_reduce_ = inplace(scatter_reduce_p)
_REDUCES = ("sum", "prod", "mean", "amax", "amin")


def _check_reduce(reduce: str | None, op: str) -> None:
    if reduce is None:
        raise missing(op, "reduce")
    if reduce not in _REDUCES:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")


def scatter_reduce(
    input: Tensor, dim: int | None = None, index: Any = None, src: Any = None, reduce: str | None = None, *,
    include_self: bool = True, out: Any = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` reduced with the values of `src` that `index` sends to each place along `dim`."""
    dim = dim if axis is None else either(dim, axis)
    _check_reduce(reduce, "scatter_reduce")
    axis, values = _scatter_operands(input, dim, index, src, "scatter_reduce")
    return into(out, scatter_reduce_p(input, values, index, axis, reduce, include_self))


def scatter_reduce_(
    input: Tensor, dim: int | None = None, index: Any = None, src: Any = None, reduce: str | None = None, *,
    include_self: bool = True, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Reduce `input` with the values of `src` that `index` sends to each place along `dim`, in place."""
    dim = dim if axis is None else either(dim, axis)
    _check_reduce(reduce, "scatter_reduce_")
    axis, values = _scatter_operands(input, dim, index, src, "scatter_reduce_")
    return _scatter_reduce_(input, values, index, axis, reduce, include_self)


# --- index_select, index_add, index_copy, index_fill ------------------------------------------------
# Here an index is a vector: it names slices along `axis`.


def _index_select(x: Any, i: Any, axis: Any) -> Any:
    if type(i) is ndarray:
        check_rows(i, x.shape[axis] if x.ndim else 1)
        if axis == 0 and x.size > _MANY and type(x) is ndarray:
            found = gathering_kernels.taken_rows(x, i.reshape(-1))
            if found is not None:
                return found
    return taken(x if x.ndim else x.reshape(1), beside(x, i).reshape(-1), axis, "index_select")


def _filling(y: Any, x: Any, i: Any, axis: Any) -> Any:
    """Return the one value of each element of a batch, at the shape of the slices it fills."""
    return expand_p(reshape_p(y, (y.shape[0], *(1,) * (x.ndim - 1))), _row_batch(x, i, axis).shape)


def _row_batch(x: Any, i: Any, axis: Any) -> Any:
    """Return one index per element of a batch as an index for `gather`: it names whole slices."""
    i = _grown(i, 2)
    shape = (i.shape[0], *(1,) * axis, i.shape[1], *(1,) * (x.ndim - axis - 2))
    full = (*x.shape[: axis + 1], i.shape[1], *x.shape[axis + 2 :])
    return expand_p(reshape_p(i, shape), full)


def _unselected(g: Any, i: Any, x_shape: Any, axis: Any) -> Any:
    if type(g) is not ndarray and x_shape and (gpu := provider.gpu(g)) is not None and provider.gpu(i) is not None:
        found = gpu.gathering.summed(g, i, x_shape, axis, False)
        if found is not None:
            return found
    out = _zeros(g, x_shape)
    if type(g) is ndarray and type(i) is ndarray:
        _add_slices(out, g, i, axis)
        return out
    return index_add_p(out, g, i, axis)


index_select_p: Any = nary(
    _index_select,
    inputs=2,
    x=_unselected,
    jvp=lambda tangents, inputs, out, params: index_select_p(tangents[0], inputs[1], *params),
    batch=lambda x, i, axis: gather_p(x, _row_batch(x, i, axis), axis + 1) if x.ndim > 1 else clone_p(x),
    saved={"i": "index", "axis": "dim"},
)


def _zeros(g: Any, shape: Any) -> Any:
    """Return zeros of a shape where `g` is: raw, since they carry no history."""
    raw = g.array if isinstance(g, TensorBase) else g
    xp = np if isinstance(raw, Payload) else module_of(raw)
    return literal(xp.zeros(shape, raw.dtype))


def _add_slices(x: Any, y: Any, i: Any, axis: Any) -> None:
    if type(i) is ndarray:
        check_rows(i, x.shape[axis] if x.ndim else 1)
    if x.ndim == 0:
        x[...] = x + y.sum(dtype=x.dtype)
        return
    if type(x) is not ndarray:
        gpu = provider.gpu(x)
        whole = getattr(y, "shape", None) == (*x.shape[:axis], i.size, *x.shape[axis + 1 :])
        if gpu is None or not whole or not gpu.gathering.add_at(x, i, y, axis, False, op="index_add"):
            _check_range(i, x.shape[axis], axis, "index_add")
            module_of(x).add.at(x, (*(_ALL,) * axis, i.reshape(-1)), y)
        return
    count, length = i.size, x.shape[axis]
    width = x.size // max(length, 1)
    front = x.swapaxes(0, axis) if axis else x
    rows = front.reshape(length, width)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    values = y if y.shape == shape else np.broadcast_to(y, shape)
    add_rows(rows, i.reshape(-1), (values.swapaxes(0, axis) if axis else values).reshape(count, width))
    if not np.may_share_memory(rows, x):
        front[...] = rows.reshape(front.shape)


def check_rows(i: Any, size: int) -> None:
    """Raise if an index names a row that there is not."""
    if outside(i, size):
        low, high = i.min(), i.max()
        raise IndexError(f"index out of range in self: {low if low < 0 else high} for a dimension of size {size}")


def _index_add(x: Any, y: Any, i: Any, axis: Any) -> Any:
    out = _fresh(x)
    _add_slices(out, y, i, axis)
    return out


index_add_p: Primitive = nary(
    _index_add,
    inputs=3,
    x=lambda g: g,
    y=lambda g, i, y_shape, axis: index_select_p(g, i, axis).reshape(y_shape),
    jvp=lambda tangents, inputs, out, params: index_add_p(*_tangents(tangents, inputs), inputs[2], *params),
    batch=_of_elements(lambda x, y, i, axis: scatter_add_p(x, y, _row_batch(y, i, axis), axis + 1)),
    into=_add_slices,
    saved={"i": "index", "axis": "dim"},
)


def _put_slices(x: Any, y: Any, i: Any, axis: Any) -> None:
    if type(i) is ndarray:
        check_rows(i, x.shape[axis] if x.ndim else 1)
    if x.ndim == 0:
        x[...] = y.reshape(-1)[-1] if getattr(y, "ndim", 0) else y
    elif type(x) is ndarray:
        x[(*(_ALL,) * axis, i.reshape(-1))] = y
    elif not _put_on_gpu(x, y, i, axis, (*x.shape[:axis], i.size, *x.shape[axis + 1 :]), "index_copy or index_fill"):
        _check_range(i, x.shape[axis], axis, "index_copy or index_fill")
        x[(*(_ALL,) * axis, i.reshape(-1))] = y


def _index_copy(x: Any, y: Any, i: Any, axis: Any) -> Any:
    out = _fresh(x)
    _put_slices(out, y, i, axis)
    return out


index_copy_p: Primitive = nary(
    _index_copy,
    inputs=3,
    x=lambda g, i, axis: index_fill_p(g, _ZERO, i, axis),
    y=lambda g, i, y_shape, axis: index_select_p(g, i, axis).reshape(y_shape),
    jvp=lambda tangents, inputs, out, params: index_copy_p(*_tangents(tangents, inputs), inputs[2], *params),
    batch=_of_elements(lambda x, y, i, axis: scatter_p(x, y, _row_batch(y, i, axis), axis + 1)),
    into=_put_slices,
    saved={"i": "index", "axis": "dim"},
)
index_fill_p: Primitive = nary(
    _index_copy,
    inputs=3,
    name="index_fill",
    x=lambda g, i, axis: index_fill_p(g, _ZERO, i, axis),
    # Of a place that is named twice there is still one element.
    y=lambda g, i, axis: (g - index_fill_p(g, _ZERO, i, axis)).sum(),
    jvp=lambda tangents, inputs, out, params: index_fill_p(*_tangents(tangents, inputs), inputs[2], *params),
    batch=_of_elements(lambda x, y, i, axis: scatter_p(x, _filling(y, x, i, axis), _row_batch(x, i, axis), axis + 1)),
    into=_put_slices,
    saved={"i": "index", "axis": "dim"},
)
_index_add_, _index_copy_, _index_fill_ = inplace(index_add_p), inplace(index_copy_p), inplace(index_fill_p)


def _slice_index(index: Any, op: str) -> Any:
    require_tensor(index, "index", op)
    if op.startswith("index_fill"):
        if of(index.array.dtype).name not in ("int64", "int32") and index.array.size:
            raise IndexError(f"{op}(): Expected dtype int64 for index, got {of(index.array.dtype).name}")
        if index.array.ndim > 1:
            raise RuntimeError(f"{op}(): Index has to be a vector/scalar, but got dim: {index.array.ndim}")
    elif index.array.ndim > 1:
        words = "Index should have dimension 1 or 0" if "copy" in op else "Index is supposed to be a vector"
        raise IndexError(f"{op}(): {words}, but got dim: {index.array.ndim}")
    check_index(index, op)
    return index


def index_select(
    input: Tensor, dim: int | None = None, index: Any = None, *, out: Any = None, axis: int | None = None
) -> Tensor:
    """Copy the slices along `dim` that a vector names.

    Examples
    --------
    >>> adjoint.index_select(adjoint.arange(6).reshape(2, 3), 1, adjoint.tensor([2, 0]))
    tensor([[2, 0],
            [5, 3]])
    """
    dim = dim if axis is None else either(dim, axis)
    _slice_index(index, "index_select")
    apart(out, input, index)
    if index.array.ndim == 0:
        index = reshape(index, 1)
    result = index_select_p(input, index, dim_in(dim, input.array.ndim))
    return into(out, result if input.array.ndim else reshape(result, ()) if index.array.size == 1 else result)


def _slices_operands(input: Tensor, dim: int | None, index: Tensor, source: Any, op: str) -> tuple[int, Tensor, Any]:
    require_tensor(source, "source", op)
    _slice_index(index, op)
    rank = input.array.ndim
    axis = dim_in(dim, rank)
    if source.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"{op}(): self ({of(input.array.dtype).title}) and source ({of(source.array.dtype).title}) must have the "
            "same scalar type"
        )
    count = index.array.size
    have = source.array.shape
    if axis and axis >= len(have):
        raise RuntimeError(f"{op}(): Indexing dim {axis} is out of bounds of the source tensor with dim {len(have)}")
    if (have[axis] if have else 1) != count:
        error = IndexError if op.startswith("index_copy") else RuntimeError
        raise error(
            f"{op}(): Number of indices ({count}) should be equal to source.size(dim): "
            f"({have[axis] if have else 1}), for dim: {axis}"
        )
    want = (*input.array.shape[:axis], count, *input.array.shape[axis + 1 :]) if rank else have
    if have and rank and have != want:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(input.array.shape)} source.shape = {list(have)}"
        )
    if have != want:
        source = reshape(source, want)
    return axis, index if index.array.ndim == 1 else reshape(index, -1), source


def index_add(
    input: Tensor, dim: int | None = None, index: Any = None, source: Any = None, *, alpha: Any = 1,
    out: Any = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with `alpha` times slices of `source` added where a vector names them.

    Examples
    --------
    >>> adjoint.zeros(3).index_add(0, adjoint.tensor([0, 0, 2]), adjoint.ones(3))
    tensor([2., 0., 1.])
    """
    dim = dim if axis is None else either(dim, axis)
    axis, index, source = _slices_operands(input, dim, index, source, "index_add")
    added = index_add_p(input, source if alpha == 1 else source * alpha, index, axis)
    return into(out, added if alpha == 1 else fold(added, "IndexAddBackward0", input, source, alpha=alpha, dim=axis))


def index_add_(
    input: Tensor, dim: int | None = None, index: Any = None, source: Any = None, *, alpha: Any = 1,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Add `alpha` times slices of `source` where a vector names them, in place."""
    dim = dim if axis is None else either(dim, axis)
    axis, index, source = _slices_operands(input, dim, index, source, "index_add_")
    return _index_add_(input, source if alpha == 1 else source * alpha, index, axis)


@autocasting
def index_copy(
    input: Tensor, dim: int | None = None, index: Any = None, source: Any = None, *, out: Any = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with slices of `source` where a vector names them."""
    dim = dim if axis is None else either(dim, axis)
    axis, index, source = _slices_operands(input, dim, index, source, "index_copy")
    return into(out, index_copy_p(input, source, index, axis))


def index_copy_(
    input: Tensor, dim: int | None = None, index: Any = None, source: Any = None, *, axis: int | None = None
) -> Tensor:
    """Write slices of `source` where a vector names them, in place."""
    dim = dim if axis is None else either(dim, axis)
    axis, index, source = _slices_operands(input, dim, index, source, "index_copy_")
    return _index_copy_(input, source, index, axis)


def _fill_operands(input: Tensor, dim: int | None, index: Tensor, value: Any, op: str) -> tuple[int, Tensor, Any]:
    _slice_index(index, op)
    if isinstance(value, TensorBase):
        if value.array.ndim:
            raise RuntimeError(
                f"{op} only supports a 0-dimensional value tensor, but got tensor with {value.array.ndim} dimension(s)."
            )
        if value.array.dtype != input.array.dtype:
            value = cast_p(value, input.array.dtype)
    elif value is None:
        raise missing(op, "value")
    else:
        _check_number(value, input, op)
        value = literal(place_array(number_array(value, of(input.array.dtype)), device_of(input.array)))
    return dim_in(dim, input.array.ndim), reshape(index, -1), value


def index_fill(
    input: Tensor, dim: int | None = None, index: Any = None, value: Any = None, *, axis: int | None = None
) -> Tensor:
    """Return `input` with one value in the slices that a vector names."""
    dim = dim if axis is None else either(dim, axis)
    axis, index, given = _fill_operands(input, dim, index, value, "index_fill")
    filled = index_fill_p(input, given, index, axis)
    return fold(filled, "IndexFillBackward1", input, value) if isinstance(value, TensorBase) else filled


def index_fill_(
    input: Tensor, dim: int | None = None, index: Any = None, value: Any = None, *, axis: int | None = None
) -> Tensor:
    """Write one value into the slices that a vector names, in place."""
    dim = dim if axis is None else either(dim, axis)
    axis, index, value = _fill_operands(input, dim, index, value, "index_fill_")
    return _index_fill_(input, value, index, axis)


def _slices_as_places(input: Tensor, dim: int | None, index: Tensor, source: Tensor) -> tuple[int, Tensor]:
    require_tensor(source, "source", "index_reduce")
    axis = dim_in(dim, input.array.ndim)
    rank = input.array.ndim
    if axis and axis >= source.array.ndim:
        raise RuntimeError(
            f"index_reduce_(): Indexing dim {axis} is out of bounds of the source tensor with dim {source.array.ndim}"
        )
    count = source.array.shape[axis] if source.array.ndim else 1
    if index.array.size != count:
        raise RuntimeError(
            f"index_reduce_(): Number of indices ({index.array.size}) should be equal to source.size(dim): ({count}), "
            f"for dim: {axis}"
        )
    have, want = list(source.array.shape), list(input.array.shape)
    if len(have) != rank or (rank and have[:axis] + have[axis + 1 :] != want[:axis] + want[axis + 1 :]):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {want} source.shape = {have}"
        )
    vector = reshape(index, (1,) * axis + (-1,) + (1,) * (rank - axis - 1) if rank else ())
    return axis, expand_p(vector, source.array.shape)


def index_reduce(
    input: Tensor, dim: int | None = None, index: Any = None, source: Any = None, reduce: str | None = None, *,
    include_self: bool = True, out: Any = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` reduced ("prod", "mean", "amax", "amin") with the slices of `source` sent to each place."""
    dim = dim if axis is None else either(dim, axis)
    axis, places = _slices_as_places(input, dim, _slice_index(index, "index_reduce"), source)
    found = scatter_reduce(input, axis, places, source, reduce, include_self=include_self, out=out)
    return fold(found, "IndexReduceBackward0", input, source, dim=axis, reduce=reduce, include_self=include_self)


def index_reduce_(
    input: Tensor, dim: int | None = None, index: Any = None, source: Any = None, reduce: str | None = None, *,
    include_self: bool = True, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Reduce `input` with the slices of `source` sent to each place, in place."""
    dim = dim if axis is None else either(dim, axis)
    axis, places = _slices_as_places(input, dim, _slice_index(index, "index_reduce_"), source)
    return scatter_reduce_(input, axis, places, source, reduce, include_self=include_self)


# --- take and put: as if there were one dimension ---------------------------------------------------


def _take(x: Any, i: Any) -> Any:
    try:
        return x.reshape(-1).take(i) if type(x) is ndarray else taken(x.reshape(-1), i, 0, "take")
    except IndexError:
        worst = i.max() if i.max() >= x.size else i.min()
        raise IndexError(f"out of range: tried to access index {worst} on a tensor of {x.size} elements.") from None


take_p: Primitive = nary(
    _take,
    inputs=2,
    x=lambda g, i, x_shape: reshape_p(unindex_p((g, i), (math.prod(x_shape),), (0,)), x_shape),
    jvp=lambda tangents, inputs, out, params: take_p(tangents[0], inputs[1]),
    batch=lambda x, i: _take_batch(x, i),
    saved={"i": "index"},
)


def _take_batch(x: Any, i: Any) -> Any:
    size = x.shape[0]
    flat = reshape_p(x, (size, math.prod(x.shape[1:])))
    rows = np.arange(size).reshape(size, *(1,) * (i.ndim - 1))
    return index_p((flat, rows, i), (0, 1))


def take(input: Tensor, index: Tensor, *, out: Any = None) -> Tensor:
    """Pick elements as if `input` had one dimension; the result has the shape of `index`.

    Examples
    --------
    >>> adjoint.take(adjoint.tensor([[1, 2], [3, 4]]), adjoint.tensor([0, -1]))
    tensor([1, 4])
    """
    check_index(index, "take")
    if index.array.dtype.name != "int64":
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {title_of(index.array.dtype)}")
    apart(out, input, index)
    return into(out, take_p(input, index))


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return `input` with elements written as if it had one dimension."""
    if is_batch(index):
        check_index(index, "put_")
        size = math.prod(input.array.shape)
        places = reshape_p(where_p(index < 0, index + size, index), (math.prod(index.array.shape),))
        flat, written = (reshape_p(t, (math.prod(t.array.shape),)) for t in (input, source))
        write = scatter_add if accumulate else scatter
        return reshape_p(write(flat, 0, places, written), tuple(input.array.shape))
    written = put_(copy_for(source, input), index, source, accumulate)
    return fold(written, "PutBackward0", input, source, accumulate=accumulate)


def _coordinates(at: Any, size: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(np.unravel_index(np.where(at < 0, at + size, at), shape))


def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Write elements as if `input` had one dimension, in place."""
    check_index(index, "put_")
    if source.array.dtype != input.array.dtype:
        raise RuntimeError("put_(): self and source expected to have the same dtype")
    if source.array.size != index.array.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() "
            f"= {source.array.size}, index.numel() = {index.array.size}"
        )
    at = index.array
    shape = input.array.shape
    size = math.prod(shape)
    if at.size and (at.min() < -size or at.max() >= size):
        worst = int(at.max() if at.max() >= size else at.min())
        raise IndexError(f"out of range: tried to access index {worst} on a tensor of {size} elements.")
    if not shape:
        if at.size:
            input[...] = source.reshape(-1)[-1] if not accumulate else input + source.sum()
        return input
    coordinates = tuple(wrap(c) for c in opaque("coordinates", _coordinates, index, size, shape))
    return input.index_put_(coordinates, reshape(source, at.shape), accumulate)


# --- Masks ------------------------------------------------------------------------------------------


def _masked_select(x: Any, mask: Any) -> Any:
    return x[mask]


masked_select_p: Primitive = nary(
    _masked_select,
    inputs=2,
    x=lambda g, mask, x_shape: unindex_p((g, mask), x_shape, (0,)),
    jvp=lambda tangents, inputs, out, params: masked_select_p(tangents[0], inputs[1]),
    batch=lambda x, mask: index_batch((x, mask), (0,)),
)


def masked_select(input: Tensor, mask: Tensor, *, out: Any = None) -> Tensor:
    """Return the elements where a mask, broadcast against `input`, is true, in one dimension.

    Examples
    --------
    >>> x = adjoint.tensor([1, 2, 3])
    >>> adjoint.masked_select(x, x > 1)
    tensor([2, 3])
    """
    _check_bool(mask, "masked_select")
    apart(out, input, mask)
    if is_batch(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in adjoint.masked_select(self, mask). We cannot support this because "
            "for each batch this would return a differently shaped Tensor. Use adjoint.where."
        )
    whole = input
    if input.array.shape != mask.array.shape:
        whole, mask = broadcast_tensors(input, mask)
    if modes.unusual and not whole.array.shape:
        whole, mask = reshape_p(whole, (1,)), reshape_p(mask, (1,))
    return into(out, fold(masked_select_p(whole, mask), "MaskedSelectBackward0", input))


def _check_bool(mask: Any, op: str) -> None:
    require_tensor(mask, "mask", op)
    if mask.array.dtype != bool:
        raise RuntimeError(
            f"{op}: expected BoolTensor for mask, got {of(mask.array.dtype).name}; compare or .bool() it ({op}_ only "
            "supports boolean masks)"
        )


def _masked_scatter(x: Any, y: Any, mask: Any) -> Any:
    out = _fresh(x)
    _put_masked(out, y, mask)
    return out


def _put_masked(x: Any, y: Any, mask: Any) -> None:
    mask = module_of(x).broadcast_to(mask, x.shape)
    count = int(mask.sum())
    if y.size < count:
        raise RuntimeError(
            f"masked_scatter: Number of elements of source < number of ones in mask ({y.size} < {count})"
        )
    x[mask] = y.reshape(-1)[:count]


def _masked_scatter_y(g: Any, mask: Any, y_shape: Any) -> Any:
    if is_batch(mask) or is_captured():
        return _masked_scatter_y_fixed(g, mask, y_shape)
    taken = masked_select_p(g, mask)
    count = taken.shape[0]
    return place_p(taken, (math.prod(y_shape),), (slice(0, count), ...)).reshape(y_shape)


def _masked_scatter_y_fixed(g: Any, mask: Any, y_shape: Any) -> Any:
    """Do as `_masked_scatter_y`, in a fixed shape: what was not written adds to a place past the end."""
    from .scan import cumsum_p  # which stands on this room

    count = math.prod(y_shape)
    flat = reshape_p(mask, (-1,))
    places = where_p(flat, cumsum_p(cast_p(flat, _int64), 0, False) - 1, count)
    return reshape_p(slice_p(ungather_p(reshape_p(g, (-1,)), places, (count + 1,), 0), (slice(0, count), ...)), y_shape)


masked_scatter_p: Primitive = nary(
    _masked_scatter,
    inputs=3,
    x=lambda g, mask: where_p(mask, 0, g),
    y=_masked_scatter_y,
    jvp=lambda tangents, inputs, out, params: masked_scatter_p(
        *(zeros_p(x) if t is None else t for t, x in zip(tangents[:2], inputs[:2], strict=True)), inputs[2]
    ),
    into=_put_masked,
)
_masked_scatter_ = inplace(masked_scatter_p)


def _scatter_mask(input: Tensor, mask: Tensor, source: Tensor, op: str) -> Tensor:
    _check_bool(mask, op)
    if source.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"{op}: expected self and source to have same dtypes but got {of(input.array.dtype).name} and "
            f"{of(source.array.dtype).name}"
        )
    return expand_p(mask, input.array.shape) if mask.array.shape != input.array.shape else mask


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `input` with elements of `source`, one after the other, where a mask is true."""
    whole = input
    if input.array.shape != mask.array.shape:
        whole, mask = broadcast_tensors(input, mask)
    written = masked_scatter_p(whole, source, _scatter_mask(whole, mask, source, "masked_scatter"))
    return fold(written, "MaskedScatterBackward0", input, source)


def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write elements of `source`, one after the other, where a mask is true, in place."""
    return _masked_scatter_(input, source, _scatter_mask(input, mask, source, "masked_scatter_"))
