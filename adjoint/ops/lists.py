"""Ops on lists of tensors, ``adjoint._foreach_add`` and its like: each op, for each tensor of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._typing import DType, Operand, Tensor, Value
from ..core.tensor import TensorBase
from . import namespace
from .measure import vector_norm

every: Any = namespace  # ops by their names

Tensors = Sequence[Any]

_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "clone", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_BINARY = ["add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "maximum", "minimum"]
_ALPHA = frozenset(("add", "sub"))
# A number in the second place of these is a bound; so is a tensor where the first is written over.
_BOUNDS = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _is_tensor(value: object) -> bool:
    return isinstance(value, TensorBase)


def _given(name: str, tensors: Any) -> list[Any]:
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - expected a list or tuple of Tensors, "
            f"not {type(tensors).__name__}"
        )
    if not tensors:
        raise RuntimeError(f"Tensor list must have at least one tensor. {name} was given none")
    return list(tensors)


def _each(name: str, count: int, value: Any) -> list[Any]:
    """Return one value per tensor: of a list its own, of a number or a tensor without axes that one."""
    if isinstance(value, list | tuple):
        if len(value) == count:
            return list(value)
        if value and _is_tensor(value[0]):
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(value)}")
        raise RuntimeError(
            f"Tensor list must have same number of elements as scalar list. {name} has {count} tensors and "
            f"{len(value)} numbers"
        )
    if _is_tensor(value) and value.ndim:
        raise RuntimeError(
            f"scalar tensor expected to be 0 dim but it has {value.ndim} dimensions and {value.numel()} elements."
        )
    if not isinstance(value, TensorBase | bool | int | float | complex):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - expected a number, a list of numbers or of "
            f"Tensors, not {type(value).__name__}"
        )
    return [value] * count


def _one_of(name: str, *values: Any) -> Any:
    found = [v for v in values if v is not None]
    if len(found) != 1:
        raise TypeError(f"{name}() received an invalid combination of arguments - expected one second operand")
    return found[0]


def _unary(op: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name, function = f"_foreach_{op}", getattr(every, op)

    def fresh(self: Tensors) -> Any:
        return tuple([function(x) for x in _given(name, self)])

    def written(self: Tensors) -> Any:
        for x in _given(f"{name}_", self):
            getattr(x, f"{op}_")()
        return self

    return fresh, written


def _operands(name: str, op: str, self: Any, values: Any, alpha: Any) -> Any:
    """Return triples of a tensor, its second operand, and what else the op is given."""
    tensors = _given(name, self)
    value = _one_of(name, *values)
    if alpha != 1 and (op not in _ALPHA or isinstance(value, int | float | complex)):
        raise TypeError(f"{name}() received an invalid combination of arguments - got alpha={alpha}")
    more = {"alpha": alpha} if alpha != 1 else {}
    return [(x, y, more) for x, y in zip(tensors, _each(name, len(tensors), value), strict=True)]


def _binary(op: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name = f"_foreach_{op}"

    def fresh(self: Any, other: Any = None, *, scalar: Any = None, scalars: Any = None, alpha: Operand = 1) -> Any:
        if op == "pow" and not isinstance(self, list | tuple):  # a number to powers
            return tuple([every.pow(self, y) for y in _given(name, other)])
        found = _operands(name, op, self, (other, scalar, scalars), alpha)
        word = _BOUNDS.get(op, op)
        return tuple([getattr(every, op if _is_tensor(y) else word)(x, y, **more) for x, y, more in found])

    def written(self: Any, other: Any = None, *, scalar: Any = None, scalars: Any = None, alpha: Operand = 1) -> Any:
        for x, y, more in _operands(f"{name}_", op, self, (other, scalar, scalars), alpha):
            getattr(x, f"{_BOUNDS.get(op, op)}_")(y, **more)
        return self

    return fresh, written


def _pointwise(op: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name = f"_foreach_{op}"

    def operands(name: str, self: Any, one: Any, two: Any, value: Any) -> Any:
        tensors = _given(name, self)
        if _is_tensor(value) and value.ndim == 1:
            if len(value) != len(tensors):
                raise RuntimeError(
                    f"Expected length of scalars to match input of length {len(tensors)} but got {len(value)} instead."
                )
            value = value.tolist()
        rest = [_each(name, len(tensors), v) for v in (one, two, value)]
        return zip(tensors, *rest, strict=True)

    def fresh(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        found = operands(name, self, tensor1, tensor2, value if scalars is None else scalars)
        return tuple([getattr(every, op)(x, y, z, value=v) for x, y, z, v in found])

    def written(self: Any, tensor1: Value, tensor2: Value, value: Operand = 1, *, scalars: Any = None) -> Any:
        for x, y, z, v in operands(f"{name}_", self, tensor1, tensor2, value if scalars is None else scalars):
            getattr(x, f"{op}_")(y, z, value=v)
        return self

    return fresh, written


def _lerp(
    self: Any, tensors1: Any, weights: Value | None = None, *, weight: Value | None = None, scalars: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Go from each tensor a part of the way to another."""
    found, name = _given("_foreach_lerp", self), "_foreach_lerp"
    ends = _each(name, len(found), tensors1)
    shares = _each(name, len(found), _one_of(name, weights, weight, scalars))
    return tuple([every.lerp(x, y, w) for x, y, w in zip(found, ends, shares, strict=True)])


