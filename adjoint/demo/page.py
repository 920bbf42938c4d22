"""The page that the demo writes: plain HTML with its drawings inside."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence

from ..serialization.atomic import replacing

__all__ = ["curve", "page", "pictures"]

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
