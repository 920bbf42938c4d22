"""Summaries for TensorBoard: scalars, histograms, images, text, hyperparameters and their results."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import TensorBase
from ...notebook import png
from .records import Summary, double, float32, integer, part

__all__ = ["custom_scalars", "histogram", "histogram_raw", "hparams", "image", "pr_curve_raw", "scalar", "text"]

# --- Values ---------------------------------------------------------------------------------------------


def _array(value: Any) -> Any:
    return np.asarray(value.detach().cpu().float().numpy() if isinstance(value, TensorBase) else value)  # type: ignore[attr-defined]


def _number(value: Any) -> float:
    found = _array(value)
    if found.size != 1:
        raise AssertionError("scalar should be 0D")
    return float(found.reshape(()))


def _histogram(values: Any, bins: Any) -> bytes:
    flat = _array(values).reshape(-1).astype(np.float64)
    if flat.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(flat, bins=_edges() if bins == "tensorflow" else bins)
    kept = np.flatnonzero(counts)
    first, last = max(int(kept[0]) - 1, 0), int(kept[-1]) + 1
    rows = [float(flat.min()), float(flat.max()), float(flat.size), float(flat.sum()), float((flat**2).sum())]
    message = b"".join(double(field + 1, row) for field, row in enumerate(rows))
    message += part(6, limits[1:][first:last].astype("<f8").tobytes())
    return message + part(7, counts[first:last].astype("<f8").tobytes())


def _edges() -> Any:
    """Return limits of classes that grow by a tenth each, to both sides of zero."""
    steps = 1e-12 * 1.1 ** np.arange(775)
    return np.concatenate([-steps[::-1], [0.0], steps])


def _picture(image: Any, dataformats: str) -> bytes:
    pixels = _array(image)
    order = dataformats.upper()
    pixels = np.transpose(pixels, [order.index(axis) for axis in "HWC" if axis in order])
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.dtype.kind == "f":
        pixels = np.clip(pixels * (255 if pixels.max(initial=0) <= 1 else 1), 0, 255)
    pixels = pixels.astype(np.uint8)
    height, width, channels = pixels.shape
    encoded = png(pixels.tobytes(), width, height, channels)
    return integer(1, height) + integer(2, width) + integer(3, channels) + part(4, encoded)


# --- Summaries ------------------------------------------------------------------------------------------


def scalar(
    name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False
) -> Summary:
    """Return the summary of a scalar."""
    return Summary(part(1, name) + float32(2, _number(tensor)))


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """Return the histogram of values."""
    return Summary(part(1, name) + part(5, _histogram(values, bins)))


def histogram_raw(
    name: str, min: float, max: float, num: float, sum: float, sum_squares: float, bucket_limits: Any,
    bucket_counts: Any,
) -> Summary:  # fmt: skip
    """Return a histogram from given counts."""
    rows = b"".join(double(field + 1, float(row)) for field, row in enumerate((min, max, num, sum, sum_squares)))
    packed = [np.asarray(values, "<f8").tobytes() for values in (bucket_limits, bucket_counts)]
    return Summary(part(1, name) + part(5, rows + part(6, packed[0]) + part(7, packed[1])))


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """Return a picture, or several side by side."""
    pixels, order = _array(tensor), dataformats.upper()
    if "N" in order:
        pixels, order = np.moveaxis(pixels, order.index("N"), 0), order.replace("N", "")
        pixels = np.concatenate(list(pixels), axis=order.index("W"))
    return Summary(part(1, tag) + part(4, _picture(pixels * rescale if rescale != 1 else pixels, order)))


def text(tag: str, text: str) -> Summary:
    """Return text, in Markdown."""
    tensor = integer(1, 7) + part(2, part(2, integer(1, 1))) + part(8, text)
    return Summary(part(1, f"{tag}/text_summary") + part(8, tensor) + part(9, _plugin("text")))


def _plugin(name: str, content: bytes = b"") -> bytes:
    """Return the metadata that names the TensorBoard plugin that shows a value."""
    return part(1, part(1, name) + (part(2, content) if content else b""))


def hparams(
    hparam_dict: dict[str, Any] | None = None, metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Summary, Summary, Summary]:  # fmt: skip
    """Return three summaries: the experiment's settings and measures, the settings of a session, and its end."""
    settings, measures = ({} if given is None else given for given in (hparam_dict, metric_dict))
    for name, given in (("hparam_dict", settings), ("metric_dict", measures)):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    domains = {} if hparam_domain_discrete is None else hparam_domain_discrete
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for key, domain in domains.items():
        if (
            key not in settings or not isinstance(domain, list)
            or not all(isinstance(d, type(settings[key])) for d in domain)
        ):  # fmt: skip
            raise TypeError(
                f"parameter: hparam_domain_discrete[{key}] should be a list of same type as hparam_dict[{key}]."
            )
    infos = session = b""
    for key, setting in settings.items():
        if setting is None:
            continue
        kind, value = _setting(setting)
        choices = b"".join(part(1, _setting(d)[1]) for d in domains.get(key, ()))
        infos += part(4, part(1, key) + integer(4, kind) + (part(5, choices) if key in domains else b""))
        session += part(1, part(1, key) + part(2, value))
    experiment = infos + b"".join(part(5, part(1, part(2, key))) for key in measures)
    return (
        _session("experiment", part(2, experiment)),
        _session("session_start_info", part(3, session)),
        _session("session_end_info", part(4, integer(1, 1))),
    )


def _setting(value: Any) -> tuple[int, bytes]:
    """Return the kind of a setting, and its value."""
    if isinstance(value, str):
        return 1, part(3, value)
    if isinstance(value, int | float | TensorBase | np.number):
        return 3, double(2, _number(value))
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def _session(tag: str, content: bytes) -> Summary:
    return Summary(part(1, f"_hparams_/{tag}") + part(9, _plugin("hparams", content)))


def custom_scalars(layout: dict[str, dict[str, Any]]) -> Summary:
    """Return the layout of charts: categories, each with charts of a kind and the tags they show."""
    categories = b""
    for category, charts in layout.items():
        drawn = b""
        for title, (kind, tags) in charts.items():
            if kind == "Multiline":
                content = part(2, b"".join(part(1, tag) for tag in tags))
            else:
                names = b"".join(part(field + 1, tag) for field, tag in enumerate(tags))
                content = part(3, part(1, names))
            drawn += part(2, part(1, title) + content)
        categories += part(2, part(1, category) + drawn)
    tensor = integer(1, 7) + part(2, b"") + part(8, categories)
    return Summary(part(1, "custom_scalars__config__") + part(8, tensor) + part(9, _plugin("custom_scalars")))


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any, num_thresholds: int = 127,
    weights: Any = None,
) -> Summary:  # fmt: skip
    """Return precision and recall, and what they come from, at evenly spaced thresholds."""
    data = np.stack([_array(v).reshape(-1) for v in (tp, fp, tn, fn, precision, recall)]).astype("<f4")
    shape = b"".join(part(2, integer(1, size)) for size in data.shape)
    tensor = integer(1, 1) + part(2, shape) + part(5, data.tobytes())
    content = integer(2, min(num_thresholds, 127))
    return Summary(part(1, tag) + part(8, tensor) + part(9, _plugin("pr_curves", content)))
