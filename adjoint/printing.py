"""How tensors look as text: NumPy arrays in, the characters torch would print out.

Knows nothing about `Tensor`. Everything here is laid out to match torch letter by letter, so that outputs
pasted from a torch session (doctests, notebooks, bug reports) read the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_repr"]

AnyArray: TypeAlias = NDArray[Any]
Profile: TypeAlias = Literal["default", "short", "full"]

PACKAGE = "adjoint"  # torch's name, where adjoint stands in its place


class Options(NamedTuple):
    """What `set_printoptions` sets; frozen, so a saved copy stays what it was."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None
    shape: bool = False
    stats: bool = False


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

_options = Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: Profile | None = None,
    sci_mode: bool | None = None,
    shape: bool | None = None,
    stats: bool | None = None,
) -> None:
    """Set how tensors are printed, for every thread.

    An option left at None keeps its value, except `sci_mode`: as in torch, every call sets it, and None
    means that each tensor decides for itself.

    Parameters
    ----------
    precision : int, optional
        Digits after the decimal point.
    threshold : float, optional
        Tensors with more elements than this are shortened with ``...``.
    edgeitems : int, optional
        Elements kept at both ends of each shortened dimension.
    linewidth : int, optional
        Characters per line.
    profile : {"default", "short", "full"}, optional
        A set of the four options above, applied before them.
    sci_mode : bool, optional
        Always or never use scientific notation.
    shape : bool, optional
        Also print the shape, as ``shape=(2, 3)``.
    stats : bool, optional
        Also print ``mean=``, ``std=`` (unbiased), ``min=`` and ``max=``.

    Examples
    --------
    >>> set_printoptions(precision=2, shape=True)
    >>> tensor_repr(np.array([1.5, 2.0], np.float32), dtype="float32")
    'tensor([1.50, 2.00], shape=(2,))'
    >>> set_printoptions(profile="default", shape=False)
    """
    global _options
    chosen = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
        "shape": shape,
        "stats": stats,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    _options = _options._replace(**{**_preset(profile), **given, "sci_mode": sci_mode})


def _preset(profile: str | None) -> dict[str, Any]:
    if profile is None:
        return {}
    try:
        return _PROFILES[profile.lower()]
    except KeyError:
        known = ", ".join(map(repr, _PROFILES))
        raise ValueError(f"set_printoptions: no profile named {profile!r}; use one of {known}") from None


def get_printoptions() -> dict[str, Any]:
    """Return the options in force, in a dict that `set_printoptions` accepts.

    Examples
    --------
    >>> get_printoptions()["linewidth"]
    80
    """
    return _options._asdict()


@contextmanager
def printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: Profile | None = None,
    sci_mode: bool | None = None,
    shape: bool | None = None,
    stats: bool | None = None,
) -> Iterator[None]:
    """Set print options as `set_printoptions` does, until the end of the `with` block.

    Examples
    --------
    >>> with printoptions(sci_mode=True):
    ...     print(tensor_repr(np.float32(20.0), dtype="float32"))
    tensor(2.0000e+01)
    """
    global _options
    before = _options
    set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode, shape, stats)
    try:
        yield
    finally:
        _options = before


