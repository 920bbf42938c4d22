"""The old names of tensors by dtype: ``FloatTensor(2, 3)``, ``isinstance(x, LongTensor)``."""

from __future__ import annotations

from typing import Any

from ..core import device as devices
from ..core import dtypes
from ..core.tensor import TensorBase
from ..ops.create_like import constructed


class tensortype(type):
    """The class of `FloatTensor` and its like: they make tensors and recognise them, but have no instances."""

    __module__ = "adjoint"

    dtype: dtypes.dtype
    device: devices.device

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        """Make a tensor, from sizes or from data."""
        return constructed(cls.dtype, cls.device if device is None else device, args)

    def __instancecheck__(cls, value: Any) -> bool:
        if not isinstance(value, TensorBase) or dtypes.of(value.array.dtype) is not cls.dtype:
            return False
        return devices.of(value.array).type == cls.device.type


def _made(package: str, place: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for dtype in dtypes.ALL:
        name = f"{dtype.title}Tensor"
        doc = f"Makes {dtype.name} tensors, from sizes or from data, on device {place}."
        body = {"dtype": dtype, "device": devices.device(place), "__module__": package, "__doc__": doc}
        made[name] = tensortype(name, (), body)
    return made


host = _made("adjoint", "cpu")
gpu = _made("adjoint.cuda", "cuda")
globals().update(host)
