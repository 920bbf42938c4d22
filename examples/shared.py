"""What the examples share: their command line, a progress bar, drawn digits, and a text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import adjoint as torch


def settings(description: str) -> argparse.Namespace:
    """Read the command line, and seed the random numbers."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--short", action="store_true", help="a few seconds only")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args()
    torch.manual_seed(said.seed)
    return said


class Progress:
    """A progress bar over ``range(count)`` with the latest values behind it: tqdm's, or a line of our own."""

    def __init__(self, count: int, what: str) -> None:
        self.count, self.what, self.values = count, what, ""
        try:
            from tqdm import tqdm
        except ImportError:
            self.bar = None
        else:
            self.bar = tqdm(total=count, desc=what, leave=True)

    def __iter__(self) -> Iterator[int]:
        for i in range(self.count):
            yield i
            if self.bar is not None:
                self.bar.update()
            elif sys.stderr.isatty():
                done = 30 * (i + 1) // self.count
                end = "\n" if i + 1 == self.count else ""
                sys.stderr.write(f"\r{self.what} [{'#' * done:<30}] {i + 1}/{self.count} {self.values}{end}")
        if self.bar is not None:
            self.bar.close()

    def show(self, **values: float) -> None:
        """Show values behind the bar."""
        self.values = " ".join(f"{name}={value:.4g}" for name, value in values.items())
        if self.bar is not None:
            self.bar.set_postfix_str(self.values)


FONT = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... ....# ...#. #...# #...# .#... #...# ....#
.###. .###. ##### ####. ...#. .###. .###. .#... .###. .###.
"""


def digits(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw digits 12 x 12: of varying place, stroke and brightness, with noise. Return images and labels."""
    rows = [line.split() for line in FONT.strip().splitlines()]
    glyphs = torch.tensor([[[float(c == "#") for c in row[d]] for row in rows] for d in range(10)])
    labels = torch.randint(0, 10, (count,))
    images = torch.zeros(count, 1, 12, 12)
    places = torch.randint(1, 4, (count, 2)).tolist()
    for image, label, (top, left) in zip(images, labels.tolist(), places, strict=True):
        image[0, top : top + 7, left : left + 5] = glyphs[label]
    thick = torch.nn.functional.max_pool2d(images, 2, stride=1, padding=1)[..., :12, :12]
    images = torch.where(torch.rand(count, 1, 1, 1) < 0.3, thick, images)
    return images * (0.6 + 0.4 * torch.rand(count, 1, 1, 1)) + 0.15 * torch.randn(count, 1, 12, 12), labels


def text() -> str:
    """Return six of Shakespeare's sonnets."""
    return (Path(__file__).parent / "data" / "sonnets.txt").read_text()
