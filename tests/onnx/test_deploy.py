"""examples/deploy: a digit reader is trained, exported, and run by onnxruntime on a command line and in a browser."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

import adjoint

pytest.importorskip("onnx", reason="the onnx package is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
DEPLOY = Path(__file__).resolve().parents[2] / "examples" / "deploy"

SEVEN = """
............
............
...#####....
.......#....
......#.....
.....#......
....#.......
....#.......
....#.......
............
"""
# The same with a mouse: lines through points between 0 and 1.
STROKES = [[[0.29, 0.21], [0.62, 0.21], [0.62, 0.29], [0.37, 0.54], [0.37, 0.71]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the example with a trained model."""
    place = tmp_path_factory.mktemp("deploy") / "deploy"
    shutil.copytree(DEPLOY, place, ignore=shutil.ignore_patterns("node_modules"))
    repository = str(DEPLOY.parents[1])
    environment = {**os.environ, "PYTHONPATH": repository + os.pathsep + os.environ.get("PYTHONPATH", "")}
    command = [sys.executable, str(place / "train.py"), "--short"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280)
    assert done.returncode == 0, done.stderr
    return place


def test_the_command_line_reads_a_digit_without_adjoint(folder: Path) -> None:
    (folder / "seven.txt").write_text(SEVEN[1:])
    done = subprocess.run(
        [sys.executable, "serve.py", "seven.txt"],
        capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    assert done.stdout.startswith("7: "), done.stdout + done.stderr
    assert "adjoint" not in (DEPLOY / "serve.py").read_text().split('"""')[2]


def test_the_same_model_reads_it_in_adjoint(folder: Path) -> None:
    rows = [[float(c == "#") for c in row.ljust(12, ".")] for row in (SEVEN[1:] + "\n\n").split("\n")[:12]]
    image = adjoint.tensor(rows)[None, None]
    for module in (
        adjoint.onnx.load(folder / "digits.onnx").eval(),
        adjoint.export.load(folder / "digits.pt2").module(),
    ):
        assert module(image).argmax().item() == 7


def served(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("serve", folder / "serve.py")
    assert spec is not None and spec.loader is not None
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    return serve.server(0, folder)


@pytest.mark.slow
def test_a_page_reads_what_is_drawn_with_the_mouse(folder: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    modules = DEPLOY / "node_modules"
    if not (modules / "onnxruntime-web").is_dir():
        pytest.skip("onnxruntime-web is not installed: npm install in examples/deploy")
    (folder / "node_modules").symlink_to(modules)
    with served(folder) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://localhost:{server.server_port}/index.html#{urllib.parse.quote(json.dumps(STROKES))}"
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000",
             f"--user-data-dir={folder / 'profile'}", "--dump-dom", address],
            capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        server.shutdown()
        thread.join()
    assert 'data-done="yes"' in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert 'data-best="7"' in done.stdout and done.stdout.count('class="bar"') == 10
