"""Subclasses of Tensor and function modes: methods and public functions call ``__torch_function__`` first.

Nothing here runs before a program defines such a class or enters such a mode: methods are wrapped on the
subclass alone, on Tensor itself only while a mode is on, and the public functions are exchanged for wrapped
ones when the first class is defined or the first mode entered.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

from .core import modes, overrides
from .core.overrides import ask, disabled_torch_function, dispatching, overloaded, plain, public_functions, unconverted
from .core.tensor import TensorBase
from .devices import forks

# What an operator goes by when ``__torch_function__`` is given it, where that is not its own name.
_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__rtruediv__": "__rdiv__", "__mod__": "remainder", "__pow__": "pow", "__matmul__": "matmul", "__neg__": "neg",
    "__pos__": "positive", "__abs__": "abs", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt",
    "__ge__": "ge", "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_", "__imod__": "remainder_", "__ipow__": "pow_", "__rand__": "bitwise_and",
    "__ror__": "bitwise_or", "__rxor__": "bitwise_xor",
}  # fmt: skip

# Methods that are Python code in PyTorch: handlers get their optional arguments by name, defaults included.
_PYTHON_METHODS = {
    "backward", "istft", "lu", "norm", "split", "stft", "unique", "unique_consecutive",
}  # fmt: skip

# What stays as it is: making and describing objects, and protocols that come back through ops.
UNTOUCHED = {
    "__new__", "__init__", "__init_subclass__", "__class_getitem__", "__torch_function__", "__hash__",
    "__getattribute__",
    "__array_ufunc__", "__array_function__", "__array_priority__", "__array_wrap__", "__slots__", "__module__",
    "__doc__",
    "__dict__", "__weakref__", "__setstate__", "__iter__", "as_subclass", "_make_subclass",
    "_make_wrapper_subclass", "__torch_dispatch__",
}  # fmt: skip

_SLOTS = {name: vars(TensorBase)[name] for name in TensorBase.__slots__ if not name.startswith("__")}
_MEANINGS = {"array": ", its value as a NumPy or CuPy array", "node": ", where its gradient goes"}


def _keep_slots(cls: Any) -> None:
    """Leave out what a class, or a mixin of its, has under the name of a slot of every tensor, and say so."""
    for name, slot in _SLOTS.items():
        if getattr(cls, name) is slot:
            continue
        setattr(cls, name, slot)  # ops read it there
        warnings.warn(
            f"{cls.__name__}.{name} is left out: `{name}` is an attribute of every tensor of adjoint"
            f"{_MEANINGS.get(name, '')}. Give yours another name",
            stacklevel=4,
        )


def prepare(cls: Any, tensor: Any) -> None:
    """Make a new subclass of `tensor` plain, if it declares itself so, or let its methods call its handler."""
    _keep_slots(cls)
    if any("__torch_dispatch__" in vars(base) for base in cls.__mro__[: cls.__mro__.index(tensor)]):
        dispatching.add(cls)
        if _is_inherited(cls, tensor):
            cls.__torch_function__ = disabled_torch_function
    if cls.__torch_function__ is disabled_torch_function:
        plain.add(cls)
        return
    if any(base is not tensor and base not in plain and issubclass(base, tensor) for base in cls.__mro__[1:]):
        return  # its base has the wrapped methods already
    given = {name for base in cls.__mro__[: cls.__mro__.index(_plain_base(cls))] for name in vars(base)}
    for base in reversed(_plain_base(cls).__mro__):
        for name, value in list(vars(base).items()):
            value = _originals.get(name, value) if base is tensor else value
            if name not in given and name not in UNTOUCHED and issubclass(base, tensor):
                wrapped = _wrapped(name, value, tensor)
                if wrapped is not None:
                    setattr(cls, name, wrapped)
    _name_methods(tensor)
    unconverted.update(vars(tensor)[name].__get__ for name in ("grad", "_base"))
    _exchange_functions()


def _is_inherited(cls: Any, tensor: Any) -> bool:
    """Return whether a class inherits its handler of functions."""
    given = getattr(cls.__torch_function__, "__func__", None)
    return given is vars(tensor)["__torch_function__"].__func__


def _name_methods(tensor: Any) -> None:
    """Let the functions in the table of methods go by a method's name, which handlers read."""
    names: dict[Any, list[str]] = {}
    for name, value in vars(tensor).items():
        if isinstance(value, types.FunctionType):
            names.setdefault(value, []).append(name)
    for function, known in names.items():
        if function.__name__ not in known:
            function.__name__ = next((name for name in known if not name.startswith("__")), known[0])
            function.__qualname__ = function.__name__


def _plain_base(cls: Any) -> Any:
    return next(base for base in cls.__mro__[1:] if base in plain)


