"""What public functions say of a wrong argument: torch's class and words, from their annotated signatures.

The public names of functions with a Python body stand for a function that compares the types of the arguments with the
annotations first (about 0.15 µs a call), and that tells of the call where Python's or NumPy's words escape
the body. What is called in every step of a model (`HOT`) has no such frame around it and tells after a failure alone.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from ..core.overrides import plain
from ..core.payload import Payload
from ..core.tensor import TensorBase

# Functions whose frame would be a good part of their time; and methods of which the same is true.
HOT = frozenset((
    "add", "sub", "mul", "div", "pow", "matmul", "mm", "linear", "relu", "cat", "stack",
    "zeros", "ones", "empty", "tensor", "is_tensor", "numel", "is_floating_point", "sum", "mean",
))  # fmt: skip
HOT_METHODS = HOT | {
    "softmax",
    "log_softmax",
    "sum",
    "mean",
    "reshape",
    "view",
    "transpose",
    "permute",
    "unsqueeze",
    "squeeze",
    "flatten",
    "expand",
    "select",
    "t",
    "detach",
    "clone",
    "contiguous",
    "to",
    "float",
    "size",
    "dim",
    "item",
}

_NUMBERS = (int, float, complex, np.generic)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorBase | Payload) or hasattr(type(value), "__torch_function__")


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_int(value: Any) -> bool:
    if isinstance(value, TensorBase):
        return value.array.ndim == 0 and value.array.dtype.kind in "iu"
    return not isinstance(value, bool | np.bool_ | np.ndarray) and hasattr(type(value), "__index__")


def _is_float(value: Any) -> bool:
    if isinstance(value, TensorBase | np.ndarray):
        return value.ndim == 0  # type: ignore[union-attr]
    return hasattr(type(value), "__float__") and not isinstance(value, np.complexfloating)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) or _is_float(value)


def _is_operand(value: Any) -> bool:
    return isinstance(value, _NUMBERS) or _is_tensor(value) or hasattr(value, "dtype") or _is_float(value)


def _is_size(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_is_int(n) or isinstance(n, TensorBase | Payload) for n in value)


def _is_sizes(value: Any) -> bool:
    return _is_int(value) or _is_size(value)


def _is_dims(value: Any) -> bool:
    return value is None or _is_int(value) or (isinstance(value, list | tuple) and all(map(_is_int, value)))


def _is_str(value: Any) -> bool:
    return isinstance(value, str)


class _Kind:
    """What an annotation lets pass: types known to be right, and a question for the others."""

    def __init__(self, words: str, fits: Callable[[Any], bool], *known: type) -> None:
        self.words, self.fits, self.known = words, fits, set(known)

    def or_none(self) -> _Kind:
        return _Kind(self.words, lambda value: value is None or self.fits(value), *self.known, type(None))

    def takes(self, value: Any) -> bool:
        if not self.fits(value) and (isinstance(value, TensorBase) or not hasattr(type(value), "__torch_function__")):
            return False
        if type(value) in plain and self.words == "Tensor":
            self.known.add(type(value))
        return True


_KINDS = {
    "Tensor": _Kind("Tensor", _is_tensor),
    "bool": _Kind("bool", _is_bool, bool),
    "int": _Kind("int", _is_int, int),
    "float": _Kind("float", _is_float, float, int),
    "str": _Kind("str", _is_str, str),
    "Number": _Kind("Number", _is_number, float, int),
    "Tensor | Number": _Kind("Tensor", _is_operand, float, int),
    "Size": _Kind("tuple of ints", _is_size),
    "Sizes": _Kind("tuple of ints", _is_sizes, int),
    "Dims": _Kind("tuple of ints", _is_dims, int, type(None)),
}
_KINDS |= {f"{name} | None": kind.or_none() for name, kind in _KINDS.items()}

# What the name of a parameter says, where its annotation lets anything pass.
_NAMED = {
    "normalized_shape": _KINDS["Size"],
    "split_sizes": _KINDS["Size"],
    "kernel_size": _KINDS["Sizes | None"],
    "dilation": _KINDS["Sizes | None"],
    "output_padding": _KINDS["Sizes | None"],
    "unbiased": _KINDS["bool | None"],
    "dim": _KINDS["Dims"],
}

# Python's and NumPy's words for what a caller did not say to them.
_FOREIGN = re.compile(
    r"object is not (subscriptable|iterable|callable)|object of type .* has no len|not supported between instances"
    r"|unsupported operand|bad operand type|ufunc '|cannot unpack|must be real number"
    r"|cannot be interpreted as an integer"
    r"|Cannot interpret|data type .* not understood|unhashable type|argument must be a (string|sequence)|int\(\) "
    r"|float\(\) |can't multiply sequence|can only concatenate|NoneType|only integers, slices|only integer scalar"
    r"|only (0-dimensional|length-1) arrays|setting an array element|invalid literal|integer is required|must be str"
    r"|not supported for the input types|could not convert|__array__|Cannot cast|invalid type promotion|loop of ufunc"
)
_SHAPES = re.compile(
    r"could not be broadcast|operands could not|could not broadcast|shape mismatch|mismatch in its core"
)
_AMBIGUOUS = re.compile(r"truth value of an array")
_ESCAPING = (AttributeError, TypeError, ValueError, IndexError, StopIteration, KeyError, OverflowError, RecursionError)

_checked: dict[FunctionType, Callable[..., Any]] = {}


def _shown(value: Any) -> str:
    if isinstance(value, TensorBase):
        return "Tensor"
    kind = type(value)
    return {"numpy": f"numpy.{kind.__name__}", "adjoint.core.dtypes": "torch.dtype"}.get(kind.__module__, kind.__name__)


def _refuse(name: str, names: tuple[str, ...], kinds: Any, by_name: Any, args: Any, kwargs: Any) -> None:
    """Raise TypeError for the first argument that is not what its annotation says."""
    for at, (value, kind) in enumerate(zip(args, kinds, strict=False)):
        if kind is not None and not kind.takes(value):
            raise TypeError(f"{name}(): argument '{names[at]}' (position {at + 1}) {_said(kind, value)}")
    for key, value in kwargs.items():
        kind = by_name.get(key)
        if kind is not None and not kind.takes(value):
            raise TypeError(f"{name}(): argument '{key}' {_said(kind, value)}")


def _said(kind: _Kind, value: Any) -> str:
    advice = ""
    if kind.words == "Tensor" and isinstance(value, list | tuple | int | float | np.ndarray):
        advice = "; convert it with adjoint.tensor(...)"
    return f"must be {kind.words}, not {_shown(value)}{advice}"


def _combination(name: str, args: Any, kwargs: Any) -> TypeError:
    given = [*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())]
    return TypeError(f"{name}() received an invalid combination of arguments - got ({', '.join(given)})")


def explain(error: Exception, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
    """Raise what a caller should read of an error in a function's body: `error` itself, or one that names the call."""
    text = str(error)
    if isinstance(error, AttributeError):
        given = getattr(error, "obj", None)
        if not isinstance(given, TensorBase) and any(given is value for value in _parts(args, kwargs)):
            raise _combination(name, args, kwargs) from error
    elif isinstance(error, StopIteration | RecursionError) or _AMBIGUOUS.search(text):
        raise _combination(name, args, kwargs) from error
    elif isinstance(error, OverflowError):
        raise RuntimeError(f"{name}(): Overflow when unpacking long long: {text}") from error
    elif type(error) in (TypeError, ValueError, IndexError, KeyError):
        if _SHAPES.search(text):
            raise RuntimeError(f"{name}(): the shapes of the arguments do not fit each other: {text}") from error
        if _FOREIGN.search(text) and not text.startswith(f"{name}()"):
            raise _combination(name, args, kwargs) from error
    raise error


