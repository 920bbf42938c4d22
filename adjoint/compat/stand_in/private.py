"""Functions of ``torch._utils``, ``torch._prims_common`` and ``torch._functorch`` that programs call."""

from __future__ import annotations

import enum
import importlib
import math
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ...core import dtypes
from ...core.device import as_device
from ...core.layout import row_major
from ...core.payload import inside, is_batch, payload_of
from ...core.tensor import TensorBase
from ...func import batch, forward, jacobian, modules, reverse, values
from ...ops import namespace
from .functorch import DEPRECATED, MODULES_AS_FUNCTIONS, QUERIES

__all__ = ["FUNCTORCH", "PRIMS", "UTILS"]

words: Any = namespace

# --- torch._utils -----------------------------------------------------------------------------------


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """Return the elements of several tensors one after the other, as one vector."""
    return words.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return views of a vector in the shapes of several tensors."""
    parts = words.split(flat, [t.numel() for t in tensors])
    return tuple(part.view_as(t) for part, t in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Sequence[Any], size_limit: int) -> Any:
    """Yield groups of tensors of one dtype that have at most so many bytes, or one tensor."""
    groups: dict[str, list[Any]] = {}
    for tensor in tensors:
        group = groups.setdefault(tensor.type(), [])
        if group and sum(t.nbytes for t in group) + tensor.nbytes > size_limit:
            yield list(group)
            group.clear()
        group.append(tensor)
    yield from (group for group in groups.values() if group)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the number of a device."""
    if isinstance(device, int):
        return device
    place = None if device is None else as_device(device)
    if place is not None and place.index is not None:
        return place.index
    if optional:
        return -1 if place is not None and place.type == "cpu" else 0
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")


def _element_size(dtype: dtypes.dtype) -> int:
    """Return the bytes per element."""
    return dtype.itemsize


def _import_dotted_name(name: str) -> Any:
    """Return what a dotted name leads to."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


class KeyErrorMessage(str):
    """A text that prints as it is where an exception shows its `repr`."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception of another thread or process, to be raised again in this one."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        self.where = where
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))

    def reraise(self) -> None:
        """Raise an exception of the same class, which says where it came from."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            error = self.exc_type(text)
        except Exception:  # a class that takes other arguments
            error = RuntimeError(text)
        raise error


class classproperty:
    """A property of a class."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self.fget(kind if kind is not None else type(owner))


UTILS: dict[str, Any] = {
    f.__name__: f
    for f in (
        _flatten_dense_tensors, _unflatten_dense_tensors, _take_tensors, _get_device_index, _element_size,
        _import_dotted_name, KeyErrorMessage, ExceptionWrapper, classproperty,
    )
}  # fmt: skip
UTILS |= {"is_compiling": lambda: False, "_is_privateuse1_backend_available": lambda: False}
UTILS |= {"_get_all_device_indices": lambda: [], "_get_available_device_type": lambda: None}


# --- torch._prims_common ----------------------------------------------------------------------------


def _is_of(*categories: int) -> Callable[[dtypes.dtype], bool]:
    return lambda dtype: dtype.category in categories


def _type_of(dtype: dtypes.dtype) -> type:
    """Return the class of Python's numbers that a dtype's elements are."""
    return (bool, int, float, complex)[dtype.category]


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """Return a dimension counted from the front."""
    size = 1 if rank == 0 and wrap_scalar else rank
    if not -size <= idx < size:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {idx})")
    return idx % size


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """Return dimensions counted from the front."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)


class ELEMENTWISE_TYPE_PROMOTION_KIND(enum.Enum):
    """How the dtype of a result is computed, in addition to type promotion."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


class REDUCTION_OUTPUT_TYPE_KIND(enum.Enum):
    """What the dtype of a reduction's result follows from."""

    SAME = (0,)
    COMPLEX_TO_FLOAT = (1,)
    KEEP_PROMOTED_TYPE = (2,)
    ALWAYS_BOOL = (3,)


def _computed_in(dtype: dtypes.dtype) -> dtypes.dtype:
    """Return the dtype in which torch computes with values of a dtype."""
    return dtypes.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype


def elementwise_dtypes(*args: Any, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND) -> tuple[Any, Any]:
    """Return the dtype that an elementwise op computes in, and the dtype of its result."""
    kinds, given = ELEMENTWISE_TYPE_PROMOTION_KIND, [a for a in args if a is not None]
    found = given[0].dtype if isinstance(given[0], TensorBase) else dtypes.of_number(given[0])  # type: ignore[attr-defined]
    total = given[0]
    for other in given[1:]:
        found = words.result_type(total, other)
        total = other if isinstance(other, TensorBase) else total
    if type_promotion_kind is kinds.INT_TO_FLOAT and found.category < 2:
        found = dtypes.default()
    if type_promotion_kind is kinds.BOOL_TO_LONG and found is dtypes.bool_:
        return dtypes.int64, dtypes.int64
    computed = found if type_promotion_kind is kinds.NO_OPMATH else _computed_in(found)
    if type_promotion_kind is kinds.COMPLEX_TO_FLOAT and found.is_complex:
        return computed, found.to_real()
    return computed, dtypes.bool_ if type_promotion_kind is kinds.ALWAYS_BOOL else found


