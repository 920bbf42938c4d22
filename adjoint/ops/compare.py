"""Comparisons, logic and bits: ops whose results carry no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, Out, Tensor, Value
from ..core import dtypes, modes
from ..core.device import module_of
from ..core.failures import not_implemented
from ..core.inplace import inplace
from ..core.payload import Payload
from ..core.primitive import by_ufunc
from ..core.recorders import binary, nary, public, unary
from ..core.tensor import TensorBase
from .arguments import require_any, require_pair, require_tensor
from .create import into

Number = Any

# --- Order and equality -----------------------------------------------------------------------------


def _ordered(ufunc: np.ufunc, name: str) -> Callable[[Any, Any], Any]:
    """Return a comparison that refuses complex numbers, which NumPy would order by their real parts."""

    def kernel(x: Array, y: Value) -> Any:
        if x.dtype.kind == "c":
            raise not_implemented(name, x)
        return ufunc(x, y)

    return kernel


eq_p = binary(np.equal, name="eq")
ne_p = binary(np.not_equal, name="ne")
lt_p = binary(_ordered(np.less, "lt"), name="lt")
le_p = binary(_ordered(np.less_equal, "le"), name="le")
gt_p = binary(_ordered(np.greater, "gt"), name="gt")
ge_p = binary(_ordered(np.greater_equal, "ge"), name="ge")
by_ufunc.update({np.less: lt_p, np.less_equal: le_p, np.greater: gt_p, np.greater_equal: ge_p})

eq_, ne_, lt_, le_ = inplace(eq_p), inplace(ne_p), inplace(lt_p), inplace(le_p)
gt_, ge_ = inplace(gt_p), inplace(ge_p)


def eq_operator(input: Tensor, other: object) -> Any:
    """Return ``input == other``; nothing is equal to an operand that is neither a tensor nor a number."""
    try:
        return eq_p(input, other)
    except TypeError:
        return NotImplemented


def ne_operator(input: Tensor, other: object) -> Any:
    """Return ``input != other``."""
    try:
        return ne_p(input, other)
    except TypeError:
        return NotImplemented


def eq(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return where `input` equals `other`: ``input == other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape. NaN equals nothing.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.eq(adjoint.tensor([1, 2, 3]), 2)
    tensor([False,  True, False])
    >>> adjoint.eq(adjoint.tensor([[1], [2]]), adjoint.tensor([1, 2]))
    tensor([[ True, False],
            [False,  True]])
    """
    require_tensor(input, "input", "eq")
    return into(out, eq_p(input, other))


