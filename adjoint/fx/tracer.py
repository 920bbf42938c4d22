"""Symbolic tracing: a module is called with proxies, and its operations become a graph."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from ..core.tensor import TensorBase
from ..nn.modules.container import Sequential
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument as Argument
from .node import Target as Target
from .proxy import ParameterProxy, Proxy, TracerBase

__all__ = ["Tracer", "symbolic_trace", "wrap"]

_wrapped: list[tuple[dict[str, Any], str]] = []  # the globals of programs, and the names in them to record as they are


def wrap(fn_or_name: Any) -> Any:
    """Record calls of a function as one node instead of tracing into it.

    Call it at the top level of the module that uses the function, or use it as a decorator there.

    Parameters
    ----------
    fn_or_name : callable or str
        The function, or its name in that module.

    Returns
    -------
    callable or str
        `fn_or_name`.

    Raises
    ------
    RuntimeError
        If it is neither a function nor a name.
    NotImplementedError
        If a function is given elsewhere than at the top level of a module.

    Examples
    --------
    >>> adjoint.fx.wrap("len")
    'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, not {type(fn_or_name)}"
        )
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    if frame.f_back.f_code.co_name not in ("<module>",) and not isinstance(fn_or_name, str):
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped.append((frame.f_back.f_globals, name))
    return fn_or_name


def _recording(function: Any) -> Any:
    """Return a function whose calls are recorded if an argument is a proxy."""

    def called(*args: Any, **kwargs: Any) -> Any:
        found = _proxy_in((args, kwargs))
        if found is None:
            return function(*args, **kwargs)
        return found.tracer.create_proxy("call_function", function, args, kwargs)

    return called


def _proxy_in(value: Any) -> Any:
    if isinstance(value, Proxy):
        return value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((p for p in map(_proxy_in, items) if p is not None), None)


class Tracer(TracerBase):
    """Turns a module or a function into a graph, by running it on proxies.

    Subclasses override `is_leaf_module` to choose which modules become one node.

    Parameters
    ----------
    autowrap_modules : tuple of module, default (math,)
        Modules whose functions become one node each.
    autowrap_functions : tuple of callable, default ()
        Further functions that become one node each.
    param_shapes_constant : bool, default False
        Whether shapes of parameters are constants in the graph.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.ReLU())
    >>> [node.op for node in adjoint.fx.Tracer().trace(model).nodes]
    ['placeholder', 'call_module', 'call_module', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap = {
            id(f): f for m in autowrap_modules for n, f in vars(m).items() if callable(f) and not n.startswith("_")
        }
        self._autowrap.update({id(f): f for f in autowrap_functions})
        self._autowrap_modules = autowrap_modules
        self.param_shapes_constant = param_shapes_constant
        self.module_stack: dict[str, Any] = {}
        self.root_module_name = ""

    # --- Methods that subclasses override ---

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a module is recorded as one node: modules of torch.nn are, except Sequential."""
        home = type(m).__module__
        return (home.startswith(("torch.nn", "adjoint.nn"))) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a submodule of the root."""
        found = self._paths.get(id(mod))
        if found is None:
            raise NameError("module is not installed as a submodule")
        return found

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the call of a module as a node if it is a leaf, or trace through it."""
        path = self.path_of_module(m)
        if not self.is_leaf_module(m, path):
            self.module_stack[path] = type(m)
            try:
                return forward(*args, **kwargs)
            finally:
                del self.module_stack[path]
        return self.create_proxy("call_module", path, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return the value of a module's attribute in the trace: parameters may be proxies."""
        if isinstance(attr_val, Parameter) and id(attr_val) in self._tensors:
            name = self._tensors[id(attr_val)]
            if name not in parameter_proxy_cache:
                node = self.create_node("get_attr", name, (), {})
                made = ParameterProxy(self, node, name, attr_val) if self.param_shapes_constant else self.proxy(node)
                parameter_proxy_cache[name] = made
            return parameter_proxy_cache[name]
        return attr_val

    def create_arg(self, a: Any) -> Any:
        """Return a node's argument: parameters, buffers and other tensors become attributes of the root."""
        if isinstance(a, TensorBase) or (isinstance(a, Module) and id(a) in self._paths):
            return self.create_node("get_attr", self._attribute(a), (), {})
        return super().create_arg(a)

    def _leaf(self, a: Any) -> Any:
        return self.create_arg(a) if isinstance(a, TensorBase) else super()._leaf(a)

    def _attribute(self, a: Any) -> str:
        """Return the path of a tensor in the root; a tensor without one becomes a constant attribute."""
        if isinstance(a, Module):
            return self._paths[id(a)]
        if id(a) not in self._tensors:
            if isinstance(a, Parameter):
                raise NameError("parameter is not a member of this module")
            count = 0
            while hasattr(self.root, f"_tensor_constant{count}"):
                count += 1
            setattr(self.root, f"_tensor_constant{count}", a)
            self._tensors[id(a)] = f"_tensor_constant{count}"
            self._constants.append(a)  # a live reference, so that its id stays unique
        return self._tensors[id(a)]

    # --- Tracing ---

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """Return the graph of a module's forward, or of a function; `concrete_args` are not traced."""
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()
        function = type(root).forward if is_module else root
        self.root_module_name = type(root).__name__ if is_module else ""
        self.graph = Graph(tracer_cls=type(self))
        self._paths = {id(m): name for name, m in self.root.named_modules()}
        self._tensors: dict[int, str] = {}
        self._constants: list[Any] = []
        for name, value in _tensors_of(self.root):
            self._tensors.setdefault(id(value), name)
        self._concrete = concrete_args or {}
        called, args = self._arguments(function, is_module)
        with self._patched():
            result = called(*args)
        returned = _annotations(called).get("return")
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=returned)
        self.graph.owning_module = None
        return self.graph

    def _arguments(self, function: Any, is_module: bool) -> tuple[Any, list[Any]]:
        """Return the function with every parameter by position, and what to call it with."""
        signature = inspect.signature(inspect.unwrap(function))
        order = sorted(signature.parameters.values(), key=lambda p: _ORDER[p.kind])
        args = [self.root] if is_module else []
        args += [self._argument(function, p) for p in order[int(is_module) :]]
        if all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in order):
            return function, args
        if isinstance(function, types.FunctionType) and not hasattr(function, "__wrapped__"):
            return _by_position(function, len(args)), args
        given = list(zip(order, args))
        starred = [v for p, v in given if p.kind is p.VAR_POSITIONAL and not isinstance(v, Proxy)]
        named = {p.name: v for p, v in given if p.kind is p.KEYWORD_ONLY}
        plain = [v for p, v in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return functools.partial(function, **named), [*plain, *(v for values in starred for v in values)]

    def _argument(self, function: Any, p: inspect.Parameter) -> Any:
        """Return the placeholder of a parameter, or the value that it has in this trace."""
        default = () if p.default is p.empty else (p.default,)
        if p.name not in self._concrete:
            name = f"{_STARS.get(p.kind, '')}{p.name}"
            return self.create_proxy("placeholder", name, default, {}, type_expr=_annotations(function).get(name))
        value = self._concrete[p.name]
        given = self.create_proxy("placeholder", f"{p.name}_1", default, {})
        text = f"{p.name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (given, text), {})
        elif isinstance(value, bool | int | float | str):
            from ..compat.checks import _assert  # a graph calls what programs call: torch._assert

            self.create_proxy("call_function", _assert, (given == value, text), {})
        return value

    @contextlib.contextmanager
    def _patched(self) -> Iterator[None]:
        """Patch module calls and wrapped functions for recording, until the trace ends."""
        call = Module.__call__
        cache: dict[str, Any] = {}

        def calling(module: Any, *args: Any, **kwargs: Any) -> Any:
            return self.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        def reading(module: Any, name: str) -> Any:
            return self.getattr(name, object.__getattribute__(module, name), cache)

        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(Module, "__call__", calling))
            stack.enter_context(mock.patch.object(Module, "__getattribute__", reading))
            for space, name in _wrapped:
                original = space.get(name, getattr(builtins, name, None))
                if original is not None:
                    stack.enter_context(mock.patch.dict(space, {name: _recording(original)}))
            for module in self._autowrap_modules:
                for name, value in list(vars(module).items()):
                    if callable(value) and id(value) in self._autowrap and not name.startswith("_"):
                        stack.enter_context(mock.patch.object(module, name, _recording(value)))
            yield


