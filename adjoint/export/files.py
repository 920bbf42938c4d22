"""Exported programs on disk: a zip of ``program.json`` and ``weights.safetensors``, without compression or pickles.

The graph is data: names of primitives that adjoint has, numbers, and sizes as expressions of others. Nothing in a file
is code, and every part is checked before the program is put together. What is wrong with a file is a `FileFormatError`.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import tree
from .._version import __version__
from ..compiler.graph import Form, Step, Value
from ..compiler.memory import put_region, take_region
from ..core.nodes import registry, wrap
from ..nn.parameter import Parameter
from ..ops.windows import RECIPES, Taps
from ..serialization import safetensors
from ..serialization.safetensors import parsed_json
from ..serialization.sources import FileFormatError, replacing
from .constants import Generated
from .exported import ExportedProgram
from .program import DETACH, Call, ExportError, Program, is_step
from .sizes import Dim, Varying

__all__ = ["VERSION", "load", "save"]

VERSION = 1  # of the format: later versions of adjoint read all earlier ones
_FORMAT = "adjoint.export"
_PROGRAM, _WEIGHTS = "program.json", "weights.safetensors"
_STEPS: dict[str, Step] = {"take_region": take_region, "put_region": put_region, "detach": DETACH}
# A look at any part of memory: a program that does so is written down as `take_region`, which checks its bounds.
_REFUSED = frozenset(("as_strided",))
_MOST_BYTES = 1 << 40


# --- Writing -----------------------------------------------------------------------------------------


class _Writer:
    """Turns a program into JSON; arrays go to `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def value(self, value: Any) -> Any:
        """Return a parameter or operand as JSON."""
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, np.generic) and not isinstance(value, np.floating | np.complexfloating):
            return value.item()
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, Value):
            return {"value": value.number}
        if isinstance(value, Varying):
            if value.expression is None:
                raise ExportError(
                    f"a parameter is {', '.join(map(repr, value.values[:3]))} at different sizes of the dynamic axes, "
                    "and how it follows from them is not known: export the program with these axes static"
                )
            if isinstance(value.expression, tuple) and value.expression[0] == "taps":
                _, recipe, args = value.expression
                return {"recipe": recipe, "args": [self.value(a) for a in args], "first": self.value(value.values[0])}
            return {"size": _said(value.expression), "first": self.value(value.values[0])}
        if type(value) in (tuple, list):
            return {"tuple" if type(value) is tuple else "list": [self.value(v) for v in value]}
        if isinstance(value, slice):
            return {"slice": [self.value(v) for v in (value.start, value.stop, value.step)]}
        if value is Ellipsis:
            return {"ellipsis": True}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        if isinstance(value, np.ndarray):
            return {"array": self.array(value)}
        if isinstance(value, Taps):
            parts = [value.n_in, value.n_out, value.taps, value.divide_in, value.divide_out, value.window]
            return {"taps": [self.value(p) for p in parts]}
        raise ExportError(f"a {type(value).__name__} among the parameters of an op cannot be saved")

    def array(self, array: Any) -> str:
        """Put an array among the weights, and return its name."""
        name = f"constant:{len(self.arrays)}"
        self.arrays[name] = wrap(np.ascontiguousarray(array))
        return name

    def constant(self, constant: Any) -> Any:
        """Return a constant as JSON."""
        if not isinstance(constant, Generated):
            return {"array": self.array(constant)}
        shape, args = ([self.value(v) for v in part] for part in (constant.shape, constant.args))
        return {"kind": constant.kind, "shape": shape, "dtype": constant.dtype.name, "args": args}


def _said(expression: Any) -> Any:
    return [_said(e) for e in expression] if isinstance(expression, tuple) else expression


def _tree(structure: Any) -> Any:
    """Return nested tuples, lists and dicts of numbers of leaves as JSON; other classes become these."""
    if isinstance(structure, Mapping):
        return {"dict": [[str(k), _tree(v)] for k, v in structure.items()]}
    if isinstance(structure, list | tuple):
        return {"list" if isinstance(structure, list) else "tuple": [_tree(v) for v in structure]}
    if type(structure) is not int:
        raise ExportError(f"a {type(structure).__name__} among the arguments or results of a program cannot be saved")
    return structure


def save(ep: ExportedProgram, f: Any, *, extra_files: Mapping[str, Any] | None = None, **ignored: Any) -> None:
    """Write an exported program to a file, which `load` reads without the class that it was made of.

    Parameters
    ----------
    ep
        What `export` returned.
    f
        A path, or a file open for writing.
    extra_files
        Texts or bytes to be stored beside it, by name.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> adjoint.export.save(adjoint.export.export(adjoint.nn.ReLU(), (adjoint.ones(2),)), file)
    >>> adjoint.export.load(io.BytesIO(file.getvalue())).module()(adjoint.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if not isinstance(ep, ExportedProgram):
        kind = type(ep).__name__
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{kind}' instead.")
    w, program = _Writer(), ep.program
    said: dict[str, Any] = {"format": _FORMAT, "version": VERSION, "adjoint": __version__}
    said["values"] = {
        str(v.number): {"dtype": v.dtype.name, "shape": [w.value(s) for s in sizes]}
        for v, sizes in program.shapes.items()
    }  # fmt: skip
    said["inputs"] = [
        {"value": v.number, "name": name, "dims": [_dim(axis, dim) for axis, dim in dims.items()]}
        for v, name, dims in zip(program.inputs, program.input_names, program.dims, strict=True)
    ]
    said["state"] = {name: v.number for name, v in program.state.items()}
    held = {**ep.state_dict, **ep.buffers_apart}
    said["weights"] = {
        n: {
            "parameter": isinstance(t, Parameter), "requires_grad": bool(t.requires_grad),
            "persistent": n not in ep.buffers_apart,
        }
        for n, t in held.items()
    }  # fmt: skip
    said["writes"] = [[target.number, value.number] for target, value in program.writes]
    said["alike"] = program.alike
    said["constants"] = {str(v.number): w.constant(c) for v, c in program.constants.items()}
    said["calls"] = [_call(w, call) for call in program.calls]
    said["outputs"] = [w.value(o) for o in program.outputs]
    said["given"] = [w.value(g) for g in program.given]
    said["takes"] = _tree(program.takes.unflatten(list(range(program.takes.num_leaves))))
    said["returns"] = _tree(program.returns.unflatten(list(range(program.returns.num_leaves))))
    weights = {**{n: t.detach() for n, t in held.items()}, **ep.constants, **w.arrays}
    with replacing(f) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_PROGRAM, json.dumps(said, allow_nan=False))
        archive.writestr(_WEIGHTS, safetensors.save(weights))
        for name, data in (extra_files or {}).items():
            archive.writestr(f"extra/{name}", data)


def _dim(axis: int, dim: Dim) -> dict[str, Any]:
    root = dim.root
    return {
        "axis": axis, "name": dim.__name__, "root": root.__name__, "min": root.min, "max": root.max,
        "factor": dim.factor, "offset": dim.offset,
    }  # fmt: skip


def _call(w: _Writer, call: Call) -> dict[str, Any]:
    if is_step(call.op) and call.name not in _STEPS:
        raise ExportError(
            f"{call.name} at {call.place} cannot be saved: it is computed by NumPy, or uses random numbers (export "
            "the module in eval mode)"
        )
    return {
        "op": call.name, "operands": [w.value(o) for o in call.operands], "params": [w.value(p) for p in call.params],
        "outputs": [v.number for v in call.outputs], "place": call.place, "scope": call.scope,
    }  # fmt: skip


# --- Reading -----------------------------------------------------------------------------------------


class _Reader:
    """Puts a program together of JSON, each part checked."""

    def __init__(self, said: dict[str, Any], weights: dict[str, Any]) -> None:
        self.said, self.weights = said, weights
        self.values: dict[int, Value] = {}

    def parse(self, said: Any) -> Any:
        """Return a parameter or operand."""
        if said is None or type(said) in (bool, int, float, str):
            return said
        kind, held = _only(said)
        if kind == "size":
            return Varying((self.parse(said["first"]),), self.expression(held))
        if kind == "recipe":
            if held not in RECIPES:
                raise FileFormatError(f"unknown windows {held!r:.40}")
            return Varying((self.parse(said["first"]),), ("taps", held, tuple(map(self.parse, said["args"]))))
        if kind == "value":
            return self.values[held]
        if kind in ("tuple", "list"):
            return (tuple if kind == "tuple" else list)(self.parse(v) for v in held)
        if kind == "slice":
            return slice(*map(self.parse, held))
        if kind == "taps":
            *parts, window = map(self.parse, held)
            made = Taps(
                parts[0],
                parts[1],
                [(_places(r, parts[1]), _places(s, parts[0]), w) for r, s, w in parts[2]],
                *parts[3:],
            )
            made.window = window
            return made
        simple: dict[str, Any] = {
            "ellipsis": lambda _: Ellipsis, "float": float, "complex": lambda v: complex(*v), "dtype": _dtype,
            "array": lambda name: self.weights[name].array,
        }  # fmt: skip
        return simple[kind](held)

    def expression(self, said: Any) -> Any:
        """Return an expression of sizes."""
        if type(said) is int:
            return said
        kind, a, b = said
        if kind == "float":
            return ("float", self.expression(a), float(b))
        if kind == "axis":
            self.values[a].shape[b]
            return ("axis", a, b)
        if kind not in ("add", "mul", "floordiv"):
            raise FileFormatError(f"unknown arithmetic {kind!r:.40}")
        return (kind, self.expression(a), self.expression(b))

    def program(self) -> Program:
        """Return the program."""
        said, program = self.said, Program()
        for number, form in said["values"].items():
            sizes = [s if type(s) is int else s["first"] for s in form["shape"]]
            if any(type(s) is not int or s < 0 for s in sizes):
                raise FileFormatError(f"value {number} has an impossible shape")
            self.values[int(number)] = Value(int(number), Form(sizes, _dtype(form["dtype"])))
        for number, form in said["values"].items():
            program.shapes[self.values[int(number)]] = tuple(self.parse(s) for s in form["shape"])
        roots: dict[str, Dim] = {}
        for entry in said["inputs"]:
            program.inputs.append(self.values[entry["value"]])
            program.input_names.append(str(entry["name"]))
            program.dims.append({d["axis"]: _read_dim(d, roots) for d in entry["dims"]})
        program.state = {name: self.values[number] for name, number in said["state"].items()}
        program.alike = dict(said["alike"])
        program.constants = {self.values[int(n)]: self.constant(c) for n, c in said["constants"].items()}
        known = {*program.inputs, *program.state.values(), *program.constants}
        for line in said["calls"]:
            call = self.call(line)
            if any(v not in known for v in call.inputs) or known & set(call.outputs):
                raise FileFormatError(f"{call.name} uses a value before it is made, or makes one twice")
            known.update(call.outputs)
            program.calls.append(call)
        program.outputs = [self.parse(o) for o in said["outputs"]]
        places = {*program.inputs, *program.state.values()}
        program.writes = [(self.values[a], self.values[b]) for a, b in said.get("writes", [])]
        if any(isinstance(o, Value) and o not in known for o in program.outputs) or any(
            target not in places or value not in known for target, value in program.writes
        ):
            raise FileFormatError("an output is made by no line")
        program.given = [self.parse(g) for g in said["given"]]
        program.takes, program.returns = (
            _spec(said["takes"], len(program.given)),
            _spec(said["returns"], len(program.outputs)),
        )
        return program

    def call(self, said: dict[str, Any]) -> Call:
        """Return a line, whose op must be one that there is."""
        name = said["op"]
        op: Any = _STEPS.get(name) or getattr(registry.get(name), "op", registry.get(name))
        if op is None or name in _REFUSED:
            raise FileFormatError(f"the program calls {name!r:.40}, which this version of adjoint does not have")
        operands, params = ([self.parse(v) for v in said[part]] for part in ("operands", "params"))
        outputs = [self.values[n] for n in said["outputs"]]
        if not is_step(op) and hasattr(op.call, "of_arity"):  # of a sequence, as `cat`: there is an op for each length
            op = op.call.of_arity(len(operands))
        return Call(op, operands, params, outputs, str(said["place"]), str(said["scope"]))

    def constant(self, said: dict[str, Any]) -> Any:
        """Return a constant."""
        if "array" in said:
            return self.weights[said["array"]].array
        shape, args = ([self.parse(v) for v in said[part]] for part in ("shape", "args"))
        if said["kind"] not in ("fill", "range", "triangle", "number"):
            raise FileFormatError(f"unknown constant {said['kind']!r:.40}")
        return Generated(said["kind"], shape, _dtype(said["dtype"]), args)


def _places(span: Any, size: int) -> Any:
    return np.arange(size)[span]


def _only(said: Any) -> tuple[str, Any]:
    if not isinstance(said, dict) or not said:
        raise FileFormatError(f"a {type(said).__name__} where a value should be")
    return next(iter(said.items()))


def _dtype(name: Any) -> np.dtype[Any]:
    import ml_dtypes

    try:
        found = np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        found = np.dtype(object)
    if found.kind in "OSUMm":
        raise FileFormatError(f"unknown dtype {name!r:.40}")
    return found


def _read_dim(said: dict[str, Any], roots: dict[str, Dim]) -> Dim:
    root = roots.setdefault(said["root"], Dim(said["root"], min=said["min"], max=said["max"]))
    if (said["factor"], said["offset"]) == (1, 0):
        return root
    if type(said["factor"]) is not int or said["factor"] < 1:
        raise FileFormatError("a dynamic size derives from another by no whole number")
    return root._derived(said["factor"], said["offset"], said["name"])


def _spec(said: Any, count: int) -> Any:
    leaves, spec = tree.tree_flatten(_structure(said, 0))
    if leaves != list(range(count)):
        raise FileFormatError("the structure of arguments or results is not that of the program")
    return spec


def _structure(said: Any, depth: int) -> Any:
    if type(said) is int:
        return said
    kind, held = _only(said)
    if depth > 100 or kind not in ("tuple", "list", "dict"):
        raise FileFormatError("the structure of arguments or results cannot be read")
    if kind == "dict":
        return {key: _structure(v, depth + 1) for key, v in held}
    return (tuple if kind == "tuple" else list)(_structure(v, depth + 1) for v in held)


def load(f: Any, *, extra_files: dict[str, Any] | None = None, **ignored: Any) -> ExportedProgram:
    """Return a program that `save` wrote, in this version of adjoint or an earlier one; no code of the file is run.

    `extra_files` is filled with the texts that were stored under its names.
    """
    try:
        with zipfile.ZipFile(f) as archive:
            said, weights = parsed_json(_read(archive, _PROGRAM)), safetensors.load(_read(archive, _WEIGHTS))
            for name in extra_files or {}:
                extra_files[name] = _read(archive, f"extra/{name}")  # type: ignore[index]
    except zipfile.BadZipFile as error:
        raise FileFormatError(f"not an exported program, or cut short: {error}") from None
    if not isinstance(said, dict) or said.get("format") != _FORMAT:
        raise FileFormatError("not an exported program of adjoint: torch's own .pt2 files hold programs for torch")
    version, writer = said.get("version"), said.get("adjoint")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise FileFormatError(
            f"the program was written by adjoint {writer!r:.40}, in version {version!r:.40} of the format; this is "
            f"adjoint {__version__}, which reads versions up to {VERSION}; install a newer adjoint-autograd"
        )
    try:
        return _assembled(said, weights)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        raise FileFormatError(f"the program in the file is damaged: {type(error).__name__}: {error}") from None


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise FileFormatError(f"not an exported program: there is no {name} in it") from None
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > _MOST_BYTES or entry.flag_bits & 1:
        raise FileFormatError(f"{name} is compressed or encrypted, which exported programs are not")
    try:
        return archive.read(entry)
    except (EOFError, OSError, NotImplementedError, zipfile.BadZipFile) as error:
        raise FileFormatError(f"{name} cannot be read: {error}") from None


def _assembled(said: dict[str, Any], weights: dict[str, Any]) -> ExportedProgram:
    program = _Reader(said, weights).program()
    parameters: dict[str, Any] = {}
    buffers: dict[str, Any] = {}
    apart: set[str] = set()
    for name, kind in said["weights"].items():
        tensor = weights[name]
        if not kind.get("persistent", True):
            apart.add(name)
        if kind["parameter"]:
            parameters[name] = Parameter(tensor, requires_grad=bool(kind["requires_grad"]))
        else:
            buffers[name] = tensor
    program.tensors = {name: weights[name] for name in program.state}
    for name, value in program.state.items():
        array = weights[name].array
        if array.shape != value.shape or array.dtype != value.dtype:
            form = f"{array.dtype.name}{list(array.shape)}"
            raise FileFormatError(f"the weight {name!r} is {form}; the program has another")
    examples: tuple[Any, dict[str, Any]] = ((), {})
    return ExportedProgram(program, parameters, buffers, examples, apart)
