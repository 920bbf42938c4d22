"""Files that a stranger might send, each under the name of what it tries; and what builds them.

`PICKLES`, `HEADERS` and `ARCHIVES` must be refused, `EXHAUSTING` too, with little work and memory. The tests load each
of them, the gate ``python -m gates.files`` also changes them in a hundred thousand ways.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import zipfile
from collections.abc import Callable
from typing import Any


def archive(data: bytes, storages: dict[str, bytes] | None = None, compress: int = zipfile.ZIP_STORED) -> bytes:
    """Return a file like torch's with any pickle in it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compress) as made:
        made.writestr("archive/data.pkl", data)
        for name, content in (storages or {}).items():
            made.writestr(f"archive/data/{name}", content)
        made.writestr("archive/version", "3\n")
    return stream.getvalue()


def text(said: str) -> bytes:
    """Return the opcode of a string."""
    return b"X" + struct.pack("<I", len(said.encode())) + said.encode()


def zipped(pickled: bytes, storages: dict[str, bytes] | None = None) -> io.BytesIO:
    """Return a file of a pickle and storages, open for reading."""
    return io.BytesIO(archive(pickled, storages))


class _Reduced:
    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> Any:
        return self.reduced


def storage(kind: str, key: str, count: int, location: str = "cpu") -> bytes:
    """Return the opcodes that name a storage."""
    kind_and_key = f"ctorch\n{kind}\n".encode() + text(key)
    return b"(" + text("storage") + kind_and_key + text(location) + b"\x8a\x08" + struct.pack("<q", count) + b"tQ"


def integers(*values: int) -> bytes:
    return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", v) for v in values) + b"t"


