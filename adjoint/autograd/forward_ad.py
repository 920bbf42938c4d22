"""Forward mode: tangents carried along with values, inside a level."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from numpy import ndarray

from ..core import modes
from ..core.nodes import wrap
from ..core.payload import Level, inside
from ..core.tensor import TensorBase, storage_of
from ..core.views import edge_of
from ..ops.shape import copy_strided_p, view
from ..payloads.dual import Dual, forget_tangents, holders

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_levels: list[tuple[Level, int]] = []


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart: its value and its tangent (None if that is zero)."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Start a forward-mode level; inside it tensors may have tangents. `dual_level` is a context that does so.

    Returns
    -------
    int
        The number of the level.

    Examples
    --------
    >>> import adjoint.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> x = fwAD.make_dual(adjoint.tensor(2.0), adjoint.tensor(1.0))
    >>> fwAD.unpack_dual(x * x).tangent
    tensor(4.)
    >>> fwAD.exit_dual_level(level=level)
    """
    if _levels:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment. Use adjoint.func.jvp, whose levels nest."
        )
    level = Level()
    try:
        _levels.append((level, level.__enter__()))
        holders[level.number] = []
    except BaseException:  # an interrupt
        _levels.clear()
        level.__exit__()
        raise
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End a forward-mode level: its tangents are gone.

    Parameters
    ----------
    level : int, optional
        The level to end; the innermost by default, and there is no other.

    Examples
    --------
    >>> import adjoint.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> fwAD.exit_dual_level(level=level)
    """
    number = len(_levels) - 1 if level is None else level
    if number < 0:
        raise RuntimeError("Dual level must be a positive number. No level was entered, so there is none to exit.")
    if number != len(_levels) - 1:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported: "
            f"exit level {len(_levels) - 1}, not {number}."
        )
    entered, at = _levels[-1]
    try:
        entered.__exit__(None, None, None)
    finally:
        if entered in inside.levels:  # an interrupt
            inside.levels = inside.levels[: inside.levels.index(entered)]
        _levels.clear()  # there is one at most
        forget_tangents(at)


class dual_level(modes.Scope):
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
        owned = self.own()
        number = enter_dual_level()
        self.owned = owned
        return number

    def __exit__(self, *error: object) -> None:
        exit_dual_level()
        self.owned = None

    def __del__(self) -> None:
        if self.owned is not None and modes.is_with(self.owned) and _levels:
            exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Return `tensor` with a tangent.

    Both keep their history, so that derivatives of derivatives work.

    Parameters
    ----------
    tensor : Tensor
        The value, floating or complex.
    tangent : Tensor
        Of the same shape.
    level : int, optional
        The level; the innermost by default.

    Returns
    -------
    Tensor
        A view of `tensor` that carries the tangent.

    Examples
    --------
    >>> import adjoint.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 0.0]))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor([2., 0.])
    """
    if (len(_levels) - 1 if level is None else level) < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
    if level is not None and level >= len(_levels):
        raise RuntimeError("Invalid level given to _make_dual: only level 0 exists")
    number = _levels[-1][1]
    _refuse_tangent(
        tensor, number, "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level"
    )
    _refuse_tangent(tangent, number, "Setting a forward grad that itself has a forward gradient at the same level")
    if tuple(tensor.array.shape) != tuple(tangent.array.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.array.shape)} while the given forward gradient is of size "
            f"{list(tangent.array.shape)}."
        )
    value = Dual(view(cast(Any, tensor), tensor.array.shape), _laid_out(tangent, tensor), number)
    dual = wrap(value, None, storage_of(tensor))
    value.note_holder(dual)
    return dual


def _refuse_tangent(tensor: Any, number: int, problem: str) -> None:
    edge_of(tensor)
    array = tensor.array
    if isinstance(array, Dual) and array.level == number and array.tangent is not None:
        raise RuntimeError(f"{problem} 0 is not supported.")


def _laid_out(tangent: Any, tensor: Any) -> Any:
    """Return a tangent with the strides of its primal: itself if it has them, else a copy."""
    a, b = tensor.array, tangent.array
    if type(a) is not ndarray or type(b) is not ndarray:
        return tangent
    same = all(s * b.itemsize == t * a.itemsize for s, t, n in zip(a.strides, b.strides, a.shape, strict=True) if n > 1)
    return tangent if same else copy_strided_p(tangent, tuple(s // a.itemsize * b.itemsize for s in a.strides))


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value and the tangent of a tensor.

    Parameters
    ----------
    tensor : Tensor
        Any tensor.
    level : int, optional
        The level; the innermost by default.

    Returns
    -------
    UnpackedDualTensor
        (primal, tangent); the tangent is None if there is none.

    Examples
    --------
    >>> import adjoint.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     fwAD.unpack_dual(adjoint.tensor(1.0)).tangent is None
    True
    """
    if (len(_levels) - 1 if level is None else level) < 0:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, TensorBase):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    edge_of(tensor)  # a view of what was written since becomes up to date
    array = tensor.array
    if _levels and isinstance(array, Dual) and array.level == _levels[-1][1]:
        tangent = array.tangent
        return UnpackedDualTensor(_tensor(array.primal), None if tangent is None else _tensor(tangent))
    return UnpackedDualTensor(tensor, None)


def _tensor(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else wrap(value)


class _set_fwd_grad_enabled(modes.Scope):
    """Switch forward mode on or off."""

    before = False

    def __init__(self, mode: bool) -> None:
        self.before, self.owned = modes.local.forward_grad, self.own()
        modes.local.forward_grad = mode

    def __enter__(self) -> None:
        self.owned = self.own()

    def __exit__(self, *error: object) -> None:
        self.owned, modes.local.forward_grad = None, self.before

    def __del__(self) -> None:
        if self.before:  # else one around it has put back what was
            super().__del__()
