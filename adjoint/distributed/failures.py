"""What goes wrong between processes."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError"]


class DistError(RuntimeError):
    """Something went wrong between the processes of a group."""


class DistBackendError(DistError):
    """A collective did not end: somebody did not come, or came with another one."""


class DistNetworkError(DistError):
    """Processes could not reach each other."""


class DistStoreError(DistError):
    """What processes tell each other beside the collectives was lost."""
