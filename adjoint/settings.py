"""What a program sets once: default dtype and device, threads, determinism, precision."""

from __future__ import annotations

import warnings
from typing import Any

from .core import device as devices
from .core import dtypes, modes
from .devices.cpu import products, provider, threads

__all__ = [
    "are_deterministic_algorithms_enabled", "get_default_device", "get_default_dtype", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
    "set_num_interop_threads", "set_num_threads", "set_warn_always", "use_deterministic_algorithms",
]  # fmt: skip


# --- dtype and device -------------------------------------------------------------------------------


def set_default_dtype(d: Any, /) -> None:
    """Set the dtype of tensors that are made of Python floats, or without a `dtype`.

    Parameters
    ----------
    d : dtype
        A floating dtype. The complex one that belongs to it becomes the default of complex numbers.

    Raises
    ------
    TypeError
        If `d` is not a floating dtype.

    Examples
    --------
    >>> adjoint.set_default_dtype(adjoint.float64)
    >>> adjoint.tensor(1.0).dtype, adjoint.zeros(2).dtype, adjoint.tensor(1).dtype
    (adjoint.float64, adjoint.float64, adjoint.int64)
    >>> adjoint.set_default_dtype(adjoint.float32)
    """
    dtypes.set_default(d)


def get_default_dtype() -> dtypes.dtype:
    """Return the dtype of tensors that are made of Python floats, or without a `dtype`.

    Returns
    -------
    dtype
        float32 unless `set_default_dtype` chose another.

    Examples
    --------
    >>> adjoint.get_default_dtype()
    adjoint.float32
    """
    return dtypes.default()


def set_default_device(device: Any) -> None:
    """Set the device on which this thread makes tensors, where none is named.

    Parameters
    ----------
    device : device, str, int or None
        An integer means a GPU; None the CPU.

    Examples
    --------
    >>> adjoint.set_default_device("meta")
    >>> adjoint.zeros(2).device
    device(type='meta')
    >>> adjoint.set_default_device(None)
    >>> adjoint.zeros(2).device
    device(type='cpu')
    """
    devices.set_current(device)


def get_default_device() -> devices.device:
    """Return the device on which this thread makes tensors, where none is named.

    Returns
    -------
    device
        Of the innermost ``with`` block that names a device, or what `set_default_device` chose.

    Examples
    --------
    >>> adjoint.get_default_device()
    device(type='cpu')
    >>> with adjoint.device("meta"):
    ...     adjoint.get_default_device()
    device(type='meta')
    """
    return devices.current()


def set_default_tensor_type(t: Any, /) -> None:
    """Set the default dtype and device by the name of a tensor type.

    It is deprecated and warns so: use `set_default_dtype` and `set_default_device`.

    Parameters
    ----------
    t : type or str
        Such as ``adjoint.DoubleTensor`` or ``"torch.cuda.FloatTensor"``.

    Raises
    ------
    TypeError
        If `t` is no tensor type, or one of integers.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     adjoint.set_default_tensor_type(adjoint.DoubleTensor)
    ...     print(adjoint.zeros(2).dtype)
    ...     adjoint.set_default_tensor_type(adjoint.FloatTensor)
    adjoint.float64
    """
    warnings.warn(
        "adjoint.set_default_tensor_type() is deprecated, please use adjoint.set_default_dtype() and "
        "adjoint.set_default_device() as alternatives.",
        UserWarning,
        stacklevel=2,
    )
    name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
    package, _, kind = name.rpartition(".")
    found = next((d for d in dtypes.ALL if f"{d.title}Tensor" == kind), None)
    if found is None or package not in ("torch", "adjoint", "torch.cuda", "adjoint.cuda"):
        raise TypeError(f"invalid type object: {t!r}; expected a tensor type such as adjoint.DoubleTensor")
    dtypes.set_default(found)
    devices.set_current("cuda" if package.endswith("cuda") else None)


# --- Threads ----------------------------------------------------------------------------------------


class _Threads:
    """How many threads run ops side by side."""

    interop = 1


def _positive(count: Any, name: str) -> int:
    if not isinstance(count, int) or isinstance(count, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(count).__name__}")
    if count < 1:
        raise RuntimeError(f"{name} expects a positive integer, got {count} threads")
    return count


def set_num_threads(num: int, /) -> None:
    """Set how many threads share the work on large arrays: adjoint's own, OpenMP's and those of NumPy's BLAS.

    Parameters
    ----------
    num : int
        At least 1.

    Raises
    ------
    RuntimeError
        If `num` is not a positive integer.

    Examples
    --------
    >>> before = adjoint.get_num_threads()
    >>> adjoint.set_num_threads(1)
    >>> adjoint.get_num_threads()
    1
    >>> adjoint.set_num_threads(before)
    """
    provider.limit(_positive(num, "set_num_threads"))


def get_num_threads() -> int:
    """Return how many threads share a large array."""
    return threads.count


def set_num_interop_threads(num: int, /) -> None:
    """Note a number of threads for running ops side by side; ops run one after another here."""
    _Threads.interop = _positive(num, "set_num_interop_threads")


def get_num_interop_threads() -> int:
    """Return the number that `set_num_interop_threads` noted."""
    return _Threads.interop


# --- Determinism and precision ----------------------------------------------------------------------


class _Promises:
    """The flags that a program has set; the CPU computes the same bits every time anyway."""

    deterministic = False
    warn_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Request the same bits in every run; results on the CPU are the same in any case.

    Only the result of `are_deterministic_algorithms_enabled` changes: no op raises or warns, and none uses
    another algorithm. On a GPU, ops that add into one place from several threads, such as `scatter_add`, may round
    differently from run to run.

    Parameters
    ----------
    mode : bool
        Whether to request determinism.
    warn_only : bool, default False
        Stored beside `mode`.

    Examples
    --------
    >>> adjoint.use_deterministic_algorithms(True)
    >>> adjoint.are_deterministic_algorithms_enabled()
    True
    >>> adjoint.use_deterministic_algorithms(False)
    """
    _Promises.deterministic, _Promises.warn_only = bool(mode), bool(mode) and bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether `use_deterministic_algorithms` is on."""
    return _Promises.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether an op that is not deterministic warns instead of raising."""
    return _Promises.warn_only


_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Request determinism in one word: "default", "warn" or "error", or 0, 1, 2."""
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(f"invalid value of debug_mode, expected one of {_MODES}, but got {debug_mode}")
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2 for "default", "warn" or "error"."""
    return 0 if not _Promises.deterministic else 1 if _Promises.warn_only else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Say how precise products of float32 matrices must be; below "highest" a GPU computes them in TF32."""
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the call has no effect",
            UserWarning,
            stacklevel=2,
        )
        return
    products.precision.set(precision)


def get_float32_matmul_precision() -> str:
    """Return what `set_float32_matmul_precision` was given."""
    return products.precision.word


def set_flush_denormal(mode: bool, /) -> bool:
    """Return False: NumPy computes with denormal numbers."""
    return False


def set_warn_always(b: bool, /) -> None:
    """Note whether warnings should come every time; Python's warning filters decide here."""
    modes.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return what `set_warn_always` was given."""
    return modes.warn_always
