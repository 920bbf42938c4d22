"""What ``adjoint demo`` does: train, tell, and draw a page."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from .. import nn as layers
from .. import optim
from ..autograd.grad_mode import no_grad
from ..ops.random import manual_seed
from ..utils.data import DataLoader, TensorDataset
from ..viz import graph
from .digits import digits
from .page import curve, page, pictures
from .progress import Progress

__all__ = ["demonstrate"]

nn: Any = layers


def demonstrate(out: str | os.PathLike[str] = "adjoint-demo.html", short: bool = False) -> float:
    """Train a network to read digits, show what it reads, and draw a page with its loss and its graph.

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
