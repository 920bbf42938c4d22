"""``TorchDispatchMode``: a context that sees every primitive that runs, under ATen's names as far as they go.

A mode here stands where ops are recorded, not below autograd as torch's does: the tensors that a handler gets
have their history, and what it returns is the result of the op. A primitive goes by the name of ATen's operator
that does the same; its arguments are the primitive's own, in their plain form (axes as a tuple, say).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..core import modes
from ..core.inplace import write
from ..core.observation import Observer
from ..core.tensor import TensorBase
from ..ops import overloads
from ..payloads.dispatched import Dispatched
from ..subclasses import Dispatching

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]

# What a primitive is called in ATen, where that is another name.
_NAMES = {
    "matmul": "mm", "concatenate": "cat", "index": "index", "getitem": "select", "cast": "_to_copy",
    "reshape": "view", "softmax": "_softmax", "log_softmax": "_log_softmax", "conv": "convolution", "copy": "clone",
    "transpose": "permute", "power": "pow", "project": "linear",
}  # fmt: skip
_COMPARED = {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "pow", "remainder",
             "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor"}  # fmt: skip
_REDUCED = {
    "sum": "dim_IntList",
    "mean": "dim",
    "max": "dim",
    "min": "dim",
    "prod": "dim_int",
    "all": "dim",
    "any": "dim",
}


def aten_name(op: Any) -> str:
    """Return what ATen calls the operator that does what a primitive does."""
    return _NAMES.get(op.name, op.name.removesuffix("_all"))


class Called(overloads.OpOverload):
    """An operator as a handler gets it: calling it goes on with the primitive."""

    def __init__(self, name: str, overload: str, run: Callable[..., Any]) -> None:
        super().__init__(getattr(overloads.namespace("aten"), name), overload)
        self._run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the primitive."""
        return self._run(*args, **kwargs)


def operator_of(op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], writes: bool) -> Called:
    """Return the operator that a class's handler gets for a primitive, or for a function of a name."""
    if isinstance(op, str):
        return Called(op, "default", getattr(overloads.namespace("aten"), op))
    name = aten_name(op) + ("_" if writes else "")
    if writes and op.name == "copy":
        name = "copy_"

    def go_on(*args: Any, **kwargs: Any) -> Any:
        return write(op, args[0], args[1 : len(inputs)], args[len(inputs) :]) if writes else op.call(*args)

    return Called(name, _overload_of(name, inputs, params), go_on)


def _overload_of(name: str, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> str:
    if name.rstrip("_") in _COMPARED and len(inputs) > 1:
        second = isinstance(inputs[1], TensorBase)
        if name in ("pow", "pow_"):
            return "Tensor_Tensor" if second else "Tensor_Scalar"
        whole = name.rstrip("_") in ("add", "sub", "mul", "div")  # numbers are wrapped as tensors there
        return "Tensor" if second or whole else "Scalar"
    if name in _REDUCED and params and params[0] is not None and isinstance(inputs[0], TensorBase):
        every = len(params[0]) == inputs[0].array.ndim if isinstance(params[0], tuple) else False
        return "default" if every else _REDUCED[name]
    return {"where": "self", "select": "int", "split": "Tensor", "transpose": "int"}.get(name, "default")


def _classes(args: tuple[Any, ...]) -> tuple[type, ...]:
    """Return the classes among some operands that define a handler."""
    return tuple({type(a): None for a in args if isinstance(a, TensorBase) and isinstance(a.array, Dispatched)})


class TorchDispatchMode(Observer):
    """A context in which ``__torch_dispatch__`` of this object is called in the place of every primitive.

    Examples
    --------
    >>> from adjoint.utils._python_dispatch import TorchDispatchMode
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     x = adjoint.ones(2).sin() * 2
    aten.ones.default
    aten.sin.default
    aten.mul.Tensor
    """

    lifts = True

    def __init__(self, _dispatch_key: Any = None) -> None:
        """Do nothing."""

    def __enter__(self) -> Any:
        """See primitives, and functions that make tensors, from now on."""
        _watch_makers()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle a call of `func`."""
        raise NotImplementedError

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a mode of this class; the same as calling the class."""
        return cls(*args, **kwargs)

    def _handle(self, name: str, args: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        func = Called(name, _overload_of(name, args, params), run)
        with self._outside():
            return self.__torch_dispatch__(func, _classes(args), (*args, *params), {})

    @contextlib.contextmanager
    def _outside(self) -> Iterator[None]:
        """Let what the handler calls be seen by the modes around this one alone."""
        before, modes.local.observer = modes.local.observer, self.inner
        try:
            yield
        finally:
            modes.local.observer = before

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Hand a primitive to the handler."""
        if not any(isinstance(v, TensorBase) for v in inputs):
            return self.proceed(op, inputs, params, run)
        count = len(inputs)

        def go_on(*args: Any, **kwargs: Any) -> Any:
            values = args[0] if op.sequence is not None else args[:count]
            return self.proceed(op, tuple(values), args[1:] if op.sequence is not None else args[count:], run)

        name = aten_name(op)
        if op.sequence is not None:
            return self._handle(name, (list(inputs),), params, go_on)
        return self._handle(name, inputs, params, go_on)

    def compute_into(self, op: Any, x: TensorBase, inputs: Any, params: Any, run: Callable[[], None]) -> None:
        """Hand a write to the handler."""

        def go_on(*args: Any, **kwargs: Any) -> Any:
            run() if self.inner is None else self.inner.compute_into(op, x, inputs, params, run)
            return x

        rest = inputs[1:] if isinstance(inputs, tuple) and inputs and inputs[0] is x else inputs
        self._handle("copy_" if op.name == "copy" else f"{aten_name(op)}_", (x, *rest), tuple(params), go_on)


# Functions that make tensors are no primitives: when the first mode is entered, they are exchanged for ones that look
# for it.
_MAKERS = (
    "zeros", "ones", "empty", "full", "eye", "arange", "linspace", "logspace", "rand", "randn", "randint", "randperm",
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like", "empty_strided",
    "scalar_tensor", "tril_indices", "triu_indices",
)  # fmt: skip
_MADE_BY = {"empty": "memory_format"}


class _Maker(Dispatching):
    """A function that makes a tensor, and a mode sees."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Hand the call to the innermost mode, where one is on."""
        mode = _get_current_dispatch_mode()
        if mode is None:
            return super().__call__(*args, **kwargs)
        name = self._function.__name__
        func = Called(name, _MADE_BY.get(name, "default"), self)
        with mode._outside():
            return mode.__torch_dispatch__(func, (), args, kwargs)


def _watch_makers() -> None:
    module = sys.modules["adjoint"]
    if isinstance(vars(module)["zeros"], _Maker):
        return
    for name in _MAKERS:
        function = getattr(module, name, None)
        if function is not None:
            setattr(module, name, _Maker(getattr(function, "_function", function), "adjoint"))


def _get_current_dispatch_mode() -> Any:
    """Return the innermost mode of this thread, or None."""
    observer = modes.local.observer
    return observer if isinstance(observer, TorchDispatchMode) else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """Return the modes of this thread, innermost last."""
    found, observer = [], modes.local.observer
    while observer is not None:
        found.append(observer)
        observer = observer.inner
    return [o for o in reversed(found) if isinstance(o, TorchDispatchMode)]


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Run a block that no mode sees."""
    known, before = _get_current_dispatch_mode_stack(), modes.local.observer
    modes.local.observer = None
    try:
        yield known
    finally:
        modes.local.observer = before


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether a tensor is made of others and can be taken apart: none is here."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether the tensors of a class can be taken apart."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
