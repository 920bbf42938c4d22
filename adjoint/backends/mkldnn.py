"""Questions about oneDNN."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Return whether oneDNN is found, as ``pip install onednn-cpu-gomp`` brings it, and may be used."""
    from ..devices.cpu import onednn, provider

    return provider.choice.allowed and provider.choice.onednn is not False and onednn.library() is not None
