"""Utilities around modules and their parameters."""

from __future__ import annotations

from . import rnn

__all__ = ["rnn"]