_ORDER = {
    inspect.Parameter.POSITIONAL_ONLY: 0, inspect.Parameter.POSITIONAL_OR_KEYWORD: 0,
    inspect.Parameter.KEYWORD_ONLY: 1, inspect.Parameter.VAR_POSITIONAL: 2, inspect.Parameter.VAR_KEYWORD: 3,
}  # fmt: skip
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _annotations(function: Any) -> dict[str, Any]:
    """Return the types in a program's function; those in adjoint's own files are text that programs cannot resolve."""
    function = inspect.unwrap(function)
    own = str(getattr(function, "__module__", "")).partition(".")[0] in ("adjoint", "torch")
    return {} if own else getattr(function, "__annotations__", {})


def _by_position(function: types.FunctionType, count: int) -> types.FunctionType:
    """Return a function that takes its keywords, ``*args`` and ``**kwargs`` as positional arguments, in this order.

    A trace gives a proxy for all of ``*args``: how many there are is only known when the program runs.
    """
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0, co_flags=flags)
    return types.FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)


def _assert_is_none(value: object, msg: str) -> None:
    """Raise unless an argument that was None in a trace is None; traced graphs call this."""
    if value is not None:
        raise AssertionError(msg)


_assert_is_none.__module__ = __name__.replace("tracer", "_symbolic_trace")  # where PyTorch has it


def _tensors_of(root: Module) -> Iterator[tuple[str, Any]]:
    """Return parameters, buffers and other tensors of a module with their paths."""
    yield from root.named_parameters(remove_duplicate=False)
    yield from root.named_buffers(remove_duplicate=False)
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, TensorBase):
                yield f"{path}.{name}".lstrip("."), value


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Return a `GraphModule` with the traced graph of a module or a function.

    Examples
    --------
    >>> traced = adjoint.fx.symbolic_trace(lambda x, y: (x + y).relu() * 2)
    >>> print(traced.code.strip())
    def forward(self, x, y):
        add = x + y;  x = y = None
        relu = add.relu();  add = None
        mul = relu * 2;  relu = None
        return mul
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)
