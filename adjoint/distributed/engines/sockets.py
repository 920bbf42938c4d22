"""TCP: what carries messages between processes that found each other through a store, with nothing but Python.

Every process has a connection to every other, and a thread that reads from it. A collective is one or two exchanges of
messages; whichever thread ends the last part of an exchange begins the next, so that a call goes on while the program
computes. Parts are reduced in the order of the ranks: every rank gets the same bits, and a second run does too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..trust import PATIENCE, challenge, exactly, prove
from . import ReduceOp, check_reduction

__all__ = ["Mesh", "SocketComm", "SocketEngine"]

_HEADER = struct.Struct("<Hqq")  # how long the name of the context is, the tag, how long the message is
_HELLO = struct.Struct("<q")  # who is calling
_GOODBYE = 0xFFFF  # in place of the length of a name: nothing comes any more
_SMALL = 1 << 14  # bytes of messages up to which one exchange of everything is faster than two of parts
_LAST_WORDS = 5.0  # seconds for what was sent to leave this process
_UFUNCS: dict[ReduceOp, Any] = {
    ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum, ReduceOp.BAND: np.bitwise_and, ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}  # fmt: skip

Done = Callable[[Exception | None], None]


def _bytes(array: Any) -> memoryview:
    """Return the memory of a dense array."""
    return memoryview(array.reshape(-1).view(np.uint8))


def _fill(line: socket.socket, memory: memoryview) -> None:
    """Read as much as the buffer holds."""
    while memory.nbytes:
        count = line.recv_into(memory)
        if not count:
            raise ConnectionError("Connection closed by peer")
        memory = memory[count:]


class _Receive:
    """A message that a caller waits for."""

    __slots__ = ("done", "memory", "source")

    def __init__(self, memory: memoryview, done: Done) -> None:
        self.memory, self.done = memory, done
        self.source = -1

    def wrong_size(self, length: int) -> RuntimeError:
        return RuntimeError(
            f"rank {self.source} of the group sent {length} bytes, and {self.memory.nbytes} are expected: the tensors "
            "of all ranks must have the same shape and dtype"
        )


class _Peer:
    """The connection to one other process. Small messages leave at once; what the system does not take waits."""

    def __init__(self, rank: int, line: socket.socket) -> None:
        self.rank, self.line = rank, line
        self.lost: Exception | None = None
        self._lock = threading.Lock()
        self._waiting = 0
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.idle = threading.Event()
        self.idle.set()

    def send(self, parts: list[Any], done: Done) -> None:
        """Send some memory; `done` is notified when the system has all of it."""
        with self._lock:
            error = self.lost
            if error is None and not self._waiting:
                try:
                    parts = self._at_once(parts)
                except OSError:
                    error = self.lost = self.lost or _closed(self.rank)
            if error is None and parts:
                self._waiting += 1
                self.idle.clear()
                self._queue.put((parts, done))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._write, name="adjoint-send", daemon=True)
                    self._thread.start()
                return
        done(error)

    def _at_once(self, parts: list[Any]) -> list[Any]:
        """Send what the system takes now; return the remainder."""
        if not hasattr(socket, "MSG_DONTWAIT"):  # Windows
            return parts
        try:
            sent = self.line.sendmsg(parts, [], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return parts
        rest = []
        for part in parts:
            size = len(part)
            if sent < size:
                rest.append(part[sent:])
            sent = max(sent - size, 0)
        return rest

    def _write(self) -> None:
        while True:
            parts, done = self._queue.get()
            error = self.lost
            if error is None:
                try:
                    for part in parts:
                        self.line.sendall(part)
                except OSError:
                    error = self.lost = self.lost or _closed(self.rank)
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self.idle.set()
            done(error)


def _closed(rank: int, how: str = "it has died, or was stopped") -> ConnectionError:
    return ConnectionError(f"Connection closed by peer: rank {rank} is gone; {how}")


class Mesh:
    """The connections of a process to all others of its world, and the messages that have arrived."""

    def __init__(self, rank: int, size: int, lines: dict[int, socket.socket]) -> None:
        self.rank, self.size = rank, size
        self._lock = threading.Lock()
        self._arrived: dict[tuple[int, str, int], deque[bytearray]] = {}
        self._expected: dict[tuple[int, str, int], deque[_Receive]] = {}  # from rank -1: from any
        self._peers = {other: _Peer(other, line) for other, line in lines.items()}
        self._closing = False
        for peer in self._peers.values():
            threading.Thread(target=self._read, args=(peer,), name="adjoint-receive", daemon=True).start()

    # --- Messages -----------------------------------------------------------------------------------

    def send(self, to: int, context: str, tag: int, memory: Any, done: Done) -> None:
        """Send a message; `done` is called when its memory may change."""
        if to == self.rank:
            self._take_in(to, context, tag, bytearray(memory))
            done(None)
            return
        name = context.encode()
        head = _HEADER.pack(len(name), tag, len(memory)) + name
        self._peers[to].send([memoryview(head), memory] if len(memory) else [memoryview(head)], done)

    def receive(self, source: int, context: str, tag: int, memory: memoryview, done: Done) -> _Receive:
        """Fill memory with the next message of a rank (-1: of any rank); `done` is called when it is there."""
        wanted = _Receive(memory, done)
        with self._lock:
            found = self._next(source, context, tag)
            if found is None and (lost := self._lost(source)) is None:
                self._expected.setdefault((source, context, tag), deque()).append(wanted)
                return wanted
        if found is None:
            done(lost)
        else:
            self._hand_over(wanted, *found)
        return wanted

    def take(self, context: str, tag: int) -> tuple[int, bytes] | None:
        """Return a message from any rank and who sent it, if one is there."""
        with self._lock:
            found = self._next(-1, context, tag)
        return None if found is None else (found[0], bytes(found[1]))

    def _next(self, source: int, context: str, tag: int) -> tuple[int, bytearray] | None:
        """Take out the oldest message; the lock is held."""
        for sender in range(self.size) if source < 0 else [source]:
            letters = self._arrived.get((sender, context, tag))
            if letters:
                message = letters.popleft()
                if not letters:
                    del self._arrived[sender, context, tag]
                return sender, message
        return None

    def _lost(self, source: int) -> Exception | None:
        """Return why nothing can come from a rank; from any rank, when all are gone."""
        sources = [source] if source >= 0 else list(self._peers)
        lost = [self._peers[rank].lost if rank in self._peers else None for rank in sources]
        return lost[0] if lost and all(lost) else None

    def _hand_over(self, wanted: _Receive, source: int, message: bytearray) -> None:
        wanted.source = source
        if len(message) != wanted.memory.nbytes:
            wanted.done(wanted.wrong_size(len(message)))
            return
        wanted.memory[:] = message
        wanted.done(None)

    def _claim(self, source: int, context: str, tag: int) -> _Receive | None:
        """Take out who waits for such a message; the lock is held."""
        for key in ((source, context, tag), (-1, context, tag)):
            waiting = self._expected.get(key)
            if waiting:
                wanted = waiting.popleft()
                if not waiting:
                    del self._expected[key]
                return wanted
        return None

    def _take_in(self, source: int, context: str, tag: int, message: bytearray) -> None:
        with self._lock:
            wanted = self._claim(source, context, tag)
            if wanted is None:
                self._arrived.setdefault((source, context, tag), deque()).append(message)
        if wanted is not None:
            self._hand_over(wanted, source, message)

    def _read(self, peer: _Peer) -> None:
        """Take messages from a peer until there are no more."""
        head = bytearray(_HEADER.size)
        why = _closed(peer.rank)
        # What is no message ends the connection to this peer.
        with contextlib.suppress(OSError, ValueError, MemoryError):
            while True:
                _fill(peer.line, memoryview(head))
                length, tag, size = _HEADER.unpack(head)
                if length == _GOODBYE:
                    why = _closed(peer.rank, "it has called destroy_process_group, or ended")
                    break
                name = bytearray(length)
                _fill(peer.line, memoryview(name))
                self._read_message(peer, name.decode(), tag, size)
        self._lose(peer, why)

    def _read_message(self, peer: _Peer, context: str, tag: int, size: int) -> None:
        with self._lock:
            wanted = self._claim(peer.rank, context, tag)
        if wanted is None or wanted.memory.nbytes != size:
            if size < 0:
                raise ValueError(f"a message of {size} bytes")
            message = exactly(peer.line, size)
            if wanted is None:
                self._take_in(peer.rank, context, tag, message)
            else:
                self._hand_over(wanted, peer.rank, message)
            return
        wanted.source = peer.rank
        try:
            _fill(peer.line, wanted.memory)
        except OSError:
            wanted.done(_closed(peer.rank))
            raise
        wanted.done(None)

    def _lose(self, peer: _Peer, why: Exception) -> None:
        """Fail all receives that wait for a peer whose connection was lost."""
        with self._lock:
            peer.lost = why
            keys = [key for key in self._expected if key[0] == peer.rank or (key[0] < 0 and self._lost(-1) is not None)]
            failed = [wanted for key in keys for wanted in self._expected.pop(key)]
        for wanted in failed:
            wanted.done(why)

    # --- The end ------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until what was sent has left this process."""
        end = time.monotonic() + _LAST_WORDS
        for peer in self._peers.values():
            if peer.lost is None:
                peer.idle.wait(max(end - time.monotonic(), 0))

    def close(self) -> None:
        """Say goodbye, and close all connections."""
        for peer in self._peers.values():
            peer.send([memoryview(_HEADER.pack(_GOODBYE, 0, 0))], lambda _: None)
        self.flush()
        for peer in self._peers.values():
            with contextlib.suppress(OSError):
                peer.line.shutdown(socket.SHUT_RDWR)
            peer.line.close()


