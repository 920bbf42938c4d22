"""Records of TensorBoard's files: a length, an event in protocol buffers' encoding, and two checksums."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import threading
import time
from typing import IO, Any

__all__ = ["RecordWriter", "Summary"]

_count = itertools.count()

# --- Protocol buffers ---------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Return a number in as many bytes as it needs."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def integer(field: int, value: int) -> bytes:
    """Return a field of a whole number."""
    return varint(field << 3) + varint(int(value))


def double(field: int, value: float) -> bytes:
    """Return a field of a number."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def float32(field: int, value: float) -> bytes:
    """Return a field of a number, in single precision."""
    return varint(field << 3 | 5) + struct.pack("<f", value)


def part(field: int, value: bytes | str) -> bytes:
    """Return a field of text, or of another message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


# --- Records --------------------------------------------------------------------------------------------


def _checksum_table() -> list[int]:
    table = []
    for start in range(256):
        value = start
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _checksum_table()


def _checksum(data: bytes) -> bytes:
    """Return the masked CRC32C of some bytes, as records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _new_file(folder: str, suffix: str) -> tuple[str, IO[bytes]]:
    """Return a file that was not there before: neither another writer's, nor a link that another user has put there."""
    while True:
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_count)}"
        path = os.path.join(folder, name + suffix)
        with contextlib.suppress(FileExistsError):
            return path, open(path, "xb")


class RecordWriter:
    """Writes events into one file of a folder, which readers see `flush_secs` later at the next event."""

    def __init__(self, log_dir: str, filename_suffix: str = "", flush_secs: float = 120) -> None:
        os.makedirs(log_dir, exist_ok=True)
        self._path, self._file = _new_file(log_dir, filename_suffix)
        self._lock = threading.Lock()
        self._flush_secs, self._flushed = flush_secs, time.monotonic()
        self.write(part(3, "brain.Event:2"))
        self.flush()

    def write(self, what: bytes, step: int | None = None, walltime: float | None = None) -> None:
        """Write one event."""
        event = double(1, time.time() if walltime is None else walltime)
        event += b"" if step is None else integer(2, step)
        event += what
        length = struct.pack("<Q", len(event))
        with self._lock:
            self._file.write(length + _checksum(length) + event + _checksum(event))
        if time.monotonic() - self._flushed >= self._flush_secs:
            self.flush()

    def flush(self) -> None:
        """Let readers see what is written so far."""
        self._file.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Summary:
    """Values under their tags, in protocol buffers' encoding."""

    def __init__(self, *values: bytes) -> None:
        self.data = b"".join(part(1, value) for value in values)

    def SerializeToString(self) -> bytes:  # as messages of protocol buffers call it
        """Return the message."""
        return self.data

    @staticmethod
    def of(summary: Any) -> bytes:
        """Return the message of a summary, ours or that of TensorBoard's package."""
        return bytes(summary.SerializeToString())
