"""What mkdocs calls before it builds a page: the public functions of a file of ops, and the list of primitives."""

from __future__ import annotations

import importlib
import inspect
import re
from textwrap import fill
from typing import Any

import adjoint
from adjoint.core.nodes import registry
from adjoint.nn import functional

_OPS = re.compile(r"^::: adjoint\.ops\.(\w+)\n    options: \{ ", re.M)


def offered(file: str) -> list[str]:
    """Return the names that a file of ops gives to `adjoint` or to `adjoint.nn.functional`."""
    module = importlib.import_module(f"adjoint.ops.{file}")
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and any(inspect.unwrap(getattr(space, name, name)) is inspect.unwrap(value) for space in (adjoint, functional))
    ]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name the public members of the files of ops that a page shows, and list the primitives where it asks for them."""
    markdown = markdown.replace("<!-- primitives -->", f"```text\n{fill(' '.join(sorted(registry)), 120)}\n```")
    return _OPS.sub(lambda m: f"{m[0]}members: [{', '.join(offered(m[1]))}], ", markdown)
