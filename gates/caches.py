"""Attacks on compiled loops on disk: results must be right, nothing planted may run, and the cache must heal.

``python -m gates.caches --seed 0`` prints a table: for each attack whether the program that met it was right, how many
warnings it gave (one at most), and whether the next one found all in order ("unused": the folder was left alone, as
it must be). All are tried unless `--minutes` are given. `--only WORD` runs those whose names have it. Some need root.
Most of a program's time is the import of adjoint and Numba, so nine of ten are forked from this process, which has
imported both and compiled nothing of adjoint's; the tenth is started afresh.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from .summary import summary

HERE = Path(__file__).resolve().parent.parent
PROGRAM = """
import adjoint as torch
total = torch.ones(1 << 16).sum()
relu = torch.relu(torch.ones(1 << 16))
for f in (torch.compile(lambda x: (x * 2 + 1).sum()), torch.compile(lambda x: torch.exp(x * 0).sum())):
    for _ in range(3):
        found = f(torch.ones(6))
    print(float(found))
print(float(total), float(relu[5]))
"""
RIGHT = "18.0 6.0 65536.0 1.0"
FRESH = 0.1  # share of programs that import everything themselves
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


class Place:
    """A filled cache that an attack may change, and what the program is run with."""

    def __init__(self, filled: Path, work: Path, rng: random.Random) -> None:
        self.work, self.rng = work, rng
        self.base = work / "above" / "adjoint"
        self.mark = work / "mark"
        self.environment: dict[str, str] = {}
        self.first = ""  # what the program does before all else
        self.times = 1
        self.kills = 0  # how many of these programs are killed on their way
        self.base.parent.mkdir(mode=0o700)
        shutil.copytree(filled, self.base)

    @property
    def loops(self) -> Path:
        """The folder of entries."""
        return self.base / "loops"

    def entries(self, suffix: str) -> list[Path]:
        """Return the entries of a kind: "o", "pickle", or "*"."""
        return sorted(self.loops.glob(f"*.{suffix}"))

    def start(self, first: str = "") -> Fresh | Forked:
        """Start the program."""
        environment = {
            "ADJOINT_CACHE_DIR": str(self.base), "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1", **self.environment
        }  # fmt: skip
        fresh = self.environment or self.rng.random() < FRESH  # what is to be seen at an import is set before it
        return (Fresh if fresh else Forked)(first + PROGRAM, environment)


class Fresh(subprocess.Popen[str]):
    """A program in a process that imports everything itself."""

    def __init__(self, code: str, environment: dict[str, str]) -> None:
        super().__init__(
            [sys.executable, "-c", code], env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip


class Forked:
    """A program in a copy of this process."""

    def __init__(self, code: str, environment: dict[str, str]) -> None:
        sys.stdout.flush()
        self.returncode: int | None = None
        pipes = [os.pipe(), os.pipe()]
        self.pid = os.fork()
        if not self.pid:
            _become(code, environment, [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        self._pipes: list[IO[bytes]] = [open(read, "rb") for read, _ in pipes]  # noqa: SIM115

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and return what it has written to stdout and to stderr: less than a pipe holds."""
        end = time.monotonic() + (timeout or float("inf"))
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked program", timeout or 0)
            else:
                time.sleep(0.005)
        said = [pipe.read().decode() for pipe in self._pipes if not pipe.closed]
        for pipe in self._pipes:
            pipe.close()
        return (said[0], said[1]) if said else ("", "")


def _become(code: str, environment: dict[str, str], writes: list[int]) -> NoReturn:
    """Run a program in a process that has been forked, and end it."""
    exit_code = 1
    try:
        for number, write in enumerate(writes, 1):
            os.dup2(write, number)
        # The parent's streams may be those of a test runner, which captures what is printed.
        sys.stdout, sys.stderr = (open(fd, "w", closefd=False) for fd in (1, 2))  # noqa: SIM115
        warnings.resetwarnings()  # nor are its filters, which may make errors of warnings, those of a new program
        os.environ.update(environment)
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as python -c
        exit_code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(exit_code)


def prepare() -> None:
    """Import what programs need, and let Numba compile something that is not adjoint's: it sets itself up then."""
    import numba

    import adjoint  # noqa: F401 - programs import it

    numba.njit(lambda x: x + 1)(1.0)


