"""One side of a case, eager or compiled."""

from __future__ import annotations

from typing import Any

CALLS = 6


class World:
    """Everything that a program uses, made from a seed; it must look the same after every call on both sides."""

    way = ""

    def compile(self, **options: Any) -> Any:
        """Compile in the way that the seed says, and return what was compiled."""
        raise NotImplementedError

    def call(self, number: int) -> dict[str, Any]:
        """Change something, make call `number` on new data, and return what came of it."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return what the calls so far have left behind."""
        raise NotImplementedError
