"""What a notebook shows of tensors, modules, graphs, profiles and explanations, and how it names cells."""

from __future__ import annotations

import base64
import re
import struct
import sys
import types
import zlib
from typing import Any

import pytest

import adjoint
from adjoint import nn, notebook


def shown(value: Any) -> str:
    return str(value._repr_html_())


def test_a_tensor_shows_shape_dtype_range_and_values() -> None:
    x = adjoint.tensor([[1.0, 2.0], [3.0, 6.0]], requires_grad=True)
    text = shown(x)
    for words in ("float32[2, 2]", "cpu", "requires grad", "1 to 6, mean 3", "tensor([[1., 2.]"):
        assert words in text, words
    assert "grad_fn MulBackward0" in shown(x * 2)
    for other in (adjoint.tensor([]), adjoint.tensor(True), adjoint.ones(2) * 1j, adjoint.empty(2, device="meta")):
        assert "<pre" in shown(other)
    assert "&lt;MulBackward0&gt;" in shown(x * 2) and "<MulBackward0>" not in shown(x * 2)


def test_a_module_is_a_tree_with_counts() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 2, bias=False)))
    model[2].requires_grad_(False)
    text = shown(model)
    assert "Sequential</b> <span style='opacity:.7'>56 parameters" in text and text.count("<details") == 2
    assert "(0) Linear" in text and "40 parameters" in text and "16 parameters, frozen" in text
    assert "in_features=4" in text and "0 parameters" in shown(nn.LazyLinear(3))


def test_graphs_profiles_and_explanations() -> None:
    x = adjoint.ones(2, requires_grad=True)
    loss = (x * 2).sum()
    page = adjoint.viz.graph(loss)
    assert shown(page).startswith("<iframe") and "MulBackward0" in shown(page) and isinstance(page, str)
    assert "Gradient: fine" in shown(adjoint.explain(loss, x))
    with adjoint.profiler.profile() as prof:
        (x * 2).sum().backward()
    assert "mul" in shown(prof.key_averages())


def pixels(text: str) -> tuple[int, int, bytes]:
    png = base64.b64decode(re.search(r"base64,([^\"]+)", text)[1])  # type: ignore[index]
    width, height = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT") + 4
    return width, height, zlib.decompress(png[start : png.index(b"IEND") - 8])


def test_images_from_smallest_to_largest() -> None:
    width, height, lines = pixels(str(adjoint.viz.image(adjoint.tensor([[0.0, 1.0], [0.5, float("nan")], [1.0, 0.0]]))))
    assert (width, height) == (2, 3) and lines == bytes([0, 0, 255, 0, 127, 0, 0, 255, 0])
    colored = pixels(str(adjoint.viz.image(adjoint.rand(3, 4, 5))))
    assert colored[:2] == (5, 4) and len(colored[2]) == 4 * (1 + 15)
    with pytest.raises(ValueError, match=r"not \[2, 4, 5\]"):
        adjoint.viz.image(adjoint.rand(2, 4, 5))
    with pytest.raises(TypeError, match="must be a tensor"):
        adjoint.viz.image([[1.0]])


def test_histograms() -> None:
    text = shown(adjoint.viz.histogram(adjoint.tensor([0.0, 0.0, 1.0, float("inf")]), bins=2))
    assert re.findall(r"<title>(\d+)</title>", text) == ["2", "1"]
    assert "<svg" in shown(adjoint.viz.histogram(adjoint.tensor([float("nan")])))


def test_cells_are_named_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    file = "/tmp/ipykernel_17/2391.py"
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={file: 7}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert notebook.cell_of(file) == "In[7]" and notebook.cell_of("<ipython-input-3-abc>") == "In[3]"
    assert notebook.cell_of("train.py") is None
    space: dict[str, Any] = {}
    code = compile("import adjoint\nx = adjoint.ones(2, requires_grad=True)\ny = x.exp()\ny.add_(1)\n", file, "exec")
    eval(code, space)
    with pytest.raises(RuntimeError, match=r"saved its result at In\[7\]:3, and add_ overwrote it at In\[7\]:4"):
        space["y"].sum().backward()
