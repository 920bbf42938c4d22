"""`export`: a module's forward pass as an ONNX file."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

import numpy as np

from .. import tree
from ..compiler.capture import CaptureError
from ..compiler.graph import Value
from ..core.tensor import TensorBase
from ..export.constants import Generated
from ..export.exported import ExportedProgram
from ..export.program import Call, ExportError, Program, captured, names_of_inputs
from ..export.shapes import dynamic_axes_of, dynamic_shapes_of
from ..export.sizes import Varying
from ..nn.modules.module import Module
from .builder import Builder, Unsupported
from .forms import write
from .patterns import fold_constants, gather_batch_norms
from .writing import save

__all__ = ["ONNXProgram", "OnnxExporterError", "TrainingMode", "export", "is_in_onnx_export"]

_LATEST, _OLDEST = 20, 18
_CHECKED = 1024  # bytes; the checker looks at the values of smaller weights only, as of shapes


class OnnxExporterError(ExportError):
    """A program cannot be exported: the message names the op, the line of the program, and what to do."""


class TrainingMode(Enum):
    """In which mode a module is exported."""

    EVAL, PRESERVE, TRAINING = 0, 1, 2


_exporting: list[Any] = []


def is_in_onnx_export() -> bool:
    """Return whether a module is being run for `export`."""
    return bool(_exporting)


class ONNXProgram:
    """An exported model: its graph as a ``ModelProto`` without weights, and the weights by name.

    Attributes
    ----------
    weights
        The arrays of parameters, buffers and constants, by the names they have in the graph.
    input_names, output_names
        What a runtime calls the inputs and outputs.
    """

    def __init__(self, model: Any, weights: dict[str, Any], state: Collection[str] = ()) -> None:
        self._model, self.weights = model, weights
        self._state = frozenset(state)  # names of parameters and buffers; the other weights are constants
        self.input_names = [v.name for v in model.graph.input]
        self.output_names = [v.name for v in model.graph.output]

    @property
    def model_proto(self) -> Any:
        """The whole model as an ``onnx.ModelProto``, weights included."""
        from onnx import numpy_helper

        model = type(self._model)()
        model.CopyFrom(self._model)
        model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in self.weights.items())
        return model

    def save(
        self, destination: Any, *, include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False, external_data: bool | None = None,
    ) -> None:  # fmt: skip
        """Write the model; with `external_data`, or above 2 GiB, weights go to a second file beside it.

        Without `include_initializers`, parameters and buffers are inputs, which the caller of the model gives; with
        `keep_initializers_as_inputs`, they may be given.
        """
        weights, model = self.weights, self._model
        if keep_initializers_as_inputs or not include_initializers:
            model = self._with_inputs()
        if not include_initializers:
            weights = {name: a for name, a in weights.items() if name not in self._state}
        save(model, weights, destination, external_data)

    def _with_inputs(self) -> Any:
        """Return the graph with parameters and buffers among its inputs."""
        from onnx import helper

        model = type(self._model)()
        model.CopyFrom(self._model)
        for name, array in self.weights.items():
            if name in self._state:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                model.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        return model

    def apply_weights(self, state_dict: Mapping[str, Any]) -> None:
        """Replace parameters and buffers by those of a ``state_dict()``; unknown names are left out."""
        for name, value in state_dict.items():
            if name not in self._state:
                continue
            array = np.asarray(value.array if isinstance(value, TensorBase) else value)
            if array.shape != self.weights[name].shape or array.dtype != self.weights[name].dtype:
                raise ValueError(
                    f"the weight {name} is {array.dtype.name}{list(array.shape)}; the model has "
                    f"{self.weights[name].dtype.name}{list(self.weights[name].shape)}"
                )
            self.weights[name] = array

    def optimize(self) -> None:
        """Do nothing: constants are folded during the export."""

    def check(self) -> None:
        """Run ``onnx.checker`` with shape inference over the graph; large weights count by their shapes alone."""
        from onnx import checker, helper, numpy_helper

        model = type(self._model)()
        model.CopyFrom(self._model)
        for name, array in self.weights.items():
            if array.nbytes <= _CHECKED:
                model.graph.initializer.append(numpy_helper.from_array(array, name))
            else:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                model.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        checker.check_model(model, full_check=True)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model by onnxruntime, which is imported now; returns tensors."""
        from ..ops.create import tensor

        try:
            import onnxruntime  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError as error:
            raise ImportError("running an exported model needs onnxruntime: pip install onnxruntime") from error
        session = onnxruntime.InferenceSession(self.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
        leaves = [v for v in tree.tree_leaves((args, kwargs)) if isinstance(v, TensorBase)]
        given = {name: np.asarray(v.array) for name, v in zip(self.input_names, leaves, strict=True)}
        return tuple(tensor(v) for v in session.run(None, given))

    def __repr__(self) -> str:
        return (
            f"ONNXProgram({', '.join(self.input_names)} -> {', '.join(self.output_names)}; {len(self.weights)} weights)"
        )


def export(
    model: Any, args: Any = (), f: Any = None, *, kwargs: Mapping[str, Any] | None = None, verbose: bool | None = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    opset_version: int | None = None, dynamo: bool = True, external_data: bool | None = None,
    dynamic_shapes: Any = None, dynamic_axes: Any = None, verify: bool = False, optimize: bool = True,
    training: Any = None, export_params: bool = True, keep_initializers_as_inputs: bool = False,
    do_constant_folding: bool = True, custom_translation_table: Mapping[Any, Any] | None = None, report: bool = False,
    profile: bool = False, dump_exported_program: bool = False, artifacts_dir: Any = ".",
    operator_export_type: Any = None, custom_opsets: Any = None, export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> ONNXProgram:  # fmt: skip
    """Write the forward pass of a module as an ONNX model.

    The module runs on the example inputs, in eval mode, and once more with other sizes for each dynamic axis; what it
    computes is written down primitive by primitive. Weights are initializers with the names of ``state_dict()``, and
    nodes are named by the modules that ran them. The result is checked by ``onnx.checker`` with shape inference.

    Parameters
    ----------
    model : Module, ExportedProgram or callable
        What to export: a module, an exported program or a function of tensors.
    args, kwargs : tuple and dict
        What it is called with; one tensor may stand for itself.
    f : path or open file, optional
        Where to write; by default the result is returned only.
    input_names, output_names : list of str, optional
        Names of the tensors among the inputs, flattened, and of the outputs; by default those of the parameters of
        ``forward``, and ``output``, ``output_1``...
    opset_version : int, default 20
        The version of ONNX's operators, from 18 to 23.
    external_data : bool, optional
        Whether weights go to a second file, ``f`` with ``.data`` added; by default above 2 GiB, where they must.
    dynamic_shapes : dict, optional
        Which sizes may differ, as `adjoint.export.export` takes it: ``{"x": {0: Dim("batch")}}``.
    dynamic_axes : dict, optional
        The same in the older form: ``{"x": {0: "batch"}}`` or ``{"x": [0]}``.
    verify : bool, default False
        Whether to run the file by onnxruntime and compare its outputs with the module's.
    verbose : bool, optional
        Whether to print the graph.
    export_params, keep_initializers_as_inputs : bool
        Whether parameters and buffers are in the file, and whether they are inputs of the model, too. Those that are
        not in the file are inputs.
    custom_translation_table, export_modules_as_functions
        Not supported.
    dynamo, report, profile, dump_exported_program, artifacts_dir
        Without effect, for programs that pass them.
    operator_export_type, custom_opsets, autograd_inlining
        Without effect, for programs that pass them.
    training : bool or TrainingMode, optional
        True, or torch's ``TrainingMode.TRAINING`` or ``PRESERVE``: leave the module in the mode it is in.
    optimize, do_constant_folding : bool, default True
        Whether to compute what depends on no input now, and to write batch norms as one node.

    Returns
    -------
    ONNXProgram
        The model; ``save(path)`` writes it.

    Raises
    ------
    OnnxExporterError
        Where the program does what ONNX cannot say: the message has the op, the line and what to do.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.ReLU())
    >>> adjoint.onnx.export(model, (adjoint.ones(1, 2),), dynamic_axes={"input": {0: "batch"}})
    ONNXProgram(input -> output; 2 weights)
    """
    _require_onnx()
    if custom_translation_table or export_modules_as_functions:
        raise NotImplementedError("export takes no custom_translation_table and no export_modules_as_functions")
    opset = _LATEST if opset_version is None else opset_version
    if not _OLDEST <= opset <= 23:
        raise ValueError(
            f"opset_version must be from {_OLDEST} to 23, not {opset}; onnx.version_converter makes others"
        )
    program, result = _captured(model, args, dict(kwargs or {}), input_names, dynamic_shapes, dynamic_axes, training)
    made = _written(program, opset, list(input_names or []), list(output_names or []), optimize and do_constant_folding)
    made.check()
    if verbose:
        from onnx import printer

        print(printer.to_text(made._model))
    if f is not None:
        made.save(
            f, include_initializers=export_params, keep_initializers_as_inputs=keep_initializers_as_inputs,
            external_data=external_data,
        )  # fmt: skip
    if verify and result is not None:
        _verify(made, program, result)
    return made


def _require_onnx() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError("exporting needs the onnx package: pip install onnx") from error


def _captured(
    model: Any, args: Any, kwargs: dict[str, Any], input_names: Any, shapes: Any, axes: Any, training: Any
) -> tuple[Program, Any]:  # fmt: skip
    if isinstance(model, ExportedProgram):
        program = copy.copy(model.program)  # what follows rewrites it
        program.calls, program.constants = list(program.calls), dict(program.constants)
        _drop_writes(program)
        return program, None
    args = args if isinstance(args, tuple) else (args,) if args is not None else ()
    if args and isinstance(args[-1], dict) and not kwargs and not isinstance(args[-1], TensorBase):
        if _takes_keywords(model, args):
            args, kwargs = args[:-1], dict(args[-1])
    leaves = [v for v in tree.tree_leaves((args, kwargs)) if isinstance(v, TensorBase)]
    names = names_of_inputs(model, args, kwargs, len(leaves))
    said = list(input_names or [])
    known = [said[i] if i < len(said) else name for i, name in enumerate(names)]
    if shapes is not None:
        dynamic = dynamic_shapes_of(model, args, kwargs, shapes)
    else:
        dynamic = dynamic_axes_of(known, leaves, axes or {})
    _exporting.append(None)
    try:
        with _mode(model, training):
            program = captured(model, args, kwargs, dynamic)
    except (ExportError, CaptureError) as error:
        raise OnnxExporterError(str(error)) from error
    finally:
        _exporting.pop()
    program.input_names = known
    _drop_writes(program)
    return program, (args, kwargs, model)


def _drop_writes(program: Program) -> None:
    """Leave out in-place writes of the program, with a warning: an ONNX model computes outputs only."""
    if not program.writes:
        return
    names = {v: name for name, v in program.state.items()} | dict(zip(program.inputs, program.input_names, strict=True))
    said = ", ".join(str(names.get(target, "a tensor outside")) for target, _ in program.writes[:3])
    warnings.warn(
        f"the forward pass writes to {said}; the exported model does not: it computes outputs only (a module in eval "
        "mode writes no running statistics)",
        stacklevel=4,
    )
    program.writes = []
    program.prune()


def _takes_keywords(model: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a dict at the end of the arguments has names of parameters, as torch takes it."""
    import inspect

    try:
        parameters = inspect.signature(model.forward if isinstance(model, Module) else model).parameters
    except (TypeError, ValueError):
        return False
    return bool(args[-1]) and set(args[-1]) <= set(list(parameters)[len(args) - 1 :])


@contextmanager
def _mode(model: Any, training: Any) -> Iterator[None]:
    """Put a module into eval mode during the export, unless the caller chooses another mode."""
    keep = training is True or getattr(training, "name", training) in ("TRAINING", "PRESERVE")
    modules = [] if keep or not isinstance(model, Module) else [(m, m.training) for m in model.modules()]
    for module, _ in modules:
        module.training = False
    try:
        yield
    finally:
        for module, was in modules:
            module.training = was


def _written(program: Program, opset: int, inputs: list[str], outputs: list[str], folds: bool) -> ONNXProgram:
    """Return a program as an ONNX model."""
    from onnx import helper

    if folds:
        fold_constants(program)
        gather_batch_norms(program)
    b = Builder(program, opset)
    infos = []
    for i, value in enumerate(program.inputs):
        name = inputs[i] if i < len(inputs) else program.input_names[i]
        b.names[value] = b.unique(name)
        infos.append(_info(b, value, b.names[value]))
    for name, value in program.state.items():
        b.names[value] = b.unique(name)
        b.weights[b.names[value]] = program.tensors[name].array
    for value, constant in program.constants.items():
        if not isinstance(constant, Generated):
            b.names[value] = b.constant(constant)
    _generate(b, program)
    for call in program.calls:
        _line(b, program, call)
    results = _results(b, program, outputs)
    needed = {name for node in b.nodes for name in node.input}
    weights = {name: np.asarray(a) for name, a in b.weights.items() if name in needed}
    graph = helper.make_graph(b.nodes, "main_graph", infos, results, [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    from .._version import __version__

    model.producer_name, model.producer_version = "adjoint", __version__
    return ONNXProgram(model, weights, {b.names[value] for value in program.state.values()} & set(weights))


def _generate(b: Builder, program: Program) -> None:
    """Write the constants whose sizes vary, as far as the values they follow from are there."""
    for value, constant in program.constants.items():
        if value not in b.names and isinstance(constant, Generated) and _is_ready(b, constant):
            b.names[value] = _made(b, constant)


def _is_ready(b: Builder, constant: Generated) -> bool:
    known = {v.number for v in b.names}

    def ready(said: Any) -> bool:
        if isinstance(said, Varying):
            return ready(said.expression)
        if not isinstance(said, tuple):
            return True
        return said[1] in known if said[0] == "axis" else all(map(ready, said[1:]))

    return all(map(ready, (*constant.shape, *constant.args)))


def _made(b: Builder, constant: Generated) -> str:
    shape, dtype = constant.shape, constant.dtype
    b.line = None
    if constant.kind == "fill":
        return b.node("Expand", b.of(constant.args[0], dtype), b.ints(shape))
    if constant.kind == "range":
        start, step = constant.args
        wide = np.dtype(np.float64 if dtype.kind == "f" else np.int64)
        whole = dtype if dtype.kind == "i" and dtype.itemsize >= 4 else wide
        count = next((s for s in shape if isinstance(s, Varying)), None) or max(shape)
        zero, one = b.constant(0, whole), b.constant(1, whole)
        size = b.cast(b.node("Squeeze", b.size(count), b.ints([0])), whole)
        steps = b.node("Range", zero, size, one)
        found = b.node("Add", b.node("Mul", steps, b.of(step, whole)), b.of(start, whole))
        found = found if whole == dtype else b.cast(found, dtype)
        return found if len(shape) == 1 else b.reshaped(found, [-1 if isinstance(s, Varying) else s for s in shape])
    offset, inside, outside = constant.args
    ones = b.node("Expand", b.constant(1, np.float32), b.ints(shape))
    mask = b.cast(b.node("Trilu", ones, b.of(offset, np.int64), upper=0), bool)
    if dtype.kind == "b":
        return mask if inside else b.node("Not", mask)
    return b.node("Where", mask, b.of(inside, dtype), b.of(outside, dtype))


def _line(b: Builder, program: Program, call: Call) -> None:
    if any(v not in b.names for v in call.inputs):
        _generate(b, program)
    try:
        names = write(b, call)
    except Unsupported as problem:
        raise OnnxExporterError(
            f"{call.name} at {call.place or 'an unknown line'} cannot be exported to ONNX: {problem}. Leave it out of "
            "forward, or write it with ops that docs/deploy.md lists"
        ) from problem
    b.names.update(zip(call.outputs, names, strict=True))


def _results(b: Builder, program: Program, said: list[str]) -> list[Any]:
    """Give the outputs their names, by an Identity each, and return their descriptions."""
    b.line = None
    infos = []
    values = [v for v in program.outputs if isinstance(v, Value)]
    if not values:
        raise OnnxExporterError("the program returns no tensor")
    _generate(b, program)
    for i, value in enumerate(values):
        default = "output" if i == 0 else f"output_{i}"
        name = b.unique(said[i] if i < len(said) else default)
        if not _renamed(b, b.names[value], name, values.count(value)):
            b.nodes.append(b.helper.make_node("Identity", [b.names[value]], [name], f"/{name}/Identity"))
        else:
            b.names[value] = name
        infos.append(_info(b, value, name))
    return infos


def _renamed(b: Builder, old: str, new: str, count: int) -> bool:
    """Give the result of a node, which is returned once, another name."""
    maker = next((n for n in b.nodes if old in n.output), None)
    if maker is None or count > 1:
        return False
    maker.output[list(maker.output).index(old)] = new
    for node in b.nodes:
        for i, name in enumerate(node.input):
            if name == old:
                node.input[i] = new
    return True


def _info(b: Builder, value: Value, name: str) -> Any:
    sizes = [s if isinstance(s, int) else _dim(b.program, s) for s in b.shape(value)]
    return b.helper.make_tensor_value_info(name, b.kind(value.dtype), sizes)


def _dim(program: Program, size: Varying) -> str | None:
    """Return the name of a dynamic size: of an input's axis the caller's, else the arithmetic."""

    def said(expression: Any) -> str | None:
        if isinstance(expression, int):
            return str(expression)
        if not isinstance(expression, tuple):
            return None
        kind, first, second = expression
        if kind == "axis":
            at = next((i for i, v in enumerate(program.inputs) if v.number == first), None)
            dim = None if at is None else program.dims[at].get(second)
            return None if dim is None else str(dim.__name__)
        parts = said(first), said(second)
        sign = {"add": " + ", "mul": "*", "floordiv": "//"}[kind]
        return None if None in parts else f"({parts[0]}){sign}{parts[1]}" if kind != "mul" else f"{parts[0]}*{parts[1]}"

    return said(size.expression)


def _verify(made: ONNXProgram, program: Program, call: Any) -> None:
    args, kwargs, model = call
    from ..autograd.grad_mode import no_grad

    with _mode(model, None), no_grad():
        expected = [v for v in tree.tree_leaves(model(*args, **kwargs)) if isinstance(v, TensorBase)]
    for name, found, wanted in zip(made.output_names, made(*args, **kwargs), expected, strict=True):
        gap = float(np.max(np.abs(np.asarray(found.array, np.float64) - wanted.array), initial=0.0))
        if not gap <= 1e-4 * max(1.0, float(np.max(np.abs(wanted.array), initial=0.0))):
            raise OnnxExporterError(f"the exported model's {name} differs from the module's by {gap:.3g}")
