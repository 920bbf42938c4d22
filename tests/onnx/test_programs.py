"""Models of transformers and timm, with adjoint in torch's place, as ONNX models."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the onnx package is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
HERE = Path(__file__).resolve().parent


@pytest.mark.slow
def test_models_of_transformers_and_timm(tmp_path: Path) -> None:
    if not any(map(importlib.util.find_spec, ("transformers", "timm"))):
        pytest.skip("neither transformers nor timm is installed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(HERE.parents[1]) + os.pathsep + os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "run", str(HERE / "with_transformers.py")],
        capture_output=True, text=True, timeout=280, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("equal") >= 3, done.stdout
