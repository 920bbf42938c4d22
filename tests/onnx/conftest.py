"""Programs that tests run, not tests: `with_*.py`."""

from __future__ import annotations

collect_ignore_glob = ["with_*.py"]
