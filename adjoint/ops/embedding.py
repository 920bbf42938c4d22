"""Rows of a table by number: `embedding` and its gradient; `one_hot`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array, Tensor, Value
from ..core import modes
from ..core.device import CPU, module_of
from ..core.device import of as device_of
from ..core.dtypes import of
from ..core.leaves import AccumulateGrad
from ..core.nodes import wrap
from ..core.observation import literal, opaque
from ..core.payload import Payload, is_batch
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from .bounds import check_index, check_rows
from .compare import eq_p
from .convert import values_of
from .index import beside
from .piecewise import where_p
from .shape import cast_p, reshape_p

__all__ = ["embedding"]


def _embedding(x: Array, i: Array, padding: int, by_frequency: bool) -> Array:
    check_rows(i, x.shape[0])
    return x.take(beside(x, i), axis=0)


def _unembedding(x: Array, i: Array, rows: int, padding: int, by_frequency: bool) -> Array:
    xp = module_of(x)
    width = x.shape[i.ndim :]
    numbers = i.reshape(-1)
    values = x.reshape(numbers.size, *width)
    if by_frequency:
        counts = xp.bincount(numbers, minlength=rows)
        values = values / counts[numbers].astype(x.dtype).reshape(-1, *(1,) * len(width))
    if padding >= 0:
        values = values[numbers != padding]
        numbers = numbers[numbers != padding]
    out: Array = xp.zeros((rows, *width), x.dtype)
    xp.add.at(out, numbers, values)
    return out


def _embedding_mask(g: Value, i: Value, padding: int) -> Value:
    """Return a gradient's gradient with zeros where the padding row was read."""
    if padding < 0:
        return g
    return where_p(reshape_p(i == padding, (*i.shape, *(1,) * (g.ndim - i.ndim))), 0, g)


def _unembedding_x(g: Value, i: Value, padding: int, by_frequency: bool) -> Value:
    if by_frequency:
        raise RuntimeError("embedding_backward: double backward not supported with scale_grad_by_freq")
    return _embedding_mask(embedding_p(g, i, padding, False), i, padding)


embedding_p: Primitive = nary(
    _embedding,
    inputs=2,
    x=lambda g, i, x_shape, padding, by_frequency: unembedding_p(g, i, x_shape[0], padding, by_frequency),
    jvp=lambda tangents, inputs, out, params: embedding_p(tangents[0], inputs[1], *params),
    batch=lambda x, i, padding, by_frequency: _embedding_batch(x, i, padding, by_frequency),
    saved={"i": "indices", "padding": "padding_idx", "by_frequency": "scale_grad_by_freq"},
)
unembedding_p: Primitive = nary(
    _unembedding,
    inputs=2,
    x=_unembedding_x,
    jvp=lambda tangents, inputs, out, params: unembedding_p(tangents[0], inputs[1], *params),
    batch=lambda x, i, rows, padding, by_frequency: _unembedding_batch(x, i, rows, padding, by_frequency),
    node_name="EmbeddingDenseBackward0",
)


def _unembedding_batch(x: Value, i: Value, rows: Any, padding: int, by_frequency: bool) -> Value:
    """Give each element of the batch rows of its own."""
    size = x.shape[0]
    numbers = i + (rows * np.arange(size)).reshape(-1, *(1,) * (i.ndim - 1))
    out = unembedding_p(_embedding_mask(x, i, padding), numbers, size * rows, -1, by_frequency)
    return reshape_p(out, (size, rows, *out.shape[1:]))


def _embedding_batch(x: Value, i: Value, padding: int, by_frequency: bool) -> Value:
    size, rows = x.shape[:2]
    numbers = i + (rows * np.arange(size)).reshape(-1, *(1,) * (i.ndim - 1))
    flat = reshape_p(x, (size * rows, *x.shape[2:]))
    out = embedding_p(flat, numbers, -1, by_frequency)
    if padding < 0 or not isinstance(flat, TensorBase):
        return out
    # Each element of the batch has a padding row of its own: what is read of those has no gradient.
    unrecorded = embedding_p(flat.detach(), numbers, -1, False)
    return where_p(reshape_p(i == padding, (*i.shape, *(1,) * (out.ndim - i.ndim))), unrecorded, out)


def keep_gradient_sparse(weight: Tensor, indices: Tensor, padding: int) -> None:
    """Store only the rows that are looked up in the ``.grad`` of a table that is a leaf."""
    known = not isinstance(indices.array, Payload) and device_of(indices.array) == CPU
    if known and modes.is_grad_enabled() and type(weight.node) is AccumulateGrad:
        from ..sparse.functions import keep_rows  # a sparse tensor is made of tensors, which import this module

        keep_rows(weight, indices.array[indices.array != padding])


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Copy the rows of `weight` at `indices`; the row `padding_idx` gets no gradient.

    Examples
    --------
    >>> adjoint.embedding(adjoint.tensor([[1.0, 2.0], [3.0, 4.0]]), adjoint.tensor([1, 1]))
    tensor([[3., 4.],
            [3., 4.]])
    """
    check_index(indices, "embedding")
    if weight.array.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, but it has {weight.array.ndim} dimensions")
    if sparse:
        keep_gradient_sparse(weight, indices, padding_idx)
    return embedding_p(weight, indices, padding_idx, scale_grad_by_freq)


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Encode classes as vectors with a 1 at the place of the class and 0 elsewhere.

    Parameters
    ----------
    input : Tensor
        Classes, non-negative, of any shape and int64.
    num_classes : int, default -1
        Length of the vectors; -1 for the largest class plus 1.

    Returns
    -------
    Tensor
        Of int64 and the shape of `input`, with a last dimension of size `num_classes`.

    Raises
    ------
    RuntimeError
        If a class is negative or not below `num_classes`, or the dtype is not int64.

    Examples
    --------
    >>> adjoint.nn.functional.one_hot(adjoint.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    >>> adjoint.nn.functional.one_hot(adjoint.tensor([0, 2]), num_classes=4)
    tensor([[1, 0, 0, 0],
            [0, 0, 1, 0]])
    """
    array: Any = input.array
    if of(array.dtype).name != "int64":
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor, not {of(array.dtype).name}."
        )
    if array.size == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if is_batch(input) and num_classes <= 0:
        raise RuntimeError(
            "When vmap-ing adjoint.nn.functional.one_hot, please provide an explicit positive num_classes argument."
        )
    if isinstance(array, Payload) and num_classes != -1:
        hot = eq_p(reshape_p(input, (*input.shape, 1)), wrap(literal(module_of(input.array).arange(num_classes))))
        return cast_p(hot, np.dtype(np.int64))
    return wrap(opaque("one_hot", _one_hot, input, num_classes))


def _one_hot(array: Any, num_classes: int) -> Any:
    array = values_of(array, "item()")
    if array.size:
        if array.min() < 0:
            raise RuntimeError("Class values must be non-negative.")
        if num_classes == -1:
            num_classes = int(array.max()) + 1
        elif num_classes < 1 or array.max() >= num_classes:
            raise RuntimeError(
                "Class values must be smaller than num_classes."
                if num_classes >= 1
                else "num_classes should be positive"
            )
    return (array[..., None] == module_of(array).arange(num_classes)).astype(np.int64)
