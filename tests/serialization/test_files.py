"""Round trips: what is saved comes back, here and in PyTorch; what shares memory shares it again."""

from __future__ import annotations

import argparse
import collections
import io
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.serialization import FileFormatError, add_safe_globals, clear_safe_globals, safe_globals

FORMATS = ["adjoint", "pt"]
DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
]  # fmt: skip


def through(value: Any, format: str, **options: Any) -> Any:
    """Return a value saved to memory and loaded again."""
    stream = io.BytesIO()
    adjoint.save(value, stream, format=format)
    stream.seek(0)
    return adjoint.load(stream, **options)


def state(T: Any) -> dict[str, Any]:
    """Return a checkpoint of a model and an optimizer, in the words of a package."""
    base = T.arange(12.0).reshape(3, 4)
    model = collections.OrderedDict(
        weight=T.nn.Parameter(T.arange(6.0).reshape(2, 3)), turned=T.arange(6.0).reshape(2, 3).t(), part=base[1:, ::2],
        whole=base, small=T.ones(3).to(T.bfloat16), none=T.zeros(0, 3), number=T.tensor(3.5), many=T.ones(1).expand(4),
    )  # fmt: skip
    model["tied"] = model["weight"]
    model._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    groups = [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1]}]
    return {"model": model, "optimizer": {"state": {0: {"step": T.tensor(1.0)}}, "param_groups": groups}, "epoch": 3}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name: str, format: str) -> None:
    x = adjoint.arange(6).reshape(2, 3).to(getattr(adjoint, name))
    for view in (x, x.t(), x[:, ::2], x[1], x[0, 0], x[:0], x[:1].expand(4, 3)):
        y = through(view, format)
        assert y.dtype is view.dtype and y.shape == view.shape and y.tolist() == view.tolist()


@pytest.mark.parametrize("format", FORMATS)
def test_plain_values(format: str) -> None:
    value = {
        "dtype": adjoint.float32, "device": adjoint.device("cpu"), "size": adjoint.Size([1, 2]),
        "scalar": np.float32(1.5),
        "bytes": b"ab\xff", "bytearray": bytearray(b"x"), "complex": 1 - 2j, "set": {1, "a"}, "frozen": frozenset([1]),
        "big": 2**400, "negative": -5, "counter": collections.Counter("aab"), "inf": float("inf"), "none": None,
        "default": collections.defaultdict(list, {1: [2]}), "tuple": (1, (2, [3])), 3: "an integer key",
        "$": "a dollar",
        "flag": True, "text": "ä\n\"", "namespace": argparse.Namespace(lr=0.1), (1, "a"): "a tuple key",
    }  # fmt: skip
    found = through(value, format)
    assert found == value
    assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in value.items()}
    assert through(float("nan"), format) != through(float("nan"), format)
    array = through({"a": np.arange(6.0).reshape(2, 3).T}, format)["a"]
    assert isinstance(array, np.ndarray) and array.tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("format", FORMATS)
def test_checkpoints_keep_ties_views_strides_and_metadata(format: str) -> None:
    saved, found = state(adjoint), through(state(adjoint), format)
    model = found["model"]
    assert list(model) == list(saved["model"]) and model._metadata == {"": {"version": 1}}
    for name, x in saved["model"].items():
        y = model[name]
        assert type(x) is type(y) and x.tolist() == y.tolist() and x.requires_grad == y.requires_grad, name
        assert x.stride() == y.stride(), name
    assert model["tied"] is model["weight"]
    model["whole"].zero_()
    assert model["part"].tolist() == [[0, 0], [0, 0]]
    assert found["optimizer"]["param_groups"] == saved["optimizer"]["param_groups"] and found["epoch"] == 3


@pytest.mark.parametrize("format", FORMATS)
def test_a_small_view_does_not_drag_its_large_memory_along(format: str) -> None:
    stream = io.BytesIO()
    adjoint.save(adjoint.zeros(1_000_000)[10:20], stream, format=format)
    assert len(stream.getvalue()) < 5000


@pytest.mark.parametrize("format", FORMATS)
def test_results_of_ops_come_back_as_leaves(format: str) -> None:
    y = through(adjoint.ones(2, requires_grad=True) * 2, format)
    assert y.requires_grad and y.is_leaf and y.tolist() == [2, 2]


def test_where_tensors_go() -> None:
    x = {"a": adjoint.ones(2)}
    for where in (
        "cpu",
        adjoint.device("cpu"),
        {"cpu": "cpu"},
        lambda storage, place: storage,
        lambda storage, place: None,
    ):
        assert through(x, "pt", map_location=where)["a"].tolist() == [1, 1]
    with pytest.raises(TypeError, match="map_location"):
        through(x, "pt", map_location=3)


