"""Make the notebooks of the course from the programs in this folder, and run them.

Each program is in the percent format of jupytext: `# %%` starts a cell of code, `# %% [markdown]` one of text.

    python docs/course/build.py            # run all and write docs/notebooks/*.ipynb
    python docs/course/build.py 03 07      # only these
    python docs/course/build.py --check    # run all; fail if a cell raises, or if a notebook's cells are not the program's
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
NOTEBOOKS = HERE.parent / "notebooks"
# Pictures as SVG, with text that stays text and names that do not change from run to run.
SETUP = """\
import matplotlib
%config InlineBackend.figure_formats = ['svg']
%config InlineBackend.rc = {'svg.hashsalt': 'adjoint', 'svg.fonttype': 'none'}
"""


def executed(program: Path) -> Any:
    """Return a program as a notebook with the outputs of its cells; a cell that raises is an error."""
    notebook = jupytext.read(program, fmt="py:percent")
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    setup = nbformat.v4.new_code_cell(SETUP)
    notebook.cells.insert(0, setup)
    client = NotebookClient(notebook, timeout=300, coalesce_streams=True, resources={"metadata": {"path": str(HERE)}})
    client.execute()
    notebook.cells.remove(setup)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [shown(output) for output in cell.outputs]
    return notebook


def shown(output: Any) -> Any:
    """Return an output without what differs from run to run: addresses of objects, counts, names of temporary files."""
    if "execution_count" in output:
        output.execution_count = None
    output.metadata = {}
    text = output.get("text")
    if text:
        output.text = readable(text)
    data = output.get("data", {})
    if "text/plain" in data:
        data["text/plain"] = readable(data["text/plain"])
    if "image/svg+xml" in data:
        data.pop("text/plain", None)
        data["image/svg+xml"] = re.sub(r"<metadata>.*?</metadata>\s*", "", data["image/svg+xml"], flags=re.S)
    return output


def readable(text: str) -> str:
    text = re.sub(r"0x[0-9a-f]{8,}", "0x...", text)
    return re.sub(r"\S*ipykernel_\d+/\d+\.py", "cell", text)


def cells(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def main(arguments: list[str]) -> int:
    check, chosen, stale = "--check" in arguments, [a for a in arguments if a != "--check"], []
    for program in sorted(HERE.glob("[0-9]*.py")):
        if chosen and not any(program.name.startswith(name) for name in chosen):
            continue
        notebook, target = executed(program), NOTEBOOKS / f"{program.stem}.ipynb"
        if not check:
            NOTEBOOKS.mkdir(exist_ok=True)
            nbformat.write(notebook, target)
        elif not target.exists() or cells(nbformat.read(target, as_version=4)) != cells(notebook):
            stale.append(program.name)
        print(f"{program.name}: {len(notebook.cells)} cells", flush=True)
    for name in stale:
        print(f"docs/notebooks is older than docs/course/{name}: run python docs/course/build.py")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
