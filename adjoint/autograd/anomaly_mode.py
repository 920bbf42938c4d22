"""Finding where a NaN comes from: forward tracebacks for every node, and checks on what is computed."""

from __future__ import annotations

import warnings
from typing import Any

from ..core import modes

__all__ = ["detect_anomaly", "set_detect_anomaly"]


def _switch(mode: bool, check_nan: bool) -> None:
    if mode != modes.local.anomaly:
        modes.note_unusual(1 if mode else -1)
    modes.local.anomaly, modes.local.anomaly_nan = mode, check_nan


class detect_anomaly:
    """Record the forward traceback of every op, and raise where a NaN is made.

    A NaN that an op makes out of finite inputs is reported at that op, in the forward pass; one that a
    gradient rule makes, with the traceback of the forward op that the rule belongs to.

    Parameters
    ----------
    check_nan
        Whether gradients are checked.
    forward
        Whether results of forward ops are checked.
    """

    def __init__(self, check_nan: bool = True, forward: bool = True) -> None:
        self.check_nan, self.forward = check_nan, forward
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled "
            "for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.before = (modes.local.anomaly, modes.local.anomaly_nan, modes.local.anomaly_forward)
        _switch(True, self.check_nan)
        modes.local.anomaly_forward = self.forward and self.check_nan

    def __exit__(self, *error: object) -> None:
        _switch(*self.before[:2])
        modes.local.anomaly_forward = self.before[2]


class set_detect_anomaly:
    """Switch anomaly detection on or off at once; as a context, until its end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = (modes.local.anomaly, modes.local.anomaly_nan, modes.local.anomaly_forward)
        _switch(mode, check_nan)
        modes.local.anomaly_forward = mode and check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _switch(*self.before[:2])
        modes.local.anomaly_forward = self.before[2]


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on in this thread."""
    return modes.local.anomaly


def is_anomaly_check_nan_enabled() -> Any:
    """Return whether gradients are checked for NaN."""
    return modes.local.anomaly_nan
