"""The newcomer's command: a small network learns to read digits, and a page shows how."""

from __future__ import annotations

import contextlib
import html
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from . import nn as layers
from . import optim
from .autograd.grad_mode import no_grad
from .nn.functional import max_pool2d
from .ops.create import tensor, zeros
from .ops.piecewise import where
from .ops.random import manual_seed, rand, randint, randn
from .serialization.sources import replacing
from .utils.data import DataLoader, TensorDataset
from .viz import graph

__all__ = ["Progress", "curve", "demonstrate", "digits", "page", "pictures"]


_FONT = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... ....# ...#. #...# #...# .#... #...# ....#
.###. .###. ##### ####. ...#. .###. .###. .#... .###. .###.
"""


def digits(count: int) -> tuple[Any, Any]:
    """Make images of digits of 12 x 12 points, of varying place, stroke and brightness, with noise.

    Returns
    -------
    tuple
        The images, ``[count, 1, 12, 12]``, and which digits they are, ``[count]``.
    """
    rows = [line.split() for line in _FONT.strip().splitlines()]
    glyphs = tensor([[[float(c == "#") for c in row[d]] for row in rows] for d in range(10)])
    labels = randint(0, 10, (count,))
    images = zeros(count, 1, 12, 12)
    places = randint(1, 4, (count, 2)).tolist()
    for image, label, (top, left) in zip(images, labels.tolist(), places, strict=True):
        image[0, top : top + 7, left : left + 5] = glyphs[label]
    thick = max_pool2d(images, 2, stride=1, padding=1)[..., :12, :12]
    images = where(rand(count, 1, 1, 1) < 0.3, thick, images)
    return images * (0.6 + 0.4 * rand(count, 1, 1, 1)) + 0.15 * randn(count, 1, 12, 12), labels


class Progress:
    """A bar over ``range(count)``, with the latest values behind it; without a terminal, a line every few seconds.

    Examples
    --------
    >>> from adjoint.demo import Progress
    >>> list(Progress(3, "steps"))
    [0, 1, 2]
    """

    seconds = 5.0  # between two lines where there is no terminal

    def __init__(self, count: int, what: str) -> None:
        self.count, self.what, self.values = count, what, ""
        self._bar: Any = None
        self._terminal = sys.stderr.isatty()
        self._started = self._printed = time.monotonic()
        if self._terminal:
            with contextlib.suppress(ImportError):
                from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

                self._bar = tqdm(total=count, desc=what)

    def __iter__(self) -> Iterator[int]:
        for i in range(self.count):
            yield i
            if self._bar is not None:
                self._bar.update()
            elif self._terminal:
                self._draw(i + 1)
            else:
                self._print(i + 1)
        if self._bar is not None:
            self._bar.close()

    def _print(self, done: int) -> None:
        """Print a line if the last one, or the start, was long enough ago."""
        now = time.monotonic()
        if now - self._printed < self.seconds:
            return
        self._printed = now
        part = f"{self.what} {done}/{self.count} ({done / self.count:.0%}), {now - self._started:.0f} s"
        sys.stderr.write(f"{part} {self.values}".rstrip() + "\n")
        sys.stderr.flush()

    def _draw(self, done: int) -> None:
        filled = "█" * (30 * done // self.count)
        end = "\n" if done == self.count else ""
        sys.stderr.write(f"\r{self.what} |{filled:<30}| {done}/{self.count} {self.values}\x1b[K{end}")

    def show(self, **values: float) -> None:
        """Show values behind the bar."""
        self.values = " ".join(f"{name}={value:.4g}" for name, value in values.items())
        if self._bar is not None:
            self._bar.set_postfix_str(self.values)


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 860px; margin: 2rem auto; padding: 0 1rem; color: #222; }
svg { max-width: 100%; height: auto; } .axis { stroke: #999; } .line { fill: none; stroke: #4051b5; stroke-width: 2; }
.faint { fill: none; stroke: #4051b5; stroke-opacity: .25; } text { font: 12px system-ui, sans-serif; fill: #555; }
iframe { width: 100%; height: 640px; border: 1px solid #ddd; }
"""


def _smooth(values: Sequence[float], over: int = 15) -> list[float]:
    return [sum(values[max(0, i - over) : i + 1]) / len(values[max(0, i - over) : i + 1]) for i in range(len(values))]


def curve(losses: Sequence[float], width: int = 820, height: int = 260) -> str:
    """Return an SVG of the loss over the steps."""
    top = max(losses)

    def path(values: Sequence[float]) -> str:
        points = (
            f"{40 + (width - 60) * i / max(1, len(values) - 1):.1f},{20 + (height - 60) * (1 - v / top):.1f}"
            for i, v in enumerate(values)
        )
        return " ".join(points)

    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="loss over steps">'
        f'<path class="axis" fill="none" d="M40 20V{height - 40}H{width - 20}"/>'
        f'<polyline class="faint" points="{path(losses)}"/><polyline class="line" points="{path(_smooth(losses))}"/>'
        f'<text x="4" y="26">{top:.2f}</text><text x="22" y="{height - 36}">0</text>'
        f'<text x="{width - 20}" y="{height - 22}" text-anchor="end">{len(losses)} steps</text></svg>'
    )


