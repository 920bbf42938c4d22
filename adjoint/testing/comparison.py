"""`assert_close`: check that values are equal within tolerances for their dtype, and report where they are not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import device as devices
from ..core import dtypes
from ..core.tensor import TensorBase
from ..ops import create

# Relative and absolute tolerance; every other dtype must be equal.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


class Options(NamedTuple):
    """How two things are compared; `least_rtol` and `least_atol` raise the default tolerances."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_stride: bool
    least_rtol: float = 0.0
    least_atol: float = 0.0


class Failure(Exception):
    """Two things differ: the exception to raise, and the path to the item inside the containers."""

    def __init__(self, kind: type[Exception], text: str, path: tuple[Any, ...] = ()) -> None:
        self.kind, self.text, self.path = kind, text, path

    def inside(self, key: Any) -> Failure:
        """Return the failure as seen from the container that holds the item at `key`."""
        return Failure(self.kind, self.text, (key, *self.path))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Parameters
    ----------
    actual, expected
        Tensors, arrays, numbers, or sequences and mappings of them, of related types.
    allow_subclasses
        Whether a subclass may be compared with its base class.
    rtol, atol
        Both or neither; by default what fits the dtype (float32: 1.3e-6 and 1e-5; integers: 0).
    equal_nan
        Whether NaN equals NaN.
    check_device, check_dtype, check_stride
        What besides shape and values must be the same.
    check_layout
        Every tensor here is strided; ignored.
    msg
        The message to raise instead, or a function of the default one.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0, 3.0])
    >>> adjoint.testing.assert_close(x + 1e-7, x)
    >>> adjoint.testing.assert_close(x, adjoint.tensor([1.0, 2.0, 4.0]))
    Traceback (most recent call last):
    ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 3 (33.3%)
    Greatest absolute difference: 1.0 at index (2,) (up to 1e-05 allowed)
    Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    options = Options(allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_stride)
    try:
        compare(actual, expected, options)
    except Failure as failure:
        text = message_of(failure)
        if msg is not None and failure.kind is AssertionError:
            text = msg(text) if callable(msg) else msg
        error: Exception = failure.kind(text)
    else:
        return
    raise error  # outside of the handler, so that no second traceback is shown


