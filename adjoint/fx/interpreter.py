"""Running a graph node by node; subclasses override nodes, or transform the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..nn.modules.module import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument as Argument
from .node import Node, map_aggregate, map_arg
from .node import Target as Target
from .proxy import Proxy
from .tracer import Tracer

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a GraphModule one node at a time.

    Examples
    --------
    >>> class Loud(adjoint.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         print(target.__name__)
    ...         return super().call_function(target, args, kwargs)
    >>> Loud(adjoint.fx.symbolic_trace(lambda x: x * 2 + 1)).run(3)
    mul
    add
    7
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module, self.submodules = module, dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph  # type: ignore[assignment]
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph on arguments, and return what it returns."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        last = self._last_uses() if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node not in self.env:
                try:
                    self.env[node] = self.run_node(node)
                except Exception as error:
                    error.add_note(f"While executing {node.format_node()}")
                    raise
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
            for dead in last.get(node, ()):
                del self.env[dead]
        return None

    def _last_uses(self) -> dict[Node, list[Node]]:
        last: dict[Node, Node] = {}
        for node in self.graph.nodes:
            for given in node.all_input_nodes:
                last[given] = node
        found: dict[Node, list[Node]] = {}
        for given, user in last.items():
            found.setdefault(user, []).append(given)
        return found

    def run_node(self, n: Node) -> Any:
        """Run one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Any, Any]:
        """Return the values of a node's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return arguments with their nodes replaced by values."""

        def value(given: Node) -> Any:
            if given not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {given}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[given]

        return map_arg(args, value)

    def fetch_attr(self, target: str) -> Any:
        """Return the attribute at a path of the module."""
        at: Any = self.module
        for i, part in enumerate(parts := target.split(".")):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            at = getattr(at, part)
        return at

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the next argument."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Read an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a method of the first argument."""
        this, *rest = args
        return getattr(this, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the value of the output node."""
        return args[0]


class _TransformerTracer(Tracer):
    """Makes the nodes of a new graph; every module is one node."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph, self.root = graph, root
        self._paths = {id(m): name for name, m in root.named_modules()}
        self._tensors = {id(p): name for name, p in (*root.named_parameters(), *root.named_buffers())}
        self._constants = []

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return True."""
        return True


class Transformer(Interpreter):
    """Runs a GraphModule on proxies, and so makes another: override what a node becomes, then call ``transform()``."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = _TransformerTracer(self.new_graph, module)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the proxy of an argument."""
        return self.tracer.create_proxy("placeholder", target, args, {})

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the proxy of an attribute."""
        return self.tracer.create_proxy("get_attr", target, (), {})

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the proxy of a submodule's result."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return the proxy of a function's result."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the new module."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda p: p.node if isinstance(p, Proxy) else p))
        return GraphModule(self.module, self.new_graph)
