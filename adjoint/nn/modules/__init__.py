"""Layers and models, one file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._paths import lead_to
from . import (
    activation,
    adaptive,
    arrangement,
    attention,
    batchnorm,
    container,
    conv,
    distance,
    dropout,
    instancenorm,
    lazy,
    linear,
    loss,
    module,
    normalization,
    pooling,
    rnn,
    transformer,
    utils,
)
from .activation import *  # noqa: F403
from .adaptive import *  # noqa: F403
from .arrangement import *  # noqa: F403
from .attention import *  # noqa: F403
from .batchnorm import *  # noqa: F403
from .container import *  # noqa: F403
from .conv import *  # noqa: F403
from .distance import *  # noqa: F403
from .dropout import *  # noqa: F403
from .instancenorm import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .module import Module as Module
from .normalization import *  # noqa: F403
from .pooling import *  # noqa: F403
from .rnn import *  # noqa: F403
from .transformer import *  # noqa: F403

if not TYPE_CHECKING:  # checkers go by the lines above
    __all__ = ["Module"]
    for _family in (
        activation,
        adaptive,
        arrangement,
        attention,
        batchnorm,
        container,
        conv,
        distance,
        dropout,
        instancenorm,
        linear,
        loss,
        normalization,
        pooling,
        rnn,
        transformer,
    ):
        __all__ += _family.__all__

lead_to(
    __name__,
    {
        "arrangement": "channelshuffle flatten fold padding pixelshuffle upsampling",
        "linear": "sparse",
        "loss": "linear_cross_entropy linear_cross_entropy_options",
    },
)