class Planted:
    """A pickle that leaves a mark where it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


def _each(suffix: str, change: Callable[[Place, bytes], bytes]) -> Callable[[Place], None]:
    def attack(place: Place) -> None:
        for path in place.entries(suffix):
            path.write_bytes(change(place, path.read_bytes()))

    return attack


def _flip(place: Place, content: bytes, tail: bool = False) -> bytes:
    at = place.rng.randrange(len(content) - 32, len(content)) if tail else place.rng.randrange(len(content) - 32)
    return content[:at] + bytes([content[at] ^ 1 << place.rng.randrange(8)]) + content[at + 1 :]


def _swap(suffix: str) -> Callable[[Place], None]:
    def attack(place: Place) -> None:
        paths = place.entries(suffix)
        contents = [path.read_bytes() for path in paths]
        for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
            path.write_bytes(content)

    return attack


def _plant(sum_of: Callable[[bytes, Path], bytes]) -> Callable[[Place], None]:
    def attack(place: Place) -> None:
        content = pickle.dumps(Planted(place.mark))
        for path in place.entries("*"):
            path.write_bytes(content + sum_of(content, path))

    return attack


def _planted_and(change: Callable[[Path], Any]) -> Callable[[Place], None]:
    """Return an attack that opens entries to others, or gives them away; and they say something else."""

    def attack(place: Place) -> None:
        for path in place.entries("*"):
            path.write_bytes(pickle.dumps(Planted(place.mark)) + path.read_bytes()[-32:])
            change(path)

    return attack


def _opened(change: Callable[[Path], Any]) -> Callable[[Place], None]:
    """Return an attack that leaves contents as they are: they are not to be trusted all the same."""

    def attack(place: Place) -> None:
        for path in place.entries("*"):
            change(path)

    return attack


def _link(path: Path) -> None:
    elsewhere = path.parent.parent / f"elsewhere_{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder_link(place: Place) -> None:
    place.loops.rename(place.base / "elsewhere")
    place.loops.symlink_to(place.base / "elsewhere")


def _file_for_folder(place: Place) -> None:
    shutil.rmtree(place.loops)
    place.loops.write_text("")


def _empty(place: Place) -> None:
    for path in place.entries("*"):
        path.unlink()


def _read_only(place: Place) -> None:
    """Let nothing be written; root, for whom modes mean nothing, is refused as a read-only disk would."""
    _empty(place)
    place.loops.chmod(0o500)
    if ROOT:
        refuse = "def mkstemp(*a, **k): raise OSError(30, 'Read-only file system')"
        place.first = f"import tempfile\n{refuse}\ntempfile.mkstemp = mkstemp"


def _full(place: Place) -> None:
    _empty(place)
    place.first = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"


def _raced(place: Place) -> None:
    _empty(place)
    place.times = 8


def _raced_and_killed(place: Place) -> None:
    _raced(place)
    place.kills = 4


def _killed(place: Place) -> None:
    """Leave what writers leave that are killed."""
    for path in place.entries("*"):
        (place.loops / f"tmp{path.stem}.tmp").write_bytes(path.read_bytes()[:50])
        path.unlink()
    process = place.start()
    process.kill()
    process.communicate()


def _numbas(place: Place) -> None:
    """Plant files under the names that Numba's own cache would have."""
    source = HERE / "adjoint" / "devices" / "cpu" / "loops.py"
    folder = place.work / "numba" / f"kernels_{hashlib.sha1(str(source.parent).encode()).hexdigest()}"
    folder.mkdir(parents=True)
    version = f"py{sys.version_info[0]}{sys.version_info[1]}"
    lines = source.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("def ") and lines[number - 2].startswith("@"):
            name = line[4:].partition("(")[0]
            path = folder / f"loops.{name}-{number - 1}.{version}.nbi"
            path.write_bytes(pickle.dumps(Planted(place.mark)))
    place.environment["NUMBA_CACHE_DIR"] = str(place.work / "numba")
    _empty(place)


def _umask(place: Place) -> None:
    shutil.rmtree(place.base)
    place.first = "import os; os.umask(0)"


def _above(level: int) -> Callable[[Place], None]:
    def attack(place: Place) -> None:
        [place.loops, place.base, place.base.parent][level].chmod(0o777)

    return attack


def _another_version(place: Place) -> None:
    """Put whole entries of a program with another name there: their sums are right, for another key."""
    for path in place.entries("*"):
        other = place.entries("*")[0]
        if other != path:
            shutil.copyfile(other, path)


class Attack(NamedTuple):
    """What is done to a filled cache, and whether the next run but one finds all in order."""

    name: str
    do: Callable[[Place], None]
    heals: bool = True
    root: bool = False


