"""safetensors files, both ways, against the package where it is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import adjoint
from adjoint.serialization import FileFormatError
from adjoint.serialization.safetensors import load, load_file, load_sharded, safe_open, save, save_file

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex64", "float8_e4m3fn", "float8_e5m2"]  # fmt: skip


def tensors() -> dict[str, adjoint.Tensor]:
    made = {name: adjoint.arange(6).reshape(2, 3).to(getattr(adjoint, name)) for name in DTYPES}
    return made | {
        "turned": adjoint.arange(6.0).reshape(2, 3).t(),
        "number": adjoint.tensor(2.0),
        "none": adjoint.ones(0, 2),
    }


def test_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file(tensors(), path, {"made by": "a test"})
    for found in (load_file(path), load_file(path, mmap=True), load(save(tensors())), adjoint.load(path)):
        for name, x in tensors().items():
            assert found[name].dtype is x.dtype and found[name].shape == x.shape and found[name].tolist() == x.tolist()
    with safe_open(path, framework="pt") as f:
        assert f.metadata() == {"made by": "a test"} and "bfloat16" in f.keys()
        assert f.get_slice("turned")[1:].tolist() == [[1, 4], [2, 5]]
        with pytest.raises(KeyError, match="nothing"):
            f.get_tensor("nothing")
    with pytest.raises(ValueError, match="complex128"):
        save({"a": adjoint.ones(1, dtype=adjoint.complex128)})


def test_against_the_package(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="a second opinion")
    package = pytest.importorskip("safetensors.torch", reason="a second opinion")
    import torch

    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    save_file(tensors(), mine)
    for name, x in package.load_file(mine).items():
        assert x.dtype is getattr(torch, tensors()[name].dtype.name)
        assert x.to(torch.complex128).tolist() == tensors()[name].to(adjoint.complex128).tolist()
    package.save_file(package.load_file(mine), theirs)
    for name, x in load_file(theirs).items():
        assert x.dtype is tensors()[name].dtype and x.tolist() == tensors()[name].tolist()
    adjoint.save({"model": {"w": adjoint.ones(2), "turned": adjoint.zeros(2, 3).t()}, "step": 1}, mine)
    assert {k: tuple(v.shape) for k, v in package.load_file(mine).items()} == {"model.w": (2,), "model.turned": (3, 2)}


def sharded(folder: Path, shard: str = "model-2.safetensors") -> Path:
    save_file({"a": adjoint.ones(2)}, folder / "model-1.safetensors")
    save_file({"b": adjoint.zeros(2), "c": adjoint.ones(1)}, folder / "model-2.safetensors")
    index = {"metadata": {}, "weight_map": {"c": shard, "a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_shards(tmp_path: Path) -> None:
    for path in (sharded(tmp_path), tmp_path / "model.safetensors.index.json"):
        found = load_sharded(path)
        assert list(found) == ["c", "a", "b"] and found["a"].tolist() == [1, 1] and found["b"].tolist() == [0, 0]
    (tmp_path / "one").mkdir()
    save_file({"a": adjoint.ones(2)}, tmp_path / "one" / "model.safetensors")
    assert load_sharded(tmp_path / "one")["a"].tolist() == [1, 1]
    (tmp_path / "two").mkdir()
    with pytest.raises(FileNotFoundError):
        load_sharded(tmp_path / "two")


@pytest.mark.parametrize(
    "shard", ["../secret", "/etc/passwd", "a/../../secret", "..", "", ".", "a\\b", "sub/model.safetensors", "a\0b"]
)
def test_a_shard_lies_beside_its_index(shard: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="in the folder of its index"):
        load_sharded(sharded(tmp_path, shard))


def test_a_shard_without_its_tensor(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="has no c"):
        load_sharded(sharded(tmp_path, "model-1.safetensors"))
