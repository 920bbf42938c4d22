"""Finding where a NaN comes from: forward tracebacks for every node, and checks on what is computed."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from ..core import modes
from ..core.anomaly import ignore_flags, recording, watch_flags

__all__ = ["detect_anomaly", "set_detect_anomaly"]

_DEFAULT = {"invalid": "warn"}


class _Before(NamedTuple):
    """The previous mode, to be restored."""

    anomaly: bool
    check_nan: bool
    forward: bool
    stack: bool
    flags: Any


_OFF = _Before(False, True, False, False, ({}, None))


def _now() -> _Before:
    local, flags = modes.local, (np.geterr(), np.geterrcall())
    return _Before(local.anomaly, local.anomaly_nan, local.anomaly_forward, local.anomaly_stack, flags)


def _switch(mode: bool, check_nan: bool, forward: bool, stack: bool) -> None:
    """Switch anomaly detection in this thread; idempotent."""
    local = modes.local
    recording.switch(mode)
    if stack != local.anomaly_stack:
        modes.note_unusual(1 if stack else -1)
    # By stores, with no call since the count: see modes.py.
    local.anomaly, local.anomaly_nan, local.anomaly_forward, local.anomaly_stack = mode, check_nan, forward, stack
    if mode and check_nan:
        watch_flags()


class _Detection(modes.Scope):
    """A context of anomaly detection, which restores the previous mode."""

    before: _Before = _OFF

    def __exit__(self, *error: object) -> None:
        _switch(*self.before[:4])
        ignore_flags(self.before.flags)
        self.owned = None

    def __del__(self) -> None:
        if not self.before.anomaly:  # else one around it has put back what was
            super().__del__()


class detect_anomaly(_Detection):
    """Raise where the backward pass makes a NaN, with the forward op's line; optionally in the forward pass, too.

    Parameters
    ----------
    check_nan
        Whether gradients are checked.
    forward
        Whether results of forward ops are checked too: a NaN made out of numbers is found at the op that makes it.
    stack
        Whether the whole stack of every forward op is noted, not only its line. That costs half a step more.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> with adjoint.autograd.detect_anomaly(forward=True):
    ...     adjoint.tensor([-1.0]).log()
    Traceback (most recent call last):
    ...
    RuntimeError: Function 'log' returned nan values in its forward: ...
    """

    def __init__(self, check_nan: bool = True, forward: bool = False, stack: bool = False) -> None:
        self.check_nan, self.forward, self.stack = check_nan, forward, stack
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled "
            "for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.before, self.owned = _now(), self.own()
        _switch(True, self.check_nan, self.forward and self.check_nan, self.stack)


class set_detect_anomaly(_Detection):
    """Switch anomaly detection on or off at once; as a context, until its end. `forward` as in `detect_anomaly`."""

    def __init__(self, mode: bool, check_nan: bool = True, forward: bool = False) -> None:
        self.before, self.owned = _now(), self.own()
        _switch(mode, check_nan, mode and check_nan and forward, False)
        if not mode:
            ignore_flags((_DEFAULT, None))

    def __enter__(self) -> None:
        self.owned = self.own()


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection on or off."""
    set_detect_anomaly(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on in this thread."""
    return modes.local.anomaly


def is_anomaly_check_nan_enabled() -> Any:
    """Return whether gradients are checked for NaN."""
    return modes.local.anomaly_nan