ATTACKS = [
    *(
        Attack(f"{name} ({kind})", do)
        for suffix, kind in (("o", "object files"), ("pickle", "Numba's code"))
        for name, do in (
            ("empty", _each(suffix, lambda p, c: b"")),
            ("cut in half", _each(suffix, lambda p, c: c[: len(c) // 2])),
            ("last byte lost", _each(suffix, lambda p, c: c[:-1])),
            ("one bit of the code", _each(suffix, _flip)),
            ("one bit of the sum", _each(suffix, lambda p, c: _flip(p, c, True))),
            ("garbage", _each(suffix, lambda p, c: p.rng.randbytes(len(c)))),
            ("longer", _each(suffix, lambda p, c: c + b"\0" * 64)),
            ("swapped", _swap(suffix)),
        )
    ),
    Attack("all are copies of one", _another_version),
    Attack("planted, no sum", _plant(lambda content, path: b"")),
    Attack("planted, sum of the content", _plant(lambda content, path: hashlib.sha256(content).digest())),
    Attack("planted, sum with the name", _plant(lambda c, path: hashlib.sha256(path.name.encode() + c).digest())),
    Attack("planted, sum of what was there", _planted_and(lambda path: None)),
    Attack("another's files", _opened(lambda path: os.chown(path, 12345, 12345)), root=True),
    Attack("another's files, planted", _planted_and(lambda path: os.chown(path, 12345, 12345)), root=True),
    Attack("files that the group may write", _opened(lambda path: path.chmod(0o660))),
    Attack("files that all may write", _opened(lambda path: path.chmod(0o666))),
    Attack("links to files", _opened(_link)),
    Attack("folders for files", _opened(_folder)),
    Attack("pipes for files", _opened(_pipe)),
    Attack("killed writers", _killed),
    Attack("planted in Numba's cache", _numbas),
    Attack("umask 000", _umask),
    Attack("raced by 8", _raced),
    Attack("raced by 8, half of them killed", _raced_and_killed),
    Attack("a full disk", _full, heals=True),
    Attack("a folder that is read-only", _read_only, heals=False),
    Attack("another's folder", lambda place: os.chown(place.loops, 12345, 12345), heals=False, root=True),
    Attack("another's folder above", lambda place: os.chown(place.base.parent, 12345, 12345), heals=False, root=True),
    Attack("a folder that all may write", _above(0), heals=False),
    Attack("the folder above it", _above(1), heals=False),
    Attack("two above it", _above(2), heals=False),
    Attack("a link to the folder", _folder_link, heals=False),
    Attack("a file for the folder", _file_for_folder, heals=False),
]


class Outcome(NamedTuple):
    """What came of an attack."""

    wrong: str
    warnings: int
    healed: str

    @property
    def good(self) -> bool:
        """Whether all is as it must be."""
        return not self.wrong and self.warnings <= 1 and self.healed != "no"

    @property
    def verdict(self) -> str:
        """One word for it."""
        if self.good:
            return "right"
        return "hung" if self.wrong == "hung" else "crashed" if self.wrong.startswith("exit code -") else "wrong"


def _finished(processes: list[Fresh | Forked]) -> tuple[str, int]:
    """Return what went wrong in programs, and how many warnings the one that warned most gave."""
    wrong, most = "", 0
    for process in processes:
        try:
            out, err = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "hung", most
        most = max(most, err.count("Warning: "))
        if process.returncode or out.split() != RIGHT.split():
            wrong = f"exit code {process.returncode}: {(out + err)[-300:]}"
    return wrong, most


def try_attack(attack: Attack, filled: Path, rng: random.Random) -> Outcome:
    """Attack a copy of a filled cache, and run the program on it twice."""
    with tempfile.TemporaryDirectory() as work:
        place = Place(filled, Path(work), rng)
        attack.do(place)
        processes = [place.start(place.first) for _ in range(place.times)]
        for process in processes[: place.kills]:
            time.sleep(rng.random())
            process.kill()
            process.communicate()
        wrong, warned = _finished(processes[place.kills :])
        if place.first.startswith("import resource"):
            place.first = ""
            _finished([place.start()])  # with space on the disk again, the code is written
        again, warned_again = _finished([place.start(place.first)])
        wrong = wrong or again or ("what was planted has run" if place.mark.exists() else "")
        if attack.heals:
            healed = "no" if warned_again else "yes"
        else:
            healed = "unused" if warned_again == 1 else "no"
        return Outcome(wrong, warned, healed)


def fill(folder: Path) -> None:
    """Fill a cache that attacks are made on."""
    place = Place.__new__(Place)
    place.base, place.environment, place.rng = folder, {"ADJOINT_CACHE_DIR": str(folder)}, random.Random(0)
    wrong, warned = _finished([place.start()])
    if wrong or warned:
        raise RuntimeError(f"the program is not right to begin with: {wrong}")


def main(argv: list[str] | None = None) -> int:
    """Run the attacks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=0, help="stop then; attacks come in an order of the seed's")
    given = parser.parse_args(argv)
    rng, chosen = random.Random(given.seed), [a for a in ATTACKS if given.only in a.name]
    verdicts: Counter[str] = Counter()
    if given.minutes:
        rng.shuffle(chosen)
    end = time.monotonic() + 60 * given.minutes
    prepare()
    with tempfile.TemporaryDirectory() as kept:
        fill(Path(kept) / "adjoint")
        print(f"{'attack':38} {'result':7} {'warnings':8} healed", flush=True)
        for attack in chosen:
            if given.minutes and verdicts and time.monotonic() > end:
                break
            if attack.root and not ROOT:
                print(f"{attack.name:38} needs root")
                continue
            found = try_attack(attack, Path(kept) / "adjoint", rng)
            verdicts[found.verdict] += 1
            shown = "right" if not found.wrong else "WRONG"
            print(f"{attack.name:38} {shown:7} {found.warnings:<8} {found.healed} {found.wrong}", flush=True)
    bad = verdicts.total() - verdicts["right"]
    print(f"{verdicts.total()} attacks, {bad} not as they must be")
    print(summary("caches", verdicts.total(), **{word: verdicts[word] for word in ("wrong", "hung", "crashed")}))
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