def pictures(images: Sequence[Sequence[Sequence[float]]], read: Sequence[int], labels: Sequence[int]) -> str:
    """Return an SVG of images with what was read under each; what was read wrong is red."""
    parts = []
    for at, (image, digit, label) in enumerate(zip(images, read, labels, strict=True)):
        x0, y0 = 80 * (at % 10), 92 * (at // 10)
        for y, row in enumerate(image):
            for x, value in enumerate(row):
                shade = 255 - round(255 * min(1.0, max(0.0, value)))
                place = f'x="{x0 + 6 * x}" y="{y0 + 6 * y}" width="6" height="6"'
                parts.append(f'<rect {place} fill="rgb({shade},{shade},{shade})"/>')
        color = "#555" if digit == label else "#d22"
        parts.append(f'<text x="{x0 + 36}" y="{y0 + 86}" text-anchor="middle" style="fill:{color}">{digit}</text>')
    rows = -(-len(images) // 10)
    return f'<svg viewBox="0 0 800 {92 * rows}" role="img" aria-label="digits and what was read">{"".join(parts)}</svg>'


def page(path: str, right: float, seconds: float, loss: str, samples: str, graph: str) -> str:
    """Write the page; return its full path."""
    drawn = f'<iframe title="graph" srcdoc="{html.escape(graph)}"></iframe>'
    text = (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>adjoint demo</title><style>{_STYLE}</style>"
        f"<h1>A network that reads digits</h1><p>Trained in {seconds:.1f} s on NumPy; it reads {right:.1%} of 500 "
        f"digits that it had not seen.</p><h2>Loss</h2>{loss}<h2>What it reads</h2>{samples}"
        "<h2>The graph of one step</h2><p>Each op that ran left a node; <code>backward()</code> follows them.</p>"
        f"{drawn}</html>"
    )
    with replacing(path) as stream:
        stream.write(text.encode())
    return os.path.abspath(path)


nn: Any = layers


def demonstrate(out: str | os.PathLike[str] = "adjoint-demo.html", short: bool = False) -> float:
    """Train a network to read digits, show what it reads, and write a page with its loss and its graph.

    Parameters
    ----------
    out
        Where the page goes.
    short
        Whether a few seconds are all there is.

    Returns
    -------
    float
        How many of the digits that it had not seen it reads right.
    """
    manual_seed(0)
    images, labels = digits(2000 if short else 6000)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(144, 10),
    )  # fmt: skip
    count = sum(p.numel() for p in model.parameters())
    print(f"A network of {count:,} parameters learns to read {len(labels):,} drawn digits, on NumPy alone:")
    started = time.perf_counter()
    losses = _trained(model, images, labels, 6 if short else 10)
    seconds = time.perf_counter() - started
    test_images, test_labels = digits(500)
    with no_grad():
        read = model(test_images).argmax(1)
    right = float((read == test_labels).float().mean())
    print(
        f"\nIt reads {right:.1%} of 500 digits that it had not seen, after {seconds:.1f} s and {len(losses)} steps.\n"
    )
    _print_samples(test_images[:5], read[:5].tolist())
    samples = pictures(test_images[:30, 0].tolist(), read[:30].tolist(), test_labels[:30].tolist())
    written = page(os.fspath(out), right, seconds, curve(losses), samples, _graph(model, images[:8], labels[:8]))
    print(f"The loss curve, the digits and the graph of one step are in {written}")
    return right


def _trained(model: Any, images: Any, labels: Any, epochs: int) -> list[float]:
    """Train a model; return the loss of every step."""
    loader: DataLoader[Any] = DataLoader(TensorDataset(images, labels), batch_size=50, shuffle=True)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    losses: list[float] = []
    bar = Progress(epochs * len(loader), "training")
    steps = iter(bar)
    for _ in range(epochs):
        for batch, wanted in loader:
            next(steps)
            loss = nn.functional.cross_entropy(model(batch), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            bar.show(loss=losses[-1])
    next(steps, None)
    return losses


def _print_samples(images: Any, read: Sequence[int]) -> None:
    rows = images[:, 0].clamp(0, 1).tolist()
    for line in range(12):
        print("   ".join("".join(" ░▒▓█"[round(4 * value)] * 2 for value in image[line]) for image in rows))
    print("   ".join(f"{f'reads {digit}':^24}" for digit in read) + "\n")


def _graph(model: Any, images: Any, labels: Any) -> str:
    """Return the page that shows the graph of one step."""
    return graph(nn.functional.cross_entropy(model(images), labels), params=model, title="One step")
