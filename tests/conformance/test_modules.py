"""The layers that once agreed with torch still do.

`expected_modules.json` lists them; ``python -m tests.conformance.test_modules`` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXPECTED = Path(__file__).with_name("expected_modules.json")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_layer_gets_worse() -> None:
    pytest.importorskip("torch", reason="torch is the oracle")
    pytest.importorskip("expecttest", reason="torch's tables import it")
    from . import modules

    if not EXPECTED.exists():
        pytest.skip("expected_modules.json is not part of the source distribution")
    expected = set(json.loads(EXPECTED.read_text()))
    records = {r["name"]: r for r in modules.run_all()}
    passing = {name for name, r in records.items() if modules.passes(r)}
    worse = sorted(expected & set(records) - passing)
    story = "\n".join(f"{n}: {records[n]['why']}" for n in worse)
    assert not worse, f"{len(worse)} layers no longer agree with torch:\n{story}"
    assert len(passing) >= 0.95 * len(records)


if __name__ == "__main__":
    from . import modules

    good = [r["name"] for r in modules.run_all() if modules.passes(r)]
    EXPECTED.write_text(json.dumps(sorted(good), indent=0) + "\n")
    print(f"{len(good)} layers pass; written to {EXPECTED}")