def tensor(stored: bytes, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """Return a pickle of one tensor."""
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + stored + b"\x8a\x08" + struct.pack("<q", offset)
        + integers(*size) + integers(*stride) + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


def rebuilt(args: bytes) -> bytes:
    """Return a pickle of a tensor built of any arguments."""
    return b"\x80\x02ctorch._utils\n_rebuild_tensor\n(" + args + b"tR."


def from_type(function: bytes, args: bytes) -> bytes:
    """Return a pickle of a tensor with attributes, built by any function."""
    return b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(" + function + b"ctorch\nTensor\n" + args + b"}tR."


def numpy_dtype(name: str) -> bytes:
    """Return the opcodes of a NumPy dtype."""
    return b"cnumpy\ndtype\n" + text(name) + b"\x85R"


def from_buffer(dtype: str, data: bytes, length: int) -> bytes:
    """Return a pickle of a NumPy array over some bytes."""
    said = b"C" + bytes([len(data)]) + data + numpy_dtype(dtype) + b"\x8a\x08" + struct.pack("<q", length) + b"\x85"
    return b"\x80\x02cnumpy.core.numeric\n_frombuffer\n(" + said + text("C") + b"tR."


STORAGE = storage("FloatStorage", "0", 2)
TENSOR = tensor(STORAGE, 0, (2,), (1,))
ARRAY_STATE = b"(K\x01K\x08\x85" + numpy_dtype("S1") + b"\x89C\x0812345678t"
ARRAY_BUILT = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR" + ARRAY_STATE + b"b"


PICKLES: dict[str, bytes] = {
    "os.system": b"\x80\x02cos\nsystem\nX\x08\x00\x00\x00touch /x\x85R.",
    "posix.system by STACK_GLOBAL": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
    "INST": b"(S'true'\nios\nsystem\n.",
    "OBJ": b"(cos\nsystem\nX\x04\x00\x00\x00trueo.",
    "eval": pickle.dumps(_Reduced(eval, ("1",))),
    "exec": pickle.dumps(_Reduced(exec, ("1",))),
    "import": pickle.dumps(_Reduced(__import__, ("antigravity",))),
    "getattr": b"\x80\x02cbuiltins\ngetattr\n.",
    "subprocess": pickle.dumps(_Reduced(subprocess.Popen, (["true"],))),
    "dotted name": b"\x80\x04\x8c\x08builtins\x8c\x0ceval.__call__\x93\x8c\x011\x85R.",
    "NEWOBJ": b"\x80\x02csubprocess\nPopen\n)\x81.",
    "NEWOBJ_EX": b"\x80\x04csubprocess\nPopen\n)}\x92.",
    "BUILD with a __setstate__": b"\x80\x02ccollections\nOrderedDict\n)R}X\x0c\x00\x00\x00__setstate__"
    b"cos\nsystem\nsbX\x04\x00\x00\x00trueb.",
    "BUILD of a list": b"\x80\x02]}X\x01\x00\x00\x00aK\x01sb.",
    "EXT1": b"\x80\x02\x82\x01.",
    "PERSID": b"Pstorage\n.",
    "persistent outside": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "SETITEM on a list": b"\x80\x02]K\x00K\x01s.",
    "SETITEM on a tensor": tensor(storage("FloatStorage", "0", 2), 0, (2,), (1,))[:-1] + b"K\x00K\x01s.",
    "APPEND to a dict": b"\x80\x02}K\x00a.",
    "a call of a dict": b"\x80\x02}K\x00\x85R.",
    "a call of a dtype": b"\x80\x02ctorch\nfloat32\nK\x00\x85R.",
    "a call of a storage class": b"\x80\x02ctorch\nFloatStorage\nK\x00\x85R.",
    "tensor of no storage": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x00K\x00))\x89NtR.",
    "torch.load inside": b"\x80\x02ctorch.storage\n_load_from_bytes\nC\x01a\x85R.",
    "numpy.load": b"\x80\x02cnumpy\nload\nX\x01\x00\x00\x00a\x85R.",
    "object dtype": b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00O8\x89\x88\x87R.",
    "structured dtype": b"\x80\x02cnumpy\ndtype\nX\x05\x00\x00\x00f8,O8\x89\x88\x87R.",
    "huge string dtype": b"\x80\x02cnumpy\ndtype\nX\x0b\x00\x00\x00S9999999999\x89\x88\x87R.",
    "huge range in a list": b"\x80\x02cbuiltins\nlist\ncbuiltins\nrange\nJ\xff\xff\xff\x7f\x85R\x85R.",
    "huge bytes": b"\x80\x02cbuiltins\nbytes\nJ\xff\xff\xff\x7f\x85R.",
    "huge bytearray": b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"a.",
    "huge BYTEARRAY8": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b"a.",
    "huge integer": b"\x80\x02\x8b" + struct.pack("<I", 2**31) + b"a.",
    "long integer in digits": b"I" + b"9" * 900 + b"\n.",
    "tower of tuples for a key": b"\x80\x02})" + b"q\x00h\x00\x86" * 60 + b"K\x01s.",
    "tensor as a key": b"\x80\x02}" + tensor(storage("FloatStorage", "0", 2), 0, (2,), (1,))[2:-1] + b"K\x01s.",
    "offset outside": tensor(storage("FloatStorage", "0", 2), 1, (2,), (1,)),
    "stride outside": tensor(storage("FloatStorage", "0", 2), 0, (2,), (2,)),
    "negative stride": tensor(storage("FloatStorage", "0", 2), 1, (2,), (-1,)),
    "negative offset": tensor(storage("FloatStorage", "0", 2), -1, (2,), (1,)),
    "negative size": tensor(storage("FloatStorage", "0", 2), 0, (-2,), (1,)),
    "overflowing size": tensor(storage("FloatStorage", "0", 2), 0, (2**61, 2**61), (0, 0)),
    "huge size": tensor(storage("FloatStorage", "0", 2), 0, (2**40,), (1,)),
    "size and stride differ": tensor(storage("FloatStorage", "0", 2), 0, (2,), (1, 1)),
    "storage shorter than said": tensor(storage("FloatStorage", "0", 2**40), 0, (2,), (1,)),
    "storage of another type": tensor(storage("DoubleStorage", "0", 2), 0, (2,), (1,)),
    "negative count": tensor(storage("FloatStorage", "0", -1), 0, (0,), (1,)),
    "storage that is not there": tensor(storage("FloatStorage", "7", 2), 0, (2,), (1,)),
    "storage by a path": tensor(storage("FloatStorage", "../data.pkl", 2), 0, (2,), (1,)),
    "storage on a strange device": tensor(storage("FloatStorage", "0", 2, "__import__('os')"), 0, (2,), (1,)),
    "bools of other bytes": tensor(storage("BoolStorage", "0", 8), 0, (8,), (1,)),
    "a mark for a value": b"\x80\x02((\x85.",
    "an empty stack": b"\x80\x02.",
    "two values": b"\x80\x02K\x01K\x02.",
    "a note that is not there": b"\x80\x02h\x05.",
    "protocol 99": b"\x80\x63K\x01.",
    "nothing": b"",
    "EXT2": b"\x80\x02\x83\x01\x00.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "READONLY_BUFFER": b"\x80\x05C\x01a\x98.",
    "PERSID inside": b"\x80\x02(P0\nt.",
    "BUILD of a tensor": TENSOR[:-1] + b"}" + text("array") + b"Nsb.",
    "BUILD of a storage": b"\x80\x02" + STORAGE + b"}" + text("_bytes") + b"Nsb.",
    "BUILD of a dtype of torch": b"\x80\x02ctorch\nfloat32\n}" + text("itemsize") + b"K\x63sb.",
    "BUILD of a name": b"\x80\x02ccollections\nOrderedDict\n}" + text("make") + b"Nsb.",
    "BUILD of a class of storages": b"\x80\x02ctorch\nFloatStorage\n}" + text("dtype") + b"Nsb.",
    "BUILD of a device": b"\x80\x02ctorch\ndevice\n" + text("cpu") + b"\x85R}" + text("type") + b"Nsb.",
    "BUILD of a Size": b"\x80\x02ctorch\nSize\n)R}" + text("a") + b"Nsb.",
    "BUILD of a defaultdict": b"\x80\x02ccollections\ndefaultdict\n)R}" + text("default_factory") + b"Nsb.",
    "BUILD of an array that has its state": ARRAY_BUILT + ARRAY_STATE + b"b.",
    "APPENDS to a tuple": b"\x80\x02)(K\x01e.",
    "APPENDS to a Size": b"\x80\x02ctorch\nSize\n)R(K\x01e.",
    "ADDITEMS to a list": b"\x80\x04](K\x01\x90.",
    "ADDITEMS to a frozenset": b"\x80\x04(\x91(K\x01\x90.",
    "SETITEMS on a storage": b"\x80\x02" + STORAGE + b"(K\x00K\x01u.",
    "SETITEMS on an array": ARRAY_BUILT + b"(K\x00C\x01au.",
    "SETITEMS of an odd number": b"\x80\x02}(K\x00u.",
    "DICT of an odd number": b"\x80\x02(K\x00d.",
    "a call with a list": b"\x80\x02ccollections\nOrderedDict\n]R.",
    "a call of a storage": b"\x80\x02" + STORAGE + b")R.",
    "named arguments": b"\x80\x04ccollections\nOrderedDict\n)}" + text("a") + b"K\x01s\x92.",
    "a factory that is a name": b"\x80\x02ccollections\ndefaultdict\ncos\nsystem\n\x85R.",
    "a factory that copies": b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nbytearray\n\x85R.",
    "an object of another class": b"\x80\x02ccopyreg\n_reconstructor\n(cos\nenviron\ncbuiltins\nobject\nNtR.",
    "attributes on a copy of bytes": from_type(b"c__builtin__\nbytearray\n", b"C\x01a\x85"),
    "attributes on a set": from_type(b"c__builtin__\nset\n", b"ctorch\ndevice\n]K\x01a\x86"),
    "attributes on attributes": from_type(b"ctorch._tensor\n_rebuild_from_type_v2\n", b")"),
    "elements without size": from_buffer("S0", b"", 2**40),
    "elements without size, as text": from_buffer("<U0", b"", 2**33),
    "text beyond the last character": from_buffer("<U1", b"\xff\xff\xff\xff", 1),
    "text of the other byte order beyond the last character": from_buffer(">U1", b"\x00\xff\xff\xff", 1),
    "an array of bools of other bytes": from_buffer("?", b"\x02", 1),
    "an array of too few bytes": from_buffer("f8", b"1234567", 1),
    "an array of negative length": from_buffer("f8", b"", -1),
    "an array of objects": from_buffer("O", b"12345678", 1),
    "a scalar of text beyond the last character": b"\x80\x02cnumpy.core.multiarray\nscalar\n" + numpy_dtype("<U1")
    + b"C\x04\xff\xff\xff\xff\x86R.",
    "a tensor for a byte order": b"\x80\x02" + numpy_dtype("f8") + b"(K\x03" + TENSOR[2:-1] + b"tb.",
    "a dtype with fields": b"\x80\x02" + numpy_dtype("V8") + b".",
    "a dtype of times": b"\x80\x02" + numpy_dtype("M8[ns]") + b".",
    "a size that is an array": rebuilt(STORAGE + b"K\x00" + ARRAY_BUILT[2:] + b"K\x01\x85"),
    "a size of bools": rebuilt(STORAGE + b"K\x00\x88\x85K\x01\x85"),
    "a size of floats": rebuilt(STORAGE + b"K\x00G" + struct.pack(">d", 1) + b"\x85K\x01\x85"),
    "a size of 65 dimensions": tensor(storage("FloatStorage", "0", 2), 0, (1,) * 65, (1,) * 65),
    "a size beyond 64 bits": tensor(storage("FloatStorage", "0", 2), 0, (2**62, 2**62, 2**62, 0), (1, 1, 1, 1)),
    "an offset behind the end, and nothing there": tensor(storage("FloatStorage", "0", 2), 3, (0,), (1,)),
    "a tensor on a list": rebuilt(b"]K\x00)" + b")"),
    "a tensor on an array": rebuilt(ARRAY_BUILT[2:] + b"K\x00))"),
    "a storage in five other words": b"\x80\x02(K\x01K\x02K\x03K\x04K\x05tQ.",
    "a storage of bools alone": b"\x80\x02" + storage("BoolStorage", "0", 8) + b".",
    "a storage on a device of superscripts": tensor(storage("FloatStorage", "0", 2, "cuda:\u00b2"), 0, (2,), (1,)),
    "a storage on no CUDA device": tensor(storage("FloatStorage", "0", 2, "cuda:77"), 0, (2,), (1,)),
    "a device of another machine": b"\x80\x02ctorch\ndevice\n" + text("bogus") + b"\x85R.",
    "a protocol in the middle": b"\x80\x02K\x01\x80\x63.",
    "FRAME without an end": b"\x80\x04\x95\xff",
    "a set in a set": b"\x80\x04\x8f(\x8f\x90.",
    "a dict that is its own key": b"\x80\x02}q\x00h\x00K\x01s.",
    "a list that holds itself, as a size": rebuilt(STORAGE + b"K\x00]q\x05h\x05a\x85)"),
    "lone surrogates in a name": b"\x80\x04" + b"\x8c\x03\xed\xa0\x80" * 2 + b"\x93.",
}  # fmt: skip


