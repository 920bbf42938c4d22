"""Models of transformers and timm, with adjoint in torch's place, as ONNX models.

The packages are those that are installed, or on the path that the variable ADJOINT_REAL_PROGRAMS names (as `.ci/run`
does: ``pip install --no-deps --target folder transformers timm ...``).
"""

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
ELSEWHERE = os.environ.get("ADJOINT_REAL_PROGRAMS", "")
# By package, how many of its models the program exports.
MODELS = {"transformers": 4, "timm": 3}


def installed(package: str) -> bool:
    folders = [folder for folder in ELSEWHERE.split(os.pathsep) if folder]
    return importlib.util.find_spec(package) is not None or any((Path(f) / package).is_dir() for f in folders)


@pytest.mark.slow
@pytest.mark.parametrize("package", MODELS)
def test_models_of_a_package(package: str, tmp_path: Path) -> None:
    if not installed(package):
        pytest.skip(f"{package} is not installed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    paths = (ELSEWHERE, str(HERE.parents[1]), os.environ.get("PYTHONPATH", ""))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "run", str(HERE / "with_transformers.py"), package],
        capture_output=True, text=True, timeout=280, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("equal") == MODELS[package], done.stdout