def tensor_repr(
    array: AnyArray | np.generic,
    *,
    dtype: str,
    default_dtype: str = "float32",
    device: str | None = None,
    grad_fn: str | None = None,
    requires_grad: bool = False,
    is_inference: bool = False,
    kind: str = "tensor",
    tangent: str | None = None,
    module: str | None = None,
) -> str:
    """Return the whole text of a tensor.

    Parameters
    ----------
    array : ndarray
        The values; on the "meta" device only the shape is read.
    dtype : str
        The tensor's dtype, without a module: ``"bfloat16"``.
    default_dtype : str
        The default floating dtype; it and its complex partner are not printed.
    device : str, optional
        The device to print; None, for the default device, prints nothing.
    grad_fn : str, optional
        Name of the node that made the tensor; when given, `requires_grad` is not printed.
    requires_grad : bool
        Whether a leaf requires a gradient.
    is_inference : bool
        Not printed, as in torch; here so that callers can pass all they know.
    kind : str
        The word before the bracket; continuation lines are indented by its length.
    tangent : str, optional
        Text of the tangent, for a dual number.
    module : str, optional
        The word before the dtype's name; by default `PACKAGE`.

    Examples
    --------
    >>> tensor_repr(np.array([[1.0, -2.5]]), dtype="float64", grad_fn="MulBackward0")
    'tensor([[ 1.0000, -2.5000]], dtype=adjoint.float64, grad_fn=<MulBackward0>)'
    >>> tensor_repr(np.zeros((0, 3), np.float32), dtype="float32", requires_grad=True)
    'tensor([], size=(0, 3), requires_grad=True)'
    """
    del is_inference
    values = np.asarray(array)
    body, suffixes = _body(values, len(kind) + 1, meta=device == "meta")
    if device is not None:
        suffixes.insert(0, f"device={device!r}")
    if not _is_implied(dtype, default_dtype, values.size == 0 or device == "meta"):
        suffixes.append(f"dtype={module or PACKAGE}.{dtype}")
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    suffixes += _extras(values, suffixes, device)
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return closed(f"{kind}({body}", suffixes, len(kind) + 1)


def _is_implied(dtype: str, default_dtype: str, unseen: bool) -> bool:
    """Return whether a reader can guess the dtype; `unseen` when no values are printed to guess from."""
    if unseen:
        return dtype == default_dtype
    complex_dtype = "complex128" if default_dtype == "float64" else "complex64"
    return dtype in (default_dtype, complex_dtype, "int64", "bool")


def _body(array: AnyArray, indent: int, meta: bool) -> tuple[str, list[str]]:
    """Return the text of the values, and a size where brackets cannot show the shape."""
    size = f"size={array.shape}"
    if meta:
        return "...", [size]
    if array.size == 0:
        return "[]", [size] if array.ndim != 1 else []
    shortened, edge = array.size > _options.threshold, _options.edgeitems
    # Without edges torch prints the size, also of tensors it does not shorten.
    suffixes = [size] if edge == 0 else []
    if shortened and edge == 0 and array.ndim:
        return "[...]", suffixes
    cuts = [shortened and length > 2 * edge for length in array.shape]
    kept = _readable(_trimmed(array, cuts))
    return _block(kept, cuts, _format_for(kept), indent), suffixes


def _trimmed(array: AnyArray, cuts: Sequence[bool]) -> AnyArray:
    """Select only the edges along every axis that is cut, and read nothing else: an expanded tensor can be endless."""
    if not any(cuts):
        return array
    edge = _options.edgeitems
    ends = [*range(edge), *range(-edge, 0)]
    kept = np.ix_(*[ends if cut else range(length) for cut, length in zip(cuts, array.shape, strict=True)])
    return array[kept]


def _readable(array: AnyArray) -> AnyArray:
    """Widen the small float types, whose elements NumPy cannot hand out as Python floats."""
    if array.dtype.kind in "biuc":
        return array
    # Casting a NaN of a narrow type may set a floating-point flag, which is no news to someone printing.
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


class _Format(Protocol):
    """Text for one element; `width` is what elements are laid out by, a wider text simply sticks out."""

    @property
    def width(self) -> int: ...

    def __call__(self, value: Any) -> str: ...


class _PlainFormat(NamedTuple):
    width: int

    def __call__(self, value: int | bool) -> str:
        return str(value).rjust(self.width)


class _FloatFormat(NamedTuple):
    style: Literal["whole", "fixed", "scientific"]
    precision: int
    width: int = 1

    def __call__(self, value: float) -> str:
        if self.style == "scientific":
            text = f"{value:.{self.precision}e}"
        elif self.style == "fixed":
            text = f"{value:.{self.precision}f}"
        else:
            text = f"{value:.0f}." if math.isfinite(value) else str(value)
        return text.rjust(self.width)


