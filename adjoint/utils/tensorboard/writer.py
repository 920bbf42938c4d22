"""``SummaryWriter``: what a training run measures, in files that TensorBoard reads."""

from __future__ import annotations

import datetime
import os
import socket
import time
from importlib import import_module
from typing import Any

import numpy as np

from ...autograd.grad_mode import no_grad
from . import summary
from .records import RecordWriter, Summary, integer, part

__all__ = ["FileWriter", "SummaryWriter"]
_SESSION_START = 1  # SessionLog.START in TensorBoard's protocol buffers


class FileWriter:
    """Writes summaries into one file of a folder."""

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self._log_dir, self._suffix, self._flush_secs = str(log_dir), filename_suffix, flush_secs
        self.event_writer = RecordWriter(self._log_dir, filename_suffix, flush_secs)

    def get_logdir(self) -> str:
        """Return the folder."""
        return self._log_dir

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Write a summary."""
        self.event_writer.write(part(5, Summary.of(summary)), global_step, walltime)

    def restart_at(self, step: int) -> None:
        """Let TensorBoard hide what earlier files of the folder have for this step and later ones."""
        self.event_writer.write(part(3, "brain.Event:2"), step)
        self.event_writer.write(part(7, integer(1, _SESSION_START)), step)

    def flush(self) -> None:
        """Flush the events written so far to the file."""
        self.event_writer.flush()

    def close(self) -> None:
        """Close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on in another file of the folder."""
        self.event_writer = RecordWriter(self._log_dir, self._suffix, self._flush_secs)


def _drawn(figure: Any, close: bool) -> Any:
    """Return the pixels of a figure of matplotlib's."""
    canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    canvas.draw()
    if close:
        import_module("matplotlib.pyplot").close(figure)
    return np.asarray(canvas.buffer_rgba())[..., :3]


class SummaryWriter:
    """Writes scalars, histograms, pictures and text into a folder, for TensorBoard.

    Parameters
    ----------
    log_dir : path, optional
        The folder; by default ``runs/`` with the time and the machine's name.
    comment : str, default ""
        A word at the end of the default folder's name.
    purge_step : int, optional
        For a run that goes on after a crash: TensorBoard hides what was written for this step and later ones before.
    max_queue : int, default 10
        Accepted for torch's sake: events go to the file's buffer at once.
    flush_secs : float, default 120
        After how many seconds an event that is written makes all events so far visible to readers.
    filename_suffix : str, default ""
        A word at the end of the file's name.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with adjoint.utils.tensorboard.SummaryWriter(folder) as writer:
    ...         for step in range(3):
    ...             writer.add_scalar("loss", 1 / (step + 1), step)
    ...     os.listdir(folder)[0].startswith("events.out.tfevents")
    True
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self._suffix = str(log_dir), filename_suffix
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.file_writer: FileWriter | None = None
        self._get_file_writer()
        self._others: dict[str, FileWriter] = {}

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def _get_file_writer(self) -> FileWriter:
        """Return the writer of the folder's file, a new one where it was closed."""
        if self.file_writer is None:
            self.file_writer = self._new_writer(self.log_dir)
            if self.purge_step is not None:
                self.file_writer.restart_at(self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _new_writer(self, folder: str) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self._suffix)

    def _add(self, what: Any, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(what, step, walltime)

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Write a scalar."""
        self._add(summary.scalar(tag, scalar_value), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Write several scalars for one chart."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self._others:
                self._others[folder] = self._new_writer(folder)
            self._others[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Write the histogram of values."""
        self._add(summary.histogram(tag, values, bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: float, sum: float, sum_squares: float, bucket_limits: Any,
        bucket_counts: Any, global_step: int | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Write a histogram from given counts."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        counted = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(counted, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Write a picture, of floats from 0 to 1 or of bytes."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Write several pictures side by side."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of matplotlib's, or a list of them side by side, as a picture."""
        several = figure if isinstance(figure, list) else [figure]
        pixels = [_drawn(one, close) for one in several]
        self.add_images(tag, np.stack(pixels), global_step, walltime, "NHWC")

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write text, in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Run the model, and write its modules as text: TensorBoard gets no graph of operators."""
        if input_to_model is not None:
            with no_grad():
                model(*input_to_model) if isinstance(input_to_model, tuple) else model(input_to_model)
        self.add_text("graph", f"```\n{model}\n```")

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Write precision and recall of predictions, at evenly spaced thresholds."""
        truth, score = (summary._array(v).reshape(-1).astype(np.float64) for v in (labels, predictions))
        weight = np.ones_like(score) if weights is None else summary._array(weights).reshape(-1)
        count = min(num_thresholds, 127)
        chosen = score[None, :] >= np.arange(count)[:, None] / (count - 1)
        tp, fp = chosen @ (truth * weight), chosen @ ((1 - truth) * weight)
        tn, fn = ((1 - truth) * weight).sum() - fp, (truth * weight).sum() - tp
        precision, recall = tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp + fn)
        self.add_pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, global_step, count, weights, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any,
        false_negative_counts: Any, precision: Any, recall: Any, global_step: int | None = None,
        num_thresholds: int = 127, weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Write precision and recall that were computed elsewhere."""
        counts = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts
        curve = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds)
        self._add(curve, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Write which scalars share a chart."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None, run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:  # fmt: skip
        """Write hyperparameters and their results, into a separate folder."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as writer:
            for part in parts:
                writer._add(part, global_step, None)
            for key, value in metric_dict.items():
                writer.add_scalar(key, value, global_step)

    def flush(self) -> None:
        """Flush the events written so far to the file."""
        for writer in (self.file_writer, *self._others.values()):
            if writer is not None:
                writer.flush()

    def close(self) -> None:
        """Close the files; the next value opens another."""
        for writer in (self.file_writer, *self._others.values()):
            if writer is not None:
                writer.close()
        self.file_writer = None
        self._others.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