def _check(condition: Any, message: Callable[[], str], kind: type[Exception] = RuntimeError) -> None:
    """Raise unless a condition holds."""
    if not condition:
        raise kind(message())


PRIMS: dict[str, Any] = {
    "ELEMENTWISE_TYPE_PROMOTION_KIND": ELEMENTWISE_TYPE_PROMOTION_KIND,
    "REDUCTION_OUTPUT_TYPE_KIND": REDUCTION_OUTPUT_TYPE_KIND,
    "elementwise_dtypes": elementwise_dtypes,
    "get_computation_dtype": _computed_in,
    "is_low_precision_dtype": lambda dtype: dtype.is_floating_point and dtype.itemsize < 4,
    "check": _check,
    "same_shape": lambda a, b, **options: tuple(a) == tuple(b),
    "is_contiguous": lambda a, **options: a.is_contiguous(),
    "is_cpu_scalar_tensor": lambda a: isinstance(a, TensorBase) and a.array.ndim == 0,
    "reduction_dims": lambda shape, dims: canonicalize_dims(
        len(shape), tuple(range(len(shape))) if dims is None else dims
    ),
    "get_higher_dtype": lambda a, b: dtypes.promote_types(a, b),
    "dtype_or_default": lambda dtype: dtypes.default() if dtype is None else dtype,
    "device_or_default": lambda device: as_device("cpu") if device is None else device,
    "is_expandable_to": lambda shape, desired: words.broadcast_shapes(shape, desired) == tuple(desired),
    "is_boolean_dtype": _is_of(0),
    "is_integer_dtype": _is_of(0, 1),
    "is_float_dtype": _is_of(2),
    "is_complex_dtype": _is_of(3),
    "is_grad_dtype": _is_of(2, 3),
    "dtype_to_type": _type_of,
    "dtype_to_type_ctor": _type_of,
    "type_to_dtype": lambda kind: dtypes.of_number(kind()),
    "corresponding_real_dtype": lambda dtype: dtype.to_real(),
    "corresponding_complex_dtype": lambda dtype: dtype.to_complex(),
    "canonicalize_dim": canonicalize_dim,
    "canonicalize_dims": canonicalize_dims,
    "make_contiguous_strides_for": lambda shape, row_major_=True: tuple(row_major(tuple(shape))),
    "prod": math.prod,
    "is_same_shape": lambda a, b: tuple(a) == tuple(b),
    "TensorLike": TensorBase,
    "Number": (bool, int, float, complex),
    "NumberType": bool | int | float | complex,
    "ShapeType": Any,
    "TensorLikeType": Any,
}


# --- torch._functorch -------------------------------------------------------------------------------

_EAGER = {
    "grad": reverse.grad, "grad_and_value": reverse.grad_and_value, "vjp": reverse.vjp, "jvp": forward.jvp,
    "jacrev": jacobian.jacrev, "jacfwd": jacobian.jacfwd, "hessian": jacobian.hessian,
    "linearize": forward.linearize, "functionalize": values.functionalize, "debug_unwrap": values.debug_unwrap,
}  # fmt: skip


def _maybe_get_level(tensor: Any) -> int:
    """Return how deep the transform is whose value a tensor holds; -1 for a plain one."""
    payload = payload_of(tensor)
    numbers = [level.number for level in inside.levels]
    return numbers.index(payload.level) + 1 if payload is not None and payload.level in numbers else -1


_LEVELS = {
    "_add_batch_dim": batch._add_batch_dim, "_remove_batch_dim": batch._remove_batch_dim,
    "_vmap_increment_nesting": batch._vmap_increment_nesting,
    "_vmap_decrement_nesting": batch._vmap_decrement_nesting,
    "is_batchedtensor": is_batch, "is_functorch_wrapped_tensor": lambda tensor: _maybe_get_level(tensor) > 0,
    "maybe_get_level": _maybe_get_level, "maybe_get_bdim": lambda tensor: 0 if is_batch(tensor) else -1,
    "get_unwrapped": lambda tensor: values.debug_unwrap(tensor, recurse=False),
    "lazy_load_decompositions": lambda: None,
}  # fmt: skip
FUNCTORCH: dict[str, dict[str, Any]] = {
    "_functorch": {},
    "_functorch.apis": {
        "vmap": batch.vmap, "chunk_vmap": batch.chunk_vmap, "grad": reverse.grad,
        "grad_and_value": reverse.grad_and_value,
    },
    "_functorch.predispatch": _LEVELS, "_C._functorch": {**_LEVELS, **QUERIES},
    "_functorch.eager_transforms": _EAGER,
    "_functorch.functional_call": {
        "functional_call": modules.functional_call, "stack_module_state": modules.stack_module_state,
    },
    "_functorch.batch_norm_replacement": {
        "replace_all_batch_norm_modules_": modules.replace_all_batch_norm_modules_,
    },
    "_functorch.deprecated": DEPRECATED, "_functorch.make_functional": MODULES_AS_FUNCTIONS,
}  # fmt: skip
