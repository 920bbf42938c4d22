"""The memory of a tensor as an engine can use it: dense, and where the engine reaches it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import device as devices
from ..core.inplace import check_writable
from ..core.payload import Payload
from ..core.tensor import TensorBase, note_write

__all__ = ["Memory", "check_list", "check_tensor", "flat", "spread"]


def check_tensor(tensor: Any, name: str) -> None:
    """Raise unless an argument is a tensor with memory of its own."""
    if not isinstance(tensor, TensorBase):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type Tensor\n             but got "
            f"{type(tensor)} instead."
        )
    if isinstance(tensor.array, Payload):
        raise RuntimeError(f"`{name}` is a value inside of a transform: processes exchange real tensors only")


def check_list(tensors: Any, name: str, size: int | None = None) -> None:
    """Raise unless an argument is a list of tensors, `size` of them."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[Tensor]")
    for number, tensor in enumerate(tensors):
        check_tensor(tensor, f"{name}[{number}]")
    if size is not None and len(tensors) != size:
        raise ValueError(f"{name} has {len(tensors)} tensors, and the group {size} ranks: it needs one for each")


class Memory:
    """A tensor's dense memory, or a dense copy of it that `settle` brings back."""

    __slots__ = ("array", "staged", "tensor")

    def __init__(self, tensor: Any, name: str, group: Any, writes: bool = True) -> None:
        check_tensor(tensor, name)
        array = tensor.array
        if writes:
            check_writable(tensor, False)
        on_host = type(array) is np.ndarray
        if not on_host and group.backend != "nccl":
            array = devices.place_array(array, devices.CPU)
        dense = array.flags.c_contiguous
        self.array = array if dense else array.copy(order="C")
        self.tensor, self.staged = tensor, self.array is not tensor.array

    def settle(self, operation: str) -> Any:
        """Bring what was written to the tensor, and note that it was; return the tensor."""
        tensor = self.tensor
        if self.staged:
            tensor.array[...] = devices.place_array(self.array, devices.of(tensor.array))
        note_write(tensor, operation)
        return tensor


def flat(tensors: Sequence[Any], name: str, group: Any) -> Any:
    """Return the elements of several tensors, one after the other."""
    arrays = [Memory(tensor, name, group, writes=False).array.reshape(-1) for tensor in tensors]
    return devices.module_of(arrays[0]).concatenate(arrays)


def spread(array: Any, tensors: Sequence[Any], operation: str) -> list[Any]:
    """Fill several tensors from elements that lie one after the other."""
    at = 0
    for tensor in tensors:
        check_writable(tensor, False)
        part = array[at : at + tensor.array.size].reshape(tensor.array.shape)
        tensor.array[...] = devices.place_array(part, devices.of(tensor.array))
        note_write(tensor, operation)
        at += tensor.array.size
    return list(tensors)
