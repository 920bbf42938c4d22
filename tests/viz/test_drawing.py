"""Pictures of graphs: what they contain, and that a browser shows them, ten thousand nodes included."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint import nn


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x: Any) -> Any:
        return x + self.b(adjoint.relu(self.a(x)))


def profiled(blocks: int) -> tuple[Any, Any, Any]:
    net = nn.Sequential(*[Block(4) for _ in range(blocks)])
    with adjoint.profiler.profile(with_modules=True) as prof:
        loss = net(adjoint.randn(2, 4)).sum()
        loss.backward(retain_graph=True)
    return net, loss, prof


def data_of(page: str) -> Any:
    text = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert text is not None
    return json.loads(text.group(1))


def test_nodes_edges_bytes_groups_and_lines() -> None:
    x = adjoint.ones(2, 3, requires_grad=True)
    y = (x * 2).sin()
    page = adjoint.viz.graph((y * y).sum(), params={"x": x})
    data = data_of(page)
    names = [n[0] for n in data["nodes"]]
    assert names == ["SumBackward0", "MulBackward0", "SinBackward0", "MulBackward0", "x [2, 3]"]
    assert [n[6] for n in data["nodes"]] == [[1], [2], [3], [4], []]
    assert [n[2] for n in data["nodes"]] == [0, 1, 2, 3, 4]
    kept = {n[0]: n[3] for n in data["nodes"][1:3]}
    assert kept == {"MulBackward0": 24, "SinBackward0": 24}
    assert data["groups"] == ["test_nodes_edges_bytes_groups_and_lines", "leaves"]
    assert all("test_drawing.py" in n[5] for n in data["nodes"][:4])
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # needs nothing from elsewhere


def test_a_profile_gives_modules_times_and_the_hot_path() -> None:
    net, loss, prof = profiled(2)
    data = data_of(adjoint.viz.graph(loss, params=net, profile=prof))
    assert {"Sequential.0", "Sequential.0.a", "Sequential.1.b"} <= set(data["groups"])
    of = {n[0]: data["groups"][n[1]] for n in data["nodes"]}
    assert of["0.a.weight [4, 4]"] == "Sequential.0.a" and of["1.b.bias [4]"] == "Sequential.1.b"
    assert {data["groups"][n[1]] for n in data["nodes"] if n[0] == "TBackward0"} == {
        f"Sequential.{i}.{name}" for i in (0, 1) for name in "ab"
    }
    hot = sorted((n for n in data["nodes"] if n[7]), key=lambda n: n[7])
    assert hot[0][0] == "SumBackward0" and [n[7] for n in hot] == list(range(1, len(hot) + 1))
    assert sum(n[4] for n in data["nodes"]) > 0
    assert any(n[0] == "1.a.weight [4, 4]" for n in data["nodes"])


def test_shapes_values_and_gradient_norms_of_a_pass() -> None:
    x = adjoint.tensor([3.0, 4.0], requires_grad=True)
    loss = (x * x).sum()
    nodes = data_of(adjoint.viz.graph(loss, params={"x": x}))["nodes"]
    assert [n[8:10] for n in nodes] == [["float32[]", "1"], ["float32[2]", "1.41"], ["float32[2]", "10"]]
    assert "[3.0, 4.0]" in nodes[1][10] and x.grad is None
    plain = data_of(adjoint.viz.graph(loss, gradients=False))["nodes"]
    assert [n[8:11] for n in plain] == [["", None, ""]] * 3
    loss.backward()
    freed = data_of(adjoint.viz.graph(loss))["nodes"]
    assert [n[8] for n in freed] == ["", "", "float32[2]"]


def test_dot() -> None:
    x = adjoint.ones(2, requires_grad=True)
    text = adjoint.viz.dot((x * 2).sum(), params=[('a "name"', x)])
    assert text.startswith("digraph backward {") and text.endswith("}\n")
    assert "n0 -> n1;" in text and "MulBackward0" in text and 'a \\"name\\" [2]' in text
    assert text.count("{") == text.count("}")


def test_several_outputs_leaves_and_no_graph() -> None:
    x = adjoint.ones(4, requires_grad=True)
    a, b = x.split(2)
    names = [n[0] for n in data_of(adjoint.viz.graph((a * b).sum()))["nodes"]]
    assert names.count("SplitBackward0") == 1 or any("Split" in n for n in names)
    assert [n[0] for n in data_of(adjoint.viz.graph(x))["nodes"]] == ["leaf [4]"]
    assert data_of(adjoint.viz.graph(x.detach()))["nodes"] == []


def test_text_from_the_program_cannot_leave_the_data() -> None:
    x = adjoint.ones(2, requires_grad=True)
    page = adjoint.viz.graph((x * 2).sum(), params={"</script><b>": x}, title="<i>")
    assert "</script><b>" not in page and "<i>" not in page
    assert data_of(page)["nodes"][-1][0] == "</script><b> [2]"


# --- In a browser -----------------------------------------------------------------------------------

_browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
in_browser = pytest.mark.skipif(_browser is None, reason="no Chromium here to look at the page with")


def seen(path: Path, link: str = "") -> str:
    """Return the page as the browser has it after its script ran."""
    run = subprocess.run(
        [
            str(_browser), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom",
            f"{path.as_uri()}{link}",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return run.stdout


def attribute(dom: str, name: str) -> int:
    value = re.search(rf'<body[^>]*data-{name}="(\d+)"', dom)
    assert value is not None, "the page's script did not run to its end"
    return int(value.group(1))


@in_browser
def test_the_page_in_chromium(tmp_path: Path) -> None:
    x = adjoint.ones(2, requires_grad=True)
    path = tmp_path / "page.html"
    adjoint.viz.graph(((x * 2).sin() * x).sum(), path, params={"x": x})
    dom = seen(path)
    assert attribute(dom, "boxes") == 5 and dom.count("<rect") == 5
    assert ">SinBackward0<" in dom and ">x [2]<" in dom and "5 nodes, 2 groups, 20 B saved" in dom


def screenshot(path: Path, *options: str) -> Any:
    """Return the pixels that the browser paints for a page, ``[height, width, channels]``."""
    picture = path.with_suffix(".png")
    subprocess.run(
        [
            str(_browser), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", "--disable-quic", *options,
            "--window-size=600,500", "--virtual-time-budget=3000", f"--screenshot={picture}", path.as_uri(),
        ],
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    return decoded(picture.read_bytes())


def decoded(png: bytes) -> Any:
    """Return the pixels of a PNG of 8 bits a channel: no package that reads images is among those for the tests."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8 and kind in (2, 6)
    size, data, at = {2: 3, 6: 4}[kind], b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        data += png[at + 8 : at + 8 + length] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    raw = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * size)
    above, rows = [0] * (width * size), []
    for line in raw.tolist():
        row = unfiltered(line[0], line[1:], above, size)
        rows.append(row)
        above = row
    return np.array(rows, np.uint8).reshape(height, width, size)


