"""Neural networks: layers, losses, parameters, and how they begin."""

from __future__ import annotations

from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