def entry(shape: Any, offsets: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def safetensors_file(header: Any, size: int = 0) -> bytes:
    said = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(said)) + said + (bytes(size) if size >= 0 else b"\xff" * -size)


def structure(value: str) -> tuple[Any, int]:
    """Return the header of a file of adjoint's without tensors, whose value is said in JSON."""
    return {"__metadata__": {"adjoint.structure": '{"version":1,"tensors":[],"value":' + value + "}"}}, 0


HEADERS: dict[str, tuple[Any, int]] = {
    "a hole": ({"a": entry([1], [4, 8])}, 8),
    "an overlap": ({"a": entry([1], [0, 4]), "b": entry([1], [2, 6])}, 6),
    "bytes left over": ({"a": entry([1], [0, 4])}, 8),
    "bytes missing": ({"a": entry([1], [0, 4])}, 3),
    "shape too large": ({"a": entry([2], [0, 4])}, 4),
    "negative shape": ({"a": entry([-1], [0, 4])}, 4),
    "negative offsets": ({"a": entry([1], [-4, 0])}, 0),
    "offsets reversed": ({"a": entry([1], [4, 0])}, 4),
    "overflowing shape": ({"a": entry([2**62, 4], [0, 0])}, 0),
    "shape of floats": ({"a": entry([1.0], [0, 4])}, 4),
    "shape of bools": ({"a": entry([True], [0, 4])}, 4),
    "shape of text": ({"a": entry("1", [0, 4])}, 4),
    "many dimensions": ({"a": entry([1] * 100, [0, 4])}, 4),
    "unknown dtype": ({"a": entry([1], [0, 4], "F33")}, 4),
    "dtype a list": ({"a": entry([1], [0, 4], ["F32"])}, 4),
    "another field": ({"a": entry([1], [0, 4]) | {"x": 1}}, 4),
    "no fields": ({"a": {}}, 0),
    "a name twice": (b'{"__metadata__":{},"__metadata__":{}}', 0),
    "NaN": (b'{"a":NaN}', 0),
    "a list": (b"[1,2,3,4,5]", 0),
    "nested without end": (b'{"a":' + b"[" * 100_000, 0),
    "UTF-16": ('{"a": {}}'.encode("utf-16-le"), 0),
    "UTF-32": ('{"a": {}}'.encode("utf-32-le"), 0),
    "no elements of dimensions that NumPy does not have": ({"a": entry([0, 2**62, 2**62], [0, 0])}, 0),
    "not UTF-8": (b'{"\xff\xff":1}', 0),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, 0),
    "structure is no JSON": ({"__metadata__": {"adjoint.structure": "{"}}, 0),
    "structure of version 9": ({"__metadata__": {"adjoint.structure": '{"version":9,"tensors":[],"value":1}'}}, 0),
    "structure of another kind": (
        {"__metadata__": {"adjoint.structure": '{"version":1,"tensors":[],"value":{"$":"os.system"}}'}}, 0,
    ),
    "a tensor that is not there": (
        {"__metadata__": {"adjoint.structure": '{"version":1,"tensors":[{"name":"b"}],"value":1}'}}, 0,
    ),
    "a view outside": (
        {
            "__metadata__": {
                "adjoint.structure": '{"version":1,"tensors":[{"name":"a","dtype":"float32","shape":[9],"stride":[1],'
                '"offset":0}],"value":1}'
            },
            "a": entry([1], [0, 4]),
        },
        4,
    ),
    "bools of other bytes": (
        {
            "__metadata__": {
                "adjoint.structure": '{"version":1,"tensors":[{"name":"a","dtype":"bool","shape":[4],"stride":[1],'
                '"offset":0}],"value":{"$":"tensor","at":0}}'
            },
            "a": entry([8], [0, 8], "I8"),
        },
        -8,
    ),
    "a device of another machine": structure('{"$":"device","value":"bogus"}'),
    "a device that is a list": structure('{"$":"device","value":[]}'),
    "no tensor of that number": structure('{"$":"tensor","at":1}'),
    "a number of a tensor before the first": structure('{"$":"tensor","at":-1}'),
    "a dtype that is a list": structure('{"$":"dtype","value":[]}'),
    "a scalar of objects": structure('{"$":"scalar","dtype":"O","value":""}'),
    "a kind that is a list": structure('{"$":[]}'),
    "a list for a key": structure('{"$":"dict","items":[[[],1]]}'),
    "a factory of another kind": structure('{"$":"defaultdict","factory":"eval","items":[]}'),
    "a number of many digits": structure("9" * 5000),
    "a layout that is none": structure('{"$":"layout","value":"__class__"}'),
    "tensors that are a number": (
        {"__metadata__": {"adjoint.structure": '{"version":1,"tensors":5,"value":1}'}}, 0,
    ),
}  # fmt: skip


