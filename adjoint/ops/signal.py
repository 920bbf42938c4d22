"""Window functions, and the short-time Fourier transform."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._typing import DeviceLike, DTypeArg, LayoutArg, Tensor, Value
from ..core import device as devices
from ..core import dtypes
from ..core.device import module_of
from ..core.dtypes import as_dtype, default, float32, of
from ..core.observation import literal
from .arguments import dtype_of
from .create import finish
from .dimensions import transpose_p
from .fft import c2c_p, c2r_p, r2c_p
from .index import slice_p
from .kinds import view_as_real
from .literals import depth_outside, real_of
from .parts import refold_p, unfold_p
from .precision import autocasting
from .reduce import widened
from .shape import cast_p, expand_p, reshape_p
from .slices import index_select_p

__all__ = [
    "bartlett_window", "blackman_window", "hamming_window", "hann_window", "istft", "kaiser_window", "stft",
]  # fmt: skip

# --- Windows, as in ``adjoint.signal.windows`` ------------------------------------------------------


def _checked_window(name: str, M: int, dtype: DTypeArg, layout: LayoutArg) -> Any:
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    wanted = default() if dtype is None else as_dtype(dtype)
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and not str(layout).endswith("strided"):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if not wanted.is_floating_point or wanted.itemsize < 4:
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {wanted}")
    return wanted


def _window(
    name: str, M: int, sym: bool, dtype: DTypeArg, layout: LayoutArg, device: DeviceLike, requires_grad: bool,
    shape: Any,
) -> Tensor:  # fmt: skip
    """Return a window: `shape` gives its values at places 0 to `span`; a periodic one leaves out the last."""
    wanted = _checked_window(name, M, dtype, layout)
    if M < 2:
        values = np.ones(M)
    else:
        span = M - 1 if sym else M
        values = shape(np.arange(M, dtype=np.float64), span)
    array = devices.place_array(values.astype(wanted.np), devices.as_device(device))
    return finish(literal(array), requires_grad)


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a window that is a sum of cosines with weights `a`, of alternating signs."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = [float(w) for w in a]
    if not weights:
        raise ValueError("Coefficients cannot be empty")

    def shape(t: Value, span: int) -> Any:
        return sum((-1) ** k * w * np.cos(2 * np.pi * k * t / span) for k, w in enumerate(weights))

    return _window("general_cosine", M, sym, dtype, layout, device, requires_grad, shape)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a window ``alpha - (1 - alpha) * cos``."""
    alpha = real_of(alpha, "alpha", "general_hamming")
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hamming(
    M: int, *, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a Hamming window."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a Hann window.

    Examples
    --------
    >>> adjoint.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def blackman(
    M: int, *, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a Blackman window."""
    _checked_window("blackman", M, dtype, layout)
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def nuttall(
    M: int, *, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a Nuttall window, of least side lobes."""
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def bartlett(
    M: int, *, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a triangular window."""
    return _window(
        "bartlett", M, sym, dtype, layout, device, requires_grad, lambda t, span: 1 - np.abs(2 * t / span - 1)
    )


def cosine(
    M: int, *, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return half a period of a sine."""
    return _window(
        "cosine", M, sym, dtype, layout, device, requires_grad, lambda t, span: np.sin(np.pi * (t + 0.5) / (span + 1))
    )


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DTypeArg = None,
    layout: LayoutArg = None, device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a window that falls off exponentially from its center, by 1/e over `tau` places."""
    tau = real_of(tau, "tau", "exponential")
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def shape(t: Value, span: int) -> Any:
        return np.exp(-np.abs(t - (span / 2 if center is None else center)) / tau)

    return _window("exponential", M, sym, dtype, layout, device, requires_grad, shape)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a window of the shape of a normal distribution."""
    std = real_of(std, "std", "gaussian")
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window(
        "gaussian",
        M,
        sym,
        dtype,
        layout,
        device,
        requires_grad,
        lambda t, span: np.exp(-(((t - span / 2) / std) ** 2) / 2),
    )


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a Kaiser window; a larger `beta` makes it narrower."""
    beta = real_of(beta, "beta", "kaiser")
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def shape(t: Value, span: int) -> Any:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * t / span - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser", M, sym, dtype, layout, device, requires_grad, shape)


def _old(
    name: str,
    make: Callable[..., Tensor],
    length: int,
    periodic: bool,
    dtype: DTypeArg,
    options: dict[str, Any],
    **more: Any,
) -> Tensor:
    """Return a window under the name and with the errors that torch's own namespace gives it."""
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    wanted = default() if dtype is None else as_dtype(dtype)
    if not wanted.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {wanted}")
    if wanted.itemsize < 4:
        return cast_p(make(length, sym=not periodic, dtype=float32, **options, **more), wanted.np)
    return make(length, sym=not periodic, dtype=wanted, **options, **more)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a Hann window, periodic by default.

    Examples
    --------
    >>> adjoint.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return _old("hann_window", hann, window_length, periodic, dtype, options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: DTypeArg = None,
    layout: LayoutArg = None, device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a window ``alpha - beta * cos``, periodic by default."""
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return _old("hamming_window", general_cosine, window_length, periodic, dtype, options, a=[alpha, beta])


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a triangular window, periodic by default."""
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return _old("bartlett_window", bartlett, window_length, periodic, dtype, options)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a Blackman window, periodic by default."""
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return _old("blackman_window", blackman, window_length, periodic, dtype, options)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a Kaiser window, periodic by default."""
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return _old("kaiser_window", kaiser, window_length, periodic, dtype, options, beta=beta)


# --- Short-time Fourier transform -------------------------------------------------------------------


def _padded(x: Tensor, width: int, mode: str) -> Tensor:
    """Return `x` with its last dim continued on both sides."""
    last, n = x.array.ndim - 1, x.array.shape[-1]
    if mode == "constant":
        return widened(x, last, width, width)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if (mode == "reflect" and width >= n) or (mode == "circular" and width > n):
        raise RuntimeError(
            f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({width}, {width}) at dimension {last} of input {list(x.array.shape)}"
        )
    at = np.pad(np.arange(n), width, mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])  # type: ignore[call-overload]
    found: Tensor = index_select_p(x, finish(literal(module_of(x.array).asarray(at))), last)
    return found


def _wide_window(x: Tensor, window: Tensor | None, n_fft: int, win_length: int) -> Tensor:
    """Return the window, or one of ones, with zeros on both sides up to `n_fft`."""
    if window is None:
        a = x.array
        real = of(a.dtype).to_real().np
        window = finish(literal(module_of(a).ones((win_length,), real)))
    left = (n_fft - win_length) // 2
    return widened(window, 0, left, n_fft - win_length - left) if win_length < n_fft else window


@autocasting
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the short-time Fourier transform: overlapping pieces of `n_fft` elements, multiplied by `window`.

    The result has frequencies in its last dim but one, and time in the last.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    complex_input = input.array.dtype.kind == "c" or (window is not None and window.array.dtype.kind == "c")
    if return_complex is None:
        if not complex_input:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that "
                "return_complex=True in a future PyTorch release."
            )
        return_complex = True
    _check_stft(input, n_fft, hop, width, window, center)
    x = input
    if center:
        x = _padded(x, n_fft // 2, pad_mode)
    if not 0 < n_fft <= x.array.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft < {x.array.shape[-1]}, but got n_fft={n_fft}")
    frames = unfold_p(x, x.array.ndim - 1, n_fft, hop) * _wide_window(x, window, n_fft, width)
    last = frames.array.ndim - 1
    norm = "ortho" if normalized else "backward"
    half = not complex_input if onesided is None else onesided
    if half and complex_input:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if half:
        found = r2c_p(frames, last, norm)
    else:
        whole = frames if complex_input else cast_p(frames, of(frames.array.dtype).to_complex().np)
        found = c2c_p(whole, (last,), False, norm)
    found = transpose_p(found, last - 1, last)
    return found if return_complex else view_as_real(found)


def _check_stft(x: Tensor, n_fft: int, hop: int, width: int, window: Tensor | None, center: bool) -> None:
    a = x.array
    if of(a.dtype).category < 2:
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, not {of(a.dtype).name}")
    if a.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, not one of shape {list(a.shape)}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and tuple(window.array.shape) != (width,):
        raise RuntimeError(
            f"stft: expected a 1D window tensor of size equal to win_length={width}, but got window with size "
            f"{list(window.array.shape)}"
        )


def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """Return the signal whose short-time Fourier transform is `input`, the inverse of `stft`."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    a = input.array
    if a.dtype.kind != "c":
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if a.size == 0 or a.ndim not in (2, 3):
        raise RuntimeError(f"istft: input tensor must be 2 or 3 dims and not empty, but its shape is {list(a.shape)}")
    half = a.shape[-2] != n_fft if onesided is None else onesided
    if a.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft"
            f"{' / 2 + 1' if half else ''} when onesided={half}, but got {a.shape[-2]}"
        )
    if not 0 < hop <= width:
        raise RuntimeError("istft: expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise RuntimeError("istft: expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.array.shape) != (width,):
        raise RuntimeError(f"istft: Invalid window shape. window has to be 1D and length of `win_length`={width}")
    spectrum = transpose_p(input, a.ndim - 2, a.ndim - 1)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        if half:
            raise RuntimeError("istft: cannot have onesided output if window or input is complex")
        frames = c2c_p(spectrum, (a.ndim - 1,), True, norm)
    else:
        if window is not None and window.array.dtype.kind == "c":
            raise RuntimeError("istft: complex windows are incompatible with return_complex=False")
        part = spectrum if half else slice_p(spectrum, (..., slice(None, n_fft // 2 + 1)))
        frames = c2r_p(part, a.ndim - 1, n_fft, norm)
    full = _wide_window(input, window, n_fft, width)
    return _overlapped(frames * full, full, n_fft, hop, center, length)


def _overlapped(frames: Tensor, window: Tensor, n_fft: int, hop: int, center: bool, length: int | None) -> Tensor:
    """Return the sum of overlapping frames over that of the squared window, cut to the signal's length."""
    *lead, count, _ = frames.array.shape
    total = n_fft + hop * (count - 1)
    y = refold_p(frames, (*lead, total), len(lead), n_fft, hop)
    power = expand_p(reshape_p(window * window, (1, n_fft)), (count, n_fft))
    envelope = refold_p(power, (total,), 0, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    stop = min(end, total)
    y = slice_p(y, (..., slice(start, stop)))
    envelope = slice_p(envelope, (slice(start, stop),))
    raw = envelope.detach().array
    if isinstance(raw, np.ndarray) and raw.size and not float(np.abs(raw).min()) > 1e-11:
        raise RuntimeError("istft: window overlap add min: 1; the window is zero where no other one overlaps it")
    y = y / (envelope if dtype_of(envelope) == dtype_of(y) else cast_p(envelope, dtype_of(y)))
    if end > total:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings.",
            stacklevel=depth_outside(),
        )
        y = widened(y, y.array.ndim - 1, 0, end - total)
    return y
