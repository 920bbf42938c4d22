"""Reading ONNX files: everything in one is checked before any of it is used, and nothing in it is run.

What can be wrong with a file has one name, `ModelError`.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ModelError", "NodeSpec", "Parsed", "parsed", "tensor_array"]

_MOST_NODES = 1_000_000
_MOST_DEPTH = 32  # of graphs inside of nodes
_MOST_RANK = 32


class ModelError(ValueError):
    """An ONNX model is damaged, inconsistent, hostile, or uses unsupported operators; nothing of it was run."""


class NodeSpec(NamedTuple):
    """A node: its operator and domain, names of inputs and outputs, attributes as Python values."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class Parsed(NamedTuple):
    """A graph: weights by name, inputs with their dtypes and sizes, output names, nodes in order."""

    weights: dict[str, Any]
    inputs: list[tuple[str, Any, list[Any] | None]]
    outputs: list[str]
    nodes: list[NodeSpec]
    opset: int


def parsed(source: Any) -> Parsed:
    """Return the graph of a model: a path, bytes, or an ``onnx.ModelProto``."""
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError("reading ONNX models needs the onnx package: pip install onnx") from error
    folder: Path | None = None
    if isinstance(source, str | os.PathLike):
        folder = Path(source).resolve().parent
        source = Path(source).read_bytes()
    if isinstance(source, bytes | bytearray):
        try:
            source = onnx.ModelProto.FromString(bytes(source))
        except (DecodeError, ValueError, RecursionError, MemoryError) as error:
            raise ModelError(f"not an ONNX model, or cut short: {error}") from None
    if not isinstance(source, onnx.ModelProto):
        raise TypeError(f"load takes a path, bytes or an onnx.ModelProto, not {type(source).__name__}")
    try:
        return _model(source, folder)
    except (UnicodeDecodeError, OverflowError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise ModelError(f"the model is inconsistent: {type(error).__name__}: {error}") from None


def _model(model: Any, folder: Path | None) -> Parsed:
    if len(model.functions):
        raise ModelError(
            f"the model defines functions of its own ({model.functions[0].name}); inline them first: "
            "onnx.inliner.inline_local_functions"
        )
    versions = {o.domain: o.version for o in model.opset_import}
    opset = versions.get("", versions.get("ai.onnx", 0))
    if not 1 <= opset <= 1000:
        raise ModelError("the model does not say which version of ONNX's operators it is for")
    return _graph(model.graph, folder, opset, frozenset(), 0)


def _graph(graph: Any, folder: Path | None, opset: int, outer: frozenset[str], depth: int) -> Parsed:
    if depth > _MOST_DEPTH:
        raise ModelError("graphs inside of graphs without end")
    if len(graph.node) > _MOST_NODES:
        raise ModelError(f"the graph has {len(graph.node)} nodes")
    if len(graph.sparse_initializer):
        raise ModelError("sparse weights are not read")
    weights: dict[str, Any] = {}
    for tensor in graph.initializer:
        if not tensor.name or tensor.name in weights:
            raise ModelError(f"two weights are called {tensor.name!r}" if tensor.name else "a weight has no name")
        weights[tensor.name] = tensor_array(tensor, folder)
    inputs = [(v.name, *_type_of(v)) for v in graph.input]
    known = set(outer) | set(weights)
    seen: set[str] = set()
    for name, dtype, sizes in inputs:
        if name in seen or not name:
            raise ModelError(f"two inputs are called {name!r}")
        seen.add(name)
        if name in weights:
            _check_weight(name, weights[name], dtype, sizes)
    known |= seen
    nodes = [_node(n, folder, opset, frozenset(known | _made(graph)), depth) for n in graph.node]
    _check_order(nodes, known)
    outputs = [v.name for v in graph.output]
    missing = [name for name in outputs if name not in known]
    if missing:
        raise ModelError(f"no node makes the output {missing[0]!r}")
    return Parsed(weights, [i for i in inputs if i[0] not in weights], outputs, nodes, opset)


def _made(graph: Any) -> set[str]:
    return {name for node in graph.node for name in node.output}


def _check_order(nodes: list[NodeSpec], known: set[str]) -> None:
    """Add what nodes make to `known`; raise where one uses what is not made before it, as in a cycle."""
    for node in nodes:
        for name in node.inputs:
            if name and name not in known:
                raise ModelError(
                    f"{node.op} {node.name!r} uses {name!r}, which no node before it makes: the graph has a cycle or "
                    "is out of order"
                )
        for name in node.outputs:
            if name and name in known:
                raise ModelError(f"{name!r} is made twice, the second time by {node.op} {node.name!r}")
            known.add(name)


def _type_of(info: Any) -> tuple[Any, list[Any] | None]:
    kind = info.type.tensor_type
    if info.type.WhichOneof("value") not in (None, "tensor_type"):
        raise ModelError(f"the input {info.name!r} is no tensor")
    if not kind.elem_type:
        return None, None
    dtype = dtype_of(kind.elem_type)
    if not kind.HasField("shape"):
        return dtype, None
    sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.shape.dim]
    if len(sizes) > _MOST_RANK or any(isinstance(s, int) and s < 0 for s in sizes):
        raise ModelError(f"the input {info.name!r} has an impossible shape {sizes[:8]}")
    return dtype, sizes


