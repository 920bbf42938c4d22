"""Names of modules whose file is in another package: one object by either name, found by imports and by pickles."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

import adjoint
from adjoint._paths import home_of, module_path, public_path


@pytest.mark.parametrize(
    "path, name",
    [
        ("adjoint._C", "_TensorBase"), ("adjoint._ops", "OpOverload"), ("adjoint.amp.older", "CudaGradScaler"),
        ("adjoint.cpu.host", "synchronize"), ("adjoint.cuda.amp", "autocast"), ("adjoint.hooks", "RemovableHandle"),
        ("adjoint.hub", "get_dir"), ("adjoint.jit", "ScriptModule"), ("adjoint.storage", "UntypedStorage"),
        ("adjoint.testing._internal.common_utils", "TestCase"), ("adjoint.typed", "tensortype"),
        ("adjoint.utils.checkpoint", "CheckpointPolicy"), ("adjoint.version", "__version__"),
    ],
)  # fmt: skip
def test_pickles_that_name_an_older_path_load(path: str, name: str) -> None:
    found = pickle.loads(f"c{path}\n{name}\n.".encode())
    assert found is getattr(importlib.import_module(module_path(path)), name)


def test_a_module_is_loaded_once() -> None:
    program = (
        "import adjoint.testing._internal.common_utils as a, adjoint.compat.testing.common_utils as b\n"
        "import adjoint.compat.cpu.host as c, adjoint.cpu.host as d, adjoint, sys\n"
        "print(a is b, c is d, adjoint.testing._internal.common_utils is a, adjoint.cpu.host is d)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True"] * 4


def test_a_module_that_is_nowhere_is_called_as_it_was_asked_for() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'adjoint\.cpu\.nothing'"):
        importlib.import_module("adjoint.cpu.nothing")
    with pytest.raises(AttributeError, match=r"module 'adjoint\.backends' has no attribute 'nothing'"):
        _ = adjoint.backends.nothing  # type: ignore[attr-defined]
    assert importlib.reload(adjoint.jit) is adjoint.jit


def test_paths() -> None:
    assert module_path("adjoint.testing._internal.flags") == "adjoint.compat.testing.flags"
    assert public_path("adjoint.compat.testing.flags") == "adjoint.testing._internal.flags"
    assert module_path("adjoint.nn") == public_path("adjoint.nn") == "adjoint.nn"
    assert module_path("concurrent.jit") == "concurrent.jit"
    assert home_of("adjoint.core.handles", "RemovableHandle") == "torch.utils.hooks"
    assert home_of("adjoint.compat.jit", "ScriptModule") == "torch.jit"
