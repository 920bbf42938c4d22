"""Writing ONNX files: the graph by the `onnx` package, weights straight from their arrays, so that memory stays small.

A protobuf message is its fields one after the other, each with its number and length. The graph is written without its
weights first; these follow, each copied from the array into the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

__all__ = ["MOST_INLINE", "save"]

MOST_INLINE = (1 << 31) - (1 << 20)  # bytes of a file, less than the 2 GiB of one protobuf message
_SMALL = 1024  # bytes; smaller weights stay in the file of the graph
_ALIGNED = 4096  # external data begins at multiples of this, so that it can be mapped
_GRAPH, _INITIALIZER, _RAW = 7, 5, 9  # numbers of fields: of a model, of a graph, of a tensor


def save(model: Any, weights: dict[str, Any], path: Any, external: bool | None) -> None:
    """Write a model and its weights to a file, or two; `external` None: two where one would be too large.

    `path` may be a file that is open for writing, which is one file.
    """
    from onnx import helper

    opened = hasattr(path, "write")
    if opened and external:
        raise ValueError("weights in a second file need the path of the first: give a path, not an open file")
    target = Path("") if opened else Path(path)
    total = sum(a.nbytes for a in weights.values()) + model.ByteSize()
    if external is None:
        external = total > MOST_INLINE and not opened
    if not external and total > MOST_INLINE:
        raise ValueError(
            f"the model takes {total} bytes, and an ONNX file holds less than 2 GiB: give a path, external_data=True"
        )
    data = target.with_name(f"{target.name}.data") if external else None
    headers, offset, outside = [], 0, []
    for name, array in weights.items():
        header = _header(helper, name, array)
        if data is not None and array.nbytes >= _SMALL:
            offset = -(-offset // _ALIGNED) * _ALIGNED
            _refer(header, data.name, offset, array.nbytes)
            outside.append((offset, array))
            offset += array.nbytes
            headers.append((header.SerializeToString(), None))
        else:
            headers.append((header.SerializeToString(), array))
    if data is not None:
        with open(data, "wb") as file:
            for place, array in outside:
                file.write(b"\0" * (place - file.tell()))
                file.write(_bytes(array))
    if opened:
        _write(path, model, headers)
        return
    with open(target, "wb") as file:
        _write(file, model, headers)


def _header(helper: Any, name: str, array: Any) -> Any:
    from onnx import TensorProto

    return TensorProto(name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype))


def _refer(header: Any, location: str, offset: int, length: int) -> None:
    from onnx import TensorProto

    header.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        header.external_data.add(key=key, value=value)


def _write(file: IO[bytes], model: Any, headers: list[tuple[bytes, Any]]) -> None:
    graph = model.graph.SerializeToString()
    shell = type(model)()
    shell.CopyFrom(model)
    shell.ClearField("graph")
    sizes = [len(h) + (0 if a is None else len(_field(_RAW, a.nbytes)) + a.nbytes) for h, a in headers]
    total = len(graph) + sum(len(_field(_INITIALIZER, size)) + size for size in sizes)
    file.write(shell.SerializeToString() + _field(_GRAPH, total) + graph)
    for (header, array), size in zip(headers, sizes, strict=True):
        file.write(_field(_INITIALIZER, size) + header)
        if array is not None:
            file.write(_field(_RAW, array.nbytes))
            file.write(_bytes(array))


def _bytes(array: Any) -> Any:
    """Return the elements of an array in order, little-endian, without a copy if they are so already."""
    array = np.ascontiguousarray(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return memoryview(array.reshape(-1).view(np.uint8))


def _field(number: int, length: int) -> bytes:
    return bytes([*_varint(number << 3 | 2), *_varint(length)])


def _varint(value: int) -> Iterator[int]:
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value
