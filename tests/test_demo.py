"""The newcomer's command, in its short form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adjoint.__main__ import main
from adjoint.demo import digits


def test_the_demo_learns_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--short", "--out", str(tmp_path / "page.html")])
    said = capsys.readouterr().out
    found = re.search(r"It reads ([\d.]+)%", said)
    assert found and float(found.group(1)) > 85 and str(tmp_path / "page.html") in said
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") >= 2 and "polyline" in page and "iframe" in page and "Backward" in page


def test_digits() -> None:
    images, labels = digits(20)
    assert images.shape == (20, 1, 12, 12) and labels.shape == (20,) and 0 <= labels.min() and labels.max() <= 9
