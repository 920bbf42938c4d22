"""Batches of samples: lists of tensors, numbers, dicts and tuples become tensors of one dimension more."""

from __future__ import annotations

import collections.abc
import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core import dtypes
from ....core.tensor import TensorBase
from ....ops.create import as_tensor, from_numpy, tensor
from ....ops.join import stack

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert", "np_str_obj_array_pattern"]

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # kinds of NumPy arrays that are no numbers
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_convert(data: Any) -> Any:
    """Convert the NumPy arrays in a sample to tensors; other values stay unchanged.

    Examples
    --------
    >>> from adjoint.utils.data import default_convert
    >>> default_convert({"x": np.ones(2), "name": "a"})
    {'x': tensor([1., 1.], dtype=adjoint.float64), 'name': 'a'}
    """
    if isinstance(data, TensorBase | str | bytes):
        return data
    if isinstance(data, np.ndarray | np.generic):
        if data.dtype.kind in "SUO":
            return data
        return as_tensor(np.asarray(data))
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return _rebuilt(data, [default_convert(value) for value in data])
    return data


def _rebuilt(like: Any, values: Any) -> Any:
    """Return values in a container of the same class where that can be made, plain otherwise."""
    if type(like) in (dict, list):
        return values
    try:
        if isinstance(like, collections.abc.MutableMapping):
            made: Any = copy.copy(like)
            made.update(values)
            return made
        if isinstance(like, collections.abc.MutableSequence):
            made = copy.copy(like)
            for at, value in enumerate(values):
                made[at] = value
            return made
        return type(like)(values)
    except TypeError:
        return values


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """Make a batch of samples, with functions for the classes of its leaves."""
    first = batch[0]
    for kind, function in (collate_fn_map or {}).items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        made = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        return _rebuilt(first, made)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        columns: Any = zip(*batch, strict=True)
        return type(first)(*(collate(column, collate_fn_map=collate_fn_map) for column in columns))
    if isinstance(first, collections.abc.Sequence) and not isinstance(first, str | bytes):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = list(zip(*batch, strict=True))
        collated = [collate(column, collate_fn_map=collate_fn_map) for column in columns]
        return collated if isinstance(first, tuple) else _rebuilt(first, collated)
    raise TypeError(default_collate_err_msg_format.format(type(first)))


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stack tensors."""
    return stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stack arrays to a tensor."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return from_numpy(np.stack(list(batch)))


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Make a tensor of NumPy numbers."""
    return as_tensor(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Make a tensor of float64: Python's floats lose nothing."""
    return tensor(list(batch), dtype=dtypes.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Make a tensor of integers."""
    return tensor(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Leave text as it is."""
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    TensorBase: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Make one batch of a list of samples.

    Parameters
    ----------
    batch : list
        Samples that are alike: tensors of one shape, NumPy arrays, numbers, strings, or dicts, tuples, named tuples and
        lists of these.

    Returns
    -------
    object
        What a sample is, with tensors stacked along a new first dimension, arrays and numbers made tensors, and
        strings in a list or tuple.

    Raises
    ------
    TypeError
        If samples are of another type.
    RuntimeError
        If shapes or lengths differ.

    Examples
    --------
    >>> from adjoint.utils.data import default_collate
    >>> default_collate([{"x": adjoint.ones(2), "y": 0}, {"x": adjoint.zeros(2), "y": 1}])
    {'x': tensor([[1., 1.],
            [0., 0.]]), 'y': tensor([0, 1])}
    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
