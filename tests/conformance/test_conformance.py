"""The operators that once agreed with torch still do.

`expected.json` lists them; ``python -m tests.conformance.test_conformance`` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

EXPECTED = Path(__file__).with_name("expected.json")
CHECKS = ["forward", "grad"]
OPTIONS: dict[str, Any] = {
    "checks": CHECKS, "dtypes": ["float64"], "samples": 3, "timeout": 20.0, "reference": False,
}  # fmt: skip


def _run(names: list[str] | None = None) -> list[dict[str, Any]]:
    from . import runner

    return runner.run_all(names or runner.select(None)[0], OPTIONS, 2, lambda record: None)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_operator_gets_worse() -> None:
    pytest.importorskip("torch", reason="torch is the oracle")
    pytest.importorskip("expecttest", reason="torch's operator table imports it")
    from . import runner

    if not EXPECTED.exists():
        pytest.skip("expected.json is not part of the source distribution")
    expected = set(json.loads(EXPECTED.read_text()))
    records = {r["name"]: r for r in _run()}
    passing = {name for name, r in records.items() if runner.passes(r, *CHECKS)}
    if new := sorted(passing - expected):
        print(f"{len(new)} operators pass that expected.json does not list yet: {', '.join(new)}")
    worse = sorted(expected & set(records) - passing)
    story = "\n".join(f"{n}: {': '.join(p)}" for n in worse for p in runner.problems_of(records[n])[:1])
    assert not worse, f"{len(worse)} operators no longer agree with torch:\n{story}"


if __name__ == "__main__":
    from . import runner

    good = [r["name"] for r in _run() if runner.passes(r, *CHECKS)]
    EXPECTED.write_text(json.dumps(sorted(good), indent=0) + "\n")
    print(f"{len(good)} operators pass; written to {EXPECTED}")
