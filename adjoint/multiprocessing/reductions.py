"""How tensors travel to other processes: by the descriptor of the memory that they are in, not by their elements."""

from __future__ import annotations

import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.leaves import AccumulateGrad
from ..nn.parameter import Buffer, Parameter
from ..ops import copies
from ..ops.memory import SharedMemory, address_of, share_memory_, shared_memory_of
from ..tensor import Tensor

__all__ = ["ForkingPickler", "init_reductions", "reduce_tensor"]


def init_reductions() -> None:
    """Let what multiprocessing sends carry tensors in shared memory."""
    for kind in (Tensor, Parameter, Buffer):
        ForkingPickler.register(kind, reduce_tensor)


def reduce_tensor(tensor: Any) -> tuple[Any, ...]:
    """Return how another process gets at a tensor: sender and receiver see each other's writes.

    A tensor that is not in shared memory is moved there, as in torch. Where something else looks at its memory (a
    view, the graph) it stays where it is, and a copy is sent.
    """
    if tensor.node is not None and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    if type(tensor.array) is not np.ndarray or tensor.array.size == 0 or sys.platform == "win32":
        return copies.reduce_tensor(tensor)
    array = _shared(tensor)
    memory = shared_memory_of(array)
    assert isinstance(memory, SharedMemory)
    offset = address_of(array) - address_of(np.frombuffer(memory, np.uint8))
    look = (dtypes.of(array.dtype), offset, tuple(array.shape), tuple(array.strides))
    # Only a process that is about to send loads what sends descriptors.
    from multiprocessing.reduction import DupFd

    state = copies._state_of(tensor)
    return rebuild, (type(tensor), DupFd(memory.fileno()), len(memory), look, tensor.node is not None, state)


def _shared(tensor: Any) -> Any:
    """Return the tensor's array in shared memory, or a copy of it."""
    array = tensor.array
    if isinstance(shared_memory_of(array), SharedMemory):
        return array
    node = tensor.node
    # The tensor's, this function's and the call's own; a leaf's node has one, too.
    expected = 3 + (type(node) is AccumulateGrad and node.array is array)
    if array.base is None and sys.getrefcount(array) == expected:
        del array
        return share_memory_(tensor).array
    return share_memory_(copies.shallow_copy(tensor)).array


def rebuild(kind: type, handle: Any, size: int, look: tuple[Any, ...], requires_grad: bool, state: Any) -> Any:
    """Return the tensor of another process."""
    owner = np.frombuffer(SharedMemory(size, handle.detach()), np.uint8)
    return copies.rebuilt(kind, owner, look, "cpu", requires_grad, state)
