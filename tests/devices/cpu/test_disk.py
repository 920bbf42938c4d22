"""Machine code of Numba's loops on disk: it is ours, whole and under its own key, or it is compiled anew."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adjoint.devices.cpu import disk
from gates import caches

pytest.importorskip("numba", reason="loops are compiled by Numba, which is not installed")

PROGRAM = """
import adjoint as torch
print(float(torch.ones(1 << 16).sum()), float(torch.relu(torch.ones(1 << 16))[3]))
"""


def run(folder: Path, **environment: str) -> str:
    """Run a sum and a formula of large arrays, check them, and return what was warned of."""
    environment = os.environ | {"ADJOINT_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and done.stdout.strip() == "65536.0 1.0", done.stdout + done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache") / "adjoint"
    assert run(folder) == ""
    return folder


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "loops").glob("*.pickle"))


class Planted:
    """A pickle that leaves a mark where it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def test_kept_code_is_found_again(filled: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in entries(filled)}
    assert before and run(filled) == ""
    assert {path: path.stat().st_mtime_ns for path in entries(filled)} == before


def test_damaged_and_planted_code_is_compiled_anew(filled: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for i, path in enumerate(entries(filled)):
        content = path.read_bytes()
        path.write_bytes([content[: len(content) // 2], pickle.dumps(Planted(mark)), b""][i % 3])
    told = run(filled)
    assert told.count("Warning") == 1 and "compiled anew" in told
    assert not mark.exists()
    assert run(filled) == ""


def test_numbas_own_cache_is_neither_read_nor_written(filled: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "numba"
    theirs.mkdir()
    assert run(tmp_path / "new", NUMBA_CACHE_DIR=str(theirs)) == ""
    assert not list(theirs.iterdir())


KEY = b"what it depends on"


def written(tmp_path: Path) -> Path:
    path = tmp_path / "entry"
    disk.write(path, KEY, b"code")
    assert disk.read(path, KEY) == b"code" and path.stat().st_mode & 0o777 == 0o600
    return path


def _link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes, links or pipes")
@pytest.mark.parametrize(
    "attack",
    [
        lambda p: p.chmod(0o620), lambda p: p.chmod(0o602), _link, _pipe,
        lambda p: p.write_bytes(p.read_bytes()[:-1]), lambda p: p.write_bytes(b""),
        pytest.param(
            lambda p: os.chown(p, 12345, 0),
            marks=pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root gives files away"),
        ),
    ],
    ids=["group writes", "others write", "link", "pipe", "cut", "empty", "another's"],
)  # fmt: skip
def test_an_entry_that_is_not_ours_is_not_read(
    tmp_path: Path, attack: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_told", set())
    path = written(tmp_path)
    attack(path)
    with pytest.warns(UserWarning, match="compiled anew"):
        assert disk.read(path, KEY) is None
    disk.write(path, KEY, b"new")
    assert disk.read(path, KEY) == b"new"


def test_another_key_is_another_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_told", set())
    path = written(tmp_path)
    with pytest.warns(UserWarning, match="another's"):
        assert disk.read(path, b"something else") is None


def test_a_disk_that_is_full_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "_told", set())
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left"):
        disk.write(tmp_path / "entry", KEY, b"code")
    disk.write(tmp_path / "entry", KEY, b"code")  # said once
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swapped (Numba's code)", "planted, sum of the content", "raced by 8", "a full disk"])
def test_a_slice_of_the_attacks(name: str, tmp_path: Path) -> None:
    caches.fill(tmp_path / "adjoint")
    (attack,) = [a for a in caches.ATTACKS if a.name == name]
    found = caches.try_attack(attack, tmp_path / "adjoint", random.Random(0))
    assert found.good, found