DTYPE = b"\x80\x02cnumpy\ndtype\n(" + text("S8") + b"\x89\x88tRq\x00"
ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR(K\x01K\x01\x85h\x00\x89C\x0812345678tb"
)


def dtype_state(size: int) -> bytes:
    return b"(K\x03" + text("|") + b"NNNM" + struct.pack("<H", size) + b"K\x01K\x00tb"


def _tower(height: int) -> bytes:
    return b"K\x01" + b"2\x86" * height  # each tuple holds the one below twice


def _copies(count: int) -> bytes:
    data = b"\x80\x02B" + struct.pack("<I", 250_000) + bytes(250_000) + b"q\x000]("
    return data + b"c__builtin__\nbytearray\nh\x00\x85R" * count + b"e."


def _colliding(count: int) -> bytes:
    keys = (n * (2**61 - 1) for n in range(2**64, 2**64 + count))
    return b"\x80\x02}(" + b"".join(b"\x8a\x11" + n.to_bytes(17, "little") + b"N" for n in keys) + b"u."


def _colliding_complex(count: int) -> bytes:
    out = b"\x80\x02}("
    for n in range(count):  # hash(a + bj) is hash(a) + 1000003 * hash(b)
        parts = struct.pack(">d", float(10**12 - 1000003 * n)), struct.pack(">d", float(n))
        out += b"c__builtin__\ncomplex\nG" + parts[0] + b"G" + parts[1] + b"\x86RN"
    return out + b"u."


