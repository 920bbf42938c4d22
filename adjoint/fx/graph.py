"""A graph of nodes in execution order, and the Python code generated from it."""

from __future__ import annotations

import builtins
import contextlib
import copy
import keyword
import operator
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Union

from ..utils._python_dispatch import Called
from .node import Argument as Argument
from .node import Node, map_arg, qualified_name, torch, type_name
from .node import Target as Target

__all__ = ["CodeGen", "Graph", "PythonCode"]

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_PREFIX = {"neg": "-", "pos": "+", "invert": "~"}
_GENERIC: dict[Any, Any] = {kind: getattr(typing, kind.__name__.capitalize()) for kind in (list, dict, set, tuple)} | {
    frozenset: frozenset,
    types.UnionType: Union,
}


class PythonCode(NamedTuple):
    """The source code of a graph, and the objects that its names refer to."""

    src: str
    globals: dict[str, Any]


class CodeGen:
    """How a graph's function takes its arguments and returns results; programs may override it."""

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders, given the arguments of the call."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return what the function returns, given the output of the graph."""
        return outputs


class _Nodes:
    """The nodes of a graph, forwards or backwards; nodes may be erased during iteration."""

    def __init__(self, graph: Graph, step: str = "_next") -> None:
        self.graph, self.step = graph, step

    def __iter__(self) -> Iterator[Node]:
        root, node = self.graph._root, getattr(self.graph._root, self.step)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.step)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __reversed__(self) -> _Nodes:
        return _Nodes(self.graph, "_prev" if self.step == "_next" else "_next")


