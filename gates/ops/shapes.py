# ruff: noqa: E501 (one operator, one line)
"""Calls that change shapes, join, and index."""

from __future__ import annotations

from typing import Any

import numpy as np

from .drawing import FLOATS, INTEGERS, Array, Draw, F, Made, Row, made
from .elementwise import binary, unary
from .reductions import along


def _permute(d: Draw) -> Made:
    x = d.array(d.shape())
    return made(x, tuple(int(i) for i in d.rng.permutation(x.values.ndim)))


def _two_dims(d: Draw, low: int = 1, distinct: bool = False) -> Made:
    x = d.array(d.shape(low))
    rank = x.values.ndim
    a, b = (int(i) for i in d.rng.permutation(rank)[:2]) if distinct else (d.dim(x), d.dim(x))
    return made(x, a, b)


def _joined(d: Draw) -> tuple[list[Array], int]:
    shape = list(d.shape(1))
    dim = d.dim(len(shape))
    parts = []
    for _ in range(d.int(1, 3)):
        own = list(shape)
        own[dim] = d.int(0, 3)
        parts.append(d.array(tuple(own), d.pick(*FLOATS, *INTEGERS) if d.chance(0.1) else ""))
    return parts, dim


def _pad(d: Draw) -> Made:
    mode = d.pick("constant", "constant", "reflect", "replicate", "circular")
    if mode == "constant":
        x = d.array(d.shape(1))
        widths = [d.int(-1, 2) for _ in range(2 * d.int(1, x.values.ndim))]
        return made(x, widths, mode, d.pick(0, 1.5, -1))
    rank = d.int(1, 2)
    x = d.array((d.int(1, 2), d.int(1, 2), *(d.int(3, 5) for _ in range(rank))))
    return made(x, [d.int(0, 2) for _ in range(2 * rank)], mode)


def _indexed(d: Draw) -> tuple[Array, int, Array, Array]:
    """Return a tensor, a dimension, indices along it, and a source of their shape."""
    x = d.array(tuple(max(n, 1) for n in d.shape(1)))
    dim, shape = d.dim(x), x.values.shape
    own = tuple(d.int(1, n) for n in shape)
    size = shape[dim]
    own = tuple(d.int(0, 5) if i == dim % len(shape) else n for i, n in enumerate(own))
    return x, dim, d.index(own, size), d.array(own)


def _along_index(d: Draw) -> tuple[Array, int, Array, Array]:
    """Return a tensor, a dimension, a vector of indices, and a source with that many slices."""
    x = d.array(tuple(max(n, 1) for n in d.shape(1)))
    dim, shape = d.dim(x), list(x.values.shape)
    index = d.index((d.int(0, 4),), shape[dim])
    if not d.chance(0.5):  # copies are promised only for distinct places
        index = Array(d.rng.permutation(shape[dim])[: d.int(0, shape[dim])], "int64")
    shape[dim] = index.values.size
    return x, dim, index, d.array(tuple(shape))


def _copied(d: Draw) -> Made:
    x, dim, _, _ = _along_index(d)
    index = Array(d.rng.permutation(x.values.shape[dim])[: d.int(0, x.values.shape[dim])], "int64")
    shape = list(x.values.shape)
    shape[dim] = index.values.size
    return made(x, dim, index, d.array(tuple(shape)))


def _getitem(d: Draw) -> Made:
    x = d.array(tuple(max(n, 1) for n in d.shape(1)))
    key: list[Any] = []
    for n in x.values.shape[: d.int(1, x.values.ndim)]:
        kind = d.pick("int", "slice", "index", "none", "mask", "step")
        key.append({
            "int": lambda n=n: d.int(-n, n - 1), "slice": lambda n=n: slice(d.int(-n, n), None),
            "index": lambda n=n: d.index((2,), n, True), "none": lambda: None, "mask": lambda n=n: slice(None),
            "step": lambda: slice(None, None, 2),
        }[kind]())  # fmt: skip
    if d.chance(0.15):
        return made(x, d.mask(x.values.shape))
    return made(x, tuple(key))