def _lerp_(
    self: Any, tensors1: Any, weights: Sequence[Tensor] | None = None, *, weight: Value | None = None,
    scalars: Any = None,
) -> Any:  # fmt: skip
    """Move each tensor a part of the way to another."""
    found, name = _given("_foreach_lerp_", self), "_foreach_lerp_"
    ends = _each(name, len(found), tensors1)
    shares = _each(name, len(found), _one_of(name, weights, weight, scalars))
    for x, y, w in zip(found, ends, shares, strict=True):
        x.lerp_(y, w)
    return self


def _norm(self: Any, ord: Any = 2, dtype: DType | None = None) -> Any:
    """Return the norm of each tensor."""
    return tuple([vector_norm(x, ord, dtype=dtype) for x in _given("_foreach_norm", self)])


def _powsum(self: Any, ord: Any = 2, dtype: DType | None = None) -> tuple[Any, ...]:
    """Return the sum of the powers of each tensor's absolute values: its norm before the root."""
    return tuple([every.sum(every.abs(x) ** ord, dtype=dtype) for x in _given("_foreach_powsum", self)])


def _max(self: Any) -> tuple[Any, ...]:
    """Return the largest element of each tensor."""
    for x in (found := _given("_foreach_max", self)):
        if not x.numel():
            raise RuntimeError("_foreach_max cannot compute the maximum of an empty tensor; it has none")
    return tuple([every.max(x) for x in found])


def _mm(self: Any, mat2: Value) -> tuple[Any, ...]:
    """Return the product of each pair of matrices."""
    found = _given("_foreach_mm", self)
    return tuple([every.mm(x, y) for x, y in zip(found, _each("_foreach_mm", len(found), mat2), strict=True)])


def _copy_(self: Any, src: Value, non_blocking: bool = False) -> Any:
    """Copy each tensor of a list into one of another."""
    found = _given("_foreach_copy_", self)
    for x, y in zip(found, _each("_foreach_copy_", len(found), src), strict=True):
        x.copy_(y, non_blocking)
    return self


def _zero_(self: Any) -> Any:
    """Fill each tensor with zeros."""
    for x in _given("_foreach_zero_", self):
        x.zero_()
    return self


def _table() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {
        "lerp": _lerp, "lerp_": _lerp_, "norm": _norm, "powsum": _powsum, "max": _max, "mm": _mm, "copy_": _copy_,
        "zero_": _zero_,
    }  # fmt: skip
    for ops, make in ((_UNARY, _unary), (_BINARY, _binary), (("addcmul", "addcdiv"), _pointwise)):
        for op in ops:
            found[op], found[f"{op}_"] = make(op)
    del found["clone_"]
    return {f"_foreach_{name}": function for name, function in found.items()}


for _name, _function in _table().items():
    _function.__name__ = _function.__qualname__ = _name
    globals()[_name] = _function
