"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, or the caller's."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple

__all__ = [
    "ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec", "TensorArgument",
]  # fmt: skip


class InputKind(Enum):
    """What an input of a graph is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What an output of a graph is."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    USER_INPUT_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    TOKEN = auto()


class TensorArgument(NamedTuple):
    """A tensor, by its name in the graph."""

    name: str


class ConstantArgument(NamedTuple):
    """An argument or result that is no tensor."""

    name: str
    value: Any


class InputSpec(NamedTuple):
    """An input of a graph: what it is, and for a weight its name in the module and whether it is in state_dict()."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None


class OutputSpec(NamedTuple):
    """An output of a graph: what it is, and for a write what is written."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None


class ExportGraphSignature:
    """Which inputs of a graph are parameters, buffers, constants and the caller's, and what its outputs are.

    Attributes
    ----------
    input_specs, output_specs
        One for each input and output of the graph, in order.
    """

    def __init__(self, input_specs: list[InputSpec], output_specs: list[OutputSpec]) -> None:
        self.input_specs, self.output_specs = input_specs, output_specs

    def _inputs(self, kind: InputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.input_specs if s.kind is kind}

    def _writes(self, kind: OutputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.output_specs if s.kind is kind}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of parameters."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of buffers."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The names of buffers that are not in ``state_dict()``."""
        found = (s for s in self.input_specs if s.kind is InputKind.BUFFER and s.persistent is False)
        return tuple(str(s.target) for s in found)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of tensors that the program finds outside of the module."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The names of the caller's tensors, and the other arguments themselves."""
        return tuple(_plain(s.arg) for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The names of the tensors that are returned, and the other results themselves."""
        return tuple(_plain(s.arg) for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT)

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """Parameters by the names that they have in the graph."""
        return self._inputs(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """Buffers by the names that they have in the graph."""
        return self._inputs(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        """Tensors from outside by the names that they have in the graph."""
        return self._inputs(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """By the name of a value, the buffer that it is written to."""
        return self._writes(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> dict[str, str]:
        """By the name of a value, the parameter that it is written to."""
        return self._writes(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        """By the name of a value, the caller's tensor that it is written to."""
        return self._writes(OutputKind.USER_INPUT_MUTATION)


def _plain(argument: TensorArgument | ConstantArgument) -> Any:
    return argument.value if isinstance(argument, ConstantArgument) else argument.name