def _take(d: Draw) -> Made:
    x = d.array(d.shape())
    return made(x, d.index(d.shape(0, 2) if x.values.size else (0,), x.values.size, True))


SHAPE: dict[str, Row] = {
    "permute": _permute,
    **dict.fromkeys(("transpose", "swapaxes", "movedim"), _two_dims),
    **dict.fromkeys(("squeeze", "unsqueeze", "unbind", "flatten"), lambda d: along(d)),
    **dict.fromkeys(("tril", "triu"), lambda d: made(d.array(d.shape(2)), d.int(-2, 2))),
    **dict.fromkeys(("diag",), lambda d: made(d.array(d.shape(1, 2)), d.int(-2, 2))),
    "diagonal": lambda d: (lambda x: made(x, d.int(-2, 2), 0, -1))(d.array(d.shape(2))),
    "diag_embed": lambda d: made(d.array(d.shape(1, 2)), d.int(-1, 2)),
    "diagflat": lambda d: made(d.array(d.shape(0, 2)), d.int(-1, 2)),
    "flip": lambda d: (lambda x: made(x, (d.dim(x),)))(d.array(d.shape(1))),
    "roll": lambda d: (lambda x: made(x, d.int(-3, 3), d.dim(x)))(d.array(d.shape(1))),
    "rot90": lambda d: made(d.array(d.shape(2)), d.int(-3, 4), (0, 1)),
    "tile": lambda d: made(d.array(d.shape()), tuple(d.int(0, 2) for _ in range(d.int(1, 3)))),
    "Tensor.repeat": lambda d: made(d.array(d.shape(0, 2)), *(d.int(0, 3) for _ in range(3))),
    "repeat_interleave": lambda d: (lambda x: made(x, d.int(0, 3), dim=d.dim(x)))(d.array(d.shape(1))),
    "Tensor.expand": lambda d: (lambda x: made(x, d.int(1, 3), *x.values.shape))(d.array(d.shape(0, 2))),
    "reshape": lambda d: made(d.array(d.shape(1)), d.pick((-1,), (1, -1), (-1, 1))),
    "narrow": lambda d: (lambda x, k: made(x, k, 0, d.int(0, x.values.shape[k])))(d.array(d.shape(1, 1)), 0),
    "split": lambda d: (lambda x: made(x, d.int(1, 3), d.dim(x)))(d.array(d.shape(1))),
    "chunk": lambda d: (lambda x: made(x, d.int(1, 4), d.dim(x)))(d.array(d.shape(1))),
    "tensor_split": lambda d: (lambda x: made(x, d.pick(2, 3, (1,), (0, 2)), d.dim(x)))(d.array(d.shape(1))),
    "cat": lambda d: made(*_joined(d)),
    "stack": lambda d: (lambda s: made([d.array(s) for _ in range(d.int(1, 3))], d.dim(len(s) + 1)))(d.shape(0, 2)),
    **dict.fromkeys(("hstack", "vstack", "dstack"), lambda d: (lambda s: made([d.array(s), d.array(s)]))(d.shape())),
    F + "pad": _pad,
    "Tensor.unfold": lambda d: made(d.array((d.int(1, 3), d.int(3, 6))), -1, d.int(1, 3), d.int(1, 2)),
    "unflatten": lambda d: made(d.array((d.int(0, 3), 6)), 1, d.pick((2, 3), (-1, 2), (1, 6))),
    "kron": lambda d: made(d.array(d.shape(0, 2)), d.array(d.shape(0, 2))),
    "outer": lambda d: made(d.array(d.shape(1, 1)), d.array(d.shape(1, 1))),
    "cartesian_prod": lambda d: made(d.array(d.shape(1, 1)), d.array(d.shape(1, 1))),
    "meshgrid": lambda d: made(d.array(d.shape(1, 1)), d.array(d.shape(1, 1)), indexing=d.pick("ij", "xy")),
    "block_diag": lambda d: made(d.array(d.shape(0, 2)), d.array(d.shape(0, 2))),
    "vander": lambda d: made(d.array(d.shape(1, 1)), d.int(0, 4)),
    "broadcast_to": lambda d: (lambda x: made(x, (2, *x.values.shape)))(d.array(d.shape())),
    "nn.functional.one_hot": lambda d: made(d.index(d.shape(0, 2), 4), 5),
    "heaviside": binary,
    "view_as_real": unary,
    "trace": lambda d: made(d.array(d.shape(2, 2))),
}
INDEX: dict[str, Row] = {
    "gather": lambda d: made(*_indexed(d)[:3]),
    "take_along_dim": lambda d: (lambda x, k, i, s: made(x, i, k))(*_indexed(d)),
    "scatter_add": lambda d: made(*_indexed(d)),
    "scatter_reduce": lambda d: made(
        *_indexed(d), reduce=d.pick("sum", "prod", "mean", "amax", "amin"), include_self=d.chance(0.6)
    ),
    "index_select": lambda d: made(*_along_index(d)[:3]),
    "index_add": lambda d: made(*_along_index(d), alpha=d.pick(None, 2)),
    "index_copy": _copied,
    "index_fill": lambda d: made(*_along_index(d)[:3], d.pick(0, 1.5, -2)),
    "index_reduce": lambda d: made(
        *_along_index(d), reduce=d.pick("prod", "mean", "amax", "amin"), include_self=d.chance(0.6)
    ),
    "take": _take,
    "masked_fill": lambda d: (lambda x: made(x, d.mask(d.partner(x.values.shape)), d.pick(0, 1.5, -2)))(d.array(d.shape())),
    "masked_select": lambda d: (lambda x: made(x, d.mask(d.partner(x.values.shape))))(d.array(d.shape())),
    "masked_scatter": lambda d: (lambda x: made(x, d.mask(x.values.shape), d.array((x.values.size + 1,))))(d.array(d.shape())),
    "index_put": lambda d: (lambda x, k, i, s: made(x, (i,), d.array(()), accumulate=d.chance(0.5)))(
        *(lambda x, k, i, s: (x, k, d.index((3,), x.values.shape[0], True), s))(*_along_index(d))),
    "Tensor.__getitem__": _getitem,
    "nonzero": unary,
    "argwhere": unary,
    "searchsorted": lambda d: made(Array(np.sort(d.rng.uniform(-3, 3, 5)), d.dtype), d.array(d.shape()), right=d.chance(0.5)),
    "bucketize": lambda d: made(d.array(d.shape()), Array(np.sort(d.rng.uniform(-3, 3, 5)), d.dtype), right=d.chance(0.5)),
    F + "embedding": lambda d: made(
        d.index(d.shape(0, 2), 4), d.array((4, d.int(1, 3))), padding_idx=d.pick(None, 0, -1), scale_grad_by_freq=d.chance(0.3)
    ),
    F + "embedding_bag": lambda d: made(
        d.index((d.int(1, 3), d.int(1, 4)), 4), d.array((4, d.int(1, 3))), mode=d.pick("sum", "mean", "max"),
        padding_idx=d.pick(None, 0)
    ),
    "unique": unary,
    "isin": lambda d: made(d.array(d.shape()), d.array(d.shape(1, 1))),
    "select_scatter": lambda d: (lambda s: made(d.array(s), d.array(s[1:]), 0, d.int(0, s[0] - 1)))((d.int(1, 3), *d.shape(0, 2))),
    "slice_scatter": lambda d: (lambda s: made(d.array(s), d.array((s[0] - 1, *s[1:])), 0, 1))((d.int(1, 3), *d.shape(0, 2))),
    "diagonal_scatter": lambda d: (lambda n: made(d.array((n, n)), d.array((n,))))(d.int(0, 3)),
}  # fmt: skip
