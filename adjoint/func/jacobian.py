"""Jacobians and Hessians: `jacrev`, `jacfwd`, `hessian`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import device as devices
from ..core.nodes import wrap
from ..core.observation import literal
from ..core.payload import Payload
from ..core.tensor import TensorBase
from ..ops.shape import reshape_p
from ..tree import tree_flatten, tree_leaves
from .batch import vmap
from .forward import jvp
from .reverse import Argnums, checked_argnums, split_aux, vjp_by_position


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that computes the Jacobian of `func` in reverse mode: best for few outputs.

    Parameters
    ----------
    func : callable
        A function of tensors that returns tensors; with `has_aux`, a pair of those and anything else.
    argnums : int or tuple of int, default 0
        Which arguments to differentiate by.
    has_aux : bool, default False
        Whether `func` returns a pair.
    chunk_size : int, optional
        How many rows of the Jacobian to compute at a time; None for all at once.

    Returns
    -------
    callable
        Takes the arguments of `func`, returns the Jacobian, of shape ``(*output.shape, *input.shape)``; a tuple of
        them if `argnums` is a tuple; with `has_aux` the pair of that and the rest.

    Examples
    --------
    >>> from adjoint.func import jacrev
    >>> jacrev(lambda x: x**2)(adjoint.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        checked_argnums(argnums, len(args))
        _refuse_complex("jacrev", tree_leaves(args), "inputs")
        out, pull, aux = vjp_by_position(functools.partial(func, **kwargs) if kwargs else func, args, argnums, has_aux)
        outs, out_spec = tree_flatten(out)
        _refuse_complex("jacrev", outs, "outputs")
        rows = _rows(outs, lambda *gs: pull(out_spec.unflatten(list(gs))), chunk_size)
        flat, in_spec = tree_flatten(rows)
        found = [in_spec.unflatten(part) for part in _split_rows(flat, outs)]
        jacobian = out_spec.unflatten(found)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def _refuse_complex(where: str, values: Any, which: str) -> None:
    """Raise if a tensor is complex: its real and imaginary part are two variables, which a Jacobian would mix."""
    for i, x in enumerate(values):
        if isinstance(x, TensorBase) and x.array.dtype.kind == "c":
            raise RuntimeError(
                f"{where}: Expected all {which} to be real but received complex tensor at flattened input idx: {i}; "
                "take view_as_real() of it"
            )


def _rows(outs: list[Any], pull: Callable[..., Any], chunk_size: int | None) -> Any:
    """Pull back every unit vector of the outputs, in one batch."""
    if len(outs) == 1 and math.prod(outs[0].array.shape) == 1:
        rows = pull(_unit(outs[0]))
        flat, spec = tree_flatten(rows)
        return spec.unflatten([reshape_p(r, (1, *r.array.shape)) for r in flat])
    return vmap(pull, chunk_size=chunk_size, randomness="same")(*_basis(outs))


def _unit(out: Any) -> Any:
    shape, dtype, xp = _make_like(out)
    return wrap(literal(xp.ones(shape, dtype)))


def _make_like(x: Any) -> tuple[Any, Any, Any]:
    """Return shape, dtype and array module to make an array beside `x` with."""
    array = x.array
    module = np if isinstance(array, Payload) else devices.module_of(array)
    return tuple(array.shape), array.dtype, module


def _basis(tensors: list[Any]) -> list[Any]:
    """Return, for each tensor, its part of the unit vectors of all of them together."""
    sizes = [math.prod(t.array.shape) for t in tensors]
    total, start, basis = sum(sizes), 0, []
    for t, n in zip(tensors, sizes, strict=True):
        shape, dtype, xp = _make_like(t)
        part = xp.eye(total, n, -start, dtype=dtype) if n else xp.zeros((total, 0), dtype)
        basis.append(wrap(literal(part.reshape(total, *shape))))
        start += n
    return basis


def _split_rows(flat: list[Any], outs: list[Any]) -> list[list[Any]]:
    """Return, for each output, the gradients of its elements in its shape."""
    parts, start = [], 0
    for o in outs:
        n = math.prod(o.array.shape)
        picked = [r if len(outs) == 1 else r.narrow(0, start, n) for r in flat]
        parts.append([reshape_p(r, (*o.array.shape, *r.array.shape[1:])) for r in picked])
        start += n
    return parts


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` in forward mode: best for few inputs.

    Parameters
    ----------
    func : callable
        A function of tensors that returns tensors; with `has_aux`, a pair of those and anything else.
    argnums : int or tuple of int, default 0
        Which arguments to differentiate by.
    has_aux : bool, default False
        Whether `func` returns a pair.
    randomness : str, default "error"
        "error", "same" or "different": what random functions do for each column.

    Returns
    -------
    callable
        Takes the arguments of `func`, returns the Jacobian, of shape ``(*output.shape, *input.shape)``; a tuple of
        them if `argnums` is a tuple; with `has_aux` the pair of that and the rest.

    Examples
    --------
    >>> from adjoint.func import jacfwd
    >>> jacfwd(lambda x: x**2)(adjoint.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = checked_argnums(argnums, len(args))
        _refuse_complex("jacfwd", tree_leaves(args), "inputs")
        chosen = args[numbers[0]] if isinstance(argnums, int) else tuple(args[i] for i in numbers)
        flat, spec = tree_flatten(chosen)
        for x in flat:
            if not isinstance(x, TensorBase):
                raise RuntimeError(f"jacfwd: Expected the chosen arguments to be Tensors, got {type(x)}")
        shape_of: list[Any] = []

        def of_chosen(*values: Any) -> Any:
            fresh = spec.unflatten(list(values))
            replaced = list(args)
            for i, v in zip(numbers, (fresh,) if isinstance(argnums, int) else fresh, strict=True):
                replaced[i] = v
            return func(*replaced, **kwargs)

        of_chosen.__wrapped__ = func  # type: ignore[attr-defined]

        def push(*tangents: Any) -> Any:
            _, *slopes = jvp(of_chosen, tuple(flat), tangents, has_aux=has_aux)
            leaves, out_spec = tree_flatten(slopes[0])
            _refuse_complex("jacfwd", leaves, "outputs")
            shape_of.append(out_spec)
            return (leaves, slopes[1]) if has_aux else leaves

        out_dims = (-1, None) if has_aux else -1
        found = vmap(push, randomness=randomness, out_dims=out_dims)(*_basis(flat))
        columns, aux = split_aux(tuple(found), True, "jacfwd") if has_aux else (found, None)
        jacobian = shape_of[0].unflatten([spec.unflatten(_split_columns(c, flat)) for c in columns])
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def _split_columns(columns: Any, inputs: list[Any]) -> list[Any]:
    """Return, for each input, the derivatives by its elements in its shape."""
    shape = tuple(columns.array.shape[:-1])
    parts, start = [], 0
    for x in inputs:
        n = math.prod(x.array.shape)
        picked = columns if len(inputs) == 1 else columns.narrow(-1, start, n)
        parts.append(reshape_p(picked, (*shape, *x.array.shape)))
        start += n
    return parts


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of `func`: forward mode over reverse mode.

    Parameters
    ----------
    func : callable
        A function of tensors that returns a scalar or other tensors.
    argnums : int or tuple of int, default 0
        Which arguments to differentiate by.

    Returns
    -------
    callable
        Takes the arguments of `func`, returns ``(*output.shape, *input.shape, *input.shape)``.

    Examples
    --------
    >>> from adjoint.func import hessian
    >>> hessian(lambda x: (x**3).sum())(adjoint.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