class Graph:
    """The operations of a program, in order: the intermediate representation of ``fx``.

    Parameters
    ----------
    owning_module : Module, optional
        The module that the graph belongs to.
    tracer_cls, tracer_extras : optional
        The class of the tracer that made the graph and its options; only saved.

    Examples
    --------
    >>> graph = adjoint.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(adjoint.relu, (x,))
    >>> _ = graph.output(y)
    >>> print(adjoint.fx.GraphModule(adjoint.nn.Module(), graph).code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        return relu
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        self._root = Node(self, "", "placeholder", "", (), {})
        self._names: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self.meta: dict[str, Any] = {}

    @property
    def nodes(self) -> Any:
        """The nodes in order."""
        return _Nodes(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """Return the nodes of a kind."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # --- Making nodes ---

    def _name(self, wish: str) -> str:
        wish = re.sub(r"[^0-9a-zA-Z_]+", "_", wish) or "_"
        wish = f"_{wish}" if wish[0].isdigit() else wish
        stem, _, number = wish.rpartition("_")
        stem, count = (stem, int(number)) if stem and number.isdigit() else (wish, None)
        free = stem if count is None else wish
        while free in self._names or keyword.iskeyword(free) or free in _TAKEN:
            count = self._names.get(stem, 0) + 1 if count is None else count + 1
            self._names[stem] = max(count, self._names.get(stem, 0))
            free = f"{stem}_{count}"
        self._names.setdefault(free, 0)
        return free

    def create_node(
        self,
        op: str,
        target: Any,
        args: Any = None,
        kwargs: Any = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node at the insertion point, by default the end of the graph."""
        name = self._name(name or _wish(op, target))
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add a placeholder: an argument of the graph's function."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a node that reads a parameter, a buffer or another attribute of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Add a call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Add a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Any, args: Any = None, kwargs: Any = None, type_expr: Any = None, name: str | None = None
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Add the output node: the value that the function returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Add a copy of another graph's node; `arg_transform` maps that graph's nodes to this graph's."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        found = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        found.meta = copy.copy(node.meta)
        return found

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Add copies of all nodes of another graph; return the value of its output."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        found = Graph(tracer_cls=self._tracer_cls)
        found._codegen = copy.deepcopy(self._codegen)
        seen: dict[Node, Node] = {}
        returned = found.graph_copy(self, seen, True)
        if returned is not None:
            found.output(returned[0], returned[1].type).meta = copy.copy(returned[1].meta)
        return found

    def __reduce__(self) -> Any:
        return _rebuilt, ([(n.name, n.op, n.target, _packed(n.args), _packed(n.kwargs), n.type) for n in self.nodes],)

    # --- Changing it ---

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node; no other node may use it."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase._erased:
            return
        to_erase._remove()
        to_erase._erased = True
        to_erase._set((), {})

    @contextlib.contextmanager
    def _inserting(self, insert: Callable[[Node], None]) -> Iterator[None]:
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def inserting_before(self, n: Node | None = None) -> Any:
        """Set the insertion point before a node (by default the first) inside this context."""
        return self.inserting_after(self._root) if n is None else self._inserting(n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Set the insertion point after a node (by default the last) inside this context."""
        if n is None:
            return self._inserting(self._root.prepend)
        at = [n]

        def insert(node: Node) -> None:
            at[0].append(node)
            at[0] = node

        return self._inserting(insert)

    def eliminate_dead_code(self, is_impure_node: Any = None) -> bool:
        """Remove nodes whose results are unused; return whether there were any."""
        self.lint()
        impure, changed = is_impure_node or Node.is_impure, False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """Raise RuntimeError for an invalid graph: values used before they are computed, unknown targets."""
        seen: dict[Node, None] = {}
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph")
            for given in node.all_input_nodes:
                if given not in seen:
                    raise RuntimeError(
                        f"Argument '{given}' of Node '{node}' was used before it has been defined! Please check that "
                        "Nodes in the graph are topologically ordered"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            seen[node] = None
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._check_target(node)

    def _check_target(self, node: Node) -> None:
        at = self.owning_module
        for part in node.target.split("."):
            if not hasattr(at, part):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of {type(at).__name__}"
                )
            at = getattr(at, part)

    # --- Code generation ---

    def python_code(self, root_module: str = "self", *, verbose: bool = False, **_: Any) -> PythonCode:
        """Return the source code of the graph's function, and the objects that its names refer to."""
        names: dict[str, Any] = {"torch": torch(), "inf": float("inf"), "nan": float("nan"), "device": torch().device}
        given, body, returned = [], [], ""
        last = _last_uses(self)
        for node in self.nodes:
            if node.op == "placeholder":
                default = f" = {_text(node.args[0], names)}" if node.args else ""
                given.append(f"{node.target}{_annotation(node.type, ' : ', names)}{default}")
                if str(node.target).lstrip("*") != node.name:
                    body.append(f"    {node.name} = {str(node.target).lstrip('*')}")
                continue
            body.append(f"    {_line(node, root_module, names)}{last.get(node, '')}")
            if node.op == "output":
                returned = _annotation(node.type, " -> ", names)
        if not body:
            body.append("    pass")
        head = f"def forward({', '.join([root_module, *given])}){returned}:"
        return PythonCode("\n".join(["\n\n", head, *body, "    "]), names)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Set the `CodeGen`: how the function takes its arguments and returns results."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders, given the arguments of the call."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return what the function returns, given the output of the graph."""
        return self._codegen.process_outputs(out)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(r[i]) for r in rows) for i in range(5)]
        rows.insert(1, tuple("-" * w for w in widths))  # type: ignore[arg-type]
        print("\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in rows))

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(n.format_node() or "" for n in self.nodes)])


_TAKEN = frozenset(("torch", "self", "inf", "nan", "device", "forward", *dir(builtins)))


def _wish(op: str, target: Any) -> str:
    """Return the preferred name of a node; `Graph` makes it unique."""
    if op == "call_function":
        name = getattr(target, "__name__", type(target).__name__)
        return re.sub(r"(?<!^)(?<!_)(?=[A-Z][a-z])", "_", name).lower()
    return str(target) if op == "placeholder" else str(target).replace(".", "_").lower()


def _last_uses(graph: Graph) -> dict[Node, str]:
    """Return, for each node, code that sets values to None that no later node needs."""
    seen: set[Node] = set()
    found: dict[Node, list[str]] = {}
    for node in reversed(graph.nodes):
        dead = [given for given in node.all_input_nodes if given not in seen]
        if node.op not in ("output", "placeholder"):
            dead += [] if node.users else [node]
            if dead:
                found[node] = [given.name for given in dead]
        seen.update(dead)
    return {user: f";  {' = '.join(names)} = None" for user, names in found.items()}


def _line(node: Node, root: str, names: dict[str, Any]) -> str:
    if node.op == "output":
        return f"return {_text(node.args[0], names)}"
    return f"{node.name} = {_expression(node, root, names)}"


def _expression(node: Node, root: str, names: dict[str, Any]) -> str:
    args = [_text(a, names) for a in node.args]
    given = ", ".join([*args, *(f"{k} = {_text(v, names)}" for k, v in node.kwargs.items())])
    if node.op == "get_attr":
        return _reach(root, node.target)
    if node.op == "call_module":
        return f"{_reach(root, node.target)}({given})"
    if node.op == "call_method":
        rest = ", ".join([*args[1:], *(f"{k} = {_text(v, names)}" for k, v in node.kwargs.items())])
        return f"{args[0]}.{node.target}({rest})"
    return _call(node, args, given, names)


def _call(node: Node, args: list[str], given: str, names: dict[str, Any]) -> str:
    name = getattr(node.target, "__name__", "")
    if getattr(operator, name, None) is node.target and not node.kwargs:
        if name in _INFIX and len(args) == 2:
            return f"{args[0]} {_INFIX[name]} {args[1]}"
        if name in _PREFIX and len(args) == 1:
            return f"{_PREFIX[name]}{args[0]}"
        if name == "getitem" and len(args) == 2:
            return f"{args[0]}[{args[1]}]"
    if node.target is getattr and len(args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
        return f"{args[0]}.{node.args[1]}"
    return f"{_function(node.target, names)}({given})"


def _function(target: Any, names: dict[str, Any]) -> str:
    """Return the name of a function in the generated code."""
    path = qualified_name(target)
    if type(target) is Called:  # one overload, with arguments of its own: its path leads to all of them
        path = path.replace("torch.", "torch_", 1)
    return _known(path, target, names)


def _annotation(kind: Any, mark: str, names: dict[str, Any]) -> str:
    """Return the annotation of a type in the generated code, after a mark such as ``: ``."""
    return "" if kind is None else f"{mark}{_type(kind, names)}"


def _type(kind: Any, names: dict[str, Any]) -> str:
    origin, of = getattr(kind, "__origin__", None), getattr(kind, "__args__", ())
    if origin is None or not of:
        return _known(type_name(kind), kind, names)
    generic = _GENERIC.get(origin, origin)
    return f"{_known(type_name(generic), generic, names)}[{','.join(_type(v, names) for v in of)}]"


def _known(path: str, value: Any, names: dict[str, Any]) -> str:
    """Return a name for an object: its path for torch and builtins, else a name that is added to `names`."""
    if path.startswith("torch.") or getattr(builtins, path, None) is value or path == "...":
        return path
    word = re.sub(r"[^0-9a-zA-Z_]+", "_", path)
    while names.get(word, value) is not value:
        word += "_"
    names[word] = value
    return word


def _reach(root: str, target: str) -> str:
    """Return code that reads an attribute by its path; components such as ``0`` are not identifiers."""
    text = root
    for part in target.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
    return text


def _text(value: Any, names: dict[str, Any]) -> str:
    """Return the code of an argument."""
    if isinstance(value, Node):
        return value.name
    if isinstance(value, tuple):
        items = [_text(v, names) for v in value]
        if hasattr(value, "_fields"):
            return f"{_function(type(value), names)}({', '.join(items)})"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(_text(v, names) for v in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k!r}: {_text(v, names)}' for k, v in value.items())}}}"
    if isinstance(value, slice):
        return f"slice({_text(value.start, names)}, {_text(value.stop, names)}, {_text(value.step, names)})"
    if isinstance(value, type | type(len)) or callable(value):
        return _function(value, names)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | type(...)):
        return repr(value)
    return _object(value, names)


def _object(value: Any, names: dict[str, Any]) -> str:
    """Return the code of a dtype or a device; for another object, a name that is added to `names`."""
    text, root = str(value), torch()
    if isinstance(value, root.dtype | root.layout | root.memory_format):
        return f"torch.{text.rpartition('.')[2]}"
    if isinstance(value, root.device):
        return repr(value)
    word = f"_object_{len(names)}"
    names[word] = value
    return word


class _Ref:
    """A reference to a node in a pickled graph."""

    def __init__(self, name: str) -> None:
        self.name = name


def _packed(value: Any) -> Any:
    return map_arg(value, lambda n: _Ref(n.name))


def _rebuilt(rows: list[Any]) -> Graph:
    """Return the graph from its pickled rows."""
    from .node import map_aggregate

    graph = Graph()
    made: dict[str, Node] = {}
    for name, op, target, args, kwargs, kind in rows:
        args, kwargs = (map_aggregate(v, lambda r: made[r.name] if isinstance(r, _Ref) else r) for v in (args, kwargs))
        made[name] = graph.create_node(op, target, args, kwargs, name, kind)
    return graph
