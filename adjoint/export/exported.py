"""`export`: a module's forward pass as a program that can be read, saved and run."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

from .. import tree
from ..compiler.graph import Value
from ..core.tensor import TensorBase
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn.modules.module import Module
from ..utils._python_dispatch import operator_of
from .program import Program, captured, is_step, names_of_inputs
from .running import run
from .shapes import dynamic_shapes_of
from .sizes import Dim, Varying

__all__ = ["ExportGraphSignature", "ExportedProgram", "ProgramModule", "export"]


class ExportGraphSignature:
    """Which inputs of a graph are parameters and buffers, and which the caller's."""

    def __init__(self, parameters: list[str], buffers: list[str], inputs: list[str], outputs: list[str]) -> None:
        self.parameters, self.buffers = tuple(parameters), tuple(buffers)
        self.user_inputs, self.user_outputs = tuple(inputs), tuple(outputs)
        self.inputs_to_parameters = {_argument("p", name): name for name in parameters}
        self.inputs_to_buffers = {_argument("b", name): name for name in buffers}


def _argument(kind: str, name: str) -> str:
    return f"{kind}_{name.replace('.', '_')}"


class ProgramModule(Module):
    """What an exported program runs as: its parameters and buffers, and the list."""

    def __init__(self, exported: ExportedProgram) -> None:
        super().__init__()
        self.__dict__["_exported"] = exported
        for name, tensor in exported.state_dict.items():
            home: Module = self
            *path, last = name.split(".")
            for part in path:
                if part not in home._modules:
                    home.add_module(part, Module())
                home = home._modules[part]  # type: ignore[assignment]
            if name in exported.graph_signature.parameters:
                home.register_parameter(last, tensor)
            else:
                home.register_buffer(last, tensor)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the list."""
        exported: ExportedProgram = self.__dict__["_exported"]
        state = {**exported.constants, **dict(self.named_parameters()), **dict(self.named_buffers())}
        return run(exported.program, state, args, kwargs)


class ExportedProgram:
    """A module as the list of primitives that one run of it was; `module` gives what runs it again.

    Attributes
    ----------
    program
        The list, with sizes that vary as expressions of others.
    state_dict
        The parameters and buffers, by name.
    graph, graph_signature
        The list as a graph that programs read, and what its inputs are.
    range_constraints
        By the name of each dynamic size, its bounds.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.ReLU())
    >>> program = adjoint.export.export(model, (adjoint.ones(1, 2),))
    >>> [node.name for node in program.graph.nodes]
    ['p_0_weight', 'p_0_bias', 'input_1', 'linear', 'relu', 'output']
    >>> program.module()(adjoint.ones(1, 2)).shape
    adjoint.Size([1, 3])
    """

    def __init__(self, program: Program, parameters: dict[str, Any], buffers: dict[str, Any], example: Any) -> None:
        self.program, self.example_inputs = program, example
        self.state_dict = {**parameters, **buffers}
        # tensors that the program finds outside of the module: they go with it, under names of their own
        self.constants = {
            n: program.tensors[n] for n in program.state if n not in self.state_dict and n in program.tensors
        }
        self.graph = _graph(program, list(parameters), list(buffers), self.constants)
        outputs = [str(n) for n in tree.tree_leaves(list(self.graph.nodes)[-1].args[0])]
        self.graph_signature = ExportGraphSignature(list(parameters), list(buffers), program.input_names, outputs)
        dims = [dim.root for axes in program.dims for dim in axes.values()]
        self.range_constraints = {dim.__name__: (dim.min or 0, dim.max) for dim in dims}

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module, which takes parameters and buffers before its inputs."""
        return GraphModule(Module(), self.graph)

    def module(self, check_guards: bool = True) -> Module:
        """Return a module that runs the list, with the parameters and buffers of the one that was exported."""
        return ProgramModule(self)

    def parameters(self) -> Any:
        """Return the parameters."""
        return iter([self.state_dict[name] for name in self.graph_signature.parameters])

    def named_parameters(self) -> Any:
        """Return the parameters with their names."""
        return iter([(name, self.state_dict[name]) for name in self.graph_signature.parameters])

    def buffers(self) -> Any:
        """Return the buffers."""
        return iter([self.state_dict[name] for name in self.graph_signature.buffers])

    def named_buffers(self) -> Any:
        """Return the buffers with their names."""
        return iter([(name, self.state_dict[name]) for name in self.graph_signature.buffers])

    def run_decompositions(self, *args: Any, **kwargs: Any) -> ExportedProgram:
        """Return the program itself: it is made of primitives already."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: the program is run by its module."""
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self) -> str:
        return f"ExportedProgram:\n{self.graph}"


