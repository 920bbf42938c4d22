"""The page docs/loading.md lists what the loader's tables allow: all of it, and nothing else."""

from __future__ import annotations

import pickletools
import re
from pathlib import Path

from adjoint.serialization import allowed, machine, structure

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "loading.md").read_text()


def section(title: str) -> str:
    """Return what stands under a heading of the page."""
    return re.split(r"^## ", PAGE.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def first_column(text: str) -> list[str]:
    """Return the words in code of a table's first column."""
    rows = re.findall(r"^\| (`.*?) \|", text, re.M)
    return [word for row in rows for word in re.findall(r"`(.*?)`", row)]


def test_the_names_on_the_page_are_those_of_the_table() -> None:
    listed = first_column(section("Names"))
    assert len(listed) == len(set(listed))
    assert set(listed) == {f"{module}.{name}" for module, name in allowed.ALLOWED}


def test_the_opcodes_on_the_page_are_those_of_the_machine() -> None:
    names = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
    listed = first_column(section("Opcodes"))
    assert len(listed) == len(set(listed))
    assert set(listed) == {names[code] for code in machine._STEPS} | {"STOP"}
    refused = re.findall(r"`(\w+)`", section("Opcodes").split("Not known")[1])
    assert set(refused) | set(listed) == set(names.values())


def test_the_kinds_on_the_page_are_those_of_the_format() -> None:
    text = section("Kinds in adjoint's own format").split("kinds:")[1]
    assert set(re.findall(r"`(\w+)`", text)) == set(structure._MAKERS)


def test_the_factories_on_the_page_are_those_of_the_table() -> None:
    text = section("Names").split("factory is")[1].split("|")[0]
    assert set(re.findall(r"`(\w+)`", text)) == set(allowed._FACTORIES)


def test_the_limits_on_the_page_are_those_of_the_machine() -> None:
    assert machine._LONGEST_INTEGER == 1024 and "1,024 bytes" in PAGE
    assert machine._LONGEST_NAME == 500 and "500 characters" in PAGE
    assert machine._ROOM == 64 and "64 bytes of objects" in PAGE and machine._FREE == 16 << 20
