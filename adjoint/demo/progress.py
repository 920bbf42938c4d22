"""A progress bar: tqdm's where it is installed, a line of our own otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator

__all__ = ["Progress"]


class Progress:
    """A bar over ``range(count)``, with the latest values behind it.

    Examples
    --------
    >>> from adjoint.demo import Progress
    >>> list(Progress(3, "steps"))
    [0, 1, 2]
    """

    def __init__(self, count: int, what: str) -> None:
        self.count, self.what, self.values = count, what, ""
        try:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            self._bar = None
        else:
            self._bar = tqdm(total=count, desc=what, disable=not sys.stderr.isatty())

    def __iter__(self) -> Iterator[int]:
        for i in range(self.count):
            yield i
            if self._bar is not None:
                self._bar.update()
            elif sys.stderr.isatty():
                self._draw(i + 1)
        if self._bar is not None:
            self._bar.close()

    def _draw(self, done: int) -> None:
        filled = "█" * (30 * done // self.count)
        end = "\n" if done == self.count else ""
        sys.stderr.write(f"\r{self.what} |{filled:<30}| {done}/{self.count} {self.values}\x1b[K{end}")

    def show(self, **values: float) -> None:
        """Show values behind the bar."""
        self.values = " ".join(f"{name}={value:.4g}" for name, value in values.items())
        if self._bar is not None:
            self._bar.set_postfix_str(self.values)
