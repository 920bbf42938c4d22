"""Tensor subclasses: which handlers are called before an op runs, and the class of its results.

Results of ops on a user's subclass are of that subclass, unless its ``__torch_function__`` returns something
else. Plain tensors pay nothing for this: the recorders know which classes are
`plain` (Tensor itself, Parameter), and only other classes come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .. import printing
from .._typing import Kernel, Op, Value
from . import modes
from .tensor import TensorBase

# Classes whose instances take part in ops as plain tensors, and whose results are plain tensors.
plain: set[type] = set()
# Classes that handle ops themselves, below autograd, by ``__torch_dispatch__``.
dispatching: set[type] = set()


def disabled_torch_function(
    func: Kernel, types: object, args: Any = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Run `func` on subclasses as on plain tensors; a class that uses this as its handler is plain."""
    with SubclassesOff():
        return func(*args, **(kwargs or {}))


class SubclassesOff:
    """A context in which subclasses are plain tensors to every op."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = modes.local.subclasses_off
        modes.local.subclasses_off = True

    def __exit__(self, *error: object) -> None:
        modes.local.subclasses_off = self.before


class FunctionModes:
    """A context in which these modes, and no others, see public functions."""

    __slots__ = ("before", "modes")

    def __init__(self, chosen: tuple[Any, ...]) -> None:
        self.modes = chosen

    def __enter__(self) -> None:
        self.before = modes.local.function_modes
        modes.local.function_modes = self.modes

    def __exit__(self, *error: object) -> None:
        modes.local.function_modes = self.before


class EverythingOff(SubclassesOff):
    """A context in which neither subclasses nor modes intercept functions."""

    __slots__ = ("modes_before",)

    def __enter__(self) -> None:
        super().__enter__()
        self.modes_before, modes.local.function_modes = modes.local.function_modes, ()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        modes.local.function_modes = self.modes_before


def is_subclass(value: object) -> bool:
    """Return whether `value` is a tensor whose class may intercept functions."""
    return isinstance(value, TensorBase) and type(value) not in plain


def _tensors_in(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        # Any object with a handler counts, a tensor or not.
        if isinstance(value, TensorBase) or hasattr(type(value), "__torch_function__"):
            yield value
        elif type(value) is list or type(value) is tuple:
            yield from _tensors_in(value)


def overloaded(args: Iterable[Any], kwargs: dict[str, Any] | None = None) -> list[Any]:
    """Return one argument of each class whose handler is to be called, subclasses before their bases, else in order."""
    found: list[Any] = []
    for value in _tensors_in((*args, *kwargs.values()) if kwargs else args):
        kind = type(value)
        if kind in plain or any(type(f) is kind for f in found) or _is_torchs(kind):
            continue
        at = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
        found.insert(at, value)
    return found


def _is_torchs(kind: type) -> bool:
    """Return whether a class is one of PyTorch's own, which knows our functions no better than we do.

    With adjoint in torch's place, classes of ``torch.fx`` and its like are adjoint's.
    """
    named = kind.__module__.partition(".")[0] == "torch"
    return named and printing.PACKAGE != "torch" and not issubclass(kind, TensorBase)


def ask(func: Callable[..., Any], found: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Let the innermost mode handle a call of `func`; where none is on, the classes of `found`."""
    types = tuple(type(value) for value in found)
    stack = modes.local.function_modes
    if stack:
        with FunctionModes(stack[:-1]):  # what the mode calls is seen by those around it
            result = stack[-1].__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in found:
        result = type(value).__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"Multiple dispatch failed for '{getattr(func, '__name__', func)}'; all __torch_function__ handlers returned "
        f"NotImplemented:\n\n  - tensor subclasses {[t.__qualname__ for t in types]}"
    )


# Set once the class exists: Tensor, and the function that makes every public function check for handlers.
tensor: Any = None
notice: Callable[[], None] = lambda: None


def has_handler(values: Iterable[Any]) -> bool:
    """Return whether one of some operands is no tensor but has a handler of its own."""
    return any(hasattr(type(v), "__torch_function__") and not isinstance(v, TensorBase) for v in values)


def answered(name: str, args: tuple[Any, ...]) -> Any:
    """Let operands that are no tensors but have a handler run a method of Tensor; NotImplemented if none has.

    Such operands are checked only after an op has failed on them: plain programs pay nothing.
    """
    return NotImplemented if modes.local.subclasses_off or not has_handler(args) else asked(name, args)


def asked(name: str, args: tuple[Any, ...]) -> Any:
    """Let the classes of operands handle a method of Tensor; NotImplemented if Tensor has none of that name."""
    method = getattr(tensor, name, None)
    if method is None:
        return NotImplemented
    notice()
    return ask(method, overloaded(args), args, {})


def convert(result: object, kind: type) -> Any:
    """Return a result with its plain tensors as instances of a subclass."""
    if isinstance(result, TensorBase):
        return result if isinstance(result, kind) else result.as_subclass(kind)  # type: ignore[attr-defined]
    if isinstance(result, tuple | list) and any(isinstance(r, TensorBase) for r in result):
        parts = [convert(r, kind) for r in result]
        return result._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def default_torch_function(kind: type, func: Kernel, types: Any, args: Any, kwargs: Mapping[str, Any] | None) -> Any:
    """Do what `Tensor` does: run `func` on plain tensors and convert the result to the subclass."""
    if not all(issubclass(kind, t) for t in types):
        return NotImplemented
    with SubclassesOff():
        result = func(*args, **(kwargs or {}))
        return result if kind in plain or func in unconverted else convert(result, kind)


# Functions whose result belongs to the graph, not to the subclass: getters of `grad` and the like.
unconverted: set[Any] = set()


def overridden(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Call a primitive on operands of which some are of a subclass."""
    # A primitive with no parameters is called as its public function is, and goes by that name.
    found = overloaded(inputs)
    notice()
    if op.sequence is not None:
        return ask(op.sequence.call, found, (inputs, *params), {})
    public = public_functions.get(op.name) if op.batch == "elementwise" and not op.params else None
    return ask(public or op.call, found, (*inputs, *params), {})


# The public functions by name, known once the package is imported.
public_functions: dict[str, Callable[..., Any]] = {}


_REFLECTED = {
    "add": "__radd__", "sub": "__rsub__", "mul": "__rmul__", "div": "__rtruediv__", "pow": "__rpow__",
    "div_floor": "__rfloordiv__", "remainder": "__rmod__", "lt": "__gt__", "le": "__ge__", "gt": "__lt__",
    "ge": "__le__", "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
}  # fmt: skip
_METHODS = {
    "rsub": "__rsub__", "div_floor": "__floordiv__", "bitwise_and": "__and__", "bitwise_or": "__or__",
    "bitwise_xor": "__xor__", "bitwise_left_shift": "__lshift__", "bitwise_right_shift": "__rshift__",
}  # fmt: skip


def reflected(name: str, x: Value, y: Any, error: TypeError) -> Any:
    """Let an operand that is neither tensor nor number handle the operator, as Python would."""
    special = _REFLECTED.get(name, "")
    method = next((vars(kind)[special] for kind in type(y).__mro__ if special in vars(kind)), None)
    result = NotImplemented if method is None or isinstance(y, str) else method(y, x)
    if result is NotImplemented:
        result = answered(_METHODS.get(name, name), (x, y))
    if result is NotImplemented:
        raise error
    return result
