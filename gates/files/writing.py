"""Saves that are killed, interrupted, refused or out of disk."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import random
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import adjoint

from .valid import saved


class Place:
    """A file that is saved repeatedly, in a separate folder; every byte of a version contains the version's number."""

    def __init__(self, rng: random.Random) -> None:
        self.folder = tempfile.mkdtemp(prefix="gate-files-")
        self.path = os.path.join(self.folder, rng.choice(["a.pt", "a.safetensors", "n" * 252 + ".pt"]))
        self.length = rng.choice((1, 1000, 100_000, 400_000))
        self.unnamed = rng.random() < 0.5  # whether the new file may be without a name until it is whole

    def save(self, version: int) -> None:
        """Save a version."""
        if not self.unnamed:
            os.__dict__.pop("O_TMPFILE", None)
        adjoint.save({"version": version, "w": adjoint.full((self.length,), version)}, self.path)

    def faults(self, versions: range) -> list[str]:
        """Return what is wrong with the file, which must be one of some versions; and with its folder after a save."""
        found = []
        try:
            held = adjoint.load(self.path)
            if held["version"] not in versions or not bool((held["w"] == held["version"]).all()):
                found.append(f"version {held['version']} of {versions}, or torn")
        except Exception as error:
            found.append(f"lost: {error!r:.100}")
        self.save(0)
        if os.listdir(self.folder) != [os.path.basename(self.path)]:
            found.append(f"left beside it: {sorted(os.listdir(self.folder))!r:.200}")
        return found


def forked(run: Callable[[], None]) -> int:
    """Start something in a separate process."""
    process = os.fork()
    if not process:
        try:
            run()
        finally:
            os._exit(1)
    return process


def _forever(place: Place, first: int) -> None:
    for version in range(first, 1 << 20):
        place.save(version)


def killed(place: Place, rng: random.Random) -> None:
    """Kill one or several processes that save."""
    started = [forked(lambda n=n: _forever(place, 1 + n)) for n in range(rng.choice((1, 1, 3)))]  # type: ignore[misc]
    time.sleep(rng.random() * 0.04)
    for process in started:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def interrupted(place: Place, rng: random.Random) -> None:
    """Interrupt a save."""

    def raise_(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, raise_)
    with contextlib.suppress(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + rng.random() * 0.01)
        _forever(place, 1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _expecting_oserror(run: Callable[[], None]) -> None:
    process = forked(lambda: os._exit(0 if _raises_oserror(run) else 1))
    if os.waitpid(process, 0)[1]:
        raise AssertionError("no OSError")


def _raises_oserror(run: Callable[[], None]) -> bool:
    try:
        run()
    except OSError:
        return True
    return False


def full(place: Place, rng: random.Random) -> None:
    """Run out of disk, as a limit on sizes of files has it."""

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        place.save(1)

    limit = rng.randrange(os.path.getsize(place.path))
    _expecting_oserror(run)


class _Disk(io.BytesIO):
    """A file on a disk that is soon full."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any) -> int:
        """Write while the simulated disk has space."""
        self.room -= len(memoryview(data).cast("B"))
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def full_stream(place: Place, rng: random.Random) -> None:
    """Run out of disk in a file that the program opened itself."""
    value, format = {"w": adjoint.ones(place.length)}, rng.choice(("pt", "adjoint"))
    room = rng.randrange(len(saved(value, format=format)))
    if not _raises_oserror(lambda: adjoint.save(value, _Disk(room), format=format)):
        raise AssertionError("no OSError")


def forbidden(place: Place, rng: random.Random) -> None:
    """Save where writing is not permitted; as another user, for root may write anywhere."""

    def run() -> None:
        if not os.getuid():
            os.setuid(65534)
        place.save(1)

    os.chmod(place.folder, 0o555)
    _expecting_oserror(run)
    os.chmod(place.folder, 0o755)


def write_cases(rng: random.Random, seed: int, count: int, table: Counter[str]) -> None:
    """Kill savers, and let some others fail."""
    for number in range(count):
        fail = rng.choices((killed, interrupted, full, full_stream, forbidden), (20, 4, 2, 1, 1))[0]
        place = Place(rng)
        try:
            place.save(0)
            fail(place, rng)
            found = place.faults(range(1 << 20))
        except AssertionError as error:
            found = [str(error)]
        table["cases"] += 1
        table[fail.__name__] += 1
        table["lost"] += bool(found)
        for fault in found:
            print(f"! seed {seed}, save {number}, {fail.__name__}: {fault}", flush=True)
        shutil.rmtree(place.folder)
