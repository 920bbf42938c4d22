"""What nodes have saved, as torch shows it: `_saved_NAME` where that is not one saved value under another name.

Nothing here runs unless a program reads such an attribute of a node.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from .._typing import Op, Shape

Saved = Callable[[str], Any]  # what a node saves, by the name that its op has for it; None for what it does not save
View = Callable[[Saved, Any], Any]  # of what is saved and the shape of the output, None where it is unknown


def _keepdim(saved: Saved, out: Shape | None) -> bool:
    return out is not None and len(out) == len(saved("x_shape")) > 0


def _numel(saved: Saved, out: Shape | None) -> int:
    return math.prod(saved("x_shape"))


def _of(name: str, number: int) -> View:
    """Return a view of one of several values."""

    def view(saved: Saved, out: Shape | None) -> Any:
        values = saved(name)
        return None if values is None else values[number]

    return view


def _plain(name: str) -> View:
    return lambda saved, out: saved(name)


def _flat(name: str) -> View:
    def view(saved: Saved, out: Shape | None) -> Any:
        x = saved(name)
        return None if x is None else x.reshape(-1)

    return view


def _always(value: object) -> View:
    return lambda saved, out: value


def _sizes(name: str) -> View:
    def view(saved: Saved, out: Shape | None) -> Any:
        x = saved(name)
        return None if x is None else tuple(x.shape)

    return view


def _strides(name: str) -> View:
    def view(saved: Saved, out: Shape | None) -> Any:
        x = saved(name)
        return None if x is None else tuple(x.stride())

    return view


def _places(index: object, rank: int) -> list[tuple[int, Any]]:
    """Return the parts of an index that take something away, each with its dimension."""
    if not isinstance(index, tuple):
        index = (index,)
    given = sum(i is not None and i is not Ellipsis for i in index)
    dim, found = 0, []
    for i in index:
        if i is Ellipsis:
            dim += rank - given
        elif i is not None:
            found.append((dim, i))
            dim += 1
    return [(d, i) for d, i in found if i != slice(None)]


def _last(saved: Saved) -> tuple[int, Any]:
    return (_places(saved("index"), len(saved("x_shape"))) or [(0, slice(None))])[-1]


def _start(saved: Saved, out: Shape | None) -> int:
    return int(_last(saved)[1].start or 0)


def _end(saved: Saved, out: Shape | None) -> int:
    stop = _last(saved)[1].stop
    return sys.maxsize if stop is None else int(stop)


def _step(saved: Saved, out: Shape | None) -> int:
    return int(_last(saved)[1].step or 1)


def _added_axis(saved: Saved, out: Shape | None) -> int | None:
    """Return where the output has an axis that the input has not."""
    x = tuple(saved("x_shape"))
    return None if out is None else next((i for i, n in enumerate(out) if n == 1 and out[:i] + out[i + 1 :] == x), None)


def _lost_axis(saved: Saved, out: Shape | None) -> int | None:
    x = tuple(saved("x_shape"))
    return None if out is None else next((i for i, n in enumerate(x) if n == 1 and x[:i] + x[i + 1 :] == out), None)


def _unsigned(name: str) -> View:
    return lambda saved, out: saved(name) % 2**64  # as torch shows a number that may be negative


def _transposed(name: str, what: str = "") -> View:
    """Return a view of the transpose of a matrix: itself, its sizes or its strides."""

    def view(saved: Saved, out: Shape | None) -> Any:
        x = saved(name)
        if x is None:
            return None
        return tuple(x.t().shape) if what == "sizes" else tuple(x.t().stride()) if what == "strides" else x.t()

    return view


def is_one_of_many(name: str) -> bool:
    """Return whether a name is that of one of the inputs of an op of any number of them, or of its shape."""
    return name[0] == "x" and name[1:].removesuffix("_shape").isdigit()


def _axis(saved: Saved, out: Shape | None) -> object:
    """Return the dimension of a getitem, or of what is cut into parts."""
    return _last(saved)[0]


def _parts_axis(saved: Saved, out: Shape | None) -> int:
    rank = len(saved("x_shape"))
    return next((d for index in saved("indexes") for d, _ in _places(index, rank)), 0)


def _part_size(saved: Saved, out: Shape | None) -> int:
    places = _places(saved("indexes")[0], len(saved("x_shape")))
    return places[0][1].stop - (places[0][1].start or 0) if places else 0


def _part_sizes(saved: Saved, out: Shape | None) -> list[int]:
    rank = len(saved("x_shape"))
    return [i.stop - (i.start or 0) for index in saved("indexes") for _, i in _places(index, rank)[:1]]


def _spelled(saved: Saved, out: Shape | None) -> object:
    """Return the tensors that an index is made of, None for a whole dimension."""
    spec = saved("spec")
    if spec is None:
        return (None,) * (saved("axis") or 0) + (saved("i"),)
    first = 2 if saved("x2") is not None and saved("x1") is None else 1
    return tuple(None if not isinstance(i, int) or i < 0 else saved(f"x{i + first}") for i in spec)


def _widths(saved: Saved, out: Shape | None) -> list[int]:
    flat = [n for pair in reversed(saved("widths")) for n in pair]
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        del flat[-2:]
    return flat


def _matrices(first: str, second: str, a: str, b: str) -> dict[str, View | None]:
    return {
        f"{first}_sym_sizes": _sizes(a),
        f"{first}_sym_strides": _strides(a),
        f"{second}_sym_sizes": _sizes(b),
        f"{second}_sym_strides": _strides(b),
    }


_INDICES: dict[str, View | None] = {"result": None, "indices": _of("out", 1)}
_SELECT: dict[str, View | None] = {"dim": _axis, "index": lambda saved, out: _last(saved)[1]}
_OPTION: dict[str, View | None] = {"option": None}
_NORM: dict[str, View | None] = {"dim": None, "shape": None, "eps": None, "mean": None, "rstd": None}
_POOL: dict[str, View | None] = {"plans": None}

# By the op's name, or its nodes'; None for what torch does not show.
TABLE: dict[str, dict[str, View | None]] = {
    "sum": {"keepdim": _keepdim},
    "mean": {"keepdim": _keepdim, "self_sym_numel": _numel},
    "mean_all": {"self_sym_numel": _numel},
    "max_all": {"dim": None, "keepdim": None},
    "min_all": {"dim": None, "keepdim": None},
    "max_dim": _INDICES,
    "min_dim": _INDICES,
    "median_dim": _INDICES,
    "nanmedian_dim": _INDICES,
    "mode": _INDICES,
    "cummax": _INDICES,
    "cummin": _INDICES,
    "sort": {"index": None, "indices": _plain("i")},
    "topk": {"index": None, "indices": _plain("i")},
    "cumsum": {"reverse": None},
    "mm": _matrices("self", "mat2", "x", "y"),
    "getitem": _SELECT,
    "slice": {"index": None, "dim": _axis, "start": _start, "end": _end, "step": _step},
    "getitem_none": {"index": None, "self_sym_sizes": None, "dim": _added_axis},
    "unsqueeze": {"self_sym_sizes": None, "dim": _added_axis},
    "split": {"indexes": None, "dim": _parts_axis, "split_size": _part_size},
    "split_with_sizes": {"indexes": None, "dim": _parts_axis, "split_sizes": _part_sizes},
    "unbind": {"indexes": None, "self_sym_sizes": None, "dim": _parts_axis},
    "pick": {"dim": None, "indices": _spelled},
    "IndexBackward0": {"spec": None, "indices": _spelled, "self_sym_sizes": lambda saved, out: saved("x0_shape")},
    "squeeze": {"dim": _lost_axis},
    "masked_fill": {"self_sym_sizes": None},
    "rsub": {"alpha": _always(1)},
    "cast": {"x_dtype": None},
    "copy": {"y_dtype": None, "y_shape": None},
    "roll": {"dim": None, "dims": _plain("axes")},
    "mse_loss": _OPTION,
    "soft_margin_loss": _OPTION,
    "smooth_l1_loss": {"option": None, "beta": _plain("option")},
    "huber_loss": {"option": None, "delta": _plain("option")},
    "binary_cross_entropy": {"option": None, "weight": _plain("option")},
    "pad": {"widths": None, "pad": _widths},
    "embedding": {
        "self_sym_sizes": None, "weight_sym_argsize_0": _of("x_shape", 0), "sparse": _always(False),
        "padding_idx": _unsigned("padding"),
    },
    "project": {
        "mat2": _transposed("y"), "mat2_sym_sizes": _transposed("y", "sizes"),
        "mat2_sym_strides": _transposed("y", "strides"), "self_sym_sizes": _sizes("x"),
        "self_sym_strides": _strides("x"),
    },
    "linear": {
        "self": None, "weight": None, "mat1_sym_sizes": _sizes("x"), "mat1_sym_strides": _strides("x"),
        "mat2_sym_sizes": _transposed("weight", "sizes"), "mat2_sym_strides": _transposed("weight", "strides"),
    },
    "layer_norm": {**_NORM, "normalized_shape": _plain("shape")},
    "batch_norm": {**_NORM, "weight": _flat("weight"), "training": _always(True), "eps": _plain("eps")},
    "group_norm": _NORM,
    "instance_norm": _NORM,
    "rms_norm": _NORM,
    "conv": {"self_sym_sizes": None, "w_shape": None, "transposed": _always(False)},
    "conv_transpose": {"self_sym_sizes": None, "w_shape": None, "transposed": _always(True)},
    "max_pool2d": {"plans": None, "self_sym_sizes": None},
    "avg_pool2d": _POOL,
    "det": {"self": None, "A": _plain("x"), "result": _plain("out")},
    "slogdet": {"self": None, "result": None, "A": _plain("x"), "sign": _of("out", 0)},
    "qr": {"result": None, "self_sym_sizes": None, "Q": _of("out", 0), "R": _of("out", 1)},
    "svd": {"result": None, "U": _of("out", 0), "S": _of("out", 1), "Vh": _of("out", 2)},
    "eigh": {"result": None, "eigenvalues": _of("out", 0), "eigenvectors": _of("out", 1)},
    "linalg_solve": {"a_shape": None, "b_shape": None, "check": None, "left": _always(True)},
    "euclid": {"self": None, "other": None, "direct": None, "x1": _plain("x"), "x2": _plain("y"), "p": _always(2.0)},
    "as_strided": {
        "own": None, "self_sym_sizes": None, "shape": None, "strides": None, "shift": None,
        "size": _plain("shape"), "stride": _plain("strides"), "storage_offset": _plain("shift"),
    },
    "complex": {"x_dtype": None, "y_dtype": None},
    "masked_scatter": {"y_shape": None, "source_sym_sizes": _plain("y_shape")},
}  # fmt: skip

# Ops, by name or by their nodes', of which torch has a form for numbers too, whose nodes have no edge for them.
TRIMMED = frozenset((
    "masked_fill", "rsub", "fmod", "remainder", "index_fill", "fill", "soft_margin_loss", "IndexBackward0",
    "IndexPutBackward0",
))  # fmt: skip


def views_of(op: Op) -> dict[str, View | None]:
    """Return what nodes of an op show in a way of their own."""
    return TABLE.get(op.name) or TABLE.get(op.title) or {}
