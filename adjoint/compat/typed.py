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


_DOC = """Makes {dtype} tensors, from sizes or from data, and recognizes them.

Programs of today call ``tensor(data, dtype=adjoint.{dtype})``.

Parameters
----------
*args : int or sequence
    ``{name}(2, 3)`` is uninitialized memory of shape (2, 3), ``{name}([2, 3])`` has the elements 2 and 3.
device : device or str, optional
    Where to make it; by default {place}.

Examples
--------
>>> isinstance(adjoint.zeros(2, dtype=adjoint.{dtype}), {package}.{name})
{on_cpu}
"""


def _made(package: str, place: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for dtype in dtypes.ALL:
        name = f"{dtype.title}Tensor"
        doc = _DOC.format(dtype=dtype.name, name=name, package=package, place=place, on_cpu=place == "cpu")
        body = {"dtype": dtype, "device": devices.device(place), "__module__": package, "__doc__": doc}
        made[name] = tensortype(name, (), body)
    return made


host = _made("adjoint", "cpu")
gpu = _made("adjoint.cuda", "cuda")
globals().update(host)
