"""Workers are programs of several processes: pytest starts them, and does not import them."""

from __future__ import annotations

collect_ignore_glob = ["workers/*.py"]
