"""Layers and models, one file per family."""

from __future__ import annotations

from .activation import *  # noqa: F403
from .container import *  # noqa: F403
from .linear import *  # noqa: F403
from .module import Module
