"""A module whose forward is generated from a graph."""

from __future__ import annotations

import copy
import linecache
import weakref
from typing import Any

from ..nn.modules.module import Module
from .graph import Graph

__all__ = ["GraphModule"]

_count = 0


def _compiled(code: Any) -> Any:
    """Return the function that source code defines; debuggers and tracebacks can show its lines."""
    global _count
    _count += 1
    name = f"<eval_with_key>.{_count}"
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(True), name)
    space = dict(code.globals)
    exec(compile(code.src, name, "exec"), space)  # noqa: S102
    forward = space.pop("forward")
    weakref.finalize(forward, linecache.cache.pop, name, None)
    return forward


class GraphModule(Module):
    """A module whose ``forward`` is generated from a graph.

    After a change of ``graph`` call ``recompile()``.

    Parameters
    ----------
    root : Module or dict
        Where parameters, buffers and submodules that the graph names come from: a module, or a dict of paths.
    graph : Graph
        The program.
    class_name : str, default "GraphModule"
        Name of the module's class.

    Examples
    --------
    >>> traced = adjoint.fx.symbolic_trace(lambda x: adjoint.relu(x) + 1)
    >>> for node in traced.graph.nodes:
    ...     if node.target is adjoint.relu:
    ...         node.target = adjoint.sigmoid
    >>> _ = traced.recompile()
    >>> traced(adjoint.zeros(2))
    tensor([1.5000, 1.5000])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a module with a new class for it alone."""
        # Each module gets its own class: `forward` belongs to a class, and `super().__call__` must find it.
        own = type(cls.__name__, (cls,), {"__module__": cls.__module__}) if "_own" not in vars(cls) else cls
        own._own = True  # type: ignore[attr-defined]
        return super().__new__(own)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attr(root, self, node.target)
        self.graph = graph
        self.meta: dict[str, Any] = dict(getattr(root, "meta", {}))

    @property
    def graph(self) -> Graph:
        """The graph; setting it compiles it."""
        return self._graph

    @graph.setter
    def graph(self, value: Graph) -> None:
        if not isinstance(value, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(value)}")
        object.__setattr__(self, "_graph", value)
        value.owning_module = self
        self.recompile()

    def recompile(self) -> Any:
        """Generate `forward` from the current graph; return its source code."""
        code = self._graph.python_code()
        object.__setattr__(self, "_code", code.src)
        type(self).forward = _compiled(code)  # type: ignore[method-assign]
        return code

    @property
    def code(self) -> str:
        """The source code of `forward`."""
        return self._code

    def print_readable(self, print_output: bool = True, *_: Any, **__: Any) -> str:
        """Print the source code of the module, and return it."""
        body = "\n".join(f"    {line}" for line in self._code.strip().splitlines())
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}\n"
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a submodule at a path; missing modules on the path are created."""
        *path, last = target.split(".")
        at: Any = self
        for part in path:
            if not hasattr(at, part):
                setattr(at, part, Module())
            at = getattr(at, part)
            if not isinstance(at, Module):
                return False
        at.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the submodule at a path."""
        *path, last = target.split(".")
        at: Any = self
        for part in path:
            at = getattr(at, part, None)
        if not isinstance(getattr(at, last, None), Module):
            return False
        delattr(at, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete submodules that no node calls or reads from."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
                if node.op == "call_module":
                    inner = self.get_submodule(node.target)
                    used.update(f"{node.target}.{name}" for name, _ in inner.named_modules() if name)
        for name in [n for n, _ in self.named_modules() if n and n not in used]:
            self.delete_submodule(name)

    def __deepcopy__(self, memo: Any) -> GraphModule:
        root = Module()
        for name, value in vars(self).items():
            if name not in ("_graph", "_code"):
                root.__dict__[name] = copy.deepcopy(value, memo)
        found = GraphModule(root, copy.deepcopy(self._graph))
        found.__dict__.update({k: v for k, v in vars(root).items() if k not in found.__dict__ or k.startswith("_")})
        found.graph = found._graph
        return found

    def __copy__(self) -> GraphModule:
        return GraphModule(self, self._graph, type(self).__name__)

    def __reduce__(self) -> Any:
        state = {k: v for k, v in vars(self).items() if k not in ("_graph", "_code")}
        return _unpacked, (state, self._graph, type(self).__name__)

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{super().__str__()}\n{self._code}\n{hint}"


def _unpacked(state: dict[str, Any], graph: Graph, name: str) -> GraphModule:
    root = Module()
    root.__dict__.update(state)
    found = GraphModule(root, graph, name)
    found.__dict__.update({k: v for k, v in state.items() if k not in found.__dict__ or k.startswith("_")})
    found.graph = graph
    return found


def _copy_attr(root: Any, into: Module, target: str) -> None:
    """Copy the attribute at a path of `root` to the same path of a module; torchvision uses this name."""
    if not isinstance(root, Module):
        if target not in root:
            raise RuntimeError(f"Node referenced target {target}, but that target was not provided in ``root``!")
    *path, last = target.split(".")
    at: Any = into
    taken: Any = root
    for part in path:
        taken = getattr(taken, part, None) if isinstance(root, Module) else None
        if not hasattr(at, part):
            setattr(at, part, Module())
        at = getattr(at, part)
        if at is taken:
            return  # a module that was brought as a whole
    value = getattr(taken, last) if isinstance(root, Module) else root[target]
    if isinstance(root, Module) and last in taken._buffers and last not in at._buffers:
        at.register_buffer(last, value, last not in taken._non_persistent_buffers_set)
    elif not hasattr(at, last) or getattr(at, last) is not value:
        setattr(at, last, value)
