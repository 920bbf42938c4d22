"""`export`: a module's forward pass as a program that can be read, saved and run."""

from __future__ import annotations

import copy
import operator
from collections.abc import Collection
from typing import Any, NamedTuple, NoReturn

from .. import tree
from ..compiler.graph import Value
from ..core.tensor import TensorBase
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn.modules.module import Module
from ..utils._python_dispatch import operator_of
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .hints import captured_as_far_as_possible
from .program import Program, is_step, names_of_inputs
from .running import run
from .shapes import dynamic_shapes_of
from .sizes import Dim, Varying

__all__ = ["ExportedProgram", "ProgramModule", "Range", "export"]


def _argument(kind: str, name: str) -> str:
    return f"{kind}_{name.replace('.', '_')}"


class ProgramModule(Module):
    """What an exported program runs as: its parameters and buffers, and the list."""

    def __init__(self, exported: ExportedProgram) -> None:
        super().__init__()
        self.__dict__["_exported"] = exported
        held = {**exported.state_dict, **exported.buffers_apart}
        for name, tensor in held.items():
            home: Module = self
            *path, last = name.split(".")
            for part in path:
                if part not in home._modules:
                    home.add_module(part, Module())
                home = home._modules[part]  # type: ignore[assignment]
            if name in exported.graph_signature.inputs_to_parameters.values():
                home.register_parameter(last, tensor)
            else:
                home.register_buffer(last, tensor, persistent=name in exported.state_dict)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the list."""
        exported: ExportedProgram = self.__dict__["_exported"]
        state = {**exported.constants, **dict(self.named_parameters()), **dict(self.named_buffers())}
        return run(exported.program, state, args, kwargs)

    def train(self, mode: bool = True) -> NoReturn:  # type: ignore[override]
        """Raise: the list is that of the mode in which the module was exported."""
        raise NotImplementedError(
            f"Calling {'train' if mode else 'eval'}() is not supported yet. An exported program does what the module "
            "did in the mode that it was in: export it in that mode"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> ProgramModule:
        """Return a copy with separate parameters and buffers, which runs the same list."""
        made = ProgramModule(self.__dict__["_exported"])
        for mine, its in zip(self.modules(), made.modules(), strict=True):
            for name, parameter in mine._parameters.items():
                its._parameters[name] = copy.deepcopy(parameter, memo)
            for name, buffer in mine._buffers.items():
                its._buffers[name] = copy.deepcopy(buffer, memo)
        return made


class CallSpec(NamedTuple):
    """The structures of the arguments, as ``(args, kwargs)``, and of the result."""

    in_spec: Any
    out_spec: Any


class Range(NamedTuple):
    """The bounds of a dynamic size; `upper` None: any."""

    lower: int
    upper: int | None


class ExportedProgram:
    """A module as the list of primitives of one run; `module` returns a module that runs the list.

    Attributes
    ----------
    program
        The list, with sizes that vary as expressions of others.
    state_dict
        The parameters and buffers, by name; buffers that are not persistent are among `constants`.
    constants
        Tensors that go with the program and are not in `state_dict`.
    graph, graph_signature
        The list as a graph that programs read, and what its inputs are.
    range_constraints
        By the name of each dynamic size, its bounds.
    call_spec
        The structures of arguments and result.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.ReLU())
    >>> program = adjoint.export.export(model, (adjoint.ones(1, 2),))
    >>> [node.name for node in program.graph.nodes]
    ['p_0_weight', 'p_0_bias', 'input_1', 'linear', 'relu', 'output']
    >>> program.module()(adjoint.ones(1, 2)).shape
    adjoint.Size([1, 3])
    """

    dialect = "TRAINING"

    def __init__(
        self, program: Program, parameters: dict[str, Any], buffers: dict[str, Any], example: Any,
        apart: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.program, self.example_inputs = program, example
        self._buffers = buffers
        self.buffers_apart = {n: t for n, t in buffers.items() if n in apart}
        self.state_dict = {**parameters, **{n: t for n, t in buffers.items() if n not in apart}}
        # tensors from outside of the module: they are exported with it, under generated names
        outside = [n for n in program.state if n not in self.state_dict and n not in buffers]
        self.constants = {**self.buffers_apart, **{n: program.tensors[n] for n in outside if n in program.tensors}}
        self.graph, names = _graph(program, list(parameters), list(buffers), self.constants)
        self.graph_signature = self._signature(list(parameters), names)
        self.call_spec = CallSpec(program.takes, program.returns)
        dims = [dim.root for axes in program.dims for dim in axes.values()]
        self.range_constraints = {dim.__name__: Range(dim.min or 0, dim.max) for dim in dims}

    def _signature(self, parameters: list[str], names: dict[Any, str]) -> ExportGraphSignature:
        program = self.program
        inputs = [InputSpec(InputKind.PARAMETER, TensorArgument(_argument("p", n)), n) for n in parameters]
        for n in self._buffers:
            buffer = TensorArgument(_argument("b", n))
            inputs.append(InputSpec(InputKind.BUFFER, buffer, n, n not in self.buffers_apart))
        for n in self.constants:
            if n not in self.buffers_apart:
                inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(_argument("c", n)), n))
        tensors = iter(program.input_names)
        for given in program.given:
            user = TensorArgument(next(tensors)) if isinstance(given, Value) else ConstantArgument("", given)
            inputs.append(InputSpec(InputKind.USER_INPUT, user, None))
        targets = {v: (name, OutputKind.BUFFER_MUTATION) for name, v in program.state.items()}
        targets |= {v: (name, OutputKind.PARAMETER_MUTATION) for v, (name, _) in targets.items() if name in parameters}
        for v, name in zip(program.inputs, program.input_names, strict=True):
            targets[v] = (name, OutputKind.USER_INPUT_MUTATION)
        outputs = [
            OutputSpec(targets[target][1], TensorArgument(names.get(value, "")), targets[target][0])
            for target, value in program.writes
            if target in targets
        ]
        for o in program.outputs:
            result = TensorArgument(names.get(o, "")) if isinstance(o, Value) else ConstantArgument("", _first(o))
            outputs.append(OutputSpec(OutputKind.USER_OUTPUT, result, None))
        return ExportGraphSignature(inputs, outputs)

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
        return iter(self._buffers.values())

    def named_buffers(self) -> Any:
        """Return the buffers with their names."""
        return iter(self._buffers.items())

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """The tensors that are not in `state_dict`."""
        return self.constants

    def validate(self) -> None:
        """Do nothing: a program is checked as it is made."""

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


def _graph(
    program: Program, parameters: list[str], buffers: list[str], constants: dict[str, Any]
) -> tuple[Graph, dict[Any, str]]:
    """Return the list of primitives as a graph that programs can read, with the sizes of the example, and names."""
    graph = Graph()
    found: dict[Any, Any] = {}
    for kind, names in (("p", parameters), ("b", buffers)):
        for name in names:
            node = graph.placeholder(_argument(kind, name))
            if name in program.state:
                found[program.state[name]] = node
    for value, name in zip(program.inputs, program.input_names, strict=True):
        found[value] = graph.placeholder(name)

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
    graph.output(tuple(node_of(o) for o in (*(v for _, v in program.writes), *program.outputs)))
    return graph, {value: node.name for value, node in found.items()}


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
    """Run a module on example inputs, and return its operations as a program.

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
    program = captured_as_far_as_possible(mod, args, kwargs, dynamic)
    leaves = [v for v in tree.tree_leaves((args, kwargs)) if isinstance(v, TensorBase)]
    program.input_names = names_of_inputs(mod, args, kwargs, len(leaves))
    parameters = dict(mod.named_parameters()) if isinstance(mod, Module) else {}
    buffers = dict(mod.named_buffers()) if isinstance(mod, Module) else {}
    return ExportedProgram(program, parameters, buffers, (args, kwargs), _not_persistent(mod))


def _not_persistent(module: Any) -> set[str]:
    """Return the names of buffers that are not in ``state_dict()``."""
    if not isinstance(module, Module):
        return set()
    found = set()
    for path, child in module.named_modules():
        found |= {f"{path}.{name}" if path else name for name in child._non_persistent_buffers_set}
    return found