def connected(rank: int, size: int, store: Any, seconds: float, host: str) -> Mesh:
    """Return the connections to all other ranks, whose addresses come from the store.

    Both sides of a connection prove that they know a secret from the store.
    """
    end = time.monotonic() + seconds
    if rank == 0:
        store.set("secret", secrets.token_bytes(32))
    lines: dict[int, socket.socket] = {}
    with _listener(host) as listener:
        port = listener.getsockname()[1]
        store.set(f"address/{rank}", f"{listener.getsockname()[0]} {port}")
        secret = store.get("secret")
        for other in range(rank):
            at, _, number = store.get(f"address/{other}").decode().rpartition(" ")
            lines[other] = socket.create_connection((at, int(number)), timeout=max(end - time.monotonic(), 0.1))
            prove(lines[other], secret)
            lines[other].sendall(_HELLO.pack(rank))
        _await_callers(listener, rank, size, secret, lines, end, seconds)
    for line in lines.values():
        line.settimeout(None)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Mesh(rank, size, lines)


def _await_callers(
    listener: socket.socket, rank: int, size: int, secret: bytes, lines: dict[int, socket.socket], end: float,
    seconds: float,
) -> None:  # fmt: skip
    """Accept the connections of the ranks after this one; one that sends nothing does not block the others."""
    callers: queue.SimpleQueue[tuple[int, socket.socket]] = queue.SimpleQueue()

    def accept() -> None:
        listener.settimeout(None)
        with contextlib.suppress(OSError):  # closed
            while True:
                line, _ = listener.accept()
                threading.Thread(target=_welcome, args=(line, secret, callers), daemon=True).start()

    if len(lines) < size - 1:
        threading.Thread(target=accept, name="adjoint-accept", daemon=True).start()
    try:
        while len(lines) < size - 1:
            try:
                other, line = callers.get(timeout=max(end - time.monotonic(), 0.1))
            except queue.Empty:
                missing = [other for other in range(size) if other != rank and other not in lines]
                raise TimeoutError(f"timed out after {seconds:g} s: rank {rank} waits for ranks {missing}") from None
            if rank < other < size and other not in lines:
                lines[other] = line
            else:
                line.close()
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # and the thread ends


