"""Symbolic values: operations on them become nodes of a graph."""

from __future__ import annotations

import dis
import inspect
import operator
from collections.abc import Iterator
from typing import Any

from ..core.tensor import TensorBase
from ..nn.parameter import Parameter
from ..subclasses import exchange_now
from .node import Argument as Argument
from .node import Node, map_aggregate
from .node import Target as Target

__all__ = ["Attribute", "Proxy", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """The program needed a value while it was traced."""


class TracerBase:
    """Base of tracers: makes nodes and their proxies."""

    record_stack_traces = False
    trace_asserts = False
    proxy_buffer_attributes = False
    graph: Any
    root: Any = None

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None
    ) -> Node:
        """Add a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)  # type: ignore[no-any-return]

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy for a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: Any,
        kwargs: Any,
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        """Add a node, and return the proxy of its result."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """Return a node's argument for a program's value: proxies become nodes, at any depth."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, range):
            return range(*(self.create_arg(v) for v in (a.start, a.stop, a.step)))
        return a

    def to_bool(self, obj: Proxy) -> bool:
        """Raise: ``if x:`` needs a value, and a trace has none."""
        raise TraceError(
            f"symbolically traced variables cannot be used as inputs to control flow: the truth of '{obj.node}' is "
            "only known when the program runs. Keep the branch in a function of its own and wrap() it, or make the "
            "module a leaf of the tracer"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Iterate over a proxy; only ``a, b = x`` shows how many elements there are."""
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        caller = frame.f_back.f_back
        assert caller is not None
        count = _unpacked(caller)
        if count is not None:
            return iter([operator.getitem(obj, i) for i in range(count)])  # type: ignore[call-overload]
        raise TraceError(
            f"Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            f"**kwargs function argument: how many values '{obj.node}' has is only known when the program runs"
        )

    def keys(self, obj: Proxy) -> Any:
        """Return the keys for ``**x``."""
        return Attribute(obj, "keys")()


def _unpacked(frame: Any) -> int | None:
    """Return into how many names a frame is currently unpacking a value, or None."""
    for step in dis.get_instructions(frame.f_code):
        if step.offset == frame.f_lasti and step.opname == "UNPACK_SEQUENCE":
            return int(step.argval)
    return None


class Proxy:
    """Stands for the result of a node: operators, methods and torch's functions on it add nodes."""

    def __init__(self, node: Node, tracer: Any = None) -> None:
        exchange_now()  # from here on, public functions check their arguments for `__torch_function__`
        if tracer is None:
            tracer = GraphAppendingTracer(node.graph)
        self.tracer, self.node = tracer, node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record a call of the value itself."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)  # type: ignore[no-any-return]

    def __index__(self) -> int:
        raise TypeError(
            f"'Proxy' object cannot be interpreted as an integer: '{self.node}' is only known when the program runs"
        )

    def __float__(self) -> float:
        raise TypeError(
            f"float() argument must be a string or a real number, not 'Proxy': '{self.node}' is only known when the "
            "program runs"
        )

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """Return the keys for ``**x``."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None) -> Any:
        args, kwargs = args or (), kwargs or {}
        found: list[Any] = []
        map_aggregate((args, kwargs), lambda a: found.append(a.tracer) if isinstance(a, Proxy) else None)
        if not found:
            raise TraceError(f"{orig_method} was called on no proxy")
        kind, target = _method(orig_method, args)
        if getattr(orig_method, "__name__", "") == "einsum" and isinstance(args[-1], list | tuple) and len(args) == 2:
            args = (args[0], *args[1])  # torch hands a list of operands over one by one
        return found[0].create_proxy(kind, target, args, kwargs)


def _method(function: Any, args: Any) -> tuple[str, Any]:
    """Return the operation and target of a call: methods of tensors by name, functions as objects."""
    name = getattr(function, "__name__", "")
    if getattr(TensorBase, name, None) is function or type(function).__name__ == "method_descriptor":
        return "call_method", name
    return "call_function", function


class Attribute(Proxy):
    """An attribute of a proxy; a call of it is recorded as a method call."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute; it is made when the attribute is used without a call."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record a call of a method."""
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class GraphAppendingTracer(TracerBase):
    """Adds nodes at a graph's insertion point: for proxies of existing nodes."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph


def _operator(name: str, reflected: bool) -> Any:
    function = getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        pair = (other, self) if reflected else (self, other)
        return self.tracer.create_proxy("call_function", function, pair, {})

    return method


def _unary(name: str) -> Any:
    function = getattr(operator, name)
    return lambda self: self.tracer.create_proxy("call_function", function, (self,), {})


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
):
    _word = _name.rstrip("_")
    setattr(Proxy, f"__{_word}__", _operator(_name, False))
    setattr(Proxy, f"__r{_word}__", _operator(_name, True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "getitem"):
    setattr(Proxy, f"__{_name}__", _operator(_name, False))
for _name in ("neg", "pos", "invert", "abs"):
    setattr(Proxy, f"__{_name}__", _unary(_name))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


class ParameterProxy(Proxy):
    """Proxy of a parameter, whose shape is known."""

    def __init__(self, tracer: Any, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self, *args: Any) -> Any:
        """The parameter's size."""
        return self.param.size(*args)

    def dim(self) -> int:
        """The parameter's number of axes."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of axes."""
        return self.param.ndim

    def numel(self) -> int:
        """The parameter's number of elements."""
        return self.param.numel()
