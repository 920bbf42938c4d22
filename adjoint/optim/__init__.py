"""Optimizers, which update parameters by their gradients, and learning-rate schedules."""

from __future__ import annotations

from .._paths import lead_to
from . import _functional, lr_scheduler, swa_utils
from ._adafactor import Adafactor
from ._muon import Muon
from ._stateless import swap_in_optimizer_params_and_state
from .adam import Adam, Adamax, AdamW, NAdam, RAdam, SparseAdam
from .descent import ASGD, SGD, Adadelta, Adagrad, RMSprop, Rprop
from .lbfgs import LBFGS
from .optimizer import Optimizer

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils", "swap_in_optimizer_params_and_state",
]  # fmt: skip

lead_to(
    __name__, {"adam": "adamax adamw nadam radam sparse_adam", "descent": "adadelta adagrad asgd rmsprop rprop sgd"}
)
