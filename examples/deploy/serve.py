"""Reads digits with onnxruntime, without adjoint: on the command line, or as a web page where one draws them.

``python serve.py image.txt`` reads an image of 12 lines of 12 characters, a space or dot being empty;
``python serve.py --port 8000`` serves the page, whose model runs in the browser (``npm install`` brings its runtime).
"""

from __future__ import annotations

import argparse
import functools
import http.server
from pathlib import Path

HERE = Path(__file__).resolve().parent


def read(model: Path, image: Path) -> list[float]:
    """Return the probability of each digit."""
    import numpy as np
    import onnxruntime

    rows = [line.ljust(12)[:12] for line in image.read_text().splitlines()]
    points = np.zeros((1, 1, 12, 12), np.float32)
    for y, row in enumerate(rows[:12]):
        points[0, 0, y] = [c not in " ." for c in row]
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return session.run(["probabilities"], {"image": points})[0][0].tolist()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the page, its runtime and the model."""

    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"
    }  # fmt: skip

    def log_message(self, format: str, *args: object) -> None:
        pass


def server(port: int, folder: Path) -> http.server.ThreadingHTTPServer:
    """Return a server of a folder, for this machine only."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Handler, directory=str(folder)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path, nargs="?")
    parser.add_argument("--model", type=Path, default=HERE / "digits.onnx")
    parser.add_argument("--port", type=int, default=8000)
    said = parser.parse_args()
    if said.image is not None:
        chances = read(said.model, said.image)
        for digit in sorted(range(10), key=lambda d: -chances[d])[:3]:
            print(f"{digit}: {chances[digit]:6.1%}")
    else:
        with server(said.port, HERE) as running:
            print(f"draw digits at port {running.server_port} of this machine; Ctrl-C ends it")
            running.serve_forever()