def unfiltered(kind: int, row: list[int], above: list[int], size: int) -> list[int]:
    """Undo the filter of one row of a PNG; `row` is written."""
    for i, value in enumerate(row):
        left, up, corner = (row[i - size], above[i], above[i - size]) if i >= size else (0, above[i], 0)
        row[i] = (value + (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind]) & 255
    return row


def paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda v: abs(guess - v))


def painted(pixels: Any) -> tuple[int, float]:
    """Return the number of colors below the page's header, and the share of pixels that are not background."""
    stage = pixels[60:, :, :3].reshape(-1, 3)
    colors, counts = np.unique(stage, axis=0, return_counts=True)
    return len(colors), 1 - counts.max() / len(stage)


@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screenshot_is_not_blank(tmp_path: Path, scheme: str) -> None:
    """Boxes, arrowheads and text are painted, in either color scheme; an empty page has one color."""
    options = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    x = adjoint.ones(2, requires_grad=True)
    path = tmp_path / "drawn.html"
    adjoint.viz.graph(((x * 2).sin() * x).sum(), path, params={"x": x})
    pixels = screenshot(path, *options)
    colors, share = painted(pixels)
    assert colors > 20 and 0.05 < share < 0.9, (colors, share)
    brightness = np.median(pixels[60:, :, :3])  # of the background
    assert brightness < 60 if scheme == "dark" else brightness > 200
    blank = tmp_path / "blank.html"
    blank.write_text("<html><body></body></html>")
    assert painted(screenshot(blank)) == (1, 0.0)


@in_browser
def test_a_tensor_without_a_graph_says_so(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    adjoint.viz.graph(adjoint.ones(2), path)
    assert '<p id="empty">There is no graph' in seen(path)
    adjoint.viz.graph((adjoint.ones(2, requires_grad=True) * 2).sum(), path)
    assert '<p id="empty" hidden="">' in seen(path)


@in_browser
def test_edges_have_arrowheads_and_shapes(tmp_path: Path) -> None:
    x = adjoint.ones(2, 3, requires_grad=True)
    path = tmp_path / "page.html"
    adjoint.viz.graph((x * 2).sum(), path, params={"x": x})
    dom = seen(path)
    assert dom.count('marker-end="url(#tip)"') == 2 and ">float32[2, 3]<" in dom


@in_browser
def test_ten_thousand_nodes_in_chromium(tmp_path: Path) -> None:
    net, loss, prof = profiled(1250)
    path = tmp_path / "page.html"
    page = adjoint.viz.graph(loss, path, params=net, profile=prof)
    assert len(data_of(page)["nodes"]) > 10_000 and len(page) < 2_000_000
    closed = seen(path)
    assert attribute(closed, "boxes") <= 60 and attribute(closed, "ready") < 3000
    opened = seen(path, "#open=all&search=Sequential.600.b")
    assert attribute(opened, "boxes") > 10_000 and attribute(opened, "ready") < 5000
    assert 0 < attribute(opened, "visible") < 200  # only what is on the screen becomes elements
    assert "4 found" in opened  # the linear layer: two nodes, weight and bias
    assert 'class="node hot found"' in opened
