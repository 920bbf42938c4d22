"""Errors of public functions for wrong arguments: torch's class and wording, from their annotated signatures.

The public name of a function that takes long stands for one that compares the types of the arguments with the
annotations first, and names the call where Python's or NumPy's words escape the body. What takes a microsecond or two
is not delayed: recorders, the functions of `DIRECT` and `HOT`, and the methods of `METHODS` have no frame around them.
They check in their own bodies and in the general path of primitives. Others of `SHORT` compare after a failure.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from ..core.dtypes import dtype
from ..core.failures import broadcast_error
from ..core.layout import layout, memory_format
from ..core.overrides import plain
from ..core.payload import Payload
from ..core.size import Size
from ..core.tensor import TensorBase
from ..errors import own_files
from .arguments import is_int
from .refusals import REFUSALS, refuse_dtypes

# Functions that small models call in every step, and one that says of a seed what `int` does.
HOT = frozenset((
    "argmax", "bmm", "cat", "clamp", "clamp_max", "clamp_min", "clone", "empty", "empty_like", "flatten",
    "is_floating_point", "is_tensor", "linear", "log_softmax", "manual_seed", "matmul", "max", "maximum", "mean",
    "min", "minimum", "mm", "numel", "ones", "ones_like", "permute", "relu", "reshape", "softmax", "squeeze", "stack",
    "sum", "tensor", "transpose", "unsqueeze", "where", "zeros", "zeros_like",
))  # fmt: skip
# Functions of every training step that take a few microseconds: they compare after a failure.
STEP = frozenset((
    "binary_cross_entropy_with_logits", "cross_entropy", "cumprod", "cumsum", "embedding",
    "index_select", "kl_div", "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss",
))  # fmt: skip
# Modules whose functions do little more than call a primitive; modules of which that is true of a method, whose first
# argument is a tensor; and modules of short functions.
DIRECT = frozenset(("compare", "elementwise", "power", "trigonometry"))
METHODS = DIRECT | {
    "activation", "convert", "copies", "create", "create_like", "dimensions", "index", "kinds", "memory", "piecewise",
    "questions", "shape",
}  # fmt: skip
SHORT = METHODS - {"create", "create_like"}
# Functions of these modules that take so long that they compare first.
LONG = frozenset((
    "addcdiv", "addcdiv_", "addcmul", "addcmul_", "bernoulli", "fill", "index_put", "index_put_", "lerp", "lerp_",
    "resize_as_", "round_", "rrelu", "rrelu_", "squeeze_", "threshold", "threshold_",
))  # fmt: skip

_NUMBERS = (int, float, complex, np.generic)


def _is_tensor(value: object) -> bool:
    return isinstance(value, TensorBase | Payload) or hasattr(type(value), "__torch_function__")


def _is_bool(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_float(value: object) -> bool:
    if isinstance(value, TensorBase | np.ndarray):
        return value.ndim == 0  # type: ignore[union-attr]
    return hasattr(type(value), "__float__") and not isinstance(value, np.complexfloating)


def _is_number(value: object) -> bool:
    return isinstance(value, _NUMBERS) or _is_float(value)


def _is_operand(value: object) -> bool:
    return isinstance(value, _NUMBERS) or _is_tensor(value) or hasattr(value, "dtype") or _is_float(value)


def _is_size(value: object) -> bool:
    return isinstance(value, list | tuple) and all(is_int(n) or isinstance(n, TensorBase | Payload) for n in value)


def _is_sizes(value: object) -> bool:
    return is_int(value) or _is_size(value)


def _is_dims(value: object) -> bool:
    return value is None or is_int(value) or (isinstance(value, list | tuple) and all(map(is_int, value)))


def _is_output(value: object) -> bool:
    return not isinstance(value, bool | str | dict | TensorBase)


def _is_format(value: object) -> bool:
    return value is None or isinstance(value, memory_format)


def _is_layout(value: object) -> bool:
    return value is None or isinstance(value, layout)


def _is_dtype(value: object) -> bool:
    return value is None or isinstance(value, dtype | type)


def _is_str(value: object) -> bool:
    return isinstance(value, str)


_labels: list[str] = []
_type = type  # also where a parameter has that name


class _Kind:
    """What an annotation lets pass: types known to be right, and a question for the others."""

    def __init__(self, words: str, fits: Callable[[object], bool], *known: type) -> None:
        self.words, self.fits, self.known = words, fits, set(known)
        self.label = f"_known_{len(_labels)}"  # a name of this module, for the frames
        _labels.append(self.label)
        globals()[self.label] = self.known

    @cached_property
    def or_none(self) -> _Kind:
        return _Kind(self.words, lambda value: value is None or self.fits(value), *self.known, type(None))

    @cached_property
    def or_name(self) -> _Kind:
        return _Kind(self.words, lambda value: isinstance(value, str) or self.fits(value), *self.known, str)

    def takes(self, value: object) -> bool:
        if not self.fits(value) and (isinstance(value, TensorBase) or not hasattr(type(value), "__torch_function__")):
            return False
        if type(value) in plain and self.words == "Tensor":
            self.known.add(type(value))
        return True


_KINDS = {
    "Tensor": _Kind("Tensor", _is_tensor),
    "bool": _Kind("bool", _is_bool, bool),
    "int": _Kind("int", is_int, int),
    "float": _Kind("float", _is_float, float, int),
    "str": _Kind("str", _is_str, str),
    "Number": _Kind("Number", _is_number, float, int),
    "Tensor | Number": _Kind("Tensor", _is_operand, float, int),
    "Size": _Kind("tuple of ints", _is_size, Size, tuple),
    "Sizes": _Kind("tuple of ints", _is_sizes, int, Size, tuple),
    "Dims": _Kind("tuple of ints", _is_dims, int, type(None)),
    "Dims | bool": _Kind("tuple of ints", lambda value: _is_bool(value) or _is_dims(value), int, bool, type(None)),
}
# Shared names of the same types (`adjoint._typing`), and what they stand for.
_KINDS |= {
    "Scalar": _KINDS["Number"],
    **dict.fromkeys(("Tensor | Scalar", "Tensor | complex"), _KINDS["Tensor | Number"]),
}
_KINDS |= {f"{name} | None": kind.or_none for name, kind in _KINDS.items()}

# Parameters of which the body refuses a wrong value by ValueError, whatever its type; and those that are none.
_UNCHECKED = {"reduction", "compute_mode", "align_corners", "return_indices", "get_infos", "return", "args", "kwargs"}
# What the name of a parameter says, where its annotation lets anything pass.
_NAMED = {
    "normalized_shape": _KINDS["Size"],
    "split_sizes": _KINDS["Size"],
    "kernel_size": _KINDS["Sizes | None"],
    "dilation": _KINDS["Sizes | None"],
    "output_padding": _KINDS["Sizes | None"],
    "unbiased": _KINDS["bool | None"],
    "pad": _KINDS["Size"],
    "stride": _KINDS["Sizes | None"],
    "sorter": _KINDS["Tensor | None"],
    "shifts": _KINDS["Sizes"],
    "rtol": _KINDS["Tensor | Number | None"],
    "atol": _KINDS["Tensor | Number | None"],
    "alpha": _KINDS["Number"],
    "dx": _KINDS["Number"],
    "padding": _KINDS["Sizes"].or_name,
    "beta": _KINDS["Number"],
    "ord": _KINDS["Number"].or_name,
    "output_size": _Kind("tuple of ints", _is_output, int, tuple, list, Size),
    "s": _KINDS["Sizes"],
    "dtype": _Kind("torch.dtype", _is_dtype, dtype, type(None)),
    "layout": _Kind("torch.layout", _is_layout, layout, type(None)),
    "correction": _KINDS["Number"],
    "memory_format": _Kind("torch.memory_format", _is_format, memory_format, type(None)),
    "dim": _KINDS["Dims"],
}

# Errors of Python's and NumPy's that are about something inside the function, not about the caller's argument.
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
# What a tensor or an array says where a number is wanted.
_AMBIGUOUS = re.compile(r"truth value of an array|Boolean value of Tensor|only one element tensors can be converted")
# What a function itself says of a number that is too large.
_TOO_LARGE = re.compile(r"too big to convert|without overflow|expects to return a \[from, to\) range")
_ESCAPING = (AttributeError, IndexError, KeyError, OverflowError, RuntimeError, StopIteration, TypeError, ValueError)

_checked: dict[FunctionType, Callable[..., Any]] = {}


def _shown(value: object) -> str:
    if isinstance(value, TensorBase):
        return "Tensor"
    kind = type(value)
    return {"numpy": f"numpy.{kind.__name__}", "adjoint.core.dtypes": "torch.dtype"}.get(kind.__module__, kind.__name__)


def _said(kind: _Kind, value: object) -> str:
    advice = ""
    if kind.words == "Tensor" and isinstance(value, list | tuple | int | float | np.ndarray):
        advice = "; convert it with adjoint.tensor(...)"
    return f"must be {kind.words}, not {_shown(value)}{advice}"


def _combination(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    given = [*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())]
    return TypeError(f"{name}() received an invalid combination of arguments - got ({', '.join(given)})")


def explain(error: Exception, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
    """Raise what a caller should read of an error in a function's body: `error` itself, or one that names the call."""
    text = str(error)
    huge = any(map(_is_huge, _parts(args, kwargs)))
    clear = (type(error) is TypeError and not _FOREIGN.search(text)) or _TOO_LARGE.search(text)
    if huge and not clear and " must be " not in text:
        raise ValueError(f"Overflow when unpacking long long: an argument of {name}() is too large") from error
    if text == "tuple index out of range" and any(isinstance(v, TensorBase) and not v.array.shape for v in args):
        raise IndexError(f"Dimension specified as -1 but tensor has no dimensions: {name}() was given a 0-d tensor")
    if text == "tuple index out of range" and any(isinstance(v, TensorBase) for v in _parts(args, kwargs)):
        raise IndexError(f"Dimension out of range: {name}() was given a tensor of too few dimensions") from error
    if isinstance(error, AttributeError):
        given = getattr(error, "obj", None)
        if type(given).__module__ in ("builtins", "numpy") or any(given is value for value in _parts(args, kwargs)):
            raise _combination(name, args, kwargs) from error
    elif isinstance(error, StopIteration | RecursionError) or (name != "is_nonzero" and _AMBIGUOUS.search(text)):
        raise _combination(name, args, kwargs) from error
    elif type(error) in (TypeError, ValueError, IndexError, KeyError):
        if _SHAPES.search(text):
            raise _of_shapes(name, args, kwargs) from error
        if _FOREIGN.search(text) and not text.startswith(f"{name}()"):
            raise _combination(name, args, kwargs) from error
    raise error


