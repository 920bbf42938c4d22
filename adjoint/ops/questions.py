"""Queries on any value: is it a tensor, which dtype would a result have, what is it called."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Operand, Tensor, Value
from ..core import dtypes, promotion
from ..core.tensor import InferenceStorage, TensorBase
from .arguments import require_tensor
from .convert import concrete, type_name
from .memory import TypedStorage, UntypedStorage


def is_tensor(obj: object) -> bool:
    """Return whether an object is a tensor.

    Parameters
    ----------
    obj : object
        Any object.

    Returns
    -------
    bool
        Whether `obj` is an instance of `Tensor` or of a subclass.

    Examples
    --------
    >>> adjoint.is_tensor(adjoint.ones(2)), adjoint.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, TensorBase)


def is_storage(obj: object) -> bool:
    """Return whether `obj` is the memory behind tensors."""
    return isinstance(obj, UntypedStorage | TypedStorage)


def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype is a real floating-point type.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    bool
        True for float16, bfloat16, float32, float64 and the 8-bit floats; False for integers, bool and complex.

    Examples
    --------
    >>> adjoint.is_floating_point(adjoint.ones(2)), adjoint.is_floating_point(adjoint.tensor([1]))
    (True, False)
    """
    require_tensor(input, "input", "is_floating_point")
    return dtypes.of(input.array.dtype).is_floating_point


def is_complex(input: Tensor) -> bool:
    """Return whether the dtype is complex.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    bool
        True for complex64 and complex128.

    Examples
    --------
    >>> adjoint.is_complex(adjoint.tensor([1j])), adjoint.is_complex(adjoint.ones(2))
    (True, False)
    """
    require_tensor(input, "input", "is_complex")
    return bool(input.array.dtype.kind == "c")


def is_signed(input: Tensor) -> bool:
    """Return whether the dtype holds negative values."""
    require_tensor(input, "input", "is_signed")
    return dtypes.of(input.array.dtype).is_signed


def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element is not zero."""
    require_tensor(input, "input", "is_nonzero")
    return truth_of(input)


def is_inference(input: Tensor) -> bool:
    """Return whether the tensor was made in inference mode."""
    require_tensor(input, "input", "is_inference")
    return type(input.memory) is InferenceStorage


def is_conj(input: Tensor) -> bool:
    """Return False: conjugation is never lazy here."""
    require_tensor(input, "input", "is_conj")
    return False


def is_neg(input: Tensor) -> bool:
    """Return False: negation is never lazy here."""
    require_tensor(input, "input", "is_neg")
    return False


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether both tensors have the same shape."""
    return tuple(input.array.shape) == tuple(other.array.shape)


def numel(input: Tensor) -> int:
    """Return the number of elements.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    int
        The product of the sizes; 1 for a tensor without dimensions.

    Examples
    --------
    >>> adjoint.numel(adjoint.ones(2, 3)), adjoint.numel(adjoint.tensor(5))
    (6, 1)
    """
    require_tensor(input, "input", "numel")
    return int(input.array.size)


def get_device(input: Tensor) -> int:
    """Return the index of the GPU that holds the tensor, -1 for the CPU."""
    require_tensor(input, "input", "get_device")
    return input.get_device()


def result_type(tensor: Operand, other: Operand) -> dtypes.dtype:
    """Return the dtype that an arithmetic op on two tensors or numbers gives.

    Examples
    --------
    >>> adjoint.result_type(adjoint.tensor([1, 2]), 1.0)
    adjoint.float32
    """
    return promotion.result_type((tensor, other))


def can_cast(from_: Any, to: Any) -> bool:
    """Return whether a result of one dtype may be stored as another.

    Examples
    --------
    >>> adjoint.can_cast(adjoint.float32, adjoint.int64)
    False
    """
    return dtypes.can_cast(from_, to)


def typename(obj: object) -> str:
    """Return the name of an object's type; of a tensor, with its dtype.

    Parameters
    ----------
    obj : object
        Any object.

    Returns
    -------
    str
        The qualified name of the type, without the module for built-in types.

    Examples
    --------
    >>> adjoint.typename(adjoint.ones(2)), adjoint.typename(adjoint.tensor([1])), adjoint.typename([1])
    ('adjoint.FloatTensor', 'adjoint.LongTensor', 'list')
    """
    if isinstance(obj, TensorBase):
        return type_name(obj)
    owner = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(owner, "__module__", None) or ""
    name = getattr(owner, "__qualname__", None) or type(obj).__name__
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"


def truth_of(x: Any) -> bool:
    """Return a tensor's only element as a boolean."""
    count = _count(x)
    if count != 1:
        if count == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous; use .any() or .all()")
    return bool(concrete(x, "bool()").item())


def number_of(x: Any, what: str) -> Any:
    """Return a tensor's only element as a Python number, for `int()` and the like."""
    if _count(x) != 1:
        raise ValueError(f"only one element tensors can be converted to Python scalars; this one has {_count(x)}")
    return concrete(x, what).item()


def real_number_of(x: Value, what: str) -> Any:
    """Return a tensor's only element as a real Python number."""
    value = number_of(x, what)
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError("value cannot be converted to type double without overflow: its imaginary part is not 0")
        return value.real
    return value


def _count(x: Tensor) -> int:
    return math.prod(x.array.shape)


__all__ = [
    "can_cast", "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_nonzero",
    "is_same_size", "is_signed", "is_storage", "is_tensor", "numel", "result_type", "typename",
]  # fmt: skip
