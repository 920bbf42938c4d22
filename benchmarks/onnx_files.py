"""onnxruntime's time on the file that adjoint exports, beside its time on the one that torch exports of the same model.

``python benchmarks/onnx_files.py`` needs torch with its exporter (onnxscript), onnx and onnxruntime. It prints for each
model the ratio of the shortest of many interleaved runs; the aim is 1.05 at most. ``--gpt2`` takes a GPT-2 of 124
million weights, and prints the time and memory of our export, too.
"""

from __future__ import annotations

import argparse
import math
import resource
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

import adjoint


def gpt(T: Any, words: int, width: int, layers: int, heads: int, length: int) -> Any:
    """Return a GPT in the words of a library."""
    nn = T.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.queries, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            q, k, v = self.queries(self.first(x)).view(n, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads)
            mask = T.tril(T.ones(t, t)) == 0
            y = scores.masked_fill(mask, -1e9).softmax(-1) @ v
            x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
            return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks, self.last = nn.ModuleList([Block() for _ in range(layers)]), nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            y = self.words(x) + self.places(T.arange(x.shape[1]))
            for block in self.blocks:
                y = block(y)
            return self.last(y) @ self.words.weight.T

    return GPT().eval()


def cnn(T: Any) -> Any:
    """Return a small convolutional network in the words of a library."""
    nn = T.nn
    layers: list[Any] = []
    for a, b in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).eval()


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def compare(name: str, build: Any, x: np.ndarray, axes: dict[int, str], folder: Path, rounds: int) -> None:
    """Export a model by both libraries with the same weights, and time onnxruntime on both files."""
    theirs, ours = build(torch), build(adjoint)
    ours.load_state_dict({k: adjoint.from_numpy(v.detach().numpy()) for k, v in theirs.state_dict().items()})
    weights = sum(p.numel() for p in theirs.parameters()) * 4
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    program = adjoint.onnx.export(
        ours, (adjoint.from_numpy(x),), folder / "ours.onnx", dynamic_axes={"x": axes, "input": axes}
    )
    took, grown = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    dims = {i: torch.export.Dim(n, min=2, max=512) for i, n in axes.items()}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            theirs,
            (torch.from_numpy(x),),
            str(folder / "theirs.onnx"),
            dynamic_shapes=(dims,),
            dynamo=True,
            verbose=False,
        )
    sides = [session(folder / f"{side}.onnx") for side in ("ours", "theirs")]
    results, best = [], [math.inf, math.inf]
    for side in sides:
        results.append(side.run(None, {side.get_inputs()[0].name: x})[0])
    gap = float(np.abs(results[0] - results[1]).max())
    for _ in range(rounds):
        for i, side in enumerate(sides):
            start = time.perf_counter()
            side.run(None, {side.get_inputs()[0].name: x})
            best[i] = min(best[i], time.perf_counter() - start)
    print(
        f"{name:<14} ours {best[0] * 1e3:8.3f} ms   torch's {best[1] * 1e3:8.3f} ms   ratio {best[0] / best[1]:.3f}   "
        f"gap {gap:.1e}   export {took:.2f} s, {grown / 1024:.0f} MiB for {weights / 2**20:.0f} MiB of weights, "
        f"{len(program.model_proto.graph.node)} nodes"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpt2", action="store_true", help="GPT-2's size")
    parser.add_argument("--rounds", type=int, default=200)
    said = parser.parse_args()
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if said.gpt2:
            build = lambda T: gpt(T, 50257, 768, 12, 12, 1024)
            compare(
                "GPT-2 124M",
                build,
                random.integers(0, 50257, (2, 64)),
                {0: "n", 1: "t"},
                place,
                max(said.rounds // 20, 3),
            )
        else:
            image = random.normal(size=(4, 3, 32, 32)).astype(np.float32)
            compare("CNN", cnn, image, {0: "n"}, place, said.rounds)
            small = lambda T: gpt(T, 200, 64, 4, 4, 128)
            compare("small GPT", small, random.integers(0, 200, (2, 32)), {0: "n", 1: "t"}, place, said.rounds)
