"""Names that programs use have complete docstrings: summary, parameters, returns, an example.

`documented.txt` holds the names that at least three of 48 public repositories use, and then siblings of theirs that are
documented as completely. ``python -m tests.test_documented [PREFIX ...]`` lists what their docstrings lack.
Constants and data types are listed in ``docs/reference``.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import adjoint

# What adjoint does not have: docs/coverage.md.
MISSING = {
    "backends.cuda.sdp_kernel", "distributed.rpc.init_rpc", "distributed.rpc.rpc_async", "distributed.rpc.shutdown",
    "distributed.tensor.DTensor",
}  # fmt: skip
# Attributes that objects get as they are made, described by the docstring of the class.
ATTRIBUTES = {
    "autograd.function.FunctionCtx.needs_input_grad", "autograd.function.FunctionCtx.saved_tensors",
    "nn.Module.training", "optim.Optimizer.base_lrs", "optim.Optimizer.defaults", "optim.Optimizer.get_last_lr",
    "optim.Optimizer.last_epoch", "optim.Optimizer.param_groups", "optim.Optimizer.state",
}  # fmt: skip
# Parameters that need no words: NumPy's names for dim and keepdim, and what older signatures of torch passed.
ALIASES = {"self", "cls", "axis", "keepdims", "older", "args", "kwargs", "ignored"}
SECTION = re.compile(r"^(\w[\w ]*)\n-+$", re.MULTILINE)
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$", re.MULTILINE)


def names() -> list[str]:
    """Return the dotted names of `documented.txt`."""
    found, prefix = [], ""
    for line in Path(__file__).with_name("documented.txt").read_text().splitlines():
        if line.startswith("["):
            prefix = "" if line == "[torch]" else line.strip("[]") + "."
        elif not line.startswith("#"):
            found += [prefix + name for name in line.split()]
    return found


def sections(text: str) -> dict[str, str]:
    """Split a docstring at its underlined headings; what comes before the first is called ``""``."""
    parts = SECTION.split(inspect.cleandoc(text))
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def parameters(value: Any) -> list[inspect.Parameter]:
    """Return the parameters that a docstring has to describe; those of an enum are Python's."""
    if isinstance(value, enum.EnumType):
        return []
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in found if p.name not in ALIASES and not p.name.startswith("_")]


def lacks(path: str, reference: str) -> list[str]:
    """Return what the docstring of a name lacks."""
    value: Any = adjoint
    if path in ATTRIBUTES:
        head, _, name = path.rpartition(".")
        return [] if re.search(rf"\b{name}\b", resolve(head).__doc__ or "") else ["a word in the class's docstring"]
    for part in path.split("."):
        value = inspect.getattr_static(value, part, None) or getattr(value, part)
        value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if isinstance(value, types.ModuleType):
        return [] if value.__doc__ else ["a docstring"]
    described = isinstance(value, property | types.GetSetDescriptorType | types.MemberDescriptorType)
    if not callable(value) and not described:
        return [] if re.search(rf"\b{re.escape(path)}\b", reference) else ["a row in docs/reference"]
    parts = sections(value.__doc__ or "")
    if isinstance(value, type) and "__doc__" not in vars(value):
        return ["a docstring"]
    wrong = [] if re.match(r"[^\n]+[.!?]($|\n)", parts[""]) else ["a summary of one line"]
    if not described:
        entries = {n.strip("*") for line in ENTRY.findall(parts.get("Parameters", "")) for n in line.split(", ")}
        wrong += [f"parameter {p.name}" for p in parameters(value) if not {p.name, p.name.rstrip("_")} & entries]
        if not isinstance(value, type) and not returns_nothing(value) and not {"Returns", "Yields"} & parts.keys():
            wrong.append("Returns")
    if ">>>" not in parts.get("Examples", ""):
        wrong.append("Examples")
    return wrong


def returns_nothing(value: Any) -> bool:
    """Return whether a function is annotated to return None."""
    return getattr(value, "__annotations__", {}).get("return") in ("None", None, "NoReturn")


def resolve(path: str) -> Any:
    """Return what a dotted name of adjoint leads to."""
    value: Any = adjoint
    for part in path.split("."):
        value = getattr(value, part)
    return value


def reference() -> str:
    """Return the pages of the reference as one text."""
    pages = Path(__file__).parents[1].joinpath("docs/reference").glob("*.md")
    return "\n".join(page.read_text() for page in pages)


@pytest.fixture(scope="module")
def pages() -> str:
    return reference()


@pytest.mark.parametrize("path", [name for name in names() if name not in MISSING])
def test_docstring_is_complete(path: str, pages: str) -> None:
    assert lacks(path, pages) == []


def main(prefixes: list[str]) -> None:
    """Print what is lacking, by name."""
    text, count = reference(), 0
    for path in names():
        if path not in MISSING and (not prefixes or path.startswith(tuple(prefixes))):
            wrong = lacks(path, text)
            count += not wrong
            if wrong:
                print(f"{path}: {', '.join(wrong)}")
    print(f"{count} complete")


if __name__ == "__main__":
    main(sys.argv[1:])
