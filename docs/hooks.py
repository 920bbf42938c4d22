"""What mkdocs calls: the notebooks as pages, the public functions of a file of ops, the list of primitives."""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

import adjoint
from adjoint.core.nodes import registry
from adjoint.nn import functional

_OPS = re.compile(r"^::: adjoint\.ops\.(\w+)\n    options: \{ ", re.M)
_MATH = re.compile(r"(?P<code>```.*?```|`[^`\n]+`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+?)\$", re.S)
NOTEBOOKS = Path(__file__).parent / "notebooks"


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


def on_files(files: Any, config: Any) -> Any:
    """Add a page `course/NAME.md` for each notebook."""
    from mkdocs.structure.files import File

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"course/{path.stem}.md", content=page_of(path)))
    return files


def page_of(path: Path) -> str:
    """Return a notebook as Markdown, its outputs included."""
    cells = json.loads(path.read_text())["cells"]
    parts = [f"*This page is [a notebook](../notebooks/{path.name}) that you can run and change.*"]
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(with_collapsible_markdown(source))
        elif source.strip():
            parts.append(f"```python\n{source}\n```")
            parts += [shown for output in cell["outputs"] for shown in outputs_of(output)]
    # The title of the notebook stays on top; the line about the notebook follows it.
    title, _, rest = parts[1].partition("\n")
    return "\n\n".join([title, parts[0], rest, *parts[2:]])


def with_collapsible_markdown(source: str) -> str:
    """Let Markdown inside of <details> be rendered."""
    return re.sub(r"<details><summary>(.*?)</summary>", r'<details markdown="1"><summary>\1</summary>', source)


def outputs_of(output: dict[str, Any]) -> Iterator[str]:
    """Yield what a cell printed, showed or returned."""
    if "text" in output:
        yield f"```{{.text .output}}\n{''.join(output['text']).rstrip()}\n```"
        return
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
    if "image/svg+xml" in data:
        picture = base64.b64encode(data["image/svg+xml"].encode()).decode()
        yield f'<img class="output" alt="the picture that the cell draws" src="data:image/svg+xml;base64,{picture}">'
    elif "image/png" in data:
        picture = data["image/png"].replace("\n", "")
        yield f'<img class="output" alt="the picture that the cell draws" src="data:image/png;base64,{picture}">'
    elif "text/html" in data:
        yield f'<div class="output">{data["text/html"]}</div>'
    elif "text/plain" in data:
        yield f"```{{.text .output}}\n{data['text/plain']}\n```"


def with_math(markdown: str) -> str:
    """Replace TeX between dollar signs by MathML, which browsers draw without a script."""
    from latex2mathml.converter import convert

    def one(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        tex = found["block"] or found["inline"]
        # Inside of a list or a quote, lines of a formula start with what marks these; a formula is one line here.
        math = convert(" ".join(tex.split()), display="block" if found["block"] else "inline")
        return f'\n<div class="math">{math}</div>\n' if found["block"] else f'<span class="math">{math}</span>'

    return _MATH.sub(one, markdown)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name the public members of the files of ops that a page shows, list the primitives, set formulas."""
    markdown = markdown.replace("<!-- primitives -->", f"```text\n{fill(' '.join(sorted(registry)), 120)}\n```")
    markdown = _OPS.sub(lambda m: f"{m[0]}members: [{', '.join(offered(m[1]))}], ", markdown)
    return with_math(markdown) if "$" in markdown else markdown
