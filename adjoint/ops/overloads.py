"""``torch.ops``: operators by namespace and overload, adjoint's own and those that a program registers."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["OpNamespace", "OpOverload", "OpOverloadPacket", "namespace", "register"]


class OpOverload:
    """One overload of an operator: ``torch.ops.aten.mul.Tensor``. All overloads of one call the same function."""

    def __init__(self, overloadpacket: OpOverloadPacket, overload: str) -> None:
        self.overloadpacket = self._overloadpacket = overloadpacket
        self.namespace, self._opname, self._overloadname = overloadpacket.namespace, overloadpacket._opname, overload
        self.__name__ = f"{self._opname}.{overload}"
        self.__module__, self.__qualname__ = f"torch._ops.{self.namespace}", self.name()
        self.tags: list[Any] = []

    @property
    def op(self) -> Callable[..., Any]:
        """The function that is called."""
        return self.overloadpacket.op

    _op = op

    @property
    def _schema(self) -> Any:
        return Schema(self.name(), self.overloadpacket.schema)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator."""
        return self.overloadpacket(*args, **kwargs)

    def name(self) -> str:
        """Return the name with its namespace: ``aten::mul.Tensor``."""
        end = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.namespace}::{self._opname}{end}"

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """Return NotImplemented: operators have no decompositions here."""
        return NotImplemented

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpOverload) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self


class Schema:
    """The signature of an operator, as text."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def __str__(self) -> str:
        return f"{self.name}{self.text}"

    __repr__ = __str__


class OpOverloadPacket:
    """An operator: ``torch.ops.aten.mul``; its overloads are attributes."""

    def __init__(self, space: str, name: str, function: Callable[..., Any], schema: str = "(...)") -> None:
        self.namespace, self._opname, self.op, self.schema = space, name, function, schema
        self._qualified_op_name = f"{space}::{name}"
        self.__name__, self.__module__ = name, f"torch._ops.{space}"
        self._known: dict[str, OpOverload] = {}

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("_"):
            raise AttributeError(f"the operator '{self._qualified_op_name}' has no attribute '{name}'")
        return self._known.setdefault(name, OpOverload(self, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator."""
        return self.op(*args, **kwargs)

    def overloads(self) -> list[str]:
        """Return the names of the overloads that have been looked up, and ``default``."""
        return sorted({"default", *self._known})

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self._opname}')>"

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self


class OpNamespace(types.ModuleType):
    """A namespace of operators; of ``aten`` and ``prims`` every name can be mentioned, what is known be called."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self.name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__") or self.name not in ("aten", "prims"):
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        packet = self.__dict__[name] = OpOverloadPacket(self.name, name, _own(self.name, name))
        return packet


_spaces: dict[str, OpNamespace] = {}


def namespace(name: str) -> OpNamespace:
    """Return a namespace of operators, made when it is first looked up."""
    return _spaces.setdefault(name, OpNamespace(name))


def register(space: str, name: str, function: Callable[..., Any], schema: str) -> OpOverloadPacket:
    """Register a custom operator in a namespace."""
    packet = namespace(space).__dict__[name] = OpOverloadPacket(space, name, function, schema)
    return packet


# --- adjoint's own functions under the names of ATen --------------------------------------------------


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


# Names that ATen has and the public API has not.
_OTHERS: dict[str, Callable[..., Any]] = {
    "slice": _slice,
    "_softmax": lambda x, dim, half_to_float: x.softmax(dim),
    "_log_softmax": lambda x, dim, half_to_float: x.log_softmax(dim),
    "_to_copy": lambda x, **options: x.to(**options, copy=True),
    "_unsafe_view": lambda x, size: x.reshape(size),
    "alias": lambda x: x.view_as(x),
    "lift_fresh": lambda x: x,
    "_local_scalar_dense": lambda x: x.item(),
    "index": lambda x, indices: x[tuple(slice(None) if i is None else i for i in indices)],
    "threshold_backward": lambda g, x, threshold: g * (x > threshold),
    "sigmoid_backward": lambda g, out: g * (1 - out) * out,
    "tanh_backward": lambda g, out: g * (1 - out * out),
    "_log_softmax_backward_data": lambda g, out, dim, dtype: g - out.exp() * g.sum(dim, keepdim=True),
    "convert_element_type": lambda x, dtype: x.to(dtype),
    "scalar_tensor": lambda s, **options: sys.modules["adjoint"].tensor(s, **options),
}


def _own(space: str, name: str) -> Callable[..., Any]:
    """Return adjoint's function of a name; one that raises, where there is none."""
    adjoint = sys.modules["adjoint"]
    if name in _OTHERS:
        return _OTHERS[name]
    native = sys.modules["adjoint.ops.native"]
    if callable(function := getattr(adjoint, name, None) or vars(native).get(name)):
        return function  # type: ignore[no-any-return]
    if callable(method := getattr(adjoint.Tensor, name, None)):
        return method  # type: ignore[no-any-return]
    namespace, _, rest = name.partition("_")
    homes = [(adjoint.nn.functional, name)]
    if namespace in ("linalg", "fft", "special"):
        homes.append((getattr(adjoint, namespace), rest if namespace != "fft" else name.removeprefix("fft_")))
    for home, word in homes:
        if callable(function := vars(home).get(word)):
            return function  # type: ignore[no-any-return]
    return functools.partial(_missing, f"{space}::{name}")


def _missing(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(f"{name} is an operator inside of torch; adjoint has no function of that name")


refused: list[str] = []  # compiled libraries that a program wanted: the operators in them stay without code


def load_library(path: str) -> NoReturn:
    """Raise: compiled libraries for torch cannot be used here."""
    refused.append(path)
    raise OSError(f"{path} is compiled for torch, and cannot be loaded by adjoint")