def test_a_gpu_file_on_a_machine_without_one() -> None:
    stream = io.BytesIO()
    adjoint.save({"a": adjoint.ones(2)}, stream, format="pt")
    gpu = stream.getvalue().replace(b"X\x03\x00\x00\x00cpu", b"X\x03\x00\x00\x00hpu")
    with pytest.raises(RuntimeError, match="restore data location"):
        adjoint.load(io.BytesIO(gpu))
    assert adjoint.load(io.BytesIO(gpu), map_location="cpu")["a"].tolist() == [1, 1]


SAFETENSORS_NAMES = ["a.safetensors", "a.adjoint", "a.adj", "model.tar.safetensors"]
TORCH_NAMES = [
    "a.pt",
    "a.pth",
    "a.bin",
    "a.ckpt",
    "a.tar",
    "a.pth.tar",
    "a.model",
    "a.weights.h5",
    "a",
    "safetensors",
    "a.safetensors.old",
]


@pytest.mark.parametrize("name", SAFETENSORS_NAMES + TORCH_NAMES)
def test_the_suffix_chooses_the_format(name: str, tmp_path: Path) -> None:
    adjoint.save({"w": adjoint.ones(2)}, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert data[8:9] == b"{" if name in SAFETENSORS_NAMES else data[:4] == b"PK\3\4"
    assert adjoint.load(str(tmp_path / name))["w"].tolist() == [1, 1]
    assert adjoint.load(tmp_path / name, mmap=True)["w"].add_(1).tolist() == [2, 2]


def test_formats_have_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format must be"):
        adjoint.save(1, tmp_path / "a", format="zip")


@pytest.mark.parametrize("name", [*TORCH_NAMES, "BytesIO", "open file"])
def test_torch_reads_what_save_writes_by_default(name: str, tmp_path: Path) -> None:
    """A checkpoint goes to torch and back, whatever the path is called."""
    torch = pytest.importorskip("torch", reason="torch is the oracle")
    place: Any = {"BytesIO": io.BytesIO()}.get(name, tmp_path / name)
    if name == "open file":
        with open(place, "wb") as stream:
            adjoint.save(state(adjoint), stream)
    else:
        adjoint.save(state(adjoint), place)
    if name == "BytesIO":
        place.seek(0)
    theirs = torch.load(place, weights_only=True)
    want = state(torch)
    assert theirs["epoch"] == 3 and list(theirs["model"]) == list(want["model"])
    for key, value in want["model"].items():
        assert theirs["model"][key].dtype == value.dtype and torch.equal(theirs["model"][key], value), key
    assert theirs["optimizer"]["param_groups"] == want["optimizer"]["param_groups"]
    place = io.BytesIO() if name == "BytesIO" else place
    torch.save(theirs, place)
    if name == "BytesIO":
        place.seek(0)
    again = adjoint.load(place)
    assert [again["model"][k].tolist() for k in again["model"]] == [v.tolist() for v in want["model"].values()]


def test_whole_objects_are_pickled_only_when_asked_by_name(tmp_path: Path) -> None:
    class Model:
        def state_dict(self) -> dict[str, Any]:
            return {}

    for format in FORMATS:
        with pytest.raises(TypeError, match=r"model\.state_dict\(\).*pickle_module=pickle"):
            adjoint.save({"model": Model()}, tmp_path / "m", format=format)
        with pytest.raises(TypeError, match=r"builtins\.function \(at a\.0\)"):
            adjoint.save({"a": [through]}, tmp_path / "m", format=format)
    assert not list(tmp_path.iterdir())
    value = {"s": slice(1, 2)}
    adjoint.save(value, tmp_path / "m", pickle_module=pickle)
    assert adjoint.load(tmp_path / "m", weights_only=False, pickle_module=pickle) == value
    with pytest.raises(FileFormatError, match="pickle_module"):
        adjoint.load(tmp_path / "m", weights_only=False)


def test_what_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="inside itself"):
        adjoint.save(loop, io.BytesIO(), format="adjoint")
    stream = io.BytesIO()
    adjoint.save(loop, stream, format="pt")  # a pickle can say it
    found = adjoint.load(io.BytesIO(stream.getvalue()))
    assert found[0] is found


class Config:
    """A class of the program's own."""

    def __init__(self, size: int) -> None:
        self.size = size


def test_classes_that_the_program_trusts() -> None:
    torch = pytest.importorskip("torch", reason="writes the file")
    stream = io.BytesIO()
    torch.save({"config": Config(3), "w": torch.ones(2)}, stream)
    data = stream.getvalue()
    with pytest.raises(FileFormatError, match=r"test_files\.Config"):
        adjoint.load(io.BytesIO(data))
    assert adjoint.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data)) == [f"{__name__}.Config"]
    with safe_globals([Config]):
        assert adjoint.load(io.BytesIO(data))["config"].size == 3
    with pytest.raises(FileFormatError):
        adjoint.load(io.BytesIO(data))
    add_safe_globals([Config])
    assert adjoint.serialization.get_safe_globals() == [Config]
    assert adjoint.load(io.BytesIO(data))["config"].size == 3
    clear_safe_globals()