def _parts(args: Any, kwargs: Any) -> list[Any]:
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        found.append(value)
        if isinstance(value, list | tuple):
            found += value
    return found


def checked(function: FunctionType, prefix: str = "") -> Callable[..., Any]:
    """Return a function that compares its arguments with the annotations of `function`, and calls it."""
    described: Any = inspect.unwrap(function)
    code = described.__code__
    names = code.co_varnames[: code.co_argcount]
    written = described.__annotations__
    said = {k: _NAMED.get(k) if a == "Any" else _KINDS.get(a) for k, a in written.items() if k != "return"}
    by_name = {k: kind for k, kind in said.items() if kind is not None}
    kinds = [by_name.get(name) for name in names]
    known = [None if kind is None else kind.known for kind in kinds]
    known_by_name = {key: kind.known for key, kind in by_name.items()}
    name = prefix + function.__name__.removeprefix(prefix)

    def call(*args: Any, **kwargs: Any) -> Any:
        for value, types in zip(args, known, strict=False):
            if types is not None and type(value) not in types:
                _refuse(name, names, kinds, by_name, args, kwargs)
                break
        if kwargs:
            for key in kwargs:
                if key in known_by_name and type(kwargs[key]) not in known_by_name[key]:
                    _refuse(name, names, kinds, by_name, args, kwargs)
                    break
        try:
            return function(*args, **kwargs)
        except _ESCAPING as error:
            explain(error, name, args, kwargs)

    call.__name__ = function.__name__
    call.__doc__, call.__annotations__ = function.__doc__, function.__annotations__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    call.checks = True  # type: ignore[attr-defined]
    return call


def enforce(names: dict[str, Any], home: str, prefix: str = "", only: str | None = None) -> None:
    """Let the public functions of a namespace, the module `home`, or one of them, check their arguments."""
    chosen: list[tuple[str, Any]] = list(names.items()) if only is None else [(only, names[only])]
    for key, value in chosen:
        if (
            type(value) is FunctionType
            and not key.startswith("__")
            and key not in HOT
            and (value.__module__ or "").startswith("adjoint.ops.")
            and not hasattr(value, "op")  # a recorder
            and not hasattr(value, "checks")
        ):
            if value not in _checked:
                _checked[value] = call = checked(value, prefix)
                call.__module__ = home  # where pickles find it
                own: str = value.__name__
                call.__qualname__ = own if names.get(own) is value else key
            names[key] = _checked[value]


def enforce_methods(tensor: Any) -> None:
    """Let the methods of Tensor that are public functions check their arguments, as those do."""
    for key, value in list(vars(tensor).items()):
        if type(value) is FunctionType and key not in HOT_METHODS and value in _checked:
            setattr(tensor, key, _checked[value])
