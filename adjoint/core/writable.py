"""Which tensors may be written in place, and which memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array
from . import modes
from .nodes import Hidden
from .payload import is_captured
from .tensor import STALE, InferenceStorage, TensorBase, View
from .views import refused_view, way_from_base

OVERLAPPING = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation."
)


def check_writable(x: TensorBase, recording: bool, operation: str = "copy", overlapping: bool = False) -> None:
    """Raise if the tensor may not be written in the current mode."""
    check_changeable(x, recording, operation)
    array = x.array
    if type(array) is np.ndarray:
        flags = array.flags
        if not flags.c_contiguous and not overlapping and overlaps_itself(array):
            raise RuntimeError(OVERLAPPING)
        if not flags.writeable:
            raise RuntimeError(
                "the tensor's memory is read-only (it came from a NumPy array or file that may not be "
                "written); clone() it before writing to it"
            )


def check_changeable(x: TensorBase, recording: bool, operation: str = "copy") -> None:
    """Raise if the tensor may not be changed in place in the current mode, whatever its memory."""
    if modes.transforms and is_captured(x):
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
            f"(aten::{operation}_) that would mutate a captured Tensor. This is not supported; please rewrite the "
            "function being transformed to explicitly accept the mutated Tensor(s) as inputs."
        )
    if modes.inferred:
        refuse_inference_write(x)
    if recording:
        check_history(x)


def refuse_inference_write(x: TensorBase) -> None:
    """Raise if the tensor was made in inference mode, which is over."""
    if type(x.memory) is InferenceStorage and not modes.local.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone "
            "to get a normal tensor before doing inplace update."
        )


def check_history(x: TensorBase) -> None:
    """Raise if the tensor's history may not be changed by a write."""
    view = x.lineage
    if view is not None:
        if view.kind != View.NORMAL:
            raise RuntimeError(refused_view(x, indirectly=False))
        if view.epoch == -1:
            way_from_base(x)  # which may be refused
        if x.node is not None and (view.base.node is None or is_leaf_node(view.base.node)):
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place operation. Write "
                "under adjoint.no_grad(), or make the leaf's value with an op first."
            )
    if x.node is not None and is_bare(x):
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. Write under "
            "adjoint.no_grad() (as an optimizer does), or use the out-of-place op."
        )


def is_bare(x: TensorBase) -> bool:
    """Return whether a tensor has no node of an op, of a stale view: had none; its history is not rebuilt for that."""
    if x.node is STALE and x.lineage is not None:
        return getattr(x.lineage, "bare", False)
    return x.node is None or is_leaf_node(x.node)


def is_leaf_node(node: Any) -> bool:
    """Return whether a tensor's node is that of a leaf which requires a gradient."""
    return type(node) is Hidden or type(node).__name__ == "AccumulateGrad"


def overlaps_itself(array: Array) -> bool:
    """Return whether two elements of the array have the same address."""
    dims = sorted((abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1)
    if array.size == 0:
        return False
    reach = array.itemsize
    for stride, size in dims:
        if stride < reach:
            return stride == 0 or _collides(dims, array.itemsize)
        reach = stride * (size - 1) + reach
    return False


def _collides(dims: list[tuple[int, int]], itemsize: int) -> bool:
    # Interleaved dimensions may still never meet; small cases are counted out, large ones refused.
    total = 1
    offsets = np.zeros(1, dtype=np.int64)
    for stride, size in dims:
        total *= size
        if total > 1_000_000:
            return True
        offsets = (offsets[:, None] + stride * np.arange(size)).ravel()
    offsets.sort()
    return bool((np.diff(offsets) < itemsize).any())


def _dense(array: Array) -> bool:
    reach = array.itemsize
    dims = sorted((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    for stride, size in dims:
        if stride != reach:
            return False
        reach = stride * size
    return True


def check_partial_overlap(written: object, read: object) -> None:
    """Raise if `read` shares part of the memory that is about to be written, but not exactly all."""
    if type(written) is not np.ndarray or type(read) is not np.ndarray:
        return
    if not (_dense(written) and _dense(read)) or not np.may_share_memory(written, read):
        return
    if written.ctypes.data == read.ctypes.data and written.strides == read.strides and written.shape == read.shape:
        return
    raise RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
        "single memory location. Please clone() the tensor before performing the operation."
    )
