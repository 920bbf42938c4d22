"""`histogram`, `image`: a tensor as a notebook shows it on request."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import notebook
from ..core.tensor import TensorBase

__all__ = ["Shown", "histogram", "image"]


class Shown:
    """HTML or SVG that a notebook displays; `str` gives the text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.text


def _values(x: Any, function: str) -> Any:
    if not isinstance(x, TensorBase):
        raise TypeError(f"viz.{function}(): argument must be a tensor, not {type(x).__name__}")
    return np.asarray(x.detach().cpu().array, np.float64)  # type: ignore[attr-defined]


def histogram(x: Any, bins: int = 40) -> Shown:
    """Show how the finite elements of a tensor are distributed.

    Examples
    --------
    >>> str(adjoint.viz.histogram(adjoint.tensor([1.0, 2.0, 2.0]), bins=2)).startswith("<svg")
    True
    """
    values = _values(x, "histogram").ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return Shown(notebook.bars([], 0.0, 0.0))
    counts, ends = np.histogram(values, bins)
    return Shown(notebook.bars([int(c) for c in counts], float(ends[0]), float(ends[-1])))


def image(x: Any, scale: int | None = None) -> Shown:
    """Show a tensor ``[height, width]``, or ``[1 or 3, height, width]``, from its smallest to its largest element.

    Examples
    --------
    >>> "data:image/png" in str(adjoint.viz.image(adjoint.eye(4)))
    True
    """
    values = _values(x, "image")
    if values.ndim == 3 and values.shape[0] in (1, 3):
        values = values.transpose(1, 2, 0)
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or values.shape[2] not in (1, 3):
        raise ValueError(f"viz.image(): a tensor [height, width] or [1 or 3, height, width], not {list(x.shape)}")
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    scaled = np.nan_to_num((values - low) / ((high - low) or 1.0), nan=0.0, posinf=1.0, neginf=0.0)
    height, width, channels = scaled.shape
    rows = np.ascontiguousarray((scaled.clip(0, 1) * 255).astype(np.uint8)).tobytes()
    return Shown(notebook.picture(rows, width, height, channels, scale or max(1, 200 // max(width, 1))))