def _check_weight(name: str, array: Any, dtype: Any, sizes: Any) -> None:
    wrong = dtype is not None and array.dtype != dtype
    wrong |= sizes is not None and (
        len(sizes) != array.ndim or any(isinstance(s, int) and s != n for s, n in zip(sizes, array.shape, strict=True))
    )
    if wrong:
        raise ModelError(f"the weight {name!r} is {array.dtype.name}{list(array.shape)}, and declared otherwise")


def dtype_of(number: int) -> np.dtype[Any]:
    """Return NumPy's dtype of a number of ONNX's."""
    from onnx import TensorProto, helper

    if number in (TensorProto.STRING, TensorProto.UNDEFINED):
        raise ModelError("tensors of text are not read" if number == TensorProto.STRING else "a tensor has no dtype")
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError, TypeError):
        raise ModelError(f"unknown dtype {number}") from None


def tensor_array(tensor: Any, folder: Path | None = None) -> Any:
    """Return the elements of a ``TensorProto``, after its sizes were found to agree with its bytes."""
    from onnx import TensorProto, numpy_helper

    dtype, shape = dtype_of(tensor.data_type), tuple(tensor.dims)
    if len(shape) > _MOST_RANK or any(n < 0 for n in shape):
        raise ModelError(f"the weight {tensor.name!r} has an impossible shape {list(shape[:8])}")
    count = math.prod(shape)
    packed = dtype.itemsize == 1 and dtype.name in ("int4", "uint4", "float4_e2m1fn", "int2", "uint2")
    expected = (
        -(-count * (2 if "2" in dtype.name[-2:] and "int" in dtype.name else 4) // 8)
        if packed
        else count * dtype.itemsize
    )
    if tensor.data_location == TensorProto.EXTERNAL:
        data = _external(tensor, folder, expected)
        return np.frombuffer(data, dtype.newbyteorder("<") if not packed else dtype, count).reshape(shape).astype(dtype)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != expected:
            raise ModelError(f"the weight {tensor.name!r} has {len(tensor.raw_data)} bytes; its shape needs {expected}")
    else:
        fields = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
        numbers = max(map(len, fields))
        wanted = {-(-count // 2), -(-count // 4), count} if packed else {count * (2 if dtype.kind == "c" else 1)}
        if numbers not in wanted:
            raise ModelError(f"the weight {tensor.name!r} has {numbers} elements; its shape needs {count}")
    try:
        return np.array(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelError(f"the weight {tensor.name!r} cannot be read: {error}") from None


def _external(tensor: Any, folder: Path | None, expected: int) -> bytes:
    """Return the bytes of a weight in another file, which must be in the model's folder, and no link out of it."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    location = said.get("location", "")
    if folder is None:
        raise ModelError(f"the weight {tensor.name!r} is in another file: load the model by its path")
    path = Path(location)
    if not location or path.is_absolute() or ".." in path.parts or "\0" in location or ":" in location:
        raise ModelError(f"the weight {tensor.name!r} is said to be in {location!r}, outside of the model's folder")
    target = folder / path
    if not target.resolve().is_relative_to(folder) or target.is_symlink() or not target.is_file():
        raise ModelError(f"the weight {tensor.name!r} is said to be in {location!r}, which is no file beside the model")
    try:
        offset = int(said.get("offset") or 0)
        length = int(said.get("length") or expected)
    except ValueError:
        raise ModelError(f"the weight {tensor.name!r} has no valid place in {location!r}") from None
    if offset < 0 or length != expected or offset + length > target.stat().st_size:
        raise ModelError(f"the weight {tensor.name!r} needs {expected} bytes, which {location!r} does not have there")
    with open(target, "rb") as file:
        file.seek(offset)
        return file.read(length)


def _node(node: Any, folder: Path | None, opset: int, known: frozenset[str], depth: int) -> NodeSpec:
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.name in attributes or attribute.ref_attr_name:
            raise ModelError(f"{node.op_type} {node.name!r}: the attribute {attribute.name!r} is given twice")
        attributes[attribute.name] = _attribute(attribute, folder, opset, known, depth)
    domain = "" if node.domain == "ai.onnx" else node.domain
    return NodeSpec(node.op_type, domain, node.name, tuple(node.input), tuple(node.output), attributes)


def _attribute(attribute: Any, folder: Path | None, opset: int, known: frozenset[str], depth: int) -> Any:
    kind = attribute.type
    simple = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints", 8: "strings"}
    if kind in simple:
        value = getattr(attribute, simple[kind])
        if kind == 3:
            return value.decode("utf-8")
        return [v.decode("utf-8") for v in value] if kind == 8 else list(value) if kind in (6, 7) else value
    if kind == 4:
        return tensor_array(attribute.t, folder)
    if kind == 5:
        return _graph(attribute.g, folder, opset, known, depth + 1)
    raise ModelError(f"the attribute {attribute.name!r} is of a kind that is not read")
