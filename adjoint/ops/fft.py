"""Fourier transforms, as in ``adjoint.fft``.

Three primitives carry them: complex to complex along several axes, real to half a spectrum and back
along one. Each has the others as its gradient, with weights where half a spectrum stands for a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._typing import Array, Axes, DeviceLike, Dims, DType, DTypeArg, Ints, Kernel, LayoutArg, Out, Tensor, Value
from ..core import device as devices
from ..core import dtypes, modes
from ..core.device import module_of
from ..core.dtypes import as_dtype, default, of
from ..core.observation import literal
from ..core.recorders import Primitive, parametric
from .arguments import dim_in, dtype_of, either, require_tensor
from .create import finish, into
from .measure import conjugate
from .reduce import part, shifted, title_of, widened
from .shape import cast_p

__all__: list[str] = []  # see `adjoint.fft`

# The norm that undoes the scale of each, in the other direction.
_ADJOINT = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

# --- Primitives -----------------------------------------------------------------------------------


def _c2c(x: Any, axes: Axes, inverse: bool, norm: str) -> Any:
    fft = module_of(x).fft
    return (fft.ifftn if inverse else fft.fftn)(x, axes=axes, norm=norm).astype(x.dtype)


c2c_p: Primitive = parametric(
    _c2c,
    x=lambda g, axes, inverse, norm: c2c_p(g, axes, not inverse, _ADJOINT[norm]),
    jvp="linear",
    batch=lambda x, axes, inverse, norm: c2c_p(x, shifted(axes), inverse, norm),
    name="fft_c2c",
    node_name="FftC2CBackward0",
)


def _r2c(x: Any, axis: int, norm: str) -> Any:
    return module_of(x).fft.rfft(x, axis=axis, norm=norm).astype(of(x.dtype).to_complex().np)


def _c2r(x: Any, axis: int, length: int, norm: str) -> Any:
    return module_of(x).fft.irfft(x, length, axis=axis, norm=norm).astype(of(x.dtype).to_real().np)


def _weights(like: Value, axis: int, length: int, inner: float) -> Any:
    """Return how often each number of half a spectrum counts: `inner`, but 1 if it has no mirror image."""
    half = length // 2 + 1
    raw = getattr(like, "array", like)
    weights = module_of(raw).full(half, inner, of(dtype_of(like)).to_real().np)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    return literal(weights.reshape([-1 if i == axis else 1 for i in range(like.ndim)]))


r2c_p: Primitive = parametric(
    _r2c,
    x=lambda g, x_shape, axis, norm: c2r_p(
        g * _weights(g, axis, x_shape[axis], 0.5), axis, x_shape[axis], _ADJOINT[norm]
    ),
    jvp="linear",
    batch=lambda x, axis, norm: r2c_p(x, axis + 1, norm),
    name="fft_r2c",
    node_name="FftR2CBackward0",
)
c2r_p: Primitive = parametric(
    _c2r,
    x=lambda g, axis, length, norm: r2c_p(g, axis, _ADJOINT[norm]) * _weights(g, axis, length, 2),
    jvp="linear",
    batch=lambda x, axis, length, norm: c2r_p(x, axis + 1, length, norm),
    name="fft_c2r",
    node_name="FftC2RBackward0",
)

# --- Arguments ------------------------------------------------------------------------------------


def _norm(norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in _ADJOINT:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"; it is "forward", "backward" or "ortho"')
    return norm


def _floating(x: Tensor, name: str) -> Tensor:
    require_tensor(x, "input", name)
    d = x.array.dtype
    if of(d).category < 2:
        return cast_p(x, default().np)
    if d.itemsize == 2:
        if modes.local.autocast is not None:
            return cast_p(x, np.float32)
        raise RuntimeError(
            f"Unsupported dtype {title_of(d)}: transforms are computed in float32 or float64; convert with .float()"
        )
    return x


def _complex(x: Tensor, name: str) -> Tensor:
    x = _floating(x, name)
    d = x.array.dtype
    return x if d.kind == "c" else cast_p(x, of(d).to_complex().np)


def _real(x: Tensor, name: str) -> Tensor:
    require_tensor(x, "input", name)
    if x.array.dtype.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {title_of(x.array.dtype)}")
    return _floating(x, name)


def _sized(x: Tensor, axis: int, n: int | None) -> Tensor:
    """Return `x` cut or filled up with zeros to length `n` along an axis."""
    have = x.array.shape[axis]
    n = have if n is None or n == -1 else n
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    if n == have:
        return x
    return part(x, axis, 0, n) if n < have else widened(x, axis, 0, n - have, 0)


def _axis(x: Tensor, dim: int) -> int:
    if x.array.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return dim_in(dim, x.array.ndim)


def _only_axis(x: Tensor, dim: int, n: int | None) -> int:
    """Return the axis of a transform along one dim, whose length may not be -1, as it may along several."""
    if n is not None and n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return _axis(x, dim)


def _axes(x: Tensor, s: Any, dim: Dims) -> tuple[tuple[int, ...], Sequence[Any]]:
    """Return the axes to transform and the length of each (None or -1 for its own)."""
    rank = x.array.ndim
    if isinstance(s, int):
        s = (s,)
    if isinstance(dim, int):
        dim = (dim,)
    if dim is not None:
        axes = tuple(_axis(x, d) for d in dim)
        if len(set(axes)) != len(axes):
            raise RuntimeError("FFT dims must be unique")
        if s is None:
            return axes, (None,) * len(axes)
        if len(s) != len(axes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        return axes, tuple(s)
    if s is None:
        return tuple(range(rank)), (None,) * rank
    if len(s) > rank:
        raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {rank} dimensions.")
    return tuple(range(rank - len(s), rank)), tuple(s)


# --- One dim --------------------------------------------------------------------------------------


def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the discrete Fourier transform along a dimension.

    ``out[k] = sum_j input[j] * exp(-2 pi i j k / n)``

    Parameters
    ----------
    input : Tensor
        Real or complex, with at least one dimension.
    n : int, optional
        Length to which the input is truncated or padded with zeros first; by default its size along `dim`.
    dim : int, default -1
        Dimension to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by nothing, by ``sqrt(n)`` or by n.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex, of size n along `dim`. The frequencies are those of `fftfreq`: 0 first, the negative ones last.

    Raises
    ------
    RuntimeError
        If the length is below 1, or `norm` is another word.
    IndexError
        If `dim` is out of range.

    Examples
    --------
    >>> adjoint.fft.fft(adjoint.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    dim = dim if axis is None else either(dim, axis, -1)
    return into(out, _one(input, n, dim, norm, False, "fft"))


def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of the discrete Fourier transform along a dimension.

    ``out[j] = sum_k input[k] * exp(2 pi i j k / n) / n``

    Parameters
    ----------
    input : Tensor
        Frequencies as `fft` returns them, real or complex.
    n : int, optional
        Length to which the input is truncated or padded with zeros first; by default its size along `dim`.
    dim : int, default -1
        Dimension to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by n, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex, of size n along `dim`.

    Raises
    ------
    RuntimeError
        If the length is below 1, or `norm` is another word.
    IndexError
        If `dim` is out of range.

    Examples
    --------
    >>> spectrum = adjoint.fft.fft(adjoint.tensor([1.0, 2.0, 3.0, 4.0]))
    >>> adjoint.fft.ifft(spectrum)
    tensor([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    dim = dim if axis is None else either(dim, axis, -1)
    return into(out, _one(input, n, dim, norm, True, "ifft"))


def _one(input: Tensor, n: int | None, dim: int, norm: str | None, inverse: bool, name: str) -> Tensor:
    x = _complex(input, name)
    axis = _only_axis(x, dim, n)
    return c2c_p(_sized(x, axis, n), (axis,), inverse, _norm(norm))


def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the discrete Fourier transform of real values: the frequencies that are not negative.

    Parameters
    ----------
    input : Tensor
        Real, with at least one dimension.
    n : int, optional
        Length to which the input is truncated or padded with zeros first; by default its size along `dim`.
    dim : int, default -1
        Dimension to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by nothing, by ``sqrt(n)`` or by n.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex, of size ``n // 2 + 1`` along `dim`. The negative frequencies would be the conjugates of these.

    Raises
    ------
    RuntimeError
        If `input` is complex, the length is below 1, or `norm` is another word.
    IndexError
        If `dim` is out of range.

    Examples
    --------
    >>> adjoint.fft.rfft(adjoint.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    dim = dim if axis is None else either(dim, axis, -1)
    x = _real(input, "rfft")
    axis = _only_axis(x, dim, n)
    return into(out, r2c_p(_sized(x, axis, n), axis, _norm(norm)))


def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `rfft`: real values of the frequencies that are not negative.

    Parameters
    ----------
    input : Tensor
        Frequencies as `rfft` returns them, of size m along `dim`.
    n : int, optional
        Length of the result; by default ``2 * (m - 1)``. Give it if the original length was odd.
    dim : int, default -1
        Dimension to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by n, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real, of size n along `dim`.

    Raises
    ------
    RuntimeError
        If the length is below 1, or `norm` is another word.
    IndexError
        If `dim` is out of range.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0, 3.0])
    >>> adjoint.fft.irfft(adjoint.fft.rfft(x), n=3)
    tensor([1., 2., 3.])
    """
    dim = dim if axis is None else either(dim, axis, -1)
    x = _complex(input, "irfft")
    axis = _only_axis(x, dim, n)
    return into(out, _to_real(x, axis, n, _norm(norm)))