def message_of(failure: Failure) -> str:
    """Return the message: the difference, and its place in the containers."""
    if not failure.path:
        return failure.text
    place = "".join(f"[{key!r}]" for key in failure.path)
    return f"{failure.text}\n\nThe failure occurred for item {place}"


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """Compare as `assert_close` does, without regard to dtype and with NaN equal to NaN; deprecated.

    Parameters
    ----------
    actual, expected : Tensor or number or list
        What to compare.
    rtol, atol : float, optional
        Relative and absolute tolerance; both or neither. By default they depend on the dtype, as in `assert_close`.
    equal_nan : bool, default True
        Whether NaN equals NaN.
    msg : str, default ""
        Message of the error in place of the one that describes the difference.

    Raises
    ------
    AssertionError
        If ``abs(actual - expected) > atol + rtol * abs(expected)`` somewhere, or shapes differ.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", FutureWarning)
    ...     adjoint.testing.assert_allclose([1.0, 2.0], [1.0, 2.0 + 1e-7])
    """
    __tracebackhide__ = True
    warnings.warn(
        "`adjoint.testing.assert_allclose()` is deprecated, as torch's is; use `assert_close()`",
        FutureWarning,
        stacklevel=2,
    )
    tensors = [x if isinstance(x, TensorBase) else create.as_tensor(x) for x in (actual, expected)]
    assert_close(*tensors, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


# --- By kind ----------------------------------------------------------------------------------------


def compare(actual: Any, expected: Any, options: Options) -> None:
    """Raise a `Failure` unless two values are as close as `options` require."""
    if _both(actual, expected, Sequence) and not isinstance(actual, str) and not isinstance(expected, str):
        return _compare_sequences(actual, expected, options)
    if _both(actual, expected, Mapping):
        return _compare_mappings(actual, expected, options)
    if actual is None or expected is None:
        if actual is not expected:
            raise Failure(AssertionError, f"None mismatch: {actual} is not {expected}")
        return None
    if _both(actual, expected, bool | np.bool_):
        if bool(actual) is not bool(expected):
            raise Failure(AssertionError, f"Booleans mismatch: {actual} is not {expected}")
        return None
    if _both(actual, expected, int | float | complex | np.number):
        return _compare_numbers(actual, expected, options)
    return _compare_tensors(*_as_tensors(actual, expected, options), options)


def _both(actual: Any, expected: Any, kind: Any) -> bool:
    return isinstance(actual, kind) and isinstance(expected, kind)


def _compare_sequences(actual: Any, expected: Any, options: Options) -> None:
    if len(actual) != len(expected):
        raise Failure(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
    for i in range(len(actual)):
        try:
            compare(actual[i], expected[i], options)
        except Failure as failure:
            raise failure.inside(i) from None


def _compare_mappings(actual: Any, expected: Any, options: Options) -> None:
    missing = [key for key in expected if key not in actual]
    extra = [key for key in actual if key not in expected]
    if missing or extra:
        raise Failure(
            AssertionError,
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {_sorted(missing)}\n"
            f"Additional keys in the actual mapping: {_sorted(extra)}",
        )
    for key in _sorted(list(actual)):
        try:
            compare(actual[key], expected[key], options)
        except Failure as failure:
            raise failure.inside(key) from None


def _sorted(keys: list[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:  # keys of several types have no order
        return keys


def _as_tensors(actual: Any, expected: Any, options: Options) -> tuple[Any, Any]:
    """Return both as tensors, if they are tensor-likes of related types."""
    a, b = type(actual), type(expected)
    related = isinstance(actual, b) or isinstance(expected, a) if options.allow_subclasses else a is b
    if related:
        try:
            return create.as_tensor(actual), create.as_tensor(expected)
        except (TypeError, ValueError, RuntimeError):
            pass
    raise Failure(TypeError, f"No comparison pair was able to handle inputs of type {a} and {b}.")


# --- Values -----------------------------------------------------------------------------------------


def _tolerances(names: tuple[str, str], options: Options) -> tuple[float, float]:
    if options.rtol is not None and options.atol is not None:
        return options.rtol, options.atol
    pairs = [TOLERANCES.get(name, (0.0, 0.0)) for name in names]
    return max(options.least_rtol, *(p[0] for p in pairs)), max(options.least_atol, *(p[1] for p in pairs))


def _allowed(tolerance: float, any_allowed: bool) -> str:
    return f" (up to {tolerance} allowed)" if any_allowed else ""


def _compare_numbers(actual: Any, expected: Any, options: Options) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        raise Failure(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    names = (np.asarray(actual).dtype.name, np.asarray(expected).dtype.name)
    rtol, atol = _tolerances(names, options)
    if not _close(np.asarray(actual), np.asarray(expected), rtol, atol, options.equal_nan).all():
        raise Failure(AssertionError, _scalar_message(actual, expected, rtol, atol))


def _close(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
        close = (a == b) | (np.isfinite(apart) & (apart <= atol + np.abs(rtol * b)) & np.isfinite(b))
        if equal_nan:
            close = close | (np.isnan(a) & np.isnan(b))
    return close


def _scalar_message(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    apart = abs(actual - expected)
    with np.errstate(all="ignore"):
        relative = float("inf") if expected == 0 else apart / abs(expected)
    tolerant = rtol != 0 or atol != 0
    return (
        f"Scalars are not {'close' if tolerant else 'equal'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {apart}{_allowed(atol, tolerant)}\n"
        f"Relative difference: {relative}{_allowed(rtol, tolerant)}"
    )


def _same(name: str, actual: Any, expected: Any) -> None:
    if actual != expected:
        text = f"The values for attribute '{name}' do not match: {actual} != {expected}."
        raise Failure(AssertionError, text)


def _compare_tensors(actual: Any, expected: Any, options: Options) -> None:
    _same("shape", actual.shape, expected.shape)
    if options.check_device:
        _same("device", actual.device, expected.device)
    if options.check_dtype:
        _same("dtype", actual.dtype, expected.dtype)
    if options.check_stride:
        _same("stride()", actual.stride(), expected.stride())
    rtol, atol = _tolerances((actual.dtype.name, expected.dtype.name), options)
    common = dtypes.promote_types(actual.dtype, expected.dtype)
    # Integers are compared in a type where their difference fits.
    kind = common.np if common.category > 1 or common.name == "uint64" else np.dtype(np.int64)
    a, b = (devices.place_array(x.array, devices.CPU).astype(kind, copy=False) for x in (actual, expected))
    close = _close(a, b, rtol, atol, options.equal_nan)
    if close.all():
        return
    if a.ndim == 0:
        raise Failure(AssertionError, _scalar_message(*_items(a, b, common), rtol, atol))
    raise Failure(AssertionError, _tensor_message(a, b, close, rtol, atol))


def _items(a: Any, b: Any, common: dtypes.dtype) -> tuple[Any, Any]:
    plain = (a.item(), b.item())
    return (bool(plain[0]), bool(plain[1])) if common is dtypes.bool_ else plain


def _tensor_message(a: Any, b: Any, close: Any, rtol: float, atol: float) -> str:
    tolerant = rtol != 0 or atol != 0
    count, size = int((~close).sum()), close.size
    with np.errstate(all="ignore"):
        apart = np.where(close, np.zeros((), a.real.dtype), np.abs(a - b))
        relative = apart / np.abs(b)
        if apart.dtype.kind in "iu":
            relative = relative.astype(np.float32)
        relative = np.where(close, np.zeros((), relative.dtype), relative)
    lines = [
        f"Tensor-likes are not {'close' if tolerant else 'equal'}!\n",
        f"Mismatched elements: {count} / {size} ({count / size:.1%})",
    ]
    for word, values, tolerance in (("absolute", apart, atol), ("relative", relative, rtol)):
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))
        value = values[at].item()
        lines.append(f"Greatest {word} difference: {value} at index {at}{_allowed(tolerance, tolerant)}")
    return "\n".join(lines)
