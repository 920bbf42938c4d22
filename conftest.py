"""What every test and doctest of the project shares."""

from __future__ import annotations

import builtins
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
collect_ignore = ["adjoint/devices/cuda"] if find_spec("cupy") is None else []
# What only the start of a process is to run.
collect_ignore.append("adjoint/compat/stand_in/startup")
# "1": a simulated GPU for all tests that need one; "few": for a few of the cases of each.
_SIMULATED = os.environ.get("ADJOINT_SIMULATED_GPU", "")
if _SIMULATED:
    from tests.gpu import simulated

    simulated.install()


@pytest.fixture(scope="session", autouse=True)
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    import numpy as np

    import adjoint

    # Python's, as at a reader's prompt: modules such as adjoint itself have their own float, sum or isinstance.
    doctest_namespace.update({name: value for name, value in vars(builtins).items() if not name.startswith("_")})
    doctest_namespace["adjoint"] = adjoint
    doctest_namespace["np"] = np


def _has_gpu() -> bool:
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # no CuPy, no driver, no device: all mean the same here
        return False


# What starts processes, compiles a lot or trains is left out of `-m quick`.
_LONG = (
    "tests/compiler", "tests/conformance", "tests/distributed", "tests/gpu", "tests/real_programs", "tests/utils/data",
    "tests/test_demo.py", "tests/test_docs.py", "tests/test_examples.py", "tests/test_tutorials.py", "tests/typed",
    "tests/compat", "gates",
)  # fmt: skip


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the first case of each test as `quick`, unless the test is a long one."""
    name = item.nodeid.partition("[")[0]
    if name in _seen or item.nodeid.startswith(_LONG) or item.get_closest_marker("slow"):
        return
    _seen.add(name)
    item.add_marker("quick")


_seen: set[str] = set()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the `gpu` tests where there is no GPU."""
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and not _has_gpu():
        config.hook.pytest_deselected(items=gpu)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    if _SIMULATED == "few":
        kept = _thinned(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def _thinned(items: list[pytest.Item], most: int = 6) -> list[pytest.Item]:
    """Return a few of the cases of each test, evenly spread: each kernel that is new to them must be compiled."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    # A step of neither 2 nor 3 meets other dtypes and shapes every time.
    steps = {name: next(n for n in range(max(len(group) // most, 1), 1000) if n % 2 and n % 3)
             for name, group in cases.items()}  # fmt: skip
    return [item for name, group in cases.items() for item in group[:: steps[name]]]