class _ComplexFormat(NamedTuple):
    real: _FloatFormat
    imag: _FloatFormat

    @property
    def width(self) -> int:
        return self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self.imag(value.imag).lstrip()
        sign = "" if imag.startswith("-") else "+"
        return f"{self.real(value.real)}{sign}{imag}j"


def _format_for(array: AnyArray) -> _Format:
    if array.dtype.kind == "c":
        return _ComplexFormat(_float_format(array.real), _float_format(array.imag))
    if array.dtype.kind == "f":
        return _float_format(array)
    return _PlainFormat(max(len(str(value)) for value in array.ravel().tolist()))


def _float_format(array: AnyArray) -> _FloatFormat:
    """Choose the style that shows all of `array` well, and the width that lines it up."""
    precision = _options.precision
    values = array[np.isfinite(array) & (array != 0)].astype(np.float64)
    # Zeros, infinities and NaNs have no say in the layout, not even in the width: torch lets them stick out.
    if values.size == 0:
        return _FloatFormat("whole", precision)
    narrow = _FloatFormat(_style(values), precision)
    return narrow._replace(width=max(len(narrow(value)) for value in values.tolist()))


def _style(values: NDArray[np.float64]) -> Literal["whole", "fixed", "scientific"]:
    sizes = np.abs(values)
    low, high = float(sizes.min()), float(sizes.max())
    whole = bool((values == np.ceil(values)).all())
    # The ratio is taken of Python floats, which overflow to inf without a warning.
    scientific = high / low > 1000 or high > 1e8 or low < 1e-4
    if _options.sci_mode is not None:
        scientific = _options.sci_mode
    if scientific:
        return "scientific"
    return "whole" if whole else "fixed"


def _block(array: AnyArray, cuts: Sequence[bool], form: _Format, indent: int) -> str:
    """Lay out an array whose cut axes have lost their middle; `indent` is the column it starts in."""
    if array.ndim == 0:
        return form(array.item())
    if array.ndim == 1:
        return _row(array.tolist(), cuts[0], form, indent)
    parts = [_block(part, cuts[1:], form, indent + 1) for part in array]
    if cuts[0]:
        parts.insert(_options.edgeitems, "...")
    gap = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return f"[{gap.join(parts)}]"


def _row(values: list[Any], cut: bool, form: _Format, indent: int) -> str:
    texts = [form(value) for value in values]
    if cut:
        texts.insert(_options.edgeitems, " ...")
    per_line = max(1, (_options.linewidth - indent) // (form.width + 2))
    lines = [", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]
    gap = ",\n" + " " * (indent + 1)
    return f"[{gap.join(lines)}]"


def _extras(array: AnyArray, printed: Sequence[str], device: str | None) -> list[str]:
    """Return the suffixes torch does not have; each only if an option enables it."""
    extras = []
    if _options.shape and not any(suffix.startswith("size=") for suffix in printed):
        extras.append(f"shape={array.shape}")
    if _options.stats and array.size and device != "meta":
        extras += [f"{name}={_brief(value)}" for name, value in _statistics(array).items()]
    return extras


def _statistics(array: AnyArray) -> dict[str, Any]:
    array = _readable(array)
    wide = array.astype(np.result_type(array.dtype, np.float64))
    with np.errstate(all="ignore"):
        std = wide.std(ddof=1).item() if wide.size > 1 else math.nan
        found: dict[str, Any] = {"mean": wide.mean().item(), "std": std}
    if array.dtype.kind != "c":
        found |= {"min": array.min().item(), "max": array.max().item()}
    return found


def _brief(value: complex | bool) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{_options.precision}g}"


def closed(text: str, suffixes: Sequence[str], indent: int) -> str:
    """Append the suffixes and the closing bracket, starting a new line where one would not fit."""
    # Two columns are set aside on the line the values end on, and none on lines made of suffixes: torch
    # counts so, and where its lines break depends on it.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"
