"""Compiled loops on disk: kept, found again, and never run when they are not what we wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="loops are compiled by Numba, which is not installed")

PROGRAM = """
import adjoint as torch
f = torch.compile(lambda x: (torch.exp(x) * 2 + x).sum())
x = torch.arange(6.0) / 10
for _ in range(3):
    found = f(x)
print(f"{float(found):.5f}")
"""
RIGHT = f"{sum(2 * 2.718281828459045 ** (i / 10) + i / 10 for i in range(6)):.5f}"


def start(folder: Path, program: str = PROGRAM) -> subprocess.Popen[str]:
    environment = os.environ | {"ADJOINT_CACHE_DIR": str(folder), "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(folder: Path, program: str = PROGRAM) -> str:
    """Run the program, check its result, and return what it warned of."""
    process = start(folder, program)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and out.strip() == RIGHT, out + err
    return err


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "loops").rglob("*.o"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache") / "adjoint"
    assert run(folder) == ""
    return folder


def test_only_the_user_may_enter(filled: Path) -> None:
    assert (filled / "loops").stat().st_mode & 0o777 == 0o700
    assert entries(filled)


def test_what_is_kept_is_found_again(filled: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in entries(filled)}
    assert run(filled) == ""
    assert {path: path.stat().st_mtime_ns for path in entries(filled)} == before


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "flipped"])
def test_damaged_code_is_compiled_anew(filled: Path, damage: str) -> None:
    for path in entries(filled):
        content = path.read_bytes()
        at = len(content) // 2
        path.write_bytes(
            {
                "empty": b"",
                "cut": content[:at],
                "garbage": b"\x80\x04" + os.urandom(200),
                "flipped": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :],
            }[damage]
        )
    told = run(filled)
    assert told.count("Warning") == 1 and "is not whole" in told, "however many are damaged"
    assert run(filled) == ""


def test_entries_in_each_others_place_are_compiled_anew(tmp_path: Path) -> None:
    filled = tmp_path / "adjoint"
    for program in (PROGRAM, PROGRAM.replace("torch.exp(x) * 2 + x", "torch.exp(x) + torch.exp(x) + x")):
        assert run(filled, program) == ""
    first, second = entries(filled)
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    assert "another's" in run(filled)
    assert run(filled) == "" and (first.read_bytes() == contents[0]) is not (second.read_bytes() == contents[1])


def test_kept_code_is_loaded_without_numba(filled: Path) -> None:
    assert run(filled, f"{PROGRAM}import sys; assert 'numba' not in sys.modules") == ""


@pytest.mark.parametrize("trap", ["group", "link", "file", "above"])
def test_an_unsafe_folder_is_left_alone(tmp_path: Path, trap: str) -> None:
    folder, loops = tmp_path / "adjoint", tmp_path / "adjoint" / "loops"
    folder.mkdir(mode=0o700)
    if trap == "group":
        loops.mkdir()
        loops.chmod(0o770)
    elif trap == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        loops.symlink_to(tmp_path / "elsewhere")
    elif trap == "file":
        loops.write_text("")
    else:
        folder.chmod(0o777)
    assert "not cached on disk" in run(folder)
    assert not entries(folder) and not list((tmp_path / "elsewhere").rglob("*.*"))


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_a_folder_far_above_that_others_may_write_to(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "put another folder in its place" in run(tmp_path / "open" / "inner" / "adjoint")


def test_an_open_umask_opens_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "adjoint"
    assert run(folder, f"import os; os.umask(0){PROGRAM}") == ""
    assert entries(folder)
    for path in [tmp_path / "a", *(tmp_path / "a").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    loops = tmp_path / "adjoint" / "loops"
    loops.mkdir(parents=True, mode=0o700)
    os.chown(loops, 12345, 12345)
    assert "belongs to another user" in run(tmp_path / "adjoint")
    assert not entries(tmp_path / "adjoint")


@pytest.mark.slow
def test_sixteen_processes_at_once(tmp_path: Path) -> None:
    processes = [start(tmp_path / "adjoint") for _ in range(16)]
    processes[3].kill()
    told = [process.communicate(timeout=300) for process in processes]
    assert [out.strip() for i, (out, _) in enumerate(told) if i != 3] == [RIGHT] * 15, told
    assert all(err == "" for i, (_, err) in enumerate(told) if i != 3), told
    assert run(tmp_path / "adjoint") == ""