def ne(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return where `input` differs from `other`: ``input != other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape. NaN differs from everything, itself included.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.ne(adjoint.tensor([1, 2, 3]), 2)
    tensor([ True, False,  True])
    >>> adjoint.ne(adjoint.tensor([[1], [2]]), adjoint.tensor([1, 2]))
    tensor([[False,  True],
            [ True, False]])
    """
    require_tensor(input, "input", "ne")
    return into(out, ne_p(input, other))


def lt(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return where `input` is less than `other`: ``input < other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape and a real dtype.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape. False where an element is NaN.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> adjoint.lt(adjoint.tensor([1, 2, 3]), 2)
    tensor([ True, False, False])
    >>> adjoint.lt(adjoint.tensor([[1], [2]]), adjoint.tensor([1, 2]))
    tensor([[False,  True],
            [False, False]])
    """
    require_tensor(input, "input", "lt")
    return into(out, lt_p(input, other))


def le(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return where `input` is less than or equal to `other`: ``input <= other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape and a real dtype.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape. False where an element is NaN.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> adjoint.le(adjoint.tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    >>> adjoint.le(adjoint.tensor([[1], [2]]), adjoint.tensor([1, 2]))
    tensor([[ True,  True],
            [False,  True]])
    """
    require_tensor(input, "input", "le")
    return into(out, le_p(input, other))


def gt(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return where `input` is greater than `other`: ``input > other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape and a real dtype.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape. False where an element is NaN.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> adjoint.gt(adjoint.tensor([1, 2, 3]), 2)
    tensor([False, False,  True])
    >>> adjoint.gt(adjoint.tensor([[1], [2]]), adjoint.tensor([1, 2]))
    tensor([[False, False],
            [ True, False]])
    """
    require_tensor(input, "input", "gt")
    return into(out, gt_p(input, other))


def ge(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return where `input` is greater than or equal to `other`: ``input >= other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape and a real dtype.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape. False where an element is NaN.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> adjoint.ge(adjoint.tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    >>> adjoint.ge(adjoint.tensor([[1], [2]]), adjoint.tensor([1, 2]))
    tensor([[ True, False],
            [ True,  True]])
    """
    require_tensor(input, "input", "ge")
    return into(out, ge_p(input, other))


not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge

# --- Logic ------------------------------------------------------------------------------------------

logical_and_p = binary(np.logical_and)
logical_or_p = binary(np.logical_or)
logical_xor_p = binary(np.logical_xor)
logical_not_p = unary(np.logical_not)

logical_and_, logical_or_ = inplace(logical_and_p), inplace(logical_or_p)
logical_xor_, logical_not_ = inplace(logical_xor_p), inplace(logical_not_p)


def logical_and(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return where both `input` and `other` are non-zero.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape and dtype; what is not zero counts as True.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.logical_and(adjoint.tensor([True, True, False]), adjoint.tensor([1, 0, 0]))
    tensor([ True, False, False])
    """
    require_pair(input, other, "logical_and")
    return into(out, logical_and_p(input, other))


def logical_or(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return where at least one of `input` and `other` is non-zero.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape and dtype; what is not zero counts as True.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.logical_or(adjoint.tensor([True, True, False]), adjoint.tensor([1, 0, 0]))
    tensor([ True,  True, False])
    """
    require_pair(input, other, "logical_or")
    return into(out, logical_or_p(input, other))


def logical_xor(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return where exactly one of `input` and `other` is non-zero.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape and dtype; what is not zero counts as True.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.logical_xor(adjoint.tensor([True, True, False]), adjoint.tensor([1, 0, 0]))
    tensor([False,  True, False])
    """
    require_pair(input, other, "logical_xor")
    return into(out, logical_xor_p(input, other))


@public(logical_not_p)
def logical_not(input: Tensor, *, out: Out = None) -> Tensor:
    """Return where `input` is zero or False.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of dtype bool and the shape of `input`.

    Examples
    --------
    >>> adjoint.logical_not(adjoint.tensor([0.0, 2.0]))
    tensor([ True, False])
    """


# --- Bits -------------------------------------------------------------------------------------------

bitwise_and_p = binary(np.bitwise_and)
bitwise_or_p = binary(np.bitwise_or)
bitwise_xor_p = binary(np.bitwise_xor)
bitwise_not_p = unary(np.invert, name="bitwise_not")


def _shift(ufunc: np.ufunc, name: str) -> Callable[[Any, Any], Any]:
    def kernel(x: Array, y: Value) -> Any:
        if x.dtype.kind == "b":
            raise not_implemented(name, x)
        return ufunc(x, y)

    return kernel


bitwise_left_shift_p = binary(_shift(np.left_shift, "lshift"), name="bitwise_left_shift")
bitwise_right_shift_p = binary(_shift(np.right_shift, "rshift"), name="bitwise_right_shift")

bitwise_and_, bitwise_or_ = inplace(bitwise_and_p), inplace(bitwise_or_p)
bitwise_xor_, bitwise_not_ = inplace(bitwise_xor_p), inplace(bitwise_not_p)
bitwise_left_shift_, bitwise_right_shift_ = inplace(bitwise_left_shift_p), inplace(bitwise_right_shift_p)


def bitwise_and(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return the bitwise AND of integers or booleans: ``input & other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape, of integers or booleans.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype; of booleans it is the logical AND.

    Raises
    ------
    NotImplementedError
        If a dtype is floating or complex.

    Examples
    --------
    >>> adjoint.bitwise_and(adjoint.tensor([6, 5]), 3)
    tensor([2, 1])
    >>> adjoint.tensor([True, False]) & adjoint.tensor([True, True])
    tensor([ True, False])
    """
    require_any(input, other, "bitwise_and")
    return into(out, bitwise_and_p(input, other))


def bitwise_or(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return the bitwise OR of integers or booleans: ``input | other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape, of integers or booleans.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype; of booleans it is the logical OR.

    Raises
    ------
    NotImplementedError
        If a dtype is floating or complex.

    Examples
    --------
    >>> adjoint.bitwise_or(adjoint.tensor([6, 5]), 3)
    tensor([7, 7])
    >>> adjoint.tensor([True, False]) | adjoint.tensor([True, True])
    tensor([True, True])
    """
    require_any(input, other, "bitwise_or")
    return into(out, bitwise_or_p(input, other))


def bitwise_xor(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return the bitwise XOR of integers or booleans: ``input ^ other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape, of integers or booleans.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype; of booleans it is the logical XOR.

    Raises
    ------
    NotImplementedError
        If a dtype is floating or complex.

    Examples
    --------
    >>> adjoint.bitwise_xor(adjoint.tensor([6, 5]), 3)
    tensor([5, 6])
    >>> adjoint.tensor([True, False]) ^ adjoint.tensor([True, True])
    tensor([False,  True])
    """
    require_any(input, other, "bitwise_xor")
    return into(out, bitwise_xor_p(input, other))


@public(bitwise_not_p)
def bitwise_not(input: Tensor, *, out: Out = None) -> Tensor:
    """Flip the bits of integers, or booleans.

    Parameters
    ----------
    input : Tensor
        Integers or booleans.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.bitwise_not(adjoint.tensor([0, -1]))
    tensor([-1,  0])
    >>> adjoint.bitwise_not(adjoint.tensor([True, False]))
    tensor([False,  True])
    """


def bitwise_left_shift(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Shift the bits of `input` to the left by `other`.

    Parameters
    ----------
    input : Tensor
        Integers.
    other : Tensor or number
        Number of bits, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.bitwise_left_shift(adjoint.tensor([1, 2]), 3)
    tensor([ 8, 16])
    """
    require_any(input, other, "bitwise_left_shift")
    return into(out, bitwise_left_shift_p(input, other))


def bitwise_right_shift(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Shift the bits of `input` to the right by `other`, keeping the sign.

    Parameters
    ----------
    input : Tensor
        Integers.
    other : Tensor or number
        Number of bits, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.bitwise_right_shift(adjoint.tensor([8, 16]), 3)
    tensor([1, 2])
    """
    require_any(input, other, "bitwise_right_shift")
    return into(out, bitwise_right_shift_p(input, other))


def rlshift(input: Tensor, other: Tensor | Number) -> Tensor:
    """Return ``other << input``."""
    return bitwise_left_shift_p(other, input)


def rrshift(input: Tensor, other: Tensor | Number) -> Tensor:
    """Return ``other >> input``."""
    return bitwise_right_shift_p(other, input)


# --- Kinds of numbers -------------------------------------------------------------------------------


def _for_floats(ufunc: np.ufunc, of_others: bool) -> Callable[[Any], Any]:
    """Return a test of floats whose result for integers is known (NumPy converts them to floats first)."""

    def kernel(x: Array) -> Any:
        if x.dtype.kind in "biu":
            return module_of(x).full(x.shape, of_others)
        return ufunc(x)

    return kernel


isnan_p = unary(_for_floats(np.isnan, False), name="isnan")
isinf_p = unary(_for_floats(np.isinf, False), name="isinf")
isfinite_p = unary(_for_floats(np.isfinite, True), name="isfinite")
signbit_p = unary(lambda x: x < 0 if x.dtype.kind in "biu" else np.signbit(x), name="signbit")
by_ufunc.update({np.isnan: isnan_p, np.isinf: isinf_p, np.isfinite: isfinite_p, np.signbit: signbit_p})


def isnan(input: Tensor) -> Tensor:
    """Return for each element whether it is NaN, not a number.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        Of dtype bool and the shape of `input`. A complex number is NaN if one of its parts is.

    Examples
    --------
    >>> adjoint.isnan(adjoint.tensor([1.0, float("nan"), float("inf")]))
    tensor([False,  True, False])
    """
    return isnan_p(input)


def isinf(input: Tensor) -> Tensor:
    """Return for each element whether it is infinite, of either sign.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        Of dtype bool and the shape of `input`. A complex number is infinite if one of its parts is.

    Examples
    --------
    >>> adjoint.isinf(adjoint.tensor([1.0, float("-inf"), float("nan")]))
    tensor([False,  True, False])
    """
    return isinf_p(input)


def isfinite(input: Tensor) -> Tensor:
    """Return for each element whether it is neither infinite nor NaN.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        Of dtype bool and the shape of `input`. A complex number is finite if both of its parts are.

    Examples
    --------
    >>> adjoint.isfinite(adjoint.tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """
    return isfinite_p(input)


def isposinf(input: Tensor, *, out: Out = None) -> Tensor:
    """Return where `input` is plus infinity.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        bool, of the shape of `input`.

    Examples
    --------
    >>> adjoint.isposinf(adjoint.tensor([1.0, float("inf"), -float("inf")]))
    tensor([False,  True, False])
    """
    _refuse_complex(input, "isposinf")
    return into(out, logical_and_p(isinf_p(input), gt_p(input, 0)))


def isneginf(input: Tensor, *, out: Out = None) -> Tensor:
    """Return where `input` is minus infinity.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        bool, of the shape of `input`.

    Examples
    --------
    >>> adjoint.isneginf(adjoint.tensor([1.0, float("inf"), -float("inf")]))
    tensor([False, False,  True])
    """
    _refuse_complex(input, "isneginf")
    return into(out, logical_and_p(isinf_p(input), lt_p(input, 0)))


def _refuse_complex(input: Tensor, name: str) -> None:
    require_tensor(input, "input", name)
    if input.array.dtype.kind == "c":
        raise RuntimeError(f"{name} does not support complex inputs.")


def isreal(input: Tensor) -> Tensor:
    """Return where the imaginary part of `input` is zero.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        bool, of the shape of `input`.

    Examples
    --------
    >>> adjoint.isreal(adjoint.tensor([1 + 0j, 1j]))
    tensor([ True, False])
    """
    require_tensor(input, "input", "isreal")
    if input.array.dtype.kind == "c":
        return eq_p(input.imag, 0)
    return eq_p(zeros_p(input), 0)


def signbit(input: Tensor, *, out: Out = None) -> Tensor:
    """Return where the sign bit is set: for negative numbers and -0.0.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        bool, of the shape of `input`.

    Examples
    --------
    >>> adjoint.signbit(adjoint.tensor([1.0, -1.0, -0.0]))
    tensor([False,  True,  True])
    """
    _refuse_complex(input, "signbit")
    return into(out, signbit_p(input))


zeros_p = unary(lambda x: module_of(x).zeros_like(x), name="zeros_like", holomorphic=False)


def no_gradient(g: Value) -> Value:
    """Return zeros like a gradient."""
    return zeros_p(g)


# --- Closeness --------------------------------------------------------------------------------------


def _isclose(x: Array, y: Array, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    close = x == y
    if equal_nan:
        close = close | (np.isnan(x) & np.isnan(y))
    if rtol == 0 and atol == 0:
        return close
    if x.dtype.kind in "biu":
        x, y = x.astype(np.float64), y.astype(np.float64)
    near = np.isfinite(y) & (np.abs(x - y) <= atol + np.abs(rtol * y))
    return close | near


isclose_p = nary(_isclose, inputs=2, batch="elementwise")


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return where elements are close: ``|input - other| <= atol + rtol * |other|``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    other : Tensor
        Of the same dtype, broadcast with `input`.
    rtol : float, default 1e-5
        Tolerance relative to `other`.
    atol : float, default 1e-8
        Absolute tolerance.
    equal_nan : bool, default False
        Count NaN as close to NaN.

    Returns
    -------
    Tensor
        Of dtype bool and the broadcast shape. Infinities are close only to themselves.

    Raises
    ------
    RuntimeError
        If the dtypes differ, or a tolerance is negative.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0, float("nan")])
    >>> adjoint.isclose(x, adjoint.tensor([1.0 + 1e-6, 2.1, float("nan")]))
    tensor([ True, False, False])
    >>> adjoint.isclose(x, x, equal_nan=True)
    tensor([True, True, True])
    """
    require_tensor(input, "input", "isclose")
    require_tensor(other, "other", "isclose")
    a, b = input.array.dtype, other.array.dtype
    if a != b:
        raise RuntimeError(f"{dtypes.of(a).title} did not match {dtypes.of(b).title}: isclose compares equal dtypes")
    if not (rtol >= 0 and atol >= 0):
        raise RuntimeError(
            f"rtol must be greater than or equal to zero, but got {rtol}"
            if not rtol >= 0
            else f"atol must be greater than or equal to zero, but got {atol}"
        )
    return isclose_p(input, other, rtol, atol, equal_nan)


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements are close: ``|input - other| <= atol + rtol * |other|``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    other : Tensor
        Of the same dtype, broadcast with `input`.
    rtol : float, default 1e-5
        Tolerance relative to `other`.
    atol : float, default 1e-8
        Absolute tolerance.
    equal_nan : bool, default False
        Count NaN as close to NaN.

    Returns
    -------
    bool
        Whether `isclose` holds for each element.

    Raises
    ------
    RuntimeError
        If the dtypes differ, or a tolerance is negative.

    Examples
    --------
    >>> adjoint.allclose(adjoint.ones(2), adjoint.ones(2) + 1e-7)
    True
    >>> adjoint.allclose(adjoint.ones(2), adjoint.ones(2) + 1e-3)
    False
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not isinstance(value, int | float):
            raise TypeError(f"allclose(): argument '{name}' must be float, not {type(value).__name__}")
    return _truth(isclose(input, other, rtol, atol, equal_nan), "allclose()")


def _truth(x: TensorBase, what: str) -> bool:
    array = x.array
    if isinstance(array, Payload):
        array = array.concrete(what)  # type: ignore[attr-defined]
    return bool(array.all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape and equal elements.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    other : Tensor
        The tensor to compare with; it is not broadcast.

    Returns
    -------
    bool
        False if the shapes differ, or an element is NaN.

    Examples
    --------
    >>> adjoint.equal(adjoint.tensor([1, 2]), adjoint.tensor([1, 2]))
    True
    >>> adjoint.equal(adjoint.ones(2), adjoint.ones(3))
    False
    """
    require_tensor(input, "input", "equal")
    require_tensor(other, "other", "equal")
    a, b = input.array, other.array
    if not modes.unusual and type(a) is type(b) and a.dtype is b.dtype:
        return bool(a.shape == b.shape and int(np.count_nonzero(a == b)) == a.size)
    if tuple(input.array.shape) != tuple(other.array.shape):
        return False
    return (input.array is other.array and not _may_hold_nan(input)) or _truth(eq_p(input, other), "equal()")


def _may_hold_nan(x: TensorBase) -> bool:
    return x.array.dtype.kind not in "biu"


__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "eq", "equal", "ge", "greater", "greater_equal", "gt", "isclose", "isfinite", "isinf",
    "isnan", "isneginf", "isposinf", "isreal", "le", "less", "less_equal", "logical_and", "logical_not",
    "logical_or", "logical_xor", "lt", "ne", "not_equal", "signbit",
]  # fmt: skip