def _repeated_tuple(count: int) -> bytes:
    key = b"(" + b"K\x01" * 900 + b"tq\x000"
    return b"\x80\x02" + key + b"}(" + b"h\x00N" * count + b"u."


def _long_names(count: int) -> bytes:
    return b"\x80\x04" + text("m" * 200_000) + b"q\x000(" + b"h\x00h\x00\x93" * count + b"t."


def tensors_of_bools(count: int) -> bytes:
    storage = (
        b"(" + text("storage") + b"ctorch\nBoolStorage\n" + text("0") + text("cpu") + b"J" + struct.pack("<i", 1 << 20)
    )
    tensor = b"ctorch._utils\n_rebuild_tensor\n(h\x00K\x00))tR"
    return b"\x80\x02" + storage + b"tQq\x000(" + tensor * count + b"t."


def _legacy_tower() -> bytes:
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    return (
        magic + pickle.dumps(1001, 2) + pickle.dumps({}, 2) + pickle.dumps([], 2) + b"\x80\x02](" + _tower(60) + b"e."
    )


def _again(first: bytes, then: bytes, count: int) -> bytes:
    """Return a pickle that calls one function with one tuple of arguments again and again, in five bytes each."""
    return b"\x80\x02" + first + b"q\x000" + then + b"q\x010(" + b"h\x00h\x01R" * count + b"t."