def _wrapped(name: str, value: Any, tensor: Any) -> Any:
    if isinstance(value, property):
        return _wrapped_property(value)
    if isinstance(value, types.FunctionType):
        shown = vars(tensor).get(_OPERATORS.get(name, name), value)
        return _wrapped_method(name, value, shown)
    return None


def _wrapped_method(name: str, method: Callable[..., Any], shown: Callable[..., Any]) -> Callable[..., Any]:
    signature = _without_out(inspect.signature(method)) if name in _PYTHON_METHODS else None

    @functools.wraps(method)
    def asking(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not modes.local.subclasses_off:
            found = overloaded((self, *args), kwargs)
            if signature is not None:
                args, kwargs = _by_name(signature, method, (self, *args), kwargs)
                return ask(shown, found, args, kwargs)
            return ask(shown, found, (self, *args), kwargs)
        if modes.local.function_modes:
            return ask(asking, [], (self, *args), kwargs)
        return method(self, *args, **kwargs)

    asking.__name__ = name
    return asking


def _without_out(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature of a method whose function has an ``out`` besides."""
    return signature.replace(parameters=[p for p in signature.parameters.values() if p.name != "out"])


def _by_name(
    signature: inspect.Signature, function: Callable[..., Any], args: Any, kwargs: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the arguments of a call with the required ones by position, and every optional one by name."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        function(*args, **kwargs)  # raises, and names the function
        raise
    bound.apply_defaults()
    required = [p.name for p in signature.parameters.values() if p.default is p.empty]
    named = {name: value for name, value in bound.arguments.items() if name not in required}
    return tuple(bound.arguments[name] for name in required), named


def _wrapped_property(prop: property) -> property:
    def get(self: Any) -> Any:
        if modes.local.subclasses_off:
            return prop.__get__(self)
        return ask(prop.__get__, [self], (self,), {})

    def set_(self: Any, value: Any) -> None:
        if modes.local.subclasses_off:
            prop.__set__(self, value)
        else:
            ask(prop.__set__, [self], (self, value), {})

    def delete(self: Any) -> None:
        if modes.local.subclasses_off:
            prop.__delete__(self)
        else:
            ask(prop.__delete__, [self], (self,), {})

    return property(
        get, set_ if prop.fset is not None else None, delete if prop.fdel is not None else None, prop.__doc__
    )


_NUMBERS = {int, float, bool, complex, str, type(None)}


# NumPy's names for arguments, which torch's functions understand beside their own.
_OLDER = {"x": "input", "a": "input", "x1": "input", "x2": "other"}


def _renamed(function: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return keyword arguments under the names that a function gives them."""
    known = inspect.signature(function).parameters
    return {_OLDER[k] if k in _OLDER and k not in known and _OLDER[k] in known else k: v for k, v in kwargs.items()}


# What PyTorch's functions of these modules have before their names.
_PREFIXES = {"adjoint.linalg": "linalg_", "adjoint.fft": "fft_", "adjoint.special": "special_"}


class Dispatching:
    """A public function that dispatches to the classes of its arguments first; equal to the function it stands for."""

    def __init__(self, function: Callable[..., Any], module: str) -> None:
        functools.update_wrapper(self, function)
        self.__module__ = module
        prefix = _PREFIXES.get(module, "")
        self.__name__ = prefix + function.__name__.removeprefix(prefix)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, unless an argument's class handles the call."""
        if not kwargs and not modes.local.function_modes:
            for value in args:
                if type(value) not in plain and type(value) not in _NUMBERS:
                    break
            else:  # as nearly always
                return self._function(*args)
        if kwargs and not kwargs.keys().isdisjoint(_OLDER):
            kwargs = _renamed(self._function, kwargs)
        local = modes.local
        found = [] if local.subclasses_off else self._found(args, kwargs)
        if found or local.function_modes:
            return ask(self, found, *self._passed(args, kwargs))
        return self._function(*args, **kwargs)

    def _passed(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the arguments as a handler gets them."""
        return args, kwargs

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind to an instance as the plain function does; `help` takes it for a function because of this."""
        return self if instance is None else types.MethodType(self, instance)

    def _found(self, args: Any, kwargs: Any) -> list[Any]:
        return overloaded(args, kwargs)

    def __eq__(self, other: object) -> bool:
        return self is other or self._function is other

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return repr(self._function)

    def __reduce__(self) -> str:
        return self._function.__name__


Dispatching.__name__ = "function"  # what `help` calls it


class NamingDispatching(Dispatching):
    """A public function that is Python code in PyTorch, where handlers get every optional argument by name."""

    def _passed(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return _by_name(self._signature, self._function, args, kwargs)

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._function)


NamingDispatching.__name__ = "function"


class ModeDispatching(Dispatching):
    """A public function that modes see, and that is never dispatched to a class."""

    def _found(self, args: Any, kwargs: Any) -> list[Any]:
        return []


def _asking_property(prop: property) -> property:
    """Return an attribute of Tensor as it is while a mode is on."""

    def through(word: str) -> Any:
        given = getattr(prop, word)

        def access(self: Any, *value: Any) -> Any:
            if modes.local.function_modes:
                return ask(getattr(asking, word), [] if type(self) in plain else [self], (self, *value), {})
            return given(self, *value)

        return access

    asking = property(
        through("__get__"),
        through("__set__") if prop.fset is not None else None,
        through("__delete__") if prop.fdel is not None else None,
        prop.__doc__,
    )
    return asking


_originals: dict[str, Any] = {}  # what Tensor's table holds when no mode is on; empty then
_asking: dict[str, Any] = {}
_entered = 0
_lock = forks.lock()


def enter_mode(tensor: Any) -> None:
    """Let the functions and Tensor's methods look for modes, from the first mode of any thread on."""
    global _entered
    with _lock:
        _entered += 1
        if _entered > 1:
            return
        _name_methods(tensor)
        _exchange_functions()
        _exchange_for_modes()
        if not _asking:
            _asking.update(_asking_table(tensor))
        for name, value in _asking.items():
            _originals[name] = vars(tensor)[name]
            setattr(tensor, name, value)


def leave_mode(tensor: Any) -> None:
    """Give Tensor its own methods back after the last mode."""
    global _entered
    with _lock:
        _entered -= 1
        if not _entered:
            for name, value in _originals.items():
                setattr(tensor, name, value)
            _originals.clear()


def _asking_table(tensor: Any) -> dict[str, Any]:
    """Return what stands in for the methods and attributes of Tensor while a mode is on."""
    table: dict[str, Any] = {}
    for name, value in vars(tensor).items():
        if name in UNTOUCHED:
            continue
        if isinstance(value, property):
            table[name] = _asking_property(value)
        elif isinstance(value, types.FunctionType):
            table[name] = Dispatching(value, "adjoint.Tensor")
            table[name].__name__ = name
    for operator, name in _OPERATORS.items():
        if operator in table and name in table:
            table[operator] = table[name]
    return table


# Functions that modes see and classes do not: they take any object, or look for tensors themselves.
_FOR_MODES = {
    "adjoint": ("tensor", "as_tensor", "asarray", "from_numpy"),
    "adjoint.autograd": ("grad", "backward"),
}


def _exchange_for_modes() -> None:
    for name, functions in _FOR_MODES.items():
        module = sys.modules[name]
        for key in functions:
            function = vars(module)[key]
            if not isinstance(function, Dispatching):
                setattr(module, key, ModeDispatching(function, name))


MODULES = ("adjoint", "adjoint.linalg", "adjoint.fft", "adjoint.special", "adjoint.nn.functional")
# Functions of nn.functional that are C++ in PyTorch, and functions of torch that are Python there.
_COMPILED = {
    "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity",
    "elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "linear", "logsigmoid", "native_channel_shuffle",
    "one_hot", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_",
    "scaled_dot_product_attention", "selu_", "sigmoid", "softplus", "softshrink", "tanh", "threshold_",
}  # fmt: skip
_WRITTEN_IN_PYTHON = {
    "cdist", "lobpcg", "lu", "norm", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique",
    "unique_consecutive",
}  # fmt: skip


def _names_defaults(module: str, name: str) -> bool:
    """Return whether PyTorch passes a function's optional arguments to handlers by name."""
    if module == "adjoint.nn.functional":
        return name not in _COMPILED
    return module == "adjoint" and name in _WRITTEN_IN_PYTHON


# What torch computes without a handler: functions of any object, or of no tensor.
NOT_ASKED = {"is_tensor", "is_storage", "tensor", "as_tensor", "asarray", "from_numpy", "typename", "manual_seed"}
_exchanged: set[str] = set()


def exchange_now() -> None:
    """Make the public functions check for handlers from now on: classes with handlers need not be tensors."""
    if not _exchanged:
        _name_methods(overrides.tensor)
    _exchange_functions()


def exchange_late() -> None:
    """Exchange the functions of a module that is imported after the first class of tensors was made."""
    if _exchanged:
        _exchange_functions()


def _exchange_functions() -> None:
    """Put asking functions in the place of the public ones, in every public module that is imported."""
    for name in MODULES:
        module = sys.modules.get(name)
        if module is None or name in _exchanged:
            continue
        _exchanged.add(name)
        for key, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType) and not key.startswith("_") and key not in NOT_ASKED:
                if name == "adjoint" and not value.__module__.startswith("adjoint.ops."):
                    continue
                asking = (NamingDispatching if _names_defaults(name, key) else Dispatching)(value, name)
                setattr(module, key, asking)
                if name == "adjoint":
                    public_functions[key] = asking
