"""The page on adding a device runs as it stands, with the parts of `boxes.py` that it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending" / "device.md").read_text()
SOURCE = (ROOT / "tests" / "devices" / "boxes.py").read_text()
# Beyond the page: its kernels are the ones that were called.
KERNELS = """
from adjoint.core.nodes import registry

kernels = boxes.override.rows["log_softmax", ""][0], boxes.override.rows["log_softmax", "x"][0]
assert [k.kernel for k in kernels] == [log_softmax, log_softmax_backward]
assert registry["log_softmax"].variants[Box].kernel is not registry["log_softmax"].kernel
assert registry["log_softmax"].is_overridden(there.detach().array, 1)
assert not registry["log_softmax"].is_overridden(there.detach().array[0], 1)
"""


def section(found: re.Match[str]) -> str:
    """Return the part of the source that a snippet shows."""
    name = found[1]
    part = SOURCE.split(f"# --8<-- [start:{name}]\n")[1].split(f"# --8<-- [end:{name}]\n")[0]
    return part + "\n"


def test_the_page_shows_all_of_the_device() -> None:
    shown = re.findall(r'^--8<-- "tests/devices/boxes.py:(\w+)"$', PAGE, re.M)
    assert shown == re.findall(r"# --8<-- \[start:(\w+)\]", SOURCE)


def test_the_page_runs() -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M))
    code = re.sub(r'^--8<-- "tests/devices/boxes.py:(\w+)"\n', section, code, flags=re.M)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + KERNELS],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_device_is_tiny() -> None:
    assert len(SOURCE.splitlines()) <= 500
