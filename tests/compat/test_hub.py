"""Downloads of weights: whole or not at all, checked, and never run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import adjoint


def test_weights_are_fetched_once_and_checked(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    adjoint.save({"w": adjoint.ones(2)}, tmp_path / "net.pth")
    digest = hashlib.sha256((tmp_path / "net.pth").read_bytes()).hexdigest()
    named = tmp_path / f"net-{digest[:8]}.pth"
    named.write_bytes((tmp_path / "net.pth").read_bytes())
    for _ in range(2):
        state = adjoint.hub.load_state_dict_from_url(named.as_uri(), check_hash=True, progress=False)
        assert state["w"].tolist() == [1, 1]
        named.unlink(missing_ok=True)  # the second time it is there already
    assert [p.name for p in (tmp_path / "home" / "hub" / "checkpoints").iterdir()] == [named.name]
    (tmp_path / "bad-12345678.pth").write_bytes(b"x")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        adjoint.hub.load_state_dict_from_url((tmp_path / "bad-12345678.pth").as_uri(), check_hash=True)
    with pytest.raises(ValueError, match="not an address"):
        adjoint.hub.download_url_to_file("data:,x", str(tmp_path / "y"))
    with pytest.raises(NotImplementedError, match="repositories"):
        adjoint.hub.load("pytorch/vision", "resnet18")
