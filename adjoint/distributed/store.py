"""Stores: a few words that processes share by name, in one process, in a file, or at one process by TCP.

A store is a table of bytes. Every change is one step that nobody sees half of; who waits for a word looks again and
again until it is there or the time is over.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from .works import DistNetworkError, DistStoreError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

_DEFAULT = timedelta(seconds=300)
_PAUSE = 0.005  # seconds between two looks


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _step(table: dict[str, bytes], action: str, key: str, values: Sequence[bytes]) -> bytes | None:
    """Do one thing to a table and return what the caller is told; None where there is nothing."""
    if action == "set":
        table[key] = values[0]
    elif action == "append":
        table[key] = table.get(key, b"") + values[0]
    elif action == "add":
        table[key] = str(int(table.get(key, b"0")) + int(values[0])).encode()
    elif action == "compare":
        if table.get(key, b"") == values[0]:
            table[key] = values[1]
        return table.get(key, values[0])
    elif action == "delete":
        return b"1" if table.pop(key, None) is not None else b"0"
    elif action == "count":
        return str(len(table)).encode()
    return table.get(key)


class Store:
    """Base of stores."""

    def __init__(self) -> None:
        self._timeout = _DEFAULT

    def _do(self, action: str, key: str, *values: bytes) -> bytes | None:
        """Do one thing to the table, in one step."""
        raise NotImplementedError

    def set(self, key: str, value: Any) -> None:
        """Put a word under a name."""
        self._do("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """Return the word of a name, when it is there."""
        self.wait([key])
        return self._do("get", key) or b""

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a name, and return it."""
        return int(self._do("add", key, str(int(amount)).encode()) or 0)

    def append(self, key: str, value: Any) -> None:
        """Add to the end of the word under a name."""
        self._do("append", key, _bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Put a word under a name if what is there is as expected, and return what is there then."""
        return self._do("compare", key, _bytes(expected_value), _bytes(desired_value)) or b""

    def delete_key(self, key: str) -> bool:
        """Take a name away, and return whether it was there."""
        return self._do("delete", key) == b"1"

    def num_keys(self) -> int:
        """Return the number of names."""
        return int(self._do("count", "") or 0)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all of some names are there."""
        return all(self._do("get", key) is not None for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Return when all of some names are there."""
        allowed = self._timeout if timeout is None else timeout
        end = time.monotonic() + allowed.total_seconds()
        while not self.check(keys):
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Wait timeout: wait timeout after {int(allowed.total_seconds() * 1000)}ms, keys: "
                    + ", ".join(f"/{key}" for key in keys)
                )
            time.sleep(_PAUSE)

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Put several words under their names."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the words of several names."""
        return [self.get(key) for key in keys]

    def set_timeout(self, timeout: timedelta) -> None:
        """Say how long to wait for a name."""
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """How long to wait for a name."""
        return self._timeout

    def has_extended_api(self) -> bool:
        """Return True: appending and several names at once are there."""
        return True


class HashStore(Store):
    """A store in this process, for its threads.

    Examples
    --------
    >>> from adjoint.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("word", "hello")
    >>> store.get("word"), store.add("visits", 2)
    (b'hello', 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def _do(self, action: str, key: str, *values: bytes) -> bytes | None:
        with self._lock:
            return _step(self._table, action, key, values)


class PrefixStore(Store):
    """A store in which every name begins with a word of its own, in another store."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix, self._store, self._timeout = prefix, store, store.timeout

    def _do(self, action: str, key: str, *values: bytes) -> bytes | None:
        return self._store._do(action, f"{self._prefix}/{key}", *values)

    @property
    def underlying_store(self) -> Store:
        """The store that holds the words."""
        return self._store


def _framed(parts: Sequence[bytes | None]) -> bytes:
    """Return some words with their lengths before them; -1 stands for none."""
    body = b"".join(struct.pack("<q", -1 if p is None else len(p)) + (p or b"") for p in parts)
    return struct.pack("<qq", len(body), len(parts)) + body


def _unframed(body: bytes, count: int) -> list[bytes | None]:
    parts: list[bytes | None] = []
    at = 0
    for _ in range(count):
        (size,) = struct.unpack_from("<q", body, at)
        at += 8
        parts.append(None if size < 0 else body[at : at + size])
        at += max(size, 0)
    return parts


class FileStore(Store):
    """A store in a file that several processes can see."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path = file_name
        self._thread = threading.Lock()
        self.add("cleanup/", 1)  # as torch's counts who has opened it

    @property
    def path(self) -> str:
        """The name of the file."""
        return self._path

    def close(self) -> None:
        """Remove the file, if nobody else has it open."""
        if self.add("cleanup/", -1) == 0:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    @contextlib.contextmanager
    def _file(self) -> Iterator[Any]:
        import fcntl  # which only systems with files of this kind have

        with self._thread, open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _do(self, action: str, key: str, *values: bytes) -> bytes | None:
        with self._file() as file:
            table = self._read(file.read())
            before = dict(table)
            answer = _step(table, action, key, values)
            if table != before:
                file.seek(0)
                file.truncate()
                words = [part for name, word in table.items() for part in (name.encode(), word)]
                file.write(_framed(words))
            return answer

    def _read(self, data: bytes) -> dict[str, bytes]:
        if len(data) < 16:
            return {}
        parts = _unframed(data[16:], struct.unpack_from("<qq", data)[1])
        return {(name or b"").decode(): word or b"" for name, word in zip(parts[::2], parts[1::2], strict=True)}


class TCPStore(Store):
    """A store that one process keeps, and others reach by TCP."""

    def __init__(
        self, host_name: str, port: int = 0, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = _DEFAULT, wait_for_workers: bool = True, multi_tenant: bool = False,
        master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._timeout, self.host, self._lock = timeout, host_name, threading.Lock()
        self._server = _Server(host_name, port) if is_master else None
        self.port = self._server.port if self._server is not None else port
        self._line = self._connected(time.monotonic() + timeout.total_seconds())
        self.add("init/", 1)
        if world_size is not None and world_size > 1 and wait_for_workers:
            self._await_workers(world_size)

    def _connected(self, end: float) -> socket.socket:
        while True:
            try:
                line = socket.create_connection((self.host, self.port), timeout=max(end - time.monotonic(), 0.1))
                if line.getsockname() != line.getpeername():
                    return line
                line.close()  # where nobody listens, the system may connect a free port with itself
                reason = "nobody listens"
            except OSError as error:
                reason = str(error)
            if time.monotonic() > end:
                raise DistNetworkError(
                    f"The client socket has timed out while trying to connect to ({self.host}, {self.port}): {reason}"
                ) from None
            time.sleep(0.05)

    def _await_workers(self, world_size: int) -> None:
        end = time.monotonic() + self._timeout.total_seconds()
        while int(self._do("get", "init/") or 0) < world_size:
            if time.monotonic() > end:
                raise DistStoreError(f"Timed out after {self._timeout} waiting for clients: {world_size} were expected")
            time.sleep(_PAUSE)

    def _do(self, action: str, key: str, *values: bytes) -> bytes | None:
        with self._lock:
            try:
                self._line.sendall(_framed([action.encode(), key.encode(), *values]))
                return _received(self._line)[0]
            except OSError as error:
                raise DistNetworkError(
                    f"Connection to the store at ({self.host}, {self.port}) was lost: {error}"
                ) from None

    @property
    def local_address(self) -> str:
        """The address of this process as the others can reach it."""
        return str(self._line.getsockname()[0])

    def close(self) -> None:
        """Hang up; whoever keeps the table takes no more."""
        for part in ("_line", "_server"):
            if getattr(self, part, None) is not None:
                getattr(self, part).close()

    __del__ = close


def _received(line: socket.socket) -> list[bytes | None]:
    """Return the words of one message."""
    length, count = struct.unpack("<qq", _exactly(line, 16))
    return _unframed(_exactly(line, length), count)


def _exactly(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = line.recv(size - len(data))
        if not more:
            raise DistNetworkError("Connection was likely closed. Did the remote server shutdown or crash?")
        data += more
    return data


class _Server:
    """Keeps the table of a `TCPStore`, with a thread for each process that asks."""

    def __init__(self, host: str, port: int) -> None:
        self._table: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._lines: set[socket.socket] = set()
        self._socket = socket.create_server(("", port))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:  # closed
                return
            self._lines.add(line)
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError, DistNetworkError):
            while True:
                action, key, *values = [part or b"" for part in _received(line)]
                with self._lock:
                    answer = _step(self._table, action.decode(), key.decode(), values)
                line.sendall(_framed([answer]))
        self._lines.discard(line)

    def close(self) -> None:
        """Take no more, and hang up: whoever still asks must hear that nobody answers."""
        for line in (self._socket, *self._lines):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self._socket.close()
