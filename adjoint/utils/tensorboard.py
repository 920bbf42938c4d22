"""``SummaryWriter``: what a training run measures, in files that TensorBoard reads.

The files are written here, without TensorBoard's package: a record is a length, an event in protocol buffers' encoding,
and two checksums.
"""

from __future__ import annotations

import datetime
import itertools
import os
import socket
import struct
import threading
import time
import zlib
from typing import Any

import numpy as np

from ..core.tensor import TensorBase

__all__ = ["FileWriter", "SummaryWriter"]

_count = itertools.count()

# --- Protocol buffers ---------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _part(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


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


class FileWriter:
    """Writes events into one file of a folder."""

    def __init__(self, log_dir: str, filename_suffix: str = "") -> None:
        os.makedirs(log_dir, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_count)}"
        self._path = os.path.join(log_dir, name + filename_suffix)
        self._file, self._lock = open(self._path, "ab"), threading.Lock()  # noqa: SIM115  # it stays open
        self.write(_part(3, "brain.Event:2"))
        self.flush()

    def write(self, what: bytes, step: int | None = None, walltime: float | None = None) -> None:
        """Write one event."""
        event = _double(1, time.time() if walltime is None else walltime)
        event += b"" if step is None else _integer(2, step)
        event += what
        length = struct.pack("<Q", len(event))
        with self._lock:
            self._file.write(length + _checksum(length) + event + _checksum(event))

    def flush(self) -> None:
        """Let readers see what is written so far."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# --- Values ---------------------------------------------------------------------------------------------


def _array(value: Any) -> Any:
    return np.asarray(value.detach().cpu().float().numpy() if isinstance(value, TensorBase) else value)  # type: ignore[attr-defined]


def _number(value: Any) -> float:
    found = _array(value)
    if found.size != 1:
        raise AssertionError("scalar should be 0D")
    return float(found.reshape(()))


def _histogram(values: Any, bins: Any) -> bytes:
    flat = _array(values).reshape(-1).astype(np.float64)
    if flat.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(flat, bins=_edges() if bins == "tensorflow" else bins)
    kept = np.flatnonzero(counts)
    first, last = max(int(kept[0]) - 1, 0), int(kept[-1]) + 1
    rows = [float(flat.min()), float(flat.max()), float(flat.size), float(flat.sum()), float((flat**2).sum())]
    message = b"".join(_double(field + 1, row) for field, row in enumerate(rows))
    message += _part(6, limits[1:][first:last].astype("<f8").tobytes())
    return message + _part(7, counts[first:last].astype("<f8").tobytes())


def _edges() -> Any:
    """Return limits of classes that grow by a tenth each, to both sides of zero."""
    steps = 1e-12 * 1.1 ** np.arange(775)
    return np.concatenate([-steps[::-1], [0.0], steps])


def _picture(image: Any, dataformats: str) -> bytes:
    pixels = _array(image)
    order = dataformats.upper()
    pixels = np.transpose(pixels, [order.index(axis) for axis in "HWC" if axis in order])
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.dtype.kind == "f":
        pixels = np.clip(pixels * (255 if pixels.max(initial=0) <= 1 else 1), 0, 255)
    pixels = pixels.astype(np.uint8)
    height, width, channels = pixels.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    png = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    png += _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return _integer(1, height) + _integer(2, width) + _integer(3, channels) + _part(4, png)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class SummaryWriter:
    """Writes scalars, histograms, pictures and text into a folder, for TensorBoard.

    Parameters
    ----------
    log_dir
        The folder; by default ``runs/`` with the time and the machine's name.
    comment
        A word at the end of the default folder's name.
    filename_suffix
        A word at the end of the file's name.
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self._suffix = str(log_dir), filename_suffix
        self.file_writer: FileWriter | None = FileWriter(self.log_dir, filename_suffix)
        self._others: dict[str, FileWriter] = {}

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def _write(self, value: bytes, step: int | None, walltime: float | None, into: FileWriter | None = None) -> None:
        if self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self._suffix)
        (into or self.file_writer).write(_part(5, _part(1, value)), step, walltime)

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Write a number."""
        self._write(_part(1, tag) + _float(2, _number(scalar_value)), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Write several numbers that are drawn into one picture."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self._others:
                self._others[folder] = FileWriter(folder)
            content = _part(1, main_tag) + _float(2, _number(value))
            self._write(content, global_step, walltime, self._others[folder])

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Write how often values lie where."""
        self._write(_part(1, tag) + _part(5, _histogram(values, bins)), global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Write a picture, of floats from 0 to 1 or of bytes."""
        self._write(_part(1, tag) + _part(4, _picture(img_tensor, dataformats)), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Write several pictures side by side."""
        pixels = np.moveaxis(_array(img_tensor), dataformats.upper().index("N"), 0)
        one = dataformats.upper().replace("N", "")
        wide = np.concatenate(list(pixels), axis=one.index("W"))
        self.add_image(tag, wide, global_step, walltime, one)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write text, in Markdown."""
        shape = _part(2, _part(2, _integer(1, 1)))
        tensor = _integer(1, 7) + shape + _part(8, text_string)
        about = _part(1, _part(1, "text"))
        self._write(_part(1, f"{tag}/text_summary") + _part(8, tensor) + _part(9, about), global_step, walltime)

    def add_hparams(self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Write settings, as text, and what came of them, as numbers."""
        rows = "\n".join(f"|{key}|{value}|" for key, value in hparam_dict.items())
        self.add_text("hparams", f"|setting|value|\n|---|---|\n{rows}")
        for key, value in metric_dict.items():
            self.add_scalar(key, value)

    def flush(self) -> None:
        """Let readers see what is written so far."""
        for writer in (self.file_writer, *self._others.values()):
            if writer is not None:
                writer.flush()

    def close(self) -> None:
        """Close the files; the next value opens another."""
        for writer in (self.file_writer, *self._others.values()):
            if writer is not None:
                writer.close()
        self.file_writer = None
        self._others.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
