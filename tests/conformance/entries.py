"""Which entries of torch's operator table are driven, and which adjoint callable answers each."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import adjoint

from .translate import Missing, lookup, rebind

ENTRIES = {op.full_name: op for op in op_db}

_OUT_OF_SCOPE = {
    "sparse": ("sparse.", "to_sparse"),
    "quantized": ("quantize", "fake_quantize", "dequantize"),
    "CUDA only": ("jiterator",),
    # An aten function behind a public one, reached only through torch.ops or kept for old graphs.
    "internal": ("torch.ops.", "torch._", "max_pool2d_with_indices_backward"),
}

# What programs call all the same.
_INSIDE = {
    "_native_batch_norm_legit", "_segment_reduce.lengths", "_segment_reduce.offsets", "_softmax_backward_data",
    "native_dropout_backward", "slice", "torch.ops.aten._safe_softmax.default",
}  # fmt: skip

# The values are whatever the memory held.
UNSET = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "resize_", "resize_as_",
}  # fmt: skip

# Which of several equal elements their indices name is not said.
TIES = {"argsort", "sort", "topk", "kthvalue", "mode", "median", "nanmedian"}
# Functions of a Hermitian matrix: a gradient says nothing about other directions.
HERMITIAN = {"cholesky"}


def why_skipped(name: str) -> str | None:
    """Return why an entry is not driven, or None."""
    op = ENTRIES[name]
    if name in _INSIDE:
        return None
    for reason, starts in _OUT_OF_SCOPE.items():
        if name.startswith(starts):
            return reason
    if name.startswith("_") and not name.startswith("__"):
        return "private"
    if isinstance(op.op, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return "internal"
    return None


def function_of(op: Any) -> Any:
    """Return the adjoint callable for an entry; raises `Missing`."""
    f = op.op
    if isinstance(f, types.FunctionType) and f.__module__.startswith("torch.testing._internal"):
        return rebind(f)
    if isinstance(f, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return getattr(adjoint.ops.aten, str(f).split(".")[1])
    if op.name.startswith("__") or isinstance(f, types.MethodDescriptorType):
        return tensor_method(op.name)
    try:
        return lookup(op.name)
    except Missing:
        if not hasattr(torch, op.name.split(".")[0]):
            return tensor_method(op.name)
        raise


def tensor_method(name: str) -> Any:
    """Return a function of ``adjoint.Tensor`` itself, not of its metaclass; raises `Missing`."""
    for kind in adjoint.Tensor.__mro__[:-1]:
        if name in vars(kind):
            return getattr(adjoint.Tensor, name)
    raise Missing(f"adjoint.Tensor.{name}")


def method_of(op: Any, variant: Any, name: str) -> Any:
    """Return adjoint's method for a torch method variant, or None where torch has none."""
    if variant is None:
        return None
    if isinstance(variant, types.FunctionType) and variant.__module__.startswith("torch.testing._internal"):
        return rebind(variant)
    own = getattr(variant, "__name__", name)
    if name.startswith("nn.functional.") and name.endswith("_"):
        function = lookup(name[:-1])
        return lambda *args, **kwargs: function(*args, **(kwargs | {"inplace": True}))
    if own == "<lambda>" or not hasattr(torch.Tensor, own):
        own = name
    return tensor_method(own)


def dtypes_of(op: Any, wanted: list[str]) -> list[torch.dtype]:
    """Return those of the wanted dtypes that the entry takes; or the plainest it takes."""
    supported = op.supported_dtypes("cpu")
    found = [getattr(torch, n) for n in wanted if getattr(torch, n) in supported]
    if not found:
        plain = ("float64", "int64", "bool", "float32", "complex128", "int32", "complex64")
        found = [getattr(torch, n) for n in plain if getattr(torch, n) in supported][:1]
    return found


def taken_of(op: Any, names: tuple[str, ...]) -> list[torch.dtype]:
    """Return those of the named dtypes that the entry takes."""
    supported = op.supported_dtypes("cpu")
    return [getattr(torch, n) for n in names if getattr(torch, n) in supported]
