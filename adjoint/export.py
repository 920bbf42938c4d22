"""Programs as fixed lists of primitives: ``export`` runs a module once, and what it did can be read and run again.

The list is for inputs of the shapes of the example. Where some sizes are said to be dynamic, inputs of other sizes
are traced when they first come.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any, NoReturn

from . import tree
from .core.tensor import TensorBase
from .func.modules import functional_call
from .fx.graph import Graph
from .fx.graph_module import GraphModule
from .nn.modules.module import Module
from .payloads.traced import Name, Trace, trace
from .utils._python_dispatch import operator_of

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "export"]


class Dim:
    """A size that may differ from call to call."""

    AUTO: Any
    DYNAMIC: Any
    STATIC: Any

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.__name__, self.min, self.max = name, min, max

    def __mul__(self, other: int) -> Dim:
        return Dim(f"{other}*{self.__name__}")

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"<class 'adjoint.export.Dim {self.__name__}'>"


Dim.AUTO, Dim.DYNAMIC, Dim.STATIC = Dim("AUTO"), Dim("DYNAMIC"), Dim("STATIC")


class ExportGraphSignature:
    """Which inputs of a graph are parameters and buffers, and which the caller's."""

    def __init__(self, parameters: list[str], buffers: list[str], inputs: list[str], outputs: list[str]) -> None:
        self.parameters, self.buffers = tuple(parameters), tuple(buffers)
        self.user_inputs, self.user_outputs = tuple(inputs), tuple(outputs)
        self.inputs_to_parameters = {_argument("p", name): name for name in parameters}
        self.inputs_to_buffers = {_argument("b", name): name for name in buffers}


def _argument(kind: str, name: str) -> str:
    return f"{kind}_{name.replace('.', '_')}"


class _Recording:
    """One run of a module: its list of primitives, and how its result is put together."""

    def __init__(self, module: Module, state: dict[str, Any], args: Any, kwargs: Any) -> None:
        leaves, self.given = tree.tree_flatten((args, kwargs))
        self.leaves = leaves
        self.moving = [i for i, leaf in enumerate(leaves) if isinstance(leaf, TensorBase)]

        def run(*tensors: Any) -> Any:
            inputs = list(leaves)
            for at, tensor in zip(self.moving, tensors[len(state) :], strict=True):
                inputs[at] = tensor
            again, named = self.given.unflatten(inputs)
            result = functional_call(module, dict(zip(state, tensors, strict=False)), again, named)
            found, self.spec = tree.tree_flatten(result)
            return tuple(found)

        self.trace: Trace = trace(run, *state.values(), *(leaves[i] for i in self.moving))[1]

    def __call__(self, state: dict[str, Any], leaves: list[Any]) -> Any:
        """Run the list on other values."""
        found = self.trace.run(*state.values(), *(leaves[i] for i in self.moving))
        return self.spec.unflatten(found)


class _Exported(Module):
    """What an exported program runs as: the parameters and buffers of the module, and the list."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self.__dict__["_program"] = program
        state: dict[str, Any] = dict(program.state_dict)
        for name, tensor in state.items():
            home: Module = self
            *path, last = name.split(".")
            for part in path:
                if part not in home._modules:
                    home.add_module(part, Module())
                home = home._modules[part]  # type: ignore[assignment]
            if name in program.graph_signature.parameters:
                home.register_parameter(last, tensor)
            else:
                home.register_buffer(last, tensor)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the list."""
        state = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        program: ExportedProgram = self.__dict__["_program"]
        return program._run({name: state[name] for name in program.state_dict}, args, kwargs)


