"""Indexing: reading and writing parts of tensors."""

from __future__ import annotations
