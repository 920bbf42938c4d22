"""Cleaning up what callers pass: dims, shapes, devices, dtypes."""

from __future__ import annotations

import operator
from typing import Any, TypeVar

import numpy as np

from .._typing import Dims, Operand, Tensor
from ..core.device import CPU, place_array
from ..core.device import of as device_of
from ..core.nodes import wrap
from ..core.observation import literal, note_read
from ..core.tensor import TensorBase

_D = TypeVar("_D")


def dim_in(dim: Dims, rank: int) -> int:
    """Return a dimension counted from the front, or raise torch's IndexError."""
    if type(dim) is int and -rank <= dim < rank:
        return dim + rank if dim < 0 else dim
    if dim is None:
        raise TypeError("missing 1 required positional argument: 'dim'")
    if not is_int(dim):
        raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}")
    wrapped = count_of(dim, "dim")
    bound = max(rank, 1)
    if not -bound <= wrapped < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {wrapped})"
        )
    return wrapped + bound if wrapped < 0 else wrapped


def is_int(value: object) -> bool:
    """Return whether a value is accepted as an int: Python and NumPy integers, integer tensors of one element."""
    if isinstance(value, TensorBase):
        return value.array.size == 1 and value.array.dtype.kind in "iu"
    return not isinstance(value, bool | np.bool_ | np.ndarray) and hasattr(type(value), "__index__")


def index_of(value: Any, name: str, op: str) -> int:
    """Return an argument that must be an int, or raise TypeError."""
    if not is_int(value):
        found = "Tensor" if isinstance(value, TensorBase) else type(value).__name__
        raise TypeError(f"{op}(): argument '{name}' must be int, not {found}")
    return operator.index(value)


def count_of(value: Any, name: str) -> int:
    """Return an integer argument, which must fit 64 bits."""
    count = operator.index(value)
    if not -(2**63) <= count < 2**63:
        raise ValueError(f"Overflow when unpacking long long: argument '{name}' is {count}")
    return count


def either(dim: _D, axis: _D | None, default: object = None) -> _D:
    """Return ``dim``, or the argument ``axis``, NumPy's name for it; giving both is an error."""
    if axis is None:
        return dim
    if dim != default:
        raise TypeError(f"got dim={dim} and axis={axis}: these are two names of one argument; give one of them")
    return axis


def missing(op: str, name: str) -> TypeError:
    """Return the error of a call that left out an argument that ``axis`` may replace."""
    return TypeError(f"{op}() missing 1 required positional argument: '{name}'")


def dims_in(dim: Dims, rank: int) -> tuple[int, ...]:
    """Return dimensions counted from the front; None or an empty sequence means all of them."""
    if dim is None:
        return tuple(range(rank))
    if hasattr(dim, "__index__") and not isinstance(dim, np.ndarray):
        return (dim_in(dim, rank),) if rank else _none_of_scalar(dim)
    if not isinstance(dim, tuple | list | range | set | frozenset):
        raise TypeError(f"argument 'dim' must be tuple of ints, not {type(dim).__name__}")
    dims = tuple(dim_in(d, rank) for d in dim)
    if len(set(dims)) != len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    if not dims:
        return tuple(range(rank))
    return dims if rank else ()


def _none_of_scalar(dim: Dims) -> tuple[int, ...]:
    dim_in(dim, 0)
    return ()


def shape_from(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Return a shape given as ints or as one sequence: ``view(2, 3)``, ``view((2, 3))``."""
    given = sizes[0] if len(sizes) == 1 and type(sizes[0]) is tuple else sizes
    for n in given:
        if type(n) is not int:
            break
    else:
        return given
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    elif len(sizes) == 1 and isinstance(sizes[0], np.ndarray | bool):
        raise TypeError(f"argument 'size' must be tuple of ints, not {type(sizes[0]).__name__}")
    return tuple(_size(s) for s in sizes)


def _size(value: Any) -> int:
    if isinstance(value, TensorBase) and is_int(value):
        note_read("int()", value)
        return operator.index(value)  # type: ignore[arg-type]
    if isinstance(value, TensorBase | np.ndarray | bool) or not hasattr(type(value), "__index__"):
        found = type(value).__name__
        raise TypeError(f"argument 'size' must be tuple of ints, but found element of type {found}")
    count = operator.index(value)
    if count >= 2**63:
        raise TypeError(f"argument 'size' failed to unpack the object {count}: Overflow when unpacking long long")
    return count


def require_tensor(value: object, name: str, op: str) -> None:
    """Raise TypeError unless `value` is a tensor."""
    if not isinstance(value, TensorBase) and not hasattr(type(value), "__torch_function__"):
        raise TypeError(f"{op}(): argument '{name}' must be Tensor, not {type(value).__name__}")


def require_all_tensors(values: Any) -> None:
    """Raise TypeError unless all elements of a sequence are tensors."""
    for place, value in enumerate(values):
        if not isinstance(value, TensorBase) and not hasattr(type(value), "__torch_function__"):
            raise TypeError(f"expected Tensor as element {place} in argument 0, but got {_name_of(value)}")


def _name_of(value: object) -> str:
    return "numpy.ndarray" if isinstance(value, np.ndarray) else type(value).__name__


def require_bool(value: object, name: str, op: str) -> None:
    """Raise TypeError unless `value` is a bool."""
    if value is not False and value is not True and not isinstance(value, np.bool_):
        found = "Tensor" if isinstance(value, TensorBase) else type(value).__name__
        raise TypeError(f"{op}(): argument '{name}' must be bool, not {found}")


def require_tensors(op: str, **given: Any) -> None:
    """Raise TypeError unless all arguments are tensors."""
    for place, (name, value) in enumerate(given.items(), 1):
        if not isinstance(value, TensorBase) and not hasattr(type(value), "__torch_function__"):
            found = "numpy.ndarray" if isinstance(value, np.ndarray) else type(value).__name__
            raise TypeError(f"{op}(): argument '{name}' (position {place}) must be Tensor, not {found}")


def dtype_of(value: Any) -> Any:
    """Return the NumPy dtype of a tensor, an array or a payload; rules may branch on it."""
    return (value.array if isinstance(value, TensorBase) else value).dtype


def require_pair(input: Operand, other: Operand, op: str) -> None:
    """Raise TypeError unless both operands are tensors."""
    if not isinstance(input, TensorBase):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if not isinstance(other, TensorBase):
        raise TypeError(f"{op}(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")


def require_any(input: Operand, other: Operand, op: str) -> None:
    """Raise TypeError unless at least one operand is a tensor."""
    if not isinstance(input, TensorBase) and not isinstance(other, TensorBase):
        raise TypeError(
            f"{op}() received an invalid combination of arguments - got ({type(input).__name__}, "
            f"{type(other).__name__}); at least one must be a Tensor"
        )


def beside(array: Any, like: Any) -> Tensor:
    """Return a tensor of values on the CPU, moved to the device of the tensor `like`."""
    return wrap(place_array(array, device_of(like.array)))


def constant_beside(array: Any, like: Tensor) -> Tensor:
    """Return what follows from shapes and numbers alone, as a tensor in the memory of the tensor `like`."""
    return wrap(literal(place_array(array, device_of(like.array))))


def on_host(x: Any) -> Any:
    """Return a tensor's values as an array on the CPU."""
    return place_array(x.array, CPU)