def _large_state(count: int) -> bytes:
    state = b"}(" + b"".join(text(f"a{n}") + b"N" for n in range(5000)) + b"u"
    args = b"(" + TENSOR[2:-1] + b"\x89N" + state + b"t"
    said = b"(ctorch._utils\n_rebuild_parameter_with_state\nctorch\nTensor\n" + args + b"Nt"
    return _again(b"ctorch._tensor\n_rebuild_from_type_v2\n", said, count)


def directory(count: int) -> bytes:
    """Return an archive whose directory lists very many records, which all are the same."""
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0)
    listed = b"".join(entry + b"%06d" % n for n in range(count))
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, len(listed), 30, 0)
    return b"PK\3\4" + bytes(26) + listed + end


EXHAUSTING: dict[str, Any] = {
    "a tower of tuples for a size": lambda: zipped(
        b"\x80\x02ctorch._utils\n_rebuild_tensor\n(N" + b"K\x00" + _tower(60) + b"\x85)tR."
    ),
    "a tower of tuples for a key": lambda: zipped(b"\x80\x02}" + _tower(60) + b"Ns."),
    "a tower of tuples for a dtype": lambda: zipped(b"\x80\x02cnumpy\ndtype\n" + _tower(60) + b"\x85R."),
    "a tower among legacy storages": lambda: io.BytesIO(_legacy_tower()),
    "a buffer copied again and again": lambda: zipped(_copies(12_000)),
    "integers of one hash": lambda: zipped(_colliding(20_000)),
    "complex numbers of one hash": lambda: zipped(_colliding_complex(20_000)),
    "one long key again and again": lambda: zipped(_repeated_tuple(100_000)),
    "long names": lambda: zipped(_long_names(50_000)),
    "sets of one byte each": lambda: zipped(b"\x80\x04(" + b"\x8f" * 300_000 + b"t."),
    "tensors of five bytes each": lambda: zipped(
        _again(b"ctorch._utils\n_rebuild_tensor\n", b"(" + STORAGE + b"K\x00K\x02\x85K\x01\x85t", 60_000),
        {"0": bytes(8)},
    ),
    "parameters of five bytes each": lambda: zipped(
        _again(b"ctorch._utils\n_rebuild_parameter\n", TENSOR[2:-1] + b"\x89N\x87", 60_000), {"0": bytes(8)}
    ),
    "one large state of attributes again and again": lambda: zipped(_large_state(5_000), {"0": bytes(8)}),
    "copies through tensors with attributes": lambda: zipped(
        _again(
            b"ctorch._tensor\n_rebuild_from_type_v2\n",
            b"(c__builtin__\nbytearray\nN(B" + struct.pack("<I", 250_000) + bytes(250_000) + b"tNt",
            10_000,
        )
    ),
    "dicts of one item": lambda: zipped(b"\x80\x02K\x01q\x000(" + b"}h\x00Ns" * 100_000 + b"t0."),
    "marks": lambda: zipped(b"\x80\x02" + b"(" * 500_000 + b"."),
    "a long directory": lambda: io.BytesIO(directory(60_000)),
    "lists in JSON": lambda: io.BytesIO(safetensors_file(b'{"a":[' + b"[]," * 200_000 + b"[]]}")),
    "rows of one tensor": lambda: io.BytesIO(
        safetensors_file(
            {
                "__metadata__": {
                    "adjoint.structure": '{"version":1,"tensors":['
                    + ",".join(['{"name":"a"}'] * 150_000)
                    + '],"value":{"$":"?"}}'
                },
                "a": entry([1], [0, 4]),
            },
            4,
        )
    ),
}


