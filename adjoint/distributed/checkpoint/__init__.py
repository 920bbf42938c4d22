"""Checkpoints that several processes write together, and that any number of processes can read."""

from __future__ import annotations

from . import state_dict
from .files import CheckpointException, FileSystemReader, FileSystemWriter, async_save, exists, load, save

__all__ = [
    "CheckpointException", "FileSystemReader", "FileSystemWriter", "async_save", "exists", "load", "save", "state_dict",
]  # fmt: skip
