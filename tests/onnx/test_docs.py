"""docs/deploy.md: its table says what the package does; ``python -m tests.onnx.test_docs`` writes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adjoint.core.nodes import registry

pytest.importorskip("onnx", reason="the onnx package is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from adjoint.onnx.operators import OPERATORS

from .test_forms import tried

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
GRADIENTS = re.compile(
    r"_back(ward)?$|^un(index|gather|embedding|diagonal)$|slope$|_grad$|^(assemble|place|share|refold|conv_weight|cofactors"
    r"|bad_minors|recur|where_largest|where_largest_at|nll_back|col2im|standard_gamma_grad|attention_dropout_mask)$"
)


def table() -> str:
    """Return the part of the page that is generated."""
    found: dict[str, list[str]] = {"exported": [], "no ONNX form": [], "random, or of a shape that depends on data": []}
    for name in sorted(registry):
        if GRADIENTS.search(name) or re.match(r"aten|custom|mine", name):
            continue
        said = tried(name)
        if said == "exact":
            found["exported"].append(name)
        elif "random numbers" in said or "depends on" in said:
            found["random, or of a shape that depends on data"].append(name)
        elif said != "no sample":
            found["no ONNX form"].append(name)
    rows = [f"| {what} ({len(names)}) | {', '.join(f'`{n}`' for n in names)} |" for what, names in found.items()]
    read = ", ".join(f"`{n}`" for n in sorted(OPERATORS))
    return "\n".join(
        ["| primitives | |", "|---|---|", *rows, f"| operators that `load` runs ({len(OPERATORS)}) | {read} |"]
    )


def test_the_table_is_what_the_package_does() -> None:
    written = PAGE.read_text().split("<!-- operators -->\n")[1].split("<!-- end -->")[0].strip()
    # primitives of other tests may be registered in this process: the page must not miss or invent one
    for ours, said in zip(table().split("\n"), written.split("\n"), strict=True):
        missing = set(re.findall(r"`(\w+)`", said)) ^ set(re.findall(r"`(\w+)`", ours))
        assert not missing, f"python -m tests.onnx.test_docs writes the table anew: {sorted(missing)}"


if __name__ == "__main__":
    head, rest = PAGE.read_text().split("<!-- operators -->\n")
    PAGE.write_text(f"{head}<!-- operators -->\n{table()}\n<!-- end -->{rest.split('<!-- end -->')[1]}")
