"""Everything here needs torch as the oracle."""

from __future__ import annotations

from importlib.util import find_spec

# Doctest collection imports every module of the folder.
collect_ignore_glob = [] if find_spec("torch") and find_spec("expecttest") else ["*.py"]
