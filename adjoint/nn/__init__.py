"""Neural networks: layers, losses, parameters and their initialisation."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

# `name as name` tells type checkers that a name is meant for users.
# isort: off
from . import (
    attention as attention,
    common_types as common_types,
    functional as functional,
    grad as grad,
    init as init,
    modules as modules,
    parallel as parallel,
    parameter as parameter,
    utils as utils,
)
from .factory import factory_kwargs as factory_kwargs
from .modules import *  # type: ignore[no-redef]  # noqa: F403
from .parallel import DataParallel as DataParallel
from .parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)
# isort: on

if _TYPE_CHECKING:  # the star import hides them from checkers
    from . import functional as functional
    from . import parallel as parallel
    from . import utils as utils
