"""Which sample a test is at: programs that go over tables of operators note it, to say it where the test fails."""

from __future__ import annotations

import hashlib
import inspect
import unittest
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .case import set_rng_seed
from .flags import SEED

__all__ = ["TrackedInput", "TrackedInputIter", "clear_tracked_input", "extract_test_fn", "get_tracked_input"]


@dataclass
class TrackedInput:
    """A sample, its number, and what kind of sample it is."""

    index: int
    val: Any
    type_desc: str


_latest: dict[Any, TrackedInput] = {}


def extract_test_fn() -> Callable[..., Any] | None:
    """Return the test that is running, found among the callers."""
    frame = inspect.currentframe()
    while frame is not None:
        case = frame.f_locals.get("self")
        if isinstance(case, unittest.TestCase):
            test = getattr(case, getattr(case, "_testMethodName", ""), None)
            return getattr(test, "__func__", None)
        frame = frame.f_back
    return None


def get_tracked_input() -> TrackedInput | None:
    """Return the sample that the running test is at."""
    return _latest.get(extract_test_fn())


def clear_tracked_input() -> None:
    """Forget the sample that the running test is at."""
    _latest.pop(extract_test_fn(), None)


class TrackedInputIter:
    """Go over samples, each made from the same seed, and note which one a test is at."""

    def __init__(
        self,
        child_iter: Iterable[Any],
        input_type_desc: str,
        item_callback: Callable[[Any, int], Any] | None = None,
        track_callback: Callable[[Any], Any] | None = None,
        set_seed: bool = True,
        restrict_to_index: int | None = None,
    ) -> None:
        self.child_iter, self.input_type_desc = enumerate(child_iter), input_type_desc
        self.item_callback, self.track_callback = item_callback, track_callback
        self.set_seed, self.restrict_to_index = set_seed, restrict_to_index
        self.test_fn = extract_test_fn()

    def __iter__(self) -> Iterator[Any]:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Return the next sample."""
        while True:
            if self.set_seed:
                set_rng_seed(self._seed())
            number, value = next(self.child_iter)
            if self.restrict_to_index not in (None, number):
                continue
            tracked = value if self.track_callback is None else self.track_callback(value)
            if self.test_fn is not None:
                _latest[self.test_fn] = TrackedInput(number, tracked, self.input_type_desc)
            return value if self.item_callback is None else self.item_callback(value, number)

    def _seed(self) -> int:
        if self.test_fn is None:
            return SEED
        digest = hashlib.sha256(self.test_fn.__qualname__.encode()).digest()
        return int.from_bytes(digest[:4], "little")
