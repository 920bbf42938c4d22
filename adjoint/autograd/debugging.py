"""A debug mode: custom functions are checked against finite differences, saved values against untracked writes."""

from __future__ import annotations

import warnings
from hashlib import blake2b
from typing import Any

import numpy as np

from ..core import device, dtypes, modes
from ..core.nodes import wrap
from ..core.tensor import TensorBase, caller
from ..errors import InPlaceError, describe, place
from .graph import saved_tensors_hooks

__all__ = ["FunctionGradientError", "debug_mode"]


class FunctionGradientError(RuntimeError):
    """The backward of a custom function disagrees with finite differences of its forward."""


class debug_mode:
    """Check what PyTorch takes on trust, while the context is on.

    A checksum of every value saved for the backward pass finds a write that went past the version counter: through the
    NumPy array a tensor came from or was given out as, through ``.data``, through a C library. The first call of every
    custom `Function` is repeated in double precision and its backward compared with finite differences.

    Parameters
    ----------
    saved
        Whether saved values are checked.
    functions
        Whether custom functions are.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> with adjoint.autograd.debug_mode():
    ...     loss = (x * x).sum()
    >>> x.detach().numpy()[0] = 9.0
    >>> loss.backward()
    Traceback (most recent call last):
    ...
    adjoint.errors.InPlaceError: one of the variables needed for gradient computation was written behind ...
    """

    def __init__(self, saved: bool = True, functions: bool = True) -> None:
        self.saved = saved_tensors_hooks(_pack, _unpack) if saved else None
        self.functions = functions

    def __enter__(self) -> debug_mode:
        self.before = modes.local.checked_functions
        if self.functions:
            modes.local.checked_functions = set(self.before or ())
            modes.note_unusual(1)
        if self.saved is not None:
            self.saved.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self.saved is not None:
            self.saved.__exit__(*error)
        if self.functions:
            modes.note_unusual(-1)
        modes.local.checked_functions = self.before


# --- Saved values -------------------------------------------------------------------------------------


def _digest(array: Any) -> bytes:
    host = device.place_array(array, device.CPU) if not isinstance(array, np.ndarray) else array
    return blake2b(np.ascontiguousarray(host).view(np.uint8).data if host.size else b"", digest_size=16).digest()


def _pack(tensor: Any) -> tuple[Any, bytes, str]:
    if not hasattr(tensor.array, "strides"):  # a payload: it never changes
        return tensor.array, b"", ""
    return tensor.array, _digest(tensor.array), place(*caller()) or "an unknown line"


def _unpack(packed: tuple[Any, bytes, str]) -> Any:
    array, digest, where = packed
    if digest and _digest(array) != digest:
        raise InPlaceError(
            "one of the variables needed for gradient computation was written behind adjoint's back: "
            f"{describe(array)}, saved at {where}, is not what it was. No op counted the write; it came through memory "
            "that the tensor shares, such as a NumPy array (from_numpy, numpy()) or .data. Write to a copy."
        )
    return wrap(array)


# --- Custom functions ---------------------------------------------------------------------------------


def check_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Compare a custom function's backward with finite differences, at the first call of its class."""
    checked = modes.local.checked_functions
    wanted = [isinstance(a, TensorBase) and a.node is not None for a in args]
    if checked is None or function in checked or not any(wanted) or not modes.is_grad_enabled():
        return
    checked.add(function)
    from .gradcheck import GradcheckError, gradcheck

    doubles = [_doubled(a, need) for a, need in zip(args, wanted, strict=True)]
    code = function.backward.__code__ if hasattr(function.backward, "__code__") else None
    where = f" (backward at {code.co_filename}:{code.co_firstlineno})" if code else ""
    leaves = tuple(d for d, need in zip(doubles, wanted, strict=True) if need)

    def call(*given: Any) -> Any:
        rest = iter(given)
        return function.apply(*(next(rest) if need else d for d, need in zip(doubles, wanted, strict=True)), **kwargs)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gradcheck(call, leaves, fast_mode=True, check_undefined_grad=False, nondet_tol=np.inf)
    except GradcheckError as error:
        raise FunctionGradientError(
            f"{function.__name__}.backward{where} does not give the gradient of its forward: {error}"
        ) from None
    except Exception as error:
        warnings.warn(
            f"{function.__name__}{where} could not be checked: in double precision it raised "
            f"{type(error).__name__}: {error}",
            stacklevel=4,
        )


def _doubled(value: Any, need: bool) -> Any:
    """Return an argument in double precision, as a leaf if its gradient is wanted."""
    if not isinstance(value, TensorBase):
        return value
    array = value.array
    kind = dtypes.of(array.dtype).category
    wide = array.astype(np.complex128 if kind == 3 else np.float64) if kind >= 2 else array.copy()
    out = wrap(wide)
    return out.requires_grad_() if need else out