# --- Archives ---------------------------------------------------------------------------------------

GOOD = archive(TENSOR, {"0": struct.pack("<ff", 1.0, 2.0)})


def with_records(*records: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive of any records."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as made:
        for name, content in records:
            made.writestr(name, content)
    return stream.getvalue()


def patched(data: bytes, where: bytes, offset: int, new: bytes, last: bool = True) -> bytes:
    """Return a file with some bytes replaced, at an offset from a mark in it."""
    at = (data.rindex(where) if last else data.index(where)) + offset
    return data[:at] + new + data[at + len(new) :]


_DATA, _CENTRAL, _END = ("archive/data.pkl", TENSOR), b"PK\1\2", b"PK\5\6"
_ZERO = ("archive/data/0", struct.pack("<ff", 1.0, 2.0))
_LAST_RECORD = GOOD.rindex(b"archive/data/0") - 46  # in the directory


def _last(offset: int, new: bytes) -> bytes:
    """Return the good archive with something else in the directory about its storage."""
    return GOOD[: _LAST_RECORD + offset] + new + GOOD[_LAST_RECORD + offset + len(new) :]


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "two pickles": lambda: with_records(_DATA, ("archive/data.pkX", b"\x80\x02N."), _ZERO).replace(
        b"data.pkX", b"data.pkl"
    ),
    "two storages of one name": lambda: with_records(_DATA, _ZERO, ("archive/data/1", bytes(8))).replace(
        b"data/1", b"data/0"
    ),
    "a pickle in two folders": lambda: with_records(_DATA, _ZERO, ("other/data.pkl", TENSOR)),
    "a name cut by a zero byte": lambda: with_records(_DATA, _ZERO, ("archive/data.pklXy", b"")).replace(
        b"lXy", b"l\0y"
    ),
    "a program beside": lambda: with_records(_DATA, _ZERO, ("archive/constants.pkl", b"\x80\x02N.")),
    "the other byte order": lambda: with_records(_DATA, _ZERO, ("archive/byteorder", b"big")),
    "deflated": lambda: with_records(_DATA, _ZERO, method=zipfile.ZIP_DEFLATED),
    "bzip2": lambda: with_records(_DATA, _ZERO, method=zipfile.ZIP_BZIP2),
    "a bomb": lambda: archive(TENSOR, {"0": bytes(5_000_000)}, zipfile.ZIP_DEFLATED),
    "encrypted": lambda: _last(8, b"\x01\x00"),
    "a method that the record does not have": lambda: _last(10, b"\x08\x00"),
    "a record longer than the file": lambda: _last(20, struct.pack("<II", 2**31, 2**31)),
    "a record longer than said of it": lambda: _last(20, struct.pack("<II", 8, 800)),
    "a record at another place": lambda: _last(42, struct.pack("<I", 3)),
    "a record behind the end": lambda: _last(42, struct.pack("<I", len(GOOD) - 5)),
    "a longer name than there is": lambda: _last(28, struct.pack("<H", 60_000)),
    "a longer extra field than there is": lambda: _last(30, struct.pack("<H", 60_000)),
    "sizes of 64 bits that are not there": lambda: _last(20, b"\xff" * 8),
    "a directory elsewhere": lambda: patched(GOOD, _END, 16, struct.pack("<I", 5)),
    "a directory behind the end": lambda: patched(GOOD, _END, 16, struct.pack("<I", 2**31)),
    "a longer directory than the file": lambda: patched(GOOD, _END, 12, struct.pack("<I", 2**31)),
    "an empty directory": lambda: patched(GOOD, _END, 12, bytes(4)),
    "no directory": lambda: GOOD[: GOOD.rindex(_END)],
    "a deflated record under a stored name": lambda: patched(GOOD, b"PK\3\4", 8, b"\x08\x00", last=False),
    "nothing but a start": lambda: b"PK\3\4",
    "an archive of nothing": lambda: b"PK\3\4" + bytes(60) + struct.pack("<4s4H2IH", _END, 0, 0, 0, 0, 0, 0, 0),
}
