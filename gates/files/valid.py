"""Valid files of every format, from which all cases are made."""

from __future__ import annotations

import argparse
import collections
import io
import pickle
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint
from adjoint.serialization import safetensors, whole
from tests.serialization import hostile
from tests.serialization.changes import Corpus, records_of


class Config:
    """A class that a program lets files name."""


MODULES = (Config, adjoint.nn.Linear, adjoint.nn.Sequential, adjoint.nn.ReLU, adjoint.nn.BatchNorm1d)


def values() -> dict[str, Any]:
    """Return what checkpoints hold; the same in every run."""
    adjoint.manual_seed(0)
    w = adjoint.arange(12.0).reshape(3, 4)
    plain: dict[str, Any] = {
        "w": w, "row": w[1], "t": w.t(), "p": adjoint.nn.Parameter(w.clone()), "empty": adjoint.zeros(0, 3),
        "bool": w > 3, "half": w.bfloat16(), "complex": w[0] * 1j, "u16": w.to(adjoint.uint16),
        "list": [1, 2.5, "x", None], "tuple": (True, -(2**40), 2**70), "set": {1}, "frozen": frozenset([(1, 2)]),
        "bytes": b"abc",
        "array": bytearray(b"abc"), "number": 1 + 2j, "ordered": collections.OrderedDict(a=1), "size": w.shape,
        "counter": Counter("aab"), "default": collections.defaultdict(list, a=[1]), "space": argparse.Namespace(lr=0.1),
        "dtype": adjoint.float64, "device": adjoint.device("cpu"), "numpy": np.arange(6.0).reshape(2, 3).T,
        "scalar": np.float32(2), "expanded": adjoint.ones(1).expand(5),
    }  # fmt: skip
    model = adjoint.nn.Sequential(adjoint.nn.Linear(3, 2), adjoint.nn.BatchNorm1d(2))
    optimizer = adjoint.optim.Adam(model.parameters())
    model(adjoint.ones(4, 3)).sum().backward()
    optimizer.step()
    return {"plain": plain, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "one": w}


def saved(value: Any, **options: Any) -> bytes:
    """Return a file's bytes."""
    stream = io.BytesIO()
    adjoint.save(value, stream, **options)
    return stream.getvalue()


def legacy(value: Any) -> bytes:
    """Return a file as before torch 1.6: pickles one after the other, then the storages; of float32 only."""
    records = records_of(saved(value, format="pt"))
    names = sorted(name for name in records if name.startswith("data/"))
    head = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    keys = pickle.dumps([name.removeprefix("data/") for name in names], 2)
    storages = b"".join(struct.pack("<q", len(records[name]) // 4) + records[name] for name in names)
    return head + records["data.pkl"] + keys + storages


def numpy_pickles() -> Iterator[bytes]:
    """Yield arrays, scalars and dtypes as NumPy pickles them itself."""
    arrays = [np.arange(3), np.array(["a", "bc"]), np.array([b"ab"]), np.arange(3, dtype=">i4"), np.array(True)]
    for protocol in range(2, 6):
        yield hostile.archive(pickle.dumps([arrays, np.float64(1), np.dtype("<f4"), np.dtype("S5")], protocol))


_TORCHS = """
import io, pickle, sys, warnings
warnings.simplefilter("ignore")
import torch
torch.manual_seed(0)
w = torch.arange(12.0).reshape(3, 4)
sub = torch.nn.Parameter(w.clone()); sub.note = "attribute"
values = [w, {"a": w, "b": w[1], "h": w.half(), "p": sub}, w.to_sparse(), w.to_sparse_csr(), w.storage(), w.conj(),
    torch.nested.nested_tensor([w, w]), torch.quantize_per_tensor(w, 0.1, 0, torch.quint8), w.to("meta"),
    torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.optim.SGD([sub], 0.1, momentum=0.9).state_dict()]
files = []
for value in values:
    for options in ({}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 5}):
        stream = io.BytesIO()
        try:
            torch.save(value, stream, **options)
        except Exception:
            continue
        files.append(("torch", stream.getvalue()))
sys.stdout.buffer.write(pickle.dumps(files))
"""


def corpus() -> Corpus:
    """Return the files from which all cases are made; those of the real torch too, where it is installed."""
    found = [
        (f"{name} {format}", saved(v, format=format)) for name, v in values().items() for format in ("pt", "adjoint")
    ]
    found += [("safetensors", safetensors.save({"a": values()["one"], "b": adjoint.zeros(0)}, {"note": "x"}))]
    found += [
        ("legacy", legacy({"w": values()["one"], "v": [values()["one"][1]]})),
        ("legacy one", legacy(values()["one"])),
    ]
    found += [("numpy", data) for data in numpy_pickles()]
    stream = io.BytesIO()
    whole.write(adjoint.nn.Sequential(adjoint.nn.Linear(3, 2), adjoint.nn.ReLU()), stream)
    found += [("module", stream.getvalue())]
    found += [(name, hostile.archive(data, {"0": bytes(8)})) for name, data in hostile.PICKLES.items()]
    found += [(name, hostile.safetensors_file(*made)) for name, made in hostile.HEADERS.items() if len(made[0]) < 5000]
    found += [(name, make()) for name, make in hostile.ARCHIVES.items() if name != "a bomb"]
    ran = subprocess.run([sys.executable, "-c", _TORCHS], capture_output=True, cwd=tempfile.gettempdir())
    if ran.returncode:
        print("torch is not installed: its files are not among those that are changed", flush=True)
    return found + (pickle.loads(ran.stdout) if not ran.returncode else [])  # noqa: S301 - written above
