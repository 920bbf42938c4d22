"""What the pages say is so: lists, links and commands that could go stale."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from types import FunctionType

import adjoint.compiler
import adjoint.distributions
import adjoint.nn.functional
from adjoint.core.nodes import registry
from tests.test_layout import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
UNSHOWN = {"removed", "numpy_functions"}  # functions that say what torch has instead, and NumPy's own


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def section(page: str, title: str) -> str:
    """Return what stands under a heading of a page."""
    return section_of((DOCS / page).read_text(), title)


def section_of(text: str, title: str) -> str:
    """Return what stands under a heading of a text."""
    return re.split(r"^## ", text.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def test_the_design_page_lists_every_primitive() -> None:
    built = runpy.run_path(str(DOCS / "hooks.py"))["on_page_markdown"]((DOCS / "design.md").read_text())
    lines = blocks(section_of(built, "Primitives"), "text")[0]
    assert lines.split() == sorted(registry)


def test_the_packages_of_the_design_page_exist() -> None:
    table = section("design.md", "Packages")
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert set(named) <= set(PACKAGES)
    folders = {p.name for p in (ROOT / "adjoint").iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert folders <= set(named), "a package that the page does not name"


def test_the_first_page_leads_to_every_page() -> None:
    index = (DOCS / "index.md").read_text()
    pages = {p.name for p in DOCS.glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


def test_the_first_page_has_the_commands_of_the_readme() -> None:
    readme, index = ((p).read_text() for p in (ROOT / "README.md", DOCS / "index.md"))
    assert blocks(readme, "sh")[:2] == blocks(index, "sh")[:2]


def test_contributing_fits_a_screen() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 50


def test_every_function_is_in_the_reference() -> None:
    """Each function that the files of ops give to `adjoint` or `nn.functional` stands on a page."""
    offered = runpy.run_path(str(DOCS / "hooks.py"))["offered"]
    pages = "".join(p.read_text() for p in (DOCS / "reference").glob("*.md"))
    shown = {name for room in re.findall(r"^::: adjoint\.ops\.(\w+)$", pages, re.M) for name in offered(room)}
    for space in (adjoint, adjoint.nn.functional):
        for name, given in vars(space).items():
            value = inspect.unwrap(given) if callable(given) else given
            _, found, room = str(getattr(value, "__module__", "")).partition("adjoint.ops.")
            if isinstance(value, FunctionType) and found and not name.startswith("_") and room not in UNSHOWN:
                assert name in shown or value.__name__ in shown or value.__doc__ is None, f"{room}.{name}"


def test_the_tutorial_shows_the_programs_that_run() -> None:
    """The files that `test_tutorials.py` runs are those that the page includes, in the words of the extension."""
    shown = re.findall(r'^--8<-- "(.*)"$', (DOCS / "tutorial.md").read_text(), re.M)
    assert "docs/tutorials/tiny_autograd.py" in shown
    assert all((ROOT / path).exists() for path in shown)
