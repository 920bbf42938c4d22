"""What the examples share: their command line, a progress bar, drawn digits, and a text."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import adjoint as torch
from adjoint.demo import Progress, digits

__all__ = ["Progress", "digits", "settings", "text"]


def settings(description: str | None) -> argparse.Namespace:
    """Read the command line, and seed the random numbers."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--short", action="store_true", help="a few seconds only")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--amp", choices=["bfloat16", "float16"], help="compute in half precision where that is safe")
    parser.add_argument("--compile", action="store_true", help="run the training step as a compiled program")
    said = parser.parse_args()
    half = getattr(torch, said.amp or "bfloat16")
    said.autocast = functools.partial(torch.autocast, said.device, dtype=half, enabled=said.amp is not None)
    said.scaler = torch.amp.GradScaler(said.device, enabled=said.amp == "float16")
    said.compiled = torch.compile if said.compile else lambda step: step
    torch.manual_seed(said.seed)
    return said


def text() -> str:
    """Return six of Shakespeare's sonnets."""
    return (Path(__file__).parent / "data" / "sonnets.txt").read_text()
