"""Neural networks: layers, losses, parameters, and how they begin."""

from __future__ import annotations

from . import attention, common_types, functional, grad, init, modules, parallel, parameter, utils
from .factory import factory_kwargs
from .modules import *  # noqa: F403
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
