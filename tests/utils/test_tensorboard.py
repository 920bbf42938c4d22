"""What a run measures, in TensorBoard's files: read back by hand, and by TensorBoard where it is installed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

import adjoint
from adjoint.utils.tensorboard import SummaryWriter
from adjoint.utils.tensorboard.records import _checksum
from adjoint.utils.tensorboard.summary import hparams


def records(folder: Path) -> list[bytes]:
    data = next(folder.glob("events.out.tfevents.*")).read_bytes()
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        event = data[at + 12 : at + 12 + length]
        assert data[at + 8 : at + 12] == _checksum(data[at : at + 8])
        assert data[at + 12 + length : at + 16 + length] == _checksum(event)
        found.append(event)
        at += 16 + length
    return found


def written(folder: Path) -> None:
    with SummaryWriter(folder) as writer:
        writer.add_scalar("loss", adjoint.tensor(0.5, requires_grad=True), 7)
        writer.add_histogram("weights", adjoint.linspace(-1, 1, 11), 3)
        writer.add_image("picture", adjoint.ones(3, 2, 4), 1)
        writer.add_text("note", "hello", 2)


def test_a_file_that_is_there_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from adjoint.utils.tensorboard import records as module

    monkeypatch.setattr(module.time, "time", lambda: 0.0)
    monkeypatch.setattr(module, "_count", iter([1, 1, 2]))
    first = SummaryWriter(tmp_path)
    first.close()
    SummaryWriter(tmp_path).close()
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["1", "2"]


def test_records(tmp_path: Path) -> None:
    assert _checksum(b"123456789") == struct.pack(
        "<I", ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
    )
    written(tmp_path)
    head, scalar, histogram, picture, text = records(tmp_path)
    assert head.endswith(b"brain.Event:2") and b"note/text_summary" in text and b"hello" in text
    assert b"\x10\x07" in scalar and scalar.endswith(b"\n\x04loss\x15" + struct.pack("<f", 0.5))
    assert struct.pack("<d", 11.0) in histogram
    pixels = picture.partition(b"IDAT")[2]
    assert zlib.decompressobj().decompress(pixels) == (b"\0" + b"\xff" * 12) * 2
    with SummaryWriter(tmp_path / "other") as writer, pytest.raises(AssertionError, match="scalar should be 0D"):
        writer.add_scalar("x", adjoint.ones(2))


def test_events_are_visible_after_flush_secs(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "late") as late, SummaryWriter(tmp_path / "now", flush_secs=0) as now:
        late.add_scalar("loss", 0.5, 0)
        now.add_scalar("loss", 0.5, 0)
        now.add_scalars("losses", {"a": 1.0}, 0)
        assert len(records(tmp_path / "late")) == 1 and len(records(tmp_path / "now")) == 2
        assert len(records(tmp_path / "now" / "losses_a")) == 2


def test_purge_step(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, purge_step=5) as writer:
        writer.add_scalar("loss", 0.5, 5)
    _, version, start, _ = records(tmp_path)
    assert version.endswith(b"\x10\x05\x1a\rbrain.Event:2") and start.endswith(b"\x10\x05\x3a\x02\x08\x01")


def test_tensorboard_hides_purged_steps(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard itself")
    for value, purge_step in ((1.0, None), (2.0, 2)):
        with SummaryWriter(tmp_path, purge_step=purge_step) as writer:
            for step in range(purge_step or 0, 4):
                writer.add_scalar("loss", value, step)
    found = reader.EventAccumulator(str(tmp_path))
    found.Reload()
    assert [(s.step, s.value) for s in found.Scalars("loss")] == [(0, 1.0), (1, 1.0), (2, 2.0), (3, 2.0)]


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard itself")
    written(tmp_path)
    found = reader.EventAccumulator(str(tmp_path))
    found.Reload()
    assert [(s.step, s.value) for s in found.Scalars("loss")] == [(7, 0.5)]
    assert found.Histograms("weights")[0].histogram_value.num == 11 and found.Images("picture")[0].width == 4


def test_settings_curves_and_figures(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "name": "x", "flag": True}, {"accuracy": 0.5}, run_name="run")
        writer.add_pr_curve("curve", adjoint.tensor([1.0, 0.0, 1.0]), adjoint.tensor([0.9, 0.4, 0.3]), num_thresholds=5)
        writer.add_custom_scalars({"group": {"both": ["Multiline", ["a", "b"]]}})
        writer.add_graph(adjoint.nn.Linear(2, 1), adjoint.ones(1, 2))
        with pytest.raises(TypeError, match="should be dictionary"):
            writer.add_hparams([], {})  # type: ignore[arg-type]
    events = records(tmp_path / "run")
    assert [name for name in (b"experiment", b"session_start_info", b"session_end_info", b"accuracy")
            if any(name in event for event in events)] == [
        b"experiment", b"session_start_info", b"session_end_info", b"accuracy",
    ]  # fmt: skip
    assert any(b"pr_curves" in event for event in records(tmp_path))
    with pytest.raises(ValueError, match="value should be one of int, float, str, bool"):
        hparams({"x": object()}, {})


def test_settings_as_tensorboard_reads_them() -> None:
    plugin = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2", reason="TensorBoard itself")
    summary = pytest.importorskip("tensorboard.compat.proto.summary_pb2", reason="TensorBoard itself").Summary
    message, data = summary(), plugin.HParamsPluginData()
    message.ParseFromString(hparams({"lr": 0.1, "name": "x"}, {})[1].SerializeToString())
    data.ParseFromString(message.value[0].metadata.plugin_data.content)
    assert data.session_start_info.hparams["lr"].number_value == 0.1
    assert data.session_start_info.hparams["name"].string_value == "x"
