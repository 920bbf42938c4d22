"""The same memory as numbers of another kind: complex as pairs, parts of complex numbers, bytes as another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array, DType, Tensor, Value
from ..core import layout
from ..core.device import module_of
from ..core.dtypes import as_dtype, of
from ..core.payload import Payload
from ..core.recorders import Primitive, parametric
from .index import select_p
from .precision import autocasting

__all__ = ["imag", "real", "view_as_complex", "view_as_real"]


def _view_as_real(x: Array) -> Any:
    parts = np.asarray(x).real if isinstance(x, np.generic) else x.real
    return layout.strided_view(parts, (*x.shape, 2), (*x.strides, parts.dtype.itemsize))


def _view_as_complex(x: Array) -> Value:
    wanted = of(x.dtype).to_complex().np
    size = x.dtype.itemsize
    if x.size and (x.strides[-1] != size or any(s % (2 * size) for s in x.strides[:-1])):
        x = x.copy(order="C")
    if x.size == 0:
        return module_of(x).empty(x.shape[:-1], wanted)
    return x.view(wanted)[..., 0]


view_as_real_p: Primitive = parametric(
    _view_as_real, x=lambda g: view_as_complex_p(g), view=True, jvp="linear", batch="same"
)
view_as_complex_p: Primitive = parametric(
    _view_as_complex, x=lambda g: view_as_real_p(g), view=True, jvp="linear", batch="same"
)


def view_as_real(input: Tensor) -> Tensor:
    """View complex numbers as pairs of real ones, in a new last dimension.

    Examples
    --------
    >>> adjoint.view_as_real(adjoint.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if input.array.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return view_as_real_p(input)


@autocasting
def view_as_complex(input: Tensor) -> Tensor:
    """View pairs of real numbers, the last dimension, as complex ones."""
    array = input.array
    if of(array.dtype).name not in ("float32", "float64"):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            f"scalar type: {of(array.dtype).name}"
        )
    if array.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if array.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if not isinstance(array, Payload) and array.size:
        if input.storage_offset() % 2:
            raise RuntimeError("Tensor must have a storage_offset divisible by 2")
        if array.strides[-1] != array.itemsize:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        for i, (s, n) in enumerate(zip(array.strides[:-1], array.shape[:-1], strict=True)):
            if n > 1 and s % (2 * array.itemsize):
                raise RuntimeError(f"Tensor must have a stride divisible by 2 for all but last dimension, not dim {i}")
    return view_as_complex_p(input)


def real(input: Tensor) -> Tensor:
    """Return the real part as a view that shares memory.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `input` and the real dtype; `input` itself if it is real.

    Examples
    --------
    >>> z = adjoint.tensor([1 + 2j, 3 - 4j])
    >>> adjoint.real(z)
    tensor([1., 3.])
    """
    if input.array.dtype.kind != "c":
        return input
    return select_p(view_as_real_p(input), input.array.ndim, 0)


def imag(input: Tensor) -> Tensor:
    """Return the imaginary part as a view that shares memory.

    Parameters
    ----------
    input : Tensor
        Of any shape and a complex dtype.

    Returns
    -------
    Tensor
        Of the shape of `input` and the real dtype.

    Raises
    ------
    RuntimeError
        If `input` is not complex.

    Examples
    --------
    >>> z = adjoint.tensor([1 + 2j, 3 - 4j])
    >>> adjoint.imag(z)
    tensor([ 2., -4.])
    """
    if input.array.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return select_p(view_as_real_p(input), input.array.ndim, 1)


def _view_dtype(x: Array, dtype: DType) -> Value:
    if x.ndim == 0 or dtype.itemsize == x.dtype.itemsize:
        return x.view(dtype)
    if x.dtype.itemsize > dtype.itemsize and not (x.strides[-1] == x.itemsize or x.shape[-1] <= 1):
        raise RuntimeError("self.stride(-1) must be 1 to view a tensor as a dtype of smaller element size")
    return x.view(dtype)


view_dtype_p: Primitive = parametric(_view_dtype, view=True, name="view_dtype", batch="same")


def view_dtype(input: Tensor, dtype: Any) -> Tensor:
    """Look at the same bytes as another dtype; no gradient flows through."""
    wanted = as_dtype(dtype).np
    array = input.array
    if wanted == array.dtype:
        return input.detach()
    old, new = array.itemsize, wanted.itemsize
    if old != new and array.ndim == 0:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {of(array.dtype).title} as {of(wanted).title} (different element sizes)"
        )
    if new > old:
        ratio = new // old
        if array.shape[-1] % ratio:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {ratio} to view {of(array.dtype).title} as "
                f"{of(wanted).title} (different element sizes), but got {array.shape[-1]}"
            )
        if not isinstance(array, Payload) and array.strides[-1] != old and array.shape[-1] > 1:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {of(array.dtype).title} as {of(wanted).title} (different "
                f"element sizes), but got {array.strides[-1] // old}"
            )
    return view_dtype_p(input, wanted)
