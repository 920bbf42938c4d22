"""Packages from PyPI that are written for PyTorch, unmodified, with adjoint in its place.

They run where they are installed, or on the path that the variable ADJOINT_REAL_PROGRAMS names:
``pip install --no-deps --target folder einops vit-pytorch deepxde pytorch-minimize``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ELSEWHERE = os.environ.get("ADJOINT_REAL_PROGRAMS", "")
# What is imported, and what is installed for it. CI has the first four.
PACKAGES = {
    "einops": "einops", "vit_pytorch": "vit-pytorch", "deepxde": "deepxde", "torchmin": "pytorch-minimize",
    "gpytorch": "gpytorch", "pyro": "pyro-ppl", "pytorch_lightning": "pytorch-lightning", "torchdiffeq": "torchdiffeq",
    "transformers": "transformers", "torchmetrics": "torchmetrics", "entmax": "entmax", "zuko": "zuko",
}  # fmt: skip


def installed(package: str) -> bool:
    folders = [folder for folder in ELSEWHERE.split(os.pathsep) if folder]
    return importlib.util.find_spec(package) is not None or any((Path(f) / package).is_dir() for f in folders)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_works_on_adjoint(package: str, tmp_path: Path) -> None:
    if not installed(package):
        pytest.skip(f"{PACKAGES[package]} is not installed")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "MPLCONFIGDIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (ELSEWHERE, os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, "-m", "adjoint", "run", str(HERE / f"with_{package}.py")],
        capture_output=True, text=True, timeout=240, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout
