"""What the pages say is so: lists, links and commands that could go stale."""

from __future__ import annotations

import ast
import inspect
import io
import re
import runpy
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

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


def texts() -> Iterator[tuple[str, str]]:
    """Yield every page, message, script and test by path; not this file, which spells the forbidden out."""
    for folder in ("adjoint", "benchmarks", "docs", "examples", "gates", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".ipynb", ".toml", ".html", ".txt"} and path != Path(__file__):
                yield str(path.relative_to(ROOT)), path.read_text(errors="replace")
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "conftest.py", ".ci/run"):
        yield name, (ROOT / name).read_text()


def test_nothing_installs_the_other_adjoint_of_pypi() -> None:
    """`adjoint` on PyPI is somebody else's; ours is `adjoint-autograd`, installed from the checkout."""
    wrong = re.compile(r"pip install[^\n`#]*?[ \"']adjoint(?![-\w./])|(?<![-\w])adjoint\[(?:\w+,?)+\]")
    assert [(path, found[0]) for path, text in texts() for found in wrong.finditer(text)] == []


def test_messages_name_packages_that_the_extras_bring() -> None:
    """An error that needs an optional package says `pip install` and that package's own name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "adjoint-autograd"
    extras = {re.match(r"[\w-]+", line)[0] for lines in project["optional-dependencies"].values() for line in lines}  # type: ignore[index]
    named = {
        (path, package)
        for path, text in texts()
        if path.startswith("adjoint/")
        for package in re.findall(r"pip install ([\w-]+)", text)
    }
    assert named
    assert {(path, package) for path, package in named if package not in extras} == set()


def test_the_install_page_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (DOCS / "install.md").read_text()
    assert [name for name in project["optional-dependencies"] if f"`{name}`" not in page] == []


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


# Words of our own that the pages no longer use, and what they say instead.
RETIRED = {
    r"nobody|somebody|anybody|whoever|no one knows": "no caller, the caller, or a name",
    r"(?:the|on its|their) way back": "backward, the backward pass",
    r"draws of|(?:random|gamma|dropout|Dirichlet) draws?|draws random": "samples, random numbers",
    r"products of matrices|matrix products?": "matrix multiplication",
    r"truth values|truths": "booleans",
    r"lies otherwise|how it lies|lie where|lies? (?:beside|apart)": "memory layout",
    r"strangers?": "untrusted files, other programs",
    r"mended": "fixed",
    r"of a program's own": "custom",
    r"on the host|to the host": "CPU",
    r"(?:functions|layers) that lie": "incorrect gradients",
    r"many processes": "several processes, distributed training",
    r"STYLE\.md|test_house": "no file that the repository lacks",
    r"crew|hired?": "thread pool, start",
}


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")]
PAGES += [*DOCS.glob("course/[0-9]*.py"), *(ROOT / place / "README.md" for place in ("examples", "benchmarks"))]


@pytest.mark.parametrize("words", RETIRED)
def test_pages_use_the_words_of_the_field(words: str) -> None:
    found = [
        f"{page.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for page in PAGES
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if re.search(rf"\b(?:{words})\b", line, re.I)
    ]
    assert not found, f"say {RETIRED[words]}:\n" + "\n".join(found)


# The same for docstrings, comments and messages of the package: how many lines may still have such a word. Lower a
# number when lines are rewritten; none grows.
CODE_WORDS = {
    r"nobody|somebody|whoever|anybody|crew|strangers?|truths|rooms?|house": 0,
    r"way back": 0,
    r"draws?|drew": 7,
    r"lies?|lie": 1,
    r"kept|keeps?": 36,
    r"asks?|asked": 6,
    r"answers?": 1,
    r"hears?|told|tells?": 6,
    r"products of matrices|matrix products?": 0,
    r"the rest": 2,
}


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a module's docstrings, its comments, and its messages: texts of several words."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "{" not in node.value:
            if node.value.count(" ") > 2:
                yield from enumerate(node.value.splitlines(), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.fixture(scope="module")
def prose() -> list[tuple[str, str]]:
    files = sorted((ROOT / "adjoint").rglob("*.py"))
    return [(f"{p.relative_to(ROOT)}:{number}", line) for p in files for number, line in prose_of(p)]


@pytest.mark.parametrize("words", CODE_WORDS)
def test_the_code_uses_the_words_of_the_field(prose: list[tuple[str, str]], words: str) -> None:
    found = [f"{place}: {line.strip()[:100]}" for place, line in prose if re.search(rf"\b(?:{words})\b", line, re.I)]
    most = CODE_WORDS[words]
    assert len(found) <= most, f"{len(found)} lines, {most} are allowed; STYLE's words:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "examples/README.md", "benchmarks/README.md", "CHANGELOG.md"]
)
def test_links_outside_of_the_site_lead_to_files(page: str) -> None:
    """Links between pages of the site are checked by `mkdocs build --strict`."""
    text = (ROOT / page).read_text()
    targets = {target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target}
    here = (ROOT / page).parent
    assert {t for t in targets if t and not (here / t).exists() and not (ROOT / t).exists()} == set()
