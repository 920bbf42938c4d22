"""What does not go well is told: ranks that leave, launchers that are killed, calls that differ, strangers."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from adjoint.distributed import DistStoreError
from adjoint.distributed.store import FileStore, TCPStore, _listening
from adjoint.distributed.trust import SECRET, prove
from gates import distributed as gate
from tests.distributed.jobs import carriers, passed, run


@pytest.mark.parametrize("launcher", gate.LAUNCHERS)
def test_an_exit_without_a_goodbye_fails_and_is_started_again(launcher: str) -> None:
    rng = random.Random(0)
    assert gate.left(launcher, rng) == "right"
    assert gate.restarted(launcher, rng) == "right"


@pytest.mark.parametrize("launcher", gate.LAUNCHERS)
def test_who_leaves_its_group_may_exit_as_it_likes(launcher: str, tmp_path: Path) -> None:
    code, said = gate.end(gate.start(launcher, 0, "endings", "destroyed", str(tmp_path)))
    assert code == 0, said


@pytest.mark.parametrize("launcher", gate.LAUNCHERS)
def test_ranks_end_when_their_launcher_is_killed(launcher: str) -> None:
    assert gate.killed_launcher(launcher, random.Random(0)) == "right"


@carriers
@pytest.mark.parametrize("case", ["count", "dtype", "reduction", "root", "new-after-known", "swapped-known"])
def test_calls_that_differ_are_told_by_default(case: str, carrier: str) -> None:
    job = run("mismatches", case, carrier=carrier, timeout=120)
    assert job.returncode != 0 and "silent" not in job.stdout
    assert "rank 0: " in job.stderr and "rank 1: " in job.stderr, job.stderr
    assert job.stderr.count("mismatches.py:") >= 2


@carriers
@pytest.mark.parametrize(
    "case", ["new-async", "new-both-async", "new-unwaited", "known-against-new", "extra", "extra-async"]
)
def test_an_asynchronous_call_that_differs_from_a_known_one_does_not_hang(case: str, carrier: str) -> None:
    job = run("mismatches", case, carrier=carrier, timeout=120)  # one rank's own calls may have ended well
    assert job.returncode != 0
    assert "rank 0: " in job.stderr and "rank 1: " in job.stderr, job.stderr
    assert job.stderr.count("mismatches.py:") >= 2


@carriers
def test_calls_that_match_are_left_alone(carrier: str) -> None:
    job = run("mismatches", "fine", carrier=carrier, timeout=120)
    passed(job)
    assert job.stdout.count("fine") == 2


# --- Stores -------------------------------------------------------------------------------------------


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(SECRET, "the words of this job")
    store = TCPStore("127.0.0.1", 0, is_master=True)
    assert store._server is not None
    store._server._secret = lambda: b"the words of this job"  # whatever those who call have in the environment
    yield store
    store.close()


def test_a_store_listens_where_it_was_told(keeper: TCPStore) -> None:
    assert keeper._server is not None
    assert keeper._server._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("secret", ["other words", None])
def test_who_does_not_know_the_secret_is_refused(
    keeper: TCPStore, secret: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.set("word", "mine")
    with monkeypatch.context() as other:
        other.setenv(SECRET, secret) if secret else other.delenv(SECRET)
        with pytest.raises(DistStoreError, match=SECRET):
            TCPStore("127.0.0.1", keeper.port, timeout=timedelta(seconds=30))
    assert TCPStore("127.0.0.1", keeper.port).get("word") == b"mine"


def test_who_listens_must_know_it_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        line = socket.create_connection(impostor.getsockname())
        theirs, _ = impostor.accept()
        theirs.sendall(b"adjoint1\x01" + bytes(64))
        with line, theirs, pytest.raises(PermissionError, match="another secret"):
            prove(line, b"words")


@pytest.mark.parametrize("secret", ["words", None])
def test_bad_frames_close_their_connection_only(secret: str | None) -> None:
    assert gate.stranger(secret, random.Random(1)) == "right"


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack("<qq", 6 << 30, 1) + b"x",
        struct.pack("<qq", -5, 1),
        struct.pack("<qq", 8, 1 << 50) + bytes(8),
        struct.pack("<qq", 8, 1) + struct.pack("<q", 1 << 40),
        struct.pack("<qq", 11, 1) + struct.pack("<q", 3) + b"\xff\xfe\xfd",
    ],
)
def test_no_peer_makes_the_keeper_reserve_what_it_announces(keeper: TCPStore, frame: bytes) -> None:
    peer = TCPStore("127.0.0.1", keeper.port)
    with contextlib.suppress(OSError):  # its connection may be closed at any of these
        peer._line.sendall(frame)
        peer._line.shutdown(socket.SHUT_WR)
        assert peer._line.recv(1) == b""
    keeper.set("word", "on")
    assert keeper.get("word") == b"on"


def test_a_number_that_is_none_is_told_and_the_line_stays(keeper: TCPStore) -> None:
    keeper.set("word", "text")
    with pytest.raises(ValueError, match="text"):
        keeper.add("word", 1)
    assert keeper.get("word") == b"text"


def test_an_open_address_without_a_secret_warns() -> None:
    with pytest.warns(UserWarning, match=SECRET):
        _listening("0.0.0.0", 0, None).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _listening("0.0.0.0", 0, b"words").close()
        _listening("127.0.0.1", 0, None).close()


def test_a_file_store_is_whole_when_its_writer_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(str(tmp_path / "words"))
    store.set("word", "kept")
    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))  # the last step before
        store.set("word", "lost")
    assert store.get("word") == b"kept"
    store.set("word", "next")
    assert store.get("word") == b"next"
    assert sorted(os.listdir(tmp_path)) == ["words"] and (tmp_path / "words").stat().st_mode & 0o77 == 0
    assert gate.killed_writer(random.Random(2)) == "right"
