"""What ``adjoint doctor`` prints about an installation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import adjoint
from adjoint import doctor
from adjoint.__main__ import main


def test_the_report_names_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    said = capsys.readouterr().out
    for words in (f"adjoint {adjoint.__version__}", np.__version__, sys.executable, "ml_dtypes", "GPU", "MPI", "Cache"):
        assert words in said, words


def test_kernels_and_packages_agree() -> None:
    found = doctor.sections()
    packages, kernels = dict(found["Packages"]), dict(found["Kernels for large arrays on the CPU"])
    numba = "not installed" not in packages["numba"]
    assert ("Numba" in kernels["softmax, norms, losses"]) is numba
    assert kernels["threads"].split()[0] == str(adjoint.get_num_threads())


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda distribution, module: None)
    monkeypatch.setattr(doctor.provider, "compiles", lambda: False)
    monkeypatch.setattr(doctor.onednn, "library", lambda: None)
    said = doctor.report()
    for package in ("numba", "scipy", "onednn-cpu-gomp", "mpi4py"):
        assert f"pip install {package}" in said


def test_a_cache_that_is_not_safe_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "loops").write_text("a file")
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    (row,) = doctor.sections()["Cache"]
    assert "not kept" in row[1] or "not cached" in row[1]
