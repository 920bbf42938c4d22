"""Forward mode: tangents carried along with values, inside a level."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ..core import modes
from ..core.dtypes import of
from ..core.nodes import wrap
from ..core.payload import Level
from ..core.tensor import TensorBase
from ..core.views import edge_of
from ..ops.shape import view
from ..payloads.dual import Dual, forget_tangents, holders

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_levels: list[tuple[Level, int]] = []


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart: its value and its tangent (None if that is zero)."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Start a forward-mode level; inside it tensors may have tangents."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment; use adjoint.func.jvp to nest")
    level = Level()
    _levels.append((level, level.__enter__()))
    holders[_levels[-1][1]] = []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: tangents are gone."""
    if not _levels:
        raise RuntimeError("Trying to exit a forward AD level that was not entered")
    if level not in (None, 0):
        raise RuntimeError(f"Trying to exit level {level}, but the last one entered is 0")
    entered, number = _levels.pop()
    entered.__exit__(None, None, None)
    forget_tangents(number)


class dual_level:
    """A context in which tensors may have tangents.

    Examples
    --------
    >>> import adjoint.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(adjoint.tensor(2.0), adjoint.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(4.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Return `tensor` with a tangent; both keep their place in the graph."""
    if not _levels:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not isinstance(tensor, TensorBase) or not isinstance(tangent, TensorBase):
        raise ValueError("make_dual takes a tensor and its tangent, both Tensors")
    if tensor.array.dtype.kind not in "fc" and tensor.array.dtype.name != "bfloat16":
        raise ValueError(f"Expected primal to be floating point or complex, but got: {of(tensor.array.dtype)}")
    if tuple(tensor.array.shape) != tuple(tangent.array.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.array.shape)} while the given forward gradient is of size "
            f"{list(tangent.array.shape)}."
        )
    if tangent.array.dtype.kind not in "fc" and tangent.array.dtype.name != "bfloat16":
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {of(tangent.array.dtype)}")
    value = Dual(view(cast(Any, tensor), tensor.array.shape), tangent, _levels[-1][1])
    dual = wrap(value)
    value.note_holder(dual)
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value and the tangent of a tensor."""
    if not _levels:
        return UnpackedDualTensor(tensor, None)
    edge_of(tensor)  # a view of what was written since becomes up to date
    array = tensor.array
    if isinstance(array, Dual) and array.level == _levels[-1][1]:
        tangent = array.tangent
        return UnpackedDualTensor(_tensor(array.primal), None if tangent is None else _tensor(tangent))
    return UnpackedDualTensor(tensor, None)


def _tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else wrap(value)


class _set_fwd_grad_enabled:
    """Switch forward mode on or off."""

    def __init__(self, mode: bool) -> None:
        self.before = modes.local.forward_grad
        modes.local.forward_grad = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        modes.local.forward_grad = self.before
