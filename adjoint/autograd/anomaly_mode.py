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
    """What was on before, to be put back."""

    anomaly: bool
    check_nan: bool
    forward: bool
    stack: bool
    flags: Any


def _switch(mode: bool, check_nan: bool, forward: bool, stack: bool) -> _Before:
    """Switch anomaly detection in this thread; return how it was."""
    local = modes.local
    was = _Before(local.anomaly, local.anomaly_nan, local.anomaly_forward, local.anomaly_stack, np.geterr())
    if stack != local.anomaly_stack:
        modes.note_unusual(1 if stack else -1)
    recording.switch(mode)
    local.anomaly, local.anomaly_nan, local.anomaly_forward, local.anomaly_stack = mode, check_nan, forward, stack
    flags = watch_flags() if mode and check_nan else (np.geterr(), np.geterrcall())
    return was._replace(flags=flags)


def _restore(before: _Before) -> None:
    _switch(*before[:4])
    ignore_flags(before.flags)


class detect_anomaly:
    """Raise where the backward pass makes a NaN, with the forward op's line; if asked to, in the forward pass too.

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
        self.before = _switch(True, self.check_nan, self.forward and self.check_nan, self.stack)

    def __exit__(self, *error: object) -> None:
        _restore(self.before)


class set_detect_anomaly:
    """Switch anomaly detection on or off at once; as a context, until its end. `forward` as in `detect_anomaly`."""

    def __init__(self, mode: bool, check_nan: bool = True, forward: bool = False) -> None:
        self.before = _switch(mode, check_nan, mode and check_nan and forward, False)
        if not mode:
            ignore_flags((_DEFAULT, None))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _restore(self.before)


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection on or off."""
    set_detect_anomaly(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on in this thread."""
    return modes.local.anomaly


def is_anomaly_check_nan_enabled() -> Any:
    """Return whether gradients are checked for NaN."""
    return modes.local.anomaly_nan
