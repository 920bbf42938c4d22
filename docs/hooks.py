"""What mkdocs asks before it builds a page: which functions of a file of ops are meant for users."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import adjoint
from adjoint.nn import functional

_OPS = re.compile(r"^::: adjoint\.ops\.(\w+)\n    options: \{ ", re.M)


def offered(room: str) -> list[str]:
    """Return the names that a file of ops gives to `adjoint` or to `adjoint.nn.functional`."""
    module = importlib.import_module(f"adjoint.ops.{room}")
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and any(inspect.unwrap(getattr(space, name, name)) is inspect.unwrap(value) for space in (adjoint, functional))
    ]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name the members of the files of ops that a page shows; helpers of theirs are nobody's business."""
    return _OPS.sub(lambda m: f"{m[0]}members: [{', '.join(offered(m[1]))}], ", markdown)