# --- PyTorch ----------------------------------------------------------------------------------------


def test_torch_reads_what_is_written_for_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="reads the file")
    adjoint.save(state(adjoint), tmp_path / "a.pt")
    for options in ({}, {"mmap": True}, {"weights_only": False}):
        found, wanted = torch.load(tmp_path / "a.pt", **options), state(torch)
        for name, x in wanted["model"].items():
            y = found["model"][name]
            assert type(y) is type(x) and torch.equal(x, y) and x.stride() == y.stride(), name
        assert found["model"]["tied"] is found["model"]["weight"]
        assert (
            found["model"]["part"].untyped_storage().data_ptr() == found["model"]["whole"].untyped_storage().data_ptr()
        )
        assert found["optimizer"]["param_groups"] == wanted["optimizer"]["param_groups"]
    for name in DTYPES:
        x = adjoint.arange(6).to(getattr(adjoint, name))
        adjoint.save({"x": x}, tmp_path / "x.pt")
        y = torch.load(tmp_path / "x.pt")["x"]
        assert y.dtype is getattr(torch, name) and y.to(torch.complex128).tolist() == x.to(adjoint.complex128).tolist()


@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_writes_is_read(zipped: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="writes the file")
    torch.save(state(torch), tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    for options in ({}, {"mmap": True}, {"map_location": "cpu"}):
        found, wanted = adjoint.load(tmp_path / "a.pt", **options), state(adjoint)
        for name, x in wanted["model"].items():
            y = found["model"][name]
            assert type(y) is type(x) and x.tolist() == y.tolist() and x.stride() == y.stride(), name
        assert found["model"]["tied"] is found["model"]["weight"]
        assert found["model"]._metadata == {"": {"version": 1}}
        found["model"]["whole"].zero_()
        assert found["model"]["part"].tolist() == [[0, 0], [0, 0]]
    plain = {
        "n": np.arange(6.0).reshape(2, 3).T,
        "s": np.float64(2),
        "c": collections.Counter("aab"),
        "b": b"x",
        "z": {1},
    }
    torch.save(plain, tmp_path / "b.pt", _use_new_zipfile_serialization=zipped)
    found = adjoint.load(tmp_path / "b.pt")
    assert found["n"].tolist() == plain["n"].tolist() and all(found[k] == plain[k] for k in "scbz")


def test_state_of_a_torch_model_and_optimizer() -> None:
    torch = pytest.importorskip("torch", reason="writes the file")
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Linear(2, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model[2](torch.ones(1, 2)).sum().backward()
    optimizer.step()
    stream = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, stream)
    found = adjoint.load(io.BytesIO(stream.getvalue()))
    for name, x in model.state_dict().items():
        assert found["model"][name].tolist() == x.tolist()
    assert found["optimizer"]["param_groups"] == optimizer.state_dict()["param_groups"]


# --- Writing in one step ----------------------------------------------------------------------------

_KILLED = """
import sys, adjoint
path = sys.argv[1]
n = 0
print("ready", flush=True)
while True:
    n += 1
    adjoint.save({"n": n, "x": adjoint.full((300_000,), float(n))}, path)
"""


@pytest.mark.parametrize("name", ["a.adj", "a.pt"])
def test_a_killed_save_leaves_a_whole_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    adjoint.save({"n": 0, "x": adjoint.zeros(300_000)}, path)
    for trial in range(4):
        child = subprocess.Popen([sys.executable, "-c", _KILLED, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.02 + 0.013 * trial)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        found = adjoint.load(path)
        assert (found["x"] == found["n"]).all()
    adjoint.save({"n": 1}, path)
    assert [p.name for p in tmp_path.iterdir()] == [name]  # what the killed left behind is swept


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    adjoint.save({"n": 1}, path)
    os.chmod(path, 0o640)

    class Broken:
        def dump(self, *args: Any, **options: Any) -> None:
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        adjoint.save({"n": 2}, path, pickle_module=Broken())
    assert adjoint.load(path) == {"n": 1} and len(list(tmp_path.iterdir())) == 1
    adjoint.save({"n": 2}, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    (tmp_path / "link").symlink_to(path)
    adjoint.save({"n": 3}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and adjoint.load(path) == {"n": 3}
    with pytest.raises(RuntimeError, match="Parent directory"):
        adjoint.save(1, tmp_path / "none" / "a")
