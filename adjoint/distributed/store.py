"""Key-value stores that processes share: in memory, in a file, or served by one process over TCP.

A store is a table of bytes. Every change is atomic; a process that waits for a key looks again and
again until it is there or the time is over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from .trust import PATIENCE, SECRET, challenge, exactly, is_loopback, prove, secret_for
from .works import DistNetworkError, DistStoreError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

_DEFAULT = timedelta(seconds=300)
_PAUSE = 0.005  # seconds between two looks
_LARGEST = 1 << 28  # bytes of a message
_STRANGERS = 256  # connections at one time whose other side has not yet said who it is
_ACTIONS = frozenset({"set", "append", "add", "compare", "delete", "count", "get"})


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _step(table: dict[str, bytes], action: str, key: str, values: Sequence[bytes]) -> bytes | None:
    """Apply one operation to a table and return the reply; None where there is none."""
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
        """Apply one atomic operation to the table."""
        raise NotImplementedError

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key."""
        self._do("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """Return the value of a key; wait until it is set."""
        self.wait([key])
        return self._do("get", key) or b""

    def add(self, key: str, amount: int) -> int:
        """Add to the number of a key, and return the sum."""
        return int(self._do("add", key, str(int(amount)).encode()) or 0)

    def append(self, key: str, value: Any) -> None:
        """Append to the value of a key."""
        self._do("append", key, _bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Set the value of a key if its current value is the expected one, and return the value afterwards."""
        return self._do("compare", key, _bytes(expected_value), _bytes(desired_value)) or b""

    def delete_key(self, key: str) -> bool:
        """Delete a key, and return whether it existed."""
        return self._do("delete", key) == b"1"

    def num_keys(self) -> int:
        """Return the number of keys."""
        return int(self._do("count", "") or 0)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all of the keys exist."""
        return all(self._do("get", key) is not None for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all of the keys exist."""
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
        """Set the values of several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys."""
        return [self.get(key) for key in keys]

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long to wait for a key."""
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """How long to wait for a key."""
        return self._timeout

    def has_extended_api(self) -> bool:
        """Return True: appending and several keys at once are supported."""
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
    """A view of another store, in which every key gets a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix, self._store, self._timeout = prefix, store, store.timeout

    def _do(self, action: str, key: str, *values: bytes) -> bytes | None:
        return self._store._do(action, f"{self._prefix}/{key}", *values)

    @property
    def underlying_store(self) -> Store:
        """The store that holds the values."""
        return self._store


def _framed(parts: Sequence[bytes | None]) -> bytes:
    """Return some words with their lengths before them; -1 stands for none."""
    body = b"".join(struct.pack("<q", -1 if p is None else len(p)) + (p or b"") for p in parts)
    return struct.pack("<qq", len(body), len(parts)) + body


def _unframed(body: bytes | bytearray, count: int) -> list[bytes | None]:
    if not 0 <= count <= len(body) // 8:
        raise ValueError(f"{count} words do not fit into {len(body)} bytes")
    parts: list[bytes | None] = []
    at = 0
    for _ in range(count):
        (size,) = struct.unpack_from("<q", body, at)
        at += 8
        if size > len(body) - at:
            raise ValueError(f"a word of {size} bytes does not fit into the {len(body) - at} that are left")
        parts.append(None if size < 0 else bytes(body[at : at + size]))
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
        """Remove the file, if no other process has it open."""
        if self.add("cleanup/", -1) == 0:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    @contextlib.contextmanager
    def _file(self) -> Iterator[Any]:
        """Open the file, locked against changes by other processes."""
        import fcntl  # which only systems with files of this kind have

        with self._thread:
            while True:
                # The secret of the processes that meet here may be in it: readable by the owner only.
                with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    if self._is_current(file):
                        yield file
                        return

    def _is_current(self, file: Any) -> bool:
        """Return whether a file is still the one of its name: the previous holder of the lock may have replaced it."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _do(self, action: str, key: str, *values: bytes) -> bytes | None:
        with self._file() as file:
            table = self._read(file.read())
            before = dict(table)
            answer = _step(table, action, key, values)
            if table != before:
                self._put(_framed([part for name, word in table.items() for part in (name.encode(), word)]))
            return answer

    def _put(self, data: bytes) -> None:
        """Put a new file in the place of the old one: a process that is killed here leaves the old one as it was."""
        beside = f"{self._path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)  # of a writer that was killed; under the lock no other writer uses it
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self._path)

    def _read(self, data: bytes) -> dict[str, bytes]:
        if len(data) < 16:
            return {}
        parts = _unframed(data[16:], struct.unpack_from("<qq", data)[1])
        return {(name or b"").decode(): word or b"" for name, word in zip(parts[::2], parts[1::2], strict=True)}


class TCPStore(Store):
    """A store that one process serves to the others by TCP.

    Its process listens at the address `host_name`, and there only. Where the job has a secret (`torchrun`, `spawn`
    or the environment variable ADJOINT_JOB_SECRET), both sides prove that they know it.
    """

    def __init__(
        self, host_name: str, port: int = 0, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = _DEFAULT, wait_for_workers: bool = True, multi_tenant: bool = False,
        master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._timeout, self.host, self._lock = timeout, host_name, threading.Lock()
        self._server = Server(host_name, port, lambda: secret_for(host_name)) if is_master else None
        self.port = self._server.port if self._server is not None else port
        self._line = reach(host_name, self.port, secret_for(host_name), time.monotonic() + timeout.total_seconds())
        self.add("init/", 1)
        if world_size is not None and world_size > 1 and wait_for_workers:
            self._await_workers(world_size)

    def _await_workers(self, world_size: int) -> None:
        end = time.monotonic() + self._timeout.total_seconds()
        while int(self._do("get", "init/") or 0) < world_size:
            if time.monotonic() > end:
                raise DistStoreError(f"Timed out after {self._timeout} waiting for clients: {world_size} were expected")
            time.sleep(_PAUSE)

    def _do(self, action: str, key: str, *values: bytes) -> bytes | None:
        with self._lock:
            try:
                return asked(self._line, action, key, *values)
            except OSError as error:
                raise DistNetworkError(
                    f"Connection to the store at ({self.host}, {self.port}) was lost: {error}"
                ) from None

    @property
    def local_address(self) -> str:
        """The address of this process as the others can reach it."""
        return str(self._line.getsockname()[0])

    def close(self) -> None:
        """Hang up; the process that holds the table accepts no more connections."""
        for part in ("_line", "_server"):
            if getattr(self, part, None) is not None:
                getattr(self, part).close()

    __del__ = close


def reach(host: str, port: int, secret: bytes | None, end: float) -> socket.socket:
    """Return a connection to the server at an address, which knows the secret as this process does."""
    while True:
        try:
            line = socket.create_connection((host, port), timeout=max(end - time.monotonic(), 0.1))
            if line.getsockname() != line.getpeername():
                with contextlib.ExitStack() as stack:
                    stack.enter_context(line)
                    prove(line, secret)
                    line.settimeout(None)
                    stack.pop_all()
                    return line
            line.close()  # where no process listens, the system may connect a free port with itself
            reason = "no process listens"
        except PermissionError as error:
            raise DistStoreError(f"the store at ({host}, {port}) is not this job's: {error}") from None
        except OSError as error:
            reason = str(error)
        if time.monotonic() > end:
            raise DistNetworkError(
                f"The client socket has timed out while trying to connect to ({host}, {port}): {reason}"
            ) from None
        time.sleep(0.05)


def asked(line: socket.socket, action: str, key: str, *values: bytes) -> bytes | None:
    """Send a request to a server, and return its reply."""
    message = _framed([action.encode(), key.encode(), *values])
    if len(message) > _LARGEST:
        raise ValueError(f"the word of {key!r} is too long for a store: {len(message)} bytes of {_LARGEST}")
    line.sendall(message)
    answer, *refusal = _received(line)
    if refusal:
        raise ValueError((refusal[0] or b"").decode(errors="replace"))
    return answer


def _received(line: socket.socket) -> list[bytes | None]:
    """Return the words of one message."""
    length, count = struct.unpack("<qq", exactly(line, 16))
    if not 0 <= length <= _LARGEST:
        raise ConnectionError(f"a message of {length} bytes is announced; {_LARGEST} are allowed")
    return _unframed(exactly(line, length), count)


def _listening(host: str, port: int, secret: bytes | None) -> socket.socket:
    """Return the socket of a server: at the address that is given, and at no other."""
    if secret is None and not is_loopback(host):
        warnings.warn(
            f"the store listens at {host or 'every address'} of this machine and the job has no secret: any program "
            f"that can reach port {port} can read and change what the processes exchange. Set {SECRET} to the same "
            "value for all processes of the job",
            stacklevel=5,
        )
    unknown: OSError | None = None
    for family, _, _, _, at in socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
        try:
            return socket.create_server(at[:2], family=family, backlog=_STRANGERS)  # type: ignore[arg-type]
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            unknown = error
    if secret is not None:  # a name that a router, or a cluster's service, leads here
        return socket.create_server(("", port), backlog=_STRANGERS)
    raise DistNetworkError(
        f"{host} is not an address of this machine: {unknown}. With a secret ({SECRET}) the store would listen at all"
    )


class Server:
    """Serves the table of a `TCPStore`, with a thread for each client.

    The secret is read when a client connects: `spawn` may have made it since.
    """

    def __init__(self, host: str, port: int, secret: Callable[[], bytes | None]) -> None:
        self.table: dict[str, bytes] = {}
        self._secret = secret
        self._lock = threading.Lock()
        self._lines: set[socket.socket] = set()
        self._closed = False
        self._strangers = threading.BoundedSemaphore(_STRANGERS)
        self._socket = _listening(host, port, secret())
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, name="adjoint-store", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except ConnectionError:  # who called has hung up
                continue
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    time.sleep(0.05)  # until some have hung up
                    continue
                return  # closed
            if not self._strangers.acquire(blocking=False):
                line.close()
                continue
            self._lines.add(line)
            if self._closed:  # closed meanwhile: the client must not wait for a world that has ended
                line.close()
                return
            try:
                threading.Thread(target=self._serve, args=(line,), name="adjoint-store", daemon=True).start()
            except RuntimeError:  # no more threads
                self._strangers.release()
                self._lines.discard(line)
                line.close()

    def _serve(self, line: socket.socket) -> None:
        """Serve a client until it disconnects; an invalid message closes its connection only."""
        with line, contextlib.suppress(OSError, ValueError, struct.error, MemoryError):
            if self._is_known(line):
                while True:
                    action, key, *values = [part or b"" for part in _received(line)]
                    line.sendall(_framed(self._answer(action.decode(), key.decode(), values)))
        self._lines.discard(line)

    def _is_known(self, line: socket.socket) -> bool:
        try:
            line.settimeout(PATIENCE)
            known = challenge(line, self._secret())
            line.settimeout(None)
            return known
        finally:
            self._strangers.release()

    def _answer(self, action: str, key: str, values: list[bytes]) -> list[bytes | None]:
        if action not in _ACTIONS or len(values) != {"compare": 2, "set": 1, "append": 1, "add": 1}.get(action, 0):
            raise ValueError(f"{action!r} of {len(values)} arguments is not a request that a store knows")
        with self._lock:
            try:
                return [_step(self.table, action, key, values)]
            except ValueError as error:  # a request for a number, and the value is none
                return [None, str(error).encode()]

    def close(self) -> None:
        """Accept no more connections, and hang up: clients must notice that the store is closed."""
        self._closed = True  # before the connections are looked at: each is seen here, or by `_accept`
        for line in (self._socket, *self._lines.copy()):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self._socket.close()