class ExportedProgram:
    """A module as the list of primitives that one run of it was; `module` gives what runs it again.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.ReLU())
    >>> program = adjoint.export.export(model, (adjoint.ones(1, 2),))
    >>> [node.name for node in program.graph.nodes]
    ['p_0_weight', 'p_0_bias', 'input_1', 'linear', 'relu', 'output']
    >>> program.module()(adjoint.ones(1, 2)).shape
    adjoint.Size([1, 3])
    """

    def __init__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: bool) -> None:
        parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
        self.state_dict = {**parameters, **buffers}
        self.example_inputs = (args, kwargs)
        self._module, self._dynamic = module, dynamic
        self._recording = _Recording(module, self.state_dict, args, kwargs)
        self._others: dict[Any, _Recording] = {}
        names = _names_of(module, args, kwargs, self._recording)
        self.graph = _graph(self._recording, list(parameters), list(buffers), names)
        outputs = [str(n) for n in tree.tree_leaves(list(self.graph.nodes)[-1].args[0])]
        self.graph_signature = ExportGraphSignature(list(parameters), list(buffers), names, outputs)

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module, which takes parameters and buffers before its inputs."""
        return GraphModule(Module(), self.graph)

    def module(self, check_guards: bool = True) -> Module:
        """Return a module that runs the list, with the parameters and buffers of the one that was exported."""
        return _Exported(self)

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

    def _run(self, state: dict[str, Any], args: Any, kwargs: Any) -> Any:
        leaves, given = tree.tree_flatten((args, kwargs))
        if given != self._recording.given:
            raise ValueError("Trying to flatten user inputs with exported input tree spec: their structure is another")
        chosen = self._recording
        shapes = tuple(tuple(leaf.shape) for leaf in leaves if isinstance(leaf, TensorBase))  # type: ignore[attr-defined]
        wanted = tuple(tuple(chosen.leaves[i].shape) for i in chosen.moving)
        if shapes != wanted:
            if not self._dynamic:
                at, (got, known) = next((i, p) for i, p in enumerate(zip(shapes, wanted, strict=True)) if p[0] != p[1])
                raise AssertionError(
                    f"Guard failed: {self.graph_signature.user_inputs[at]}.size() == {list(known)}, but got {list(got)}"
                    ": the program was exported for inputs of that size; say dynamic_shapes for others"
                )
            if shapes not in self._others:
                self._others[shapes] = _Recording(self._module, self.state_dict, args, kwargs)
            chosen = self._others[shapes]
        return chosen(state, leaves)

    def __str__(self) -> str:
        return f"ExportedProgram:\n{self.graph}"


def _names_of(module: Module, args: Any, kwargs: Any, recording: _Recording) -> list[str]:
    """Return what the inputs that are tensors go by."""
    try:
        known = list(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
    except TypeError:
        known = []
    plain = len(known) == len(recording.leaves) == len(recording.moving)
    return known if plain else [f"input_{i + 1}" for i in range(len(recording.moving))]


def _graph(recording: _Recording, parameters: list[str], buffers: list[str], names: list[str]) -> Graph:
    """Return the list of primitives as a graph that programs can read."""
    graph, found = Graph(), {}
    given = [*(_argument("p", n) for n in parameters), *(_argument("b", n) for n in buffers), *names]
    for name, label in zip(recording.trace.inputs, given, strict=True):
        found[name] = graph.placeholder(label)
    for line in recording.trace.lines:
        operands = tuple(found[o] if isinstance(o, Name) else o for o in line.operands)
        target = operator_of(line.op, operands, line.params, False)
        node = graph.call_function(target, (*operands, *line.params), name=target._opname)
        for at, name in enumerate(line.targets):
            found[name] = graph.call_function(operator.getitem, (node, at)) if line.op.outputs else node
    graph.output(tuple(found[o] if isinstance(o, Name) else o for o in recording.trace.outputs))
    return graph


def export(
    mod: Any, args: Any, kwargs: Any = None, *, dynamic_shapes: Any = None, strict: bool = False,
    preserve_module_call_signature: Any = (), prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """Run a module once on example inputs, and return what it did as a program.

    Parameters
    ----------
    mod
        The module.
    args, kwargs
        What it is called with.
    dynamic_shapes
        Which sizes may differ later, as torch says it; given at all, inputs of any size are taken, and traced when
        they first come.

    Returns
    -------
    ExportedProgram
        Its ``module()`` is called as `mod` is.
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    return ExportedProgram(mod, args, dict(kwargs or {}), dynamic_shapes is not None)
