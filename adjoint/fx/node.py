"""A node of a graph: its operation, target and arguments."""

from __future__ import annotations

import builtins
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

from .._paths import public_path
from ..ops.overloads import OpOverload

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
_impure: set[Any] = set()

# Types for the annotations of tracers and interpreters.
Target = Callable[..., Any] | str
Argument = Any


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply a function to every leaf of nested tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(v, fn) for v in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(v, fn) for v in a]
    if isinstance(a, dict):
        return {k: map_aggregate(v, fn) for k, v in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(v, fn) for v in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply a function to every node among nested arguments."""
    return map_aggregate(a, lambda v: fn(v) if isinstance(v, Node) else v)


def has_side_effect(fn: Any) -> Any:
    """Register a function with side effects: its calls are not removed, even if the result is unused."""
    _impure.add(fn)
    return fn


class Node:
    """One step of a graph: an input, a call, an attribute that is read, or the output.

    The methods of `Graph` make nodes. ``users`` has the nodes that take the result of this one.

    Parameters
    ----------
    graph : Graph
        The graph that the node is in.
    name : str
        Name of the result, unique in the graph.
    op : str
        One of placeholder, get_attr, call_function, call_method, call_module and output.
    target : str or callable
        What is named or called.
    args : tuple
        Arguments; they may hold other nodes, at any depth.
    kwargs : dict
        Arguments by keyword.
    return_type : type, optional
        Annotation of the result.

    Examples
    --------
    >>> graph = adjoint.fx.symbolic_trace(lambda x: adjoint.relu(x)).graph
    >>> for node in graph.nodes:
    ...     print(node.op, node.name, node.args)
    placeholder x ()
    call_function relu (x,)
    output output (relu,)
    """

    def __init__(
        self, graph: Any, name: str, op: str, target: Any, args: Any, kwargs: Any, return_type: Any = None
    ) -> None:
        if op not in OPS:
            raise ValueError(f"Unknown op: {op}; a node is one of {', '.join(OPS)}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} "
                "but a Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} "
                "but a str is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self._inputs: dict[Node, None] = {}
        self._prev: Node = self
        self._next: Node = self
        self._erased = False
        self.meta: dict[str, Any] = {}
        self._set(args, kwargs)

    # --- Arguments ---

    def _set(self, args: Any, kwargs: Any) -> None:
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs = {}
        self._args, self._kwargs = tuple(args), dict(kwargs)
        map_arg((self._args, self._kwargs), lambda n: self._inputs.setdefault(n))
        for node in self._inputs:
            node.users.setdefault(self)

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the target."""
        return self._args

    @args.setter
    def args(self, value: Any) -> None:
        self._set(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the target."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: Any) -> None:
        self._set(self._args, value)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._inputs)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace one positional argument."""
        self.args = (*self.args[:idx], arg, *self.args[idx + 1 :])

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert a positional argument before index `idx`."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace one input node by another in all arguments."""
        swap = lambda n: new_input if n is old_input else n
        self._set(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Replace this node by another in all its users; return the users that were changed."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # --- Position in the graph ---

    @property
    def prev(self) -> Node:
        """The previous node."""
        return self._prev

    @property
    def next(self) -> Node:
        """The next node."""
        return self._next

    def prepend(self, x: Node) -> None:
        """Move another node directly before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove()
        x._prev, x._next = self._prev, self
        self._prev._next = self._prev = x

    def append(self, x: Node) -> None:
        """Move another node directly after this one."""
        self._next.prepend(x)

    def _remove(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Node) -> bool:
        order = {n: i for i, n in enumerate(self.graph.nodes)}
        return order[self] < order[other]

    # --- Text ---

    @property
    def stack_trace(self) -> str | None:
        """The stack trace of the call that made it, if it was recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node has side effects, so that it must stay even if it is unused."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _impure or getattr(self.target, "__name__", "").endswith("_") or self.target is print
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_module" and self.graph.owning_module is not None:
            return bool(getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False))
        return False

    def format_node(self, placeholder_names: list[str] | None = None, maybe_return_typename: Any = None) -> str | None:
        """Return the node in one line of text."""
        kind = "" if self.type is None else f"{type_name(self.type)} "
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target}")
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}[target={self.target}]"
        if self.op == "output":
            return f"return {self.args[0]}"
        called = self.target if isinstance(self.target, str) else qualified_name(self.target)
        named = ", ".join(f"{k}: {shown(v)}" for k, v in self.kwargs.items())
        given = f"(args = {shown(self.args)}, kwargs = {{{named}}})"
        return f"{head}[target={called}]{given}"

    def __repr__(self) -> str:
        return self.name


def shown(arg: Any) -> str:
    """Return arguments as text, nodes with a prefix."""
    if isinstance(arg, Node):
        return f"%{arg.name}"
    if isinstance(arg, tuple):
        return f"({', '.join(map(shown, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, list):
        return f"[{', '.join(map(shown, arg))}]"
    return str(arg)


def torch() -> Any:
    """Return the package `adjoint`, which generated code calls torch."""
    return sys.modules["adjoint"]


def qualified_name(function: Any) -> str:
    """Return the qualified name under which a program can access a function."""
    name = getattr(function, "__name__", None)
    if name is None:
        return repr(function)
    if isinstance(function, OpOverload):
        return f"torch.ops.{function}"
    if getattr(builtins, name, None) is function:
        return str(name)
    if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
        return f"{function.__objclass__.__name__}.{name}"
    for path, module in (("torch", torch()), ("torch.nn.functional", torch().nn.functional)):
        if getattr(module, name, None) is function:
            return f"{path}.{name}"
    if getattr(operator, name, None) is function:
        return f"operator.{name}"
    path = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', name)}"
    return _torchs_path(path, function) or path


def _torchs_path(path: str, function: Any) -> str | None:
    """Return the path of an object of adjoint's in torch's namespace, or None if it is not there."""
    package, _, rest = public_path(path).partition(".")
    value = torch()
    for part in rest.split("."):
        value = getattr(value, part, None)
    return f"torch.{rest}" if package in ("adjoint", "torch") and value is function else None


def type_name(kind: Any) -> str:
    """Return how a node and a signature write a type."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        path = f"{kind.__module__}.{kind.__qualname__}"
        return "torch.Tensor" if kind is torch().Tensor else _torchs_path(path, kind) or path
    if kind is ...:
        return "..."
    return kind.__name__ if isinstance(kind, types.FunctionType) else repr(kind)
