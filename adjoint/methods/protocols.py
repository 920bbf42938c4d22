"""The protocols of Python and NumPy: scalars, arrays, iteration; and how subclasses of Tensor are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import dtypes, modes, overrides
from ..core.nodes import wrap
from ..core.payload import is_batch
from ..core.tensor import TensorBase, storage_of
from ..errors import describe
from ..notebook import preformatted
from ..ops import arrange as arranging
from ..ops import convert, copies, create, interop, questions
from ..ops import shape as shapes


def item(self: Tensor) -> Any:
    """Return the only element as a Python number.

    Returns
    -------
    bool, int, float or complex
        By the dtype. It has no history: gradients do not flow through it.

    Raises
    ------
    RuntimeError
        If the tensor has several elements, or none.

    Examples
    --------
    >>> adjoint.tensor([2.5]).item()
    2.5
    >>> (adjoint.tensor([1, 2, 3]) > 1).sum().item()
    2
    """
    if not isinstance(self, TensorBase):
        raise TypeError(f"descriptor 'item' of Tensor doesn't apply to a '{type(self).__name__}' object")
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    if modes.unusual and modes.local.observer is not None:
        found = modes.local.observer.item(self)
        if found is not None:
            return found
    return convert.concrete(self, "item()").item()


def tolist(self: Tensor) -> Any:
    """Return the elements as nested lists of Python numbers.

    Returns
    -------
    list, or a number
        As many levels of lists as there are dimensions; of a scalar, the number itself.

    Examples
    --------
    >>> adjoint.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    >>> adjoint.tensor(0.5).tolist()
    0.5
    """
    return convert.concrete(self, "tolist()").tolist()


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """Return the elements as a NumPy array that shares memory with this tensor.

    Parameters
    ----------
    force : bool, default False
        Detach a tensor that requires a gradient, and copy one that is not on the CPU, instead of raising.

    Returns
    -------
    numpy.ndarray
        Of the same shape and dtype. A write into it changes the tensor.

    Raises
    ------
    RuntimeError
        If the tensor requires a gradient and `force` is False.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> array = x.numpy()
    >>> array[0] = 5.0
    >>> x
    tensor([5., 2.])
    >>> adjoint.tensor([1.0], requires_grad=True).numpy(force=True)
    array([1.], dtype=float32)
    """
    return convert.as_numpy(self, force)


def as_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """Return the elements as a NumPy array, of another dtype by a copy."""
    array = convert.as_numpy(self, False)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"cannot give {array.dtype} elements as {dtype} without a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def wrap_array(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """Return what NumPy computed from a tensor as a tensor."""
    return create.from_numpy(np.asarray(array))


def from_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Apply a ufunc of NumPy's."""
    return interop.from_ufunc(ufunc, method, inputs, kwargs)


def from_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Apply a function of NumPy's."""
    return interop.from_function(func, args, kwargs)


def dlpack_device(self: Tensor) -> Any:
    """Return the device in DLPack's terms."""
    return self.array.__dlpack_device__()


def delete_item(self: Tensor, index: Any) -> None:
    """Raise: a tensor's size is fixed."""
    raise TypeError("Tensor does not support deleting items")


def as_bool(self: Tensor) -> Any:
    """Return the only element as a bool."""
    return questions.truth_of(self)


def as_int(self: Tensor) -> int:
    """Return the only element as an int."""
    return int(questions.real_number_of(self, "int()"))


def as_float(self: Tensor) -> float:
    """Return the only element as a float."""
    return float(questions.real_number_of(self, "float()"))


def as_complex(self: Tensor) -> complex:
    """Return the only element as a complex number."""
    return complex(questions.number_of(self, "complex()"))


def as_index(self: Tensor) -> int:
    """Return the only element of an integer tensor as an index."""
    if self.numel() != 1 or dtypes.of(self.array.dtype).category > 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(questions.number_of(self, "index()"))


def length(self: Tensor) -> int:
    """Return the size of the first dimension."""
    if self.array.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return self.array.shape[0]  # type: ignore[no-any-return]


def iterate(self: Tensor) -> Any:
    """Go over the first dimension."""
    if self.array.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def reverse(self: Tensor) -> Tensor:
    """Return the elements in reverse along all dimensions."""
    return self if self.array.ndim == 0 else arranging.flip(self, tuple(range(self.array.ndim)))


def contains(self: Tensor, element: Any) -> bool:
    """Return whether an element equals the given one."""
    if not isinstance(element, TensorBase | complex | float | int):
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {element.__class__}."
        )
    found = (self == element).any()
    return bool(found.item()) if is_batch(found) else questions.truth_of(found)


def dispatched() -> Any:
    """Return the module for classes that handle ops themselves; only programs with such classes load it."""
    from ..payloads import dispatched as module  # a package above this one

    return module


def of_kind(x: Any, kind: Any) -> Any:
    """Return a fresh tensor as an instance of a subclass, which may handle ops itself."""
    return dispatched().held_data(kind, x) if kind in overrides.dispatching else copies.as_kind(x, kind)


def make_subclass(cls: Any, data: Any, require_grad: bool = False, **options: Any) -> Any:
    """Return a tensor of a subclass that shares memory with `data`."""
    out = of_kind(wrap(data.array, None, storage_of(data)), cls)
    if require_grad:
        create.require_grad(out)
    return out


def make_wrapper_subclass(
    cls: Any, size: Any, strides: Any = None, storage_offset: Any = None, memory_format: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, *rest: Any, **options: Any,
) -> Any:  # fmt: skip
    """Return a tensor of a subclass without elements of its own."""
    if cls not in overrides.dispatching:
        raise TypeError(
            f"{cls.__name__} must define __torch_dispatch__: a tensor without elements of its own is of no use else"
        )
    return dispatched().made_of(cls, size, strides, dtype, device, requires_grad)


def as_subclass(self: Tensor, cls: Any) -> Any:
    """Return this tensor as an instance of a subclass, sharing memory and history."""
    with overrides.SubclassesOff():
        return of_kind(shapes.alias(self), cls)


def is_all_true(self: Tensor) -> Tensor:
    """Return whether all elements of a boolean tensor are true."""
    return self.all()


def is_any_true(self: Tensor) -> Tensor:
    """Return whether any element of a boolean tensor is true."""
    return self.any()


def xpu(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Raise: there is no such device here."""
    raise AssertionError("Torch not compiled with XPU enabled")


def as_html(self: Tensor) -> str:
    """Return what a notebook shows: shape, dtype, device, range, and the values as text shows them."""
    facts = [describe(self), str(self.device)]
    if self.requires_grad:
        facts.append("requires grad" if self.is_leaf else f"grad_fn {type(self.grad_fn).__name__}")
    array = self.array
    if type(array) is np.ndarray and array.size > 1 and array.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            facts.append(f"{array.min():.4g} to {array.max():.4g}, mean {array.mean():.4g}")
    return preformatted(", ".join(facts), repr(self))
