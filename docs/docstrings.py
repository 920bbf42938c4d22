"""What mkdocstrings calls. Module docstrings are for readers of the code, so pages show at most their first line."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Module


class ModuleSummaries(Extension):
    """Leave out module docstrings of `adjoint.ops`, whose pages have headings; of others show the first line."""

    def on_module(self, *, mod: Module, **_: Any) -> None:
        if mod.docstring is not None:
            summary = "" if mod.path.startswith("adjoint.ops.") else mod.docstring.value.splitlines()[0]
            mod.docstring.value = summary
