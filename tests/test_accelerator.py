"""The device of a program whatever its kind, streams and events of the host, typed storages, checks."""

from __future__ import annotations

import pytest

import adjoint
from adjoint.devices.contract import by_name


def test_the_host_as_a_device() -> None:
    assert adjoint.get_device_module("cpu") is adjoint.cpu
    with pytest.raises(RuntimeError, match="does not have a corresponding module"):
        adjoint.get_device_module("xpu")
    others = [device for device in by_name.values() if not device.is_host]  # a test may have registered one
    assert adjoint.accelerator.is_available() == any(device.is_available() for device in others)
    start, end = adjoint.Event("cpu", enable_timing=True), adjoint.Event("cpu", enable_timing=True)
    with adjoint.cpu.stream(adjoint.cpu.current_stream()):
        start.record()
        adjoint.ones(10).sum()
        end.record(adjoint.Stream("cpu"))
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) > 0
    if not adjoint.accelerator.is_available():
        assert adjoint.accelerator.current_accelerator() is None
        adjoint.accelerator.synchronize()


def test_storages_by_dtype() -> None:
    assert adjoint.FloatStorage([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert len(adjoint.LongStorage(3)) == 3
    assert isinstance(adjoint.ones(2)._typed_storage(), adjoint.FloatStorage)
    assert not isinstance(adjoint.ones(2)._typed_storage(), adjoint.LongStorage)
    assert issubclass(adjoint.storage.TypedStorage, adjoint.storage._LegacyStorage)


def test_checks() -> None:
    adjoint._check(True, lambda: pytest.fail("asked for"))
    for function, error in (
        (adjoint._check, RuntimeError),
        (adjoint._check_value, ValueError),
        (adjoint._check_index, IndexError),
        (adjoint._check_type, TypeError),
        (adjoint._check_not_implemented, NotImplementedError),
        (adjoint._assert, AssertionError),
    ):
        with pytest.raises(error, match="said"):
            function(False, "said")
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        adjoint._check_is_size(-1)
    with pytest.raises(RuntimeError):
        adjoint._check_tensor_all(adjoint.tensor([True, False]))
