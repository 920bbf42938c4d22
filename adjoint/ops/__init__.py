"""Every primitive with its rules, and its public function beside it; ``ops.aten`` has them by torch's inner names."""

from __future__ import annotations

import pkgutil
from typing import Any

_rooms = frozenset(module.name for module in pkgutil.iter_modules(__path__))
# Names that test runners look up in every module; a namespace of operators would return an operator for them.
_asked = frozenset(
    ("setUpModule", "tearDownModule", "setup_module", "teardown_module", "setup_function", "teardown_function",
     "setup", "teardown", "load_tests", "pytest_plugins", "pytestmark", "collect_ignore")
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _rooms or name in _asked or name.startswith("__"):  # a module here that is still to be imported
        raise AttributeError(f"module 'adjoint.ops' has no attribute '{name}'")
    from . import overloads

    return overloads.load_library if name == "load_library" else overloads.namespace(name)
