"""Saving and loading without running code: `save`, `load`, safetensors, and PyTorch's files."""

from __future__ import annotations

from . import safetensors
from .files import DEFAULT_PROTOCOL, MAP_LOCATION, get_unsafe_globals_in_checkpoint, load, save
from .kinds import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .sources import FileFormatError

__all__ = [
    "DEFAULT_PROTOCOL", "MAP_LOCATION", "FileFormatError", "add_safe_globals", "clear_safe_globals", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "safe_globals", "safetensors", "save",
]  # fmt: skip
