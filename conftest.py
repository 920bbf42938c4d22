"""What every test and doctest of the project shares."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import hypothesis
import pytest

# Cores are shared in CI: how long an example takes says nothing about it. The same examples every time, so
# that a red run is the change's own doing.
hypothesis.settings.register_profile("adjoint", deadline=None, derandomize=True)
hypothesis.settings.load_profile("adjoint")

# Doctest collection imports every module; these need a package that may not be installed.
collect_ignore = [
    f"adjoint/kernels/{name}"
    for name, package in {"gpu": "cupy", "numba.py": "numba", "triton.py": "triton"}.items()
    if find_spec(package) is None
]
# Doctests run on the host; there a simulated GPU would only be in the way (tests/gpu asks for it by this name).
if os.environ.get("ADJOINT_SIMULATED_GPU") == "1":
    from tests.gpu import simulated

    simulated.install()


@pytest.fixture(scope="session", autouse=True)
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    import numpy as np

    import adjoint

    doctest_namespace["adjoint"] = adjoint
    doctest_namespace["np"] = np


def _has_gpu() -> bool:
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # no CuPy, no driver, no device: all mean the same here
        return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the `gpu` tests where there is no GPU."""
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and not _has_gpu():
        config.hook.pytest_deselected(items=gpu)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