def _listener(host: str) -> socket.socket:
    try:
        return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError:  # a name that is not an address of this machine
        return socket.create_server(("127.0.0.1", 0))


def _welcome(line: socket.socket, secret: bytes, callers: queue.SimpleQueue[tuple[int, socket.socket]]) -> None:
    """Identify a connection; one that does not know the secret is refused."""
    line.settimeout(PATIENCE)
    try:
        if challenge(line, secret):
            callers.put((*_HELLO.unpack(exactly(line, _HELLO.size)), line))
            return
    except OSError:
        pass
    line.close()


# --- Groups -----------------------------------------------------------------------------------------


class SocketComm:
    """The interface of MPI's communicators, on a mesh: some of its ranks, whose messages are their own."""

    def __init__(self, mesh: Mesh, ranks: list[int], context: str) -> None:
        self.mesh, self.ranks, self.context = mesh, ranks, context
        self._rank = ranks.index(mesh.rank)
        self._copies = 0

    def Get_rank(self) -> int:
        """Return this process's number in the group."""
        return self._rank

    def Get_size(self) -> int:
        """Return how many processes are in the group."""
        return len(self.ranks)

    def Dup(self) -> SocketComm:
        """Return a communicator of the same ranks with separate messages; all ranks must call it."""
        self._copies += 1
        return SocketComm(self.mesh, self.ranks, f"{self.context}.{self._copies}")

    def Get_group(self) -> SocketComm:
        """Return the ranks."""
        return self

    def Incl(self, ranks: list[int]) -> list[int]:
        """Return some of the ranks."""
        return [self.ranks[rank] for rank in ranks]

    def Create_group(self, members: list[int], tag: int) -> SocketComm:
        """Return a group of some of the ranks."""
        return SocketComm(self.mesh, members, f"{self.context}/{tag}")

    def Bcast(self, memory: Any, root: int) -> None:
        """Fill an array from the root's."""
        SocketEngine(self.Dup()).broadcast(memory, root).wait(None)

    def Abort(self, code: int) -> None:
        """End this process; the others notice the closed connection."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def Free(self) -> None:
        """Do nothing: the connections are those of the whole world."""

    # Messages between ranks outside of the collectives.
    threads = True

    def post(self, text: bytes, rank: int, tag: int) -> None:
        """Send a letter."""
        self.mesh.send(self.ranks[rank], f"{self.context}?", tag, memoryview(text), lambda _: None)

    def take(self, tag: int) -> tuple[int, bytes] | None:
        """Return a letter and its sender, if one is there."""
        found = self.mesh.take(f"{self.context}?", tag)
        return None if found is None else (self.ranks.index(found[0]), found[1])


class Operation:
    """A call that has begun: a generator of exchanges, each a list of what is to be started."""

    def __init__(self, exchanges: Iterator[list[Callable[[Done], None]]]) -> None:
        self._exchanges = exchanges
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._open = 0
        self._advance()

    def __call__(self) -> bool:
        if not self._ended.is_set():
            return False
        if self._error is not None:
            raise self._error
        return True

    def wait(self, seconds: float | None) -> bool:
        """Wait for the end; return whether it came in time."""
        self._ended.wait(seconds)
        return self()

    def _advance(self) -> None:
        try:
            parts = next(self._exchanges, None)
            if parts is None:
                self._ended.set()
                return
            self._open = len(parts) + 1
            for start in parts:
                start(self._end_part)
            self._end_part(None)
        except Exception as error:
            self._fail(error)

    def _end_part(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)
            return
        with self._lock:
            self._open -= 1
            last = self._open == 0
        if last:
            self._advance()

    def _fail(self, error: Exception) -> None:
        if not self._ended.is_set():
            self._error = error
            self._ended.set()


class SocketEngine:
    """Collectives on dense CPU arrays; each returns a function that returns whether it has ended."""

    name = "sockets"

    def __init__(self, comm: SocketComm) -> None:
        self.comm, self.mesh = comm, comm.mesh
        self.size, self.rank = comm.Get_size(), comm.Get_rank()
        self._calls = 0

    # --- Exchanges ----------------------------------------------------------------------------------

    def _number(self) -> int:
        """Return the tag of a call's first exchange; all ranks count alike, and the second has the next."""
        self._calls += 2
        return self._calls

    def _exchange(self, tag: int, given: dict[int, Any], into: dict[int, Any]) -> list[Callable[[Done], None]]:
        """Return what sends arrays to ranks and receives arrays from ranks."""
        if self.rank in into:
            into[self.rank].reshape(-1)[...] = given[self.rank].reshape(-1)
        parts: list[Callable[[Done], None]] = []
        for rank in self._others():  # those after this one first: not all at once to rank 0
            if rank in into:
                parts.append(self._receiving(rank, tag, into[rank]))
        for rank in self._others():
            if rank in given:
                parts.append(self._sending(rank, tag, given[rank]))
        return parts

    def _others(self) -> list[int]:
        return [(self.rank + step) % self.size for step in range(1, self.size)]

    def _sending(self, rank: int, tag: int, x: Any) -> Callable[[Done], None]:
        return lambda done: self.mesh.send(self.comm.ranks[rank], self.comm.context, tag, _bytes(x), done)

    def _receiving(self, rank: int, tag: int, x: Any) -> Callable[[Done], None]:
        def start(done: Done) -> None:
            self.mesh.receive(self.comm.ranks[rank], self.comm.context, tag, _bytes(x), done)

        return start

    def _everybody(self, x: Any) -> dict[int, Any]:
        return dict.fromkeys(range(self.size), x)

    def _parts(self, x: Any) -> dict[int, Any]:
        """Return about equal parts of an array, one for each rank."""
        return dict(enumerate(np.array_split(x.reshape(-1), self.size)))

    # --- Reductions ---------------------------------------------------------------------------------

    def _gathered(self, tag: int, x: Any, part: Any, given: dict[int, Any], op: ReduceOp) -> Iterator[Any]:
        """Receive everybody's piece of the size of `part`, send `given`, and reduce in order into `part`."""
        pieces = np.empty((self.size, part.size), x.dtype)
        yield self._exchange(tag, given, dict(enumerate(pieces)))
        ufunc = _UFUNCS[op]
        total = pieces[0]
        for piece in pieces[1:]:
            ufunc(total, piece, out=total)
        part.reshape(-1)[...] = total

    def all_reduce(self, x: Any, op: ReduceOp) -> Operation:
        """Reduce into `x` on every rank."""
        check_reduction(op, x.dtype)
        tag = self._number()

        def exchanges() -> Iterator[Any]:
            if x.nbytes <= _SMALL:
                yield from self._gathered(tag, x, x, self._everybody(x), op)
                return
            parts = self._parts(x)
            mine = parts[self.rank]
            yield from self._gathered(tag, x, mine, parts, op)
            yield self._exchange(tag + 1, self._everybody(mine), parts)

        return Operation(exchanges())

    def reduce(self, x: Any, op: ReduceOp, root: int) -> Operation:
        """Reduce into the root's `x`."""
        check_reduction(op, x.dtype)
        tag = self._number()

        def exchanges() -> Iterator[Any]:
            if self.rank == root:
                yield from self._gathered(tag, x, x, {root: x}, op)
            else:
                yield self._exchange(tag, {root: x}, {})

        return Operation(exchanges())

    def reduce_scatter(self, out: Any, x: Any, op: ReduceOp) -> Operation:
        """Fill `out` with this rank's part of what all `x` reduce to."""
        check_reduction(op, x.dtype)
        return Operation(self._gathered(self._number(), x, out, self._parts(x), op))

    # --- Copies -------------------------------------------------------------------------------------

    def _one(self, given: dict[int, Any], into: dict[int, Any]) -> Operation:
        return Operation(iter([self._exchange(self._number(), given, into)]))

    def broadcast(self, x: Any, root: int) -> Operation:
        """Fill `x` from the root's."""
        if self.rank != root:
            return self._one({}, {root: x})
        return self._one(self._everybody(x), {})

    def all_gather(self, out: Any, x: Any) -> Operation:
        """Fill `out` with every rank's `x`, one after the other."""
        return self._one(self._everybody(x), self._parts(out))

    def gather(self, out: Any, x: Any, root: int) -> Operation:
        """Fill the root's `out` with every rank's `x`."""
        return self._one({root: x}, self._parts(out) if self.rank == root else {})

    def scatter(self, out: Any, x: Any, root: int) -> Operation:
        """Fill `out` with this rank's part of the root's `x`."""
        return self._one(self._parts(x) if self.rank == root else {}, {root: out})

    def all_to_all(self, out: Any, x: Any, received: list[int], given: list[int]) -> Operation:
        """Give every rank its part of `x`, and fill `out` with what they give; counts are of elements."""
        cut = lambda array, counts: dict(enumerate(np.split(array.reshape(-1), np.cumsum(counts)[:-1])))
        return self._one(cut(x, given), cut(out, received))

    def barrier(self) -> Operation:
        """Wait for every rank."""
        nothing = np.empty(0, np.uint8)
        return self._one(self._everybody(nothing), self._everybody(nothing))

    # --- Messages -----------------------------------------------------------------------------------

    def send(self, x: Any, to: int, tag: int) -> Operation:
        """Send `x`."""
        memory, context = _bytes(x), f"{self.comm.context}!"
        return Operation(iter([[lambda done: self.mesh.send(self.comm.ranks[to], context, tag, memory, done)]]))

    def recv(self, x: Any, source: int | None, tag: int) -> Receipt:
        """Receive into `x`, from any rank where `source` is None."""
        return Receipt(self, x, -1 if source is None else self.comm.ranks[source], tag)

    def together(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: sends and receives do not wait for each other."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Give the group back."""
        self.comm.Free()


class Receipt(Operation):
    """A message on its way here, and whose it was."""

    def __init__(self, engine: SocketEngine, x: Any, source: int, tag: int) -> None:
        self._engine = engine
        self._letter: _Receive | None = None

        def start(done: Done) -> None:
            context = f"{engine.comm.context}!"
            self._letter = engine.mesh.receive(source, context, tag, _bytes(x), done)

        super().__init__(iter([[start]]))

    @property
    def source(self) -> int:
        """The rank that sent the message."""
        assert self._letter is not None
        return self._engine.comm.ranks.index(self._letter.source)
