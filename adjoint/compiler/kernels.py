"""Machine code that programs run: loaded once per process, compiled once per machine and stored on disk."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .._typing import DType
from ..devices import forks
from ..devices.cpu import disk, threads
from ..devices.cpu.pool import pool
from ..devices.cpu.provider import fast_allowed
from ..devices.cpu.sources import inlined
from . import calls


def available() -> bool:
    """Return whether loops can be compiled here."""
    return importlib.util.find_spec("numba") is not None  # which brings llvmlite


class Code:
    """Compiled code by its text."""

    def __init__(self) -> None:
        self.loaded: dict[Any, int] = {}
        self.bindable: dict[Any, Any] = {}  # loops and products, by what they are made of
        self.lock = forks.lock()

    def loop(self, source: str, kinds: Sequence[Any]) -> calls.Loop:
        """Return the loop whose source this is, for arrays of these kinds."""

        def module(symbol: str) -> Any:
            from ..devices.cpu.mathematics import NAMES
            from .machine import Writer

            return Writer(source, kinds, symbol, NAMES).module

        function = self._find((source, tuple(kinds)), module)
        return self.bindable.setdefault(function, calls.Loop(function))

    def pool(self) -> tuple[int, ...] | None:
        """Return the code behind a team, the state of the thread pool and its function; None where there is no pool."""
        found = pool() if fast_allowed() else None
        if found is None:
            return None
        found.grow(threads.count)
        return self._find("team", lambda symbol: calls.TEAM.format(symbol=symbol)), found.state, found.address

    def row(self, *given: calls.Call) -> calls.Row:
        """Return calls as one that runs them one after the other."""
        runner = self._find("row", lambda symbol: calls.ROW.format(symbol=symbol))
        return calls.Row(runner, *given)

    def product(self, dtype: DType, words: tuple[int, ...]) -> calls.Product | None:
        """Return the matrix multiplication for a layout in `words`, None where NumPy's BLAS is not known."""
        gemm = calls.gemm_of(dtype)
        if gemm is None:
            return None
        kind = {"float32": "float", "float64": "double"}[dtype.name]
        function = self._find(f"{kind} product", lambda s: calls.product_text(s, kind))
        return self.bindable.setdefault((function, words), calls.Product(function, gemm, words))

    def _find(self, text: Any, module: Callable[[str], Any]) -> int:
        with self.lock:
            found = self.loaded.get(text)
            if found is None:
                found = self.loaded[text] = _load(text, module)
            return found


def _load(text: str, module: Callable[[str], Any]) -> int:
    """Return the address of code, from the disk if it is stored there, else compiled."""
    from .machine import machine

    key = repr((text, machine().name)).encode() + inlined() + _translator()
    symbol, place = f"adjoint_{hashlib.sha256(key).hexdigest()[:24]}", disk.folder()
    path = None if place is None else place / f"{symbol}.o"
    found = None if path is None else disk.read(path, key)
    if found is None:
        found = machine().compile(module(symbol))
        if path is not None:
            disk.write(path, key, found)
    return machine().load(found, symbol)


@cache
def _translator() -> bytes:
    """Return the text of what makes code: it is another where these are others."""
    return b"".join((Path(__file__).parent / name).read_bytes() for name in ("machine.py", "calls.py"))


code = Code()