def _to_real(x: Tensor, axis: int, n: int | None, norm: str) -> Tensor:
    length = 2 * (x.array.shape[axis] - 1) if n is None or n == -1 else n
    if length < 1:
        raise RuntimeError(f"Invalid number of data points ({length}) specified")
    return c2r_p(_sized(x, axis, length // 2 + 1), axis, length, norm)


def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the real spectrum of a signal that equals its mirrored conjugate, from half of it.

    ``hfft(x, n) == irfft(x.conj(), n) * n``

    Parameters
    ----------
    input : Tensor
        Half of the signal, complex, of size m along `dim`.
    n : int, optional
        Length of the result; by default ``2 * (m - 1)``. Give it if the length is odd.
    dim : int, default -1
        Dimension to transform.
    norm : {"backward", "ortho", "forward"}, optional
        Divide by nothing, by ``sqrt(n)`` or by n.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real, of size n along `dim`.

    Raises
    ------
    RuntimeError
        If the length is below 1, or `norm` is another word.
    IndexError
        If `dim` is out of range.

    Examples
    --------
    >>> adjoint.fft.hfft(adjoint.tensor([1.0, 2.0, 3.0]))
    tensor([ 8., -2.,  0., -2.])
    """
    dim = dim if axis is None else either(dim, axis, -1)
    x = _complex(input, "hfft")
    axis = _only_axis(x, dim, n)
    return into(out, _to_real(conjugate(x), axis, n, _ADJOINT[_norm(norm)]))


def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `hfft`: half of a signal that equals its mirrored conjugate.

    ``ihfft(x, n) == rfft(x, n).conj() / n``

    Parameters
    ----------
    input : Tensor
        Real frequencies.
    n : int, optional
        Length to which the input is truncated or padded with zeros first; by default its size along `dim`.
    dim : int, default -1
        Dimension to transform.
    norm : {"backward", "ortho", "forward"}, optional
        Divide by n, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex, of size ``n // 2 + 1`` along `dim`.

    Raises
    ------
    RuntimeError
        If the length is below 1, or `norm` is another word.
    IndexError
        If `dim` is out of range.

    Examples
    --------
    >>> adjoint.fft.ihfft(adjoint.tensor([1.0, 2.0, 3.0, 2.0])).real
    tensor([ 2.0000, -0.5000,  0.0000])
    """
    dim = dim if axis is None else either(dim, axis, -1)
    x = _real(input, "ihfft")
    axis = _only_axis(x, dim, n)
    return into(out, conjugate(r2c_p(_sized(x, axis, n), axis, _ADJOINT[_norm(norm)])))


# --- Several dims ---------------------------------------------------------------------------------


def _several(input: Tensor, s: Any, dim: Dims, norm: str | None, inverse: bool, name: str) -> Tensor:
    x = _complex(input, name)
    axes, sizes = _axes(x, s, dim)
    for axis, n in zip(axes, sizes):
        x = _sized(x, axis, n)
    return c2c_p(x, axes, inverse, _norm(norm)) if axes else x


def fftn(
    input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None, *, out: Out = None,
    axis: Dims = None,
) -> Tensor:  # fmt: skip
    """Return the discrete Fourier transform along several dimensions.

    Parameters
    ----------
    input : Tensor
        Real or complex.
    s : int or tuple of int, optional
        Sizes to which the dimensions are truncated or padded with zeros first; -1 leaves a size as it is.
    dim : int or tuple of int, optional
        Dimensions to transform; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}, optional
        Divide by nothing, by ``sqrt(n)`` or by n, the number of transformed elements.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex.

    Raises
    ------
    RuntimeError
        If dimensions repeat, a size is below 1, or `norm` is another word.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.fftn(x)
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    dim = dim if axis is None else either(dim, axis)
    return into(out, _several(input, s, dim, norm, False, "fftn"))


def ifftn(
    input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None, *, out: Out = None,
    axis: Dims = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `fftn`.

    Parameters
    ----------
    input : Tensor
        Real or complex.
    s : int or tuple of int, optional
        Sizes to which the dimensions are truncated or padded with zeros first; -1 leaves a size as it is.
    dim : int or tuple of int, optional
        Dimensions to transform; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}, optional
        Divide by n, the number of transformed elements, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex.

    Raises
    ------
    RuntimeError
        If dimensions repeat, a size is below 1, or `norm` is another word.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.ifftn(adjoint.fft.fftn(x))
    tensor([[1.+0.j, 2.+0.j],
            [3.+0.j, 4.+0.j]])
    """
    dim = dim if axis is None else either(dim, axis)
    return into(out, _several(input, s, dim, norm, True, "ifftn"))


def rfftn(
    input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None, *, out: Out = None,
    axis: Dims = None,
) -> Tensor:  # fmt: skip
    """Return the discrete Fourier transform of real values along several dimensions.

    Parameters
    ----------
    input : Tensor
        Real.
    s : int or tuple of int, optional
        Sizes to which the dimensions are truncated or padded with zeros first; -1 leaves a size as it is.
    dim : int or tuple of int, optional
        Dimensions to transform; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}, optional
        Divide by nothing, by ``sqrt(n)`` or by n, the number of transformed elements.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex; the last dimension has size ``n // 2 + 1``, without its negative frequencies.

    Raises
    ------
    RuntimeError
        If dimensions repeat, a size is below 1, or `norm` is another word.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.rfftn(x)
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    dim = dim if axis is None else either(dim, axis)
    x = _real(input, "rfftn")
    axes, sizes = _axes(x, s, dim)
    if not axes:
        raise RuntimeError("rfftn must transform at least one axis")
    for axis, n in zip(axes, sizes):
        x = _sized(x, axis, n)
    mode = _norm(norm)
    x = r2c_p(x, axes[-1], mode)
    return into(out, c2c_p(x, axes[:-1], False, mode) if axes[1:] else x)


def irfftn(
    input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None, *, out: Out = None,
    axis: Dims = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `rfftn`: real values of half a spectrum.

    Parameters
    ----------
    input : Tensor
        Half a spectrum, as `rfftn` returns it.
    s : int or tuple of int, optional
        Sizes of the result; by default that of the last dimension is ``2 * (m - 1)`` for m frequencies.
    dim : int or tuple of int, optional
        Dimensions to transform; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}, optional
        Divide by n, the number of transformed elements, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real.

    Raises
    ------
    RuntimeError
        If dimensions repeat, a size is below 1, or `norm` is another word.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.irfftn(adjoint.fft.rfftn(x))
    tensor([[1., 2.],
            [3., 4.]])
    """
    dim = dim if axis is None else either(dim, axis)
    x = _complex(input, "irfftn")
    axes, sizes = _axes(x, s, dim)
    if not axes:
        raise RuntimeError("irfftn must transform at least one axis")
    for axis, n in zip(axes[:-1], sizes[:-1]):
        x = _sized(x, axis, n)
    mode = _norm(norm)
    x = c2c_p(x, axes[:-1], True, mode) if axes[1:] else x
    return into(out, _to_real(x, axes[-1], sizes[-1], mode))


def hfftn(
    input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None, *, out: Out = None,
    axis: Dims = None,
) -> Tensor:  # fmt: skip
    """Return the real spectrum along several dimensions of half a signal, the other half being its mirrored conjugate.

    Parameters
    ----------
    input : Tensor
        Half of a signal that equals its mirrored conjugate.
    s : int or tuple of int, optional
        Sizes of the result; by default that of the last dimension is ``2 * (m - 1)`` for m frequencies.
    dim : int or tuple of int, optional
        Dimensions to transform; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}, optional
        Divide by nothing, by ``sqrt(n)`` or by n, the number of transformed elements.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real.

    Raises
    ------
    RuntimeError
        If dimensions repeat, a size is below 1, or `norm` is another word.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.hfftn(x)
    tensor([[10., -2.],
            [-4.,  0.]])
    """
    dim = dim if axis is None else either(dim, axis)
    x = _complex(input, "hfftn")
    axes, sizes = _axes(x, s, dim)
    if not axes:
        raise RuntimeError("hfftn must transform at least one axis")
    for axis, n in zip(axes[:-1], sizes[:-1]):
        x = _sized(x, axis, n)
    mode = _norm(norm)
    x = c2c_p(x, axes[:-1], False, mode) if axes[1:] else x
    return into(out, _to_real(conjugate(x), axes[-1], sizes[-1], _ADJOINT[mode]))


def ihfftn(
    input: Tensor, s: Ints | None = None, dim: Dims = None, norm: str | None = None, *, out: Out = None,
    axis: Dims = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `hfftn`: half of a signal that equals its mirrored conjugate.

    Parameters
    ----------
    input : Tensor
        Real.
    s : int or tuple of int, optional
        Sizes to which the dimensions are truncated or padded with zeros first; -1 leaves a size as it is.
    dim : int or tuple of int, optional
        Dimensions to transform; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}, optional
        Divide by n, the number of transformed elements, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex; the last dimension has size ``n // 2 + 1``.

    Raises
    ------
    RuntimeError
        If dimensions repeat, a size is below 1, or `norm` is another word.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.ihfftn(x).real
    tensor([[ 2.5000, -0.5000],
            [-1.0000,  0.0000]])
    """
    dim = dim if axis is None else either(dim, axis)
    x = _real(input, "ihfftn")
    axes, sizes = _axes(x, s, dim)
    if not axes:
        raise RuntimeError("ihfftn must transform at least one axis")
    for axis, n in zip(axes, sizes):
        x = _sized(x, axis, n)
    mode = _norm(norm)
    x = conjugate(r2c_p(x, axes[-1], _ADJOINT[mode]))
    return into(out, c2c_p(x, axes[:-1], True, mode) if axes[1:] else x)


def _two(several: Callable[..., Tensor], name: str, doc: str) -> Kernel:
    def transform(
        input: Tensor, s: Ints | None = None, dim: Dims = (-2, -1), norm: str | None = None, *, out: Out = None,
        axis: Dims = None,
    ) -> Tensor:  # fmt: skip
        dim = dim if axis is None else either(dim, axis, (-2, -1))
        if dim is None:
            raise TypeError(f"fft_{name}(): argument 'dim' must be tuple of ints, not NoneType")
        return several(input, s, dim, norm, out=out)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return transform


fft2 = _two(
    fftn,
    "fft2",
    """Return the discrete Fourier transform along two dimensions.

    Parameters
    ----------
    input : Tensor
        Real or complex. At least two dimensions.
    s : tuple of int, optional
        Sizes to which the dimensions are truncated or padded with zeros first; -1 leaves a size as it is.
    dim : tuple of int, default (-2, -1)
        Dimensions to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by nothing, by ``sqrt(n)`` or by n, the number of transformed elements.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.fft2(x)
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """,
)
ifft2 = _two(
    ifftn,
    "ifft2",
    """Return the inverse of `fft2`, along two dimensions.

    Parameters
    ----------
    input : Tensor
        Real or complex. At least two dimensions.
    s : tuple of int, optional
        Sizes to which the dimensions are truncated or padded with zeros first; -1 leaves a size as it is.
    dim : tuple of int, default (-2, -1)
        Dimensions to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by n, the number of transformed elements, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.ifft2(adjoint.fft.fft2(x))
    tensor([[1.+0.j, 2.+0.j],
            [3.+0.j, 4.+0.j]])
    """,
)
rfft2 = _two(
    rfftn,
    "rfft2",
    """Return the discrete Fourier transform of real values along two dimensions.

    Parameters
    ----------
    input : Tensor
        Real. At least two dimensions.
    s : tuple of int, optional
        Sizes to which the dimensions are truncated or padded with zeros first; -1 leaves a size as it is.
    dim : tuple of int, default (-2, -1)
        Dimensions to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by nothing, by ``sqrt(n)`` or by n, the number of transformed elements.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex; the last dimension has size ``n // 2 + 1``, without its negative frequencies.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.rfft2(x)
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """,
)
irfft2 = _two(
    irfftn,
    "irfft2",
    """Return the inverse of `rfft2` along two dimensions: real values of half a spectrum.

    Parameters
    ----------
    input : Tensor
        Half a spectrum, as `rfft2` returns it. At least two dimensions.
    s : tuple of int, optional
        Sizes of the result; by default that of the last dimension is ``2 * (m - 1)`` for m frequencies.
    dim : tuple of int, default (-2, -1)
        Dimensions to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by n, the number of transformed elements, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.irfft2(adjoint.fft.rfft2(x))
    tensor([[1., 2.],
            [3., 4.]])
    """,
)
hfft2 = _two(
    hfftn,
    "hfft2",
    """Return the real spectrum along two dimensions of half a signal, the other half being its mirrored conjugate.

    Parameters
    ----------
    input : Tensor
        Half of a signal that equals its mirrored conjugate. At least two dimensions.
    s : tuple of int, optional
        Sizes of the result; by default that of the last dimension is ``2 * (m - 1)`` for m frequencies.
    dim : tuple of int, default (-2, -1)
        Dimensions to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by nothing, by ``sqrt(n)`` or by n, the number of transformed elements.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Real.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.hfft2(x)
    tensor([[10., -2.],
            [-4.,  0.]])
    """,
)
ihfft2 = _two(
    ihfftn,
    "ihfft2",
    """Return the inverse of `hfft2` along two dimensions: half of a signal that equals its mirrored conjugate.

    Parameters
    ----------
    input : Tensor
        Real. At least two dimensions.
    s : tuple of int, optional
        Sizes to which the dimensions are truncated or padded with zeros first; -1 leaves a size as it is.
    dim : tuple of int, default (-2, -1)
        Dimensions to transform.
    norm : {"backward", "ortho", "forward"}, default "backward"
        Divide by n, the number of transformed elements, by ``sqrt(n)`` or by nothing.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Complex; the last dimension has size ``n // 2 + 1``.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.fft.ihfft2(x).real
    tensor([[ 2.5000, -0.5000],
            [-1.0000,  0.0000]])
    """,
)

# --- Frequencies ----------------------------------------------------------------------------------


def _frequencies(
    values: Array, n: int, d: float, dtype: DType | dtypes.dtype | None, device: DeviceLike, requires_grad: bool,
    out: Value | None,
) -> Tensor:  # fmt: skip
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    wanted = default() if dtype is None else as_dtype(dtype)
    if wanted.category < 2:
        raise RuntimeError(f"fftfreq requires a floating point or complex dtype, not {wanted.name}")
    array = (values / (n * d)).astype(wanted.np)
    made = finish(literal(devices.place_array(array, devices.as_device(device))), requires_grad)
    return into(out, made)


def fftfreq(
    n: int, d: float = 1.0, *, out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return the frequencies of the results of `fft`.

    Parameters
    ----------
    n : int
        Number of values.
    d : float, default 1.0
        Distance between values.
    out : Tensor, optional
        Tensor to write the result to.
    dtype : dtype, optional
        Data type of the result.
    layout : layout, optional
        Memory layout, strided.
    device : device, optional
        Device of the result.
    requires_grad : bool, default False
        Whether operations on the result are recorded.

    Returns
    -------
    Tensor
        (n,): ``[0, 1, ..., -2, -1] / (n * d)``, 0 first, the negative ones last.

    Examples
    --------
    >>> adjoint.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    >>> adjoint.fft.fftfreq(5, d=0.1)
    tensor([ 0.,  2.,  4., -4., -2.])
    """
    half = (n + 1) // 2
    return _frequencies(
        np.concatenate([np.arange(half), np.arange(-(n // 2), 0)]), n, d, dtype, device, requires_grad, out
    )


def rfftfreq(
    n: int, d: float = 1.0, *, out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return the frequencies of the results of `rfft`.

    Parameters
    ----------
    n : int
        Number of values.
    d : float, default 1.0
        Distance between values.
    out : Tensor, optional
        Tensor to write the result to.
    dtype : dtype, optional
        Data type of the result.
    layout : layout, optional
        Memory layout, strided.
    device : device, optional
        Device of the result.
    requires_grad : bool, default False
        Whether operations on the result are recorded.

    Returns
    -------
    Tensor
        (n // 2 + 1,): ``[0, 1, ..., n // 2] / (n * d)``.

    Examples
    --------
    >>> adjoint.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies(np.arange(max(n, 0) // 2 + 1), n, d, dtype, device, requires_grad, out)


def _shift_dims(input: Tensor, dim: Dims) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(input.array.ndim))
    return tuple(dim_in(d, input.array.ndim) for d in ((dim,) if isinstance(dim, int) else dim))


def fftshift(input: Tensor, dim: Dims = None, *, axis: Dims = None) -> Tensor:
    """Move frequency 0 from the front to the middle.

    Parameters
    ----------
    input : Tensor
        Frequencies, in the order of `fftfreq`.
    dim : int or tuple of int, optional
        Dimensions to reorder; all by default.

    Returns
    -------
    Tensor
        Of the shape of `input`, the negative frequencies first.

    Examples
    --------
    >>> adjoint.fft.fftshift(adjoint.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    dim = dim if axis is None else either(dim, axis)
    dims = _shift_dims(input, dim)
    return input.roll(tuple(input.array.shape[d] // 2 for d in dims), dims)


def ifftshift(input: Tensor, dim: Dims = None, *, axis: Dims = None) -> Tensor:
    """Move frequency 0 from the middle to the front: the inverse of `fftshift`.

    Parameters
    ----------
    input : Tensor
        Frequencies in ascending order.
    dim : int or tuple of int, optional
        Dimensions to reorder; all by default.

    Returns
    -------
    Tensor
        Of the shape of `input`, in the order of `fftfreq`.

    Examples
    --------
    >>> adjoint.fft.ifftshift(adjoint.fft.fftshift(adjoint.fft.fftfreq(4)))
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    dim = dim if axis is None else either(dim, axis)
    dims = _shift_dims(input, dim)
    return input.roll(tuple((input.array.shape[d] + 1) // 2 for d in dims), dims)
