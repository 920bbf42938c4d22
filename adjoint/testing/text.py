"""`FileCheck`: does a text contain these lines, in this order."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["FileCheck"]


class _Wanted(NamedTuple):
    kind: str
    text: str
    times: int = 0
    exactly: bool = False


class FileCheck:
    r"""Checks of a text; each starts after the match of the previous one.

    Examples
    --------
    >>> adjoint.testing.FileCheck().check("add").check_not("mul").check_next("return").run("y = add(x)\nreturn y")
    """

    def __init__(self) -> None:
        self._wanted: list[_Wanted] = []

    def _and(self, *wanted: Any) -> FileCheck:
        self._wanted.append(_Wanted(*wanted))
        return self

    def check(self, test_string: str) -> FileCheck:
        """Say that this comes next, however far away."""
        return self._and("check", re.escape(test_string))

    def check_regex(self, pattern: str) -> FileCheck:
        """Say that what matches a pattern comes next."""
        return self._and("check", pattern)

    def check_not(self, test_string: str) -> FileCheck:
        """Say that this does not stand between the statements before and after."""
        return self._and("not", re.escape(test_string))

    def check_same(self, test_string: str) -> FileCheck:
        """Say that this follows in the same line."""
        return self._and("same", re.escape(test_string))

    def check_next(self, test_string: str) -> FileCheck:
        """Say that this stands in the next line."""
        return self._and("next", re.escape(test_string))

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> FileCheck:
        """Say that this comes so many times, and with `exactly` not once more."""
        return self._and("count", re.escape(test_string), count, exactly)

    def check_dag(self, test_string: str) -> FileCheck:
        """Say that this is somewhere after the statements before; those of a group may come in any order."""
        return self._and("dag", re.escape(test_string))

    def run(self, test_file: Any) -> None:
        """Raise RuntimeError unless a text is as the statements say."""
        text, at, group_end = str(test_file), 0, 0
        forbidden: list[str] = []
        for wanted in self._wanted:
            if wanted.kind == "not":
                forbidden.append(wanted.text)
                continue
            found = self._find(wanted, text, at)
            for pattern in forbidden:
                self._refuse(pattern, text[at : found[0]])
            forbidden = []
            group_end = max(group_end, found[1])
            at = at if wanted.kind == "dag" else max(found[1], group_end)
        for pattern in forbidden:
            self._refuse(pattern, text[max(at, group_end) :])

    def _refuse(self, pattern: str, part: str) -> None:
        if re.search(pattern, part):
            raise RuntimeError(f"Expected to not find {pattern!r} but found it in:\n{part}")

    def _find(self, wanted: _Wanted, text: str, at: int) -> tuple[int, int]:
        start, end = at, len(text)
        if wanted.kind in ("same", "next"):
            line_end = text.find("\n", at)
            line_end = len(text) if line_end < 0 else line_end
            if wanted.kind == "next":
                start = min(line_end + 1, len(text))
                line_end = text.find("\n", start)
            end = len(text) if line_end < 0 else line_end
        first: int | None = None
        for _ in range(max(wanted.times, 1)):
            match = re.compile(wanted.text).search(text, start, end)
            if match is None:
                raise RuntimeError(f"Expected to find {wanted.text!r} but did not find it in:\n{text[at:end]}")
            first = match.start() if first is None else first
            start = match.end()
        if wanted.exactly:
            self._refuse(wanted.text, text[start:])
        return first or 0, start