def _is_huge(value: object) -> bool:
    return type(value) is int and not -(2**63) <= value < 2**63


def _of_shapes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception:
    shapes = [tuple(v.array.shape) for v in _parts(args, kwargs) if isinstance(v, TensorBase)]
    pairs = (broadcast_error(a, b) for i, a in enumerate(shapes) for b in shapes[i + 1 :])
    found = next((error for error in pairs if error is not None), None)
    return found or RuntimeError(f"{name}(): the shapes of the arguments do not fit each other: {shapes}")


def _parts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        found.append(value)
        if isinstance(value, list | tuple):
            found += value
    return found


# Functions that torch's Python code gives a tuple of what was one number.
_PAIRED = {"fold", "max_unpool1d", "max_unpool2d", "max_unpool3d", "unfold"}


class _Signature:
    """What a function's annotations say of its arguments, read when it is first called, or first fails."""

    def __init__(self, function: Any, name: str, short: bool) -> None:
        self.function, self.name, self.short = function, name, short
        self.call: Any = function

    @cached_property
    def described(self) -> Any:
        """The function as it was written."""
        return inspect.unwrap(self.function)

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The names of the parameters that have a position."""
        code = self.described.__code__
        return tuple(code.co_varnames[: code.co_argcount])

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The names of the parameters that are given by name alone."""
        code = self.described.__code__
        return tuple(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The values of the parameters that may be left out."""
        values = self.described.__defaults__ or ()
        return dict(zip(self.places[len(self.places) - len(values) :], values)) | (self.described.__kwdefaults__ or {})

    @cached_property
    def kinds(self) -> dict[str, _Kind]:
        """What may be given for a parameter, where its annotation says something."""
        said = self.described.__annotations__.items()
        return {key: kind for key, text in said if (kind := _kind_of(key, text, self.defaults.get(key, ...)))}

    def written(self) -> str | None:
        """Return a frame with the parameters of the function as text; None for one that takes any number of them."""
        code = self.described.__code__
        if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return None
        only = code.co_posonlyargcount
        shown = [*self.places[:only], *("/",) * bool(only), *self.places[only:], *("*",) * bool(self.named)]
        # Autocast looks for what is written into by its name.
        unnamed = self.places.index("out") if "out" in self.places else len(self.places)
        passed = [*self.places[:unnamed], *(f"{key}={key}" for key in (*self.places[unnamed:], *self.named))]
        values = "".join(f"{key}, " for key in (*self.places, *self.named))
        tests = [] if self.short else [self._test(key, kind) for key, kind in self.kinds.items()]
        lines = [
            "def frame(_function, _signature):",
            f" def call({', '.join((*shown, *self.named))}):",
            *(f"  if {' or '.join(tests)}: _signature.refuse(({values}))" for _ in tests[:1]),
            *("  " + line for line in self._refusals(values)),
            f"  try: return _function({', '.join(passed)})",
            f"  except _ESCAPING as _error: _signature.explain(_error, ({values}))",
            " return call",
        ]
        return "\n".join(lines)

    def _refusals(self, values: str) -> Iterator[str]:
        """Yield the line that looks at dtypes, for a function that has refusals."""
        refusal = REFUSALS.get(self.function.__name__)
        if refusal is not None:
            strange = "_type({0}) not in plain or {0}.array.dtype.kind in '{1}'"
            tests = [strange.format(key, refusal.kinds) for key in refusal.parameters.split()]
            yield f"if {' or '.join(tests)}: _signature.refuse_dtypes(({values}))"

    def refuse_dtypes(self, values: tuple[Any, ...]) -> None:
        """Raise for the first argument of a dtype that is refused, or that is no tensor."""
        self.refuse(values)
        refuse_dtypes(self.function.__name__, dict(zip((*self.places, *self.named), values, strict=True)))

    def _test(self, key: str, kind: _Kind) -> str:
        default = self.defaults.get(key, ...)
        unless = f"{key} is not {default} and " if default is None or type(default) is bool else ""
        return f"{unless}_type({key}) not in {kind.label}"

    def refuse(self, values: tuple[Any, ...]) -> None:
        """Raise TypeError for the first argument that is not what its annotation says."""
        _refuse(self.name, self.places, self.kinds, *self._given(values))

    def explain(self, error: Exception, values: tuple[Any, ...]) -> NoReturn:
        """Raise what a caller should read of an error in the function's body."""
        args, kwargs = self._given(values)
        _refuse(self.name, self.places, self.kinds, args, kwargs)
        for key, value in zip((*self.places, *self.named), values, strict=True):
            sizes = key in self.kinds and self.kinds[key].words == "tuple of ints"
            if sizes and any(map(_is_huge, _parts((value,), {}))):
                if _is_huge(value) and self.name not in _PAIRED:
                    raise ValueError(f"Overflow when unpacking long long: {self.name}({key}={value})") from error
                raise TypeError(
                    f"{self.name}(): argument '{key}' failed to unpack the object {value}: Overflow when unpacking "
                    "long long"
                ) from error
        explain(error, self.name, args, kwargs)

    def _given(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they probably were given: those with a default, and flags, by name."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for key, value in zip((*self.places, *self.named), values, strict=True):
            if key in self.defaults and value is self.defaults[key]:
                continue
            if len(args) < len(self.places) and self.places[len(args)] == key and self._is_positional(key):
                args.append(value)
            else:
                kwargs[key] = value
        return tuple(args), kwargs

    def _is_positional(self, key: str) -> bool:
        return key not in self.kinds or self.kinds[key].words != "bool"


def checked(function: FunctionType, prefix: str = "", short: bool = False) -> Callable[..., Any]:
    """Return a function that compares its arguments with the annotations of `function`, and calls it.

    A `short` one compares nothing before it has failed.
    """
    signature = _Signature(function, prefix + function.__name__.removeprefix(prefix), short)
    signature.call = call = _first_frame(function, signature)
    call.__name__ = function.__name__
    call.__doc__, call.__annotations__ = function.__doc__, function.__annotations__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    call.checks = True  # type: ignore[attr-defined]
    return call


def checks(function: Any) -> Any:
    """Decorate a public function of another package: it compares its arguments with its annotations first."""
    call = checked(function)
    call.__module__, call.__qualname__ = function.__module__, function.__qualname__
    return call


# Frames around a function: they have the same closure, so that one may take the place of another.


def _first_frame(_function: Any, _signature: _Signature) -> FunctionType:
    """Return the frame of a function that was never called: it costs nothing to make, and writes the one that stays."""

    def call(*args: Any, **kwargs: Any) -> Any:
        text, own = _signature.written(), {"frame": _any_frame}
        if text is not None:  # names of parameters, and nothing else
            file = f"<arguments of {_signature.name}>"
            own_files.add(file)
            exec(compile(text, file, "exec"), globals(), own)  # noqa: S102
            described = _signature.described
            _signature.call.__defaults__ = described.__defaults__
            _signature.call.__kwdefaults__ = described.__kwdefaults__
        _signature.call.__code__ = own["frame"](_function, _signature).__code__
        return _signature.call(*args, **kwargs)

    return call  # type: ignore[return-value]


def _any_frame(_function: Any, _signature: _Signature) -> FunctionType:
    """Return the frame of a function that takes any number of arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        places = len(_signature.places)
        if kwargs or (len(args) > 1 < places) or (args and places and type(args[0]) not in plain):
            _refuse(_signature.name, _signature.places, _signature.kinds, args, kwargs)
        try:
            return _function(*args, **kwargs)
        except _ESCAPING as error:
            _refuse(_signature.name, _signature.places, _signature.kinds, args, kwargs)
            explain(error, _signature.name, args, kwargs)

    return call  # type: ignore[return-value]


def _kind_of(name: str, annotation: str, default: object) -> _Kind | None:
    """Return what may be given for a parameter; None for anything."""
    if name in _UNCHECKED:
        return None
    kind = _KINDS.get(annotation, _NAMED.get(name))
    return kind.or_none if kind is not None and default is None else kind


def _refuse(
    name: str, places: tuple[str, ...], kinds: dict[str, _Kind], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise TypeError for the first argument that is not what its annotation says."""
    for key, value in (*zip(places, args, strict=False), *kwargs.items()):
        if isinstance(value, complex) and key in _SCALARS and not any(map(_is_complex, _parts(args, kwargs))):
            raise RuntimeError(f"value cannot be converted to type float without overflow: {name}({key}={value})")
    for at, (key, value) in enumerate(zip(places, args, strict=False), 1):
        if key in kinds and not kinds[key].takes(value):
            raise TypeError(f"{name}(): argument '{key}' (position {at}) {_said(kinds[key], value)}")
    for key, value in kwargs.items():
        if key in kinds and not kinds[key].takes(value):
            raise TypeError(f"{name}(): argument '{key}' {_said(kinds[key], value)}")


# Parameters that are numbers of the tensor's dtype.
_SCALARS = {"alpha", "beta", "threshold", "min_val", "max_val", "negative_slope", "lambd"}


def _is_complex(value: object) -> bool:
    return isinstance(value, TensorBase) and value.array.dtype.kind == "c"


def enforce(names: dict[str, Any], home: str, prefix: str = "", only: str | None = None) -> None:
    """Let the public functions of a namespace, the module `home`, or one of them, check their arguments."""
    chosen: list[tuple[str, Any]] = list(names.items()) if only is None else [(only, names[only])]
    for key, value in chosen:
        without = DIRECT if key not in LONG else ()
        if key not in HOT and not key.startswith("__") and _module_of(value) not in (None, *without):
            if value not in _checked:
                _checked[value] = call = checked(value, prefix, _is_short(key, value))
                call.__module__ = home  # where pickles find it
                own: str = value.__name__
                call.__qualname__ = own if names.get(own) is value else key
            names[key] = _checked[value]


def enforce_methods(tensor: Any) -> None:
    """Let the methods of Tensor that take long check their arguments, as the public functions do."""
    for key, value in list(vars(tensor).items()):
        without = METHODS if key not in LONG else ()
        if (
            key not in HOT
            and key != "select"
            and not key.startswith("__")
            and _module_of(value) not in (None, *without)
        ):
            if value not in _checked:
                _checked[value] = call = checked(value, short=_is_short(key, value))
                call.__module__, call.__qualname__ = value.__module__, value.__qualname__
            setattr(tensor, key, _checked[value])


def _is_short(name: str, function: Any) -> bool:
    return name in STEP or (_module_of(function) in SHORT and name not in LONG)


def _module_of(value: object) -> str | None:
    """Return the module of ops that a function with a Python body is defined in; None for what checks itself."""
    if type(value) is not FunctionType or hasattr(value, "op") or hasattr(value, "checks"):  # a recorder; done
        return None
    package, _, module = (value.__module__ or "").rpartition(".")
    return module if package == "adjoint.ops" else None