def _graph(program: Program, parameters: list[str], buffers: list[str], constants: dict[str, Any]) -> Graph:
    """Return the list of primitives as a graph that programs can read, with the sizes of the example."""
    graph, found = Graph(), {}
    for kind, names in (("p", parameters), ("b", buffers)):
        for name in names:
            node = graph.placeholder(_argument(kind, name))
            if name in program.state:
                found[program.state[name]] = node
    for value, name in zip(program.inputs, program.input_names, strict=True):
        found[value] = graph.placeholder(name)
    shapes = {v.number: tuple(_first(s) for s in sizes) for v, sizes in program.shapes.items()}

    def node_of(operand: Any) -> Any:
        if not isinstance(operand, Value):
            return _first(operand)
        if operand not in found:
            constant = program.constants.get(operand)
            if constant is None:
                return next(constants[n] for n, v in program.state.items() if v is operand)
            return constant if not hasattr(constant, "kind") else constant.array(_first)
        return found[operand]

    for call in program.calls:
        operands = tuple(map(node_of, call.operands))
        params = tuple(map(_first, call.params))
        if is_step(call.op):
            node = graph.call_function(call.op.function, (*operands, *params), name=call.name.replace(".", "_"))
        else:
            target = operator_of(call.op, operands, params, False)
            node = graph.call_function(target, (*operands, *params), name=target._opname)
        for at, value in enumerate(call.outputs):
            found[value] = graph.call_function(operator.getitem, (node, at)) if call.op.outputs else node
    del shapes
    graph.output(tuple(node_of(o) for o in program.outputs))
    return graph


def _first(value: Any) -> Any:
    """Return an operand or parameter with the sizes of the first run."""
    if isinstance(value, Varying):
        return value.values[0]
    if type(value) in (tuple, list):
        return type(value)(map(_first, value))
    if type(value) is slice:
        return slice(*map(_first, (value.start, value.stop, value.step)))
    return value


def export(
    mod: Any, args: Any, kwargs: Any = None, *, dynamic_shapes: Any = None, strict: bool = False,
    preserve_module_call_signature: Any = (), prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """Run a module on example inputs, and return what it did as a program.

    Parameters
    ----------
    mod
        The module.
    args, kwargs
        What it is called with.
    dynamic_shapes
        Which sizes may differ later: for each argument, by name or in order, its axes with a `Dim` each
        (``{"x": {0: Dim("batch", max=64)}}``). The module runs once more for each of them, and whatever differs must
        follow from them.

    Returns
    -------
    ExportedProgram
        Its ``module()`` is called as `mod` is; `save` writes it to a file.

    Raises
    ------
    ExportError
        Where the program branches on values of its inputs, or on a dynamic size: the message has the line.
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    kwargs = dict(kwargs or {})
    dynamic: list[dict[int, Dim]] = []
    if dynamic_shapes is not None:
        dynamic = dynamic_shapes_of(mod, args, kwargs, dynamic_shapes)
    return exported(mod, args, kwargs, dynamic)


def exported(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Any) -> ExportedProgram:
    """Return a module or function as a program."""
    program = captured(mod, args, kwargs, dynamic)
    leaves = [v for v in tree.tree_leaves((args, kwargs)) if isinstance(v, TensorBase)]
    program.input_names = names_of_inputs(mod, args, kwargs, len(leaves))
    parameters = dict(mod.named_parameters()) if isinstance(mod, Module) else {}
    buffers = dict(mod.named_buffers()) if isinstance(mod, Module) else {}
    return ExportedProgram(program, parameters, buffers, (args, kwargs))
