"""What notebooks show: HTML for tensors, modules, explanations and tables, from plain values."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["bars", "cell_of", "picture", "preformatted", "tree"]


def cell_of(filename: str) -> str | None:
    """Return ``In[3]`` for the file name that IPython gives to cell 3; None for any other file."""
    if "ipykernel" not in filename and not filename.startswith("<ipython-input-"):
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(filename)
    if number is None and filename.startswith("<ipython-input-"):
        number = filename.split("-")[2]
    return None if number is None else f"In[{number}]"


def preformatted(heading: str, text: str) -> str:
    """Return a heading and a text as it is."""
    import html  # here, as below: `import adjoint` stays quick

    return f"<div><b>{html.escape(heading)}</b><pre style='margin:2px 0'>{html.escape(text)}</pre></div>"


def tree(name: str, facts: str, children: Sequence[str], opened: bool) -> str:
    """Return a node that folds, with its children, which are HTML already."""
    import html

    line = f"<b>{html.escape(name)}</b> <span style='opacity:.7'>{html.escape(facts)}</span>"
    if not children:
        return f"<div style='margin-left:1.2em;font:13px ui-monospace,monospace'>{line}</div>"
    return (
        f"<details {'open' if opened else ''} style='margin-left:1em;font:13px ui-monospace,monospace'>"
        f"<summary>{line}</summary>{''.join(children)}</details>"
    )


def bars(counts: Sequence[int], low: float, high: float, width: int = 360, height: int = 120) -> str:
    """Return an SVG of a histogram."""
    most, step = max([*counts, 1]), width / max(1, len(counts))
    shapes = "".join(
        f'<rect x="{i * step:.1f}" y="{height * (1 - c / most):.1f}" width="{max(step - 1, 0.5):.1f}" '
        f'height="{height * c / most:.1f}" fill="#4051b5"><title>{c}</title></rect>'
        for i, c in enumerate(counts)
    )
    words = 'font-family="system-ui" font-size="11" fill="#777"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + 18}" role="img" '
        f'aria-label="histogram">{shapes}<path d="M0,{height}H{width}" stroke="#999"/>'
        f'<text x="0" y="{height + 14}" {words}>{low:.4g}</text>'
        f'<text x="{width}" y="{height + 14}" text-anchor="end" {words}>{high:.4g}</text></svg>'
    )


def png(rows: bytes, width: int, height: int, channels: int) -> bytes:
    """Return a PNG of gray or colored bytes, row by row; two and four channels have a transparency last."""
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    line = width * channels
    lines = b"".join(b"\0" + rows[i * line : (i + 1) * line] for i in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def picture(rows: bytes, width: int, height: int, channels: int, scale: int) -> str:
    """Return an image element of gray or colored bytes, row by row, as a PNG inside the page."""
    import base64

    encoded = base64.b64encode(png(rows, width, height, channels)).decode()
    style = f"width:{width * scale}px;image-rendering:pixelated"
    return f'<img style="{style}" src="data:image/png;base64,{encoded}">'
