"""Changes of files, each at the level at which a format is made: opcodes, records, headers, bytes.

A change takes a file, a generator of random numbers and other files to take parts from; it returns a file that is
mostly whole, so that what reads it comes far.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickletools
import random
import warnings
import zipfile
from typing import Any, TypeAlias

from adjoint.serialization import allowed

from . import hostile

Corpus: TypeAlias = list[tuple[str, bytes]]  # names and contents of files

_NUMBERS = [0, 1, 2, 7, 8, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -1, -2, -(2**31), -(2**63)]
_WORDS = [
    "", "0", "1", "storage", "cpu", "cuda:0", "meta", "S0", "<U9999", "?", "f8", "O", "latin1", "__class__", "items",
    "_metadata", "__dict__", "os", "system", "torch.strided", "\0", "a" * 300,
]  # fmt: skip
_NAMES = [
    *allowed.ALLOWED,
    ("os", "system"),
    ("builtins", "eval"),
    ("gates.files.valid", "Config"),
    ("torch.nn.modules.linear", "Linear"),
]
_SINGLE = b"()]}\x8f012NRbsaetudlo\x81\x85\x86\x87\x88\x89\x90\x91\x92\x93\x94Q\x97\x98."


def records_of(data: bytes) -> dict[str, bytes]:
    """Return the records of an archive, without their folder; nothing if it is none."""
    with contextlib.suppress(Exception), zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    return {}


def opcodes_of(data: bytes) -> list[bytes]:
    """Return pickles that follow each other in pieces of one opcode each, and what follows them as the last one."""
    starts, stream = [], io.BytesIO(data)
    with contextlib.suppress(Exception):
        while data.startswith(b"\x80", stream.tell()):
            for _, _, at in pickletools.genops(stream):
                starts.append(at)
    ends = [*starts[1:], len(data)]
    return [data[a:b] for a, b in zip(starts, ends, strict=False)] or [data]


def an_opcode(rng: random.Random) -> bytes:
    """Return an opcode with an argument of its kind."""
    kind = rng.randrange(8)
    if kind == 0:
        return "c{}\n{}\n".format(*rng.choice(_NAMES)).encode()
    if kind == 1:
        return hostile.text(rng.choice(_WORDS))
    if kind == 2:
        return b"\x8a\x09" + rng.choice(_NUMBERS).to_bytes(9, "little", signed=True)
    if kind == 3:
        return rng.choice([b"h", b"q"]) + bytes([rng.randrange(40)])
    if kind == 4:
        return rng.choice([b"\x82\x01", b"\x80\x04", b"\x95" + bytes(8), b"P0\n", b"G" + rng.randbytes(8), b"C\x02ab"])
    if kind == 5:
        return hostile.storage(rng.choice(["FloatStorage", "BoolStorage", "DoubleStorage"]), rng.choice("012"), 2)
    return bytes([rng.choice(_SINGLE)])


def another_argument(piece: bytes, rng: random.Random) -> bytes:
    """Return an opcode with another argument, if it has one."""
    if piece[:1] in b"JKM\x8aGI":
        return b"\x8a\x09" + rng.choice(_NUMBERS).to_bytes(9, "little", signed=True)
    if piece[:1] in b"XU\x8c":
        return hostile.text(rng.choice(_WORDS))
    if piece[:1] in b"hqjr":
        return rng.choice([b"h", b"q"]) + bytes([rng.randrange(60)])
    if piece[:1] == b"c":
        return "c{}\n{}\n".format(*rng.choice(_NAMES)).encode()
    return piece[:1] + rng.randbytes(len(piece) - 1)


def changed_pickle(data: bytes, rng: random.Random, pool: Corpus) -> bytes:
    """Return a pickle with some opcodes deleted, repeated, swapped, inserted, taken from another, or changed."""
    pieces = opcodes_of(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at, kind = rng.randrange(len(pieces)), rng.randrange(6)
        if kind == 0 and len(pieces) > 2:
            del pieces[at]
        elif kind == 1:
            pieces[at:at] = [pieces[at]] * rng.choice((1, 2, 30))
        elif kind == 2:
            other = rng.randrange(len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif kind == 3:
            pieces.insert(at, an_opcode(rng))
        elif kind == 4:
            theirs = opcodes_of(records_of(rng.choice(pool)[1]).get("data.pkl", b"N."))
            begin = rng.randrange(len(theirs))
            pieces[at:at] = theirs[begin : begin + rng.randrange(1, 20)]
        else:
            pieces[at] = another_argument(pieces[at], rng)
    return b"".join(pieces)


def opcodes(data: bytes, rng: random.Random, pool: Corpus) -> bytes:
    """Change the pickle in a file."""
    records = records_of(data)
    if "data.pkl" not in records:
        return changed_pickle(data, rng, pool) if data[:1] == b"\x80" else raw(data, rng, pool)
    storages = {name.removeprefix("data/"): content for name, content in records.items() if name.startswith("data/")}
    return hostile.archive(changed_pickle(records["data.pkl"], rng, pool), storages)


def directory(data: bytes, rng: random.Random, pool: Corpus) -> bytes:
    """Change a field of a zip record, of the archive's directory, or of its end; or a record as a whole."""
    records = records_of(data)
    if not records or rng.random() < 0.2:
        pairs = [(f"archive/{name}", content) for name, content in records.items()] or [("a/data.pkl", data)]
        pairs.append(rng.choice(pairs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a name that is there twice
            return hostile.with_records(*pairs, method=rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    mark, length = rng.choice([(b"PK\3\4", 30), (b"PK\1\2", 46), (b"PK\5\6", 22)])
    places = [at for at in range(len(data)) if data.startswith(mark, at)]
    size = rng.choice((1, 2, 4))
    number = (rng.choice([*_NUMBERS, len(data), rng.randrange(len(data))]) % 256**size).to_bytes(size, "little")
    at = rng.choice(places or [0]) + rng.randrange(4, length - size)
    return data[:at] + number + data[at + size :]


def _changed_json(said: Any, rng: random.Random) -> Any:
    if isinstance(said, dict) and said and rng.random() < 0.9:
        key = rng.choice(list(said))
        if rng.random() < 0.1:
            return {k: v for k, v in said.items() if k != key} | {rng.choice([*_WORDS, "$", "order"]): said[key]}
        return {**said, key: _changed_json(said[key], rng)}
    if isinstance(said, list) and said and rng.random() < 0.9:
        at = rng.randrange(len(said))
        return [*said[:at], _changed_json(said[at], rng), *said[at + rng.choice((1, 1, 2)) :]]
    if isinstance(said, str) and said.startswith("{"):
        with contextlib.suppress(ValueError):
            return json.dumps(_changed_json(json.loads(said), rng))
    kinds = [{"$": k, "items": [], "value": said} for k in ("tensor", "set", "scalar", "device", "dict", "Counter")]
    return rng.choice([*_NUMBERS, *_WORDS, None, True, 1.5, [], {}, [said], said, "bool", "BOOL", "float64", *kinds])


def header(data: bytes, rng: random.Random, pool: Corpus) -> bytes:
    """Change what a safetensors header, or the structure in it, says."""
    length = int.from_bytes(data[:8], "little")
    try:
        said = json.loads(data[8 : 8 + length])
    except ValueError:
        return opcodes(data, rng, pool)
    for _ in range(rng.choice((1, 1, 2, 4))):
        said = _changed_json(said, rng)
    return hostile.safetensors_file(json.dumps(said).encode()) + data[8 + length :]


def raw(data: bytes, rng: random.Random, pool: Corpus) -> bytes:
    """Flip bits, cut, repeat, or put in bytes of another file."""
    out, other = bytearray(data), rng.choice(pool)[1]
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, kind = rng.randrange(max(len(out), 1)), rng.randrange(5)
        if kind <= 1 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            out[at:at] = other[(begin := rng.randrange(len(other) + 1)) : begin + rng.randrange(1, 200)]
        else:
            out[at : at + 8] = (rng.choice(_NUMBERS) % 2**64).to_bytes(8, "little")
    return bytes(out)


CHANGES = (opcodes, opcodes, opcodes, directory, header, raw)
